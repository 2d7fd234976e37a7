"""Experiments with classification RBMs (Larochelle & Bengio 2008)."""

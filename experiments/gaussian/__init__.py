"""Experiments with Gaussian–Bernoulli machines on real-valued data."""

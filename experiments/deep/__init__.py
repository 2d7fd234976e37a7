"""Experiments with deep machines."""

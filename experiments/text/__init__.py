"""Experiments on documents."""

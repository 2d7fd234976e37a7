"""Experiments with machines that are given a context."""

"""Test log-likelihoods of RBMs on binary data sets with published numbers."""

"""Likelihoods: every estimate is an object with a value, an interval, and whether to trust it."""

from .exact import ExactLikelihood, exact
from .pseudo import pseudo_log_likelihood

__all__ = ["ExactLikelihood", "exact", "pseudo_log_likelihood"]

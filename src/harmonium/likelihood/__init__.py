"""Likelihoods: every estimate is an object with a value, an interval, and whether to trust it."""

from .ais import Adaptive, Estimate, ais, reverse_ais
from .estimate import TwoSided, estimate
from .exact import ExactLikelihood, exact
from .pseudo import pseudo_log_likelihood
from .tap import TapLikelihood, tap

__all__ = [
    "Adaptive",
    "Estimate",
    "ExactLikelihood",
    "TapLikelihood",
    "TwoSided",
    "ais",
    "estimate",
    "exact",
    "pseudo_log_likelihood",
    "reverse_ais",
    "tap",
]

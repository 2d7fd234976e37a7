"""Log-likelihood and ln Z: exact, annealed (AIS), TAP and pseudo-likelihood estimates with error estimates."""

from .annealing import Adaptive, Estimate, ais, reverse_ais
from .enumerated import ExactLikelihood, exact
from .mean_field import TapLikelihood, tap
from .pseudolikelihood import pseudo_log_likelihood
from .two_sided import TwoSided, estimate

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

"""Log-likelihood and ln Z: exact, annealed (AIS), TAP and pseudo-likelihood estimates with error estimates."""

from ..guard import guard
from .annealing import Adaptive, Estimate, ais, reverse_ais
from .clamped import ClampedEstimate, clamped_ais
from .enumerated import ExactLikelihood, exact
from .lengths import DocumentLikelihood, documents
from .mean_field import TapLikelihood, tap
from .observed_units import ObservedLikelihood, observed
from .pseudolikelihood import pseudo_log_likelihood
from .rung_ratios import TemperedEstimate, tempered
from .two_sided import TwoSided, estimate

__all__ = [
    "Adaptive",
    "ClampedEstimate",
    "DocumentLikelihood",
    "Estimate",
    "ExactLikelihood",
    "ObservedLikelihood",
    "TapLikelihood",
    "TemperedEstimate",
    "TwoSided",
    "ais",
    "clamped_ais",
    "documents",
    "estimate",
    "exact",
    "observed",
    "pseudo_log_likelihood",
    "reverse_ais",
    "tap",
    "tempered",
]

guard(globals())

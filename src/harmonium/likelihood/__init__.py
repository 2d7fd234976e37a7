"""ln Z and log-likelihoods, each with an interval and the problems that were found: exact, annealed, tempered, TAP."""

from ..guard import guard
from .annealing import Adaptive, ais, reverse_ais
from .estimate import estimate
from .log_partition import exact, population, tempering
from .mean_field import tap
from .pseudolikelihood import pseudo
from .results import LogLikelihood, LogPartition
from .weights import Weights

__all__ = [
    "Adaptive",
    "LogLikelihood",
    "LogPartition",
    "Weights",
    "ais",
    "estimate",
    "exact",
    "population",
    "pseudo",
    "reverse_ais",
    "tap",
    "tempering",
]

guard(globals())

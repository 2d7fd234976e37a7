"""Negative phases: the methods to compute the model's part of the gradient."""

from .base import NegativePhase
from .deep import DeepPCD
from .discriminative import Discriminative
from .exact import Exact
from .langevin import GibbsLangevin, Langevin
from .meanfield import MeanField
from .sampled import CD, PCD, Reconstruction, Sampled
from .tempered import ParallelTempering, TrajectoryTempering
from .unbiased import UnbiasedCD
from .weighted_sum import WeightedSum

__all__ = [
    "CD",
    "PCD",
    "DeepPCD",
    "Discriminative",
    "Exact",
    "GibbsLangevin",
    "Langevin",
    "MeanField",
    "NegativePhase",
    "ParallelTempering",
    "Reconstruction",
    "Sampled",
    "TrajectoryTempering",
    "UnbiasedCD",
    "WeightedSum",
]

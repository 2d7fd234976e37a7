"""Negative phases: the methods to compute the model's part of the gradient."""

from .base import NegativePhase
from .deep import DeepPCD
from .exact import Exact
from .langevin import GibbsLangevin, Langevin
from .meanfield import MeanField
from .sampled import CD, PCD, Reconstruction, Sampled
from .tempered import ParallelTempering, TrajectoryTempering

__all__ = [
    "CD",
    "PCD",
    "DeepPCD",
    "Exact",
    "GibbsLangevin",
    "Langevin",
    "MeanField",
    "NegativePhase",
    "ParallelTempering",
    "Reconstruction",
    "Sampled",
    "TrajectoryTempering",
]

"""Negative phases: training methods differ only in where F_model comes from."""

from .base import NegativePhase
from .deep import DeepPCD
from .exact import Exact
from .meanfield import MeanField
from .sampled import CD, PCD, Sampled
from .tempered import ParallelTempering, TrajectoryTempering

__all__ = [
    "CD",
    "PCD",
    "DeepPCD",
    "Exact",
    "MeanField",
    "NegativePhase",
    "ParallelTempering",
    "Sampled",
    "TrajectoryTempering",
]

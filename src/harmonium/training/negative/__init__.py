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

#: negative phases by their names in files and on the command line
PHASES = {
    "cd": CD,
    "pcd": PCD,
    "deep-pcd": DeepPCD,
    "reconstruction": Reconstruction,
    "exact": Exact,
    "parallel-tempering": ParallelTempering,
    "trajectory-tempering": TrajectoryTempering,
    "unbiased-cd": UnbiasedCD,
    "langevin": Langevin,
    "gibbs-langevin": GibbsLangevin,
    "mean-field": MeanField,
    "discriminative": Discriminative,
}

__all__ = [
    "CD",
    "PCD",
    "PHASES",
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

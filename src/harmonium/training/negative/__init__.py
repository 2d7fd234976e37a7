"""Negative phases: the methods to compute the model's part of the gradient."""

from .base import Batch, NegativePhase, State
from .coupled import UnbiasedCD
from .deep import DeepPCD
from .discriminative import Discriminative
from .exact import Exact
from .fixed_points import MeanField
from .gibbs import CD, PCD, Reconstruction, Sampled
from .langevin import GibbsLangevin, Langevin
from .tempering import ParallelTempering, TrajectoryTempering
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
    "Batch",
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
    "State",
    "TrajectoryTempering",
    "UnbiasedCD",
    "WeightedSum",
]

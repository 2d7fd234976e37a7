"""Training: the loop, negative phases, penalties, constraints, schedules, callbacks and run folders."""

from ..guard import guard
from .batches import HiddenStates, Labeled, Redrawn, Weighted
from .callbacks import Callback, LabelError, Metric, MixingTime, Progress
from .constraints import Average, Constraint, ZeroSum
from .contexts import Conditional, Windows
from .greedy import pretrain
from .growing import deepen, widen
from .incomplete import Incomplete
from .loggers import MetricLogger, TensorBoard, WeightsAndBiases
from .loop import Training
from .losses import contrastive, discriminative, joint
from .negative import (
    CD,
    PCD,
    DeepPCD,
    Discriminative,
    Exact,
    GibbsLangevin,
    Langevin,
    MeanField,
    NegativePhase,
    ParallelTempering,
    Reconstruction,
    TrajectoryTempering,
    UnbiasedCD,
    WeightedSum,
)
from .penalties import L1, L2, L1Squared, L2ToMean, Penalty, Smooth
from .plan import Plan
from .rates import RateLimit, default_groups
from .result import Result
from .run import Run
from .schedules import Clock, Constant, Growing, Linear, Schedule, Setting
from .train import fit

__all__ = [
    "CD",
    "L1",
    "L2",
    "PCD",
    "Average",
    "Callback",
    "Clock",
    "Conditional",
    "Constant",
    "Constraint",
    "DeepPCD",
    "Discriminative",
    "Exact",
    "GibbsLangevin",
    "Growing",
    "HiddenStates",
    "Incomplete",
    "L1Squared",
    "L2ToMean",
    "LabelError",
    "Labeled",
    "Langevin",
    "Linear",
    "MeanField",
    "Metric",
    "MetricLogger",
    "MixingTime",
    "NegativePhase",
    "ParallelTempering",
    "Penalty",
    "Plan",
    "Progress",
    "RateLimit",
    "Reconstruction",
    "Redrawn",
    "Result",
    "Run",
    "Schedule",
    "Setting",
    "Smooth",
    "TensorBoard",
    "Training",
    "TrajectoryTempering",
    "UnbiasedCD",
    "Weighted",
    "WeightedSum",
    "WeightsAndBiases",
    "Windows",
    "ZeroSum",
    "contrastive",
    "deepen",
    "default_groups",
    "discriminative",
    "fit",
    "joint",
    "pretrain",
    "widen",
]

guard(globals())

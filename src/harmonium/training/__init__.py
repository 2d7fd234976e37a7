"""Training: the loop, negative phases, transforms, schedules, callbacks and run folders."""

from .batches import HiddenStates, Redrawn, Weighted
from .callbacks import Callback, Metric, MixingTime, Progress
from .defaults import default_epochs, default_groups
from .greedy import pretrain
from .growing import deepen
from .loop import Result, fit
from .losses import contrastive, joint
from .negative import (
    CD,
    PCD,
    DeepPCD,
    Exact,
    GibbsLangevin,
    Langevin,
    MeanField,
    NegativePhase,
    ParallelTempering,
    Reconstruction,
    TrajectoryTempering,
)
from .run import Run
from .schedules import Clock, Constant, GrowingSteps, LinearDecay, Schedule, Setting
from .transforms import L1, L2, Average, Centered, Clip, L1Squared, Transform, ZeroSum

__all__ = [
    "CD",
    "L1",
    "L2",
    "PCD",
    "Average",
    "Callback",
    "Centered",
    "Clip",
    "Clock",
    "Constant",
    "DeepPCD",
    "Exact",
    "GibbsLangevin",
    "GrowingSteps",
    "HiddenStates",
    "L1Squared",
    "Langevin",
    "LinearDecay",
    "MeanField",
    "Metric",
    "MixingTime",
    "NegativePhase",
    "ParallelTempering",
    "Progress",
    "Reconstruction",
    "Redrawn",
    "Result",
    "Run",
    "Schedule",
    "Setting",
    "TrajectoryTempering",
    "Transform",
    "Weighted",
    "ZeroSum",
    "contrastive",
    "deepen",
    "default_epochs",
    "default_groups",
    "fit",
    "joint",
    "pretrain",
]

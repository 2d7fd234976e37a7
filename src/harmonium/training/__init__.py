"""Training: the loop, negative phases, transforms, schedules, callbacks and run folders."""

from .batches import HiddenStates, Redrawn, Weighted
from .callbacks import Callback, Metric, MixingTime, Progress
from .defaults import default_epochs, default_groups
from .greedy import pretrain
from .growing import deepen
from .incomplete import Incomplete
from .loop import Result, fit
from .losses import contrastive, joint
from .negative import (
    CD,
    PCD,
    DeepPCD,
    Exact,
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
    "GrowingSteps",
    "HiddenStates",
    "Incomplete",
    "L1Squared",
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

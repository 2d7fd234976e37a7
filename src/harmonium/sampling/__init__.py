"""Samplers, the paths and ladders they walk on, and how well they mix."""

from .diagnostics import autocorrelation, integrated_autocorrelation_time
from .ladder import Ladder, LadderState, MachineLadder, PathLadder
from .path import Path
from .tempering import Tempered, choose_betas, parallel_tempering, trajectory_tempering

__all__ = [
    "Ladder",
    "LadderState",
    "MachineLadder",
    "Path",
    "PathLadder",
    "Tempered",
    "autocorrelation",
    "choose_betas",
    "integrated_autocorrelation_time",
    "parallel_tempering",
    "trajectory_tempering",
]

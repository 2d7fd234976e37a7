"""Samplers, paths and ladders of machines, and mixing diagnostics."""

from ..guard import guard
from ..machines.kernel import Layers, log_weight, sweep
from ..machines.mixing import Monitor, autocorrelation, integrated_autocorrelation_time
from ..machines.phase_masses import Phases, phases
from .gradient_moves import Moved, gibbs_langevin, langevin
from .ladder import Ladder, LadderState, MachineLadder, PathLadder
from .path import Path
from .population import Population, population_annealing
from .tempering import Tempered, choose_betas, parallel_tempering, trajectory_tempering
from .thermal import TemperatureSweep, temperature_sweep

__all__ = [
    "Ladder",
    "LadderState",
    "Layers",
    "MachineLadder",
    "Monitor",
    "Moved",
    "Path",
    "PathLadder",
    "Phases",
    "Population",
    "TemperatureSweep",
    "Tempered",
    "autocorrelation",
    "choose_betas",
    "gibbs_langevin",
    "integrated_autocorrelation_time",
    "langevin",
    "log_weight",
    "parallel_tempering",
    "phases",
    "population_annealing",
    "sweep",
    "temperature_sweep",
    "trajectory_tempering",
]

guard(globals())

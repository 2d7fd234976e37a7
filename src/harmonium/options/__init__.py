"""Declarations of all options of a run: type, default, help text and bounds.

Each dataclass here is a table of ``config.toml``. The command line, the checks, the printed plan, the documentation of
:func:`harmonium.fit` and the tables in ``docs/cli.md`` are generated from these declarations. This package does not
import torch, so ``harmonium train --help`` starts quickly.

>>> options(TrainingOptions)["batch_size"].default
100
"""

from .declared import Option, check, option, options, plan
from .presets import PRESETS, Preset, find_preset
from .tables import DataOptions, MachineOptions, TrainingOptions

__all__ = [
    "PRESETS",
    "DataOptions",
    "MachineOptions",
    "Option",
    "Preset",
    "TrainingOptions",
    "check",
    "find_preset",
    "option",
    "options",
    "plan",
]

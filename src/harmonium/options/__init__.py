"""The options of a run, declared once: type, default, meaning and bounds of each.

The tables here are those of ``config.toml``. The command line, the checks, the printed plan, the documentation of
:func:`harmonium.fit` and the tables in ``docs/cli.md`` are generated from them. Nothing here imports torch, so that
``harmonium train --help`` answers at once.

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

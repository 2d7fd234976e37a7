"""Named settings of training, found by measuring (see the experiment mnist/500)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import unknown
from .tables import TrainingOptions


@dataclass(frozen=True)
class Preset:
    """Some options of training under one name; options that are given beside it win."""

    name: str
    help: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        TrainingOptions(**self.settings)  # names are checked where a preset is declared
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @property
    def options(self) -> TrainingOptions:
        """All options of training, those that the preset leaves open at their defaults."""
        return TrainingOptions(**self.settings)


PLAIN = Preset(
    "plain",
    "persistent chains, a learning rate that falls to zero and an average over the end of the run",
    {"negative": "pcd:1", "batch_size": 100, "learning_rate": 0.05, "schedule": "linear:0.3", "average": 0.3},
)
BEST = Preset(
    "best",
    "twice the learning rate, with an L2 penalty against overfitting and slow mixing",
    {**PLAIN.settings, "learning_rate": 0.1, "l2": 1.5e-4},
)
BEST_FIXED = Preset(
    "best-fixed",
    "best for rows that are the same in every epoch, which overfit sooner: a stronger L2 penalty",
    {**BEST.settings, "l2": 1e-3},
)
PRESETS = {preset.name: preset for preset in (PLAIN, BEST, BEST_FIXED)}


def preset_names() -> str:
    """The names of the presets in words, for help texts.

    >>> preset_names()
    'plain, best or best-fixed'
    """
    *others, last = PRESETS
    return f"{', '.join(others)} or {last}"


def find_preset(name: str) -> Preset:
    """The preset of a name.

    >>> find_preset("plain").settings["negative"]
    'pcd:1'
    """
    if name not in PRESETS:
        raise unknown("preset", str(name), PRESETS)
    return PRESETS[name]

"""Named settings of the training and of the machine, chosen from measurements (see the experiment mnist/500)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..errors import unknown
from .tables import MachineOptions, TrainingOptions


@dataclass(frozen=True)
class Preset:
    """Named values for some options. Options given explicitly override them.

    Attributes:
        name: name on the command line.
        help: what the preset is.
        settings: values of training options.
        machine: values of machine options, such as ``hidden``; :func:`harmonium.fit`, which gets a machine, uses only
            ``initialize``.

    >>> deep = Preset("deep", "two hidden layers", {"epochs": 20}, machine={"hidden": ["500", "1000"]})
    >>> deep.tables["machine"]["hidden"]
    ['500', '1000']
    """

    name: str
    help: str
    settings: Mapping[str, Any]
    machine: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TrainingOptions(**self.settings)  # raises on an unknown option name when a preset is declared
        MachineOptions(**self.machine)
        for name in ("settings", "machine"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The values by table of the configuration."""
        return {"machine": dict(self.machine), "training": dict(self.settings)}

    @property
    def options(self) -> TrainingOptions:
        """All training options: those of the preset, and defaults for the others."""
        return TrainingOptions(**self.settings)


PLAIN = Preset(
    "plain",
    "persistent chains, a learning rate that decreases to zero, and parameters averaged over the end of the run",
    {"negative": "pcd:1", "batch_size": 100, "learning_rate": 0.05, "schedule": "linear:0.3", "average": 0.3},
)
BEST = Preset(
    "best",
    "plain with twice the learning rate, and an L2 penalty against overfitting and slow mixing",
    {**PLAIN.settings, "learning_rate": 0.1, "l2": 1.5e-4},
)
BEST_FIXED = Preset(
    "best-fixed",
    "best with a stronger L2 penalty, for data that are not redrawn in every epoch and therefore overfit sooner",
    {**BEST.settings, "l2": 1e-3},
)

MODES = Preset(
    "modes",
    "plain with twice the learning rate and initial weights along the principal modes of the data, for short trainings",
    {**PLAIN.settings, "learning_rate": 0.1, "schedule": "linear:0.5"},
    machine={"initialize": "modes"},
)


def _multinary_stack(name: str, task: str, channels: tuple[int, ...], dense: tuple[int, ...] = ()) -> Preset:
    """A stack of Hwang, Hwang & Jo (2020) with 255 levels, trained jointly for their number of epochs.

    The learning rate is 0.01 for the input of a unit at the brightest pixel, 0.01/255 for its weight.
    """
    units = "levels=255,form=integral"
    maps = [f"multinary:{n},{units},kernel=4,stride=2,padding=1" for n in channels]
    return Preset(
        name,
        f"the stack of multinary units of Hwang, Hwang & Jo (2020) for {task}",
        {
            "epochs": 500,
            "batch_size": 128,
            "training": "joint",
            "negative": "reconstruction:1",
            "optimizer": "adam",
            "learning_rate": 4e-5,
        },
        machine={
            "machine": "dbn",
            "visible": f"multinary,{units}",
            "hidden": [*maps, *(f"multinary:{n},{units}" for n in dense)],
            "inputs": "means",
            "scale": 0.002,
        },
    )


MULTINARY_STACKS = (
    _multinary_stack("multinary-faces", "faces of 64×64 pixels", (64, 128, 256, 256), (1000, 500, 200, 100)),
    _multinary_stack("multinary-mnist", "MNIST and Fashion-MNIST", (64, 128, 512)),
    _multinary_stack("multinary-cifar10", "CIFAR-10", (64, 128, 256)),
    _multinary_stack("multinary-silhouettes", "Caltech silhouettes", (32, 64, 128)),
)
PRESETS = {preset.name: preset for preset in (PLAIN, BEST, BEST_FIXED, MODES, *MULTINARY_STACKS)}


def preset_names() -> str:
    """Return the names of the presets as text for help messages.

    >>> preset_names()
    'plain, best, best-fixed, modes, multinary-faces, multinary-mnist, multinary-cifar10 or multinary-silhouettes'
    """
    *others, last = PRESETS
    return f"{', '.join(others)} or {last}"


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    >>> find_preset("plain").settings["negative"]
    'pcd:1'
    """
    if name not in PRESETS:
        raise unknown("preset", str(name), PRESETS)
    return PRESETS[name]

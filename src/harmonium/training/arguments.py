"""The arguments of ``fit``: declaration, checks, and conversion of strings to objects.

Arguments that are also options of a run get their default, bounds and help from ``harmonium.options.TrainingOptions``.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from torch import Tensor
from torch.utils.data import DataLoader

from ..errors import InvalidOption, UnknownArgument, unknown
from ..machines import Machine
from ..options import Preset, TrainingOptions, find_preset, option, options
from ..options.declared import again
from ..options.presets import preset_names
from ..options.synonyms import SYNONYMS
from ..paths import expanded
from . import specs
from .batches import Source, loader_batch_size
from .callbacks import Callback
from .centering import Centered
from .constraints import Average, ZeroSum
from .defaults import default_schedule
from .descent import AnyOptimizer as Optimizer
from .negative import Exact, NegativePhase
from .penalties import L1, L2, L1Squared, L2ToMean, Smooth
from .precision import BFLOAT16
from .schedules import Schedule
from .transforms import Transform

P = ParamSpec("P")
R = TypeVar("R")

#: equivalents in ``fit`` of command-line options that are not arguments of ``fit``
_INSTEAD = {
    "negative": 'negative="pcd:{}"',
    "chains": "negative=harmonium.PCD(1, chains={})",
    "momentum": "optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum={})",
    "l1": "transforms=[harmonium.L1({}), harmonium.Centered()]",
    "l2": "transforms=[harmonium.L2({}), harmonium.Centered()]",
    "l1_squared": "transforms=[harmonium.L1Squared({}), harmonium.Centered()]",
    "l2_to_mean": "transforms=[harmonium.L2ToMean({}), harmonium.Centered()]",
    "smooth": "transforms=[harmonium.Smooth({}, shape=(height, width)), harmonium.Centered()]",
    "average": "transforms=[harmonium.Centered(), harmonium.Average({})]",
    "centered": "transforms=[harmonium.Centered()] or transforms=[]",
    "zero_sum": "transforms=[harmonium.Centered(), harmonium.ZeroSum()]",
    "device": "machine.to({!r}) before the call",
    "dtype": "machine.to(dtype=torch.float64) before the call",
    "hidden": "hidden units of the machine, as in harmonium.RBM(visible, harmonium.units.Bernoulli({}))",
}


@dataclass
class Arguments:
    """The arguments of :func:`harmonium.fit`."""

    machine: Machine
    data: Any
    _: KW_ONLY
    negative: NegativePhase | str | None = again(
        TrainingOptions,
        "negative",
        help="negative phase, which computes the moments of the model: an object such as ``PCD(1)``, or a string "
        'such as "cd:10", "pcd:1", "deep-pcd:1,positive=mean-field", "parallel-tempering:1,rungs=10", '
        '"mean-field:3,method=tap" or "exact".',
        unset="exact for small machines (at most 2^18 values in the sum over states; complete rows; no optimizer, "
        "learning rate or bfloat16 given), otherwise pcd:1; cd:1 for documents, ratings and machines with a context; "
        "cd:5 with hidden counts; deep-pcd:1 for deep machines",
    )
    epochs: int | None = again(TrainingOptions, "epochs")
    batch_size: int = again(TrainingOptions, "batch_size")
    learning_rate: float | None = again(
        TrainingOptions,
        "learning_rate",
        unset="chosen from the data for sgd, and for adam with exact gradients; 0.001 for the others",
    )
    optimizer: Optimizer | Callable[[Iterable[Tensor]], Optimizer] | str | None = again(
        TrainingOptions,
        "optimizer",
        help='"sgd", "adam", "adamw" or "rmsprop", a ``torch.optim`` optimizer of the machine\'s parameters, or a '
        "function that returns one, such as ``lambda p: torch.optim.Adam(p, lr=1e-3)``.",
        details="A ``torch.optim.lr_scheduler`` may change its learning rates between steps. The learning rates of "
        "sgd are chosen from the data (:func:`harmonium.training.default_groups`) if ``learning_rate`` is None.",
        unset="sgd; adam with exact gradients, for documents and for ratings, if no learning rate is given",
    )
    transforms: Sequence[Transform] | None = option(
        None,
        "transforms of gradients and parameters, applied in this order; penalties always come first.",
        unset="(Centered(),)",
    )
    schedule: Schedule | str | None = again(
        TrainingOptions,
        "schedule",
        help='schedule of the learning rate, k and the batch size: "constant", "linear:0.3", "growing:10", or a '
        "function of the clock that returns a ``Setting``.",
        details="",
        unset="linear:0.5 if the learning rate is chosen from the data, or neither it nor an optimizer is given; else "
        "constant",
    )
    preset: str | Preset | None = option(
        None, f"named settings: {preset_names()}; explicit arguments override them.", unset="none"
    )
    callbacks: Sequence[Callback] = option((), "callbacks, called at the start, after each epoch and at the end.")
    run: str | Path | None = option(
        None, "folder for configuration, metrics and checkpoints.", unset="nothing is saved"
    )
    resume: bool = option(False, "continue the run in the folder ``run`` from its last checkpoint, bit-for-bit.")
    seed: int = again(TrainingOptions, "seed")
    progress: bool = option(True, "show a progress bar on a terminal.")
    validation: Any = option(None, "validation rows, for the free-energy gap.", unset="none")
    initialize: bool | str | Mapping[str, Any] | None = option(
        None,
        'whether to initialize the parameters from the data; "normal", "sign" or "modes" for the initial weights, or a '
        'dict of options of ``machine.initialize`` such as {"weights": "sign", "scale": 0.1}.',
        unset="only if all weights are zero, as in a new machine",
    )
    metrics_every: int = again(TrainingOptions, "metrics_every")
    precision: str = again(TrainingOptions, "precision")
    threads: int | None = again(TrainingOptions, "threads")
    config: dict[str, Any] | None = option(
        None, "configuration to write to the folder ``run``.", unset="that of the machine and of these arguments"
    )

    @classmethod
    def of(cls, *positional: Any, **keywords: Any) -> Arguments:
        """Collect the arguments of a call; a preset and a DataLoader provide values that are not given.

        Raises ``UnknownArgument`` with a suggestion for unknown names.
        """
        signature = inspect.signature(cls)
        for name, value in keywords.items():
            if name not in signature.parameters:
                raise _unknown(name, value, list(signature.parameters))
        given = signature.bind(*positional, **keywords).arguments
        found: dict[str, Any] = {}
        preset = given.get("preset")
        if preset is not None:
            chosen = preset if isinstance(preset, Preset) else find_preset(preset)
            found |= keywords_of(chosen.options)
            found |= {name: value for name, value in chosen.machine.items() if name == "initialize"}
            if not isinstance(given.get("optimizer") or "", str):
                found.pop("learning_rate")  # an optimizer object has its own learning rate
        if isinstance(given["data"], DataLoader):
            found |= loader_batch_size(given["data"])
        return cls(**{**found, **given})

    def __post_init__(self) -> None:
        declared = options(TrainingOptions)
        for name in ("epochs", "batch_size", "learning_rate", "seed", "metrics_every", "precision", "threads"):
            setattr(self, name, declared[name].check(getattr(self, name)))
        if self.transforms is not None and (
            isinstance(self.transforms, Transform) or not all(isinstance(part, Transform) for part in self.transforms)
        ):
            raise InvalidOption(
                f"transforms: expected a sequence such as [harmonium.Centered()], found {self.transforms!r}"
            )
        self._optimizer_maker()
        if self.run is not None:
            if not isinstance(self.run, (str, os.PathLike)) or not str(self.run):
                raise InvalidOption(f"run: expected the name of a folder, found {self.run!r}")
            self.run = expanded(self.run)
        if self.resume and self.run is None:
            raise InvalidOption("run: resume=True expects run=…, the folder of the run to resume, found None")

    def phase(self, source: Source) -> NegativePhase:
        """Return the negative phase for these rows."""
        context = self.machine.context is not None
        phase = self._default_phase(source) if self.negative is None else self.negative
        phase = specs.negative_phase(phase) if isinstance(phase, str) else phase
        if not isinstance(phase, NegativePhase):
            raise InvalidOption(
                f'negative: expected a phase such as harmonium.PCD(1) or a string such as "pcd:1", found {phase!r}'
            )
        if context and not phase.conditional:
            raise InvalidOption(
                f"negative: expected CD, Reconstruction or Exact for a machine with a context, found "
                f"{type(phase).__name__}; each row has its own distribution, so chains cannot continue with other rows"
            )
        return phase

    def _default_phase(self, source: Source) -> NegativePhase:
        exact = self._all_default and self.precision != BFLOAT16
        return specs.negative_phase(*specs.default_phase(self.machine, source, self.batch_size, exact=exact))

    def scheduled(self) -> Schedule:
        """Return the schedule."""
        given = self.default_schedule if self.schedule is None else self.schedule
        schedule = specs.schedule(given) if isinstance(given, str) else given
        if not callable(schedule):
            raise InvalidOption(
                f'schedule: expected a function of the clock or a string such as "linear:0.3", found {schedule!r}'
            )
        return schedule

    @property
    def default_schedule(self) -> str:
        """The name of the schedule that is used if none is given."""
        return default_schedule(from_data=self._optimizer_maker() is None or self._all_default)

    @property
    def _all_default(self) -> bool:
        """Whether neither an optimizer nor a learning rate is given."""
        return self.optimizer is None and self.learning_rate is None

    def made_optimizer(self, parameters: Iterable[Tensor]) -> Optimizer | None:
        """Return the optimizer of the parameters; None for learning rates chosen from the data."""
        maker = self._optimizer_maker()
        return maker if maker is None or isinstance(maker, Optimizer) else maker(parameters)

    @property
    def optimizer_name(self) -> str | None:
        """The name of the optimizer, also of the default; None for an optimizer or a function that makes one."""
        if self.optimizer is not None:
            return self.optimizer if isinstance(self.optimizer, str) else None
        conserves = self.machine.machines[0].visible.conserves
        return specs.default_optimizer(conserves, self.learning_rate, exact=self._exact)

    @property
    def _exact(self) -> bool:
        """Whether the gradients are exact."""
        return isinstance(self.negative, Exact) or self.negative == "exact"

    def _optimizer_maker(self) -> Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None:
        name = self.optimizer_name
        given: Any = self.optimizer if name is None else name
        if isinstance(given, str):
            given = specs.optimizer(given, self.learning_rate, exact=self._exact)
        elif self.learning_rate is not None:
            if not (isinstance(given, type) and issubclass(given, Optimizer)):
                raise InvalidOption(
                    f"learning_rate: expected None with an optimizer object, found {self.learning_rate:g}. "
                    "Set the learning rate in the optimizer."
                )
            given = partial(cast("Any", given), lr=self.learning_rate)
        if not (given is None or isinstance(given, Optimizer) or callable(given)):
            raise InvalidOption(
                f"optimizer: expected a torch.optim optimizer, a function that makes one or a name, found {given!r}"
            )
        return cast("Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None", given)


def keywords_of(chosen: TrainingOptions, image: Sequence[int] | None = None) -> dict[str, Any]:
    """Convert options of a run to arguments of ``fit``, except the device, which the caller sets.

    >>> found = keywords_of(TrainingOptions(l2=0.001, chains=10))
    >>> found["negative"].config(), [type(part).__name__ for part in found["transforms"]]
    ({'method': 'pcd', 'k': 1, 'chains': 10}, ['L2', 'Centered'])
    """
    found: dict[str, Any] = {
        name: getattr(chosen, name)
        for name in ("epochs", "batch_size", "seed", "metrics_every", "precision", "threads", "optimizer")
    }
    if chosen.negative is not None or chosen.chains is not None:  # else chosen by fit
        found["negative"] = specs.negative_phase(chosen.negative or specs.default_negative(1), chosen.chains)
    found["schedule"] = None if chosen.schedule is None else specs.schedule(chosen.schedule)
    found["transforms"] = transforms_of(chosen, image)
    name = chosen.optimizer or specs.default_optimizer(False)
    made = specs.optimizer(name, chosen.learning_rate, chosen.momentum)  # also checks the three values
    return found | ({"learning_rate": chosen.learning_rate} if chosen.momentum is None else {"optimizer": made})


def transforms_of(chosen: TrainingOptions, image: Sequence[int] | None = None) -> list[Transform]:
    """Return the transforms in the order in which they are applied; ``image`` is the shape of a row as an image."""
    made: list[Transform] = []
    if chosen.l1 is not None:
        made.append(L1(chosen.l1))
    if chosen.l2 is not None:
        made.append(L2(chosen.l2))
    if chosen.l1_squared is not None:
        made.append(L1Squared(chosen.l1_squared))
    if chosen.l2_to_mean is not None:
        made.append(L2ToMean(chosen.l2_to_mean))
    if chosen.smooth is not None:
        made.append(Smooth(chosen.smooth, image))
    if chosen.centered:
        made.append(Centered())
    if chosen.zero_sum:
        made.append(ZeroSum())
    if chosen.average is not None:
        made.append(Average(chosen.average))
    return made


def takes(arguments: Callable[P, Arguments]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Decorator: give a function of ``*args, **kwargs`` the signature of ``arguments``.

    Type checkers, editors and ``help`` then show the arguments. ``{arguments}`` in the docstring is replaced by their
    list.
    """

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        signature = inspect.signature(arguments)
        returned = inspect.signature(function).return_annotation
        function.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        function.__doc__ = (function.__doc__ or "").replace("{arguments}", _listed())
        return cast("Callable[P, R]", function)

    return decorate


def _listed() -> str:
    """Return the ``Args:`` lines of the docstring of ``fit``."""
    lines = []
    for field in fields(Arguments):
        about = field.metadata.get("about")
        if about is None:  # machine and data are described in the docstring itself
            continue
        words = " ".join(
            part for part in (about.help, about.details, about.unset and f"Default: {about.unset}.") if part
        )
        words = words[0].lower() + words[1:]
        lines += textwrap.wrap(f"{field.name}: {words}", 118, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "\n".join(lines).lstrip()


def _unknown(name: str, value: Any, known: Sequence[str]) -> UnknownArgument:
    """Return the error for an unknown argument of ``fit``, with a suggestion."""
    meant = SYNONYMS.get(name.lower(), name)
    if meant in _INSTEAD and not (name == meant and meant in known):
        return UnknownArgument(f"unknown argument '{name}': use {_INSTEAD[meant].format(value)}")
    if meant in known:
        return UnknownArgument(f"unknown argument '{name}': use {meant}={value!r}")
    return UnknownArgument(str(unknown("argument", name, known)))

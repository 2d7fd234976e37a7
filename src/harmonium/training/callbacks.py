"""Callbacks: user code that runs at the start, after each epoch and at the end of training."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine, Label
from ..machines.mixing import watch
from .batches import as_source
from .negative import NegativePhase

_LARGE_DRIFT = 5  # standard errors


def _nothing() -> None:
    """Return None, for a progress outside of a training."""


@dataclass
class Progress:
    """State of training, passed to callbacks.

    A callback may add values to ``metrics``; they are recorded in the history and in ``metrics.csv``. It may also
    replace ``negative`` by a phase with other options. For a single machine, ``chains()`` returns visible states of the
    chains, or None, and ``rows()`` as many rows of the data as a batch has.
    """

    machine: Any  # a machine or a stack of machines
    negative: NegativePhase
    epoch: int
    epochs: int
    chains: Callable[[], Tensor | None] = _nothing
    rows: Callable[[], Tensor | None] = _nothing
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    stop: bool = False


class Callback:
    """Base class of callbacks. Override the hooks you need; set ``progress.stop = True`` to stop after the epoch.

    A subclass with an unknown ``on_…`` method raises ``InvalidOption``, because the method would never be called.
    """

    #: whether it is also called in the pretraining of the layers of a deep machine
    pretraining: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_hooks(cls.__name__, vars(cls))

    def on_start(self, progress: Progress) -> None:
        """Called before the first step."""

    def on_epoch(self, progress: Progress) -> None:
        """Called after every epoch, before its metrics are recorded."""

    def on_end(self, progress: Progress) -> None:
        """Called after the last step."""


HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


def _check_hooks(owner: str, names: Iterable[str]) -> None:
    """Raise for the first name ``on_…`` that is not a hook."""
    for name in names:
        if name.startswith("on_") and name not in HOOKS:
            close = difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.0)[0]
            raise InvalidOption(
                f"callbacks: expected {owner} to define only the hooks {', '.join(HOOKS)}, found {name}, "
                f"which is never called: did you mean {close}?"
            )


def check_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """Return the callbacks as a list; raise if one is not a :class:`Callback` or has unknown hooks.

    >>> check_callbacks([print])
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: callbacks: expected instances of harmonium.Callback, found <built-in function print>
    """
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Iterable):
        raise InvalidOption(f"callbacks: expected a sequence such as [harmonium.Metric(...)], found {callbacks!r}")
    checked = list(callbacks)
    for callback in checked:
        if isinstance(callback, type) and issubclass(callback, Callback):
            raise InvalidOption(f"callbacks: expected an instance, {callback.__name__}(...), found the class")
        if not isinstance(callback, Callback):
            raise InvalidOption(f"callbacks: expected instances of harmonium.Callback, found {callback!r}")
        _check_hooks(type(callback).__name__, dir(callback))  # includes instance attributes and other base classes
    return checked


class Metric(Callback):
    """Record ``function(machine)`` as the metric ``name`` every ``every`` epochs.

    >>> Metric("norm", lambda machine: 0.0).name
    'norm'
    """

    def __init__(self, name: str, function: Any, every: int = 1) -> None:
        self.name, self.function, self.every = name, function, every

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every == 0 or progress.epoch == progress.epochs:
            with torch.no_grad():
                progress.metrics[self.name] = float(self.function(progress.machine))


class LabelError(Callback):
    """Record ``label_error``, the share of validation rows whose most probable label given the features is wrong.

    The machine must have a label in its visible layer (:class:`harmonium.machines.Label`).

    Args:
        validation: rows of features and label, as in :func:`fit`; see :class:`Labeled`.
        every: number of epochs between measurements.

    >>> import harmonium as hm
    >>> data, labels = hm.data.load("digits", binarize="threshold", labels=True)
    >>> watched = LabelError(hm.Labeled(data, labels))
    >>> rbm = hm.tasks.label_rbm(hm.units.Bernoulli(64), 10, 8)
    >>> result = hm.fit(rbm, hm.Labeled(data, labels), epochs=1, callbacks=[watched], progress=False)
    >>> 0 < result.history[0]["label_error"] < 1
    True
    """

    def __init__(self, validation: Any, every: int = 1) -> None:
        self.validation, self.every = validation, every

    def on_start(self, progress: Progress) -> None:
        self._label = Label(progress.machine)
        self._rows = as_source(self.validation, progress.machine, what="validation data")

    @torch.no_grad()
    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every and progress.epoch != progress.epochs:
            return
        machine, label = progress.machine, self._label
        wrong = [
            label.log_probability(machine, rows).argmax(1) != label.index(rows) for rows in self._rows.chunks(machine)
        ]
        progress.metrics["label_error"] = torch.cat(wrong).double().mean().item()


class MixingTime(Callback):
    """Measure the mixing time of the machine and whether the chains of the negative phase are in equilibrium.

    Every ``every`` epochs, the chains of the negative phase (or the rows of the batch, if it has no chains) are copied
    and run for ``sweeps`` sweeps with fixed parameters. Two metrics are recorded: ``mixing_time``, the number of sweeps
    2τ between independent states (infinite if longer than the run can measure), and ``chain_drift``, the change of the
    mean of the chains in standard errors, which is small in equilibrium. :attr:`verdict` is a summary of the last
    measurement. ``chains`` limits the number of chains: few are enough for the mixing time, and cost less.

    >>> import harmonium as hm
    >>> watched = MixingTime(sweeps=200)
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> result = hm.fit(rbm, data, negative="pcd:1", epochs=1, callbacks=[watched], seed=0, progress=False)
    >>> watched.verdict.split(":")[0]
    'in equilibrium'
    """

    def __init__(self, every: int = 1, sweeps: int = 1000, seed: int = 0, chains: int | None = None) -> None:
        if every < 1 or sweeps < 20 or (chains is not None and chains < 2):
            raise InvalidOption(f"expected every ≥ 1, sweeps ≥ 20 and chains ≥ 2, found {every}, {sweeps} and {chains}")
        self.every, self.sweeps, self.seed, self.chains = every, sweeps, noise.check_seed(seed), chains
        self.verdict = ""

    def on_start(self, progress: Progress) -> None:
        if not isinstance(progress.machine, BoltzmannMachine):
            raise InvalidOption(
                f"MixingTime expects a single machine, found a stack of {len(progress.machine.machines)}; "
                "use it with hm.pretrain"
            )
        if progress.machine.context is not None:
            raise InvalidOption(
                "MixingTime expects a machine without a context, because it compares chains of the same distribution, "
                f"found {type(progress.machine).__name__}"
            )

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every and progress.epoch != progress.epochs:
            return
        machine, phase = progress.machine, progress.negative
        chains = progress.chains()
        start = progress.rows() if chains is None else chains
        assert start is not None
        start = start[: self.chains]
        monitor, _ = watch(machine, start, self.sweeps, noise.generator(self.seed, machine.device))
        time, drift = 2 * monitor.time, monitor.drift(since=0)
        progress.metrics |= {"mixing_time": time, "chain_drift": drift}
        self.verdict = equilibrium_verdict(getattr(phase, "k", 1), time, drift, chains is not None)


def equilibrium_verdict(k: int, time: float, drift: float, chains: bool) -> str:
    """Return in words whether training was in equilibrium.

    Args:
        k: number of Gibbs sweeps of a training step.
        time: mixing time, the number of sweeps between independent states.
        drift: change of the mean of the chains with fixed parameters, in standard errors.
        chains: whether the negative phase has chains that continue from step to step.

    >>> equilibrium_verdict(10, 4.0, 0.5, True)
    'in equilibrium: the mixing time is 4 sweeps, a training step makes 10'
    """
    if math.isinf(time):
        return f"out of equilibrium: the mixing time is longer than its measurement, a training step makes {k} sweeps"
    facts = f"the mixing time is {time:.0f} sweeps, a training step makes {k}"
    if chains and drift > _LARGE_DRIFT:
        return f"out of equilibrium: with fixed parameters, the chains move by {drift:.0f} standard errors; {facts}"
    if k >= round(time):
        return f"in equilibrium: {facts}"
    if chains:
        return f"in equilibrium so far: with fixed parameters, the means of the chains do not move; {facts}"
    return f"unknown: this negative phase has no chains; {facts}"

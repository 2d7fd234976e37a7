"""Callbacks: code of the user's own at the start, after each epoch and at the end."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.mixing import watch
from .negative import NegativePhase


@dataclass
class Progress:
    """What a callback sees. ``metrics`` of the epoch may be added to; they go into the history and the run's table."""

    machine: BoltzmannMachine
    negative: NegativePhase
    epoch: int
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    stop: bool = False


class Callback:
    """Override what is needed; set ``progress.stop`` to end training after the epoch.

    A method ``on_…`` that is none of the hooks would never be called, so a subclass that has one is rejected.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_hooks(cls.__name__, vars(cls))

    def on_start(self, progress: Progress) -> None:
        """Before the first step."""

    def on_epoch(self, progress: Progress) -> None:
        """After every epoch, before it is recorded."""

    def on_end(self, progress: Progress) -> None:
        """After the last step."""


HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


def _check_hooks(owner: str, names: Iterable[str]) -> None:
    """Raise for the first name ``on_…`` that is no hook."""
    for name in names:
        if name.startswith("on_") and name not in HOOKS:
            close = difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.0)[0]
            raise InvalidOption(
                f"callbacks: expected methods of {owner} among the hooks {', '.join(HOOKS)}, found {name}, "
                f"which is never called: did you mean {close}?"
            )


def check_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """The callbacks as a list; anything that is no :class:`Callback`, or has unknown hooks, is rejected.

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
            raise InvalidOption(f"callbacks: expected an instance, {callback.__name__}(...), found the class itself")
        if not isinstance(callback, Callback):
            raise InvalidOption(f"callbacks: expected instances of harmonium.Callback, found {callback!r}")
        _check_hooks(type(callback).__name__, dir(callback))  # those set on the object, and of its other bases
    return checked


class Metric(Callback):
    """Record ``function(machine)`` as ``name``, every ``every`` epochs.

    >>> Metric("norm", lambda machine: 0.0).name
    'norm'
    """

    def __init__(self, name: str, function: Any, every: int = 1) -> None:
        self.name, self.function, self.every = name, function, every

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every == 0 or progress.epoch == progress.epochs:
            with torch.no_grad():
                progress.metrics[self.name] = float(self.function(progress.machine))


class MixingTime(Callback):
    """How long the machine takes to forget, against the k sweeps of a training step; is learning in equilibrium?

    Every ``every`` epochs the chains of the negative phase are copied (those of the batch, where it has none) and run
    on for ``sweeps`` with the parameters held. Recorded are ``mixing_time``, the sweeps 2τ between independent states
    (infinite when longer than the run can tell), and ``chain_drift``, how far their mean moved, in standard errors:
    chains that represented the machine do not move. The :attr:`verdict` says the last of it in words.

    >>> import harmonium as hm
    >>> watched = MixingTime(sweeps=200)
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> result = hm.fit(rbm, data, epochs=1, callbacks=[watched], seed=0, progress=False)
    >>> watched.verdict.split(":")[0]
    'in equilibrium'
    """

    def __init__(self, every: int = 1, sweeps: int = 1000, seed: int | None = None) -> None:
        if every < 1 or sweeps < 20:
            raise InvalidOption(f"expected every ≥ 1 and sweeps ≥ 20, found {every} and {sweeps}")
        self.every, self.sweeps, self.seed = every, sweeps, noise.resolve_seed(seed)
        self.verdict = ""

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every and progress.epoch != progress.epochs:
            return
        machine, phase = progress.machine, progress.negative
        chains = phase.chain_states()
        start = (phase.data_slot if chains is None else chains).detach().clone()
        monitor, _ = watch(machine, start, self.sweeps, noise.generator(self.seed, machine.device))
        time, drift = 2 * monitor.time, monitor.drift(since=0)
        progress.metrics |= {"mixing_time": time, "chain_drift": drift}
        self.verdict = self._words(phase.k, time, drift, chains is not None)

    def _words(self, k: int, time: float, drift: float, chains: bool) -> str:
        if math.isinf(time):
            return f"out of equilibrium: {self.sweeps} sweeps are too few to forget, and a training step makes {k}"
        facts = f"independent states are {time:.0f} sweeps apart, a training step makes {k}"
        if chains and drift > 5:
            return f"out of equilibrium: left alone, the chains move by {drift:.0f} standard errors; {facts}"
        if k >= round(time):
            return f"in equilibrium: {facts}"
        if chains:
            return f"in equilibrium so far: left alone, the chains stay where they are; {facts}"
        return f"unknown: this negative phase has no chains; {facts}"

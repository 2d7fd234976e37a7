"""Joint training of all machines of a stack: negative phases and transforms, one copy for each machine.

The loss of a stack is the sum of the losses of its machines, where the input of a machine, passed up from the one
below, is a constant. The gradient of the sum is then that of each machine, and a step of the stack consists of a step
of every machine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from ..machines import RBM, Machine
from ..machines.scaling import Scaling
from .descent import AnyOptimizer
from .negative import NegativePhase
from .negative.composite import Composite
from .schedules import Clock
from .transforms import Rates, Transform, same_rate


def is_stack(machine: Machine) -> bool:
    """Return whether the machine is a stack of machines."""
    return machine.machines[0] is not machine


def jointly(
    machine: Machine, phase: NegativePhase, transforms: Iterable[Transform]
) -> tuple[NegativePhase, list[Transform]]:
    """Return the negative phase and the transforms for a machine: for a stack, those with a copy for each machine."""
    if not is_stack(machine):
        return phase, list(transforms)
    return Joint(phase), [ForEachMachine(transform) for transform in transforms]


class Joint(Composite):
    """The negative phase of a stack: a copy of ``phase`` for each machine, on the input passed up from below."""

    def __init__(self, phase: NegativePhase) -> None:
        self._given = phase
        self.phases = []

    @property
    def kind(self) -> str:
        return f"Joint {self._given.kind}"

    @property
    def generative(self) -> bool:  # type: ignore[override]
        """Whether the machines become models of their input."""
        return self._given.generative

    @property
    def k(self) -> int:
        """The number of Gibbs sweeps per step, in every machine."""
        return self._given.k

    @k.setter
    def k(self, value: int) -> None:
        for phase in (self._given, *self.phases):
            phase.k = value

    def config(self) -> dict[str, Any]:
        return self._given.config()

    @torch.no_grad()
    def begin(self, machine: Any, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        self.phases = [copy.deepcopy(self._given) for _ in machine.machines]
        for phase, (rbm, rows) in zip(self.phases, machine.stacked(start, generator=generator), strict=True):
            phase.begin(rbm, batch_size, rows, generator)
        self._collect(batch_size)

    def resize(self, machine: Any, batch_size: int) -> None:
        for phase, rbm in zip(self.phases, machine.machines, strict=True):
            phase.resize(rbm, batch_size)
        self._collect(batch_size)

    def _collect(self, batch_size: int) -> None:
        links = [link for phase in self.phases for link in phase.coupling_gradients.values()]
        self.share_batch(batch_size, dict(enumerate(links)))

    @torch.no_grad()
    def evaluate(self, machine: Any, generator: Generator | None) -> None:
        for phase, (rbm, rows) in zip(self.phases, machine.stacked(self.batch, generator=generator), strict=True):
            if rows is not phase.batch:
                phase.batch.copy_(rows)
            phase.evaluate(rbm, generator)

    def hidden_means(self, machine: Any) -> list[Tensor]:
        pairs = zip(self.phases, machine.machines, strict=True)
        return [mean for phase, rbm in pairs for mean in phase.hidden_means(rbm)]

    def state_dict(self) -> dict[str, Any]:
        return {"machines": [phase.state_dict() for phase in self.phases]}

    def load_state_dict(self, state: dict[str, Any], machine: Any) -> None:
        for phase, rbm, own in zip(self.phases, machine.machines, state["machines"], strict=True):
            phase.load_state_dict(own, rbm)


class ForEachMachine(Transform):
    """A copy of ``transform`` for each machine of a stack to which it applies."""

    def __init__(self, transform: Transform) -> None:
        self._given = transform
        self._copies: list[Transform | None] = []

    @property
    def kind(self) -> str:
        return self._given.kind

    def check(self, machine: Any, optimizer: AnyOptimizer) -> None:
        self._copies = [copy.deepcopy(self._given) if self._given.applies(rbm) else None for rbm in machine.machines]
        for k, (copied, rbm) in enumerate(zip(self._copies, machine.machines, strict=True), 1):
            try:
                if copied is not None:
                    copied.check(rbm, optimizer)
            except InvalidOption as error:
                raise InvalidOption(f"machine {k}: {error}") from None
        if not any(self._copies):
            self._given.check(machine.machines[0], optimizer)  # raises

    def _each(self, machine: Any, phase: Any) -> Iterator[tuple[int, Transform, RBM, NegativePhase]]:
        for k, (copied, rbm, own) in enumerate(zip(self._copies, machine.machines, phase.phases, strict=True)):
            if copied is not None:
                yield k, copied, rbm, own

    def begin(self, machine: Any, data_mean: Tensor) -> None:
        mean = data_mean.to(machine.dtype).unsqueeze(0)
        for copied, (rbm, rows) in zip(self._copies, machine.stacked(mean, inputs="means"), strict=True):
            if copied is not None:
                copied.begin(rbm, rows[0] if rows is not mean else data_mean)

    def measured(self, scaling: Scaling) -> None:
        if self._copies[0] is not None:  # the inputs of the other machines are hidden states
            self._copies[0].measured(scaling)

    @property
    def linear(self) -> bool:
        return all(copied is None or copied.linear for copied in self._copies)

    def prepare(self, machine: Any, phase: Any) -> None:
        for _, copied, rbm, own in self._each(machine, phase):
            copied.prepare(rbm, own)

    def gradient(self, machine: Any, phase: Any) -> None:
        for k, copied, rbm, own in self._each(machine, phase):
            if k > 0:  # the machines below have changed, and with them the mean of the input
                copied.follow(own.batch.mean(0))
            copied.gradient(rbm, own)

    def enter(self, machine: Any, phase: Any, optimizer: AnyOptimizer) -> None:
        for _, copied, rbm, own in self._each(machine, phase):
            copied.enter(rbm, own, optimizer)

    def leave(self, machine: Any, phase: Any) -> None:
        for _, copied, rbm, own in self._each(machine, phase):
            copied.leave(rbm, own)

    def pull_back(self, machine: Any, phase: Any, learning_rate_of: Rates = same_rate) -> None:
        for _, copied, rbm, own in self._each(machine, phase):
            copied.pull_back(rbm, own, learning_rate_of)

    def parameters(self, machine: Any, clock: Clock) -> None:
        for copied, rbm in self._pairs(machine):
            copied.parameters(rbm, clock)

    def end(self, machine: Any) -> None:
        for copied, rbm in self._pairs(machine):
            copied.end(rbm)

    def _pairs(self, machine: Any) -> Sequence[tuple[Transform, RBM]]:
        pairs = zip(self._copies, machine.machines, strict=True)
        return [(copied, rbm) for copied, rbm in pairs if copied is not None]

    def state_dict(self) -> dict[str, Any]:
        return {"machines": [None if copied is None else copied.state_dict() for copied in self._copies]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for copied, own in zip(self._copies, state["machines"], strict=True):
            if copied is not None:
                copied.load_state_dict(own)

    def config(self) -> dict[str, Any]:
        return self._given.config()

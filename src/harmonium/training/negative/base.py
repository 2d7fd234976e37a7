"""The contract of negative phases, which compute the gradient of ⟨F⟩_data - F_model.

A phase is a value: a frozen dataclass whose fields are its options. What changes during training is its state, a tree
of tensors, numbers, lists and dicts:

    state = phase.init(machine, rows, generator)
    gradient, state = phase.step(machine, batch, state, generator)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Generator, Tensor

from ...allocation import check_memory
from ...checks import count
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ..gradient import Gradient

State = dict[str, Any]


class Batch(NamedTuple):
    """Rows of the data.

    Attributes:
        visible: states (n, *visible).
        context: contexts (n, *context), for a machine with a context.
        missing: mask (n, *visible) of values that are missing and that the phase sums out; else they are filled in.
    """

    visible: Tensor
    context: Tensor | None = None
    missing: Tensor | None = None


@dataclass(frozen=True)
class NegativePhase:
    """Base class. A subclass is a frozen dataclass with :meth:`step`; it may have a state, from :meth:`init`."""

    #: whether matrix products may be rounded to bfloat16 (see ``precision`` of ``fit``)
    supports_bfloat16: ClassVar[bool] = False
    #: whether the phase can train a machine with a context
    conditional: ClassVar[bool] = False
    #: whether it sums out missing values; else they are drawn before each step
    sums_missing: ClassVar[bool] = False
    #: whether the phase makes the machine a model of all visible units, so that its samples resemble the data
    generative: ClassVar[Any] = True
    #: whether tensors of the state may grow, so that those of a checkpoint have other first dimensions
    grows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("k", "chains"):  # of the phases that have them
            value = getattr(self, name, None)
            if value is not None and count(name, value) < 1:
                raise InvalidOption(f"{name}: expected at least 1, found {value}")

    def resolved(self, batch_size: int) -> Self:
        """Return the phase with the number of chains that it has for this batch size."""
        return replace(self, **{"chains": batch_size}) if getattr(self, "chains", batch_size) is None else self

    def with_sweeps(self, k: int) -> Self:
        """Return the phase with ``k`` sweeps per step, if it makes sweeps."""
        return replace(self, **{"k": k}) if hasattr(self, "k") else self

    def check(self, machine: BoltzmannMachine) -> None:
        """Raise :class:`InvalidOption` if the phase cannot train the machine."""

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        """Return the state before the first step; ``rows`` (n, *visible) are some rows of the data."""
        return {}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        """Return the gradient for a batch and the next state; ``batch`` and the tensors of ``state`` do not change."""
        raise NotImplementedError

    def check_state(self, machine: BoltzmannMachine, state: State) -> None:
        """Raise ``ValueError`` if the parts of a state that was read from a file do not fit together."""

    def by_statistics(self, batch: Batch) -> bool:
        """Return whether the gradient consists of the units' statistics, which may refer to the origin of a unit."""
        return False

    def visible_chains(self, machine: BoltzmannMachine, state: State, generator: Generator | None) -> Tensor | None:
        """Return visible states (chains, *visible) of the chains, or None if no chains continue from step to step."""
        return None

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        """Return the exact mean log-probability that training increases, for small machines: by default of the data."""
        return as_rbm(machine, self).log_probability(data).mean()


def as_rbm(machine: BoltzmannMachine, what: Any) -> RBM:
    """Return the machine if it is an RBM, else raise ``InvalidOption``."""
    if not isinstance(machine, RBM):
        name = what if isinstance(what, str) else type(what).__name__
        raise InvalidOption(f"{name} expects an RBM (two layers), found {type(machine).__name__}")
    return machine


def cycled(rows: Tensor, n: int) -> Tensor:
    """Return ``n`` of the rows, repeated if there are fewer."""
    size = n * rows[0].numel() * rows.element_size()
    check_memory(f"batch and chains: {n:.3g} rows of {rows[0].numel()} units", size, "use fewer chains")
    return rows[torch.arange(n, device=rows.device) % len(rows)]


@torch.no_grad()
def complete(machine: Any, rows: Tensor, missing: Tensor, sweeps: int, generator: Generator | None) -> None:
    """Replace the entries ``missing`` of ``rows`` (n, *visible) by draws given the others: Gibbs sweeps of an RBM."""
    rbm, state = as_rbm(machine, "completion of missing values"), [rows, rows]
    for _ in range(sweeps):
        state = rbm.sweep(state, generator, held={0: ~missing})  # draws the hidden layer first
    rows.copy_(state[0])

"""Default methods of units with finitely many states, as explicit sums over the states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from .. import noise
from . import lattice
from .probabilities import softmax

if TYPE_CHECKING:
    from .base import Unit


def log_partition(unit: Unit, B: Tensor, A: Tensor | None) -> Tensor:
    """ln Σ_x e^{-U(x) + Bx - Ax²/2} for each unit: (..., *shape) -> (..., *site shape)."""
    return lattice.log_sum(_exponents(unit, _states(unit, "log_partition", B), B, A))


def sample(unit: Unit, B: Tensor, A: Tensor | None, generator: Generator | None) -> Tensor:
    """A draw of each unit: (..., *shape) -> (..., *shape)."""
    states = _states(unit, "sample", B)
    exponents = _exponents(unit, states, B, A).detach()
    return states[noise.categorical(softmax(exponents), generator).argmax(-1)]


def mode(unit: Unit, B: Tensor) -> Tensor:
    """The most probable state of each unit: (..., *shape) -> (..., *shape)."""
    # float32 cannot resolve the differences between weights in a large field
    B64 = B.detach().to(torch.float64)
    states = _states(unit, "mode", B64)
    weights = torch.stack([unit.log_weight(state.expand(B.shape)) + unit.dot(B64, state) for state in states])
    return states[weights.argmax(0)].to(B.dtype)


def _states(unit: Unit, what: str, like: Tensor) -> Tensor:
    states = unit.support.states()
    if states is None:
        raise NotImplementedError(f"{unit.name()}: a unit with infinitely many states must define {what}")
    return states.to(like)


def _exponents(unit: Unit, states: Tensor, B: Tensor, A: Tensor | None) -> Tensor:
    """-U(x) + Bx - Ax²/2 of every state x of every unit: (..., *site shape, states)."""
    event = unit.event_shape
    states = states.view(len(states), *(1 for _ in range(B.ndim - len(event))), *event)
    # the natural parameters may have leading dimensions, at most those of B
    x = states.expand(len(states), *(1 for _ in range(B.ndim - len(unit.shape))), *unit.shape)
    exponents = unit.log_weight(x) + unit.dot(B, states)
    if A is not None:
        exponents = exponents - unit.dot(A, states.square()) / 2
    return exponents.movedim(0, -1)

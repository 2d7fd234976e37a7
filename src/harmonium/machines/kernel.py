"""The Gibbs sweep and the marginal log-weight for any chain of layers.

A chain of layers is a machine, a point on a path between two machines, or all rungs of a ladder at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Generator, Tensor

from ..units import Unit

State = list[Tensor]
Held = Mapping[int, Tensor | bool]


class Layers(Protocol):
    """A chain of layers, each coupled to the next; layer 0 is the visible one.

    A state has one tensor for each layer, (*batch, *shape), with the same batch dimensions throughout: (n,) for a
    machine, (rungs, chains) for a ladder, whose unit parameters have a leading dimension for the rungs.
    """

    @property
    def depth(self) -> int:
        """The number of layers."""
        ...

    def layer(self, layer: int) -> Unit:
        """The units of a layer."""
        ...

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a layer from its neighbors in ``state``: (*batch, *shape). Other layers may be ``None``."""
        ...


@torch.no_grad()
def sweep(
    chain: Layers, state: Sequence[Tensor], generator: Generator | None = None, *, held: Held | None = None
) -> State:
    """One Gibbs sweep: every odd layer given the even ones, then every even layer given the odd ones.

    Args:
        chain: a machine, a point on a path, or a ladder.
        state: one tensor (*batch, *shape) for each layer; not modified.
        held: units that are not updated, by layer index: ``True`` for the whole layer, or a boolean mask that
            broadcasts to the layer's states. The sweep then samples the other units conditional on these: it leaves
            that conditional distribution invariant. All components of a vector unit must be held together.

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli
    >>> rbm, state = RBM(Bernoulli(4), Bernoulli(2)), [torch.ones(1, 4), torch.ones(1, 2)]
    >>> mask = torch.tensor([True, True, False, False])
    >>> sweep(rbm, state, torch.Generator().manual_seed(0), held={0: mask})[0][:, mask]
    tensor([[1., 1.]])
    """
    state = list(state)
    for parity in (1, 0):
        half_sweep(chain, state, parity, generator, held=held)
    return state


@torch.no_grad()
def half_sweep(
    chain: Layers,
    state: State,
    parity: int,
    generator: Generator | None = None,
    *,
    held: Held | None = None,
    fields: Mapping[int, Tensor] | None = None,
    means: Mapping[int, Tensor] | None = None,
    in_place: bool = False,
) -> dict[int, Tensor]:
    """Draw the layers of one parity given the others; returns the fields of the drawn layers, by layer index.

    The draws replace entries of the list ``state`` or, with ``in_place``, are written into its tensors. ``fields`` and
    ``means`` are fields and conditional means that are already known, by layer index; ``means`` are used only with
    ``in_place``. With ``in_place``, a field without a known mean is overwritten as scratch memory.
    """
    held, known, seen = held or {}, fields or {}, {}
    for k in range(parity, chain.depth, 2):
        mask = held.get(k, False)
        if mask is True:
            continue
        unit = chain.layer(k)
        field = seen[k] = known[k] if k in known else chain.field(k, state)
        if in_place and mask is False:
            unit.sample_(field, state[k], generator, mean=means.get(k) if means else None)
            continue
        drawn = unit.sample(field, generator=generator)
        state[k] = torch.where(mask, state[k], drawn) if isinstance(mask, Tensor) else drawn
    return seen


def log_weight(
    chain: Layers,
    state: Sequence[Tensor | None],
    *,
    summed: int = 1,
    dtype: torch.dtype | None = None,
    fields: Mapping[int, Tensor] | None = None,
) -> Tensor:
    """ln of the unnormalized probability of the layers of one parity, with the others summed out: (*batch,).

    That is Σ_kept -U(x) + Σ_summed ln Z(field), because layers of one parity are independent given the others.

    Args:
        chain: a machine, a point on a path, or a ladder.
        state: a tensor (*batch, *shape) for each layer that is not summed out; the others may be ``None``.
        summed: parity of the layers to sum out. With 1, the result for an RBM is minus the free energy.
        dtype: dtype in which the contributions of the layers are added; by default their own.
        fields: fields on layers that are summed out, if they are already known, by layer index.

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli
    >>> rbm = RBM(Bernoulli(3), Bernoulli(2))
    >>> log_weight(rbm, [torch.zeros(5, 3), None]).tolist() == (-rbm.free_energy(torch.zeros(5, 3))).tolist()
    True
    """
    parts = [_kept(chain.layer(k), state[k], dtype) for k in range(1 - summed, chain.depth, 2)]
    return _total([*parts, *_summed(chain, state, summed, dtype, fields or {})])


def log_partitions(
    chain: Layers, state: Sequence[Tensor | None], *, summed: int = 1, dtype: torch.dtype | None = None
) -> Tensor:
    """Σ ln Z(field) over the layers that are summed out, the second sum of :func:`log_weight`: (*batch,)."""
    return _total(_summed(chain, state, summed, dtype, {}))


def _summed(
    chain: Layers,
    state: Sequence[Tensor | None],
    parity: int,
    dtype: torch.dtype | None,
    known: Mapping[int, Tensor],
) -> list[Tensor]:
    parts = []
    for k in range(parity, chain.depth, 2):
        unit, field = chain.layer(k), known[k] if k in known else chain.field(k, state)
        parts.append(_per_state(unit, unit.log_partition(field), field.ndim, dtype))
    return parts


def _kept(unit: Unit, x: Tensor | None, dtype: torch.dtype | None) -> Tensor:
    assert x is not None, "log_weight: expected a state of every layer that is not summed out"
    return _per_state(unit, unit.log_weight(x), x.ndim, dtype)


def _per_state(unit: Unit, values: Tensor, dims: int, dtype: torch.dtype | None) -> Tensor:
    """Sum the ``values`` of the units over the layer; ``dims`` counts the dimensions of its states, with batch."""
    batch = dims - len(unit.shape)
    total = values.flatten(batch).sum(-1) if values.ndim > batch else values  # a single vector unit has one value
    return total if dtype is None else total.to(dtype)


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total

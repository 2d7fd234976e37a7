"""A class label in the visible layer: its exact probabilities given the rest of the layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..units import Unit
from ..units.base import per_row
from ..units.support import OneHot
from .rbm import RBM

_MOST_STATES = 10_000  # each one costs the hidden log-partition function of every row


class Label:
    """The part of the visible layer of an RBM that is a class label, given the other parts, the features.

    The hidden layer sums out exactly, so p(y | features) ∝ e^{-F(features, y)} is known in closed form for every
    hidden unit (Larochelle & Bengio 2008): the field of the features on the hidden layer is computed once, and each
    state of the label adds its own. Any part with few states can be a label; a layer ``Potts((1, K))`` has the classes
    0 to K-1.

    Args:
        machine: an RBM with a mixed visible layer, such as ``Mixed(Bernoulli(784), Potts((1, 10)))``.
        part: number of the part that is the label; by default the last one-hot unit that is a part by itself.

    Attributes:
        part: number of the part.
        unit: the units of the part.
        states: all states of the label (K, *unit.shape).

    >>> from harmonium.units import Bernoulli, Mixed, Potts
    >>> rbm = RBM(Mixed(Bernoulli(4), Potts((1, 3))), Bernoulli(2))
    >>> label = Label(rbm)
    >>> label.part, label.classes
    (1, 3)
    >>> label.log_probability(rbm, torch.zeros(2, 7)).exp()[0]
    tensor([0.3333, 0.3333, 0.3333], grad_fn=<SelectBackward0>)
    """

    def __init__(self, machine: RBM, part: int | None = None) -> None:
        if not isinstance(machine, RBM):
            raise InvalidOption(f"machine: expected an RBM with a label, found {type(machine).__name__}")
        visible = machine.visible
        self.part = _find(visible) if part is None else _checked(visible, part)
        self.unit = visible.parts[self.part]
        self.states = self.unit.enumerate().to(dtype=machine.dtype, device=machine.device)
        blank = [torch.zeros(len(self.states), *unit.shape).to(self.states) for unit in visible.parts]
        blank[self.part] = self.states
        #: the states as visible rows whose features are zero: (K, *visible)
        self.rows = visible.join(blank)
        blank = [torch.zeros(1, *unit.shape, dtype=torch.bool, device=machine.device) for unit in visible.parts]
        blank[self.part] |= True
        #: the entries of the visible layer that belong to the label: (*visible)
        self.mask = visible.join(blank)[0]

    @property
    def classes(self) -> int:
        """The number K of states."""
        return len(self.states)

    def features(self, v: Tensor) -> Tensor:
        """Visible rows with zero in place of the label: (n, *visible) -> (n, *visible)."""
        return v.masked_fill(self.mask, 0.0)

    def index(self, v: Tensor) -> Tensor:
        """The number of the state that each visible row has: (n, *visible) -> (n,)."""
        own = _entries(v, self.mask)
        same = (own.unsqueeze(1) == self.states.flatten(1)).all(2)
        known = same.any(1)
        if not bool(known.all()):
            row = int((~known).nonzero()[0])
            raise InvalidData(
                f"data: expected one of the {self.classes} states of the label, found {own[row].tolist()} in row {row}"
            )
        return same.to(torch.uint8).argmax(1)

    def rows_of(self, features: Tensor, labels: Tensor) -> Tensor:
        """Visible rows with the features of ``features`` (n, *visible) and states given by number (n,)."""
        return torch.where(self.mask, self.rows[labels.to(self.rows.device)], features)

    def log_weights(self, machine: RBM, v: Tensor) -> Tensor:
        """-F(features, y) for every state y, up to a constant of the row: (n, *visible) -> (n, K); differentiable.

        The label in ``v`` is ignored.
        """
        field, shifts = machine.coupling.up(self.features(v)), machine.coupling.up(self.rows)
        own = per_row(self.unit.log_weight(self.states))
        pairs = zip(own, shifts, strict=True)
        return torch.stack([w + per_row(machine.hidden.log_partition(field + shift)) for w, shift in pairs], 1)

    def log_probability(self, machine: RBM, v: Tensor) -> Tensor:
        """ln p(y | features) for every state y: (n, *visible) -> (n, K); the label in ``v`` is ignored."""
        return torch.log_softmax(self.log_weights(machine, v), 1)


def _entries(v: Tensor, mask: Tensor) -> Tensor:
    """The entries of rows (n, *visible) where ``mask`` (*visible) is true: (n, entries)."""
    return v.flatten(1)[:, mask.flatten()]


def _find(visible: Unit) -> int:
    """Return the number of the last part that is a single one-hot unit."""
    parts = visible.parts
    found = [k for k, unit in enumerate(parts) if isinstance(unit.support, OneHot) and unit.sites == 1]
    if not found or len(parts) < 2:
        raise InvalidOption(
            "machine: expected a visible layer with features and a label, such as Mixed(Bernoulli(784), "
            f"Potts((1, 10))), found {' + '.join(map(repr, parts))}"
        )
    return found[-1]


def _checked(visible: Unit, part: Any) -> int:
    parts = visible.parts
    if not 0 <= whole("part", part) < len(parts) or len(parts) < 2:
        raise InvalidOption(f"part: expected a number from 0 to {len(parts) - 1} of two or more parts, found {part}")
    states = parts[part].cardinality
    if states is None or states > _MOST_STATES:
        raise InvalidOption(
            f"part: expected a part with at most {_MOST_STATES} states, found {parts[part]!r} with {states or '∞'}"
        )
    return int(part)

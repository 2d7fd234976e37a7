"""The visible layer as N sites with q states each, and the fields that these states exert on the hidden units."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine
from ..units import Unit

GAUGES = ("lattice-gas", "zero-sum")


@dataclass(frozen=True)
class Sites:
    """An RBM in the form ln p(v) = Σ_μ ln Z_μ(Σ_i fields[i, v_i]) + Σ_i own[i, v_i] + const, in float64.

    ``fields`` (sites, q, hidden size) are the fields on the hidden units due to state a of site i; ``own`` (sites, q)
    is the log-weight of state a of site i, which includes the visible bias.
    """

    fields: Tensor
    own: Tensor
    hidden: Unit
    natural_gauge: str

    @staticmethod
    @torch.no_grad()
    def of(machine: BoltzmannMachine) -> Sites:
        """Create the sites of an RBM whose visible units have finitely many states."""
        if not isinstance(machine, RBM):
            raise InvalidOption(f"interactions: expected an RBM (two layers), found {type(machine).__name__}")
        rbm = copy.deepcopy(machine).double().requires_grad_(False)
        unit = rbm.visible
        states = unit.support.states()
        if states is None:
            raise InvalidOption(
                "interactions: expected visible units of one type with finitely many states, such as bernoulli, spin "
                f"or potts, found {unit.name()}"
            )
        states = states.to(rbm.device)
        weights = rbm.coupling.matrix().reshape(unit.sites, -1, rbm.hidden.size)
        fields = torch.einsum("qe,iem->iqm", states.reshape(len(states), -1), weights)
        own = torch.stack([unit.log_weight(state.expand(1, *unit.shape)).flatten() for state in states], 1)
        binary = states.ndim == 1 and states.tolist() == [0.0, 1.0]
        return Sites(fields, own, rbm.hidden, "lattice-gas" if binary else "zero-sum")

    @property
    def number(self) -> int:
        """Number N of sites."""
        return len(self.fields)

    @property
    def states(self) -> int:
        """Number q of states of a site."""
        return self.fields.shape[1]

    def gauge(self, name: str | None) -> str:
        """Check the name of a gauge; None gives the default, lattice-gas for {0, 1} units and zero-sum for others."""
        if name is None:
            return self.natural_gauge
        if name not in GAUGES:
            raise unknown("gauge", name, GAUGES)
        return name

    def reference(self, gauge: str) -> tuple[Tensor, Tensor]:
        """Reference field (hidden,) of a gauge, summed over sites, and the steps from it for each state.

        The steps are (sites, q, hidden) in the zero-sum gauge. They are (sites, q - 1, hidden) in the lattice-gas
        gauge, whose reference is state 0.
        """
        if gauge == "lattice-gas":
            return self.fields[:, 0].sum(0), self.fields[:, 1:] - self.fields[:, :1]
        center = self.fields.mean(1, keepdim=True)
        return center.sum((0, 1)), self.fields - center

    def field(self, states: Tensor) -> Tensor:
        """Total field on the hidden units: states (n, sites) from 0 to q - 1 -> (n, hidden)."""
        total = self.fields.new_zeros(len(states), self.fields.shape[2])
        for site, fields in enumerate(self.fields):
            total += fields[states[:, site]]
        return total

    def log_partition(self, field: Tensor) -> Tensor:
        """Log-partition function of every hidden unit: (..., hidden size) -> (..., hidden units)."""
        value = self.hidden.log_partition(field.reshape(*field.shape[:-1], *self.hidden.shape))
        return value.reshape(*field.shape[:-1], -1)

    @property
    def scalar(self) -> bool:
        """Whether every hidden unit is a scalar, so that its ln Z is a function of one field."""
        return self.hidden.sites == self.hidden.size

    def cumulant(self, order: int, base: Tensor) -> Tensor:
        """Cumulant of the given order of each hidden unit in the field ``base`` (hidden,): (hidden,)."""
        if not self.scalar:
            raise InvalidOption(f"method='small': expected scalar hidden units, found {self.hidden.name()}")
        if order > 6:
            raise InvalidOption(f"method='small': expected an order of at most 6, found {order}")
        unit = self.hidden
        pairs = zip(unit.parts, unit.split(base.view(unit.shape)), strict=True)
        moved = [part.with_natural({**part.natural(), "bias": part.bias + field}) for part, field in pairs]
        return unit.with_parts(moved).cumulant(order).reshape(-1)

"""The visible layer as its hidden units see it: sites of q states, each of which puts a field on every hidden unit."""

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
    """ln p(v) of a machine, in float64, as a sum over hidden units of ln Z(Σ_i fields[i, v_i]) and over sites of own.

    ``fields`` (sites, q, hidden size) is what state a of site i puts on the hidden units, ``own`` (sites, q) the
    log-weight of the state itself.
    """

    fields: Tensor
    own: Tensor
    hidden: Unit
    natural_gauge: str

    @staticmethod
    @torch.no_grad()
    def of(machine: BoltzmannMachine) -> Sites:
        """The sites of an RBM whose visible units have finitely many states."""
        if not isinstance(machine, RBM):
            raise InvalidOption(f"interactions: expected an RBM (two layers), found {type(machine).__name__}")
        rbm = copy.deepcopy(machine).double().requires_grad_(False)
        unit = rbm.visible
        states = unit.support.states()
        if states is None:
            raise InvalidOption(
                "interactions: expected visible units of one kind with finitely many states, such as bernoulli, spin "
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
        """N, the number of sites."""
        return len(self.fields)

    @property
    def states(self) -> int:
        """q, the number of states of a site."""
        return self.fields.shape[1]

    def gauge(self, name: str | None) -> str:
        """The gauge by its name; unless given that of the units: lattice-gas for {0, 1}, else zero-sum."""
        if name is None:
            return self.natural_gauge
        if name not in GAUGES:
            raise unknown("gauge", name, GAUGES)
        return name

    def reference(self, gauge: str) -> tuple[Tensor, Tensor]:
        """The fields about which a gauge expands: their sum over the sites (hidden,) and the steps from them.

        The steps (sites, q or q - 1, hidden) leave out state 0, from which the lattice gas measures.
        """
        if gauge == "lattice-gas":
            return self.fields[:, 0].sum(0), self.fields[:, 1:] - self.fields[:, :1]
        center = self.fields.mean(1, keepdim=True)
        return center.sum((0, 1)), self.fields - center

    def field(self, states: Tensor) -> Tensor:
        """What all sites together put on the hidden units: states (n, sites), numbered from 0 -> (n, hidden)."""
        total = self.fields.new_zeros(len(states), self.fields.shape[2])
        for site, fields in enumerate(self.fields):
            total += fields[states[:, site]]
        return total

    def log_partition(self, field: Tensor) -> Tensor:
        """ln Z of every hidden unit: (..., hidden size) -> (..., hidden units)."""
        value = self.hidden.log_partition(field.reshape(*field.shape[:-1], *self.hidden.shape))
        return value.reshape(*field.shape[:-1], -1)

    @property
    def scalar(self) -> bool:
        """Whether every hidden unit is a number, so that its ln Z is a function of one field."""
        return self.hidden.sites == self.hidden.size

    def cumulant(self, order: int, base: Tensor) -> Tensor:
        """The cumulant of each hidden unit in the field ``base`` (hidden,): (hidden,)."""
        if not self.scalar:
            raise InvalidOption(f"method='small': expected hidden units that are numbers, found {self.hidden.name()}")
        if order > 6:
            raise InvalidOption(f"method='small': expected an order of at most 6, found {order}")
        unit = copy.deepcopy(self.hidden)
        unit.shift_bias(base)
        return unit.cumulant(order).reshape(-1)

"""Exact negative phase by enumeration."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine, GivenRBM, enumeration, partial
from ..gradient import CouplingGradient, Gradient, unit_gradient
from .base import Batch, NegativePhase, State, as_rbm


@dataclass(frozen=True)
class Exact(NegativePhase):
    """Exact F_model = -ln Z by enumeration: maximum likelihood for small machines, and the reference in tests.

    Given a context, the loss is the mean of -ln p(v | u), with an enumeration for each row; with missing values it is
    that of -ln p(v_obs). Both gradients are computed by automatic differentiation.

    >>> Exact()
    Exact()
    """

    conditional: ClassVar[bool] = True
    sums_missing: ClassVar[bool] = True

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        rbm = as_rbm(machine, self)
        summed = rbm
        if rbm.dtype != torch.float64 and any(unit.cardinality is None for unit in rbm.layers):
            summed = copy.deepcopy(rbm).double()  # ln Z of real units far from zero is a large number
        return {"known": Known(summed, enumeration.kept_states(summed))}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm = as_rbm(machine, self)
        if batch.context is not None:
            return _given(rbm, batch.visible, batch.context), state
        layers, links = state["known"].moments(rbm)
        if batch.missing is not None:
            return _observed(rbm, layers, links, batch.visible, batch.missing), state
        field = rbm.coupling.up(batch.visible)
        hidden = rbm.hidden.mean(field)
        data = (rbm.visible.statistics(batch.visible), rbm.hidden.moments(field, mean=hidden))
        units: dict[Tensor, Tensor] = {}
        for unit, model, values in zip(rbm.layers, layers, data, strict=True):
            units |= unit_gradient(unit, {name: model[name] - value.mean(0) for name, value in values.items()})
        links[0] -= rbm.coupling.correlate(batch.visible, hidden, scale=1 / len(hidden))
        return Gradient(units, _learned(rbm, links), [hidden.mean(0)]), state

    def by_statistics(self, batch: Batch) -> bool:
        return batch.missing is None and batch.context is None


class Known:
    """The states of an enumeration, and the machine or its copy in float64 in which they are summed; not saved."""

    def __init__(self, machine: RBM, states: list[tuple[list[Tensor | None], int]] | None) -> None:
        self._machine, self._states = machine, states

    def moments(self, rbm: RBM) -> tuple[list[dict[str, Tensor]], list[Tensor]]:
        """Return the moments of the model, in the type of the machine."""
        if self._machine.dtype == rbm.dtype:
            return enumeration.moments(rbm, self._states)
        with torch.no_grad():
            for own, parameter in zip(self._machine.parameters(), rbm.parameters(), strict=True):
                own.copy_(parameter)
        for own_unit, unit in zip(self._machine.visible.parts, rbm.visible.parts, strict=True):
            if getattr(unit, "origin", None) is not None:
                own_unit.origin = unit.origin.double()
        layers, links = enumeration.moments(self._machine, self._states)
        return [{name: x.to(rbm.dtype) for name, x in one.items()} for one in layers], [x.to(rbm.dtype) for x in links]


def _learned(rbm: RBM, matrices: list[Tensor]) -> dict[int, CouplingGradient]:
    pairs = enumerate(zip(rbm.couplings, matrices, strict=True))
    return {k: CouplingGradient.of_matrix(one, matrix) for k, (one, matrix) in pairs if one.weight.requires_grad}


def _observed(
    rbm: RBM, layers: list[dict[str, Tensor]], links: list[Tensor], visible: Tensor, missing: Tensor
) -> Gradient:
    """Return the gradient of -⟨ln p(v_obs)⟩; ``layers`` and ``links`` are the moments of the model."""
    rows = partial.PartialRows(visible.masked_fill(missing, 0.0), ~missing)
    hidden = partial.moments(rbm, rows).hidden
    learned: list[Tensor] = [parameter for parameter in rbm.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        slopes = torch.autograd.grad(partial.log_marginal(rbm, rows).mean(), learned)
    found = dict(zip(learned, slopes, strict=True))
    units: dict[Tensor, Tensor] = {}
    for unit, model in zip(rbm.layers, layers, strict=True):
        units |= unit_gradient(unit, model)
    units = {parameter: value - found[parameter].view(value.shape) for parameter, value in units.items()}
    weight = rbm.coupling.weight
    if weight in found:
        links[0] = links[0] - found[weight]
    return Gradient(units, _learned(rbm, links), [hidden.mean(0)])


def _given(rbm: RBM, v: Tensor, context: Tensor) -> Gradient:
    """Return the gradient of -⟨ln p(v | u)⟩."""
    with torch.enable_grad():
        given, v = rbm.for_rows((v, context))
        assert isinstance(given, GivenRBM)
        loss = (given.free_energy(v, check=False) + given.log_partitions()).mean()
        learned: list[Tensor] = [parameter for parameter in rbm.parameters() if parameter.requires_grad]
        slopes = torch.autograd.grad(loss, learned, materialize_grads=True)
    found = dict(zip(learned, slopes, strict=True))
    own, context_links = (
        {k: CouplingGradient.of_matrix(one, found.pop(one.weight)) for k, one in some.items() if one.weight in found}
        for some in ({0: rbm.coupling}, rbm.context_couplings)
    )
    return Gradient(found, own, [given.hidden_mean(v).detach().mean(0)], context_links)

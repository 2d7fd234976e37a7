"""Penalties on the weights; their gradients are added before other transforms are applied."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from .gradient import CouplingGradient
from .negative import NegativePhase
from .state import restored
from .transforms import Transform, all_couplings


class Penalty(Transform):
    """Base class of penalties on the weights, also those of a context.

    The weights of Gaussian visible units are penalized as those of the standardized units, sW with the standard
    deviations s of the data (:class:`Centered`). The penalty then does not depend on the units of measurement, and its
    curvature is comparable to that of the other terms of the loss.
    """

    of_loss = True

    def __init__(self, strength: float) -> None:
        if not strength >= 0:
            raise InvalidOption(f"strength: expected a non-negative number, found {strength}")
        self.strength = strength
        self._scale: Tensor | None = None

    def measured(self, scaling: Scaling) -> None:
        self._scale = scaling.scale

    def loss(self, machine: BoltzmannMachine) -> float:
        """Return the penalty that is added to the loss."""
        pairs = [(coupling, self._factors(k, coupling)) for k, coupling in enumerate(machine.couplings)]
        pairs += [(coupling, None) for coupling in machine.context_couplings.values()]
        return sum(
            self._value(coupling, _times(coupling.weight.detach(), factors)).item() for coupling, factors in pairs
        )

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for k, link in phase.coupling_gradients.items():
            self._add(link, self._factors(k, link.coupling))
        for link in phase.context_gradients.values():
            self._add(link, None)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._scale is None else {"scale": self._scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # earlier versions did not standardize; their runs continue without
        own = self._scale
        self._scale = restored(state["scale"], own).to(own.device) if own is not None and "scale" in state else None

    def _factors(self, k: int, coupling: Coupling) -> Tensor | None:
        """Return the factors of the penalized weights of coupling ``k``; None if they are all 1."""
        return None if k or self._scale is None else coupling.lower_factors(self._scale)

    def _add(self, link: CouplingGradient, factors: Tensor | None) -> None:
        """Add the gradient to that of a coupling."""
        own = self._gradient(link.coupling, _times(link.coupling.weight.detach(), factors))
        link.dense().add_(_times(own, factors))

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        raise NotImplementedError

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        raise NotImplementedError


def _times(value: Tensor, factors: Tensor | None) -> Tensor:
    return value if factors is None else value * factors


class L1(Penalty):
    """L1 penalty, strength · Σ|W|."""

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength * weight.abs().sum()

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight.sign().mul_(self.strength)


class L2(Penalty):
    """L2 penalty, strength/2 · ΣW²."""

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / 2 * weight.square().sum()

    def _add(self, link: CouplingGradient, factors: Tensor | None) -> None:
        if factors is None:
            link.add_weights(self.strength)
        else:
            super()._add(link, factors)

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight * self.strength


class L2ToMean(Penalty):
    """L2 penalty on what distinguishes the sites of a layer: strength/2 · Σ_i (W_i - W̄)², with W̄ the mean over sites i.

    For dense couplings; the sites are the first dimension of the lower layer, such as the items of
    :class:`harmonium.units.Ratings`. What all sites have in common, such as the generosity of a user, is learned
    without a penalty, and a site with few data gets the mean weights of the others. An L2 penalty gives it none.
    """

    def check(self, machine: BoltzmannMachine, optimizer: torch.optim.Optimizer) -> None:
        for coupling in all_couplings(machine):
            if type(coupling) is not Dense:
                raise InvalidOption(f"L2ToMean expects dense couplings, found {type(coupling).__name__}")

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / 2 * _without_mean(coupling, weight).square().sum()

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return _without_mean(coupling, weight).mul_(self.strength)


def _without_mean(coupling: Coupling, weight: Tensor) -> Tensor:
    by_site = weight.view(coupling.lower[0], -1)
    return (by_site - by_site.mean(0)).view_as(weight)


class L1Squared(Penalty):
    """L1² penalty, strength/(2N) · Σ_j (Σ_i |W_ij|)² with N lower units (Tubiana et al. 2019).

    It makes the weights sparse without removing all weights of a hidden unit.
    """

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / (2 * coupling.lower.numel()) * _by_upper(coupling, weight).square().sum()

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight.sign().mul_(_by_upper(coupling, weight)).mul_(self.strength / coupling.lower.numel())


def _by_upper(coupling: Coupling, weight: Tensor) -> Tensor:
    return weight.abs().sum(coupling.incoming_dims, keepdim=True)

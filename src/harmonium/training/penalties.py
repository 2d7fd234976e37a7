"""Penalties on the weights; their gradients are added before other transforms are applied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checks import as_shape, count
from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from .descent import SGD, AnyOptimizer
from .gradient import CouplingGradient
from .negative import NegativePhase
from .state import restored, restored_number
from .transforms import Transform, all_couplings

_IMAGE_DIMS = (2, 3)  # dimensions of an image, without and with channels
_LARGEST_EIGENVALUE = 8.0  # of the curvature of the smoothness penalty, for a checkerboard


@dataclass
class Penalty(Transform):
    """Base class of penalties on the weights, also those of a context.

    The weights of Gaussian visible units are penalized as those of the standardized units, sW with the standard
    deviations s of the data (:class:`Centered`). The penalty then does not depend on the units of measurement, and its
    curvature is comparable to that of the other terms of the loss.
    """

    of_loss = True

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise InvalidOption(f"strength: expected a non-negative number, found {self.strength}")
        self._scale: Tensor | None = None

    def measured(self, scaling: Scaling) -> None:
        self._scale = scaling.scale

    def loss(self, machine: BoltzmannMachine) -> float:
        """Return the penalty that is added to the loss."""
        layers, context = machine.couplings, machine.context_couplings.values()
        pairs = [(layers[k], self._factors(k, layers[k])) for k in range(len(layers)) if self._concerns(k)]
        pairs += [(coupling, None) for coupling in context if self._concerns(None)]
        return sum(
            self._value(coupling, _times(coupling.weight.detach(), factors)).item() for coupling, factors in pairs
        )

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for k, link in phase.coupling_gradients.items():
            if self._concerns(k):
                self._add(link, self._factors(k, link.coupling))
        for link in phase.context_gradients.values():
            if self._concerns(None):
                self._add(link, None)

    def _concerns(self, k: int | None) -> bool:
        """Return whether the weights of coupling ``k``, or with None those of a context, are penalized."""
        return True

    def state_dict(self) -> dict[str, Any]:
        return {} if self._scale is None else {"scale": self._scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._scale is not None:
            self._scale = restored(state["scale"], self._scale).to(self._scale.device)

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


@dataclass
class L1(Penalty):
    """L1 penalty, strength · Σ|W|."""

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength * weight.abs().sum()

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight.sign().mul_(self.strength)


@dataclass
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


@dataclass
class L2ToMean(Penalty):
    """L2 penalty on what distinguishes the sites of a layer: strength/2 · Σ_i (W_i - W̄)², with W̄ the mean over sites i.

    For dense couplings; the sites are the first dimension of the lower layer, such as the items of
    :class:`harmonium.units.Ratings`. What all sites have in common, such as the generosity of a user, is learned
    without a penalty, and a site with few data gets the mean weights of the others. An L2 penalty gives it none.
    """

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
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


@dataclass
class Smooth(Penalty):
    """Penalty on differences between neighboring pixels, strength/2 · Σ_j Σ_{i~i'} (W_ij - W_i'j)².

    For images: the weights of a hidden unit become smooth, and what they learn of the noise of single pixels is
    suppressed. An :class:`L2` penalty suppresses all weights alike. For dense couplings of the visible layer; weights
    of other layers are not penalized.

    Args:
        strength: strength of the penalty.
        shape: (height, width) or (channels, height, width) of a row; by default the shape of the visible layer.
            Neighbors differ by 1 in the row or in the column.
        every: number of steps between applications of the penalty, with ``every`` times the gradient, because its
            gradient costs a tenth of a step of PCD-1. Smaller if such steps would be too large.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(1))
    >>> _ = rbm.coupling.weight.data.copy_(torch.tensor([[0.0], [1.0], [0.0], [3.0]]))
    >>> hm.Smooth(2.0, shape=(2, 2)).loss(rbm)  # 1² + 3² in the rows, 0² + 2² in the columns
    14.0
    """

    shape: Sequence[int] | None = None
    every: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shape = None if self.shape is None else list(as_shape(tuple(self.shape)))
        if count("every", self.every) < 1:
            raise InvalidOption(f"every: expected at least 1, found {self.every}")
        if self.shape is not None and len(self.shape) not in _IMAGE_DIMS:
            raise InvalidOption(f"shape: expected (height, width) or (channels, height, width), found {self.shape}")
        self._seen, self._interval = 0, self.every

    def applies(self, machine: BoltzmannMachine) -> bool:
        visible = machine.visible
        image = visible.shape if self.shape is None else self.shape
        return len(image) in _IMAGE_DIMS and math.prod(image) == visible.size == visible.sites

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
        if not self.applies(machine):
            expected = "(height, width) or (channels, height, width)" if self.shape is None else tuple(self.shape)
            layer = f"{type(machine.visible).__name__} units of shape {tuple(machine.visible.shape)}"
            raise InvalidOption(f"Smooth expects one unit for each pixel of images {expected}, found {layer}")
        if type(machine.couplings[0]) is not Dense:
            raise InvalidOption(f"Smooth expects dense couplings, found {type(machine.couplings[0]).__name__}")
        weight = machine.couplings[0].weight
        groups = optimizer.param_groups if isinstance(optimizer, (SGD, torch.optim.SGD)) else []
        rate = sum(group["lr"] for group in groups for parameter in group["params"] if parameter is weight)
        factor = rate * self.strength * _LARGEST_EIGENVALUE  # of a checkerboard in one step; beyond 2 it would grow
        if factor >= 1:
            raise InvalidOption(
                f"Smooth expects a strength below {1 / (rate * _LARGEST_EIGENVALUE):.3g} with the learning rate "
                f"{rate:.3g}, found {self.strength:.3g}"
            )
        self._interval = max(1, min(self.every, int(1 / factor))) if factor else self.every

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        self._seen = 0

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        self._seen += 1
        if self._seen % self._interval == 0:
            super().gradient(machine, phase)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._seen = restored_number(state["seen"])

    def _concerns(self, k: int | None) -> bool:
        return k == 0

    def _value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        image = self._image(coupling, weight)
        total = image.diff(dim=-2).square().sum() + image.diff(dim=-3).square().sum()
        return self.strength / 2 * total

    def _gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        image = self._image(coupling, weight)
        slope = torch.zeros_like(image)
        for dim in (-2, -3):
            change, last = image.diff(dim=dim), image.shape[dim] - 1
            slope.narrow(dim, 1, last).add_(change)
            slope.narrow(dim, 0, last).sub_(change)
        return slope.mul_(self.strength * self._interval).view_as(weight)

    def _image(self, coupling: Coupling, weight: Tensor) -> Tensor:
        """The weights as (…, height, width, upper units)."""
        return weight.view(*(coupling.lower if self.shape is None else self.shape), -1)


@dataclass
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


#: penalties by their names in files and on the command line
PENALTIES = {"l1": L1, "l2": L2, "l1-squared": L1Squared, "l2-to-mean": L2ToMean, "smooth": Smooth}

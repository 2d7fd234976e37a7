"""Penalties on the weights, which are added to the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..checks import as_shape, count
from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from .gradient import CouplingGradient, Gradient
from .schedules import Clock

_IMAGE_DIMS = (2, 3)  # dimensions of an image, without and with channels
_LARGEST_EIGENVALUE = 8.0  # of the curvature of the smoothness penalty, for a checkerboard

#: the learning rate of a parameter in plain gradient descent; None for another optimizer
RateOf = Callable[[Tensor], float | None]


@dataclass(frozen=True)
class Penalty:
    """Base class of penalties on the weights, also those of a context: a subclass defines :meth:`value`.

    The weights of Gaussian visible units are penalized as those of the standardized units, sW with the standard
    deviations s of the data (centered coordinates). The penalty then does not depend on the units of measurement, and
    its curvature is comparable to that of the other terms of the loss.
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise InvalidOption(f"strength: expected a non-negative number, found {self.strength}")

    def check(self, machine: BoltzmannMachine, rate_of: RateOf = lambda parameter: None) -> None:
        """Raise :class:`InvalidOption` if the penalty cannot be used with the machine and the learning rates."""

    def applies(self, machine: BoltzmannMachine) -> bool:
        """Return whether the penalty concerns the machine; in a stack it is left out where it does not."""
        return True

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        """Return the penalty of the weights of a coupling, a scalar."""
        raise NotImplementedError

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        """Return the derivative of :meth:`value` by ``weight``; by default it is computed automatically."""
        with torch.enable_grad():
            weight = weight.detach().requires_grad_()
            return torch.autograd.grad(self.value(coupling, weight), weight)[0]

    def loss(self, machine: BoltzmannMachine, scale: Tensor | None = None) -> float:
        """Return the term of the loss; ``scale`` (*visible) are the standard deviations of standardized units."""
        return sum(
            self.value(coupling, _times(coupling.weight.detach(), factors)).item()
            for coupling, factors in self._penalized(machine, scale)
        )

    def add(
        self, machine: BoltzmannMachine, gradient: Gradient, scale: Tensor | None, clock: Clock, rate_of: RateOf
    ) -> None:
        """Add the gradient of the penalty to that of the loss."""
        self._add_all(machine, gradient, scale)

    def _add_all(self, machine: BoltzmannMachine, gradient: Gradient, scale: Tensor | None) -> None:
        factors = {id(coupling.weight): factors for coupling, factors in self._penalized(machine, scale)}
        for link in gradient.links:
            if id(link.coupling.weight) in factors:
                self._add(link, factors[id(link.coupling.weight)])

    def _add(self, link: CouplingGradient, factors: Tensor | None) -> None:
        own = self.gradient(link.coupling, _times(link.coupling.weight.detach(), factors))
        link.dense().add_(_times(own, factors))

    def _penalized(self, machine: BoltzmannMachine, scale: Tensor | None) -> list[tuple[Coupling, Tensor | None]]:
        """Return the couplings with the factors of their penalized weights; None if they are all 1."""
        first, *others = machine.couplings
        factors = None if scale is None else first.lower_factors(scale)
        return [(first, factors), *((coupling, None) for coupling in (*others, *machine.context_couplings.values()))]


def _times(value: Tensor, factors: Tensor | None) -> Tensor:
    return value if factors is None else value * factors


@dataclass(frozen=True)
class L1(Penalty):
    """L1 penalty, strength · Σ|W|."""

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength * weight.abs().sum()

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight.sign().mul_(self.strength)


@dataclass(frozen=True)
class L2(Penalty):
    """L2 penalty, strength/2 · ΣW²."""

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / 2 * weight.square().sum()

    def _add(self, link: CouplingGradient, factors: Tensor | None) -> None:
        if factors is None:
            link.add_weights(self.strength)
        else:
            super()._add(link, factors)

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight * self.strength


@dataclass(frozen=True)
class L2ToMean(Penalty):
    """L2 penalty on what distinguishes the sites of a layer: strength/2 · Σ_i (W_i - W̄)², with W̄ the mean over sites i.

    For dense couplings; the sites are the first dimension of the lower layer, such as the items of
    :class:`harmonium.units.Ratings`. What all sites have in common, such as the generosity of a user, is learned
    without a penalty, and a site with few data gets the mean weights of the others. An L2 penalty gives it none.
    """

    def check(self, machine: BoltzmannMachine, rate_of: RateOf = lambda parameter: None) -> None:
        for coupling, _ in self._penalized(machine, None):
            if type(coupling) is not Dense:
                raise InvalidOption(f"L2ToMean expects dense couplings, found {type(coupling).__name__}")

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / 2 * _without_mean(coupling, weight).square().sum()

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return _without_mean(coupling, weight).mul_(self.strength)


def _without_mean(coupling: Coupling, weight: Tensor) -> Tensor:
    by_site = weight.view(coupling.lower[0], -1)
    return (by_site - by_site.mean(0)).view_as(weight)


@dataclass(frozen=True)
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
        if self.shape is not None:
            object.__setattr__(self, "shape", as_shape(tuple(self.shape)))
        if count("every", self.every) < 1:
            raise InvalidOption(f"every: expected at least 1, found {self.every}")
        if self.shape is not None and len(self.shape) not in _IMAGE_DIMS:
            raise InvalidOption(f"shape: expected (height, width) or (channels, height, width), found {self.shape}")

    def applies(self, machine: BoltzmannMachine) -> bool:
        visible = machine.visible
        image = visible.shape if self.shape is None else self.shape
        return len(image) in _IMAGE_DIMS and math.prod(image) == visible.size == visible.sites

    def check(self, machine: BoltzmannMachine, rate_of: RateOf = lambda parameter: None) -> None:
        if not self.applies(machine):
            expected = "(height, width) or (channels, height, width)" if self.shape is None else tuple(self.shape)
            layer = f"{type(machine.visible).__name__} units of shape {tuple(machine.visible.shape)}"
            raise InvalidOption(f"Smooth expects one unit for each pixel of images {expected}, found {layer}")
        if type(machine.couplings[0]) is not Dense:
            raise InvalidOption(f"Smooth expects dense couplings, found {type(machine.couplings[0]).__name__}")
        rate = rate_of(machine.couplings[0].weight)
        if rate is not None and self._largest_change(rate) >= 1:
            raise InvalidOption(
                f"Smooth expects a strength below {1 / (rate * _LARGEST_EIGENVALUE):.3g} with the learning rate "
                f"{rate:.3g}, found {self.strength:.3g}"
            )

    def _largest_change(self, rate: float) -> float:
        """Return the relative change of a checkerboard in one step; beyond 2 it would grow."""
        return rate * self.strength * _LARGEST_EIGENVALUE

    def _interval(self, rate: float | None) -> int:
        """Return the number of steps between applications."""
        change = 0.0 if rate is None else self._largest_change(rate)
        return max(1, min(self.every, int(1 / change))) if change else self.every

    def add(
        self, machine: BoltzmannMachine, gradient: Gradient, scale: Tensor | None, clock: Clock, rate_of: RateOf
    ) -> None:
        interval = self._interval(rate_of(machine.couplings[0].weight))
        if clock.step % interval == 0:
            replace(self, strength=self.strength * interval)._add_all(machine, gradient, scale)

    def _penalized(self, machine: BoltzmannMachine, scale: Tensor | None) -> list[tuple[Coupling, Tensor | None]]:
        return super()._penalized(machine, scale)[:1]

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        image = self._image(coupling, weight)
        total = image.diff(dim=-2).square().sum() + image.diff(dim=-3).square().sum()
        return self.strength / 2 * total

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        image = self._image(coupling, weight)
        slope = torch.zeros_like(image)
        for dim in (-2, -3):
            change, last = image.diff(dim=dim), image.shape[dim] - 1
            slope.narrow(dim, 1, last).add_(change)
            slope.narrow(dim, 0, last).sub_(change)
        return slope.mul_(self.strength).view_as(weight)

    def _image(self, coupling: Coupling, weight: Tensor) -> Tensor:
        """The weights as (…, height, width, upper units)."""
        return weight.view(*(coupling.lower if self.shape is None else self.shape), -1)


@dataclass(frozen=True)
class L1Squared(Penalty):
    """L1² penalty, strength/(2N) · Σ_j (Σ_i |W_ij|)² with N lower units (Tubiana et al. 2019).

    It makes the weights sparse without removing all weights of a hidden unit.
    """

    def value(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return self.strength / (2 * coupling.lower.numel()) * _by_upper(coupling, weight).square().sum()

    def gradient(self, coupling: Coupling, weight: Tensor) -> Tensor:
        return weight.sign().mul_(_by_upper(coupling, weight)).mul_(self.strength / coupling.lower.numel())


def _by_upper(coupling: Coupling, weight: Tensor) -> Tensor:
    return weight.abs().sum(coupling.incoming_dims, keepdim=True)


#: penalties by their names in files and on the command line
PENALTIES = {"l1": L1, "l2": L2, "l1-squared": L1Squared, "l2-to-mean": L2ToMean, "smooth": Smooth}

"""Noise channels with a known likelihood P(y|x) of the observation y given the signal x.

>>> channel = BinarySymmetric(0.1)
>>> round(channel.corrupt(torch.zeros(1, 10_000), seed=3).mean().item(), 1)
0.1
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from .. import noise
from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..noise import Seed
from ..units import Unit
from .observed import Evidence, by_part

ArrayLike = Any


class Channel(ABC):
    """Noise channel that acts on every unit independently, with known P(y|x)."""

    #: symbol of ``level`` in tables and figures
    symbol: ClassVar[str]
    #: name of the attribute that is the strength of the noise
    parameter: ClassVar[str]

    @property
    def level(self) -> float:
        """Strength of the noise."""
        return float(getattr(self, self.parameter))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.level:g})"

    def corrupt(self, x: ArrayLike, *, seed: Seed = None) -> Tensor:
        """Pass a signal (n, ...) through the channel; the result has the same shape."""
        signal = as_tensor(x, "signal")
        signal = signal if signal.is_floating_point() else signal.float()
        if not bool(torch.isfinite(signal).all()):
            raise InvalidData("signal: expected finite numbers, found NaN or infinity")
        return self._noisy(signal, noise.generator(seed, signal.device))

    def check(self, unit: Unit) -> None:  # noqa: B027 (most channels accept all values)
        """Raise :class:`InvalidOption` if the channel does not accept the values of these units."""

    @abstractmethod
    def log_likelihood_terms(self, y: Tensor, unit: Unit) -> Evidence:
        """ln P(y|x) as a function of x for observations y (n, *shape): the terms Bx - Ax²/2, or known values of x."""

    @abstractmethod
    def _noisy(self, x: Tensor, generator: Generator | None) -> Tensor: ...


class BinarySymmetric(Channel):
    """Binary symmetric channel: Tramel et al. (2018), eqs. (42)-(43), with the sign corrected.

    The field on {0, 1} units is D = (2y - 1) ln((1-p)/p); that on spins is half as large, because their values are
    twice as far apart.

    Args:
        p: probability of a flip, from 0 to 0.5.
        values: the two values, (0, 1) or (-1, 1) for spins.

    >>> from harmonium.units import Bernoulli
    >>> BinarySymmetric(0.2).log_likelihood_terms(torch.tensor([[0.0, 1.0]]), Bernoulli(2)).B
    tensor([[-1.3863,  1.3863]])
    """

    symbol = "p"
    parameter = "p"

    def __init__(self, p: float, *, values: tuple[float, float] = (0.0, 1.0)) -> None:
        if not 0 <= p <= 0.5:
            raise InvalidOption(f"p: expected a flip probability from 0 to 0.5, found {p!r}")
        low, high = map(float, values)
        if not -math.inf < low < high < math.inf:
            raise InvalidOption(f"values: expected two numbers in increasing order, found {values!r}")
        self.p, self.values = float(p), (low, high)

    def check(self, unit: Unit) -> None:
        for part in unit.parts:
            states = part.support.states() if not part.event_shape else None
            if states is None or tuple(states.tolist()) != self.values:
                raise InvalidOption(
                    f"binary symmetric channel: expected units with the values {self.values[0]:g} and "
                    f"{self.values[1]:g}, found {part.name()} ({part.support.description})"
                )

    def log_likelihood_terms(self, y: Tensor, unit: Unit) -> Evidence:
        self._check_values(y)
        if self.p == 0:
            return Evidence(y, known=torch.ones_like(y, dtype=torch.bool))
        low, high = self.values
        strength = (math.log1p(-self.p) - math.log(self.p)) / (high - low)
        return Evidence(y, B=torch.full_like(y, strength).where(y == high, -strength))

    def _noisy(self, x: Tensor, generator: Generator | None) -> Tensor:
        self._check_values(x)
        flip = noise.bernoulli(torch.full_like(x, self.p), generator) > 0
        return torch.where(flip, sum(self.values) - x, x)

    def _check_values(self, x: Tensor) -> None:
        inside = (x == self.values[0]) | (x == self.values[1])
        if not bool(inside.all()):
            where = tuple(torch.nonzero(~inside)[0].tolist())
            raise InvalidData(
                f"binary symmetric channel: expected the values {self.values[0]:g} and {self.values[1]:g}, "
                f"found {x[where].item():g} at index {where}"
            )


class Erasure(Channel):
    """Erasure channel: each unit becomes NaN with the given ``probability``; the others are unchanged.

    ``event_dims=1`` erases whole vectors, for one-hot or multinomial units.

    >>> round(Erasure(0.5).corrupt(torch.ones(1, 10_000), seed=0).isnan().float().mean().item(), 1)
    0.5
    """

    symbol = "erased"
    parameter = "probability"

    def __init__(self, probability: float, *, event_dims: int = 0) -> None:
        if not 0 <= probability <= 1:
            raise InvalidOption(f"probability: expected a number from 0 to 1, found {probability!r}")
        if whole("event_dims", event_dims) < 0:
            raise InvalidOption(f"event_dims: expected at least 0, found {event_dims}")
        self.probability, self.event_dims = float(probability), event_dims

    def log_likelihood_terms(self, y: Tensor, unit: Unit) -> Evidence:
        known = by_part(unit, _whole_units, ~torch.isnan(y))
        return _fixed(y, known, unit)

    def _noisy(self, x: Tensor, generator: Generator | None) -> Tensor:
        if self.event_dims >= x.ndim:
            raise InvalidData(f"signal: expected shape (n, ...) with units of {self.event_dims} dimensions")
        units = x.sum(tuple(range(-self.event_dims, 0)), keepdim=True) if self.event_dims else x
        lost = noise.bernoulli(torch.full_like(units, self.probability), generator) > 0
        return x.masked_fill(lost, torch.nan)


class AdditiveGaussian(Channel):
    """Additive Gaussian noise, y = x + ``sigma`` · N(0, 1): field B = y/σ² and quadratic term A = 1/σ².

    >>> from harmonium.units import Spin
    >>> found = AdditiveGaussian(0.5).log_likelihood_terms(torch.tensor([[0.25]]), Spin(1))
    >>> found.B, found.A
    (tensor([[1.]]), tensor([[4.]]))
    """

    symbol = "σ"
    parameter = "sigma"

    def __init__(self, sigma: float) -> None:
        if not (sigma >= 0 and math.isfinite(sigma)):
            raise InvalidOption(f"sigma: expected a finite number of at least 0, found {sigma!r}")
        self.sigma = float(sigma)

    def log_likelihood_terms(self, y: Tensor, unit: Unit) -> Evidence:
        if not bool(torch.isfinite(y).all()):
            where = tuple(torch.nonzero(~torch.isfinite(y))[0].tolist())
            raise InvalidData(f"observations: expected finite numbers, found {y[where].item()} at index {where}")
        if self.sigma == 0:
            return _fixed(y, torch.ones_like(y, dtype=torch.bool), unit)
        variance = self.sigma**2
        if variance * torch.finfo(y.dtype).max < max(1.0, y.abs().max().item()):
            raise InvalidOption(
                f"sigma: expected 0 or a value large enough that y/σ² is finite in {y.dtype}, found {self.sigma:g}"
            )
        return Evidence(y, B=y / variance, A=torch.full_like(y, 1 / variance))

    def _noisy(self, x: Tensor, generator: Generator | None) -> Tensor:
        return x + self.sigma * noise.normal(x, generator)


def _whole_units(unit: Unit, known: Tensor) -> Tensor:
    """Mark a vector unit as known only if all of its components are known."""
    return known.all(-1, keepdim=True).expand(known.shape) if unit.event_shape else known


def _fixed(y: Tensor, known: Tensor, unit: Unit) -> Evidence:
    """Evidence for values observed without noise; they must be in the support of the units."""
    if bool(known.all()):
        unit.check(y, "observations")
        return Evidence(y, known=known)
    filler = unit.mode(torch.zeros_like(y)).detach()
    values = torch.where(known, y, filler)
    unit.check(values, "observations")
    return Evidence(values, known=known)

"""Averages of tanh and its kin over a field h = s x + Σ_α c_α u^α, with x normal and u^α the components of the modes.

All four are Fourier integrals with one kernel,

    tanh h     = ∫₀^∞ dk sin(kh) / sinh(πk/2)
    tanh² h    = ∫₀^∞ dk k (1 - cos kh) / sinh(πk/2)
    sech⁴ h    = ∫₀^∞ dk k (4 + k²)/6 cos kh / sinh(πk/2)
    ln 2cosh h = ln 2 + ∫₀^∞ dk (1 - cos kh) / (k sinh(πk/2)),

so that their averages are integrals over k of the characteriztic function e^{-s²k²/2} Π_α φ(c_α k), in one dimension
for any number of modes and any components. The integrands are analytic around the real axis, where the midpoint rule
converges exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import InvalidOption

_LAST = 30.0  # beyond this k all kernels together weigh less than 1e-16
_MARGIN = 22.0  # the period 2π/δ of the midpoint rule exceeds the largest field by this: an error of e^{-2·22}
_NORMAL = 9.0  # a normal variable in units of its deviation, for an error of 1e-17
_MOST = 2_000_000  # nodes


@dataclass(frozen=True)
class Components:
    """A symmetric distribution of unit variance, by its characteriztic function.

    ``cosine(t)`` is φ(t) = E[cos tu], ``sine(t)`` is -φ'(t) = E[u sin tu]. ``reach(c)`` bounds |Σ_α c_α u^α| (…, K) but
    for a probability of 1e-17.
    """

    cosine: Callable[[Tensor], Tensor]
    sine: Callable[[Tensor], Tensor]
    reach: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Averages:
    """Over the field of one layer: ``projected`` (…, K) is E[u^α tanh h], the others (…)."""

    projected: Tensor
    tanh2: Tensor
    sech4: Tensor
    log_2cosh: Tensor


def averages(components: Components, variance: Tensor, fields: Tensor) -> Averages:
    """The averages over h = s x + Σ_α c_α u^α, for ``variance`` s² (…) and ``fields`` c (…, K).

    >>> c = torch.tensor([0.5], dtype=torch.float64)
    >>> found = averages(COMPONENTS["bernoulli"], torch.tensor(0.0, dtype=torch.float64), c)
    >>> torch.allclose(found.projected, torch.tanh(c), atol=1e-15, rtol=0)
    True
    """
    with torch.no_grad():
        largest = (_NORMAL * variance.clamp(min=0).sqrt() + components.reach(fields)).max()
    k, kernel = _rule(_period(largest.item()))
    modes = fields.shape[-1]
    t = fields[..., None, :] * k[:, None]  # (…, k, K)
    cosines, noise = components.cosine(t), torch.exp(-0.5 * variance[..., None] * k**2)
    whole = noise * cosines.prod(-1)  # (…, k), the characteriztic function of h
    own = torch.eye(modes, dtype=torch.bool)
    one_sine = torch.where(own, components.sine(t)[..., None, :], cosines[..., None, :]).prod(-1)  # (…, k, K)
    projected = ((kernel * noise)[..., None] * one_sine).sum(-2)
    lost = 1 - whole
    return Averages(
        projected=projected,
        tanh2=lost @ (k * kernel),
        sech4=whole @ (k * (4 + k**2) / 6 * kernel),
        log_2cosh=math.log(2) + lost @ (kernel / k),
    )


def _period(largest: float) -> float:
    """2π/δ, from a coarse ladder so that few rules are made."""
    if not math.isfinite(largest) or _MARGIN + 1.25 * largest > _MOST * 2 * math.pi / _LAST:
        raise InvalidOption(f"fields of size {largest:.3g} are beyond the quadrature: expected w, σ, η, θ of order 1")
    return _MARGIN + (1.25 ** math.ceil(math.log(largest, 1.25)) if largest > 1 else 1.0)


@lru_cache(maxsize=64)
def _rule(period: float) -> tuple[Tensor, Tensor]:
    """Nodes k = (j + ½) δ and δ / sinh(πk/2)."""
    step = 2 * math.pi / period
    k = (torch.arange(math.ceil(_LAST / step), dtype=torch.float64) + 0.5) * step
    return k, step / torch.sinh(math.pi / 2 * k)


def _within(most: float) -> Callable[[Tensor], Tensor]:
    """The reach of components that never exceed ``most`` (or nearly never)."""
    return lambda fields: most * fields.abs().sum(-1)


def _uniform_sine(t: Tensor) -> Tensor:
    """√3 (sin a - a cos a)/a² at a = √3 t; its own series near 0, where the difference cancels."""
    a = math.sqrt(3) * t
    small = a.abs() < 0.3
    x = torch.where(small, a, 0.0) ** 2
    series = a / 3 * (1 - x / 10 * (1 - x / 28 * (1 - x / 54 * (1 - x / 88 * (1 - x / 130)))))
    far = torch.where(small, 1.0, a)
    return math.sqrt(3) * torch.where(small, series, (torch.sin(far) - far * torch.cos(far)) / far**2)


COMPONENTS = {
    "gaussian": Components(
        cosine=lambda t: torch.exp(-0.5 * t**2),
        sine=lambda t: t * torch.exp(-0.5 * t**2),
        reach=lambda fields: _NORMAL * fields.square().sum(-1).sqrt(),
    ),
    "bernoulli": Components(cosine=torch.cos, sine=torch.sin, reach=_within(1.0)),
    "uniform": Components(
        cosine=lambda t: torch.sinc(math.sqrt(3) / math.pi * t), sine=_uniform_sine, reach=_within(math.sqrt(3))
    ),
    "laplace": Components(
        cosine=lambda t: 1 / (1 + 0.5 * t**2), sine=lambda t: t / (1 + 0.5 * t**2) ** 2, reach=_within(30.0)
    ),
}

"""Averages over a random field h = s x + Σ_α c_α u^α, with x standard normal and u^α the components of the modes.

The four functions to average are Fourier integrals with the same kernel,

    tanh h     = ∫₀^∞ dk sin(kh) / sinh(πk/2)
    tanh² h    = ∫₀^∞ dk k (1 - cos kh) / sinh(πk/2)
    sech⁴ h    = ∫₀^∞ dk k (4 + k²)/6 cos kh / sinh(πk/2)
    ln 2cosh h = ln 2 + ∫₀^∞ dk (1 - cos kh) / (k sinh(πk/2)),

so their averages are one-dimensional integrals over k of the characteristic function e^{-s²k²/2} Π_α φ(c_α k), for any
number of modes and any distribution of the components. The integrands are analytic near the real axis, so the midpoint
rule converges exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import InvalidOption

_LAST = 30.0  # upper limit of k: the neglected part of all integrals is below 1e-16
_MARGIN = 22.0  # period 2π/δ of the midpoint rule minus the largest field: gives an error of e^{-2·22}
_NORMAL = 9.0  # cutoff of a normal variable in standard deviations, for an error of 1e-17
_MOST = 2_000_000  # maximum number of nodes


@dataclass(frozen=True)
class Components:
    """A symmetric distribution of unit variance, given by its characteristic function φ.

    ``cosine(t)`` is φ(t) = E[cos tu], ``sine(t)`` is -φ'(t) = E[u sin tu]. ``reach(c)`` is a bound of |Σ_α c_α u^α| for
    c (…, K), exceeded with a probability of at most 1e-17.
    """

    cosine: Callable[[Tensor], Tensor]
    sine: Callable[[Tensor], Tensor]
    reach: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Averages:
    """Averages over the field h of one layer: ``projected`` (…, K) is E[u^α tanh h]; the others have shape (…)."""

    projected: Tensor
    tanh2: Tensor
    sech4: Tensor
    log_2cosh: Tensor


def averages(components: Components, variance: Tensor, fields: Tensor) -> Averages:
    """Compute the averages over h = s x + Σ_α c_α u^α, for ``variance`` s² (…) and ``fields`` c (…, K).

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
    whole = noise * cosines.prod(-1)  # (…, k), the characteristic function of h
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
    """Period 2π/δ of the rule, rounded up to a coarse grid so that few rules are computed."""
    if not math.isfinite(largest) or _MARGIN + 1.25 * largest > _MOST * 2 * math.pi / _LAST:
        raise InvalidOption(
            f"w, σ, η, θ: expected values of order 1, found fields of size {largest:.3g}, too large for the quadrature"
        )
    return _MARGIN + (1.25 ** math.ceil(math.log(largest, 1.25)) if largest > 1 else 1.0)


@lru_cache(maxsize=64)
def _rule(period: float) -> tuple[Tensor, Tensor]:
    """Nodes k = (j + ½) δ and weights δ / sinh(πk/2) of the midpoint rule."""
    step = 2 * math.pi / period
    k = (torch.arange(math.ceil(_LAST / step), dtype=torch.float64) + 0.5) * step
    return k, step / torch.sinh(math.pi / 2 * k)


def _within(most: float) -> Callable[[Tensor], Tensor]:
    """Bound for components that are at most ``most`` in magnitude (up to a negligible probability)."""
    return lambda fields: most * fields.abs().sum(-1)


def _uniform_sine(t: Tensor) -> Tensor:
    """Compute √3 (sin a - a cos a)/a² at a = √3 t, with a power series near 0 to avoid cancellation."""
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

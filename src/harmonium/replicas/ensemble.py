"""Ensemble of random RBMs with weights of low rank plus noise: Decelle, Fissore & Furtlehner (2017), eq. (10)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InvalidOption, unknown
from .averages import COMPONENTS


@dataclass(frozen=True)
class Ensemble:
    """Random RBMs with weights W = Σ_α w_α u^α v^αᵀ + noise: Decelle, Fissore & Furtlehner (2017), eq. (10).

    Args:
        w: strengths w_α ≥ 0 of the K modes.
        sigma: strength σ of the noise; its entries have variance σ²/L with L = √(N_v N_h).
        kappa: ratio N_h / N_v of the layer sizes.
        components: distribution of √N_v u_i and √N_h v_j: "gaussian", "bernoulli" (±1), "uniform" or "laplace".
        eta: projections of the visible biases on the modes, η_α = Σ_i η_i u_i^α / √L, (K,); zero by default.
        theta: projections of the hidden biases on the modes, θ_α = Σ_j θ_j v_j^α / √L, (K,); zero by default.

    >>> Ensemble([1.5, 1.2], sigma=0.5, kappa=0.5).modes
    2
    """

    w: Sequence[float]
    sigma: float
    kappa: float = 1.0
    components: str = "gaussian"
    eta: Sequence[float] | None = None
    theta: Sequence[float] | None = None

    def __post_init__(self) -> None:
        w = numbers("w", self.w)
        if min(w, default=0.0) < 0:
            raise InvalidOption(f"w: expected strengths of 0 or more (the vectors contain the signs), found {w}")
        sigma, kappa = numbers("sigma", [self.sigma])[0], numbers("kappa", [self.kappa])[0]
        if sigma < 0:
            raise InvalidOption(f"sigma: expected 0 or more, found {sigma:g}")
        if kappa <= 0:
            raise InvalidOption(f"kappa: expected N_h / N_v above 0, found {kappa:g}")
        if self.components not in COMPONENTS:
            raise unknown("components", str(self.components), COMPONENTS)
        for name, value in (("w", w), ("sigma", sigma), ("kappa", kappa)):
            object.__setattr__(self, name, value)
        for name in ("eta", "theta"):
            given = getattr(self, name)
            value = (0.0,) * len(w) if given is None else numbers(name, given)
            if len(value) != len(w):
                raise InvalidOption(f"{name}: expected one number for each of {len(w)} modes, found {len(value)}")
            object.__setattr__(self, name, value)

    @property
    def modes(self) -> int:
        """Number K of modes."""
        return len(self.w)

    @property
    def biases(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The projections η and θ."""
        return tuple(self.eta or ()), tuple(self.theta or ())

    @property
    def biased(self) -> tuple[bool, ...]:
        """Whether each mode has a bias. The ensemble is symmetric under sign changes of modes without bias."""
        return tuple(bool(eta or theta) for eta, theta in zip(*self.biases, strict=True))


def numbers(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """Check that the values are finite numbers and return them as floats."""
    try:
        found = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InvalidOption(f"{name}: expected numbers, found {values!r}") from None
    if not all(map(math.isfinite, found)):
        raise InvalidOption(f"{name}: expected finite numbers, found {found}")
    return found

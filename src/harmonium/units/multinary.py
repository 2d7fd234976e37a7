"""Multinary units: N tied binary units with offsets, whose mean approximates a given activation function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from .. import noise
from ..errors import InvalidOption, unknown
from . import lattice
from .base import Unit, Value
from .binomial import log_binomial, sum_of_bernoulli
from .support import Integers, Support, counts

Activation = Callable[[float], float]


@dataclass(frozen=True)
class Multiples(Support):
    """The values 0, step, 2 step, …, count · step, up to floating-point rounding."""

    step: float
    count: int

    def contains(self, x: Tensor) -> Tensor:
        index = x / self.step
        return ((index - index.round()).abs() < 1e-3) & (index > -0.5) & (index < self.count + 0.5)

    def states(self) -> Tensor:
        return self.step * torch.arange(self.count + 1, dtype=torch.float64)


class Multinary(Unit):
    """Multinary units of Hwang, Hwang & Jo (2020): N levels with mean close to f(x) = N g(kx), with scale k.

    ``form="offsets"`` is the exact model: x ∈ {0, …, N} is the sum of N binary units with thresholds
    o_n = f⁻¹(n - 1/2), so ln Z(B) = Σ_n softplus(B - o_n) and the mean Σ_n σ(B - o_n) ≈ f(B).
    ``form="integral"`` uses ln Z(B) = ∫f = (N/k) ln(1 + e^{kB}), eq. (6), as the exact log-partition function. This is
    that of x = k·Binomial(N/k, σ(kB)), so N/k must be an integer; the mean is exactly f.
    ``activation`` is "sigmoid", "relu" (thresholds n - 1/2) or an increasing function g from ℝ onto (0, 1).
    Alternatively, pass the N thresholds as ``offsets``.

    >>> Multinary(1, levels=4, scale=0.5).mean(torch.zeros(1, 1))
    tensor([[2.]], grad_fn=<SumBackward1>)
    """

    support: Support = counts

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        levels: int,
        scale: float = 1.0,
        activation: str | Activation = "sigmoid",
        form: str = "offsets",
        offsets: Sequence[float] | None = None,
        bias: Value = 0.0,
        learn: Iterable[str] = ("bias",),
        shared: Iterable[int] = (),
    ) -> None:
        if levels < 1 or not scale > 0:
            raise InvalidOption(f"multinary: expected levels ≥ 1 and scale > 0, found {levels} and {scale}")
        if form not in ("offsets", "integral"):
            raise unknown("form of multinary units", form, ("offsets", "integral"))
        options: dict[str, object] = {"levels": levels, "scale": scale, "form": form}
        if form == "offsets":
            thresholds = _offsets(levels, scale, activation) if offsets is None else list(offsets)
            if len(thresholds) != levels:
                raise InvalidOption(f"multinary: expected {levels} offsets, found {len(thresholds)}")
            if activation != "sigmoid" or offsets is not None:
                options["offsets"] = thresholds
        elif activation != "sigmoid" or offsets is not None or abs(levels / scale - round(levels / scale)) > 1e-9:
            raise InvalidOption(
                f"multinary: form='integral' expects a sigmoid and an integer levels/scale, found {levels / scale:g}"
            )
        super().__init__(shape, bias=bias, learn=learn, shared=shared, options=options)
        self.levels, self.scale, self.form = levels, scale, form
        if form == "offsets":
            self.register_buffer("offsets", torch.tensor(thresholds, dtype=torch.float64), persistent=False)
            self.register_buffer("log_base", _log_elementary(thresholds), persistent=False)
            self.step = 1.0
            self.support = Integers(f"integers from 0 to {levels}", levels)
        else:
            trials = round(levels / scale)
            lattice_points = torch.arange(trials + 1, dtype=torch.float64)
            self.register_buffer("log_base", log_binomial(trials, lattice_points), persistent=False)
            self.step = scale
            self.support = Multiples(f"multiples of {scale:g} from 0 to {levels}", scale, trials)

    def log_weight(self, x: Tensor) -> Tensor:
        index = (x / self.step).round().long().clamp(0, len(self._log_base) - 1)
        return self.bias * x + self._log_base.to(x)[index]

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.log_sum(self._terms(B, A)[1])
        return self._closed_form(B, lambda field: softplus(field, threshold=50.0), 1 / self.step)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return lattice.mean(*self._terms(B, A)) if A is not None else self._closed_form(B, torch.sigmoid, 1.0)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.variance(*self._terms(B, A))
        return self._closed_form(B, lambda field: torch.sigmoid(field) * torch.sigmoid(-field), self.step)

    def mode(self, B: Tensor) -> Tensor:
        """The most probable value, computed in float64.

        The ratios of neighboring weights decrease (Newton's inequality), so the mode is the number of ratios above one.
        """
        ratios = self._log_base.diff() + self.step * (self.bias + B).detach().to(torch.float64).unsqueeze(-1)
        return self._values(B)[(ratios > 0).sum(-1)]

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.sample(*self._terms(B, A), generator)
        field = (self.bias + B).detach()
        if self.form == "integral":
            count = sum_of_bernoulli(self.step * field, len(self._log_base) - 1, generator)
            return self._values(field)[count.long()]
        total, coin = torch.zeros_like(field), torch.empty_like(field)
        for offset in self._offsets:
            total += noise.bernoulli_(torch.sigmoid(field - offset.to(field)), coin, generator)
        return total

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data, with ``pseudocount`` (default 1) observations of the values 0 and N added."""
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data)
        mean = (data.to(torch.float64).sum(0) + extra * self.levels) / (len(data) + 2 * extra)
        self._match_mean(mean)

    def _closed_form(self, B: Tensor, function: Callable[[Tensor], Tensor], weight: float) -> Tensor:
        """Σ_n function(B - o_n), or N·weight·function(kB) in the integral form."""
        field = self.bias + B
        if self.form == "integral":
            return self.levels * weight * function(self.step * field)
        return function(field.unsqueeze(-1) - self._offsets.to(field)).sum(-1)

    def _terms(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        values = self._values(B)
        return values, lattice.terms(values, self._log_base.to(B), self.bias + B, A)

    def _values(self, like: Tensor) -> Tensor:
        """The values of a unit, computed in float64 and rounded to the dtype of ``like``."""
        return (self.step * torch.arange(len(self._log_base), dtype=torch.float64)).to(like)

    def _apply(self, fn: Any, recurse: bool = True) -> Multinary:
        """Move the tables to another device, but keep them in float64 whatever the dtype of the parameters."""
        tables = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, table in tables.items():
            if table is not None:
                self._buffers[name] = table.to(self.bias.device)
        return self

    @property
    def _log_base(self) -> Tensor:
        return self.get_buffer("log_base")

    @property
    def _offsets(self) -> Tensor:
        return self.get_buffer("offsets")


def _offsets(levels: int, scale: float, activation: str | Activation) -> list[float]:
    """o_n = f⁻¹(n - 1/2), n = 1 … N, for f(x) = N g(kx)."""
    n = torch.arange(1, levels + 1, dtype=torch.float64) - 0.5
    if activation == "sigmoid":
        return ((n / (levels - n)).log() / scale).tolist()
    if activation == "relu":
        return (n / scale).tolist()
    if not callable(activation):
        raise unknown("activation of multinary units", str(activation), ("sigmoid", "relu"))
    return [_inverse(activation, value / levels) / scale for value in n.tolist()]


def _inverse(activation: Activation, target: float) -> float:
    low, high = -1.0, 1.0
    while activation(low) > target and low > -1e6:
        low *= 2
    while activation(high) < target and high < 1e6:
        high *= 2
    if not activation(low) <= target <= activation(high):
        raise InvalidOption(f"activation: expected an increasing function onto (0, 1), found no value {target:g}")
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if activation(middle) < target else (low, middle)
    return (low + high) / 2


def _log_elementary(offsets: Sequence[float]) -> Tensor:
    """ln e_t(e^{-o_1}, …, e^{-o_N}) for t = 0 … N: the log-weight of the count t."""
    logs = torch.full((len(offsets) + 1,), -torch.inf, dtype=torch.float64)
    logs[0] = 0.0
    for offset in offsets:
        logs[1:] = torch.logaddexp(logs[1:], logs[:-1] - offset)
    return logs

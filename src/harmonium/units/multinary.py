"""Multinary units: N tied binary units with offsets, whose mean approximates a given activation function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from .. import noise
from ..checks import as_shape, whole
from ..errors import InvalidOption, unknown
from . import lattice
from .activation import Function, Scaled, check, inverse, on_tensors
from .base import Unit
from .binomial import log_binomial, sum_of_bernoulli
from .layer import LayerOptions
from .support import Integers, Interval, Support, counts
from .taylor import Derivatives, softplus_sum
from .tilted import Tilted


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


@dataclass(frozen=True)
class Sigmoid:
    """The integral of N σ(kx), (N/k) ln(1 + e^{kx}), and its first two derivatives."""

    levels: int
    scale: float

    def __call__(self, x: Tensor, order: int) -> Tensor:
        x = self.scale * x
        if order == 0:
            return (self.levels / self.scale) * softplus(x, threshold=50.0)
        value = torch.sigmoid(x)
        return self.levels * value if order == 1 else (self.levels * self.scale) * value * torch.sigmoid(-x)


_MOST_LEVELS = 2**16  # the table of the base weights grows with the levels


class Multinary(Unit):
    """Multinary units of Hwang, Hwang & Jo (2020): N levels with mean close to f(x) = N g(kx), with scale k.

    ``docs/multinary.md`` compares the forms and measures the approximations.

    Args:
        shape: the shape of the layer.
        levels: the largest value N.
        scale: the factor k.
        activation: "sigmoid", "relu" (f(x) = kx between 0 and N), or a function g of numbers or of tensors that
            increases from 0 to 1.
        form: "offsets" is the exact model: x ∈ {0, …, N} is the sum of N binary units with thresholds
            o_n = f⁻¹(n - 1/2), so ln Z(B) = Σ_n softplus(B - o_n) and the mean Σ_n σ(B - o_n) is close to f(B).
            "integral" uses ln Z(B) = ∫f, eq. (6), so the mean is exactly f and the variance f'. For a sigmoid,
            ln Z = (N/k) ln(1 + e^{kB}) is that of x = k·Binomial(N/k, σ(kB)), if N/k is an integer. Otherwise no
            distribution of x is known, and ``sampling="gaussian"`` is required.
        offsets: the N thresholds, instead of an activation function.
        integral: G(x) = ∫_{-∞}^x g(t) dt as a function of tensors, for form "integral"; by default computed by
            quadrature.
        sampling: "exact", or "gaussian" for a normal distribution with the mean and the variance of the unit (f and f'
            in form "integral"), clipped to [0, N] and rounded to the values of the unit.
        bias: the bias.
        learn: names of the natural parameters that training updates.

    >>> Multinary(1, levels=4, scale=0.5).mean(torch.zeros(1, 1))
    tensor([[2.]], grad_fn=<SumBackward1>)
    >>> Multinary(1, levels=255, scale=0.1, activation=torch.special.ndtr).mean(torch.zeros(1, 1)).round()
    tensor([[128.]], grad_fn=<RoundBackward0>)
    """

    support: Support = counts

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        levels: int,
        scale: float = 1.0,
        activation: str | Function = "sigmoid",
        form: str = "offsets",
        offsets: Sequence[float] | None = None,
        integral: Function | None = None,
        sampling: str = "exact",
        **common: Unpack[LayerOptions],
    ) -> None:
        levels = whole("levels", levels)
        if levels < 1 or not 0 < scale < math.inf:
            raise InvalidOption(f"multinary: expected levels ≥ 1 and scale > 0, found {levels} and {scale}")
        if levels > _MOST_LEVELS:
            raise InvalidOption(f"multinary: expected at most {_MOST_LEVELS:,} levels, found {levels:,}")
        for what, value, known in (("form", form, ("offsets", "integral")), ("sampling", sampling, _SAMPLING)):
            if value not in known:
                raise unknown(f"{what} of multinary units", value, known)
        if isinstance(activation, str) and activation not in _NAMED:
            raise unknown("activation of multinary units", activation, _NAMED)
        options: dict[str, object] = {"levels": levels, "scale": scale, "form": form}
        if form == "offsets":
            if integral is not None:
                raise InvalidOption("integral: expected form='integral', found form='offsets'")
            with _naming(shape):
                thresholds = _offsets(levels, scale, activation) if offsets is None else list(offsets)
            if len(thresholds) != levels:
                raise InvalidOption(f"multinary: expected {levels} offsets, found {len(thresholds)}")
            if activation != "sigmoid" or offsets is not None:
                options["offsets"] = thresholds
        elif offsets is not None:
            raise InvalidOption("offsets: expected form='offsets', found form='integral'")
        elif activation != "sigmoid":
            options["activation"] = activation
            if integral is not None:
                options["integral"] = integral
        if sampling != "exact":
            options["sampling"] = sampling
        super().__init__(shape, **common, options=options)
        self.levels, self.scale, self.form, self.sampling = levels, scale, form, sampling
        self._samplers: dict[tuple[torch.dtype, torch.device], Tilted | None] = {}
        self._derivatives: Derivatives
        self.step = 1.0
        if form == "offsets":
            self._derivatives = softplus_sum(thresholds)
            self.register_buffer("offsets", torch.tensor(thresholds, dtype=torch.float64), persistent=False)
            self.register_buffer("log_base", _log_elementary(thresholds), persistent=False)
            self.support = Integers(f"integers from 0 to {levels}", levels)
            return
        with _naming(shape):
            self._derivatives = _integral(levels, scale, activation, integral)
        trials = round(levels / scale)
        if activation == "sigmoid" and abs(levels / scale - trials) <= 1e-9:
            lattice_points = torch.arange(trials + 1, dtype=torch.float64)
            self.register_buffer("log_base", log_binomial(trials, lattice_points), persistent=False)
            self.step = scale
            self.support = Multiples(f"multiples of {scale:g} from 0 to {levels}", scale, trials)
            return
        if sampling == "exact":
            found = f"levels/scale = {levels / scale:g}" if activation == "sigmoid" else "another activation"
            raise InvalidOption(
                "multinary: exact draws in form='integral' expect a sigmoid and an integer levels/scale, "
                f"found {found}; pass sampling='gaussian' or form='offsets'"
            )
        self.register_buffer("log_base", None)
        self.support = Interval(f"numbers from 0 to {levels}", 0.0, float(levels))

    def log_weight(self, x: Tensor) -> Tensor:
        index = (x / self.step).round().long().clamp(0, len(self._log_base) - 1)
        return self.bias * x + self._log_base.to(x)[index]

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return lattice.log_sum(self._terms(B, A)[1]) if A is not None else self._derivatives(self.bias + B, 0)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return lattice.mean(*self._terms(B, A)) if A is not None else self._derivatives(self.bias + B, 1)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return lattice.variance(*self._terms(B, A)) if A is not None else self._derivatives(self.bias + B, 2)

    def mode(self, B: Tensor) -> Tensor:
        """The most probable value, computed in float64; the mean if the distribution is not known.

        The ratios of neighboring weights decrease (Newton's inequality), so the mode is the number of ratios above one.
        """
        if not self._discrete:
            return self.mean(B).detach()
        field = self.step * (self.bias + B).detach().to(torch.float64)
        return self._values(B)[torch.bucketize(field, -self._log_base.diff())]

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.sample(*self._terms(B, A), generator)
        field = (self.bias + B).detach()
        if self.sampling == "exact":
            count = self._count(field if self.step == 1.0 else field.mul_(self.step), generator)
        else:
            spread = self._derivatives(field, 2).sqrt_()
            count = noise.normal(field, generator).mul_(spread).add_(self._derivatives(field, 1))
            count = count.clamp_(0.0, self.levels)
            if not self._discrete:
                return count
            count = count.div_(self.step).round_()
        return count if self.step == 1.0 else self._values(field).index_select(0, count.flatten().long()).view_as(count)

    def mean_(self, B: Tensor, out: Tensor) -> Tensor:
        if not isinstance(self._derivatives, Sigmoid):
            return super().mean_(B, out)
        return torch.add(B, self.bias, out=out).mul_(self.scale).sigmoid_().mul_(self.levels)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data, with ``pseudocount`` (default 1) observations of the values 0 and N added."""
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data)
        mean = (data.to(torch.float64).sum(0) + extra * self.levels) / (len(data) + 2 * extra)
        self._match_mean(mean, reach=max(1e3, 50 / self.scale))

    def _count(self, field: Tensor, generator: Generator | None) -> Tensor:
        """The number of binary units that are on, in a field for each of them."""
        key = field.dtype, field.device
        if key not in self._samplers:
            table = Tilted.of(self._log_base)
            self._samplers[key] = None if table is None else table.to(field)
        table = self._samplers[key]
        if table is not None:
            return table.draw(field, generator)
        if self.form == "integral":
            return sum_of_bernoulli(field, len(self._log_base) - 1, generator)
        total, coin = torch.zeros_like(field), torch.empty_like(field)
        for offset in self.get_buffer("offsets"):
            total += noise.bernoulli_(torch.sigmoid(field - offset.to(field)), coin, generator)
        return total

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
    def _discrete(self) -> bool:
        return self._buffers["log_base"] is not None

    @property
    def _log_base(self) -> Tensor:
        """The logarithms of the weights of all values at zero field and bias."""
        if not self._discrete:
            raise InvalidOption(
                "multinary: this activation in form='integral' defines ln Z, the mean and the variance, "
                "but not the weights of single values; use form='offsets'"
            )
        return self.get_buffer("log_base")


_NAMED, _SAMPLING = ("sigmoid", "relu"), ("exact", "gaussian")


@contextmanager
def _naming(shape: int | Iterable[int]) -> Iterator[None]:
    """Start errors about the activation with the layer, such as multinary:3x8x8."""
    try:
        yield
    except InvalidOption as error:
        raise InvalidOption(f"multinary:{'x'.join(map(str, as_shape(shape)))}: {error}") from None


def _offsets(levels: int, scale: float, activation: str | Function) -> list[float]:
    """o_n = f⁻¹(n - 1/2), n = 1 … N, for f(x) = N g(kx)."""
    n = torch.arange(1, levels + 1, dtype=torch.float64) - 0.5
    if activation == "sigmoid":
        return ((n / (levels - n)).log() / scale).tolist()
    if activation == "relu":
        return (n / scale).tolist()
    assert callable(activation)
    function, _ = on_tensors(activation)
    return (inverse(function, n / levels, *check(function)) / scale).tolist()


def _integral(levels: int, scale: float, activation: str | Function, integral: Function | None) -> Derivatives:
    """∫f and its derivatives for f(x) = N g(kx)."""
    if activation == "sigmoid":
        return Sigmoid(levels, scale)
    if activation == "relu":
        return Scaled(lambda x: (x / levels).clamp(0.0, 1.0), levels=levels, scale=scale, integral=integral)
    assert callable(activation)
    return Scaled(activation, levels=levels, scale=scale, integral=integral)


def _log_elementary(offsets: Sequence[float]) -> Tensor:
    """ln e_t(e^{-o_1}, …, e^{-o_N}) for t = 0 … N: the log-weight of the count t."""
    logs = torch.full((len(offsets) + 1,), -torch.inf, dtype=torch.float64)
    logs[0] = 0.0
    for offset in offsets:
        logs[1:] = torch.logaddexp(logs[1:], logs[:-1] - offset)
    return logs

"""Activation functions: checks, inverse and integral of a function g that increases from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidOption

#: a function of a number (such as ``math.erf``) or of a tensor (such as ``torch.sigmoid``)
Function = Callable[[Any], Any]

_FARTHEST = 2.0**20  # the limits of g are its values here
_LIMIT = 1e-4  # largest distance of these values from 0 and 1
_POINTS = 4001  # of the grid on which g is compared with itself
_BISECTIONS = 80
_NODES, _SHARES = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(8))
_TOLERANCE, _SMALLEST, _MOST_PANELS = 1e-13, 1e-9, 20_000


def on_tensors(function: Function) -> tuple[Callable[[Tensor], Tensor], bool]:
    """The function on tensors of float64, and whether it accepts tensors itself; otherwise it is called per element.

    >>> import math
    >>> on_tensors(torch.sigmoid)[1], on_tensors(math.erf)[1]
    (True, False)
    """
    probe = torch.tensor([-0.5, 0.0, 0.5], dtype=torch.float64)
    try:
        value = function(probe)
    except (TypeError, ValueError, RuntimeError):
        value = None
    if isinstance(value, Tensor) and value.shape == probe.shape:
        return function, True

    def each(x: Tensor) -> Tensor:
        return torch.tensor([float(function(one)) for one in x.flatten().tolist()], dtype=torch.float64).view(x.shape)

    return each, False


def check(function: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """Raise unless g increases from 0 to 1; return two points between which it does so up to 1e-4.

    >>> check(torch.sigmoid)
    (-16.0, 16.0)
    >>> check(torch.tanh)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: activation: expected an increasing function from 0 to 1, found -1 at x = -1.05e+06
    """
    low, start = _far_end(function, -1.0, 0.0)
    high, end = _far_end(function, 1.0, 1.0)
    expected = "activation: expected an increasing function from 0 to 1"
    for x, value, limit in ((low, start, 0.0), (high, end, 1.0)):
        if not abs(value - limit) <= _LIMIT:
            raise InvalidOption(f"{expected}, found {value:.3g} at x = {x:.3g}")
    # equidistant points, and points that are dense near zero and sparse far away
    line = torch.linspace(-1.0, 1.0, _POINTS, dtype=torch.float64)
    reach = max(-low, high)
    points = torch.cat([line * reach, torch.sinh(line * np.arcsinh(1e3 * reach)) / 1e3]).clamp(low, high)
    points = points.sort().values
    values = function(points)
    falls = values.diff() < -1e-9
    if not bool(torch.isfinite(values).all()) or bool(falls.any()):
        k = int(falls.to(torch.int8).argmax())
        raise InvalidOption(
            f"{expected}, found {values[k]:.6g} at x = {points[k]:.6g} and {values[k + 1]:.6g} at {points[k + 1]:.6g}"
        )
    return low, high


def inverse(function: Callable[[Tensor], Tensor], targets: Tensor, low: float, high: float) -> Tensor:
    """g⁻¹ of each target by bisection between ``low`` and ``high``, in float64.

    >>> inverse(torch.sigmoid, torch.tensor([0.5]), -16.0, 16.0).abs() < 1e-12
    tensor([True])
    """
    targets = targets.to(torch.float64)
    below, above = torch.full_like(targets, low), torch.full_like(targets, high)
    while bool((function(below) > targets).any()):
        below = below * 2
    while bool((function(above) < targets).any()):
        above = above * 2
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        less = function(middle) < targets
        below, above = torch.where(less, middle, below), torch.where(less, above, middle)
    return (below + above) / 2


def _far_end(function: Callable[[Tensor], Tensor], sign: float, limit: float) -> tuple[float, float]:
    """The first power of two, with a sign, at which the function is close to its limit, and its value there."""
    x, value = sign, float("nan")
    while abs(x) <= _FARTHEST:
        try:
            found = float(function(torch.tensor([x], dtype=torch.float64))[0])
        except (OverflowError, ValueError, ZeroDivisionError):  # as of math.exp
            break
        value = found
        if abs(value - limit) <= _LIMIT / 100:
            break
        x *= 2
    else:
        x /= 2
    return x, value


class Integral:
    """G(x) = ∫_{-∞}^x g(t) dt by adaptive Gauss-Legendre quadrature, with an error of about 1e-12.

    >>> G = Integral(torch.sigmoid, -16.0, 16.0)
    >>> G(torch.tensor([0.0, 3.0])) - torch.nn.functional.softplus(torch.tensor([0.0, 3.0]))
    tensor([0., 0.])
    """

    def __init__(self, function: Callable[[Tensor], Tensor], low: float, high: float) -> None:
        self.function = function
        left, total = [low], self._panel(low, high)
        while self._panel(2 * left[-1], left[-1]) > _TOLERANCE * max(total, 1.0):
            left.append(2 * left[-1])
            if left[-1] < -_FARTHEST:
                raise InvalidOption(
                    "activation: expected a function with a finite integral from -∞; "
                    "this one decays too slowly, pass form='offsets'"
                )
        right = [high]
        while right[-1] < 2**10 * max(high, 1.0):
            right.append(2 * right[-1])
        ends = self._refined(sorted([*left, 0.0, *right]))
        pieces = torch.tensor([self._panel(a, b) for a, b in pairwise(ends)], dtype=torch.float64)
        self._ends = torch.tensor(ends, dtype=torch.float64)
        self._sums = torch.cat([torch.zeros(1, dtype=torch.float64), pieces.cumsum(0)])

    def __call__(self, x: Tensor) -> Tensor:
        """G at each x, in float64, rounded to the dtype of x; without a graph."""
        ends, sums = self._ends.to(x.device), self._sums.to(x.device)
        wide = x.detach().to(torch.float64)
        inside = wide.clamp(float(ends[0]), float(ends[-1]))
        k = (torch.bucketize(inside, ends, right=True) - 1).clamp_(0, len(ends) - 2)
        half = (inside - ends[k]) / 2
        value = torch.zeros_like(half)
        for node, share in zip(_NODES.tolist(), _SHARES.tolist(), strict=True):
            value += share * self.function(ends[k] + half * (1 + node))
        return (sums[k] + half * value + (wide - inside).clamp_min(0.0)).to(x.dtype)

    def _panel(self, a: float, b: float) -> float:
        half = (b - a) / 2
        return half * float(_SHARES @ self.function(a + half * (1 + _NODES)))

    def _refined(self, ends: list[float]) -> list[float]:
        """Bisect panels until halving them changes nothing."""
        done, todo = [ends[0]], [(a, b, self._panel(a, b)) for a, b in pairwise(ends)][::-1]
        while todo:
            a, b, whole = todo.pop()
            middle = (a + b) / 2
            parts = self._panel(a, middle), self._panel(middle, b)
            if abs(sum(parts) - whole) <= _TOLERANCE * max(abs(whole), 1.0) or b - a < _SMALLEST:
                done.append(b)
            else:
                todo += [(middle, b, parts[1]), (a, middle, parts[0])]
            if len(done) + len(todo) > _MOST_PANELS:
                raise InvalidOption("activation: the integral did not converge; pass it as integral=…")
        return done


class Scaled:
    """The integral of f(x) = N g(kx), (N/k) G(kx), and its first two derivatives, f and f', for any g of tensors.

    ``integral`` is G(x) = ∫_{-∞}^x g(t) dt; by default it is computed by quadrature.

    >>> f = Scaled(torch.sigmoid, levels=4, scale=0.5)
    >>> [round(f(torch.zeros(1), order).item(), 4) for order in (0, 1, 2)]
    [5.5452, 2.0, 0.5]
    """

    def __init__(self, function: Function, *, levels: int, scale: float, integral: Function | None = None) -> None:
        if not on_tensors(function)[1]:
            raise InvalidOption(
                "activation: form='integral' expects a function of tensors, such as torch.special.ndtr; "
                "for a function of numbers, pass form='offsets'"
            )
        self.function, self.levels, self.scale = function, levels, scale
        low, high = check(function)
        quadrature = Integral(function, low, high)
        if integral is not None:
            points = torch.linspace(low, high, 9, dtype=torch.float64)
            expected, found = quadrature(points), integral(points)
            k = int((found - expected).abs().argmax())
            if not torch.allclose(found, expected, rtol=1e-6, atol=1e-6):
                raise InvalidOption(
                    "integral: expected the integral of the activation from -∞, "
                    f"{expected[k]:.6g} at x = {points[k]:g}, found {found[k]:.6g}"
                )
        self.integral = quadrature if integral is None else integral

    def __call__(self, x: Tensor, order: int) -> Tensor:
        if order == 0:
            value: Tensor = _Primitive.apply(self, x)
            return value
        if order == 1:
            return self.levels * self.function(self.scale * x)
        with torch.enable_grad():
            tracked = x if x.requires_grad else x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self(tracked, 1).sum(), tracked, create_graph=True)
        return slope if x.requires_grad else slope.detach()


class _Primitive(torch.autograd.Function):
    """(N/k) G(kx), whose derivative is N g(kx) even if the integral is a quadrature."""

    @staticmethod
    def forward(ctx: Any, scaled: Scaled, x: Tensor) -> Tensor:
        ctx.scaled = scaled
        ctx.save_for_backward(x)
        return (scaled.levels / scaled.scale) * scaled.integral(scaled.scale * x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, gradients[0] * ctx.scaled(x, 1)

"""Slow, independent references: 50-digit sums and closed forms of mpmath."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import mpmath as mp
import torch
from torch import Tensor

GOLDEN = json.loads((Path(__file__).parent / "golden_units.json").read_text())
F64 = torch.float64

Triple = tuple[float, float, float]


def golden(name: str) -> dict[str, Tensor]:
    """The columns of a golden table (null becomes NaN)."""
    table = GOLDEN["units"][name]
    rows = [[math.nan if value is None else value for value in row] for row in table["rows"]]
    return dict(zip(table["columns"], torch.tensor(rows, dtype=F64).T, strict=True))


def assert_close(found: Tensor, expected: Tensor, tolerance: float, size: Tensor | float = 0.0) -> None:
    """|found - expected| ≤ tolerance · max(|expected|, size), all finite; reports the worst entry."""
    found = found.detach().to(F64)
    assert bool(torch.isfinite(found).all()), "NaN or infinity"
    scale = torch.maximum(expected.abs(), torch.as_tensor(size, dtype=F64).expand(expected.shape))
    error = (found - expected).abs() / scale.clamp_min(1e-300)
    worst = int(error.argmax())
    pair = f"{found.flatten()[worst]} for {expected.flatten()[worst]}"
    assert bool((error <= tolerance).all()), f"relative error {error.max():.2e} at entry {worst}: {pair}"


def sums(states: Iterable[float], log_weight: Callable[[mp.mpf], mp.mpf], B: float, A: float = 0.0) -> Triple:
    """ln Z, mean and variance of a discrete unit."""
    with mp.workdps(50):
        x = [mp.mpf(state) for state in states]
        weights = [mp.exp(log_weight(s) + mp.mpf(B) * s - mp.mpf(A) * s * s / 2) for s in x]
        return _triple(x, weights)


def vector_sums(
    states: Iterable[tuple[int, ...]], log_weight: Callable[..., mp.mpf], B: list[float], A: list[float]
) -> tuple[float, list[float], list[float]]:
    """ln Z, means and variances of a vector unit."""
    with mp.workdps(50):
        x = list(states)
        quadratic = [(mp.mpf(b), mp.mpf(a)) for b, a in zip(B, A, strict=True)]
        weights = [
            mp.exp(log_weight(s) + mp.fsum(b * k - a * k * k / 2 for (b, a), k in zip(quadratic, s, strict=True)))
            for s in x
        ]
        triples = [_triple([mp.mpf(s[k]) for s in x], weights) for k in range(len(B))]
        return triples[0][0], [t[1] for t in triples], [t[2] for t in triples]


def compositions(total: int, size: int) -> list[tuple[int, ...]]:
    return [x for x in product(range(total + 1), repeat=size) if sum(x) == total]


def half_line(h: mp.mpf, p: mp.mpf) -> list[mp.mpf]:
    """∫₀^∞ x^k e^{hx - px²/2} for k = 0, 1, 2, by erfc and integration by parts (call with many digits)."""
    zero = mp.sqrt(mp.pi / (2 * p)) * mp.exp(h * h / (2 * p)) * mp.erfc(-h / mp.sqrt(2 * p))
    one = (1 + h * zero) / p
    return [zero, one, (h * one + zero) / p]


def double_relu(b: float, t: float, plus: float, minus: float, B: float, A: float = 0.0) -> Triple:
    """ln Z, mean and variance of a double ReLU unit."""
    with mp.workdps(80):
        h = mp.mpf(b) + mp.mpf(B)
        right = half_line(mp.mpf(t) + h, mp.mpf(plus) + mp.mpf(A))
        left = half_line(mp.mpf(t) - h, mp.mpf(minus) + mp.mpf(A))
        z = right[0] + left[0]
        mean = (right[1] - left[1]) / z
        return float(mp.log(z)), float(mean), float((right[2] + left[2]) / z - mean**2)


def _triple(x: list[mp.mpf], weights: list[mp.mpf]) -> Triple:
    z = mp.fsum(weights)
    mean = mp.fsum(a * w for a, w in zip(x, weights, strict=True)) / z
    variance = mp.fsum((a - mean) ** 2 * w for a, w in zip(x, weights, strict=True)) / z
    return float(mp.log(z)), float(mean), float(variance)

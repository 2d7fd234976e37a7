"""Multinary units with 255 levels: errors of the approximations for several scales k, and the speed of the samplers.

    python -m benchmarks.multinary

prints the tables of ``docs/multinary.md``. The errors are computed, not sampled. Times are CPU times of one thread.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from harmonium import units

LEVELS = 255
SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
SHAPE = (128, 3, 64, 64)
F64 = torch.float64


def fields(scale: float) -> Tensor:
    """The fields between f(B) = N/2 and f(B) = N - 1/4; the errors are symmetric."""
    return torch.linspace(0.0, 7.0 / scale, 1401, dtype=F64)[:, None]


def error_of_the_mean(scale: float) -> tuple[float, float]:
    """The largest |mean - f|/N and |variance - f'|/max f' of the form "offsets"."""
    exact = units.Multinary(1, levels=LEVELS, scale=scale).double()
    f = units.Multinary(1, levels=LEVELS, scale=scale, form="integral", sampling="gaussian").double()
    B = fields(scale)
    with torch.no_grad():
        mean = (exact.mean(B) - f.mean(B)).abs().max().item() / LEVELS
        variance = (exact.variance(B) - f.variance(B)).abs().max().item() / f.variance(B).max().item()
    return mean, variance


def error_of_the_normal(scale: float, form: str) -> tuple[float, float, float]:
    """The Gaussian approximation of one unit against its exact distribution.

    Returns the largest total variation distance at any field, that at f(B) = N/2, and the largest error of the mean in
    standard deviations.
    """
    unit = units.Multinary(1, levels=LEVELS, scale=scale, form=form).double()
    values, B = unit.support.states(), fields(scale)
    with torch.no_grad():
        exact = torch.softmax(unit.log_weight(values[:, None])[:, 0] + B * values, 1)
        mean, spread = unit.mean(B), unit.variance(B).sqrt()
        ends = torch.special.ndtr((values[:-1] + unit.step / 2 - mean) / spread)
    ends = torch.cat([torch.zeros(len(B), 1, dtype=F64), ends, torch.ones(len(B), 1, dtype=F64)], 1)
    normal = ends.diff()
    distance = (exact - normal).abs().sum(1) / 2
    shift = ((normal @ values)[:, None] - mean).abs() / spread
    return distance.max().item(), distance[0].item(), shift.max().item()


def million_per_second(scale: float, form: str, sampling: str) -> float:
    """Draws per second, in millions."""
    unit = units.Multinary(SHAPE[1:], levels=LEVELS, scale=scale, form=form, sampling=sampling)
    source = torch.Generator().manual_seed(0)
    B, out = torch.randn(SHAPE, generator=source) * 2 / scale, torch.empty(SHAPE)
    times = []
    with torch.no_grad():
        for _ in range(6):
            start = time.process_time()
            unit.sample_(B, out, source)
            times.append(time.process_time() - start)
    return out.numel() / sorted(times[1:])[2] / 1e6


def main() -> None:
    print("| k | max abs(mean − f)/N | max abs(variance − f′)/max f′ |\n|---|---|---|")
    for scale in SCALES:
        mean, variance = error_of_the_mean(scale)
        print(f"| {scale:g} | {mean:.2g} | {variance:.2g} |")
    print("\n| k | form | largest distance | distance at N/2 | largest shift of the mean |\n|---|---|---|---|---|")
    for form in ("offsets", "integral"):
        for scale in (0.05, 0.1, 0.5, 1.0):
            distance, middle, shift = error_of_the_normal(scale, form)
            print(f"| {scale:g} | {form} | {distance:.2g} | {middle:.2g} | {shift:.2g} |")
    torch.set_num_threads(1)
    print("\n| form | sampling | million draws per second |\n|---|---|---|")
    for form in ("offsets", "integral"):
        for sampling in ("exact", "gaussian"):
            print(f"| {form} | {sampling} | {million_per_second(0.1, form, sampling):.0f} |")


if __name__ == "__main__":
    main()

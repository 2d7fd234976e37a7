"""Multinary units with 255 levels: errors of the approximations for several scales k, and the speed of the samplers.

    python benchmarks/multinary.py

prints the tables of ``docs/multinary.md``. The errors are computed, not sampled. Times are CPU times of one thread.
"""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from harmonium import units

LEVELS = 255
SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
SHARES = (0.5, 0.9, 0.99)
SHAPE = (128, 3, 64, 64)
F64 = torch.float64


def fields(scale: float) -> Tensor:
    """Fields from f(B) = N/2 to saturation; the errors are symmetric."""
    end = (math.log(LEVELS / scale) + 8.0) / scale + 12.0  # both forms are then N, except with a probability below e^-8
    return torch.linspace(0.0, end, 3001, dtype=F64)[:, None]


def error_of_the_mean(scale: float) -> tuple[float, float]:
    """The largest |mean - f|/N and |variance - f'|/max f' of the form "offsets"."""
    exact = units.Multinary(1, levels=LEVELS, scale=scale).double()
    f = units.Multinary(1, levels=LEVELS, scale=scale, form="integral", sampling="gaussian").double()
    B = fields(scale)
    with torch.no_grad():
        mean = (exact.mean(B) - f.mean(B)).abs().max().item() / LEVELS
        variance = (exact.variance(B) - f.variance(B)).abs().max().item() / f.variance(B).max().item()
    return mean, variance


def error_of_the_normal(scale: float, form: str) -> tuple[list[float], float, float]:
    """The Gaussian approximation of one unit against its exact distribution.

    Returns the total variation distances where the mean is 0.5, 0.9 and 0.99 N, the largest one at any field, and the
    largest error of the mean in standard deviations.
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
    near = [(mean - share * LEVELS).abs().argmin() for share in SHARES]
    return [distance[k].item() for k in near], distance.max().item(), shift.max().item()


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
    """Print the tables."""
    print("| k | max abs(mean − f)/N | max abs(variance − f′)/max f′ |\n|---|---|---|")
    for scale in SCALES:
        mean, variance = error_of_the_mean(scale)
        print(f"| {scale:g} | {mean:.2g} | {variance:.2g} |")
    print("\n| form | k | mean 0.5 N | 0.9 N | 0.99 N | largest | error of the mean |\n|---|---|---|---|---|---|---|")
    for form in ("offsets", "integral"):
        for scale in (0.05, 0.1, 0.5, 1.0):
            near, most, shift = error_of_the_normal(scale, form)
            cells = " | ".join(f"{x:.1g}" for x in (*near, most, shift))
            print(f"| {form} | {scale:g} | {cells} |")
    torch.set_num_threads(1)
    print("\n| form | sampling | million draws per second |\n|---|---|---|")
    for form in ("offsets", "integral"):
        for sampling in ("exact", "gaussian"):
            print(f"| {form} | {sampling} | {million_per_second(0.1, form, sampling):.0f} |")


if __name__ == "__main__":
    main()

"""The TAP log-likelihood per unit with its error over images, which are also the starts of the solutions for ln Z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from harmonium.landscape import Landscape, find_solutions
from harmonium.likelihood.mean_field import from_solutions
from harmonium.machines import BoltzmannMachine

from ..judging import Measured, Verdict, jackknife

GROUPS = 10  # groups of images, each of which is left out once
_INFERENCE: dict[str, Any] = {"damping": 0.5, "tolerance": 1e-8, "max_iterations": 1000}
LEAST_RISE = 0.01  # nats per unit: smaller rises do not count
LEAST_CONVERGED = 0.5  # of the starts, for a verdict on a log-likelihood


@dataclass(frozen=True)
class Point:
    """The mean log-likelihood of some images per unit of the machine, at one epoch.

    ``parts`` (groups,) are the values without each group of images, and without the solutions that only it leads to.
    """

    epoch: int
    value: float
    solutions: int
    converged: float  # share of the starts
    parts: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def error(self) -> float:
        """Standard error, by the jackknife."""
        return jackknife(self.value, self.parts).error


def measure(epoch: int, machine: BoltzmannMachine, starts: Tensor, *rows: Tensor) -> tuple[Point, ...]:
    """ln p of each of the ``rows`` (n, visible), with ln Z from the solutions that are reached from ``starts``.

    ln Z is the uniform average over the distinct solutions, eq. (38) of Tramel et al. (2018).
    """
    found = find_solutions(machine, starts, **_INFERENCE)
    estimate = from_solutions(machine, found.solutions)
    sites = sum(unit.sites for unit in machine.layers)
    partition = estimate.value, *_partitions(found)
    points = []
    for images in rows:
        weights = estimate.log_likelihood(images).per_row.cpu().numpy() + estimate.value  # -F of every image
        group = np.arange(len(images)) % GROUPS
        means = [weights.mean(), *(weights[group != k].mean() for k in range(GROUPS))]
        value, *parts = ((a - b) / sites for a, b in zip(means, partition, strict=True))
        points.append(Point(epoch, float(value), len(found), found.converged, np.array(parts)))
    return tuple(points)


def _partitions(found: Landscape) -> list[float]:
    """-⟨F⟩ over the distinct solutions that are still reached if a group of starts is left out."""
    basin, depth = found.basin.cpu().numpy(), found.free_energy.double().cpu().numpy()
    group = np.arange(len(basin)) % GROUPS
    left = [np.unique(basin[(group != k) & (basin >= 0)]) for k in range(GROUPS)]
    return [-float(depth[own].mean()) if len(own) else math.nan for own in left]


def contrast(points: Sequence[Point], coefficients: Sequence[float] | np.ndarray) -> Measured:
    """Σ c_i L_i over the points of a curve, all of the same images."""
    c = np.asarray(coefficients, dtype=float)
    return jackknife(float(c @ [p.value for p in points]), c @ np.stack([p.parts for p in points]))


def rise(points: Sequence[Point]) -> Measured:
    """The rise of the log-likelihood from the first point to the last."""
    return contrast([points[0], points[-1]], [-1, 1])


def judge_rise(points: Sequence[Point]) -> Verdict:
    """Criterion: the rise exceeds LEAST_RISE beyond its error; open if most starts do not converge."""
    if min(points[0].converged, points[-1].converged) < LEAST_CONVERGED:
        return None
    return rise(points).above(LEAST_RISE)

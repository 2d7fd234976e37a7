"""The TAP solutions of a machine along training, and their places in a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.manifold import Isomap
from sklearn.neighbors import kneighbors_graph

from harmonium.landscape import Landscape, find_solutions

from ..judging import Measured, Verdict
from ..record import Record
from .trained import Machines

#: hidden units of the machines in figures 5 and 6
PUBLISHED = {"binary-mnist": 100, "real-mnist": 100, "cbcl": 256}
NEIGHBORS = 5  # of a solution, for Isomap and for correlations with the nearest solutions
_MANY = 10.0  # times as many solutions


@dataclass(frozen=True)
class Along:
    """The landscapes of one machine at the epochs that were kept."""

    hidden: int
    epochs: list[int]
    found: list[Landscape]

    @property
    def counts(self) -> list[int]:
        """Distinct solutions."""
        return [len(part) for part in self.found]

    @property
    def means(self) -> list[float]:
        """The Helmholtz free energy by uniform averaging."""
        return [part.free_energy.double().mean().item() for part in self.found]


def explore(record: Record, trained: Machines, dataset: str) -> Along:
    """The solutions that are reached from the training rows."""
    size = trained.size(dataset, PUBLISHED[dataset])
    rows = trained.rows(dataset)[trained.probes(dataset)]
    kept = trained.along(dataset, size)
    along = Along(size, [epoch for epoch, _ in kept], [find_solutions(machine, rows) for _, machine in kept])
    record.say(f"{dataset}, {size} hidden units: {along.found[-1].diagnosis}")
    return along


def judge_many(sizes: Sequence[Sequence[int]]) -> Verdict:
    """From the number of starts of each solution, at the first and at the last epoch.

    Criterion: there is a solution at the first epoch, and the ratio of the numbers of solutions exceeds MANY. The error
    of a number is the root of the number of solutions with one start.
    """
    if not sizes[0] or not sizes[-1]:
        return None
    first, last = (Measured(len(part), math.sqrt(sum(size == 1 for size in part))) for part in (sizes[0], sizes[-1]))
    return last.minus(Measured(_MANY * first.value, _MANY * first.error)).above(0)


def embed(fitted: np.ndarray, points: list[np.ndarray]) -> list[np.ndarray]:
    """``points`` in the plane that Isomap finds for ``fitted``; zeros if there are fewer than four of those.

    The number of neighbors is the least for which all are connected, in doublings from five.
    """
    most = len(fitted) - 1
    if most < 3:
        return [np.zeros((len(part), 2)) for part in points]
    neighbors = min(NEIGHBORS, most)
    while neighbors < most and connected_components(kneighbors_graph(fitted, neighbors), directed=False)[0] > 1:
        neighbors = min(2 * neighbors, most)
    isomap = Isomap(n_neighbors=neighbors, n_components=2).fit(fitted)
    return [isomap.transform(part) if len(part) else np.empty((0, 2)) for part in points]

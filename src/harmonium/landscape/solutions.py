"""The landscape of mean-field solutions: how many there are, how deep, what falls into them, how they split.

Figures 5 to 7 of the TAP paper. Everything rests on the solutions of :func:`harmonium.meanfield.tap` from many starts,
usually the data. A solution is a stable fixed point (:func:`harmonium.meanfield.stability`). An unstable one is no
state of the machine: a start comes to it only by symmetry, or because the tolerance lets it stop on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import meanfield
from ..errors import InvalidData, InvalidOption
from ..extras import require
from ..machines import BoltzmannMachine
from ..machines.trajectory import Machines, by_epoch
from ..meanfield import Solutions

SAME = 5e-2  # two solutions are one where no visible magnetization differs by more
HEALTHY, _GLASSY = 0.1, 0.5  # shares of the starts: of distinct solutions, up to which, and above which
_CHUNK = 4096

Method = Callable[..., Solutions]


@dataclass(frozen=True)
class Landscape:
    """The distinct stable solutions of one machine, from the most to the least visited.

    ``basin`` (starts,) has for each start the number of the solution it fell into, -1 where it did not converge, and
    -2 where it ended at an unstable fixed point; ``sizes`` (solutions,) how many starts each of them got. The distinct
    unstable fixed points are kept apart in ``unstable``, and counted nowhere else.
    """

    solutions: Solutions
    basin: Tensor
    sizes: Tensor
    unstable: Solutions | None = None

    def __len__(self) -> int:
        return len(self.solutions)

    @property
    def starts(self) -> int:
        """How many starts there were."""
        return len(self.basin)

    @property
    def converged(self) -> float:
        """The share of the starts that converged, to a solution or to an unstable fixed point."""
        return (self.basin != -1).double().mean().item()

    @property
    def share(self) -> float:
        """Distinct solutions for each start that reached one."""
        reached = int((self.basin >= 0).sum())
        return len(self) / reached if reached else 0.0

    @property
    def free_energy(self) -> Tensor:
        """That of every solution: (solutions,)."""
        return self.solutions.free_energy

    @property
    def weights(self) -> Tensor:
        """e^{-F} of every solution as a share of all: (solutions,), in float64."""
        return torch.softmax(-self.free_energy.double(), 0)

    @property
    def diagnosis(self) -> str:
        """In words: too few solutions, too many, or healthy."""
        n, starts = len(self), self.starts
        doubt = "" if self.converged > 0.95 else f" Only {self.converged:.0%} of the starts converged."
        stuck = int((self.basin == -2).sum())
        if stuck:
            doubt += f" {stuck} start{'s' * (stuck > 1)} ended at an unstable fixed point: lower the tolerance."
        if n == 0 and stuck:
            return f"no solution: none of {starts} starts reached a stable one.{doubt}"
        if n == 0:
            return f"no solution: none of {starts} starts converged"
        found = f"{n} solution{'s' * (n > 1)} from {starts} starts"
        if n == 1:
            return (
                f"too few: {found}; the machine has one state for everything, as before learning or with weights "
                f"that are too small.{doubt}"
            )
        if self.share > _GLASSY:
            return f"too many: {found}; nearly every start has its own, a spin glass or a memory of the data.{doubt}"
        if self.share > HEALTHY:
            return f"many: {found}, more than {HEALTHY:.0%}; the machine may begin to memorize.{doubt}"
        return f"healthy: {found}, fewer than {HEALTHY:.0%} of them.{doubt}"


def find_solutions(
    machine: BoltzmannMachine,
    start: Any,
    *,
    same: float = SAME,
    method: str = "tap",
    **options: Any,
) -> Landscape:
    """The distinct stable solutions reached from ``start`` (n, *visible), such as the data.

    The stability of each distinct solution is checked. Where fixed points within ``same`` of each other are counted as
    one, that is the stability of the one that was found first.

    Args:
        same: solutions are one where no visible magnetization differs by more.
        method: "tap", "naive" or "adatap".
        options: of the method: ``damping``, ``tolerance``, ``max_iterations``, …

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 0.2)
    >>> found = find_solutions(rbm, torch.tensor([[1.0], [-1.0], [1.0]]).expand(3, 20))
    >>> found.basin.tolist(), found.sizes.tolist()
    ([0, 1, 0], [2, 1])
    """
    solve = _method(method)
    rows = machine.as_states(start)
    if len(rows) == 0:
        raise InvalidData("start: expected at least one row, found none")
    found = Solutions.join([solve(machine, chunk, **options) for chunk in rows.split(_CHUNK)])
    return _distinct(machine, found, same)


def _method(name: str) -> Method:
    known: dict[str, Method] = {"tap": meanfield.tap, "naive": meanfield.naive, "adatap": meanfield.adatap}
    if name not in known:
        raise InvalidOption(f"method: expected one of {', '.join(known)}, found {name!r}")
    return known[name]


def _distinct(machine: BoltzmannMachine, found: Solutions, same: float) -> Landscape:
    distinct = found.unique(same)
    stable = meanfield.stability(machine, distinct).stable
    points, centers = (s.magnetizations[0].flatten(1).double() for s in (found, distinct))
    basin = torch.full((len(found),), -1, dtype=torch.int64, device=points.device)
    if len(distinct):
        for part in torch.arange(len(found), device=points.device).split(_CHUNK):
            near = torch.cdist(points[part], centers, p=float("inf")) <= same
            first = near.to(torch.int8).argmax(1)  # the one it was merged into comes first
            basin[part] = torch.where(found.converged[part] & near.any(1), first, -1)
    sizes = torch.bincount(basin[basin >= 0], minlength=len(distinct))
    order = torch.argsort(sizes, descending=True, stable=True)
    order, others = order[stable[order]], order[~stable[order]]
    rank = torch.full_like(sizes, -2)
    rank[order] = torch.arange(len(order), device=order.device)
    basin = torch.where(basin >= 0, rank[basin.clamp(min=0)], -1) if len(distinct) else basin
    return Landscape(distinct.select(order), basin, sizes[order], distinct.select(others))


@dataclass(frozen=True)
class Growth:
    """Landscapes along the checkpoints of a run, and how the solutions of each came from those before.

    ``parents[k]`` (solutions of k + 1,) has, for every solution at checkpoint k + 1, the number of the solution at
    checkpoint k that it falls into when the parameters go back, or -1 where that did not converge to a stable one.
    """

    epochs: list[float]
    landscapes: list[Landscape]
    parents: list[Tensor]

    @property
    def counts(self) -> list[int]:
        """Distinct solutions at every checkpoint."""
        return [len(found) for found in self.landscapes]

    def tree(self) -> list[tuple[int, int, int]]:
        """The branches (checkpoint k, solution at k, solution at k + 1)."""
        return [
            (k, int(parent), child)
            for k, parents in enumerate(self.parents)
            for child, parent in enumerate(parents)
            if parent >= 0
        ]

    def embedding(self, neighbors: int = 5) -> list[np.ndarray]:
        """Two coordinates of every solution: Isomap, fitted to the last checkpoint and applied to all.

        The visible magnetizations are what is embedded: (solutions, 2) for each checkpoint.
        """
        points = [f.solutions.magnetizations[0].flatten(1).double().cpu().numpy() for f in self.landscapes]
        last = points[-1]
        if len(last) < 4:
            raise InvalidData(f"embedding: expected at least 4 solutions at the last checkpoint, found {len(last)}")
        manifold = require("sklearn.manifold", "the embedding of solutions needs")
        isomap = manifold.Isomap(n_neighbors=min(neighbors, len(last) - 1), n_components=2).fit(last)
        return [isomap.transform(part) if len(part) else np.empty((0, 2)) for part in points]


def growth(
    machines: Machines,
    start: Any,
    *,
    same: float = SAME,
    method: str = "tap",
    **options: Any,
) -> Growth:
    """The landscape of every machine of a run, from the first to the last, and the tree of their solutions.

    ``machines`` are those of the checkpoints, by epoch or in order. The tree is built backwards: the solutions of a
    checkpoint are followed with the parameters of the one before, where some of them merge.

    >>> import copy, torch, harmonium as hm
    >>> weak = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    >>> strong = copy.deepcopy(weak)
    >>> _ = torch.nn.init.constant_(strong.coupling.weight, 0.2)
    >>> found = growth([weak, strong], torch.tensor([[1.0], [-1.0]]).expand(2, 20))
    >>> found.counts, found.tree()
    ([1, 2], [(0, 0, 0), (0, 0, 1)])
    """
    epochs, chain = by_epoch(machines)
    solve = _method(method)
    found = [find_solutions(machine, start, same=same, method=method, **options) for machine in chain]
    landscapes, parents = [found[-1]], list[Tensor]()
    for before, machine in zip(found[-2::-1], chain[-2::-1], strict=True):
        back = solve(machine, landscapes[0].solutions.magnetizations[0], **options)
        joined, label = _with(machine, before, back, same)
        landscapes.insert(0, joined)
        parents.insert(0, label)
    return Growth(epochs, landscapes, parents)


def _with(machine: BoltzmannMachine, found: Landscape, others: Solutions, same: float) -> tuple[Landscape, Tensor]:
    """The landscape together with solutions that no start had reached, and the number of each of ``others`` in it."""
    joint = Solutions.join([found.solutions, others]).unique(same)
    new = joint.select(slice(len(found), None))
    stable = meanfield.stability(machine, new).stable
    unstable = new.select(~stable) if found.unstable is None else Solutions.join([found.unstable, new.select(~stable)])
    joint = Solutions.join([found.solutions, new.select(stable)])
    extra = len(joint) - len(found)
    sizes = torch.cat([found.sizes, found.sizes.new_zeros(extra)])
    points, centers = (s.magnetizations[0].flatten(1).double() for s in (others, joint))
    near = torch.cdist(points, centers, p=float("inf")) <= same
    label = torch.where(others.converged & near.any(1), near.to(torch.int8).argmax(1), -1)
    return Landscape(joint, found.basin, sizes, unstable.unique(same)), label

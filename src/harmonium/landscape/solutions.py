"""The landscape of mean-field solutions: their number, free energies, basins and splitting during training.

Tramel et al. (2018), figures 5 to 7. The solutions are those that :func:`harmonium.meanfield.tap` reaches from many
initial states, usually the data. Only stable fixed points count as solutions (:func:`harmonium.meanfield.stability`).
The iteration reaches an unstable fixed point only by symmetry, or if the tolerance stops it too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from ..shown import Shown, short

SAME = 5e-2  # solutions are the same if no visible magnetization differs by more than this
HEALTHY, _GLASSY = 0.1, 0.5  # limits of the number of distinct solutions per initial state
_CHUNK = 4096

Method = Callable[..., Solutions]


@dataclass(frozen=True, repr=False)
class Landscape(Shown):
    """The distinct stable solutions of one machine, sorted by decreasing basin size.

    ``basin`` (starts,) is the index of the solution reached from each initial state: -1 if the iteration did not
    converge, -2 if it reached an unstable fixed point. ``sizes`` (solutions,) are the numbers of initial states that
    reached each solution. ``unstable`` holds the distinct unstable fixed points, which are not counted as solutions.
    """

    solutions: Solutions
    basin: Tensor
    sizes: Tensor
    unstable: Solutions | None = None

    def __len__(self) -> int:
        return len(self.solutions)

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The number of solutions, the lowest free energy and the initial states."""
        lowest = {"lowest free energy": f"{short(self.free_energy.min().item(), 6)} nats"} if len(self) else {}
        return "Landscape", {
            "solutions": len(self),
            **lowest,
            "unstable": 0 if self.unstable is None else len(self.unstable),
            "starts": f"{self.starts}, {self.converged:.0%} converged",
        }

    @property
    def starts(self) -> int:
        """Number of initial states."""
        return len(self.basin)

    @property
    def converged(self) -> float:
        """Fraction of the initial states that converged, to a solution or to an unstable fixed point."""
        return (self.basin != -1).double().mean().item()

    @property
    def share(self) -> float:
        """Number of distinct solutions divided by the number of initial states that reached one."""
        reached = int((self.basin >= 0).sum())
        return len(self) / reached if reached else 0.0

    @property
    def free_energy(self) -> Tensor:
        """Free energy of every solution, (solutions,)."""
        return self.solutions.free_energy

    @property
    def weights(self) -> Tensor:
        """Normalized weights e^{-F} / Σ e^{-F} of the solutions, (solutions,), in float64."""
        return torch.softmax(-self.free_energy.double(), 0)

    @property
    def diagnosis(self) -> str:
        """Text that says whether there are too few or too many solutions, or a healthy number."""
        n, starts = len(self), self.starts
        doubt = "" if self.converged > 0.95 else f" Only {self.converged:.0%} of the starts converged."
        stuck = int((self.basin == -2).sum())
        if stuck:
            doubt += f" {stuck} start{'s' * (stuck > 1)} ended at an unstable fixed point: lower the tolerance."
        if n == 0 and stuck:
            return f"no solution: none of {starts} starts reached a stable fixed point.{doubt}"
        if n == 0:
            return f"no solution: none of {starts} starts converged"
        found = f"{n} solution{'s' * (n > 1)} from {starts} starts"
        if n == 1:
            return (
                f"too few: {found}; all initial states lead to the same solution, as before training or with weights "
                f"that are too small.{doubt}"
            )
        if self.share > _GLASSY:
            return f"too many: {found}; nearly every start has its own, as in a spin glass.{doubt}"
        if self.share > HEALTHY:
            return f"many: {found}, more than {HEALTHY:.0%}; more starts show whether there are more solutions.{doubt}"
        return f"healthy: {found}, fewer than {HEALTHY:.0%} of them.{doubt}"


def find_solutions(
    machine: BoltzmannMachine, start: Any, *, same: float = SAME, method: str = "tap", **options: Any
) -> Landscape:
    """Find the distinct stable mean-field solutions reached from given initial states.

    Fixed points within ``same`` of each other count as one solution; its stability is that of the fixed point found
    first.

    Args:
        machine: any machine.
        start: initial states (n, *visible), usually the data.
        same: two solutions are the same if no visible magnetization differs by more than this.
        method: "tap", "naive" or "adatap".
        options: options of the method, such as ``damping``, ``tolerance`` and ``max_iterations``.

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
            first = near.to(torch.int8).argmax(1)  # the first match is the solution it was merged into
            basin[part] = torch.where(found.converged[part] & near.any(1), first, -1)
    sizes = torch.bincount(basin[basin >= 0], minlength=len(distinct))
    order = torch.argsort(sizes, descending=True, stable=True)
    order, others = order[stable[order]], order[~stable[order]]
    rank = torch.full_like(sizes, -2)
    rank[order] = torch.arange(len(order), device=order.device)
    basin = torch.where(basin >= 0, rank[basin.clamp(min=0)], -1) if len(distinct) else basin
    return Landscape(distinct.select(order), basin, sizes[order], distinct.select(others))


@dataclass(frozen=True, repr=False)
class Growth(Shown):
    """Landscapes of the checkpoints of a run, and the tree that connects their solutions.

    ``parents[k]`` (solutions at k + 1,) is, for every solution at checkpoint k + 1, the index of the solution that the
    iteration reaches from it with the parameters of checkpoint k, or -1 if it does not converge to a stable solution.
    """

    epochs: list[float]
    landscapes: list[Landscape]
    parents: list[Tensor]

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The numbers of solutions at the first and at the last checkpoint."""
        ends = f"{self.epochs[0]:g} to {self.epochs[-1]:g}"
        return "Growth", {"epochs": ends, "solutions": f"{self.counts[0]} to {self.counts[-1]}"}

    @property
    def counts(self) -> list[int]:
        """Number of distinct solutions at every checkpoint."""
        return [len(found) for found in self.landscapes]

    def tree(self) -> list[tuple[int, int, int]]:
        """Branches of the tree: (checkpoint k, solution at k, solution at k + 1)."""
        return [
            (k, int(parent), child)
            for k, parents in enumerate(self.parents)
            for child, parent in enumerate(parents)
            if parent >= 0
        ]

    def embedding(self, neighbors: int = 5) -> list[np.ndarray]:
        """Embed the visible magnetizations of all solutions in two dimensions: (solutions, 2) for each checkpoint.

        Isomap is fitted to the last checkpoint and applied to all checkpoints.
        """
        points = [f.solutions.magnetizations[0].flatten(1).double().cpu().numpy() for f in self.landscapes]
        last = points[-1]
        if len(last) < 4:
            raise InvalidData(f"embedding: expected at least 4 solutions at the last checkpoint, found {len(last)}")
        manifold = require("sklearn.manifold", "the embedding of solutions needs")
        isomap = manifold.Isomap(n_neighbors=min(neighbors, len(last) - 1), n_components=2).fit(last)
        return [isomap.transform(part) if len(part) else np.empty((0, 2)) for part in points]


def growth(machines: Machines, start: Any, *, same: float = SAME, method: str = "tap", **options: Any) -> Growth:
    """Compute the landscapes of the checkpoints of a run and the tree of their solutions.

    The tree is built backward: the solutions of a checkpoint are the initial states for the iteration with the
    parameters of the previous checkpoint, where some of them merge.

    Args:
        machines: the checkpoints of a run, as a dictionary by epoch or as a sequence.
        start, same, method, options: see :func:`find_solutions`.

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
    """Add the new solutions among ``others`` to a landscape; also return the index of each of ``others`` in it."""
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

"""Every kernel leaves its distribution invariant: total variation between many chains and the exact masses.

Chains start exactly at p, are moved by the kernel, and are counted in cells: the values of a number if these are few,
otherwise bins between quantiles of its exact marginal. The numbers of a small machine are counted jointly, those of a
larger one in overlapping groups across the layers. The masses of the cells are exact, because the reference quadrature
has a boundary at every edge of a bin. The total variation TV = ½ Σ |p̂ - p| of n exact draws has, by the normal limit
of each cell, the expectation

    floor = ½ Σ_cells √(2 p (1 - p) / (π n)),

and a kernel passes when no group exceeds 4 floors. That is a TV of 0.02 to 0.1 here, while exact draws stay below 2
floors (tested), and the same check must detect every mutation (a deliberate mistake in a kernel).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
import torch
from cases import MACHINES, UNITS, MachineCase, Nodes, State, generator, id_of, product, rbm, segment, states, union
from oracle import joint
from torch import Generator, Tensor

import harmonium as hm
from harmonium.sampling import MachineLadder, Path, PathLadder, ladder, population
from harmonium.sampling.path import free, uncoupled

CHAINS = 60_000
CHAINS_OF_A_RUNG = 20_000
FLOORS = 4.0
BINS = 5
MOST_CELLS = 100  # per group; with more, the check would have no power
BETAS = (0.0, 0.35, 0.7, 1.0)

#: where the continuous numbers are, and the values that have a weight of their own; one entry for each number of a site
SPANS: dict[str, list[tuple[list[float], list[tuple[float, float]]]]] = {
    "gaussian": [([], [(-12.0, 12.0)])],
    "relu": [([], [(0.0, 12.0)])],
    "double-relu": [([], [(-12.0, 0.0), (0.0, 12.0)])],
    "truncated-gaussian": [([], [(-0.5, 1.5)])],
    "truncated-gauss-bernoulli": [([0.0], [(-0.5, 1.5)])],
    "mixed-unbounded": [([0.0, 1.0], []), ([], [(-12.0, 12.0)])],
}


# -- the check --------------------------------------------------------------------------------------------------


class Cells:
    """The cells of one number: its discrete values, and bins between the edges if it is continuous."""

    def __init__(self, atoms: list[float], spans: list[tuple[float, float]], values: Tensor, p: Tensor) -> None:
        self.atoms, self.spans = torch.tensor(atoms, dtype=torch.float64), spans
        self.edges = _quantiles(values, p) if spans else torch.zeros(0, dtype=torch.float64)

    def nodes(self) -> Nodes:
        """Quadrature with a boundary at every edge, fine enough for a Gaussian weight."""
        parts = [states(self.atoms)] if len(self.atoms) else []
        for low, high in self.spans:
            for a, b in pairwise([low, *self.edges[(self.edges > low) & (self.edges < high)].tolist(), high]):
                borders = torch.linspace(a, b, math.ceil((b - a) / 1.5) + 1, dtype=torch.float64).tolist()
                parts += [segment(c, d, 8) for c, d in pairwise(borders)]
        return union(*parts)

    def __call__(self, x: Tensor) -> Tensor:
        if not self.spans:  # the last cell includes all larger values
            return torch.searchsorted(self.atoms, x.contiguous()).clamp_max(min(len(self.atoms), 2 * BINS) - 1)
        cell = torch.bucketize(x.contiguous(), self.edges)
        for k, atom in enumerate(self.atoms.tolist()):
            cell = torch.where(x == atom, len(self.edges) + 1 + k, cell)
        return cell

    def __len__(self) -> int:
        return len(self.edges) + 1 + len(self.atoms) if self.spans else min(len(self.atoms), 2 * BINS)


def _quantiles(values: Tensor, p: Tensor) -> Tensor:
    """Edges of bins of about equal mass, midway between nodes of a coarser quadrature."""
    values, order = values.sort()
    at = torch.searchsorted(p[order].cumsum(0), torch.arange(1, BINS, dtype=torch.float64) / BINS)
    at = at.clamp_max(len(values) - 2)
    return ((values[at] + values[at + 1]) / 2).unique()


class Exact:
    """A machine with the exact masses of the cells of its numbers."""

    def __init__(self, case: MachineCase, machine: hm.BoltzmannMachine) -> None:
        coarse = joint(machine, case.nodes(machine))
        self.cells: list[list[Cells]] = []
        nodes = []
        for k, ((name, _), points) in enumerate(zip(case.layers, coarse.points, strict=True)):
            values, p = points.flatten(1), coarse.marginal(k)
            kinds = SPANS.get(name)
            size = UNITS[name].site[0][0].numel()
            self.cells.append(
                [
                    Cells(*(kinds[c % size] if kinds else (x.unique().tolist(), [])), x, p)
                    for c, x in enumerate(values.unbind(1))
                ]
            )
            if kinds:
                found, weights = product(*(cells.nodes() for cells in self.cells[-1]))
                nodes.append((found.reshape(-1, *points.shape[1:]), weights))
            else:
                nodes.append(case.nodes(machine)[k])
        self.joint = joint(machine, nodes)
        assert self.joint.log_partition == pytest.approx(coarse.log_partition, abs=1e-7)  # two quadratures agree

    def draw(self, n: int, source: Generator) -> State:
        return self.joint.draw(n, source)

    def worst(self, state: State, layers: tuple[int, ...] | None = None) -> float:
        """The largest total variation of a group of numbers (of these layers), in units of the floor."""
        return max(
            self._floors(state, group) for group in self._groups(range(len(state)) if layers is None else layers)
        )

    def _groups(self, layers: Iterable[int]) -> Iterator[list[tuple[int, int]]]:
        """Groups of neighbors, alternating between layers, with at most ``MOST_CELLS`` cells each."""
        numbers = [(c, k) for k in layers for c in range(len(self.cells[k]))]
        numbers = [(k, c) for c, k in sorted(numbers)]
        end = 0
        for first in range(len(numbers)):
            last = first + 1
            while (
                last < len(numbers)
                and math.prod(len(self.cells[k][c]) for k, c in numbers[first : last + 1]) <= MOST_CELLS
            ):
                last += 1
            if last > end:  # otherwise it is part of the previous group
                yield numbers[first:last]
            end = last

    def _floors(self, state: State, group: list[tuple[int, int]]) -> float:
        exact, found = self.joint.p, torch.zeros(len(state[0]), dtype=torch.int64)
        for k, x in enumerate(state):
            chosen = [c for layer, c in group if layer == k]
            exact = self._merge(exact, k, chosen)
            found = found * exact.shape[k] + self._label(k, chosen, x)
        p, n = exact.flatten(), len(found)
        floor = (2 * p * (1 - p).clamp_min(0) / (math.pi * n)).sqrt().sum().item() / 2
        return (torch.bincount(found, minlength=len(p)) / n - p).abs().sum().item() / 2 / floor

    def _label(self, layer: int, chosen: list[int], x: Tensor) -> Tensor:
        label = torch.zeros(len(x), dtype=torch.int64)
        for c in chosen:
            label = label * len(self.cells[layer][c]) + self.cells[layer][c](x.flatten(1)[:, c])
        return label

    def _merge(self, p: Tensor, layer: int, chosen: list[int]) -> Tensor:
        """Masses of a layer's nodes, summed over cells."""
        size = math.prod(len(self.cells[layer][c]) for c in chosen)
        empty = p.new_zeros(*p.shape[:layer], size, *p.shape[layer + 1 :])
        return empty.index_add_(layer, self._label(layer, chosen, self.joint.points[layer]), p)


CASES = {
    **{id_of(pair): rbm(*pair) for name in UNITS for pair in ((name, "bernoulli"), ("bernoulli", name))},
    **MACHINES,
}
every_case = pytest.mark.parametrize("name", CASES)


@every_case
@pytest.mark.fast_cases(6)
def test_exact_draws_are_at_the_floor(name):
    case = CASES[name]
    exact = Exact(case, case.build())
    assert 0.0 < exact.worst(exact.draw(CHAINS, generator("draws", name))) < FLOORS / 2


# -- Gibbs sweeps -----------------------------------------------------------------------------------------------


def after_sweeps(case: MachineCase, machine: hm.BoltzmannMachine, source: Generator) -> float:
    exact = Exact(case, machine)
    state = exact.draw(CHAINS, source)
    for _ in range(2):
        state = machine.sweep(state, source)
    return exact.worst(state)


@every_case
@pytest.mark.fast_cases(10)
def test_sweep(name):
    case = CASES[name]
    assert after_sweeps(case, case.build(), generator("sweep", name)) < FLOORS


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind is hm.RBM])
@pytest.mark.fast_cases(8)
def test_sample(name):
    case = CASES[name]
    machine = case.build()
    exact = Exact(case, machine)
    source = generator("sample", name)
    seen: list[State] = []
    machine.sample(
        start=exact.draw(CHAINS, source)[0], sweeps=2, seed=source, callback=lambda _, state: seen.append(state)
    )
    assert exact.worst(seen[-1]) < FLOORS


@every_case
@pytest.mark.fast_cases(3)
def test_a_forgotten_bias_is_found(name, monkeypatch):
    case = CASES[name]
    for layer in range(len(case.layers)):
        machine = case.build()
        unit = machine.layers[layer]

        def wrong(B, *, generator=None, A=None, unit=unit):
            return type(unit).sample(unit, B - unit.bias.detach(), generator=generator)

        monkeypatch.setattr(unit, "sample", wrong)
        assert after_sweeps(case, machine, generator("bias", name, layer)) > FLOORS


# -- sweeps with units held -------------------------------------------------------------------------------------


def first_unit(machine: hm.BoltzmannMachine) -> dict[int, Tensor]:
    """A mask of the first unit of the lowest layer that has two or more of them."""
    for k, layer in enumerate(machine.layers):
        if layer.sites > 1:
            leaf = layer.parts[0]
            mask = torch.zeros(layer.size, dtype=torch.bool)
            mask[: leaf.size // leaf.sites] = True
            return {k: mask.view(layer.shape)}
    return {0: torch.ones(machine.visible.shape, dtype=torch.bool)}


def after_held_sweeps(case: MachineCase, machine: hm.BoltzmannMachine, move, source: Generator) -> float:
    """Invariance of p(free | held) for all held values implies invariance of p, if the held values are drawn from p."""
    exact, held = Exact(case, machine), first_unit(machine)
    start = exact.draw(CHAINS, source)
    state = move(machine, start, held, source)
    for k, mask in held.items():
        assert torch.equal(state[k][:, mask], start[k][:, mask])
    return exact.worst(state)


def held_sweeps(machine, state, held, source):
    for _ in range(2):
        state = machine.sweep(state, source, held=held)
    return state


@every_case
@pytest.mark.fast_cases(6)
def test_sweep_with_held_units(name):
    case = CASES[name]
    assert after_held_sweeps(case, case.build(), held_sweeps, generator("held", name)) < FLOORS


@pytest.mark.parametrize("layer", range(3))
def test_sweep_with_a_held_layer(layer):
    case = CASES["deep"]
    machine = case.build()
    exact, source = Exact(case, machine), generator("held layer", layer)
    start = exact.draw(CHAINS, source)
    state = held_sweeps(machine, start, {layer: True}, source)
    assert state[layer] is start[layer]
    assert all(not torch.equal(a, b) for k, (a, b) in enumerate(zip(state, start, strict=True)) if k != layer)
    assert exact.worst(state) < FLOORS


def test_values_put_back_too_late_are_found():
    def wrong(machine, state, held, source):
        moved = held_sweeps(machine, state, {}, source)
        return [
            torch.where(held[k], x, y) if k in held else y for k, (x, y) in enumerate(zip(state, moved, strict=True))
        ]

    case, machine = strong()
    assert after_held_sweeps(case, machine, held_sweeps, generator("late")) < FLOORS
    assert after_held_sweeps(case, machine, wrong, generator("late")) > FLOORS


# -- tempering: sweeps and exchanges of all rungs ---------------------------------------------------------------


class Rungs:
    """Machines on a path, their exact distributions, and the two kinds of ladder."""

    def __init__(self, case: MachineCase, machine: hm.BoltzmannMachine, base: hm.BoltzmannMachine) -> None:
        self.path = Path(machine, base)
        self.machines = [self.path.machine(beta) for beta in BETAS]
        self.exact = [Exact(case, machine) for machine in self.machines]

    def ladder(self, kind: str) -> ladder.Ladder:
        return PathLadder(self.path, BETAS) if kind == "path" else MachineLadder(self.machines)

    def start(self, source: Generator, chains: int = CHAINS_OF_A_RUNG) -> ladder.LadderState:
        drawn = [exact.draw(chains, source) for exact in self.exact]
        walker = torch.arange(len(drawn)).unsqueeze(1).expand(-1, chains).clone()
        return ladder.LadderState([torch.stack(layer) for layer in zip(*drawn, strict=True)], walker)

    def worst(self, state: ladder.LadderState, layers: tuple[int, ...] | None = None) -> float:
        return max(exact.worst([x[k] for x in state.layers], layers) for k, exact in enumerate(self.exact))

    def after_exchanges(self, rungs: ladder.Ladder, source: Generator) -> float:
        """Only exchanges, of even and odd pairs; returns the exchanged layers."""
        state = self.start(source)
        for _ in range(4):
            state, _ = ladder.exchange(rungs, state, source)
        return self.worst(state, tuple(range(0, len(state.layers), 2)))

    def after_both(self, rungs: ladder.Ladder, source: Generator) -> float:
        """Two steps of tempering; returns all layers."""
        state = self.start(source)
        for _ in range(2):
            state, _ = ladder.exchange(rungs, state, source)
            state = ladder.sweep(rungs, state, source)
        return self.worst(state)


def weaker(machine: hm.BoltzmannMachine) -> hm.BoltzmannMachine:
    """A machine with half of the bias and no couplings."""
    base = uncoupled(machine)
    for unit in base.layers:
        unit.shift_bias(-0.5 * unit.bias)
    return base


def strong() -> tuple[MachineCase, hm.BoltzmannMachine]:
    """A machine that differs strongly from free units."""
    case = rbm("bernoulli", "bernoulli", (3, 2))
    machine = case.build()
    with torch.no_grad():
        machine.coupling.weight.mul_(8.0)
    return case, machine


both_ladders = pytest.mark.parametrize("kind", ["path", "machines"])


@both_ladders
@every_case
@pytest.mark.slow
def test_tempering(name, kind):
    case = CASES[name]
    machine = case.build()
    rungs = Rungs(case, machine, weaker(machine))
    assert rungs.after_both(rungs.ladder(kind), generator("tempering", kind, name)) < FLOORS


@pytest.mark.slow
@both_ladders
def test_exchange_between_rungs_that_differ(kind):
    case, machine = strong()
    rungs = Rungs(case, machine, free(machine))
    source = generator("exchange", kind)
    assert rungs.after_exchanges(rungs.ladder(kind), source) < FLOORS
    assert rungs.after_both(rungs.ladder(kind), source) < FLOORS


WRONG_RATIOS = {
    "sign": lambda right: lambda *arguments: [-w for w in right(*arguments)],
    "half": lambda right: lambda *arguments: [w / 2 for w in right(*arguments)],
    "always": lambda right: lambda *arguments: [0 * w for w in right(*arguments)],
    "hidden-units-left-out": lambda right: (
        lambda rungs, layers, shifts, seen: [
            view.layer(0).log_weight(layers[0]).flatten(2).sum(2) for view in rungs.shifted(shifts, seen)
        ]
    ),
}


@pytest.mark.parametrize("mutation", WRONG_RATIOS)
@both_ladders
@pytest.mark.slow
def test_a_wrong_swap_ratio_is_found(kind, mutation, monkeypatch):
    case, machine = strong()
    rungs = Rungs(case, machine, free(machine))
    monkeypatch.setattr(ladder, "log_weights", WRONG_RATIOS[mutation](ladder.log_weights))
    source = generator("ratio", kind, mutation)
    assert rungs.after_exchanges(rungs.ladder(kind), source) > FLOORS


@pytest.mark.slow
def test_a_missed_temperature_is_found():
    case, machine = strong()
    rungs = Rungs(case, machine, free(machine))
    missed = (BETAS[0], BETAS[1], 0.6, BETAS[3])
    wrong = PathLadder(rungs.path, missed), MachineLadder([rungs.path.machine(beta) for beta in missed])
    for kind, other in zip(("path", "machines"), wrong, strict=True):
        assert rungs.after_exchanges(other, generator("missed", kind)) > FLOORS
        assert rungs.after_both(other, generator("missed both", kind)) > FLOORS


# -- population annealing: reweight, resample, move -------------------------------------------------------------


def after_selection(case: MachineCase, machine: hm.BoltzmannMachine, base: hm.BoltzmannMachine, source: Generator):
    """A population at the midpoint, annealed to the end in two steps with resampling at both."""
    path = Path(machine, base)
    half = path.machine(0.5)
    start = Exact(case, half).draw(CHAINS, source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population, "draws", lambda *_: start)
        found = population._anneal(Path(machine, half), (0.0, 0.6, 1.0), CHAINS, 1, 1.0, 1, source)
    return Exact(case, machine).worst(found.state)


@every_case
@pytest.mark.fast_cases(4)
def test_selection(name):
    case = CASES[name]
    machine = case.build()
    assert after_selection(case, machine, weaker(machine), generator("selection", name)) < FLOORS


WRONG_SELECTION = {
    "sign": lambda right: lambda log_w, source=None: right(-log_w, source),
    "none": lambda right: lambda log_w, source=None: torch.arange(len(log_w)),
    "twice": lambda right: lambda log_w, source=None: right(2 * log_w, source),
}


def test_selection_between_machines_that_differ():
    case, machine = strong()
    assert after_selection(case, machine, free(machine), generator("selection")) < FLOORS


@pytest.mark.parametrize("mutation", WRONG_SELECTION)
def test_wrong_selection_is_found(mutation, monkeypatch):
    case, machine = strong()
    monkeypatch.setattr(population, "resample", WRONG_SELECTION[mutation](population.resample))
    assert after_selection(case, machine, free(machine), generator("selection", mutation)) > FLOORS


def test_a_missed_temperature_of_the_moves_is_found(monkeypatch):
    case, machine = strong()
    right = population._sweeps
    monkeypatch.setattr(population, "_sweeps", lambda path, state, beta, *rest: right(path, state, 0.8 * beta, *rest))
    assert after_selection(case, machine, free(machine), generator("moves")) > FLOORS

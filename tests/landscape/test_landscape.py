"""Solutions of machines with known states: patterns stored in the weights."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import landscape


def patterns(count: int, size: int = 60) -> torch.Tensor:
    """Orthogonal patterns ±1."""
    blocks = torch.ones(count, size)
    for k in range(count):
        period = size // 2 ** (k + 1) if k else size
        blocks[k] = torch.tensor([1.0 if (i // max(1, period)) % 2 == 0 else -1.0 for i in range(size)])
    return blocks


def hopfield(count: int, strength: float, copies: int = 60) -> hm.RBM:
    """Machine with ``copies`` hidden spins for each pattern; each pattern and its negative are states."""
    stored = patterns(count)
    rbm = hm.RBM(hm.units.Spin(stored.shape[1]), hm.units.Spin(count * copies))
    with torch.no_grad():
        rbm.coupling.weight.copy_(strength * stored.repeat_interleave(copies, 0).T)
    return rbm


@pytest.fixture
def starts() -> torch.Tensor:
    """Noisy patterns and their negatives, ten of each."""
    generator = torch.Generator().manual_seed(0)
    clean = torch.cat([patterns(2), -patterns(2)]).repeat_interleave(10, 0)
    return torch.where(torch.rand(clean.shape, generator=generator) < 0.05, -clean, clean)


def test_each_pattern_is_a_solution_with_its_basin(starts):
    found = landscape.find_solutions(hopfield(2, 0.05), starts)
    assert len(found) == 4
    assert found.sizes.tolist() == [10, 10, 10, 10]
    assert found.converged == 1.0
    for k in range(4):
        assert len(found.basin[10 * k : 10 * k + 10].unique()) == 1
    overlap = found.solutions.magnetizations[0] @ patterns(2).T / 60
    assert torch.allclose(overlap.abs().amax(1), torch.ones(4), atol=0.1)
    assert torch.allclose(found.weights, torch.full((4,), 0.25, dtype=torch.float64), atol=1e-3)  # by symmetry


def test_before_learning_there_is_one(starts):
    found = landscape.find_solutions(hopfield(2, 0.002), starts)
    assert len(found) == 1
    assert found.diagnosis.startswith("too few")


def test_solutions_are_sorted_by_their_basins(starts):
    found = landscape.find_solutions(hopfield(2, 0.05), torch.cat([starts[30:], starts[20:30], starts[25:30]]))
    assert found.sizes.tolist() == [15, 10]
    assert found.basin.tolist() == [1] * 10 + [0] * 15


def test_a_start_that_does_not_converge_has_no_basin(starts):
    found = landscape.find_solutions(hopfield(2, 0.05), starts, max_iterations=1)
    assert len(found) == 0
    assert found.basin.tolist() == [-1] * 40
    assert found.diagnosis.startswith("no solution")


@pytest.mark.parametrize(
    ("solutions", "count", "word"), [(1, 40, "too few"), (3, 40, "healthy"), (8, 40, "many"), (30, 40, "too many")]
)
def test_the_diagnosis_follows_the_numbers(starts, solutions, count, word):
    whole = landscape.find_solutions(hopfield(2, 0.05), starts).solutions
    basin = torch.arange(count) % solutions
    some = whole.select(torch.arange(solutions) % 4)
    found = landscape.Landscape(some, basin, torch.bincount(basin))
    assert found.diagnosis.startswith(word)


def ferromagnet() -> hm.RBM:
    """Two stable states, and an unstable fixed point with zero magnetization between them."""
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    torch.nn.init.constant_(rbm.coupling.weight, 0.1)
    return rbm


@pytest.mark.parametrize("method", ["tap", "naive"])
def test_unstable_fixed_points_are_kept_apart(method):
    starts = torch.tensor([[0.0], [1.0], [-1.0], [0.0], [1.0]]).expand(5, 20)
    found = landscape.find_solutions(ferromagnet(), starts, method=method)
    assert found.unstable is not None
    assert (len(found), len(found.unstable)) == (2, 1)
    assert found.basin.tolist() == [-2, 0, 1, -2, 0] and found.sizes.tolist() == [2, 1]
    assert found.solutions.magnetizations[0].abs().min() > 0.5
    assert found.unstable.magnetizations[0].abs().max() == 0
    assert found.converged == 1.0 and found.share == 2 / 3
    assert found.weights.shape == (2,)
    assert "2 starts ended at an unstable fixed point: lower the tolerance." in found.diagnosis


def test_a_start_that_stops_on_its_way_is_not_counted():
    """Naive mean field stops near the unstable point at tolerance 1e-6; a smaller tolerance leaves it."""
    start = torch.full((1, 20), 1e-6)
    early = landscape.find_solutions(ferromagnet(), start, method="naive")
    assert len(early) == 0 and early.basin.tolist() == [-2]
    assert early.diagnosis.startswith("no solution: none of 1 starts reached a stable fixed point. 1 start ended")
    late = landscape.find_solutions(ferromagnet(), start, method="naive", tolerance=1e-16)
    assert late.basin.tolist() == [0] and late.solutions.magnetizations[0].min() > 0.5


def test_the_tree_has_stable_solutions_alone():
    """A state at zero leads back to an unstable fixed point of the previous machine, so it has no parent."""
    weak = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    found = landscape.growth([ferromagnet(), weak], torch.ones(1, 20), method="naive", damping=0.0)
    assert found.counts == [1, 1]
    assert found.parents[0].tolist() == [-1]
    assert found.landscapes[0].unstable is not None and len(found.landscapes[0].unstable) == 1


@pytest.mark.slow
def test_the_tree_splits_once_for_every_new_state(starts):
    machines = {0: hopfield(2, 0.002), 5: hopfield(2, 0.02), 10: hopfield(2, 0.05)}
    found = landscape.growth(machines, starts)
    assert found.epochs == [0.0, 5.0, 10.0]
    assert found.counts[0] == 1
    assert found.counts[-1] == 4
    last = [branch for branch in found.tree() if branch[0] == 1]
    assert [child for _, _, child in last] == [0, 1, 2, 3]
    assert all(parent == 0 for k, parent, _ in found.tree() if k == 0)
    places = found.embedding(neighbors=3)
    assert [part.shape for part in places] == [(count, 2) for count in found.counts]


def test_solutions_seen_only_on_the_way_back_are_added():
    """The only start is in the positive basin of the first machine, and a field drives it to the negative state later.

    The iteration back from there ends in the negative state of the first machine, which no start had found.
    """
    first, driven = ferromagnet(), ferromagnet()
    torch.nn.init.constant_(driven.visible.bias, -3.0)
    start = torch.ones(1, 20)
    assert len(landscape.find_solutions(first, start)) == 1
    found = landscape.growth([first, driven], start)
    assert found.counts == [2, 1]
    assert found.parents[0].tolist() == [1]
    states = found.landscapes[0].solutions.magnetizations[0]
    assert states[0].min() > 0.5 and states[1].max() < -0.5
    assert found.landscapes[0].sizes.tolist() == [1, 0]


def test_errors(starts):
    machine = hopfield(2, 0.05)
    with pytest.raises(hm.errors.InvalidData, match="at least one row"):
        landscape.find_solutions(machine, starts[:0])
    with pytest.raises(hm.errors.InvalidData, match="expected shape"):
        landscape.find_solutions(machine, starts[:, :5])
    with pytest.raises(hm.errors.InvalidOption, match="method"):
        landscape.find_solutions(machine, starts, method="gibbs")
    with pytest.raises(hm.errors.InvalidData, match="at least one checkpoint"):
        landscape.growth([], starts)
    with pytest.raises(hm.errors.InvalidData, match="at least 4 solutions"):
        landscape.growth([hopfield(2, 0.002)], starts).embedding()

"""Invariances of fixed points, exact special cases, and errors if there is no fixed point."""

from __future__ import annotations

import math

import pytest
import torch
from cases import MACHINES, SOFTMAX, UNITS, MachineCase, generator, rbm
from torch import Tensor

import harmonium as hm
from harmonium import meanfield, units
from harmonium.couplings import Dense, Masked
from harmonium.errors import InvalidData, InvalidOption, NotEnumerable, NotNormalizable
from harmonium.machines import enumeration
from harmonium.meanfield import Solutions

F64 = torch.float64
STRICT = {"tolerance": 1e-26, "max_iterations": 5000}
METHODS = {
    "naive": meanfield.naive,
    "tap": meanfield.tap,
    "adatap": meanfield.adatap,
    "bp": meanfield.bp,
    "exact-messages": lambda machine, starts=None, **options: meanfield.bp(
        machine, starts, messages="exact", **options
    ),
}
every_method = pytest.mark.parametrize("method", METHODS)


def random_rbm(kind: type[units.Unit] = units.Bernoulli, n: int = 8, m: int = 6, scale: float = 1.0) -> hm.RBM:
    source = generator(kind.name(), n, m)
    weight = scale * torch.randn(n, m, generator=source, dtype=F64)
    biases = [0.3 * torch.randn(size, generator=source, dtype=F64) for size in (n, m)]
    return hm.RBM(kind(n, bias=biases[0]), kind(m, bias=biases[1]), Dense(n, m, weight))


def random_starts(machine: hm.BoltzmannMachine, n: int) -> Tensor:
    return machine.independent(n, generator("starts", n))


def several_modes() -> hm.RBM:
    """A ferromagnet of spins without fields: at least two solutions."""
    return hm.RBM(units.Spin(6), units.Spin(5), Dense(6, 5, torch.full((6, 5), 0.4, dtype=F64)))


def assert_same(a: Solutions, b: Solutions, tolerance: float) -> None:
    assert torch.equal(a.converged, b.converged)
    torch.testing.assert_close(a.free_energy, b.free_energy, rtol=0, atol=tolerance, equal_nan=True)
    for x, y in zip(
        [*a.magnetizations, *a.variances, *a.B, *a.A], [*b.magnetizations, *b.variances, *b.B, *b.A], strict=True
    ):
        torch.testing.assert_close(x, y, rtol=0, atol=tolerance)


# -- many at once -------------------------------------------------------------------------------------------------


@every_method
@pytest.mark.fast_cases(2)
def test_a_batch_is_one_at_a_time(method):
    solve, machine = METHODS[method], random_rbm(scale=1.5)
    starts = random_starts(machine, 7)
    together = solve(machine, starts)
    apart = [solve(machine, start[None]) for start in starts]
    assert together.iterations.tolist() == [found.iterations.item() for found in apart]
    assert len(set(together.iterations.tolist())) > 1  # they converge after different numbers of iterations
    assert_same(together, Solutions.join(apart), 1e-12)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.fast_cases(3)
def test_a_batch_is_one_at_a_time_in_every_machine(name):
    machine = MACHINES[name].build()
    starts = random_starts(machine, 4)
    apart = [meanfield.tap(machine, start[None]) for start in starts]
    assert_same(meanfield.tap(machine, starts), Solutions.join(apart), 1e-12)


def test_what_has_converged_costs_nothing(monkeypatch):
    machine = random_rbm(scale=1.5)
    starts = random_starts(machine, 200)
    rows = []
    up = Dense.up_
    monkeypatch.setattr(Dense, "up_", lambda self, x, out: rows.append(len(x)) or up(self, x, out))
    found = meanfield.tap(machine, starts)
    needed = 2 * int(found.iterations.sum())  # a product with W and one with W² for each
    assert sum(rows) < 1.25 * needed
    assert sum(rows) < 0.9 * 2 * 200 * int(found.iterations.max())


@every_method
@pytest.mark.parametrize("damping", [0.0, 0.3, 0.8])
@pytest.mark.fast_cases(4)
def test_damping_does_not_move_the_fixed_point(method, damping):
    machine = random_rbm()
    solve = METHODS[method]
    assert_same(solve(machine, damping=damping, **STRICT), solve(machine, damping=0.5, **STRICT), 1e-10)


@every_method
def test_going_on_from_solutions(method):
    solve, machine = METHODS[method], random_rbm()
    some = solve(machine, random_starts(machine, 3), iterations=4)
    more = solve(machine, some, iterations=30)
    straight = solve(machine, random_starts(machine, 3), iterations=34)
    assert_same(more, straight, 1e-9)


def test_starts():
    machine = random_rbm()
    drawn = meanfield.tap(machine, 5, seed=3)
    again = meanfield.tap(machine, machine.independent(5, torch.Generator().manual_seed(3)))
    assert_same(drawn, again, 0.0)
    assert len(meanfield.tap(machine)) == 1
    gray = torch.full((2, 8), 0.3, dtype=F64)  # magnetizations need not be states
    assert bool(meanfield.tap(machine, gray).converged.all())


def test_distinct_solutions():
    machine = several_modes()
    starts = torch.ones(6, 6, dtype=F64)
    starts[3:] *= -1
    found = meanfield.tap(machine, starts)
    assert bool(found.converged.all())
    distinct = found.unique()
    assert len(distinct) == 2
    torch.testing.assert_close(distinct.magnetizations[0][0], -distinct.magnetizations[0][1], rtol=0, atol=1e-3)
    assert distinct.magnetizations[0].abs().min() > 0.5


# -- what it does not depend on, and where it is exact ------------------------------------------------------------


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("method", ["naive", "tap", "exact-messages"])
def test_the_encoding_does_not_matter(method):
    """x = (1 + s)/2 of a machine of {0, 1} units gives one of {-1, 1} units, and the same fixed points."""
    binary = random_rbm(scale=1.5)
    W, b, c = (x.detach() for x in (binary.coupling.weight, binary.visible.bias, binary.hidden.bias))
    spins = hm.RBM(
        units.Spin(8, bias=b / 2 + W.sum(1) / 4), units.Spin(6, bias=c / 2 + W.sum(0) / 4), Dense(8, 6, W / 4)
    )
    constant = W.sum() / 4 + b.sum() / 2 + c.sum() / 2
    starts = random_starts(binary, 3)
    one = METHODS[method](binary, starts, **STRICT)
    other = METHODS[method](spins, 2 * starts - 1, **STRICT)
    torch.testing.assert_close(-one.free_energy, -other.free_energy + constant, rtol=0, atol=1e-11)
    for x, s in zip(one.magnetizations, other.magnetizations, strict=True):
        torch.testing.assert_close(x, (1 + s) / 2, rtol=0, atol=1e-11)


def test_two_states_are_binary():
    """A Potts unit of two states is a binary unit: its covariance enters as a matrix, theirs as a number."""
    binary = random_rbm(n=4, m=3)
    W, b, c = (x.detach() for x in (binary.coupling.weight, binary.visible.bias, binary.hidden.bias))
    potts = units.Potts((4, 2), bias=torch.stack([torch.zeros_like(b), b], 1))
    matrix = torch.stack([torch.zeros_like(W), W], 1).reshape(8, 3)
    other = hm.RBM(potts, units.Bernoulli(3, bias=c), Dense((4, 2), 3, matrix))
    one, two = (meanfield.tap(machine, **STRICT) for machine in (binary, other))
    torch.testing.assert_close(one.free_energy, two.free_energy, rtol=0, atol=1e-11)
    torch.testing.assert_close(one.magnetizations[0], two.magnetizations[0][..., 1], rtol=0, atol=1e-11)
    torch.testing.assert_close(one.magnetizations[1], two.magnetizations[1], rtol=0, atol=1e-11)


@pytest.mark.slow
def test_gauge_of_softmax_units():
    """A constant added to all weights of a site and taken from the hidden bias changes nothing."""
    machine = rbm("potts", "binomial", (2, 2)).build()
    shifted = rbm("potts", "binomial", (2, 2)).build()
    with torch.no_grad():
        shifted.coupling.weight[:3] += 0.7
        shifted.hidden.bias -= 0.7
    one, two = (meanfield.tap(m, **STRICT) for m in (machine, shifted))
    torch.testing.assert_close(one.free_energy, two.free_energy, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_documents_of_any_length():
    """Without ``total``, each start has its own number of counts."""
    source = generator("documents")
    weight = 0.3 * torch.randn(4, 3, generator=source, dtype=F64)
    free = hm.RBM(units.Multinomial(4), units.Bernoulli(3), Dense(4, 3, weight))
    starts = torch.tensor([[1, 2, 0, 0], [0, 0, 5, 1], [3, 0, 0, 0]], dtype=F64)
    found = meanfield.tap(free, starts, **STRICT)
    for row, start in enumerate(starts):
        fixed = hm.RBM(units.Multinomial(4, total=int(start.sum())), units.Bernoulli(3), Dense(4, 3, weight))
        assert_same(found.select(slice(row, row + 1)), meanfield.tap(fixed, start[None], **STRICT), 1e-10)


@pytest.mark.parametrize("name", ["bernoulli", "spin", "binomial", "potts", "multinary", "multinomial"])
@pytest.mark.slow
def test_exact_messages_are_exact_on_trees(name):
    """A star (all visible units are coupled to a single hidden unit) and a chain of single units."""
    star = rbm(name, "spin", (3, 1))
    chain = MachineCase(hm.DeepBoltzmannMachine, ((name, (1,)), ("bernoulli", (1,)), ("spin", (1,)), (name, (1,))))
    for case in (star, chain):
        machine = case.build()
        with torch.no_grad():
            for coupling in machine.couplings:
                coupling.weight.mul_(4.0)
        found = meanfield.bp(machine, messages="exact", **STRICT)
        assert -found.free_energy.item() == pytest.approx(machine.log_partition(), abs=1e-11)
        layers, _ = enumeration.moments(machine)
        for exact, magnetization in zip(layers, found.magnetizations, strict=True):
            torch.testing.assert_close(magnetization[0], exact["bias"], rtol=0, atol=1e-11)


def test_exact_messages_on_a_masked_tree():
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1]])  # a path and a leaf
    weight = 2 * torch.randn(4, 3, generator=generator("tree"), dtype=F64)
    machine = hm.RBM(units.Bernoulli(4).double(), units.Spin(3).double(), Masked(4, 3, weight, mask=mask))
    found = meanfield.bp(machine, messages="exact", **STRICT)
    assert -found.free_energy.item() == pytest.approx(machine.log_partition(), abs=1e-11)


@pytest.mark.parametrize("name", UNITS)
def test_clamped_is_exact_in_two_layers(name):
    machine = rbm("spin", name, (3, 2)).build()
    v = random_starts(machine, 4)
    expected = machine.free_energy(v).detach()
    methods = [meanfield.naive] if name == "poisson" else [meanfield.naive, meanfield.tap]
    for solve in methods:
        found = solve(machine, clamped=v)
        torch.testing.assert_close(found.free_energy, expected, rtol=0, atol=1e-11)
        torch.testing.assert_close(found.magnetizations[1], machine.hidden_mean(v).detach(), rtol=0, atol=1e-11)


def test_naive_is_a_lower_bound():
    machine = random_rbm(scale=2.0)
    found = meanfield.naive(machine, random_starts(machine, 20))
    assert bool((-found.free_energy <= machine.log_partition()).all())


def test_adaptive_tap_is_exact_for_gaussians():
    machine = rbm("gaussian", "gaussian", (3, 2)).build()
    found = meanfield.adatap(machine, **STRICT)
    W, (b, c) = machine.coupling.matrix().detach(), (unit.bias.detach() for unit in machine.layers)
    precision = torch.block_diag(*(torch.diag(unit.precision.detach()) for unit in machine.layers))
    precision[:3, 3:], precision[3:, :3] = -W, -W.T
    mean = torch.linalg.solve(precision, torch.cat([b, c]))
    torch.testing.assert_close(torch.cat([x[0] for x in found.magnetizations]), mean, rtol=0, atol=1e-10)
    covariance = torch.linalg.inv(precision)
    torch.testing.assert_close(torch.cat([x[0] for x in found.variances]), covariance.diagonal(), rtol=0, atol=1e-10)
    log_z = (torch.cat([b, c]) @ mean + 5 * math.log(2 * math.pi) - torch.logdet(precision)) / 2
    assert -found.free_energy.item() == pytest.approx(log_z.item(), abs=1e-10)


# -- errors and failed starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tap", "adatap", "bp"])
@pytest.mark.parametrize("pair", [("poisson", "bernoulli"), ("spin", "poisson")])
def test_counts_are_refused(pair, method):
    machine = rbm(*pair).build()
    with pytest.raises(NotNormalizable, match=r"poisson: .*A < 0.*tail 1/x!"):
        METHODS[method](machine)
    assert bool(meanfield.naive(machine).converged.all())


@every_method
def test_an_indefinite_machine_is_refused(method):
    if method == "exact-messages":
        machine = rbm("gaussian", "spin").build()
        with pytest.raises(NotEnumerable, match="finitely many"):
            METHODS[method](machine)
        return
    machine = hm.RBM(units.Gaussian(2), units.Gaussian(2), Dense(2, 2, torch.ones(2, 2)))
    with pytest.raises(NotNormalizable, match="spectral bound"):
        METHODS[method](machine)


@pytest.mark.parametrize("method", ["tap", "adatap", "bp"])
def test_unbounded_messages_are_flagged(method):
    """A Gaussian among strongly coupled binary units has a partition function, but its TAP weight grows: γ < Σ W² c."""
    machine = hm.RBM(units.Gaussian(1), units.Bernoulli(40), Dense(1, 40, torch.full((1, 40), 0.5)))
    machine.check_normalizable()
    found = METHODS[method](machine, torch.zeros(2, 1))
    assert found.converged.tolist() == [False, False]
    assert bool(found.free_energy.isnan().all())


def test_one_bad_start_leaves_the_others_alone():
    """Two solutions: at one the binary units are frozen and the Gaussian is normalizable, at the other it is not."""
    weight, n = 0.9, 12
    machine = hm.RBM(
        units.Gaussian(1, precision=1.5, bias=torch.tensor(0.0, dtype=F64)),
        units.Bernoulli(n, bias=torch.full((n,), -3.0, dtype=F64)),
        Dense(1, n, torch.full((1, n), weight, dtype=F64)),
    )
    starts = torch.tensor([[0.0], [3.4], [9.0]], dtype=F64)
    found = meanfield.tap(machine, starts, damping=0.0)
    apart = [meanfield.tap(machine, start[None], damping=0.0) for start in starts]
    assert found.converged.tolist() == [one.converged.item() for one in apart]
    assert set(found.converged.tolist()) == {True, False}
    assert torch.equal(found.free_energy.isnan(), ~found.converged)
    good = found.converged
    torch.testing.assert_close(found.free_energy[good], Solutions.join(apart).free_energy[good], rtol=0, atol=1e-10)


@every_method
def test_what_has_not_converged_is_flagged(method):
    machine = random_rbm(scale=1.5)
    starts = random_starts(machine, 3)
    found = METHODS[method](machine, starts, tolerance=1e-20, max_iterations=5)
    assert found.converged.tolist() == [False] * 3
    assert bool(found.free_energy.isnan().all())
    assert found.iterations.tolist() == [5] * 3
    asked = METHODS[method](machine, starts, iterations=5)
    assert bool(torch.isfinite(asked.free_energy).all())


@pytest.mark.slow
def test_oscillation_is_flagged():
    """Undamped TAP of strongly coupled spins does not converge; with damping it does."""
    machine = random_rbm(units.Spin, 12, 10, scale=0.5)
    wild = meanfield.tap(machine, damping=0.0, max_iterations=300)
    assert not bool(wild.converged.any())
    assert bool(wild.free_energy.isnan().all())
    assert bool(meanfield.tap(machine, damping=0.95, max_iterations=20_000).converged.all())


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_units_have_tap(name):
    machine = rbm(name, "spin").build()
    for solve in (meanfield.adatap, meanfield.bp):
        with pytest.raises(InvalidOption, match="expects scalar units"):
            solve(machine)


def test_bad_arguments():
    machine = random_rbm()
    bad = [{"damping": 1.0}, {"tolerance": -1.0}, {"max_iterations": 0}, {"iterations": 0}, {"start": 0}]
    for options in bad:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            meanfield.tap(machine, **options)
    with pytest.raises(InvalidOption, match="messages"):
        meanfield.bp(machine, messages="round")
    with pytest.raises(InvalidData, match="expected shape"):
        meanfield.tap(machine, torch.zeros(2, 3))
    with pytest.raises(InvalidData, match="start"):
        meanfield.tap(machine, torch.full((2, 8), torch.nan))
    with pytest.raises(InvalidData, match="clamped"):
        meanfield.tap(machine, clamped=torch.full((2, 8), 0.5))
    with pytest.raises(InvalidOption, match="clamped"):
        meanfield.tap(machine, torch.zeros(2, 8), clamped=torch.zeros(2, 8))

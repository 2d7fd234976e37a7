"""The sweep and the marginal log-weight agree for every view of a chain of layers, and with enumeration."""

from __future__ import annotations

import pytest
import torch
from cases import MACHINES, UNITS, generator, id_of, rbm
from oracle import joint

import harmonium as hm
from harmonium.machines import enumeration
from harmonium.machines.kernel import half_sweep, log_partitions, log_weight, sweep
from harmonium.sampling import MachineLadder, Path, PathLadder
from harmonium.sampling.path import uncoupled
from harmonium.training.negative import CD, PCD, Batch

BETAS = (0.0, 0.35, 1.0)
CASES = {
    **{id_of(pair): rbm(*pair) for name in UNITS for pair in ((name, "bernoulli"), ("bernoulli", name))},
    **MACHINES,
}
every_case = pytest.mark.parametrize("name", CASES)


def path_of(machine):
    base = uncoupled(machine)
    for unit in base.layers:
        unit.shift_bias(-0.5 * unit.bias)
    return Path(machine, base)


def states_of(machine, n=50):
    source = generator("states")
    return machine.initial_state(machine.independent(n, source), source)


# -- one log-weight ---------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("summed", [0, 1])
@pytest.mark.fast_cases(20)
def test_log_weights_are_sums_over_the_other_layers(name, summed):
    case = CASES[name]
    machine = case.build()
    nodes = case.nodes(machine)
    exact = joint(machine, nodes)
    kept = range(1 - summed, machine.depth, 2)
    index = torch.cartesian_prod(*(torch.arange(len(nodes[k][0])) for k in kept)).view(-1, len(kept)).T
    state = [None] * machine.depth
    measure = torch.zeros(index.shape[1], dtype=torch.float64)
    for k, chosen in zip(kept, index, strict=True):
        state[k] = nodes[k][0][chosen]
        measure = measure + nodes[k][1][chosen]
    with torch.no_grad():
        found = log_weight(machine, state, summed=summed) + measure - exact.log_partition
    assert torch.allclose(found.exp(), exact.marginal(*kept).flatten(), rtol=1e-6, atol=1e-12)


@every_case
def test_log_weights_of_a_path_and_of_ladders(name):
    machine = CASES[name].build()
    path, state = path_of(machine), states_of(machine)
    machines = [path.machine(beta) for beta in BETAS]
    stacked = [x.expand(len(BETAS), *x.shape) for x in state]
    with torch.no_grad():
        expected = torch.stack([log_weight(rung, state) for rung in machines])
        points = torch.stack([log_weight(path.at(beta), state) for beta in BETAS])
        seen = path.seen(state)
        again = torch.stack([log_weight(path.at(beta, seen), state) for beta in BETAS])
        parts = log_partitions(machine, state) - log_weight(machine, state)
        assert torch.allclose(points, expected) and torch.equal(points, again)
        for ladder in (PathLadder(path, BETAS), MachineLadder(machines)):
            assert torch.allclose(log_weight(ladder, stacked), expected)
        kept = sum(
            unit.log_weight(x).flatten(1).sum(1) for unit, x in zip(machine.layers[::2], state[::2], strict=True)
        )
        assert torch.allclose(parts, -kept)


def test_the_type_of_a_log_weight():
    machine = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    state = [torch.zeros(4, 3), None]
    assert log_weight(machine, state).dtype == torch.float32
    assert log_weight(machine, state, dtype=torch.float64).dtype == torch.float64
    weight = torch.autograd.grad(log_weight(machine, state).sum(), machine.hidden.bias)[0]
    assert torch.allclose(weight, torch.full((2,), 2.0))


# -- one sweep --------------------------------------------------------------------------------------------------


@every_case
def test_a_point_of_a_path_moves_as_the_machine_there(name):
    machine = CASES[name].build()
    path, state = path_of(machine), states_of(machine)
    for beta in BETAS:
        here, there = (sweep(view, state, generator("point")) for view in (path.at(beta), path.machine(beta)))
        for x, y in zip(here, there, strict=True):
            assert torch.allclose(x, y)


def test_ladders_move_alike():
    machine = CASES["deep-units"].build()
    path = path_of(machine)
    state = [torch.stack([x, x.flip(0), x]) for x in states_of(machine)]
    ladders = PathLadder(path, BETAS), MachineLadder([path.machine(beta) for beta in BETAS])
    for x, y in zip(*(sweep(ladder, state, generator("ladders")) for ladder in ladders), strict=True):
        assert torch.allclose(x, y)


@every_case
def test_in_place_forms_draw_the_same(name):
    machine = CASES[name].build()
    start = states_of(machine)
    plain, written = list(start), [x.clone() for x in start]
    buffers = list(written)
    for parity in (1, 0):
        fields = half_sweep(machine, plain, parity, generator("in place", parity))
        assert set(fields) == set(range(parity, machine.depth, 2))
        with torch.no_grad():
            means = {k: machine.layer(k).mean(field) for k, field in fields.items()}
        half_sweep(machine, written, parity, generator("in place", parity), fields=fields, means=means, in_place=True)
    for x, y, buffer in zip(plain, written, buffers, strict=True):
        assert torch.allclose(x, y) and y is buffer


def test_a_sweep_leaves_its_argument_alone():
    machine = CASES["deep"].build()
    state = states_of(machine)
    copies = [x.clone() for x in state]
    sweep(machine, state, generator("argument"), held={0: torch.tensor([True, False, False])})
    assert all(torch.equal(x, y) for x, y in zip(state, copies, strict=True))


def test_held_layers_take_no_random_numbers():
    machine = CASES["deep"].build()
    state, source = states_of(machine), generator("numbers")
    before = source.get_state()
    moved = sweep(machine, state, source, held={0: True, 1: True, 2: True})
    assert torch.equal(source.get_state(), before) and all(x is y for x, y in zip(moved, state, strict=True))


# -- the loop of contrastive divergence, written for speed, is the same sweep -----------------------------------


PAIRS = [("bernoulli", "bernoulli"), ("spin", "gaussian"), ("potts", "relu"), ("mixed", "spin"), ("gaussian", "potts")]


@pytest.mark.parametrize("pair", [*PAIRS, ("multinomial", "bernoulli")], ids=id_of)
@pytest.mark.parametrize("kind", [CD, PCD])
@pytest.mark.parametrize("k", [1, 3])
def test_contrastive_divergence_is_the_kernel(pair, kind, k):
    machine = rbm(*pair, (4, 3)).build()
    data, phase = states_of(machine)[0], kind(k)
    ours, theirs = generator("cd"), generator("cd")
    phase = phase.resolved(len(data))
    with torch.no_grad():
        now = phase.init(machine, data, ours)
        state = machine.initial_state(data, theirs if kind is PCD else generator("unused"))
        for _ in range(3):
            gradient, now = phase.step(machine, Batch(data), now, ours)
            sample = gradient.loss.__self__
            if kind is CD:  # starts from the data again and averages the hidden layer instead of drawing it
                state = [data, state[1]]
                for _ in range(k):
                    half_sweep(machine, state, 1, theirs)
                    half_sweep(machine, state, 0, theirs)
            else:
                for _ in range(k):
                    half_sweep(machine, state, 0, theirs)
                    half_sweep(machine, state, 1, theirs)
            assert torch.allclose(sample.model, state[0])
            assert torch.allclose(now["h"] if kind is PCD else sample.hidden, state[1])
            assert torch.allclose(sample.model_mean * len(data), machine.hidden_mean(state[0]))
    assert torch.equal(ours.get_state(), theirs.get_state())


# -- exact draws ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rbm", "chain", "deep", "deep-masked", "mixed-bernoulli", "bernoulli-gaussian"])
def test_draws_by_enumeration(name):
    case = CASES[name]
    machine = case.build()
    exact, n = joint(machine, case.nodes(machine)), 40_000
    source = generator("enumerated", name)
    state = enumeration.draws(machine, n, source)
    expected = exact.marginal(0)
    x, points = state[0].flatten(1), exact.points[0].flatten(1)
    counts = torch.stack([(x == point).all(1).sum() for point in points]) / n
    floor = (2 * expected * (1 - expected) / (torch.pi * n)).sqrt().sum() / 2
    assert (counts - expected).abs().sum() / 2 < 3 * floor
    mean = sum(p * y for p, y in zip(exact.marginal(1), exact.points[1], strict=True))
    error = 5 * state[1].std(0) / n**0.5 + 1e-6
    assert ((state[1].mean(0) - mean).abs() < error).all()

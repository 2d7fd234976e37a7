"""Exchange between machines leaves every rung's distribution alone, and a wrong ratio is found."""

import pytest
import torch
from cases import FINITE, PAIRS, UNITS, generator, id_of, rbm
from oracle import joint, worst_deviation

import harmonium as hm
from harmonium.sampling import MachineLadder, Path, PathLadder, ladder

BETAS = (0.0, 0.35, 0.7, 1.0)
CHAINS = 4000
SIGMA = 4.5
# one hidden partner for each visible unit and one visible partner for each hidden unit is enough here
SOME = [pair for pair in PAIRS if "bernoulli" in pair or "gaussian" in pair]


def rungs_of(pair):
    case = rbm(*pair)
    machine = case.build()
    path = Path(machine, _base(machine))
    machines = [path.machine(beta) for beta in BETAS]
    exact = [joint(m, case.nodes(m)) for m in machines]
    return path, machines, exact


def _base(machine):
    base = hm.sampling.path.uncoupled(machine)
    for unit in base.units:
        unit.shift_bias(-0.5 * unit.bias)
    return base


def at_equilibrium(exact, source):
    states = [joint_.draw(CHAINS, source) for joint_ in exact]
    layers = [torch.stack([state[k] for state in states]) for k in range(2)]
    walker = torch.arange(len(exact)).unsqueeze(1).expand(-1, CHAINS).clone()
    return ladder.LadderState(layers, walker)


def move(rungs, state, source, times=4):
    for _ in range(times):
        state, _ = ladder.exchange(rungs, state, source)
        state = ladder.sweep(rungs, state, source)
    return state


def deviations(state, exact):
    return [worst_deviation([x[k] for x in state.layers], exact[k]) for k in range(len(exact))]


@pytest.mark.parametrize("pair", SOME, ids=id_of)
@pytest.mark.parametrize("kind", ["path", "machines"])
def test_stationarity(pair, kind):
    path, machines, exact = rungs_of(pair)
    rungs = PathLadder(path, BETAS) if kind == "path" else MachineLadder(machines)
    source = generator("ladder", kind, pair)
    state = move(rungs, at_equilibrium(exact, source), source)
    assert max(deviations(state, exact)) < SIGMA


def strongly_coupled():
    """Rungs that differ much, so that a mistake in the exchange shows at once."""
    case = rbm("bernoulli", "bernoulli", (3, 2))
    machine = case.build()
    with torch.no_grad():
        machine.coupling.weight.mul_(10.0)
    path = Path(machine, hm.sampling.path.free(machine))
    machines = [path.machine(beta) for beta in BETAS]
    return path, machines, [joint(m, case.nodes(m)) for m in machines]


def worst_after_exchange(rungs, exact, source):
    state = at_equilibrium(exact, source)
    for _ in range(4):
        state, _ = ladder.exchange(rungs, state, source)
    visible = [(state.layers[0][k], exact[k]) for k in range(len(exact))]
    deviations = []
    for v, joint_ in visible:
        p = joint_.marginal(0)
        mean = p @ joint_.points[0]
        spread = (p @ (joint_.points[0] - mean).square()).sqrt()
        deviations.append(((v.mean(0) - mean).abs() / (spread / CHAINS**0.5)).max().item())
    return max(deviations)


@pytest.mark.parametrize("kind", ["path", "machines"])
def test_a_wrong_swap_ratio_is_found(kind, monkeypatch):
    path, machines, exact = strongly_coupled()
    rungs = PathLadder(path, BETAS) if kind == "path" else MachineLadder(machines)
    assert worst_after_exchange(rungs, exact, generator("right", kind)) < SIGMA
    right = ladder.log_weights
    monkeypatch.setattr(ladder, "log_weights", lambda *arguments: [w / 2 for w in right(*arguments)])
    assert worst_after_exchange(rungs, exact, generator("wrong", kind)) > 2 * SIGMA


def test_a_missed_temperature_is_found():
    path, _, exact = strongly_coupled()
    rungs = PathLadder(path, (0.0, 0.35, 0.5, 1.0))  # the third rung is not the one that was prepared
    assert worst_after_exchange(rungs, exact, generator("missed")) > 2 * SIGMA


def test_walkers_follow_their_states():
    path, _, exact = rungs_of(("bernoulli", "bernoulli"))
    rungs = PathLadder(path, BETAS)
    source = generator("walkers")
    state = at_equilibrium(exact, source)
    marked = state.layers[0].clone()
    moved, info = ladder.exchange(rungs, state, source)
    for chain in range(50):
        for rung in range(len(BETAS)):
            assert torch.equal(moved.layers[0][rung, chain], marked[moved.walker[rung, chain], chain])
    assert info.tried.tolist() == [True, False, True]


@pytest.mark.parametrize("name", FINITE)
def test_log_weights_are_those_of_the_machines(name):
    path, machines, _ = rungs_of((name, "bernoulli"))
    rungs = PathLadder(path, BETAS)
    x = UNITS[name].nodes(machines[0].visible)[0]
    layers = [x.expand(len(BETAS), *x.shape), torch.zeros(len(BETAS), len(x), *machines[0].hidden.shape, dtype=x.dtype)]
    with torch.no_grad():
        here, above = ladder.log_weights(rungs, layers, (0, 1))
        for k, machine in enumerate(machines):
            assert torch.allclose(here[k], -machine.free_energy(x))
            if k + 1 < len(machines):
                assert torch.allclose(above[k], -machines[k + 1].free_energy(x))

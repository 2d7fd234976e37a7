"""States and log-weights in exchanges between machines; invariance of p is tested with the other kernels."""

import pytest
import torch
from cases import FINITE, UNITS, generator, rbm

from harmonium.sampling import Path, PathLadder, ladder
from harmonium.sampling.path import uncoupled

BETAS = (0.0, 0.35, 0.7, 1.0)


def rungs_of(pair):
    machine = rbm(*pair).build()
    base = uncoupled(machine)
    for unit in base.layers:
        unit.shift_bias(-0.5 * unit.bias)
    path = Path(machine, base)
    return path, [path.machine(beta) for beta in BETAS]


def test_walkers_follow_their_states():
    path, machines = rungs_of(("bernoulli", "bernoulli"))
    rungs = PathLadder(path, BETAS)
    source = generator("walkers")
    visible = torch.stack([machine.independent(200, source) for machine in machines])
    state = ladder.start(rungs, visible, source)
    moved, info = ladder.exchange(rungs, state, source)
    for chain in range(200):
        for rung in range(len(BETAS)):
            assert torch.equal(moved.layers[0][rung, chain], visible[moved.walker[rung, chain], chain])
    assert not torch.equal(moved.walker, state.walker)
    assert info.tried.tolist() == [True, False, True]


@pytest.mark.parametrize("name", FINITE)
def test_log_weights_are_those_of_the_machines(name):
    path, machines = rungs_of((name, "bernoulli"))
    rungs = PathLadder(path, BETAS)
    x = UNITS[name].nodes(machines[0].visible)[0]
    layers = [x.expand(len(BETAS), *x.shape), torch.zeros(len(BETAS), len(x), *machines[0].hidden.shape, dtype=x.dtype)]
    with torch.no_grad():
        here, above = ladder.log_weights(rungs, layers, (0, 1), rungs.seen(layers))
        for k, machine in enumerate(machines):
            assert torch.allclose(here[k], -machine.free_energy(x))
            if k + 1 < len(machines):
                assert torch.allclose(above[k], -machines[k + 1].free_energy(x))

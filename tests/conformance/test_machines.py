"""Every machine: energies, ln Z both ways, stationarity, copies; and that no public class is missing from the cases."""

from __future__ import annotations

import copy
import inspect
import json

import pytest
import torch
from cases import COUPLINGS, MACHINES, PHASES, SAMPLERS, UNITS, generator, step
from oracle import joint, worst_deviation

import harmonium as hm
from harmonium.files import build
from harmonium.machines import enumeration
from harmonium.training import negative

SIGMAS = 4.5
CHAINS = 20_000

every_machine = pytest.mark.parametrize("name", MACHINES)


@every_machine
def test_energy(name):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine))
    state = exact.draw(6, generator(name))
    value = sum(unit.log_weight(x).flatten(1).sum(1) for unit, x in zip(machine.layers, state, strict=True))
    for coupling, x, y in zip(machine.couplings, state, state[1:], strict=False):
        value = value + torch.einsum("bi,ij,bj->b", x.flatten(1), coupling.matrix(), y.flatten(1))
    torch.testing.assert_close(machine.energy(*state), -value)


@every_machine
def test_log_partition_both_ways(name):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine)).log_partition
    assert machine.log_partition() == pytest.approx(exact, abs=1e-9)
    for parity in (0, 1):
        if all(unit.cardinality is not None for unit in machine.layers[parity::2]):
            assert enumeration.log_partition(machine, parity) == pytest.approx(exact, abs=1e-9)


@every_machine
def test_moments(name):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine))
    layers, links = enumeration.moments(machine)
    for k, (unit, found) in enumerate(zip(machine.layers, layers, strict=True)):
        for statistic, values in unit.statistics(exact.points[k]).items():
            torch.testing.assert_close(found[statistic], torch.tensordot(exact.marginal(k), values, 1))
    for k, (coupling, found) in enumerate(zip(machine.couplings, links, strict=True)):
        x, y = exact.points[k], exact.points[k + 1]
        p = exact.marginal(k, k + 1)
        i, j = (index.flatten() for index in torch.meshgrid(*map(torch.arange, p.shape), indexing="ij"))
        weighted = x[i] * p.flatten().view(-1, *(1 for _ in coupling.lower))
        torch.testing.assert_close(found, coupling.correlate(weighted, y[j]))


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        (name, sampler)
        for name, machine in MACHINES.items()
        for sampler, case in SAMPLERS.items()
        if case.deep or machine.kind is hm.RBM
    ],
)
def test_stationarity(name, sampler):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine))
    source = generator(name, sampler)
    state = SAMPLERS[sampler].run(machine, exact.draw(CHAINS, source), 2, source)
    assert worst_deviation(state, exact) < SIGMAS


@pytest.mark.slow
@every_machine
def test_sample_converges(name):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine))
    states: list[list[torch.Tensor]] = []
    source = generator(name, "sample")
    v = machine.sample(CHAINS, sweeps=60, seed=source, callback=lambda step, state: states.append(list(state)))
    assert torch.equal(v, states[-1][0])
    assert worst_deviation(states[-1], exact) < SIGMAS


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (name, phase)
        for name, machine in MACHINES.items()
        for phase, case in PHASES.items()
        if machine.kind is hm.RBM
        and not {unit for unit, _ in machine.layers} & set(case.without)
        and (not case.visible or machine.layers[0][0] in case.visible)
    ],
)
def test_moments_are_the_gradient_of_the_loss(name, phase):
    machine = MACHINES[name].build()
    exact = joint(machine, MACHINES[name].nodes(machine))
    data = exact.draw(8, generator(name, phase))[0]
    gradient = step(PHASES[phase].build(), machine, data, generator(name, phase))
    found = {key: p.grad.clone() for key, p in machine.named_parameters()}
    machine.zero_grad()
    PHASES[phase].loss(machine, gradient, data).backward()
    for key, parameter in machine.named_parameters():
        torch.testing.assert_close(found[key], parameter.grad, rtol=1e-9, atol=1e-11)


@every_machine
def test_copies_are_equal_to_the_bit(name, tmp_path):
    machine = MACHINES[name].build()
    state = joint(machine, MACHINES[name].nodes(machine)).draw(6, generator(name))
    hm.save(machine, tmp_path / "machine.safetensors")
    from_state = build(json.loads(json.dumps(machine.config()))).double()
    from_state.load_state_dict(machine.state_dict())
    for other in (hm.load(tmp_path / "machine.safetensors"), from_state, copy.deepcopy(machine)):
        assert type(other) is type(machine)
        assert other.config() == machine.config()
        assert list(other.state_dict()) == list(machine.state_dict())
        for key, value in machine.state_dict().items():
            assert torch.equal(other.state_dict()[key], value), key
        assert torch.equal(other.energy(*state), machine.energy(*state))
        assert other.log_partition() == machine.log_partition()


def _public(package: object, base: type) -> set[type]:
    return {
        kind
        for name, kind in vars(package).items()
        if not name.startswith("_") and inspect.isclass(kind) and issubclass(kind, base) and kind is not base
    }


def test_no_unit_is_missing():
    assert {type(case.build((1,), generator())) for case in UNITS.values()} == _public(hm.units, hm.units.Unit)


def test_no_coupling_is_missing():
    built = {type(COUPLINGS[name]((1, 3, 3), (1, 2, 2), generator(), "any")) for name in COUPLINGS}
    assert built == _public(hm.couplings, hm.couplings.Coupling)


def test_no_machine_is_missing():
    kinds = {case.kind for case in MACHINES.values()}
    given = {hm.machines.ConditionalRBM, hm.machines.GivenRBM}  # in test_conditional.py
    assert kinds >= _public(hm.machines, hm.BoltzmannMachine) - given


def test_no_negative_phase_is_missing():
    public = _public(negative, negative.NegativePhase)
    built = {type(case.build()) for case in PHASES.values()}
    assert built == public - {negative.Sampled}  # the base class of the sampled ones

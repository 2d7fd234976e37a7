"""Machines given a context, against brute force: every unit, with a Bernoulli partner."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch
from cases import FINITE, PAIRS, UNITS, generator, id_of, rbm, step, weights
from oracle import Joint, joint, worst_deviation
from torch import Tensor

import harmonium as hm
from harmonium.couplings import Dense
from harmonium.errors import NotEnumerable
from harmonium.files import build
from harmonium.testing.nodes import Nodes
from harmonium.training.negative import CD, Batch, Exact, NegativePhase, Reconstruction
from harmonium.training.sample import Sample

SIGMAS = 4.5
CHAINS = 10_000
INPUTS = (2, 2)
CONTEXT = torch.tensor([[[0.5, -0.8], [0.3, 0.0]], [[-0.6, 0.1], [0.7, 0.4]]], dtype=torch.float64)

some_pairs = pytest.mark.parametrize("pair", [pair for pair in PAIRS if "bernoulli" in pair], ids=id_of)


def conditional(pair: tuple[str, str], sites: tuple[int, int] = (2, 1)) -> hm.ConditionalRBM:
    plain, source = rbm(*pair, sites=sites).build(), generator(*pair, "context")
    assert isinstance(plain, hm.RBM)
    ends = [Dense(INPUTS, tuple(unit.shape), weights((math.prod(INPUTS), unit.size), source)) for unit in plain.layers]
    return hm.ConditionalRBM(plain.visible, plain.hidden, INPUTS, plain.coupling, to_visible=ends[0], to_hidden=ends[1])


def nodes(pair: tuple[str, str], machine: hm.RBM) -> list[Nodes]:
    return [UNITS[name].nodes(unit) for name, unit in zip(pair, machine.layers, strict=True)]


def brute(pair: tuple[str, str], machine: hm.ConditionalRBM, context: Tensor) -> Joint:
    """p(v, h | u) on all nodes: that of the machine without a context, times e^{u·A·v + u·B·h}."""
    plain = joint(hm.RBM(machine.visible, machine.hidden, machine.coupling), nodes(pair, machine))
    log_p = plain.p.log() + plain.log_partition
    assert machine.to_visible is not None
    assert machine.to_hidden is not None
    with torch.no_grad():
        u = context.flatten()
        log_p = log_p + (plain.points[0].flatten(1) @ (machine.to_visible.weight.T @ u))[:, None]
        log_p = log_p + (plain.points[1].flatten(1) @ (machine.to_hidden.weight.T @ u))[None, :]
    log_z = torch.logsumexp(log_p.flatten(), 0).item()
    return Joint(plain.points, (log_p - log_z).exp(), log_z)


@some_pairs
def test_probabilities_of_each_row(pair):
    machine = conditional(pair)
    given = machine.given(CONTEXT)
    exact = [brute(pair, machine, context) for context in CONTEXT]
    for row, expected in enumerate(exact):
        v = expected.points[0]
        alone = machine.given(CONTEXT[row : row + 1])
        found = (-alone.free_energy(v) + nodes(pair, machine)[0][1]).exp() / math.exp(expected.log_partition)
        torch.testing.assert_close(found.detach(), expected.marginal(0), rtol=1e-8, atol=1e-12)
        p_h = expected.p[len(v) // 2] / expected.p[len(v) // 2].sum()
        mean = (p_h @ expected.points[1].flatten(1)).view(machine.hidden.shape)
        torch.testing.assert_close(alone.hidden_mean(v[len(v) // 2][None])[0].detach(), mean, rtol=1e-7, atol=1e-9)
        both = given.free_energy(torch.stack([v[0], v[-1]]))[row]
        torch.testing.assert_close(both, alone.free_energy(v[[0, -1]])[row], rtol=1e-12, atol=1e-12)
    if not set(pair) & set(FINITE):
        with pytest.raises(NotEnumerable):
            given.log_partition()
        return
    expected_log_z = torch.tensor([row.log_partition for row in exact], dtype=torch.float64)
    torch.testing.assert_close(given.log_partition(), expected_log_z, rtol=0, atol=1e-8)
    if pair[0] in FINITE:
        states, log_p = given.distribution()
        assert states.shape == (log_p.shape[1], *machine.visible.shape)
        torch.testing.assert_close(given.log_probability(states[[0, 1]]), log_p[[0, 1], [0, 1]])


def sample_of(machine: hm.RBM, phase: NegativePhase, v: Tensor, context: Tensor, source: torch.Generator) -> Sample:
    """The states of data and model of one step."""
    with torch.no_grad():
        state = phase.init(machine, v, source)
        phase.step(machine, Batch(v, context), state, source)
    return state["memory"].get(len(v), None)


@pytest.mark.fast_cases(25)
@some_pairs
def test_stationarity_of_each_row(pair):
    machine = conditional(pair)
    source = generator(*pair, "given")
    exact = [brute(pair, machine, context) for context in CONTEXT]
    draws = [row.draw(CHAINS, source) for row in exact]
    start = [torch.stack(parts, 1).flatten(0, 1) for parts in zip(*draws, strict=True)]  # rows alternate
    given = machine.given(CONTEXT).repeated(2 * CHAINS)
    state = start
    for _ in range(2):
        state = given.sweep(state, source)
    sample = sample_of(machine, CD(2), start[0], CONTEXT.repeat(CHAINS, 1, 1), source)
    for row, expected in enumerate(exact):
        assert worst_deviation([x[row::2] for x in state], expected) < SIGMAS
        assert worst_deviation([sample.model[row::2], sample.hidden[row::2]], expected) < SIGMAS


def states_of(pair: tuple[str, str], machine: hm.RBM, n: int) -> Tensor:
    points, _ = UNITS[pair[0]].nodes(machine.visible)
    likely = points[points.flatten(1).abs().amax(1) < 4]
    return likely[torch.randint(len(likely), (n,), generator=generator(*pair, "states"))]


def moments(machine: hm.RBM, phase: NegativePhase, v: Tensor, context: Tensor, *names: object) -> dict[str, Tensor]:
    step(phase, machine, v, generator(*names), context)
    return {name: p.grad.clone() for name, p in machine.named_parameters()}


@pytest.mark.parametrize("kind", ["cd", "reconstruction"])
@some_pairs
def test_moments_are_the_gradient_of_the_loss(pair, kind):
    machine = conditional(pair, (2, 2))
    v, context = states_of(pair, machine, 6), CONTEXT.repeat(3, 1, 1) * torch.linspace(0.5, 1.5, 6).view(6, 1, 1)
    phase = CD(2) if kind == "cd" else Reconstruction(2)
    found = moments(machine, phase, v, context, *pair, kind)
    machine.zero_grad()
    model = sample_of(machine, phase, v, context, generator(*pair, kind)).model.clone()
    hm.losses.contrastive(machine.given(context), v, model).backward()
    expected = {name: p.grad for name, p in machine.named_parameters()}
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("pair", [("bernoulli", "bernoulli"), ("gaussian", "bernoulli"), ("potts", "relu")], ids=id_of)
def test_exact_is_the_gradient_of_the_conditional_likelihood(pair):
    machine = conditional(pair, (2, 2))
    v, context = states_of(pair, machine, 5), torch.cat([CONTEXT, 0.5 * CONTEXT, CONTEXT[:1] - 1])
    found = moments(machine, Exact(), v, context, *pair)
    step = 1e-5
    for name, parameter in machine.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator(*pair, name), dtype=torch.float64)
        values = []
        for sign in (1, -1):
            moved = copy.deepcopy(machine)
            with torch.no_grad():
                moved.get_parameter(name).add_(direction, alpha=sign * step)
                values.append(-moved.given(context).log_probability(v).mean().item())
        slope = (values[0] - values[1]) / (2 * step)
        assert (found[name] * direction).sum().item() == pytest.approx(slope, abs=1e-7), name


@some_pairs
def test_copies_are_equal_to_the_bit(pair, tmp_path):
    machine = conditional(pair)
    hm.save(machine, tmp_path / "machine.safetensors")
    from_config = build(json.loads(json.dumps(machine.config()))).double()
    from_config.load_state_dict(machine.state_dict())
    v = states_of(pair, machine, 2)
    for other in (hm.load(tmp_path / "machine.safetensors"), from_config, copy.deepcopy(machine)):
        assert isinstance(other, hm.ConditionalRBM)
        assert other.config() == machine.config()
        assert torch.equal(other.given(CONTEXT).free_energy(v), machine.given(CONTEXT).free_energy(v))

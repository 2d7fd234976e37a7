"""DeepPCD: gradient, learning and saved state."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from deep_helpers import ROWS, all_states, exact, small
from training_helpers import step

import harmonium as hm
from harmonium.machines.kernel import half_sweep


def gradient(machine: hm.BoltzmannMachine, phase: hm.DeepPCD, rows: torch.Tensor) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    return step(phase, machine, rows, generator)[1]


def test_the_gradient_is_that_of_the_bound():
    """Data: moments of the clamped mean field. Model: moments by enumeration, approximated by many chains."""
    machine = small()
    chains = 10_000
    gradient(machine, hm.DeepPCD(20, positive="mean-field", iterations=50, chains=chains), ROWS)

    states = all_states(machine)
    with torch.no_grad():
        p = torch.softmax(-machine.energy(*states), 0)
    data = hm.meanfield.naive(machine, clamped=ROWS, tolerance=1e-20).magnetizations
    tolerance = 5 * 0.5 / math.sqrt(chains)
    for k, unit in enumerate(machine.layers):
        expected = p @ states[k] - data[k].mean(0)
        assert torch.allclose(unit.bias.grad, expected, atol=tolerance)
    for k, coupling in enumerate(machine.couplings):
        model = torch.einsum("s,si,sj->ij", p, states[k], states[k + 1])
        expected = model - data[k].T @ data[k + 1] / len(ROWS)
        assert torch.allclose(coupling.weight.grad, expected, atol=tolerance)
        assert expected.abs().max() > 5 * tolerance  # otherwise zero would pass the test too


@pytest.mark.slow
def test_the_gradient_with_sampled_hidden_layers_is_that_of_the_likelihood():
    """With strong couplings, where that of the bound differs by more than the noise."""
    machine, n = small(scale=1.2), 20_000
    states = all_states(machine)
    with torch.no_grad():
        weights = -machine.energy(*states)
    given = torch.zeros_like(weights)
    for row in ROWS:
        here = (states[0] == row).all(1)
        given[here] += torch.softmax(weights[here], 0) / len(ROWS)
    difference = torch.softmax(weights, 0) - given
    tolerance = 5 * 0.5 * math.sqrt(2 / n)
    errors = {}
    for positive in ("gibbs", "mean-field"):
        gradient(machine, hm.DeepPCD(20, iterations=20, chains=n, positive=positive), ROWS.repeat(n // len(ROWS), 1))
        expected = [torch.einsum("s,si,sj->ij", difference, *states[k : k + 2]) for k in range(2)]
        found = [coupling.weight.grad for coupling in machine.couplings]
        errors[positive] = max((a - b).abs().max() for a, b in zip(found, expected, strict=True))
        if positive == "gibbs":
            for k, unit in enumerate(machine.layers):
                assert torch.allclose(unit.bias.grad, difference @ states[k], atol=tolerance)
    assert errors["gibbs"] < tolerance < errors["mean-field"] / 2


@torch.no_grad()
def test_a_step_is_the_mean_field_and_the_sweep_of_the_library():
    """In place with reused buffers, it gives what the separate functions give, also for a smaller last batch."""
    machine, phase = small(), hm.DeepPCD(2, positive="mean-field", iterations=60, chains=7)
    now, generator = phase.init(machine, ROWS, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(1)
    state = [x.clone() for x in now["chains"]]
    for rows in (ROWS, ROWS[:3]):
        copied = generator.clone_state()
        gradient, now = step(phase, machine, rows, generator, state=now)
        for _ in range(2):
            v, fields = state[0], half_sweep(machine, state, 1, copied)
            fields |= half_sweep(machine, state, 0, copied)
        means = [machine.layers[k].mean(fields[k]) for k in range(3)]
        data = hm.meanfield.naive(machine, clamped=rows, damping=0.0, iterations=100).magnetizations
        for k, unit in enumerate(machine.layers):
            torch.testing.assert_close(unit.bias.grad, (means[k] if k else v).mean(0) - data[k].mean(0))
        correction = torch.outer((means[1] - state[1]).mean(0), data[2].mean(0))  # reduces the noise
        pairs = v.T @ means[1] / 7, state[1].T @ means[2] / 7 + correction
        for k, coupling in enumerate(machine.couplings):
            torch.testing.assert_close(coupling.weight.grad, pairs[k] - data[k].T @ data[k + 1] / len(rows))
        for found, expected in zip(gradient.hidden, data[1:], strict=True):
            torch.testing.assert_close(found, expected.mean(0))
        assert all(torch.equal(a, b) for a, b in zip(now["chains"], state, strict=True))


@pytest.mark.parametrize("positive", ["mean-field", "gibbs"])
def test_a_weakly_coupled_layer_causes_little_noise(positive):
    """The gradient of its weights is nearly zero, because it is averaged given the layer below."""
    machine = small(scale=0.8)
    with torch.no_grad():
        machine.couplings[1].weight.mul_(0.01)
    gradient(machine, hm.DeepPCD(1, chains=100, positive=positive), ROWS.repeat(20, 1))
    top = machine.layers[2].bias.sigmoid()
    below = machine.layers[1].bias.grad  # the same for every unit above, if these have fixed means
    noise = machine.couplings[1].weight.grad - torch.outer(below, top)
    assert noise.abs().max() < 0.1 * math.sqrt(2 / 100) * 0.25  # a tenth of that of samples


def test_few_iterations_suffice_from_the_fields_of_the_step_before():
    machine = small(2, 1.2)
    solution = hm.meanfield.naive(machine, clamped=ROWS, damping=0.0, iterations=200).magnetizations[1]
    phase = hm.DeepPCD(1, positive="mean-field")
    state = gradient(machine, phase, ROWS)
    none = [torch.zeros_like(field) for field in state["above"]]
    errors = []
    for above in (state["above"], none):  # first with the fields of the step before, then without
        found, _ = step(phase, machine, ROWS, torch.Generator().manual_seed(0), state={**state, "above": above})
        errors.append((found.hidden[0] - solution.mean(0)).square().mean().item())
    assert errors[0] < errors[1] / 2


@pytest.mark.parametrize("positive", ["mean-field", "gibbs"])
@pytest.mark.parametrize("kind", ["dense", "masked"])
def test_a_centered_step_with_factors_is_that_with_the_written_gradient(positive, kind):
    """With two couplings to a layer, each must have its own spare rows for the changes of its gradient."""
    steps = []
    for plain in (True, False):
        machine = four_layers(kind)
        before = [coupling.weight.detach().clone() for coupling in machine.couplings]
        optimizer = torch.optim.SGD(machine.parameters(), lr=0.1, momentum=0.0 if plain else 1e-12)
        hm.fit(
            machine, ROWS, negative=hm.DeepPCD(1, iterations=2, positive=positive), epochs=2, batch_size=3,
            optimizer=optimizer, penalties=[hm.L2(0.1)], initialize="keep", progress=False, seed=0,
        )  # fmt: skip
        steps.append([c.weight.detach() - old for c, old in zip(machine.couplings, before, strict=True)])
    for found, expected in zip(*steps, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-6)
        assert expected.abs().max() > 1e-3


def four_layers(kind: str = "dense") -> hm.DeepBoltzmannMachine:
    sizes, generator = (4, 3, 3, 2), torch.Generator().manual_seed(0)
    couplings = []
    for lower, upper in pairwise(sizes):
        weight = torch.randn(lower, upper, generator=generator)
        mask = torch.ones(lower, upper)
        mask[0, 0] = 0
        couplings.append(
            hm.couplings.Dense(lower, upper, weight)
            if kind == "dense"
            else hm.couplings.Masked((lower,), (upper,), weight, mask=mask)
        )
    return hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in sizes], couplings).double()


@pytest.mark.parametrize("positive", ["mean-field", "gibbs"])
@pytest.mark.parametrize("kind", ["dense", "masked"])
def test_a_step_with_rounded_products_is_the_exact_one_within_rounding(positive, kind):
    rows, steps = ROWS.float().repeat(200, 1), []
    for precision in ("float32", "bfloat16"):
        machine = four_layers(kind).float()
        before = machine.couplings[1].weight.detach().clone()
        hm.fit(
            machine, rows, negative=hm.DeepPCD(1, iterations=2, positive=positive), epochs=1, batch_size=1000,
            learning_rate=1.0, precision=precision, initialize="keep", progress=False, seed=0,
        )  # fmt: skip
        assert machine.couplings[1].weight.dtype == torch.float32
        steps.append(machine.couplings[1].weight.detach() - before)
    exact_step, rounded = steps
    assert 0 < (rounded - exact_step).norm() / exact_step.norm() < 0.1


def test_resumes_bit_for_bit(tmp_path):
    whole, parts = four_layers().float(), four_layers().float()
    options = {"negative": hm.DeepPCD(1, iterations=1, positive="gibbs"), "batch_size": 2, "progress": False, "seed": 0}

    class Stop(hm.Callback):
        def on_epoch(self, progress) -> None:
            progress.stop = progress.epoch == 2

    hm.fit(whole, ROWS.float(), epochs=4, **options)
    hm.fit(parts, ROWS.float(), epochs=4, run=tmp_path / "run", callbacks=[Stop()], **options)
    hm.fit(parts, ROWS.float(), epochs=4, run=tmp_path / "run", resume=True, **options)
    for found, expected in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("positive", ["mean-field", "gibbs"])
def test_training_with_chains_improves_the_exact_likelihood(positive):
    machine = small(3, 0.1)
    before = exact(machine, ROWS)
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    hm.fit(
        machine, ROWS, negative=hm.DeepPCD(1, chains=100, positive=positive), epochs=300, batch_size=5,
        optimizer=optimizer, progress=False,
    )  # fmt: skip
    assert exact(machine, ROWS) > before + 0.2


def test_options():
    with pytest.raises(hm.errors.InvalidOption, match="iterations"):
        hm.DeepPCD(1, iterations=0)
    with pytest.raises(hm.errors.InvalidOption, match="unknown positive 'gibs': did you mean 'gibbs'"):
        hm.DeepPCD(1, positive="gibs")
    assert hm.DeepPCD() == hm.DeepPCD(1, iterations=1, positive="gibbs")

"""DeepPCD: gradient, learning and saved state."""

from __future__ import annotations

import math

import pytest
import torch
from deep_helpers import ROWS, all_states, exact, small

import harmonium as hm


def test_the_gradient_is_that_of_the_bound():
    """Data: moments of the clamped mean field. Model: moments by enumeration, approximated by many chains."""
    machine = small()
    chains = 10_000
    phase = hm.DeepPCD(20, iterations=50, chains=chains)
    generator = torch.Generator().manual_seed(1)
    phase.begin(machine, len(ROWS), ROWS, generator)
    phase.data_slot.copy_(ROWS)
    phase.gradient(machine, generator)

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


def test_training_with_chains_improves_the_exact_likelihood():
    machine = small(3, 0.1)
    before = exact(machine, ROWS)
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    hm.fit(
        machine, ROWS, negative=hm.DeepPCD(1, chains=100), epochs=300, batch_size=5, optimizer=optimizer,
        metrics_every=300, progress=False,
    )  # fmt: skip
    assert exact(machine, ROWS) > before + 0.2


def test_chains_are_kept_and_resized():
    machine, phase = small(), hm.DeepPCD(1)
    phase.begin(machine, 5, ROWS, torch.Generator().manual_seed(0))
    phase.data_slot.copy_(ROWS)
    phase.gradient(machine, torch.Generator().manual_seed(0))
    other = hm.DeepPCD(1)
    other.begin(machine, 5, ROWS, torch.Generator().manual_seed(5))
    other.load_state_dict(phase.state_dict(), machine)
    assert torch.equal(other.chain_states(), phase.chain_states())
    phase.resize(machine, 8)
    assert len(phase.chain_states()) == len(phase.data_slot) == 8
    with pytest.raises(hm.errors.InvalidOption, match="iterations"):
        hm.DeepPCD(1, iterations=0)

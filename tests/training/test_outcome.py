"""Warnings after a training that ended without an error but did not learn."""

from __future__ import annotations

import warnings

import pytest
import torch
from training_helpers import binary, draw, log_likelihood

import harmonium as hm
from harmonium.errors import NotLearned
from harmonium.training import outcome


def digits() -> torch.Tensor:
    return torch.as_tensor(hm.data.load("digits", binarize="threshold")).float()[:500]


def test_too_few_steps_are_reported() -> None:
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    with pytest.warns(NotLearned, match="no better than independent units: log-likelihood -2.*train for more"):
        hm.fit(rbm, digits(), negative="pcd:1", epochs=1, progress=False)


def test_a_rate_far_too_large_is_reported() -> None:
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    with pytest.warns(NotLearned):
        hm.fit(rbm, digits(), epochs=5, progress=False, optimizer=lambda p: torch.optim.SGD(p, lr=100.0))


@pytest.mark.slow
def test_training_that_learns_is_quiet() -> None:
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotLearned)
        hm.fit(rbm, digits(), epochs=60, progress=False)


def test_the_likelihoods_that_are_compared() -> None:
    machine = binary(6, 3, seed=1, weight=1.5)
    data = draw(machine, 3000)
    ours, theirs = outcome.gain_over_independent(machine, data)
    assert ours == pytest.approx(log_likelihood(machine, data), abs=0.3)
    p = data.mean(0).clamp(1e-9, 1 - 1e-9)
    entropy = (data * p.log() + (1 - data) * (1 - p).log()).sum(1).mean().item()
    assert theirs == pytest.approx(entropy, abs=0.01)  # a pseudocount keeps it a little below


def test_weak_couplings_that_are_better_than_independent_units_are_not_reported() -> None:
    """The error of 20 annealing runs is as large as the gain, which is above the threshold of 0.001 nats per unit."""
    machine = binary(6, 3, seed=12, weight=0.9)
    data = draw(machine, 1000)
    short, theirs = outcome.gain_over_independent(machine, data)
    assert short < theirs + 0.006 < log_likelihood(machine, data)
    assert outcome.problems(machine, data, []) == []


def history(norms: list[float]) -> list[dict[str, float]]:
    return [{"epoch": k + 1, "weight_norm": norm} for k, norm in enumerate(norms)]


def test_growth_that_does_not_slow_down_is_reported() -> None:
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    rows = torch.ones(5, 4)
    steady, slowing = [float(k) for k in range(1, 21)], [20 * (1 - 0.5**k) for k in range(20)]
    with torch.no_grad():
        rbm.coupling.weight.fill_(40.0)
    assert "keep growing" in (outcome._growth(rbm, rows, history(steady)) or "")
    assert outcome._growth(rbm, rows, history(slowing)) is None
    assert outcome._growth(rbm, rows, history(steady[:6])) is None  # too short to judge
    with torch.no_grad():
        rbm.coupling.weight.fill_(2.0)  # early training: small weights may grow
    assert outcome._growth(rbm, rows, history(steady)) is None


@pytest.mark.slow
def test_pixels_of_256_levels_learn_with_defaults() -> None:
    rows = (torch.as_tensor(hm.data.load("digits")).float() * 255).round()[:300, 18:46:4]
    rbm = hm.RBM(hm.units.Multinary(rows.shape[1], levels=255), hm.units.Bernoulli(4))
    result = hm.fit(rbm, rows, epochs=40, progress=False)
    ours, theirs = outcome.gain_over_independent(rbm, rows)
    assert ours > theirs + 1
    assert result.history[-1]["weight_norm"] < 10

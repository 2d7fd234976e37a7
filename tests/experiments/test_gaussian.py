"""Experiments with Gaussian–Bernoulli machines: the comparison Gaussian, and a run on generated rows."""

from __future__ import annotations

import csv
import json
import math

import pytest
import torch

import experiments
import harmonium as hm
from experiments.gaussian import capacity, defaults, rows, samplers


def generated(name: str = "", noise: float = 0.0) -> rows.Rows:
    source = torch.Generator().manual_seed(0)
    cause = (torch.rand(600, 2, generator=source) < 0.5).float()
    pattern = torch.tensor([[1.5, 1.5, 0.0, 0.0], [0.0, 0.0, 1.5, 1.5]])
    x = cause @ pattern + 0.3 * torch.randn(600, 4, generator=source)
    return rows.Rows(x[:400], x[400:500], x[500:], (2, 2))


def test_the_covariance_is_chosen_on_validation_rows() -> None:
    data = generated()
    found = rows.covariance(data)
    training, test = data.training.double(), data.test.double()
    S = training.T.cov(correction=0)

    def gaussian(weight: float) -> torch.distributions.MultivariateNormal:
        shrunk = (1 - weight) * S + weight * torch.diag(S.diagonal())
        return torch.distributions.MultivariateNormal(training.mean(0), shrunk)

    assert found.full == pytest.approx(gaussian(found.shrinkage).log_prob(test).mean().item())
    assert found.diagonal == pytest.approx(gaussian(1.0).log_prob(test).mean().item())
    best = max(rows.SHRINKAGE, key=lambda weight: gaussian(weight).log_prob(data.validation.double()).mean().item())
    assert found.shrinkage == best


@pytest.mark.slow
def test_defaults(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(defaults, "load", generated)
    record = experiments.reproduce("gaussian/defaults", "quick", tmp_path / "out", data="frey", seeds=2, hidden=3)
    assert record.claims[0].holds
    assert record.claims[1].holds is not False  # two seeds may be too few for a verdict
    table = list(csv.DictReader((tmp_path / "out" / "seeds.csv").read_text(encoding="utf-8").splitlines()))
    assert len(table) == 2 and all(row["finite"] == "True" for row in table)
    # binary causes: more likely than a Gaussian with a full covariance
    assert all(float(row["log_likelihood"]) > float(row["gaussian"]) for row in table)
    assert (tmp_path / "out" / "frey.png").exists()


def test_likelihoods_of_whitened_rows_are_those_of_pixels() -> None:
    """A machine without weights on whitened rows is the Gaussian with the full covariance."""
    data = generated()
    found = rows.covariance(data)
    whitened = data.whitened(found.shrinkage)
    machine = hm.RBM(hm.units.Gaussian(4), 2).double()
    value = machine.log_probability(whitened.test.double()).mean().item() + whitened.log_determinant
    assert value == pytest.approx(found.full, abs=1e-4)
    torch.testing.assert_close(whitened.pixels(whitened.test), data.test, rtol=0, atol=1e-5)


def test_units_for_one_axis_are_found_by_their_curvature() -> None:
    """With the number of units that is said to be enough, little is lost; with half of it much more."""
    enough = math.ceil(rows.units_of_axis(16.0))
    found = capacity.divergence(16.0, enough)
    assert 0 < found < capacity.GAP < capacity.divergence(16.0, enough // 2)


@pytest.mark.slow
def test_capacity(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(capacity, "load", generated)
    monkeypatch.setattr(capacity, "RATIOS", (4.0,))
    experiments.reproduce("gaussian/capacity", "quick", tmp_path / "out", hidden=3, iterations=50)
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text(encoding="utf-8"))
    assert len(verdict["claims"]) == 4
    assert verdict["numbers"]["maximum likelihood"] > verdict["numbers"]["full covariance"]  # binary causes


def test_maximum_likelihood_begins_at_the_machine() -> None:
    """Without iterations, the likelihood is that of the machine; it rises with them."""
    data = generated()
    machine = hm.RBM(hm.units.Gaussian(4), 3).double()
    machine.initialize(data.training.double(), seed=0)
    value = machine.log_probability(data.test.double()).mean().item()
    assert capacity.maximum_likelihood(machine, data, 0) == pytest.approx(value, abs=1e-9)
    assert capacity.maximum_likelihood(machine, data, 30) > value + 0.5


@pytest.mark.slow
def test_samplers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(samplers, "load", generated)
    experiments.reproduce("gaussian/samplers", "quick", tmp_path / "out", data="olivetti", seeds=2, seconds=0.1)
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text(encoding="utf-8"))
    assert len(verdict["claims"]) == len(samplers.PHASES) - 1


@pytest.mark.slow
def test_rows_of_every_data_set() -> None:
    for name, pixels in {"frey": 560, "olivetti": 256, "mnist": 784, "patches": 64}.items():
        try:
            found = rows.load(name)
        except hm.errors.DataNotFound:
            pytest.skip(f"the data set of {name} is not at hand")
        for part in (found.training, found.validation, found.test):
            assert part.shape[1] == pixels and bool(((part >= 0) & (part <= 1)).all())
            assert bool((part.var(0) > 1e-7).all())  # also pixels that are constant in the data

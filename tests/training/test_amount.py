"""The default amount of training is enough, and ``fit`` reports if the likelihood still rises."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium.errors import NotConverged
from harmonium.training import Clock, Schedule, Setting, plan
from harmonium.training.plan import default_epochs
from harmonium.training.rise import expected_gain


def bars_and_stripes() -> Tensor:
    """The 16 rows of 3×3 pixels, of which the empty and the full one occur twice."""
    lines = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)))
    bars = lines[:, :, None].expand(-1, 3, 3)
    return torch.cat([bars, bars.mT]).flatten(1)


def labeled_shifter() -> Tensor:
    """Four bits, the same bits shifted by -1, 0 or 1, and which shift it was: 48 equally frequent rows."""
    bits = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)))
    return torch.cat([torch.cat([bits, bits.roll(k - 1, 1), torch.eye(3)[k].expand(16, 3)], 1) for k in range(3)])


def ising() -> Tensor:
    """5000 states of the periodic 4×4 Ising model at β = 0.44, whose entropy is 4.50 nats."""
    spins = ((torch.arange(2**16)[:, None] >> torch.arange(16)) & 1).double().view(-1, 4, 4) * 2 - 1
    energy = (spins * (spins.roll(1, 1) + spins.roll(1, 2))).sum((1, 2))
    chosen = torch.multinomial(
        (0.44 * energy).softmax(0), 5000, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    return spins[chosen].flatten(1).float()


def clusters() -> Tensor:
    """1000 rows of three clusters in two dimensions."""
    source = torch.Generator().manual_seed(100)
    centers = 3 * torch.randn(3, 2, generator=source)
    return centers[torch.randint(3, (1000,), generator=source)] + 0.5 * torch.randn(1000, 2, generator=source)


def spin_machine() -> hm.RBM:
    return hm.RBM(hm.units.Spin(16), hm.units.Spin(10))


def gaussian_machine() -> hm.RBM:
    return hm.RBM(hm.units.Gaussian(2), hm.units.Bernoulli(8))


#: rows, machine, and the least log-likelihood per row: 0.1 nats below the optimum of exact gradients
GOALS = {
    "bars and stripes": (bars_and_stripes, lambda: hm.RBM(9, 8), -41.59 / 16 - 0.1),
    "labeled shifter": (labeled_shifter, lambda: hm.RBM(11, 10), -4.12),
    "ising": (ising, spin_machine, -4.63),
    "clusters": (clusters, gaussian_machine, -2.543 - 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", GOALS)
def test_defaults_reach_the_optimum(name: str, seed: int) -> None:
    rows, machine, least = GOALS[name]
    data, learner = rows(), machine()
    hm.fit(learner, data, seed=seed, progress=False)
    assert hm.likelihood.exact(learner).log_likelihood(data).value > least


@pytest.mark.slow
def test_repeated_rows_do_not_change_the_amount() -> None:
    data = bars_and_stripes()
    for times in 1, 100:
        learner = hm.RBM(9, 8)
        hm.fit(learner, data.repeat(times, 1), progress=False)
        assert 16 * hm.likelihood.exact(learner).log_likelihood(data).value > -41.7  # the bound is -41.59


def test_the_number_of_updates_depends_on_distinct_rows() -> None:
    rows = (torch.rand(60_000, 12, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    machine = hm.RBM(12, 2)

    def updates(data: object) -> int:
        source = hm.training.batches.as_rows(data)
        return default_epochs(source, machine, 100, len(source))[0] * math.ceil(len(source) / 100)

    unlike = rows + torch.arange(60_000)[:, None]
    assert updates(rows[:16]) == updates(rows[:16].repeat(100, 1)) == 4000
    assert updates(rows) == 4200  # at most 4096 distinct rows; 7 epochs are 4000 updates or more
    assert updates(unlike) == 6000
    assert updates(hm.Weighted(rows, torch.ones(60_000))) == 4200


def constant(clock: Clock) -> Setting:
    return Setting()


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("schedule", [constant, hm.Linear(0.5)])
def test_the_expected_gain_of_a_power_law(power: float, schedule: Schedule) -> None:
    epochs, time, history = 800, 0.0, []
    for n in range(1, epochs + 1):
        time += schedule(Clock(n, epochs, (n - 0.5) / epochs)).rate
        history.append({"epoch": n, "log_likelihood": -(time**-power)})
    true = time**-power - (2 * time) ** -power
    assert expected_gain(history, epochs, schedule) == pytest.approx(true, rel=0.3)


def test_the_likelihood_still_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_UPDATES", 300)
    data, learner = labeled_shifter(), hm.RBM(11, 10)
    with pytest.warns(NotConverged, match="still rising: another training of the same length would gain about"):
        first = hm.fit(learner, data, seed=0, progress=False)
    before = hm.likelihood.exact(learner).log_likelihood(data).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        hm.fit(learner, data, progress=False, seed=1)
    gain = hm.likelihood.exact(learner).log_likelihood(data).value - before
    assert first.expected_gain is not None
    assert gain / 3 < first.expected_gain < 3 * gain


@pytest.mark.slow
def test_a_finished_training_is_not_reported() -> None:
    data = torch.tensor([[1.0, 1, 0], [0, 0, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        result = hm.fit(hm.RBM(3, 2), data, progress=False)
    assert result.expected_gain is not None and 0 <= result.expected_gain < 0.05
    assert result.history[19]["log_likelihood"] < result.history[-1]["log_likelihood"] <= -math.log(2)

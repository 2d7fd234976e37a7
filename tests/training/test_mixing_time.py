"""The callback that measures whether training is in equilibrium."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm


def watched(negative: hm.training.NegativePhase, rate: float, epochs: int = 3, **options: int) -> tuple[str, list]:
    data = hm.data.load("digits", binarize="threshold")
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(16))
    callback = hm.MixingTime(sweeps=300, **options)
    result = hm.fit(
        rbm,
        data,
        negative=negative,
        epochs=epochs,
        optimizer=lambda p: torch.optim.SGD(p, lr=rate),
        callbacks=[callback],
        seed=0,
        progress=False,
    )
    return callback.verdict, result.history


@pytest.mark.slow
def test_a_slow_learner_is_in_equilibrium():
    verdict, history = watched(hm.PCD(10), 0.01)
    assert verdict.startswith("in equilibrium")
    assert all(math.isfinite(row["mixing_time"]) and row["chain_drift"] < 5 for row in history)


def test_a_machine_whose_chains_never_cross_is_not():
    """Two modes, all ones and all zeros, that contrastive divergence starts in and never leaves."""
    rbm = hm.RBM(10, 2)
    with torch.no_grad():
        rbm.coupling.weight.fill_(4.0)
        rbm.visible.bias.fill_(-4.0)
        rbm.hidden.bias.fill_(-20.0)
    rows = torch.tensor([[0.0], [1.0]]).repeat(100, 10)
    callback = hm.MixingTime(sweeps=300)
    result = hm.fit(
        rbm,
        rows,
        negative=hm.CD(1),
        epochs=1,
        learning_rate=1e-6,
        callbacks=[callback],
        initialize="keep",
        seed=0,
        progress=False,
    )
    assert callback.verdict.startswith("out of equilibrium")
    assert math.isinf(result.history[-1]["mixing_time"])


@pytest.mark.slow
def test_the_mixing_time_grows_with_learning():
    _, history = watched(hm.PCD(1), 0.5, epochs=10)
    assert history[-1]["mixing_time"] > 2 * history[0]["mixing_time"]


@pytest.mark.slow
def test_it_measures_on_its_schedule_and_does_not_disturb_training():
    _, history = watched(hm.PCD(1), 0.1, epochs=5, every=2)
    assert ["mixing_time" in row for row in history] == [False, True, False, True, True]
    _, other = watched(hm.PCD(1), 0.1, epochs=5, every=5)
    assert history[-1]["pseudo_likelihood"] == other[-1]["pseudo_likelihood"]


def test_a_phase_without_chains_says_so():
    data = hm.data.load("digits", binarize="threshold")[:, :10]
    rbm = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(4))
    callback = hm.MixingTime(sweeps=100)
    hm.fit(rbm, data, negative=hm.Exact(), epochs=1, callbacks=[callback], seed=0, progress=False)
    assert callback.verdict.startswith(("in equilibrium", "unknown"))


def test_options_are_checked():
    with pytest.raises(hm.errors.InvalidOption):
        hm.MixingTime(sweeps=1)

"""Figures 10 and 11 of Tramel et al. (2018) on small settings, and their parts."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from experiments import Record
from experiments.tap import fig10, fig11
from harmonium.likelihood import Weights
from harmonium.likelihood.annealing import from_weights


def record(tmp_path, name: str = "tap/fig") -> Record:
    return Record(name, "quick", tmp_path / "record")


# -- claims ---------------------------------------------------------------------------------------------------------


def ends(noise: float = 1.0, **end: float) -> tuple[dict[fig10.Method, np.ndarray], dict[fig10.Method, np.ndarray]]:
    """The pseudo-likelihood of 100 rows by each method, before and after training."""
    values = {f"{name}{k}": -100.0 for name, k in fig10.METHODS} | end
    draw = np.random.default_rng(0)
    rows = 10 * draw.normal(size=100)  # some are harder than others
    start = {method: -200 + rows for method in fig10.METHODS}
    return start, {(name, k): values[f"{name}{k}"] + rows + noise * draw.normal(size=100) for name, k in fig10.METHODS}


@pytest.mark.parametrize(
    ("end", "holds"),
    [
        ({"adatap3": -120.0}, [True, True]),
        ({}, [True, False]),
        ({"adatap3": -105.0}, [True, False]),  # worse, but by less than the margin
        ({"adatap3": -120.0, "tap3": -115.0}, [False, False]),
        ({"adatap3": -150.0, "tap3": -115.0}, [False, True]),
        ({"adatap3": -math.inf}, [True, True]),
        ({"tap3": -math.inf}, [False, False]),
        ({f"{name}{k}": -200.0 for name, k in fig10.METHODS}, [None, None]),
        ({"adatap3": -110.0, "tap3": -110.0}, [None, False]),
    ],
)
def test_claims_about_training(tmp_path, end, holds):
    start, last = ends(**end)
    assert [fig10.judge_comparable(start, last), fig10.judge_poorer(start, last)] == holds
    for difference in ("", "a smaller machine"):
        kept = Record("tap/fig10", "quick", tmp_path / f"record {difference}")
        fig10._claim_training(kept, start, last, difference)
        found = [None if verdict is False and difference else verdict for verdict in holds]
        assert [claim.holds for claim in kept.claims] == found


def test_training_with_noise_is_open():
    start, last = ends(noise=100.0, adatap3=-115.0)
    assert fig10.judge_poorer(start, last) is None


def test_claims_about_times():
    def times(factor: float, spread: float = 0.01) -> list[float]:
        return [factor * (1 + spread * k) for k in range(-2, 3)]

    found = [fig10.judge_orders(fig10.orders(times(factor), times(1e-3))) for factor in (0.8, 0.05, 0.32)]
    assert found == [True, False, None]
    # the inverses are the cause if they alone take as long, for any growth of the time with the batch
    found = [fig10.judge_cause(fig10.orders(times(factor), times(1e-3))) for factor in (0.8, 0.05, 0.32)]
    assert found == [True, False, None]
    assert fig10.judge_orders(fig10.orders(times(10.0), times(1e-3))) is False
    assert fig10.judge_cause(fig10.orders(times(10.0), times(1e-3))) is True


def test_deep_weights_that_stay_small():
    assert fig11.judge_small([0.10, 0.11, 0.10], [0.9, 1.0, 0.9]) is True
    assert fig11.judge_small([0.80, 0.81, 0.80], [0.9, 1.0, 0.9]) is False
    assert fig11.judge_small([0.1, 0.6, 0.2], [0.9, 1.0, 0.9]) is None
    assert fig11.judge_small([0.1], [0.9]) is None  # one seed


def found(low: float, high: float, problems: tuple[str, ...] = ()) -> hm.likelihood.LogLikelihood:
    """Estimates of both directions whose mean log-likelihoods are ``low`` and ``high``."""
    machine = hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(2))
    weights = Weights(0.01 * torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    free = machine.free_energy(torch.zeros(1, 2)).item()
    forward = from_weights(machine, weights, -free - high)
    reverse = from_weights(machine, weights, -free - low, reverse=True)
    log_z = hm.likelihood.LogPartition(
        machine=machine,
        value=(forward.value + reverse.value) / 2,
        standard_error=0.0,
        interval=(forward.interval[0], reverse.interval[1]),
        method="both directions",
        problems=problems,
        details={"forward": forward, "reverse": reverse, "round_trips": 100},
    )
    return log_z.log_likelihood(torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("machine", "holds"),
    [
        (found(-100.2, -100.0), [True, True]),
        (found(-105.4, -105.0), [True, None]),  # better than the first, the second is within the error
        (found(-106.0, -105.9), [True, False]),
        (found(-110.0, -109.9), [False, False]),
        (found(-100.2, -100.0, ("the samples have not mixed",)), [None, None]),
    ],
)
def test_claims_about_the_deep_machine(tmp_path, machine, holds):
    kept = record(tmp_path)
    machines = {"RBM": found(-107.0, -106.9), "RBM, more": found(-105.2, -105.1), "deep": machine}
    fig11._claims(kept, fig11.CONTEST["quick"], machines)
    assert [claim.holds for claim in kept.claims] == holds


# -- end to end -----------------------------------------------------------------------------------------------------


def left_behind(kept: Record, figure: str, tables: dict[str, int]) -> None:
    kept.close()
    check_left_behind(kept, figure)
    for name, rows in tables.items():
        with (kept.folder / f"{name}.csv").open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == rows


@pytest.mark.slow
def test_figure_10(tmp_path):
    kept = record(tmp_path)
    fig10.run(kept, "quick", data="digits", rows=100, hidden=4, starts=5, epochs=2, timed_hidden=6)
    left_behind(kept, "fig10", {"pseudo_likelihood": 6 * 3, "seconds": 9 * 5})
    assert [claim.holds for claim in kept.claims[2:]] == [None, None]  # times of other sizes than those of the paper


@pytest.mark.slow
def test_figure_11(tmp_path):
    kept = record(tmp_path)
    fig11.run(
        kept, "quick", data="digits", rows=200, hidden="6,4,3", epochs=2, pretraining=2, betas=50
    )  # fmt: skip
    left_behind(kept, "fig11", {"tap_log_likelihood": 2 * 3, "contest": 3})
    assert len(kept.claims) == 5


def test_wrong_options(tmp_path):
    with pytest.raises(hm.errors.InvalidOption, match="times"):
        fig10.run(record(tmp_path), "quick", data="digits", part="all")
    for options, words in (({"part": "all"}, "contest"), ({"hidden": "many"}, "'50,100'")):
        with pytest.raises(hm.errors.InvalidOption, match=words):
            fig11.run(record(tmp_path), "quick", data="digits", **options)

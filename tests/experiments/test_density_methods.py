"""Ways to train at equal CPU time: every way stops in time, and verdicts need a gain beyond the error of the seeds."""

from __future__ import annotations

import json
import time

import pytest

import experiments
from experiments.density import methods
from experiments.density.settings import BERNOULLI, Settings
from harmonium.training.schedules import Clock

from .test_density import rows_of_a_machine

SECONDS = 0.15


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(methods, "load", rows_of_a_machine)
    monkeypatch.setattr(methods, "SETS", (("nltcs", BERNOULLI, 3),))
    monkeypatch.setattr(methods, "_warm_up", lambda: None)


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")  # the trainings are short
@pytest.mark.parametrize("name", methods.WAYS)
def test_every_way_stops_in_time(name):
    began = time.process_time()
    machine, facts = methods.train(rows_of_a_machine(), Settings(3), methods.WAYS[name], SECONDS, 0)
    assert SECONDS <= time.process_time() - began < SECONDS + 2  # the last epoch and the set-up come on top
    assert facts["updates"] > 0 and bool(machine.coupling.weight.isfinite().all())


def test_the_rate_follows_the_time(monkeypatch):
    seconds = iter([0.0, 1.0, 5.0, 7.5, 20.0])
    monkeypatch.setattr(methods.time, "process_time", lambda: next(seconds))
    decay = methods.TimedDecay(methods.CPUTime(10.0))
    assert [decay(Clock(1, 1, 0.0)).rate for _ in range(4)] == [1.0, 1.0, 0.5, 0.0]


def test_a_way_is_better_only_beyond_the_error(small, tmp_path, monkeypatch):
    gains = {"parallel tempering": (0.5, 0.01), "trajectory tempering": (0.1, 1.0), "PCD-5": (-0.5, 0.01)}
    used = []

    def score(folder, rows, settings, name, seconds, seed):
        gain, spread = gains.get(name, (0.0, 0.0))
        used.append((name, seed, settings.learning_rate))
        value = gain + spread * seed - abs(settings.learning_rate - 0.1)
        return value, {"seconds": seconds, "updates": 1, "sweeps": []}

    monkeypatch.setattr(methods, "measured", score)
    monkeypatch.setattr(methods, "_NEEDED", 1)
    record = experiments.reproduce("density/methods", "quick", tmp_path / "a")
    verdicts = {claim.claimed.partition(":")[0]: claim.holds for claim in record.claims}
    assert verdicts["parallel tempering"] is True and verdicts["PCD-5"] is False
    assert verdicts["trajectory tempering"] is None
    assert {rate for name, seed, rate in used if seed > 0 and methods.WAYS[name].rates == methods.RATES} == {0.1}


def test_trainings_are_kept(small, tmp_path, monkeypatch):
    given = (tmp_path, rows_of_a_machine(), Settings(3), methods.REFERENCE, SECONDS, 0)
    found, facts = methods.measured(*given)
    (place,) = tmp_path.iterdir()
    assert json.loads(place.read_text(encoding="utf-8")) == facts and found < 0
    monkeypatch.setattr(methods, "train", lambda *_: pytest.fail("trained again"))
    assert methods.measured(*given) == (found, facts)

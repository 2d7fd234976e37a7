"""Errors and three-valued verdicts of the experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments import Record
from experiments.judging import (
    ALWAYS,
    IF_TRUE,
    NEVER,
    PERCENT_99,
    THREE_SIGMA,
    Measured,
    bootstrap,
    claim,
    every,
    jackknife,
    mean,
    share_above,
    some,
    unlikely,
)


def test_a_quantity_without_error_is_exact():
    assert (Measured(1.0).above(0.9), Measured(1.0).above(1.1), Measured(1.0).above(1.0)) == (True, False, None)


def test_few_degrees_of_freedom_widen_the_interval():
    assert Measured(1.0, 0.2).above(0.4) is True
    assert Measured(1.0, 0.2, dof=2).above(0.4) is None


@pytest.mark.parametrize("broken", [Measured(math.nan), Measured(1.0, math.nan), Measured(1.0, math.inf)])
def test_what_is_not_finite_is_open(broken):
    assert (broken.above(0), broken.below(0), broken.within(1)) == (None, None, None)


def test_nothing_measured_is_open():
    assert mean([]).above(0) is None
    assert mean([1.0]).above(0) is None
    assert jackknife(1.0, [1.0]).above(0) is None
    assert bootstrap(np.mean, np.ones(1)).above(0) is None
    assert bootstrap(np.mean, np.empty(0)).above(0) is None


@pytest.mark.parametrize(("value", "holds"), [(0.0, True), (0.2, False), (-0.2, False), (0.1, None)])
def test_within_is_two_sided(value, holds):
    assert Measured(value, 0.01).within(0.1) is holds


def test_errors_agree_with_the_known_one_of_a_mean():
    values = np.random.default_rng(0).normal(size=300)
    known = values.std(ddof=1) / math.sqrt(300)
    assert mean(values).error == pytest.approx(known)
    assert jackknife(values.mean(), [np.delete(values, k).mean() for k in range(300)]).error == pytest.approx(known)
    assert bootstrap(np.mean, values).error == pytest.approx(known, rel=0.15)


def test_all_and_some():
    table = {(True, True): (True, True), (True, False): (False, True), (True, None): (None, True),
             (False, None): (False, None), (None, None): (None, None)}  # fmt: skip
    for verdicts, expected in table.items():
        assert (every(verdicts), some(verdicts)) == expected
        assert (every(verdicts[::-1]), some(verdicts[::-1])) == expected


def test_levels():
    """Three standard errors are stricter than the 99 % interval, unless there are few degrees of freedom."""
    between = Measured(2.8, 1.0)
    assert (between.above(0, PERCENT_99), between.above(0, THREE_SIGMA)) == (True, None)
    few = Measured(3.5, 1.0, dof=4)
    assert (few.above(0, PERCENT_99), few.above(0, THREE_SIGMA)) == (None, True)
    assert (unlikely(0.003, True, PERCENT_99), unlikely(0.003, True, THREE_SIGMA)) == (True, None)
    assert (share_above(9, 15, 0.27, PERCENT_99), share_above(9, 15, 0.27, THREE_SIGMA)) == (True, None)


@pytest.mark.parametrize(
    ("stands", "expected"),
    [(NEVER, [None, None, None]), (IF_TRUE, [True, None, None]), (ALWAYS, [True, False, None])],
)
def test_settings_that_differ(stands, expected, tmp_path):
    record = Record("x", "quick", tmp_path)
    found = [claim(record, "a claim", "a number", holds, "fewer updates", stands) for holds in (True, False, None)]
    assert found == expected == [part.holds for part in record.claims]
    assert [part.holds is None for part in record.claims] == [
        "fewer updates" in part.measured for part in record.claims
    ]
    assert claim(record, "a claim", "a number", False, "", stands) is False

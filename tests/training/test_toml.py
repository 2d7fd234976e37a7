"""Written TOML is read back by the reader of the standard library."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonium.training import toml

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
keys = st.one_of(st.text("abc-_0", min_size=1, max_size=5), text)
numbers = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
plain = st.one_of(numbers, text)
values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys, values, max_size=5))
def test_round_trip(config: dict[str, Any]) -> None:
    assert_equal(tomllib.loads(toml.dumps(config)), config)


def assert_equal(found: Any, expected: Any) -> None:
    """Equal, and of equal types: True is not 1, 1.0 is not 1."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_equal(a, b)
    else:
        assert found == expected
        if isinstance(expected, float):
            assert math.copysign(1, found) == math.copysign(1, expected)


def test_none_is_left_out() -> None:
    config = {"a": None, "b": {"c": None, "d": 1}, "e": [{"f": None, "g": 2}], "h": [{"i": [{"j": None, "k": 3}]}]}
    expected = {"b": {"d": 1}, "e": [{"g": 2}], "h": [{"i": [{"k": 3}]}]}
    assert tomllib.loads(toml.dumps(config)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (float("inf"), math.inf),
        (-math.inf, -math.inf),
        (1e-05, 1e-05),
        (1e300, 1e300),
        ((1, 2), [1, 2]),
        ('tab\t "quoted" \\ line\nend \x7f \x00 é', 'tab\t "quoted" \\ line\nend \x7f \x00 é'),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    assert_equal(tomllib.loads(toml.dumps({"x": value})), {"x": expected})


def test_nan() -> None:
    assert math.isnan(tomllib.loads(toml.dumps({"x": math.nan}))["x"])

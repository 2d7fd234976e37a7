"""A unit type defined by a user: what is missing is named."""

from __future__ import annotations

import pytest

import harmonium as hm


def test_a_unit_without_its_values() -> None:
    class Nothing(hm.units.Unit, named=False):
        def log_weight(self, x):
            return self.bias * x

    with pytest.raises(hm.errors.InvalidOption, match=r"Nothing: expected a class attribute 'support' .* found none"):
        Nothing(2)

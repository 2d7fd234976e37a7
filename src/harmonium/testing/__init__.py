"""Conformance checks for units, couplings and negative phases, also those defined outside this package.

>>> import harmonium as hm
>>> hm.testing.check_coupling(hm.couplings.Dense(3, 2))

A failed check raises ``AssertionError`` with its name, the expected and the actual value.
"""

from ..guard import guard
from .couplings import check_coupling
from .phases import check_negative_phase
from .units import check_unit

__all__ = ["check_coupling", "check_negative_phase", "check_unit"]

guard(globals())

"""Conformance checks of a unit: its functions are consistent with each other and with sums over the support."""

from .conformance import check_unit

__all__ = ["check_unit"]

"""Stable solutions of the mean-field equations of a machine, and their number during training."""

from ..guard import guard
from .solutions import Growth, Landscape, find_solutions, growth

__all__ = [
    "Growth",
    "Landscape",
    "find_solutions",
    "growth",
]

guard(globals())

"""The solutions of the mean-field equations of a machine: how many there are, and how they appear during training."""

from .solutions import Growth, Landscape, find_solutions, growth

__all__ = [
    "Growth",
    "Landscape",
    "find_solutions",
    "growth",
]

"""Mean-field methods: fixed points of approximate free energies, computed from many starts in parallel."""

from ..guard import guard
from .adaptive import adatap
from .chain import naive, tap
from .conditional import hidden_given, hidden_means, reconstruct
from .messages import bp
from .solutions import Solutions
from .spectral_radius import Stability, stability
from .variational import free_energy

__all__ = [
    "Solutions",
    "Stability",
    "adatap",
    "bp",
    "free_energy",
    "hidden_given",
    "hidden_means",
    "naive",
    "reconstruct",
    "stability",
    "tap",
]

guard(globals())

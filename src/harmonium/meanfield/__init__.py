"""Mean field: fixed points of approximate free energies, each from many starts at once."""

from .adaptive import adatap
from .chain import naive, tap
from .evaluation import free_energy
from .messages import bp
from .solutions import Solutions
from .spectral_radius import Stability, stability

__all__ = ["Solutions", "Stability", "adatap", "bp", "free_energy", "naive", "stability", "tap"]

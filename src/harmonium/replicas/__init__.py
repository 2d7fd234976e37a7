"""The replica mean field of ensembles of machines: saddle points and phase diagrams (Decelle et al. 2018)."""

from .ensemble import Ensemble
from .phases import PhaseDiagram, phase_diagram
from .thermodynamics import SaddlePoint, response, saddle_point, saddle_points

__all__ = [
    "Ensemble",
    "PhaseDiagram",
    "SaddlePoint",
    "phase_diagram",
    "response",
    "saddle_point",
    "saddle_points",
]

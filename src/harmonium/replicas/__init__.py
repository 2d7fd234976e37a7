"""Replica-symmetric theory of random RBMs: saddle points and phase diagrams.

Decelle, Fissore & Furtlehner (2017); Decelle, Fissore & Furtlehner (2018).
"""

from ..guard import guard
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

guard(globals())

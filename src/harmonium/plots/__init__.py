"""One function for each picture. All take data and an optional ``ax``, and return the figure; nothing is global.

>>> import torch
>>> figure = tiles(torch.rand(6, 8, 8), columns=3)
>>> len(figure.axes)
1
"""

from .activity import hidden_activity, weight_histogram
from .curves import METRICS, learning_curve, learning_curves
from .machine import receptive_fields, reconstructions, samples
from .mosaic import diverging, mosaic, tiles

__all__ = [
    "METRICS",
    "diverging",
    "hidden_activity",
    "learning_curve",
    "learning_curves",
    "mosaic",
    "receptive_fields",
    "reconstructions",
    "samples",
    "tiles",
    "weight_histogram",
]

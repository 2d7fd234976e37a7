"""Quality of samples compared with data, as numbers with standard errors. Figures are in ``harmonium.plots``.

>>> import torch
>>> data = torch.rand(400, 6, generator=torch.Generator().manual_seed(0)).round()
>>> compare(data[:200], data[200:]).table()[0].ideal
0.5
"""

from ..guard import guard
from .comparison import QualityRow, SampleComparison, compare
from .distinct import Novelty, novelty
from .entropies import Entropy, entropy, site_entropy, state_entropy
from .nearest import NeighborAccuracy, nearest_neighbor_accuracy
from .pair_correlations import Correlations, correlations
from .principal_axes import Principal, principal
from .replica_overlaps import overlaps

__all__ = [
    "Correlations",
    "Entropy",
    "NeighborAccuracy",
    "Novelty",
    "Principal",
    "QualityRow",
    "SampleComparison",
    "compare",
    "correlations",
    "entropy",
    "nearest_neighbor_accuracy",
    "novelty",
    "overlaps",
    "principal",
    "site_entropy",
    "state_entropy",
]

guard(globals())

"""Singular values of the weights, the Marchenko–Pastur edge, and the linear theory of learning.

Decelle, Fissore & Furtlehner (2017); Decelle, Fissore & Furtlehner (2018).

>>> import harmonium as hm
>>> rbm = hm.RBM(6, 3)
>>> rbm.initialize(scale=1.0, seed=0)
>>> spectrum(rbm).values.shape
torch.Size([3])
"""

from ..guard import guard
from .dynamics import Kinematics, LinearTheory, drive, empirical_term, kinematics, mean_slope
from .marchenko_pastur import MarchenkoPastur
from .singular_values import DataModes, SpectralHistory, Spectrum, data_modes, spectral_history, spectrum

__all__ = [
    "DataModes",
    "Kinematics",
    "LinearTheory",
    "MarchenkoPastur",
    "SpectralHistory",
    "Spectrum",
    "data_modes",
    "drive",
    "empirical_term",
    "kinematics",
    "mean_slope",
    "spectral_history",
    "spectrum",
]

guard(globals())

"""Machines: chains of layers with couplings between neighbors."""

from .chain import BoltzmannMachine
from .convolutions import convolutional, feature_maps
from .deep import DeepBoltzmannMachine
from .rbm import RBM

__all__ = ["RBM", "BoltzmannMachine", "DeepBoltzmannMachine", "convolutional", "feature_maps"]

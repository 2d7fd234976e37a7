"""Machines: chains of layers with couplings between neighbors, and stacks of machines."""

from ..guard import guard
from .belief import DeepBeliefNetwork
from .chain import BoltzmannMachine
from .conditional import ConditionalRBM, GivenRBM
from .convolutions import convolutional, feature_maps
from .deep import DeepBoltzmannMachine
from .label import Label
from .rbm import RBM

__all__ = [
    "RBM",
    "BoltzmannMachine",
    "ConditionalRBM",
    "DeepBeliefNetwork",
    "DeepBoltzmannMachine",
    "GivenRBM",
    "Label",
    "Machine",
    "convolutional",
    "feature_maps",
]

#: a chain of layers, or a stack of machines
Machine = BoltzmannMachine | DeepBeliefNetwork

guard(globals())

"""Machines: chains of layers with couplings between neighbors."""

from .chain import BoltzmannMachine
from .deep import DeepBoltzmannMachine
from .rbm import RBM

__all__ = ["RBM", "BoltzmannMachine", "DeepBoltzmannMachine"]

"""Couplings between neighboring layers. All other code uses the weights W only through this interface."""

from ..guard import guard
from .base import Coupling
from .conv2d import Conv2d
from .dense import Dense
from .masked import Masked

__all__ = ["Conv2d", "Coupling", "Dense", "Masked"]

guard(globals(), methods=False)

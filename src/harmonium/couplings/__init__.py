"""Couplings between neighboring layers. Nothing else in the library knows what W is."""

from .base import Coupling
from .conv2d import Conv2d
from .dense import Dense
from .masked import Masked

__all__ = ["Conv2d", "Coupling", "Dense", "Masked"]

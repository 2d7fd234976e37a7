"""Initial weights by name: ``normal:0.01``, ``sign``, ``modes``; what they are is in ``machine.initialize``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..couplings.base import check_scale


@dataclass(frozen=True)
class Initial:
    """Random weights of a scale; biases match the means of the data, with a pseudocount for rare values."""

    scale: float | None = None
    pseudocount: float | None = None
    weights: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            check_scale(self.scale)

    def apply(self, machine: Any, rows: Any, generator: Any) -> None:
        """Set the parameters of a machine from some rows of its data."""
        if self.weights is not None:
            options = {"weights": self.weights, "scale": self.scale, "pseudocount": self.pseudocount}
            machine.initialize(rows, seed=generator, **options)


@dataclass(frozen=True)
class Normal(Initial):
    """Independent normal weights, by default with the standard deviation 0.01 for standardized units."""

    weights: ClassVar[str] = "normal"


@dataclass(frozen=True)
class Sign(Initial):
    """Weights of random sign and equal size, by default √(0.1/N) for N lower units (Bulso & Roudi 2021)."""

    weights: ClassVar[str] = "sign"


@dataclass(frozen=True)
class Modes(Initial):
    """Random combinations of the principal modes of the data; the inputs to hidden units have the size ``scale``."""

    weights: ClassVar[str] = "modes"


@dataclass(frozen=True)
class Keep(Initial):
    """The parameters that the machine has."""


#: initial weights by their names in files and on the command line
INITIAL = {"normal": Normal, "sign": Sign, "modes": Modes, "keep": Keep}


def has_weights(machine: Any) -> bool:
    """Return whether a weight of a machine is not zero, so that its parameters are kept by default.

    >>> import harmonium as hm
    >>> has_weights(hm.RBM(3, 2))
    False
    """
    couplings = (*machine.couplings, *machine.context_couplings.values())
    return any(bool(coupling.weight.any()) for coupling in couplings)

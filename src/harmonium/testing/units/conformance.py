"""All checks of a unit."""

from __future__ import annotations

import torch

from ...units import Unit
from .layers import LAYER
from .mathematics import MATHEMATICS
from .trial import Trial


def check_unit(unit: Unit, *, seed: int = 0) -> None:
    """Check that an instance of :class:`~harmonium.units.Unit` fulfills the contract.

    Compares ``log_partition``, ``mean``, ``variance``, ``moments`` and samples with sums or quadrature of
    e^{log_weight} over the support and with finite differences, in float64. Also checks shapes and types, the in-place
    forms, errors for data outside the support, ``initialize_from``, files, and that a small RBM with this unit learns.
    The unit itself is not changed. Use nonzero parameters that differ between the units of the layer: then the checks
    find functions that ignore them.

    Args:
        unit: a layer of a few units. A mixed layer is checked as a whole and part by part.
        seed: seed of the draws and of the random fields.

    Raises:
        AssertionError: with the name of the check, the expected and the actual value.

    >>> from harmonium.units import Spin
    >>> check_unit(Spin(2, bias=torch.tensor([0.3, -0.5])))
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in unit.parts:
            trial = Trial.of(part)
            for check in MATHEMATICS:
                check(trial)
        trial = Trial.of(unit)
        for check in LAYER:
            check(trial)

"""Observed visible units and their values. (A context, which changes the biases, is in ``conditional.py``.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..errors import InvalidData, InvalidOption
from ..units import Unit

if TYPE_CHECKING:
    from .chain import BoltzmannMachine


@dataclass(frozen=True)
class Given:
    """Values (rows, *visible) of visible units, meaningful where ``mask`` (rows, *visible) is ``True``."""

    values: Tensor
    mask: Tensor

    @staticmethod
    def checked(machine: BoltzmannMachine, values: Any, mask: Any = None) -> Given | None:
        """Check the arguments ``given`` and ``mask`` of :meth:`BoltzmannMachine.sample`; ``None`` if not given."""
        if values is None:
            if mask is not None:
                raise InvalidOption("mask: expected the values of the observed units in given=…, found None")
            return None
        rows = machine.converted(values, missing=True)
        if len(rows) == 0:
            raise InvalidData("given: expected at least one row, found none")
        if mask is None:
            seen = ~torch.isnan(rows)
        else:
            seen = as_tensor(mask, "mask").to(rows.device)
            if seen.dtype != torch.bool or seen.shape not in (rows.shape, rows.shape[1:]):
                raise InvalidOption(
                    f"mask: expected booleans of shape {tuple(rows.shape[1:])} or {tuple(rows.shape)}, "
                    f"found {seen.dtype} of shape {tuple(seen.shape)}"
                )
        seen = seen.expand(rows.shape)
        check_whole_units(machine.visible, seen)
        return Given(rows, seen)

    def __len__(self) -> int:
        return len(self.values)

    def cycled(self, n: int) -> Given:
        """The rows, repeated or cut to ``n`` rows."""
        row = torch.arange(n, device=self.values.device) % len(self)
        return Given(self.values[row], self.mask[row])

    def fill(self, x: Tensor) -> Tensor:
        """States ``x`` (rows, *visible) with the observed units set to their values."""
        return torch.where(self.mask, self.values, x)


def check_whole_units(layer: Unit, mask: Tensor) -> None:
    """Raise :class:`InvalidOption` if ``mask`` (n, *shape) covers only some components of a vector unit.

    >>> from harmonium.units import Potts
    >>> check_whole_units(Potts((2, 3)), torch.tensor([[[True, True, True], [False, False, True]]]))
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: mask: expected all components of a unit or none, found 1 of 3 of unit 1 in row 0
    """
    parts = list(layer.parts)
    first = 0
    for part, entries in zip(parts, mask.flatten(1).split([part.size for part in parts], 1), strict=True):
        units = entries.reshape(len(mask), part.sites, -1)  # scalar units have one component
        torn = units.any(2) & ~units.all(2)
        if bool(torn.any()):
            row, unit = torch.nonzero(torn)[0].tolist()
            raise InvalidOption(
                f"mask: expected all components of a unit or none, found {int(units[row, unit].sum())} of "
                f"{units.shape[2]} of unit {first + unit} in row {row}"
            )
        first += part.sites

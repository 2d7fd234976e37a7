"""Layers of several unit types, such as pixels and a label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..errors import InvalidOption
from .base import Tail, Unit
from .support import Support


@dataclass(frozen=True)
class Parts(Support):
    """The supports of the parts, each for its slice of the last dimension."""

    units: tuple[Unit, ...] = ()

    @property
    def bounded(self) -> bool:
        return all(unit.support.bounded for unit in self.units)

    def check(self, x: Tensor, what: str = "data") -> None:
        for k, (unit, part) in enumerate(zip(self.units, split_parts(self.units, x), strict=True)):
            unit.support.check(part, f"{what}, part {k} ({unit.name()})")


class Mixed(Unit):
    """Several layers concatenated into one flat layer of shape (sum of the sizes,).

    Used for rows with parts of several kinds, such as pixels and a label, or the columns of a table.

    >>> from harmonium.units import Bernoulli, Potts
    >>> pixels_and_label = Mixed(Bernoulli(64), Potts((1, 10)))
    >>> pixels_and_label.shape
    torch.Size([74])
    """

    support: Support = Parts("units of several kinds")

    def __init__(self, *units: Unit) -> None:
        if not units:
            raise InvalidOption("mixed: expected at least one layer, found none")
        nn.Module.__init__(self)
        self.units = nn.ModuleList(units)
        self.shape = torch.Size((sum(unit.size for unit in units),))
        self.learn = ()
        self.options = {}
        self.support = Parts(" and ".join(unit.support.description for unit in units), units)

    # -- the layers that make up this one -------------------------------------------------------------------------

    @property
    def _members(self) -> list[Unit]:
        return list(self.units)  # type: ignore[arg-type]

    @property
    def parts(self) -> list[Unit]:
        return [part for unit in self._members for part in unit.parts]

    @property
    def members(self) -> list[Unit]:
        return [member for unit in self._members for member in unit.members]

    def by_member(self, x: Tensor) -> list[tuple[Unit, Tensor]]:
        members = self.members
        return list(zip(members, split_parts(members, x), strict=True))

    def by_bias(self, change: Tensor) -> list[Tensor]:
        pairs = self.by_member(change.expand(self.shape).unsqueeze(0))
        return [member.shared_mean(piece[0]) for member, piece in pairs]

    def bias_sums(self, total: Tensor) -> list[Tensor]:
        return [member.shared_sum(piece[0]) for member, piece in self.by_member(total.unsqueeze(0))]

    def from_biases(self, values: Sequence[Tensor]) -> Tensor:
        pairs = zip(self.members, values, strict=True)
        return torch.cat([member.from_biases([value]).flatten() for member, value in pairs])

    def split(self, x: Tensor) -> list[Tensor]:
        return split_parts(self.parts, x)

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        flat = [x.reshape(*x.shape[: x.ndim - len(part.shape)], -1) for part, x in zip(self.parts, pieces, strict=True)]
        return torch.cat(flat, -1)

    def with_parts(self, parts: Sequence[Unit]) -> Unit:
        return Mixed(*parts)

    def in_field(self, B: Tensor) -> Unit:
        pieces = zip(self._members, split_parts(self._members, B), strict=True)
        return Mixed(*(unit.in_field(piece) for unit, piece in pieces))

    @property
    def sites(self) -> int:
        return sum(unit.sites for unit in self._members)

    def config(self) -> dict[str, Any]:
        return {"unit": self.name(), "parts": [unit.config() for unit in self._members]}

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Mixed:
        return cls(*(Unit.from_config(part) for part in config["parts"]))

    def extra_repr(self) -> str:
        return ""

    # -- each function, part by part ------------------------------------------------------------------------------

    @property
    def bias(self) -> Tensor:  # type: ignore[override]
        """The concatenated biases of the parts: (size,)."""
        return torch.cat([unit.full(unit.bias).flatten() for unit in self._members])

    def biases(self) -> list[nn.Parameter]:
        return [bias for unit in self._members for bias in unit.biases()]

    def tail(self) -> Tail:
        return Tail.join(unit.tail() for unit in self._members)

    @property
    def conserves(self) -> bool:
        return any(unit.conserves for unit in self._members)

    def conserving(self, x: Tensor) -> Mixed:
        pieces = zip(self._members, split_parts(self._members, x), strict=True)
        fixed = [unit.conserving(piece) for unit, piece in pieces]
        return self if all(a is b for a, b in zip(fixed, self._members, strict=True)) else Mixed(*fixed)

    def log_weight(self, x: Tensor) -> Tensor:
        return self._each(lambda unit, part: unit.log_weight(part), x)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._each(lambda unit, b, a: unit.log_partition(b, a), B, A)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._each(lambda unit, b, a: unit.mean(b, a), B, A)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._each(lambda unit, b, a: unit.variance(b, a), B, A)

    def mode(self, B: Tensor) -> Tensor:
        return self._each(lambda unit, b: unit.mode(b), B)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return self._each(lambda unit, b, a: unit.sample(b, generator=generator, A=a), B, A)

    def cumulant(self, n: int) -> Tensor:
        return torch.cat([unit.cumulant(n).flatten() for unit in self._members])

    def become_visible(self) -> None:
        for unit in self._members:
            unit.become_visible()

    def natural(self) -> dict[str, Tensor]:
        return self._named([unit.natural() for unit in self._members])

    def with_natural(self, values: Mapping[str, Tensor]) -> Mixed:
        return Mixed(*(unit.with_natural(_part(values, k)) for k, unit in enumerate(self._members)))

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        parts = split_parts(self._members, x)
        return self._named([unit.statistics(part) for unit, part in zip(self._members, parts, strict=True)])

    def moments(self, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        parts = zip(self._members, *(self._split_or_none(value) for value in (B, A, mean)), strict=True)
        return self._named([unit.moments(b, a, m) for unit, b, a, m in parts])

    def gradients(self, totals: Mapping[str, Tensor]) -> dict[Tensor, Tensor]:
        parts = [unit.gradients(_part(totals, k)) for k, unit in enumerate(self._members)]
        return {parameter: value for part in parts for parameter, value in part.items()}

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Initialize each part from its own columns."""
        for unit, part in zip(self._members, split_parts(self._members, data), strict=True):
            unit.initialize_from(part, pseudocount)

    def initialize_given(self, data: Tensor, context: Tensor, pseudocount: float | None = None) -> Tensor:
        """Initialize each part from its own columns."""
        pieces = zip(self._members, split_parts(self._members, data), strict=True)
        weights = [unit.initialize_given(piece, context, pseudocount).flatten(1) for unit, piece in pieces]
        return torch.cat(weights, 1)

    def _each(self, function: Callable[..., Tensor], *values: Tensor | None) -> Tensor:
        """Apply ``function(unit, *slices)`` to every part and concatenate the results."""
        batch = values[0].shape[:-1]  # type: ignore[union-attr]
        parts = zip(self._members, *(self._split_or_none(value) for value in values), strict=True)
        return torch.cat([function(*part).reshape(*batch, -1) for part in parts], -1)

    def _split_or_none(self, value: Tensor | None) -> list[Any]:
        return [None] * len(self.units) if value is None else split_parts(self._members, value)

    def _named(self, parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        return {f"{k}.{name}": value for k, part in enumerate(parts) for name, value in part.items()}


def _part(values: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    prefix = f"{k}."
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def split_parts(units: Any, x: Tensor) -> list[Tensor]:
    """The states of each of ``units``, which are concatenated in x: (..., Σ sizes) -> a list of (..., *shape)."""
    pieces = x.split([unit.size for unit in units], -1)
    return [piece.reshape(*x.shape[:-1], *unit.shape) for unit, piece in zip(units, pieces, strict=True)]

"""Rows held out from training: the option ``validation``, and random splits."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InvalidData, InvalidOption
from ...noise import Purpose
from ...training.batches import Source
from ...training.state import stream
from ..config import DataOptions
from .base import Subset


def share_of(validation: str | float | None) -> float | None:
    """Return the fraction of rows to hold out, or ``None`` if ``validation`` is not a number."""
    try:
        share = float(validation)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if not 0 < share < 1:
        raise InvalidOption(f"validation: expected a fraction of the rows between 0 and 1, found {share:g}")
    return share


def validation_of_file(options: DataOptions, what: str = "file's rows") -> tuple[str | float, float | None]:
    """Return the option ``validation`` for a file, "none" by default, and the fraction to hold out, if any."""
    validation = "none" if options.validation is None else options.validation
    share = share_of(validation)
    if share is None and validation != "none":
        raise InvalidOption(f"validation: expected a fraction of the {what} such as 0.1, or none, found '{validation}'")
    return validation, share


def hold_out(rows: Source, share: float, seed: int) -> tuple[Source, Source]:
    """Split the rows at random; both parts keep the order of the file."""
    train, held_out = (half.sort().values for half in halves(len(rows), share, seed))
    return Subset(rows, train), Subset(rows, held_out)


def halves(n: int, share: float, seed: int, what: str = "rows") -> tuple[Tensor, Tensor]:
    """Split the numbers from 0 to n - 1 at random, with a separate random stream: for training, and held out."""
    order = torch.randperm(n, generator=stream(seed, Purpose.HELD_OUT))
    cut = round(share * n)
    if not 0 < cut < n:
        raise InvalidData(f"validation: expected {what} on both sides of the split, found {share:g} of {n} {what}")
    return order[cut:], order[:cut]

"""The machine of figures 2 to 4: 400 hidden units on MNIST, with checkpoints from the first updates on.

As in the paper, visible fields start at the mean of the data, hidden fields at zero, and gradients are plain. The paper
says that the weights start with a variance of 0.01, so that the bulk does not exceed the threshold, that the learning
rate is about 0.01, and that 20 epochs are enough. It does not say what the units are. There are two readings:

* ``units="spin"``: ±1, as in the theory. A standard deviation of 0.1 would exceed the threshold of learning, so it is
  0.01 here. The learning rate is a tenth: at 0.01 the first modes grow within a few updates, and one epoch would not
  show the linear regime. What fails here may hold for the machine of the paper.
* ``units="bernoulli"``: {0, 1}, with the printed variance, learning rate and number of updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack, cast

import torch
from torch import Tensor

from harmonium import data as datasets
from harmonium.errors import unknown
from harmonium.machines import RBM
from harmonium.spectra import DataModes, SpectralHistory, data_modes, spectral_history
from harmonium.training import PCD, Run
from harmonium.units import Bernoulli, Spin, Unit

from .. import machines as shared
from ..machines import MachineOptions, name_by_settings, plain_gradients
from ..options import differences, override, with_options_of
from ..record import Record

GROUPS = 10  # groups of rows, each of which is left out once
_BATCH = 100
_PSEUDOCOUNT = 1.0  # for pixels that are never on


@dataclass(frozen=True)
class Settings:
    """The settings of a scale; ``rows=0`` means all rows. There is at most one checkpoint per epoch."""

    rows: int
    epochs: int


@dataclass(frozen=True)
class Reading:
    """The units, the initial weights and the learning rate."""

    unit: Callable[[int], Unit]
    std: float  # of the initial weights
    rate: float
    variance: float  # of a hidden unit without a field
    scales: dict[str, Settings]
    difference: str  # from what is printed


READINGS = {
    "spin": Reading(
        Spin,
        0.01,
        1e-3,
        1.0,
        {"quick": Settings(10_000, 150), "full": Settings(0, 200)},
        "weights of standard deviation 0.01 instead of 0.1, learning rate 0.001 instead of 0.01",
    ),
    # 12 000 updates, as in 20 epochs of all images
    "bernoulli": Reading(Bernoulli, 0.1, 1e-2, 0.25, {"quick": Settings(10_000, 120), "full": Settings(0, 20)}, ""),
}


class Machines(shared.Machines):
    """The machine of the paper along training.

    Args:
        data: name of an image data set.
        units: "spin" or "bernoulli".
        hidden: number of hidden units.
        options: as in :class:`experiments.machines.Machines`.
    """

    def __init__(
        self,
        record: Record,
        scale: str,
        data: str = "mnist",
        *,
        hidden: int = 400,
        units: str = "spin",
        **options: Unpack[MachineOptions],
    ) -> None:
        if units not in READINGS:
            raise unknown("units of the spectral experiments", units, READINGS)
        self.units, self.reading = units, READINGS[units]
        super().__init__(record, scale, data, **options)
        chosen = override(self.reading.scales[scale], epochs=self.given_epochs, rows=self.given_rows)
        self.hidden, self.epochs = hidden, chosen.epochs
        self.rows: Tensor = datasets.load(data, binarize="threshold")[: chosen.rows or None].flatten(1)
        if units == "spin":
            self.rows = 2 * self.rows - 1
        self.image = cast("tuple[int, int, int]", datasets.info(data).shape)

    @property
    def updates(self) -> int:
        """Number of updates in an epoch."""
        return -(-len(self.rows) // min(_BATCH, len(self.rows)))

    @property
    def time(self) -> float:
        """The number of updates times the learning rate."""
        return self.epochs * self.updates * self.reading.rate

    @property
    def difference(self) -> str:
        """How the machine differs from the printed one, in words, if that could change a verdict."""
        numbers = (("hidden units", self.hidden, 400), ("updates", self.epochs * self.updates, 12_000))
        found = [
            f"images of {self.data}" if self.data != "mnist" else "",
            differences(part for part in numbers if part[1] < part[2]),
            self.reading.difference,
        ]
        return ", ".join(filter(None, found))

    def axes(self, *, centered: bool = True) -> DataModes:
        """The principal axes of the rows about their mean, or else about the mean of units without a field, as for
        fields that start at zero."""
        return data_modes(self._about(), centered=centered)

    def axes_without(self, *, centered: bool = True) -> list[DataModes]:
        """The same without each tenth of the rows, for the jackknife."""
        rows, group = self._about(), torch.arange(len(self.rows)) % GROUPS
        return [data_modes(rows[group != k], centered=centered) for k in range(GROUPS)]

    def _about(self) -> Tensor:
        return self.rows if self.units == "spin" else self.rows - 0.5

    def history(self, field: str = "mean") -> SpectralHistory:
        """The spectra along training, with visible fields that start at the ``"mean"`` of the data or at ``"zero"``."""
        rbm = RBM(self.reading.unit(self.rows.shape[1]), self.reading.unit(self.hidden))
        kind = [self.data, *([] if self.units == "spin" else [self.units]), self.hidden]
        name = name_by_settings(*kind, rows=len(self.rows), epochs=self.epochs, start=field, seed=self.seed)

        @torch.no_grad()
        def prepare() -> None:
            rbm.initialize(
                self.rows, weights="normal", scale=self.reading.std, pseudocount=_PSEUDOCOUNT, seed=self.seed
            )
            rbm.hidden.bias.zero_()
            if field == "zero":
                rbm.visible.bias.zero_()

        self.train(
            name,
            rbm,
            self.rows,
            words=f"{self.epochs} epochs, visible fields start at {'zero' if field == 'zero' else 'the mean'}",
            prepare=prepare,
            negative=PCD(1),
            epochs=self.epochs,
            initialize="keep",
            **plain_gradients(self.reading.rate, _BATCH, len(self.rows)),
        )
        return spectral_history(Run(self.folder / name).machines())


def table(history: SpectralHistory) -> list[dict[str, float]]:
    """A row of a table for every singular value at every checkpoint."""
    return [
        {"epoch": epoch, "mode": k + 1, "singular_value": value}
        for epoch, found in zip(history.epochs, history.spectra, strict=True)
        for k, value in enumerate(found.values.tolist())
    ]


#: makes an experiment of a function of a record and machines
on_machines = with_options_of(Machines)

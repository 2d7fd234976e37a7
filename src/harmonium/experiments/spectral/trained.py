"""The machine of figures 2 to 4: 400 hidden units on MNIST, with checkpoints from the first updates on.

As in the paper, visible fields start at the data's mean, hidden fields at zero, and the gradient is the plain one. It
says that the weights start with a variance of 0.01, such that the bulk does not pass the threshold, at a learning rate
of about 0.01, and that 20 epochs suffice; not what the units are. There are two readings:

* ``units="spin"``: ±1, as in the theory. A standard deviation of 0.1 would be above the threshold of learning, so that
  it is 0.01, and the learning rate is a tenth, for the first modes grow within a few updates at 0.01 and an epoch would
  not show the linear regime. What fails here may hold for the paper's machine.
* ``units="bernoulli"``: {0, 1}, with the printed variance, learning rate and number of updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from ... import data as datasets
from ...errors import unknown
from ...machines import RBM
from ...spectra import DataModes, SpectralHistory, data_modes, spectral_history
from ...training import PCD, Run, fit
from ...units import Bernoulli, Spin, Unit
from ..options import with_options_of
from ..record import Record

GROUPS = 10  # of rows, each of which is left out once
_BATCH = 100
_PSEUDOCOUNT = 1.0  # for pixels that are never on


@dataclass(frozen=True)
class Settings:
    """How long, on how many rows (0 for all); a checkpoint comes after every epoch at the earliest."""

    rows: int
    epochs: int


@dataclass(frozen=True)
class Reading:
    """What the units are, and how the weights start and move."""

    unit: Callable[[int], Unit]
    std: float  # of the weights at the start
    rate: float
    variance: float  # of a hidden unit without field
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
    # 12 000 updates, as many as 20 epochs of all images have
    "bernoulli": Reading(Bernoulli, 0.1, 1e-2, 0.25, {"quick": Settings(10_000, 120), "full": Settings(0, 20)}, ""),
}


class Machines:
    """Trains the machine when it is asked for, and keeps it.

    Args:
        data: another set of pictures.
        units: "spin" or "bernoulli".
        hidden, epochs, rows: in the place of the scale's.
        machines: the folder for the trained machines; by default one within the record's.
    """

    def __init__(
        self,
        record: Record,
        scale: str,
        data: str = "mnist",
        hidden: int = 400,
        epochs: int = 0,
        rows: int = 0,
        units: str = "spin",
        machines: str = "",
        seed: int = 0,
    ) -> None:
        if units not in READINGS:
            raise unknown("units of the spectral experiments", units, READINGS)
        self.units, self.reading = units, READINGS[units]
        chosen = self.reading.scales[scale]
        self.record, self.data, self.hidden, self.seed = record, data, hidden, seed
        self.epochs, limit = epochs or chosen.epochs, rows or chosen.rows or None
        self.folder = Path(machines) if machines else record.folder / "machines"
        self.rows: Tensor = datasets.load(data, binarize="threshold")[:limit].flatten(1)
        if units == "spin":
            self.rows = 2 * self.rows - 1
        self.image = cast("tuple[int, int, int]", datasets.info(data).shape)

    @property
    def updates(self) -> int:
        """Of an epoch."""
        return -(-len(self.rows) // min(_BATCH, len(self.rows)))

    @property
    def time(self) -> float:
        """The number of updates times their learning rate."""
        return self.epochs * self.updates * self.reading.rate

    @property
    def difference(self) -> str:
        """How the machine differs from the printed one, in words, where that could change a verdict."""
        wanted = {"hidden units": (self.hidden, 400), "updates": (self.epochs * self.updates, 12_000)}
        found = [f"images of {self.data}"] if self.data != "mnist" else []
        found += [f"{name}: {own} instead of {printed}" for name, (own, printed) in wanted.items() if own < printed]
        return ", ".join([*found, *filter(None, [self.reading.difference])])

    def axes(self, *, centered: bool = True) -> DataModes:
        """The principal axes of the rows; without ``centered`` about the mean of units without field, where fields that
        start at zero leave them."""
        return data_modes(self._about(), centered=centered)

    def axes_without(self, *, centered: bool = True) -> list[DataModes]:
        """The same without each tenth of the rows, for the jackknife."""
        rows, group = self._about(), torch.arange(len(self.rows)) % GROUPS
        return [data_modes(rows[group != k], centered=centered) for k in range(GROUPS)]

    def _about(self) -> Tensor:
        return self.rows if self.units == "spin" else self.rows - 0.5

    def history(self, field: str = "mean") -> SpectralHistory:
        """The spectra along training, with visible fields that start at the data's ``"mean"`` or at ``"zero"``."""
        kind = "" if self.units == "spin" else f"{self.units}-"
        name = f"{self.data}-{kind}{self.hidden}-rows-{len(self.rows)}-epochs-{self.epochs}-{field}-seed-{self.seed}"
        run = self.folder / name
        known = Run(run).exists()
        rbm = RBM(self.reading.unit(self.rows.shape[1]), self.reading.unit(self.hidden))
        if not known:
            self.record.say(f"training {self.epochs} epochs, visible fields from {field}")
            rbm.initialize(
                self.rows, weights="normal", scale=self.reading.std, pseudocount=_PSEUDOCOUNT, seed=self.seed
            )
            with torch.no_grad():
                rbm.hidden.bias.zero_()
                if field == "zero":
                    rbm.visible.bias.zero_()
        fit(
            rbm,
            self.rows,
            negative=PCD(1),
            epochs=self.epochs,
            batch_size=min(_BATCH, len(self.rows)),
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=self.reading.rate),
            transforms=(),
            initialize=False,
            metrics_every=self.epochs,
            run=run,
            resume=known,
            seed=self.seed,
            progress=False,
        )
        return spectral_history(Run(run).machines())


def table(history: SpectralHistory) -> list[dict[str, float]]:
    """Every singular value at every checkpoint, a row each."""
    return [
        {"epoch": epoch, "mode": k + 1, "singular_value": value}
        for epoch, found in zip(history.epochs, history.spectra, strict=True)
        for k, value in enumerate(found.values.tolist())
    ]


#: makes an experiment of a function of a record and machines
on_machines = with_options_of(Machines)

"""The machine of figures 2 to 4: 400 hidden spins on MNIST, with checkpoints from the first updates on.

As in the paper, weights start as noise of standard deviation 0.01 (it says variance, which would be above the
threshold of learning already), visible fields at the data's mean, hidden fields at zero, and the gradient is the plain
one. The rate is a tenth of the paper's, for the first modes grow within a few updates at 0.01 and an epoch would
not show the linear regime.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from ... import data as datasets
from ...analysis import DataModes, SpectralHistory, data_modes, spectral_history
from ...machines import RBM
from ...training import PCD, Run, fit
from ...units import Spin
from ..options import with_options_of
from ..record import Record

RATE = 1e-3
STD = 0.01  # of the weights at the start
_BATCH = 100
_PSEUDOCOUNT = 1.0  # for pixels that are never on


@dataclass(frozen=True)
class Settings:
    """How long, on how many rows (0 for all); a checkpoint comes after every epoch at the earliest."""

    rows: int
    epochs: int


SETTINGS = {"quick": Settings(10_000, 150), "full": Settings(0, 200)}


class Machines:
    """Trains the machine when it is asked for, and keeps it.

    Args:
        data: another set of pictures.
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
        machines: str = "",
        seed: int = 0,
    ) -> None:
        chosen = SETTINGS[scale]
        self.record, self.data, self.hidden, self.seed = record, data, hidden, seed
        self.epochs, limit = epochs or chosen.epochs, rows or chosen.rows or None
        self.folder = Path(machines) if machines else record.folder / "machines"
        self.rows: Tensor = 2 * datasets.load(data, binarise="threshold")[:limit].flatten(1) - 1
        self.image = cast("tuple[int, int, int]", datasets.info(data).shape)

    def axes(self, *, centred: bool = True) -> DataModes:
        """The principal axes of the rows."""
        return data_modes(self.rows, centred=centred)

    def history(self, field: str = "mean") -> SpectralHistory:
        """The spectra along training, with visible fields that start at the data's ``"mean"`` or at ``"zero"``."""
        name = f"{self.data}-{self.hidden}-rows-{len(self.rows)}-epochs-{self.epochs}-{field}-seed-{self.seed}"
        run = self.folder / name
        known = Run(run).exists()
        rbm = RBM(Spin(self.rows.shape[1]), Spin(self.hidden))
        if not known:
            self.record.say(f"training {self.epochs} epochs, visible fields from {field}")
            rbm.initialise(self.rows, weights="normal", scale=STD, pseudocount=_PSEUDOCOUNT, seed=self.seed)
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
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=RATE),
            transforms=(),
            initialise=False,
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

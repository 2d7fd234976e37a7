"""Figure 4: receptive fields of the trained machines, by spread and by activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...machines import RBM
from ...plots import diverging, style
from ..record import Record
from .trained import DATASETS, Machines, on_machines

P = 0.1  # of the norm that measures spread
_SHOWN = 12  # receptive fields in each panel
_LOCAL = 0.1  # of the picture: what a localised feature covers at most
_EXTREME = 0.1  # of the hidden units, that stand for the most localised
PANELS = ("most localised", "most spread", "most active", "least active")


@dataclass(frozen=True)
class Fields:
    """The receptive fields of a machine, a row for each hidden unit, and what they are ranked by."""

    weights: Tensor  # (hidden, pixels), in float64
    activation: Tensor  # (hidden,)

    @staticmethod
    def of(machine: RBM, rows: Tensor) -> Fields:
        """Activations are averages over ``rows``."""
        with torch.no_grad():
            mean = torch.stack([machine.hidden_mean(part).sum(0) for part in rows.split(1000)]).sum(0) / len(rows)
            return Fields(machine.coupling.matrix().detach().T.double(), mean.double())

    @property
    def log_norm(self) -> Tensor:
        """ln of the ℓ_p-norm, p = 0.1: (hidden,)."""
        return self.weights.abs().pow(P).sum(1).log() / P

    @property
    def spread(self) -> Tensor:
        """The same for fields of one strength: ln of the ratio to the ℓ2-norm, 0 for a flat field: (hidden,)."""
        flat = (1 / P - 1 / 2) * np.log(self.weights.shape[1])
        return self.log_norm - self.weights.norm(dim=1).log() - flat

    @property
    def pixels(self) -> Tensor:
        """The effective number of pixels, (Σw²)²/Σw⁴: (hidden,)."""
        return self.weights.square().sum(1).square() / self.weights.pow(4).sum(1)

    def ranked(self) -> dict[str, Tensor]:
        """The numbers of the hidden units that each panel shows."""
        spread, active = self.log_norm.argsort(), self.activation.argsort(descending=True)
        orders = (spread, spread.flip(0), active, active.flip(0))
        return {panel: order[:_SHOWN] for panel, order in zip(PANELS, orders, strict=True)}

    def likeness(self, others: Fields) -> float:
        """The median over these fields of the largest |cosine| with one of the others."""
        mine, theirs = (torch.nn.functional.normalize(x.weights, dim=1) for x in (self, others))
        return (mine @ theirs.T).abs().amax(1).median().item()

    def turned(self, image: Sequence[int]) -> Fields:
        """Mirrored left to right: fields of the same smoothness and extent, but of other pictures."""
        mirrored = self.weights.view(len(self.weights), *image).flip(-1).reshape(self.weights.shape)
        return Fields(mirrored, self.activation)


@on_machines
def run(record: Record, trained: Machines) -> None:
    """The fields of every machine."""
    found = {
        (dataset, size): Fields.of(trained.machine(dataset, size), trained.rows(dataset))
        for dataset in DATASETS
        for size in trained.sizes(dataset)
    }
    record.table(
        "fields",
        [
            {
                "dataset": dataset,
                "hidden": size,
                "unit": unit,
                "log_norm": fields.log_norm[unit].item(),
                "spread": fields.spread[unit].item(),
                "pixels": fields.pixels[unit].item(),
                "activation": fields.activation[unit].item(),
            }
            for (dataset, size), fields in found.items()
            for unit in range(size)
        ],
    )
    record.figure("fig4", _figure(trained, found))
    _claims(record, trained, found)


def _claims(record: Record, trained: Machines, found: dict[tuple[str, int], Fields]) -> None:
    for dataset in ("binary-mnist", "real-mnist"):
        sizes = trained.sizes(dataset)
        local = {m: found[dataset, m].pixels.quantile(_EXTREME).item() for m in sizes}
        number = trained.rows(dataset).shape[1]
        record.claim(
            f"{dataset}: there are localised features",
            f"a tenth of the fields cover, of {number} pixels, effectively at most "
            + ", ".join(f"{value:.0f} (N_h = {m})" for m, value in local.items()),
            all(value <= _LOCAL * number for value in local.values()),
        )
        for words, values in (
            ("ℓ0.1-norm in units of the ℓ2-norm (ln)", [found[dataset, m].spread.median().item() for m in sizes]),
            ("effective number of pixels", [found[dataset, m].pixels.median().item() for m in sizes]),
        ):
            record.claim(
                f"{dataset}: localisation increases with the number of hidden units, by the {words}",
                "median " + ", ".join(f"{v:.2f} (N_h = {m})" for m, v in zip(sizes, values, strict=True)),
                all(later < before for before, later in pairwise(values)) if len(sizes) > 1 else None,
            )
    size = trained.size("real-mnist", 100)
    real, binary = found["real-mnist", size], found["binary-mnist", trained.size("binary-mnist", size)]
    like, other = real.likeness(binary), real.likeness(binary.turned(trained.image("binary-mnist")))
    record.claim(
        "features of real-MNIST are similar to those of binary-MNIST",
        f"N_h = {size}: the median field has a cosine of {like:.2f} with the nearest of binary-MNIST, "
        f"of {other:.2f} with the nearest of their mirror images",
        like > other,
    )


def _figure(trained: Machines, found: dict[tuple[str, int], Fields]) -> Figure:
    with style.look():
        figure = Figure(figsize=(10.0, 0.3 + 0.95 * len(found)), layout="constrained")
        grid = figure.subplots(len(found), len(PANELS), squeeze=False)
        for line, ((dataset, size), fields) in zip(grid, found.items(), strict=True):
            limit = float(np.quantile(style.as_array(fields.weights.abs()), 0.995)) or 1.0
            for ax, (panel, units) in zip(line, fields.ranked().items(), strict=True):
                pictures = fields.weights[units].view(-1, *trained.image(dataset))
                ax.imshow(diverging(pictures, columns=_SHOWN // 2, limit=limit), interpolation="nearest")
                ax.set_xticks([])
                ax.set_yticks([])
                for spine in ax.spines.values():
                    spine.set_visible(False)
                if ax in grid[0]:
                    ax.set_title(panel)
            line[0].set_ylabel(f"{dataset}\n$N_h$ = {size}, ±{limit:.2g}", fontsize=7)
    return figure

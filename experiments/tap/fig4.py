"""Figure 4: receptive fields of the trained machines, by spread and by activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.machines import RBM
from harmonium.plots import diverging, style

from ..judging import IF_TRUE, Measured, Verdict, bootstrap, claim, every
from ..record import Record
from .trained import DATASETS, Machines, on_machines

#: hidden units of the machines in the figure
PUBLISHED = {"binary-mnist": (25, 50, 100, 500), "real-mnist": (100, 500)}
P = 0.1  # of the norm that measures spread
_SHOWN = 12  # receptive fields in each panel
_LOCAL = 0.1  # of the image: largest area of a localized feature
_EXTREME = 0.1  # of the hidden units: the most localized
_MORE_LOCAL = 0.1  # least decrease of ln of the number of pixels
_SIMILAR = 0.05  # least gain in the cosine
PANELS = ("most localized", "most spread", "most active", "least active")


@dataclass(frozen=True)
class Fields:
    """The receptive fields of a machine, one row per hidden unit, and the quantities they are ranked by."""

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
        """The same for fields of equal strength: ln of the ratio to the ℓ2-norm, 0 for a flat field: (hidden,)."""
        flat = (1 / P - 1 / 2) * np.log(self.weights.shape[1])
        return self.log_norm - self.weights.norm(dim=1).log() - flat

    @property
    def cover(self) -> Tensor:
        """The number of pixels of a flat field with the same spread: (hidden,)."""
        return self.weights.shape[1] * (self.spread / (1 / P - 1 / 2)).exp()

    @property
    def pixels(self) -> Tensor:
        """The effective number of pixels, (Σw²)²/Σw⁴: (hidden,)."""
        return self.weights.square().sum(1).square() / self.weights.pow(4).sum(1)

    def ranked(self) -> dict[str, Tensor]:
        """The indices of the hidden units in each panel."""
        spread, active = self.log_norm.argsort(), self.activation.argsort(descending=True)
        orders = (spread, spread.flip(0), active, active.flip(0))
        return {panel: order[:_SHOWN] for panel, order in zip(PANELS, orders, strict=True)}

    def likeness(self, others: Fields) -> Tensor:
        """The largest |cosine| of each of these fields with one of the others: (hidden,)."""
        mine, theirs = (torch.nn.functional.normalize(x.weights, dim=1) for x in (self, others))
        return (mine @ theirs.T).abs().amax(1)

    def turned(self, image: Sequence[int]) -> Fields:
        """Mirrored left to right: fields of the same smoothness and extent, but of other images."""
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


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, trained: Machines, found: dict[tuple[str, int], Fields]) -> None:
    for dataset in ("binary-mnist", "real-mnist"):
        sizes, difference = trained.sizes(dataset), trained.difference(dataset, *PUBLISHED[dataset])
        number = trained.rows(dataset).shape[1]
        pixels = {m: style.as_array(found[dataset, m].pixels) for m in sizes}
        # localized features form late in training: their absence after a short one says nothing
        claim(
            record,
            f"{dataset}: there are localized features",
            f"a tenth of the fields cover, of {number} pixels, effectively at most "
            + ", ".join(f"{local(pixels[m]):.0f} (N_h = {m})" for m in sizes),
            every(judge_local(pixels[m], number) for m in sizes),
            difference,
            IF_TRUE,
        )
        for words, cover in (
            ("ℓ0.1-norm in units of the ℓ2-norm", [style.as_array(found[dataset, m].cover) for m in sizes]),
            ("participation ratio", [style.as_array(found[dataset, m].pixels) for m in sizes]),
        ):
            claim(
                record,
                f"{dataset}: localization increases with the number of hidden units, by the {words}",
                "effective number of pixels of the median field: "
                + ", ".join(f"{median(v):.1f} (N_h = {m})" for m, v in zip(sizes, cover, strict=True)),
                judge_more_local(cover),
                difference,
                IF_TRUE,
            )
    size = trained.size("real-mnist", 100)
    real, binary = found["real-mnist", size], found["binary-mnist", trained.size("binary-mnist", size)]
    like = style.as_array(real.likeness(binary))
    other = style.as_array(real.likeness(binary.turned(trained.image("binary-mnist"))))
    difference = " and ".join(filter(None, map(trained.difference, ("real-mnist", "binary-mnist"))))
    claim(
        record,
        "features of real-MNIST are similar to those of binary-MNIST",
        f"N_h = {size}: the median field has a cosine of {np.median(like):.2f} with the nearest of binary-MNIST, "
        f"of {np.median(other):.2f} with the nearest of their mirror images, a gain of "
        f"{bootstrap(np.median, like - other):.3f}",
        judge_similar(like, other),
        difference,
        IF_TRUE,
    )


def median(values: np.ndarray) -> Measured:
    """Over the hidden units."""
    return bootstrap(np.median, values)


def local(pixels: np.ndarray) -> Measured:
    """The effective number of pixels that a tenth of the fields do not exceed."""
    return bootstrap(lambda x: float(np.quantile(x, _EXTREME)), pixels)


def judge_local(pixels: np.ndarray, number: int) -> Verdict:
    """Criterion: a tenth of the fields cover less than LOCAL of the image of ``number`` pixels."""
    return local(pixels).below(_LOCAL * number)


def judge_more_local(cover: Sequence[np.ndarray]) -> Verdict:
    """From effective numbers of pixels, (hidden,) each, of machines of ascending size.

    Criterion: from the smallest to the largest machine ln of the median falls by more than MORE_LOCAL, and from none to
    the next does it rise beyond its error.
    """
    if len(cover) < 2:
        return None
    medians = [median(np.log(values)) for values in cover]
    steps = [before.minus(after).above(0) is not False for before, after in pairwise(medians)]
    return every([medians[0].minus(medians[-1]).above(_MORE_LOCAL), *steps])


def judge_similar(like: np.ndarray, other: np.ndarray) -> Verdict:
    """From the largest |cosine| of each field with true ones and with mirrored ones.

    Criterion: the median gain over mirrored ones, which are as smooth and as large, exceeds SIMILAR.
    """
    return bootstrap(np.median, like - other).above(_SIMILAR)


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

"""Spike trains: does a machine with interactions of all orders describe three cells at once better than a pairwise one?

Gaussian hidden units produce only couplings, so that N - 1 of them are the pairwise model of N cells; Bernoulli units
have interactions of every order. Both are trained in the same way on the first four fifths of a recording, and samples
are compared with the last fifth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from harmonium import data as datasets
from harmonium.interactions import all_tuples
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.quality import Correlations, correlations
from harmonium.training import PCD, Linear
from harmonium.units import Bernoulli, Gaussian, Unit

from ..judging import THREE_SIGMA, Measured, Verdict, averaged, brief
from ..machines import MachineOptions, Machines, name_by_settings
from ..options import with_options_of
from ..record import Record
from .replicates import measured

EPOCHS = {"quick": 25, "full": 100}
MODELS = ("pairwise", "all orders")
BUSY = 10  # spikes in a bin
_SWEEPS = 150
_BLOCKS = 20  # of consecutive bins, for the error of the synchrony
_EQUALLY = 0.25  # of the floor: largest difference of machines that describe correlations "equally well"
_FLOOR = 1.1  # times the floor: largest difference that the held-out rows cannot resolve


class Trained(Machines):
    """Machines on spike trains."""

    def __init__(self, record: Record, scale: str, data: str = "spikes-50", **options: Unpack[MachineOptions]) -> None:
        super().__init__(record, scale, data, **options)


@with_options_of(Trained)
def run(record: Record, trained: Machines, sweeps: int = _SWEEPS, seeds: int = 3) -> None:
    """Two machines, and the training rows in place of samples; ``rows=0`` means all rows.

    Both are trained with each of ``seeds`` seeds. The figure shows the first.
    """
    train, test = (datasets.load(trained.data, split=split) for split in ("train", "test"))
    train = train[: trained.given_rows or None]
    cells = train.shape[1]
    sets: dict[tuple[str, int], Tensor] = {}
    for k in range(seeds):
        hidden: dict[str, Unit] = dict(zip(MODELS, (Gaussian(cells - 1), Bernoulli(cells)), strict=True))
        for name, layer in hidden.items():
            rbm = _train(trained, name, train, layer, trained.seed + k)
            sets[name, k] = rbm.sample(len(train), sweeps=sweeps, seed=trained.seed + seeds + k)
    sets["training rows", 0] = train
    found = {
        (*key, order): correlations(part, test, order=order, seed=0) for key, part in sets.items() for order in (2, 3)
    }
    triplets = all_tuples(cells, 3)
    wanted = _coincidences(test, triplets)
    off = {key: (_coincidences(part, triplets) - wanted).square().mean().sqrt().item() for key, part in sets.items()}
    record.table("agreement", [_row(*key, found, off[key], part) for key, part in sets.items()])
    record.numbers |= {"held out: bins without a spike": _silent(test), "held out: busy bins": _busy(test)}
    first = {name: part for (name, k), part in sets.items() if k == 0}
    record.table("activity", [{"set": name, **_shares(part)} for name, part in {**first, "held out": test}.items()])
    gains = [
        measured(variations(sets[MODELS[0], k], test) - variations(sets[MODELS[1], k], test)) for k in range(seeds)
    ]
    _claims(record, found, gains, {key: _variation(part, test) for key, part in sets.items()})
    record.figure("spikes", _figure({(name, s): found[name, 0, s] for name in MODELS for s in (2, 3)}, first, test))


def _train(machines: Machines, model: str, rows: Tensor, hidden: Unit, seed: int) -> RBM:
    epochs = machines.given_epochs or EPOCHS[machines.scale]
    rbm = RBM(Bernoulli(rows.shape[1]), hidden)
    kind = machines.data, model.replace(" ", "-")
    machines.train(
        name_by_settings(*kind, rows=len(rows), epochs=epochs, seed=seed),
        rbm,
        rows,
        words=f"{model}, seed {seed}",
        negative=PCD(5),
        epochs=epochs,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.003),
        schedule=Linear(),
        seed=seed,
        progress=False,
    )
    return rbm


def _coincidences(rows: Tensor, triplets: Tensor) -> Tensor:
    """How often each triplet of cells fires in the same bin: (triplets,)."""
    counted = torch.stack([(rows * rows[:, cell, None]).T @ rows for cell in range(rows.shape[1])])
    return counted[tuple(triplets.T)].double() / len(rows)


def _shares(rows: Tensor) -> dict[str, float]:
    """The share of bins with each number of spikes."""
    counted = torch.bincount(rows.sum(1).long(), minlength=rows.shape[1] + 1).double() / len(rows)
    return {f"spikes_{k}": share for k, share in enumerate(counted.tolist())}


def _silent(rows: Tensor) -> float:
    return (rows.sum(1) == 0).double().mean().item()


def _busy(rows: Tensor) -> float:
    return (rows.sum(1) >= BUSY).double().mean().item()


def _variation(rows: Tensor, test: Tensor) -> float:
    """Total variation: half the sum of absolute differences between shares of bins by their number of spikes."""
    return sum(abs(a - b) for a, b in zip(_shares(rows).values(), _shares(test).values(), strict=True)) / 2


def variations(rows: Tensor, test: Tensor, blocks: int = _BLOCKS) -> Tensor:
    """:func:`_variation` of all bins, then with one block of consecutive bins of both left out: (1 + blocks,)."""
    parts = [[*x.tensor_split(blocks)] for x in (rows, test)]
    left = [[torch.cat(part[:k] + part[k + 1 :]) for part in parts] for k in range(blocks)]
    return torch.tensor([_variation(rows, test), *(_variation(*pair) for pair in left)], dtype=torch.float64)


def _row(
    name: str, seed: int, found: Mapping[tuple[str, int, int], Correlations], off: float, rows: Tensor
) -> dict[str, float | str]:
    row: dict[str, float | str] = {"set": name, "seed": seed}
    for order in (2, 3):
        part = found[name, seed, order]
        row |= {
            f"difference_{order}": part.difference.value,
            f"error_{order}": part.difference.standard_error,
            f"floor_{order}": part.floor.value,
            f"ratio_{order}": part.ratio,
        }
    return row | {"coincidences_off": off, "silent": _silent(rows), "busy": _busy(rows)}


# -- criteria ---------------------------------------------------------------------------------------------------------


def judge_equally(difference: Measured, floor: float) -> Verdict:
    """Two machines describe correlations equally well: they differ by less than a quarter of the floor."""
    return difference.within(_EQUALLY * floor, THREE_SIGMA)


def judge_better(gain: Measured) -> Verdict:
    """The second machine is better: the first is further from the held-out rows, by three standard errors."""
    return gain.above(0.0, THREE_SIGMA)


def judge_at_floor(excess: Measured) -> Verdict:
    """As well as the held-out rows can resolve: the distance from them is below 1.1 floors.

    Args:
        excess: the distance minus 1.1 floors.
    """
    return excess.below(0.0, THREE_SIGMA)


def _claims(
    record: Record,
    found: Mapping[tuple[str, int, int], Correlations],
    gains: Sequence[Measured],
    variation: Mapping[tuple[str, int], float],
) -> None:
    higher = MODELS[1]
    seeds = range(len(gains))

    def difference(order: int) -> Measured:
        """Pairwise minus all orders; both see the same rows, so that the error is an overestimate."""
        pairs = [[found[name, k, order].difference for name in MODELS] for k in seeds]
        return averaged([Measured(a.value - b.value, math.hypot(a.standard_error, b.standard_error)) for a, b in pairs])

    def words(order: int) -> str:
        parts = (
            f"{name} " + ", ".join(f"{found[name, k, order].difference.value:.2e}" for k in seeds) for name in MODELS
        )
        floor, apart = found[higher, 0, order].floor, difference(order)
        return f"{'; '.join(parts)}; apart {apart.value:.1e} ± {apart.error:.0e}; floor {floor.value:.2e}"

    record.claim(
        "both machines describe the correlations of two cells equally well",
        words(2),
        judge_equally(difference(2), found[higher, 0, 2].floor.value),
    )
    record.claim(
        "the correlations of three cells are described better with interactions of all orders",
        words(3),
        judge_better(difference(3)),
    )
    parts = [found[higher, k, 3] for k in seeds]
    excess = averaged(
        [
            Measured(
                part.difference.value - _FLOOR * part.floor.value,
                math.hypot(part.difference.standard_error, _FLOOR * part.floor.standard_error),
            )
            for part in parts
        ]
    )
    record.claim(
        "as well as the held-out rows can resolve",
        f"in floors: {', '.join(f'{part.ratio:.2f}' for part in parts)}; "
        f"minus {_FLOOR} floors: {excess.value:.1e} ± {excess.error:.0e}",
        judge_at_floor(excess),
    )
    record.claim(
        "and so is the number of cells that fire in a bin",
        "total variation from the held-out rows: "
        + ", ".join(f"{name} {value:.3f}" for (name, _), value in variation.items())
        + f"; pairwise minus all orders {brief(averaged(gains))}",
        judge_better(averaged(gains)),
    )


def _figure(found: dict[tuple[str, int], Correlations], sets: dict[str, Tensor], test: Tensor) -> Figure:
    colors = dict(zip(MODELS, (style.SECOND, style.ACCENT), strict=True))
    with style.look():
        figure = Figure(figsize=(10.2, 3.4), layout="constrained")
        *scatters, counts = figure.subplots(1, 3)
        for ax, name in zip(scatters, MODELS, strict=True):
            _scatter(ax, found[name, 3], name, colors[name])
        for label, rows, color in (
            ("held out", test, style.INK),
            *((name, sets[name], color) for name, color in colors.items()),
        ):
            shares = np.array(list(_shares(rows).values()))
            seen = np.flatnonzero(shares)
            counts.plot(seen, shares[seen], "o-", color=color, markersize=3, linewidth=1, label=label)
        counts.set(xlabel="cells that fire in a bin", ylabel="share of bins", yscale="log")
        counts.set_title("synchrony")
        counts.legend(fontsize=8)
    return figure


def _scatter(ax: Axes, found: Correlations, name: str, color: str) -> None:
    x, y = found.data.numpy(), found.samples.numpy()
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color=style.FAINT, linewidth=0.9, zorder=0)
    ax.scatter(x, y, s=3, color=color, alpha=0.3, linewidths=0, rasterized=True)
    ax.set(xlabel="held out", ylabel="samples")
    ax.set_title(f"three cells, {name}: {found.ratio:.2f} × floor")

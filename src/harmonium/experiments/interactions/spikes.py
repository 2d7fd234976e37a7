"""Spike trains: does a machine with interactions of all orders describe three cells at once better than a pairwise one?

Gaussian hidden units bring about couplings and nothing else, so that N - 1 of them are the pairwise model of N cells;
Bernoulli units have interactions of every order. Both are trained alike on the first four fifths of a recording, and
samples are compared with the last one.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ... import data as datasets
from ...analysis import all_tuples
from ...evaluation import Correlations, Measured, correlations
from ...machines import RBM
from ...plots import style
from ...training import PCD, LinearDecay, fit
from ...units import Bernoulli, Gaussian, Unit
from ..record import Record

EPOCHS = {"quick": 25, "full": 100}
MODELS = ("pairwise", "all orders")
BUSY = 10  # spikes in a bin
_SWEEPS = 150
_ERRORS = 3.0  # standard errors that a difference has to exceed


def run(
    record: Record,
    scale: str,
    data: str = "spikes-50",
    epochs: int = 0,
    rows: int = 0,
    sweeps: int = _SWEEPS,
    seed: int = 0,
) -> None:
    """Two machines, and the training rows as if they were samples; ``rows`` 0 are all of them."""
    train, test = (datasets.load(data, split=split) for split in ("train", "test"))
    train = train[: rows or None]
    cells = train.shape[1]
    hidden: dict[str, Unit] = dict(zip(MODELS, (Gaussian(cells - 1), Bernoulli(cells)), strict=True))
    sets: dict[str, Tensor] = {}
    for name, layer in hidden.items():
        record.say(f"training: {name}")
        rbm = _train(train, layer, epochs or EPOCHS[scale], seed)
        sets[name] = rbm.sample(len(train), steps=sweeps, seed=seed + 1)
    sets["training rows"] = train
    found = {(name, order): correlations(part, test, order=order) for name, part in sets.items() for order in (2, 3)}
    triplets = all_tuples(cells, 3)
    wanted = _coincidences(test, triplets)
    off = {name: (_coincidences(part, triplets) - wanted).square().mean().sqrt().item() for name, part in sets.items()}
    record.table("agreement", [_row(name, found, off[name], part) for name, part in sets.items()])
    record.numbers |= {"held out: bins without a spike": _silent(test), "held out: busy bins": _busy(test)}
    record.table("activity", [{"set": name, **_shares(part)} for name, part in {**sets, "held out": test}.items()])
    _claims(record, found, {name: _variation(part, test) for name, part in sets.items()})
    record.figure("spikes", _figure(found, sets, test))


def _train(rows: Tensor, hidden: Unit, epochs: int, seed: int) -> RBM:
    rbm = RBM(Bernoulli(rows.shape[1]), hidden)
    fit(
        rbm,
        rows,
        negative=PCD(5),
        epochs=epochs,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.003),
        schedule=LinearDecay(),
        seed=seed,
        progress=False,
    )
    return rbm


def _coincidences(rows: Tensor, triplets: Tensor) -> Tensor:
    """How often each three cells fire in the same bin: (triplets,)."""
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
    """Half the summed differences between the shares of bins by their number of spikes."""
    return sum(abs(a - b) for a, b in zip(_shares(rows).values(), _shares(test).values(), strict=True)) / 2


def _row(name: str, found: dict[tuple[str, int], Correlations], off: float, rows: Tensor) -> dict[str, float | str]:
    row: dict[str, float | str] = {"set": name}
    for order in (2, 3):
        part = found[name, order]
        row |= {
            f"difference_{order}": part.difference.value,
            f"error_{order}": part.difference.error,
            f"floor_{order}": part.floor.value,
            f"ratio_{order}": part.ratio,
        }
    return row | {"coincidences_off": off, "silent": _silent(rows), "busy": _busy(rows)}


def _claims(record: Record, found: dict[tuple[str, int], Correlations], variation: dict[str, float]) -> None:
    pairwise, higher = MODELS

    def differ(a: Measured, b: Measured) -> float:
        """By how many standard errors."""
        return (a.value - b.value) / float(np.hypot(a.error, b.error))

    def words(order: int) -> str:
        return (
            ", ".join(
                f"{name} {found[name, order].difference.value:.2e} ± {found[name, order].difference.error:.0e}"
                for name in MODELS
            )
            + f"; floor {found[higher, order].floor.value:.2e}"
        )

    pairs, triplets = ({name: found[name, order].difference for name in MODELS} for order in (2, 3))
    record.claim(
        "both machines describe the correlations of two cells equally well",
        words(2),
        abs(differ(pairs[pairwise], pairs[higher])) < _ERRORS,
    )
    record.claim(
        "the correlations of three cells are described better with interactions of all orders",
        words(3),
        differ(triplets[pairwise], triplets[higher]) > _ERRORS,
    )
    record.claim(
        "as well as the held-out rows can tell",
        words(3),
        not found[higher, 3].meaningful,
    )
    record.claim(
        "and so is the number of cells that fire in a bin",
        "total variation from the held-out rows: " + ", ".join(f"{n} {v:.3f}" for n, v in variation.items()),
        variation[higher] < variation[pairwise],
    )


def _figure(found: dict[tuple[str, int], Correlations], sets: dict[str, Tensor], test: Tensor) -> Figure:
    colours = dict(zip(MODELS, (style.SECOND, style.ACCENT), strict=True))
    with style.look():
        figure = Figure(figsize=(10.2, 3.4), layout="constrained")
        *scatters, counts = figure.subplots(1, 3)
        for ax, name in zip(scatters, MODELS, strict=True):
            _scatter(ax, found[name, 3], name, colours[name])
        for label, rows, colour in (
            ("held out", test, style.INK),
            *((name, sets[name], colour) for name, colour in colours.items()),
        ):
            shares = np.array(list(_shares(rows).values()))
            seen = np.flatnonzero(shares)
            counts.plot(seen, shares[seen], "o-", color=colour, markersize=3, linewidth=1, label=label)
        counts.set(xlabel="cells that fire in a bin", ylabel="share of bins", yscale="log")
        counts.set_title("synchrony")
        counts.legend(fontsize=8)
    return figure


def _scatter(ax: Axes, found: Correlations, name: str, colour: str) -> None:
    x, y = found.data.numpy(), found.samples.numpy()
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color=style.FAINT, linewidth=0.9, zorder=0)
    ax.scatter(x, y, s=3, color=colour, alpha=0.3, linewidths=0, rasterized=True)
    ax.set(xlabel="held out", ylabel="samples")
    ax.set_title(f"three cells, {name}: {found.ratio:.2f} × floor")

"""Gaussian–Bernoulli machines trained with default settings on four data sets: stability and held-out likelihood.

Rows are Frey faces, Olivetti faces, real-valued MNIST and patches of natural images. Every machine is trained by
``hm.fit(machine, rows, seed=...)`` without other arguments. The log-likelihood of test rows is exact for machines of
up to 20 hidden units, and two-sided (annealing in both directions) for larger ones. It is compared with Gaussians
fitted to the same rows; the weight of the diagonal in the full covariance is chosen on validation rows.

With ``coordinates="whitened"`` the rows are whitened by the same full covariance. A machine without weights is then
that Gaussian, and the hidden units only describe what it does not. Likelihoods are those of the pixels, so that all
numbers of a data set can be compared.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

import harmonium as hm
from harmonium.errors import Diverged
from harmonium.plots.tiling import diverging, mosaic

from ..judging import Measured
from ..options import override, parse_choice
from ..record import Record
from .rows import NAMES, Covariance, Rows, covariance, load

_EXACT = 20  # the largest number of hidden units whose states are enumerated
_SHOWN = 12  # images of each kind in a sheet
COORDINATES = ("pixels", "whitened")


@dataclass(frozen=True)
class Settings:
    """The size of the comparison."""

    seeds: int
    hidden: int
    epochs: int | None = None


SETTINGS = {"quick": Settings(2, 16), "full": Settings(20, 16)}


def run(
    record: Record,
    scale: str,
    *,
    data: str = "",
    coordinates: str = "pixels",
    seeds: int = 0,
    hidden: int = 0,
    noise: float = 0.0,
    epochs: int = 0,
) -> None:
    """Train and compare; ``data`` is one data set instead of all, ``noise`` the deviation of noise on all rows.

    ``coordinates`` are "pixels" or "whitened"; ``epochs`` is by default that of ``fit``.
    """
    settings = override(SETTINGS[scale], seeds=seeds, hidden=hidden, epochs=epochs)
    table: list[dict[str, object]] = []
    whiten = parse_choice("coordinates", coordinates, COORDINATES) == "whitened"
    for name in [data] if data else NAMES:
        pixels = load(name, noise)
        gaussian = covariance(pixels)
        rows = pixels.whitened(gaussian.shrinkage) if whiten else pixels
        found = _compare(record, name, rows, gaussian, settings, table)
        record.table("seeds", table)
        record.figure(name, _sheet(rows, found))


def _compare(
    record: Record, name: str, rows: Rows, gaussian: Covariance, settings: Settings, table: list[dict[str, object]]
) -> hm.RBM:
    """Train the machines of all seeds on one data set; returns the last."""
    values: list[float] = []
    machine = hm.RBM(hm.units.Gaussian(rows.training.shape[1]), settings.hidden)
    for seed in range(settings.seeds):
        machine = hm.RBM(hm.units.Gaussian(rows.training.shape[1]), settings.hidden)
        began = time.process_time()
        try:
            hm.fit(machine, rows.training, epochs=settings.epochs, seed=seed, progress=False)
            cpu = time.process_time() - began
            value, low, high = (x + rows.log_determinant for x in _log_likelihood(machine, rows.test, seed))
        except Diverged as error:
            record.say(f"{name}, seed {seed}: {error}")
            cpu, value, low, high = time.process_time() - began, math.nan, math.nan, math.nan
        values.append(value)
        finite = all(bool(torch.isfinite(p).all()) for p in machine.parameters()) and math.isfinite(value)
        table.append(
            {
                "data": name,
                "seed": seed,
                "hidden": settings.hidden,
                "log_likelihood": value,
                "low": low,
                "high": high,
                "gaussian": gaussian.full,
                "diagonal": gaussian.diagonal,
                "shrinkage": gaussian.shrinkage,
                "binary_units": round(gaussian.bits, 1),
                "finite": finite,
                "cpu_seconds": round(cpu, 1),
            }
        )
        record.say(f"{name}, seed {seed}: {value:.1f} nats per row, Gaussian {gaussian.full:.1f} ({cpu:.0f} s)")
    good = torch.tensor([value for value in values if math.isfinite(value)], dtype=torch.float64)
    mean, spread = good.mean().item(), (good.std() / len(good) ** 0.5).item() if len(good) > 1 else 0.0
    record.claim(
        f"{name}: all seeds are finite, and above a diagonal Gaussian",
        f"{len(good)} of {len(values)} finite; {good.min().item():.1f} to {good.max().item():.1f} nats per row, "
        f"diagonal {gaussian.diagonal:.1f}",
        len(good) == len(values) and good.min().item() > gaussian.diagonal,
    )
    record.claim(
        f"{name}: above a Gaussian with a full covariance",
        f"{mean:.1f} ± {spread:.1f} nats per row, full covariance {gaussian.full:.1f}, which needs about "
        f"{gaussian.bits:.0f} binary units; the machine has {settings.hidden}",
        Measured(mean - gaussian.full, spread, max(len(good) - 1, 1)).above(0.0),
    )
    return machine


def _log_likelihood(machine: hm.RBM, rows: Tensor, seed: int) -> tuple[float, float, float]:
    """The mean log-likelihood of rows, and the ends of its interval: equal if it is exact."""
    if machine.hidden.size <= _EXACT:
        value = machine.double().log_probability(rows).mean().item()
        return value, value, value
    found = hm.likelihood.estimate(machine, rows, seed=seed)
    return found.value, *found.interval


def _sheet(rows: Rows, machine: hm.RBM) -> Figure:
    """A figure with data, samples, means of samples, and weights."""
    machine = machine.float()
    precision: Tensor = machine.visible.natural()["precision"].detach()
    chains = machine.sample(_SHOWN, sweeps=2000, seed=0, check_mixing=False)
    means = machine.visible_mean(machine.sample_hidden(chains)).detach()
    strokes = (machine.weight.detach() / precision[:, None]).T[:_SHOWN]
    kinds = {
        "test rows": rows.pixels(rows.test[:: max(1, len(rows.test) // _SHOWN)][:_SHOWN]),
        "samples": rows.pixels(chains),
        "means given h": rows.pixels(means),
        "weights": rows.pixels(strokes) - rows.pixels(torch.zeros_like(strokes)),
    }
    figure = Figure(figsize=(9, 3.4), dpi=100)
    axes = figure.subplots(len(kinds), 1)
    for ax, (title, x) in zip(axes, kinds.items(), strict=True):
        images = x.view(-1, *rows.image).numpy()
        signed = title == "weights"
        ax.imshow(
            diverging(images, columns=_SHOWN) if signed else mosaic(images, columns=_SHOWN, limits=(0, 1), ink=False)
        )
        ax.set_ylabel(title, rotation=0, ha="right", va="center")
        ax.set_xticks([])
        ax.set_yticks([])
    figure.tight_layout()
    return figure

"""The commands ``spectrum``, ``landscape`` and ``interactions``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from .. import files, interactions, landscape, plots, spectra
from ..errors import InvalidOption
from ..machines import RBM
from ..report import some_rows
from ..runs.setup import reopen, started_by_fit
from ..training import Run
from . import output, show
from .output import check_figure, figure_suffix
from .steps import step

if TYPE_CHECKING:
    pass

_MODES = 10  # modes whose span is compared with that of the data's principal axes
_SHOWN = 12  # lines of the table
_LINES = 60  # lines of the network of interactions


def spectrum_run(
    folder: Path, *, data: str | None = None, layer: int = 0, relative: bool = False, figures: str = "png"
) -> dict[str, Any]:
    """Print the singular values during the run; write ``spectrum.png`` and, if rows are images, ``modes.png``."""
    suffix = figure_suffix(figures)
    setup = reopen(folder, data)
    history = spectra.spectral_history(Run(folder).machines(), layer, relative=relative)
    rows = some_rows(setup.rows.train, setup.machine, 60_000, seed=0)
    axes = spectra.data_modes(rows) if layer == 0 else None
    modes = min(_MODES, len(history.spectra[0]))
    aligned = None if axes is None else history.alignment(axes.axes, modes).tolist()
    show.table(
        f"{folder}: singular values of {'relative ' * relative}weights",
        ["epoch", "above the noise", "effective rank", "largest", "median", f"axes of the data ({modes})"],
        [
            [
                f"{history.epochs[k]:g}",
                history.outliers[k],
                f"{found.effective_rank:.1f}",
                *(show.number(value) for value in (found.values[0].item(), found.values.median().item())),
                "" if aligned is None else f"{aligned[k]:.0%}",
            ]
            for k, found in ((k, history.spectra[k]) for k in _some(history.epochs))
        ],
        numbers=range(6),
    )
    output.write_figure(folder / f"spectrum{suffix}", plots.spectrum_page(history, axes))
    if axes is not None and setup.rows.image is not None:
        output.write_figure(folder / f"modes{suffix}", plots.mode_page(history.spectra[-1], axes, setup.rows.image))
    return {
        "epochs": list(history.epochs),
        "above_noise": list(history.outliers),
        "effective_rank": [found.effective_rank for found in history.spectra],
        "singular_values": [found.values.tolist() for found in history.spectra],
        "alignment": aligned,
    }


def landscape_run(
    folder: Path,
    *,
    data: str | None = None,
    n: int = 1000,
    method: str = "tap",
    seed: int = 0,
    figures: str = "png",
) -> dict[str, Any]:
    """Print the mean-field solutions from ``n`` rows of the data during the run; write ``landscape.png``."""
    suffix = figure_suffix(figures)
    setup = reopen(folder, data)
    starts = some_rows(setup.rows.train, setup.machine, n, seed=seed)
    with step(f"{method} solutions from {len(starts)} rows"):
        growth = landscape.growth(Run(folder).machines(), starts, method=method)
    show.table(
        f"{folder}: {method} solutions from {len(starts)} rows of the data",
        ["epoch", "solutions", "converged"],
        [
            [f"{growth.epochs[k]:g}", growth.counts[k], f"{growth.landscapes[k].converged:.0%}"]
            for k in _some(growth.epochs)
        ],
        numbers=range(3),
    )
    print(growth.landscapes[-1].diagnosis)
    output.write_figure(folder / f"landscape{suffix}", plots.landscape_page(growth))
    last = growth.landscapes[-1]
    return {
        "epochs": list(growth.epochs),
        "solutions": list(growth.counts),
        "converged": [part.converged for part in growth.landscapes],
        "diagnosis": last.diagnosis,
        "free_energies": last.free_energy.tolist(),
        "basins": last.sizes.tolist(),
    }


def interactions_run(
    folder: Path,
    *,
    data: str | None = None,
    order: int = 2,
    n: int = 20,
    gauge: str | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    """Print the strongest interactions between visible units; for order 2, also write a plot."""
    if out is not None and order != 2:
        raise InvalidOption(f"--out: expected --order 2, whose interactions are drawn as lines, found --order {order}")
    path = folder / "interactions.png" if out is None else out
    check_figure(path)
    by_fit = data is None and started_by_fit(folder)  # the couplings need no rows
    machine = cast("RBM", files.load(folder) if by_fit else reopen(folder, data).machine)  # others are rejected below
    options = {} if gauge is None else {"gauge": gauge}
    with step(f"interactions of order {order}"):
        units, values = interactions.strongest(machine, order, n, **options)
    show.table(
        f"{folder}: the strongest interactions of order {order} (units are counted from 0)",
        ["units", "strength"],
        [
            [" ".join(map(str, row)), f"{value:+.4f}"]
            for row, value in zip(units.tolist(), values.tolist(), strict=True)
        ],
        numbers=(1,),
    )
    if order == 2:
        pairs, strength = interactions.strongest(
            machine, 2, min(_LINES, math.comb(machine.visible.sites, 2)), **options
        )
        chosen = pairs.unique()
        between = torch.zeros(len(chosen), len(chosen), dtype=strength.dtype)
        first, second = torch.searchsorted(chosen, pairs).T
        between[first, second] = between[second, first] = strength
        names = [str(unit) for unit in chosen.tolist()]
        figure = plots.interaction_network(between, names, n=len(pairs), title="Strongest couplings")
        output.write_figure(path, figure)
    return {"order": order, "units": units.tolist(), "strength": values.tolist()}


def _some(epochs: Sequence[float]) -> list[int]:
    """Return the indices of a few checkpoints, including the first and the last."""
    last, lines = len(epochs) - 1, min(len(epochs), _SHOWN)
    return [round(k * last / max(1, lines - 1)) for k in range(lines)]

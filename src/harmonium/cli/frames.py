"""Runs on sequences of frames: the command ``forecast``, and ``sample`` and ``evaluate`` of such runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import data, plots
from ..errors import InvalidData, InvalidOption
from ..machines import ConditionalRBM
from ..report import Sequences, some_rows
from ..runs.rows import load_test
from ..runs.setup import Setup, reopen
from ..tasks import forecast
from ..training.contexts import Windows
from . import output

_SHOWN = 30  # frames before the forecast in the figure


def forecast_run(
    folder: Path,
    *,
    frames: int,
    n: int,
    after: Path | None,
    sweeps: int,
    means: bool,
    seed: int,
    out: Path | None,
    data: str | None,
) -> None:
    """Continue the training sequences, or those in the file ``after``; write a table and a figure beside it."""
    path = folder / "forecast.csv" if out is None else out
    if path.suffix.lower() != ".csv":
        raise InvalidOption(f"out: expected a .csv file, found '{path.name}'")
    output.check_folder(path)
    setup = reopen(folder, data)
    machine, windows = _conditional(setup, folder)
    if after is None:
        pasts = [windows[windows.sequence == k][0] for k in windows.sequence.unique().tolist()]
        names = [str(k + 1) for k in range(len(pasts))]
    else:
        pasts, names = _read(after, windows)
    pasts = [past.to(machine.device, machine.dtype) for past in pasts]
    starts = torch.stack([past[-windows.order :] for past in pasts])
    found = windows.restored(forecast(machine, starts, frames, n=n, sweeps=sweeps, means=means, seed=seed).cpu())
    channels = setup.rows.channels or [f"channel-{k + 1}" for k in range(found[0, 0, 0].numel())]
    lines = (
        [names[k], one + 1, frame + 1, *values.flatten().tolist()]
        for k in range(len(names))
        for one in range(n)
        for frame, values in enumerate(found[k, one])
    )
    output.write_table(path, ["sequence", "continuation", "frame", *channels], lines)
    truth = _following(setup) if after is None else None
    past = windows.restored(pasts[0][-_SHOWN:].cpu())
    picture = path.with_suffix(".png")
    output.write_figure(picture, plots.forecasts(past, found[0], truth, setup.rows.channels))


def sample_frames(folder: Path, *, n: int, sweeps: int, seed: int, path: Path, source: str | None) -> None:
    """Write ``n`` samples of the next frame, given windows of random training rows, in the units of the data."""
    setup = reopen(folder, source)
    machine, windows = _conditional(setup, folder)
    _, context = frames_of(windows, machine, n, seed)
    given = machine.given(context)
    samples = windows.restored(given.sample(n, sweeps=sweeps, seed=seed, check_mixing=False).cpu())
    if path.suffix.lower() == ".csv" and setup.rows.channels is not None:
        output.write_columns(path, samples, setup.rows.channels)
    else:
        output.write(path, samples, machine, None)


def sequences_of(setup: Setup) -> tuple[str, Sequences]:
    """Return the frames of a run with their windows, and the name of the held-out ones."""
    name, test = load_test(setup.config, setup.rows)
    machine: Any = setup.machine
    held = None if test is None else frames_of(test, machine)
    return name, Sequences(frames_of(setup.rows.train, machine), held)


def frames_of(rows: Any, machine: ConditionalRBM, most: int = 10_000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return up to ``most`` random frames and their windows as states of the machine."""
    found: Any = some_rows(rows, machine, most, seed=seed)
    return found


def _following(setup: Setup) -> Tensor | None:
    """The held-out frames that follow the first training sequence."""
    _, test = load_test(setup.config, setup.rows)
    if not isinstance(test, Windows) or not isinstance(setup.rows.train, Windows):
        return None
    first = test[test.sequence == 0]
    return setup.rows.train.restored(torch.cat([first[1][0], first[0]]).cpu())


def _read(path: Path, windows: Windows) -> tuple[list[Tensor], list[str]]:
    frames = data.read_frames(path)
    for place, sequence in zip(frames.places or frames.names, frames.sequences, strict=True):
        if sequence.shape[1:] != windows.shape:
            raise InvalidData(f"{place}: expected frames of shape {windows.shape}, found {tuple(sequence.shape[1:])}")
        if len(sequence) < windows.order:
            raise InvalidData(
                f"{place}: expected at least {windows.order} frames, the length of the window, found {len(sequence)}"
            )
    return [windows.standardized(sequence.float()) for sequence in frames.sequences], list(frames.names)


def _conditional(setup: Setup, folder: Path) -> tuple[ConditionalRBM, Windows]:
    if not isinstance(setup.machine, ConditionalRBM) or not isinstance(setup.rows.train, Windows):
        raise InvalidOption(f"{folder}: expected a run on sequences, made with 'harmonium train DATA --window N'")
    return setup.machine, setup.rows.train

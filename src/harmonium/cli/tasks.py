"""The commands ``denoise`` and ``classify``: a trained machine on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from .. import plots
from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine
from ..report import some_rows
from ..runs.rows import load_test
from ..runs.setup import reopen
from ..tasks import AdditiveGaussian, BinarySymmetric, Channel, LabelClassifier, compare_denoisers
from ..tasks.denoising import METHODS
from ..units import Unit
from . import output, show

_PROBABILITIES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_DEVIATIONS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def denoise_run(
    folder: Path,
    *,
    data: str | None = None,
    levels: str | None = None,
    n: int = 200,
    method: str | None = None,
    neighbors: int = 1,
    seed: int = 0,
) -> dict[str, Any]:
    """Denoise ``n`` held-out rows (training rows if there are none) at every noise level.

    Prints a table of scores and writes ``denoise.png`` (and ``denoised.png`` if rows are images) into the run folder.
    Binary units get bit flips, others Gaussian noise.
    """
    if method is not None and method not in METHODS:
        raise unknown("method", method, METHODS)
    setup = reopen(folder, data)
    unit = setup.machine.visible
    channels = _channels(unit, numbers("levels", levels))
    name, test = load_test(setup.config, setup.rows)
    train = some_rows(setup.rows.train, setup.machine, 60_000, seed=0)
    signals = train[:n] if test is None else some_rows(test, setup.machine, n, seed=seed)
    machine = cast("BoltzmannMachine", setup.machine)  # other machines are rejected
    curves = compare_denoisers(
        machine, signals, train, channels, method=method, neighbors=neighbors, name=method or "machine", seed=seed
    )
    score = next(iter(curves.scores.values()))[0]
    kind = "training" if test is None else name
    show.table(
        f"{folder}: {score.name} of {len(signals)} {kind} rows, with {score.level:.0%} intervals",
        [curves.symbol, *curves.scores, "converged"],
        [[*row, f"{share:.0%}"] for row, share in zip(curves.table(), curves.converged, strict=True)],
        numbers=range(len(curves.scores) + 2),
    )
    pictures = {"denoise.png": plots.denoising_curves(curves, title=setup.rows.title)}
    if setup.rows.image is not None:
        pictures["denoised.png"] = plots.denoising_levels(curves, image=setup.rows.image, title=setup.rows.title)
    for file, figure in pictures.items():
        output.write_figure(folder / file, figure)
    scores = {
        name: [{"score": part.estimate, "interval": [part.low, part.high]} for part in parts]
        for name, parts in curves.scores.items()
    }
    return {"score": score.name, "rows": kind, "n": len(signals), "levels": list(curves.levels), **scores}


def classify_run(folder: Path, *, data: str | None = None) -> dict[str, Any]:
    """Print the error of the labels of test or held-out rows (training rows if there are none), and the confusions."""
    setup = reopen(folder, data)
    if not setup.config.data.labels:
        raise InvalidOption(f"{folder}: expected a run with labels, made with 'harmonium train DATA --labels'")
    name, test = load_test(setup.config, setup.rows)
    kind, source = ("training", setup.rows.train) if test is None else (name, test)
    classifier = LabelClassifier(cast("RBM", setup.machine))
    rows = source.rows(torch.arange(len(source)), setup.machine)
    truth, features = classifier.label.index(rows), rows[:, ~classifier.label.mask]
    error, table = classifier.error(features, truth), classifier.confusion(features, truth)
    loss = -classifier.predict_log_proba(features).gather(1, truth.unsqueeze(1)).mean().item()
    show.facts(
        f"{folder}: {setup.rows.title}, {len(truth):,} {kind} rows",
        {
            "error": f"{100 * error:.2f} % of the labels are wrong",
            "mean of -ln p(label)": f"{show.number(loss)} nats",
        },
    )
    show.table(
        "confusions: true label in each line, most probable label in each column",
        ["label", *map(str, range(len(table)))],
        [[str(k), *map(str, line)] for k, line in enumerate(table.tolist())],
        numbers=range(len(table) + 1),
    )
    return {"rows": kind, "n": len(truth), "error": error, "loss": loss, "confusion": table.tolist()}


def _channels(unit: Unit, levels: Sequence[float]) -> list[Channel]:
    """Return bit flips for binary units, Gaussian noise for other numeric units."""
    if unit.event_shape or unit.parts != [unit]:
        raise InvalidOption(f"denoise: expected numeric units of one type, found {unit.name()} units")
    states = unit.support.states()
    if states is None or len(states) != 2:
        return [AdditiveGaussian(level) for level in levels or _DEVIATIONS]
    values = (float(states[0]), float(states[1]))
    return [BinarySymmetric(level, values=values) for level in levels or _PROBABILITIES]


def numbers(name: str, text: str | None) -> tuple[float, ...]:
    """Parse numbers separated by commas; empty if ``text`` is None.

    >>> numbers("levels", "0.1,0.2")
    (0.1, 0.2)
    """
    try:
        return () if text is None else tuple(map(float, text.split(",")))
    except ValueError:
        raise InvalidOption(f"{name}: expected numbers separated by commas, found '{text}'") from None

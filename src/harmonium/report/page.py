"""Write ``report.html`` of a run folder."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from torch import Tensor

from .. import files, plots
from ..arrays import as_tensor
from ..errors import HarmoniumError, InvalidData, NotMixed
from ..machines import Machine
from ..meanfield import reconstruct
from ..noise import Purpose, Seed, resolve_seed
from ..plots import tiling
from ..plots.curves import described, drawable, drawn, of_machine
from ..plots.kernel_images import kernel_tiles
from ..plots.machine import is_ink, ordered_weights, paired, value_range
from ..runs import reopen, rows
from ..training import Run
from ..training.batches import Source
from ..training.greedy import machine_folder
from ..training.incomplete import completed
from ..training.state import stream
from ..units.support import OneHot
from . import figures
from .analysis import Analysis, analyze, number
from .configuration import command, layers, summary
from .sequences import Sequences, forecasts
from .subject import RunSubject

_ROWS = 10_000  # rows of the evaluation
_TILES, _WIDE = 60, 10
_FIELDS = 120
_KINDS = {
    "RBM": "restricted Boltzmann machine",
    "ConditionalRBM": "conditional restricted Boltzmann machine",
    "DeepBoltzmannMachine": "deep Boltzmann machine",
    "DeepBeliefNetwork": "deep belief network",
}


def write(
    run: str | Path,
    *,
    data: Tensor | None = None,
    test: Tensor | None = None,
    test_name: str = "test",
    image: tuple[int, int, int] | None = None,
    letters: str | None = None,
    sequences: Sequences | None = None,
) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    The page is one self-contained file.

    Args:
        run: the run folder.
        data: rows (n, *visible) to show and evaluate; by default those named in the configuration of the run.
        test: held-out rows (n, *visible).
        test_name: name of the held-out rows on the page.
        image: shape (channels, height, width) of a row, to show rows as images.
        letters: one letter for each state of Potts units.
        sequences: frames of sequences with their windows, instead of ``data`` and ``test``.
    """
    folder = Run(run)
    machine = files.load(folder.folder)
    config = folder.read_config()
    if data is None and sequences is None and isinstance(config.get("data"), dict) and "source" in config["data"]:
        data, test, test_name, image, letters = _recorded(folder.folder)
    data, test = _numbers(machine, data, "data"), _numbers(machine, test, "test")
    history = folder.read_metrics()
    subject = RunSubject(folder, machine, config, history, data, test, test_name, image, letters, sequences)
    target = folder.folder / "report.html"
    files.write_text(target, _page(subject))
    return target


def _numbers(machine: Machine, rows: Any, what: str) -> Tensor | None:
    """Return rows of any kind as a tensor; the plots and measures check their shape."""
    if rows is None:
        return None
    numbers = as_tensor(rows, what).to(machine.device, machine.dtype)
    if numbers.dim() < 2 or not len(numbers):
        raise InvalidData(f"{what}: expected at least one row, found shape {tuple(numbers.shape)}")
    expected = tuple(machine.layers[0].shape)
    if tuple(numbers.shape[1:]) != expected:
        raise InvalidData(f"{what}: expected rows of shape {expected}, found {tuple(numbers.shape[1:])}")
    return numbers


def some_rows(rows: Source, machine: Machine, most: int = _ROWS, *, seed: Seed = None) -> Tensor:
    """Draw up to ``most`` rows without replacement, as visible states; missing values are sampled given the others."""
    generator = stream(resolve_seed(seed), Purpose.SHOW)
    index = torch.randperm(len(rows), generator=generator)[:most]
    return completed(rows, index, machine, generator=generator)


def _recorded(folder: Path) -> tuple[Tensor, Tensor | None, str, Any, str | None]:
    """Load the rows named in the configuration of the run."""
    setup = reopen(folder)
    name, test = rows.load_test(setup.config, setup.rows)
    held = None if test is None else some_rows(test, setup.machine, seed=0)
    return some_rows(setup.rows.train, setup.machine, seed=0), held, name, setup.rows.image, setup.rows.letters


def render(template: str, **parts: Any) -> str:
    """Return a page of a template of this folder. All text is escaped, except drawings, which are markup."""
    from .. import __version__

    options: Any = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), **options)
    return pages.get_template(template).render(version=__version__, **parts)


def _page(subject: RunSubject) -> str:
    found = analyze(subject)
    run, training, source = subject.run, subject.table("training"), subject.table("data").get("source")
    named = layers(subject.machine)
    held_out = any(row.test is not None for row in found.measures)
    drawn_figures = {name: found.figures.get(name) for name in ("quality", "spectrum", "landscape")}
    return render(
        "page.html",
        title=f"{named} on {Path(str(source)).name}" if source else named,
        kind=_KINDS.get(type(subject.machine).__name__, "Boltzmann machine"),
        hidden_layers=len(subject.hidden_layers),
        done=subject.epoch,
        wanted=training.get("epochs", subject.epoch),
        folder=run.folder.name,
        key_numbers=_cards(subject, found),
        verdicts=found.verdicts,
        measures=[
            [row.name, number(row.train), *([number(row.test)] if held_out else []), row.unit, row.better, row.note]
            for row in found.measures
            if held_out or row.train is not None
        ],
        held_out=held_out,
        seen=found.seen,
        data_kind=_kind(subject),
        frequencies=subject.image is None and isinstance(subject.machine.layers[0].support, OneHot),
        test_name=subject.test_name,
        has_test=subject.test is not None,
        **_samples(subject),
        receptive_fields=[_receptive_fields(subject, layer) for layer in subject.hidden_layers],
        reconstructions=_reconstructions(subject),
        pretraining=_pretraining(subject),
        training=[_curve(subject.history, name, f"curve-{k}") for k, name in enumerate(drawable(subject.history))],
        **_activity(subject),
        **drawn_figures,
        summary=summary(subject),
        again=f"harmonium train --config {shlex.quote(run.folder.name)}/config.toml "
        f"--run {shlex.quote(run.folder.name)}-again",
        command=command(subject.config),
        config=run.config_path.read_text(encoding="utf-8"),
    )


def _cards(subject: RunSubject, found: Analysis) -> list[tuple[str, str, str]]:
    """The key numbers; those of the evaluation, or the last metrics of a run without its data."""
    last: dict[str, float] = {}
    for row in subject.history:
        last |= row
    parameters = sum(p.numel() for p in subject.machine.parameters() if p.requires_grad)
    cards = [(f"{parameters:,}", "parameters", "weights and biases")]
    if "seconds" in last:
        speed = f"{last['samples_per_second']:,.0f} rows per second" if "samples_per_second" in last else ""
        cards.append((_time(last["seconds"]), "time of the updates", speed))
    if not found.measures:
        for name in drawn([last]):
            words, unit = described(name)
            if of_machine(name)[0] in plots.METRICS and name != "weight_norm":
                cards.append((f"{last[name]:.3g}".replace("-", "−").replace("inf", "∞"), words.lower(), unit))
    return [*cards, *found.cards]


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# -- figures ----------------------------------------------------------------------------------------------------


def _samples(subject: RunSubject) -> dict[str, Any]:
    """Return drawings of rows of the data and of samples, or of continuations of sequences."""
    if subject.sequences is not None:
        name = "training" if subject.sequences.test is None else subject.test_name
        return {"forecasts": forecasts(subject.conditional, subject.sequences, name), "data": None, "samples": None}
    data = None if subject.data is None else _states(subject, subject.data[:_TILES], "data", "Data")
    samples: dict[str, Any] = {"drawing": None, "n": _TILES, "sweeps": subject.sweeps, "warnings": [], "error": None}
    try:
        with warnings.catch_warnings(record=True, category=NotMixed) as found:
            warnings.simplefilter("always", NotMixed)
            samples["drawing"] = _states(subject, _draw(subject), "samples", "Samples")
        samples["warnings"] = [warning.message for warning in found]
    except HarmoniumError as error:
        samples["error"] = error
    return {"forecasts": None, "data": data, "samples": samples}


def _draw(subject: RunSubject) -> Tensor:
    machine, steps = subject.machine, subject.sweeps
    try:
        return machine.sample(_TILES, sweeps=steps, seed=0)
    except HarmoniumError:  # counts without a fixed total take the length of a document from the data
        if subject.data is None:
            raise
        return machine.sample(_TILES, sweeps=steps, start=subject.data[:_TILES], seed=0)


def _states(subject: RunSubject, states: Tensor, name: str, title: str) -> Markup:
    alt = f"{title}: {len(states)} rows of visible states"
    if subject.image is None:
        return figures.svg(plots.samples(subject.machine, states, letters=subject.letters), name, alt)
    shown, pixels = tiling.pictures(states, subject.image), subject.machine.visible.parts[0]
    return figures.png(plots.mosaic(shown, columns=_WIDE, limits=value_range(pixels, shown), ink=is_ink(pixels)), alt)


def _kind(subject: RunSubject) -> str:
    """Return the kind of the data, for captions."""
    if subject.image is not None:
        return "images"
    return "sequences" if subject.letters is not None else "columns"


def _receptive_fields(subject: RunSubject, layer: int) -> dict[str, Any]:
    """Return a drawing of the weights of a hidden layer, or of its kernels."""
    machine, image = subject.machine, subject.image
    weights, limit = ordered_weights(machine, _FIELDS, layer)
    count, title = len(weights), subject.of_layer("Receptive fields", layer)
    alt = f"{title}, of the {count} hidden units with the largest weights"
    tiles = kernel_tiles(machine.couplings[0], _FIELDS) if layer == 1 else None
    if tiles is not None:
        title = subject.of_layer("Kernels", layer)
        drawing = figures.png(tiles.picture(10), f"Kernels of {len(tiles.images)} feature maps")
        drawing += "" if tiles.images.shape[1] == 3 else _key(tiles.limit)
    elif image is None:
        figure = plots.receptive_fields(machine, layer=layer, n=count, letters=subject.letters)
        drawing = figures.svg(figure, f"fields-{layer}", alt)
    else:
        columns = 15 if count >= 45 else 10
        drawing = figures.png(plots.diverging(tiling.pictures(weights, image), columns=columns, limit=limit), alt)
        drawing += "" if image[0] == 3 else _key(limit)
    return {"title": title, "layer": layer, "kernels": tiles is not None, "drawing": drawing}


def _key(limit: float) -> Markup:
    """Return the scale of the colors."""
    return Markup('<p class="key">−{:.2g} <i role="presentation"></i> +{:.2g}</p>').format(limit, limit)


def _reconstructions(subject: RunSubject) -> Markup | None:
    rows, machine = subject.test if subject.test is not None else subject.data, subject.machine
    if rows is None:
        return None
    alt = "Data and their reconstructions"
    if subject.image is None:
        return figures.svg(plots.reconstructions(machine, rows[:500]), "reconstructions", alt)
    some = rows[:30]
    before, after = (tiling.pictures(x, subject.image) for x in (some, reconstruct(machine, some)))
    pixels, across = machine.visible.parts[0], min(15, len(some))
    limits = value_range(pixels, before)
    picture = plots.mosaic(paired(before, after, across), columns=across, limits=limits, ink=is_ink(pixels))
    return figures.png(picture, alt)


def _pretraining(subject: RunSubject) -> list[dict[str, Any]]:
    """One curve for each pretrained RBM: the pseudo-likelihood, or else the reconstruction error."""
    parts = []
    for layer in subject.hidden_layers if subject.table("training").get("pretrain") else ():
        history = Run(machine_folder(subject.run.folder, layer - 1)).read_metrics()
        names = [name for name in drawn(history) if name in ("pseudo_likelihood", "reconstruction")]
        if names:
            parts.append(_curve(history, names[0], f"pretraining-{layer}", f", layers {layer - 1} and {layer}"))
    return parts


def _curve(history: Sequence[dict[str, float]], name: str, prefix: str, where: str = "") -> dict[str, Any]:
    title, unit = described(name)
    figure = plots.learning_curve(history, name)
    figure.axes[0].set_title("", loc="left")
    first, last = ([row[name] for row in history if name in row][k] for k in (0, -1))
    alt = f"{title}{where} against the epoch, in {unit}: from {first:.4g} to {last:.4g}"
    return {"title": title + where, "metric": of_machine(name)[0], "drawing": figures.svg(figure, prefix, alt)}


def _activity(subject: RunSubject) -> dict[str, Any]:
    """Return drawings of the activity of each hidden layer on the data, and of the weights."""
    if subject.data is None:
        return {"activity": [], "weights": None}
    alt, parts = "Mean activity of each hidden unit over the data, sorted", []
    for layer in subject.hidden_layers:
        figure = plots.hidden_activity(subject.machine, subject.data[:2000], layer=layer)
        title = subject.of_layer("Hidden activity", layer)
        parts.append({"title": title, "drawing": figures.svg(figure, f"activity-{layer}", alt)})
    histogram = figures.svg(plots.weight_histogram(subject.machine), "weights-1", "Histogram of the weights")
    return {"activity": parts, "weights": histogram}

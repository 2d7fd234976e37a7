"""Write ``report.html`` of a run folder."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import files, plots
from ..arrays import as_tensor
from ..errors import HarmoniumError, InvalidData, NotMixed
from ..machines import Machine
from ..meanfield import reconstruct
from ..noise import Purpose, resolve_seed
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
from ..training.values import text_of
from ..units.support import OneHot
from . import figures, html
from .analysis import Analysis, analyze, number, verdict_list
from .html import escape
from .sequences import Sequences, forecast_section
from .subject import RunSubject

_ROWS = 10_000  # rows of the evaluation
_TILES, _WIDE = 60, 10
_FIELDS = 120
_TABLES = ("data", "machine", "training")
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


def some_rows(rows: Source, machine: Machine, most: int = _ROWS, *, seed: int | None = 0) -> Tensor:
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


def _page(subject: RunSubject) -> str:
    title, found = _title(subject), analyze(subject)
    body = "\n".join(
        [
            f"<header><h1>{escape(title)}</h1><p>{_lead(subject)}</p>{html.cards(_cards(subject, found))}</header>",
            "<main>",
            html.section("Evaluation", "evaluation", _evaluation(subject, found)),
            html.section("Samples and data", "samples", _samples(subject)),
            html.section("Weights and reconstructions", "learned", _learned(subject)),
            html.section("Pretraining", "pretraining", _pretraining(subject)),
            html.section("Training", "training", _curves(subject)),
            html.section("Hidden units and weights", "activity", _activity(subject)),
            html.section("Analysis", "analysis", found.figures),
            html.section("Configuration", "run", _configuration(subject)),
            "</main>",
        ]
    )
    return document(title, body)


def document(title: str, body: str) -> str:
    """Return a self-contained page. ``body`` is markup."""
    css = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    foot = f"<footer>Written by harmonium {escape(_version())}. This page is self-contained.</footer>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n{body}\n{foot}\n</body>\n</html>\n"
    )


# -- head -------------------------------------------------------------------------------------------------------


def _title(subject: RunSubject) -> str:
    source = subject.table("data").get("source")
    on = f" on {Path(str(source)).name}" if source else ""
    return f"{_layers(subject.machine)}{on}"


def _layers(machine: Machine) -> str:
    return " – ".join(f"{'×'.join(map(str, unit.shape))} {unit.name()}" for unit in machine.layers)


def _lead(subject: RunSubject) -> str:
    done = int(subject.history[-1]["epoch"]) if subject.history else 0
    wanted = subject.table("training").get("epochs", done)
    state = f"{done} epochs" if done == wanted else f"{done} of {wanted} epochs, not finished"
    kind = _KINDS.get(type(subject.machine).__name__, "Boltzmann machine")
    hidden = len(subject.hidden_layers)
    deep = "" if hidden == 1 else f" with {hidden} hidden layers"
    words = f"A {kind}{deep} after {state}. Run folder"
    return f"{escape(words)} <b>{escape(subject.run.folder.name)}</b>."


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


def _samples(subject: RunSubject) -> list[str]:
    if subject.sequences is not None:
        name = "training" if subject.sequences.test is None else subject.test_name
        return forecast_section(subject.conditional, subject.sequences, name)
    parts = []
    if subject.data is not None:
        shows = "Random rows of the training data."
        good = "they look as you expect."
        bad = "inverted, scrambled or all alike: check how the data are loaded."
        parts.append(_states(subject, subject.data[:_TILES], "data", "Data", shows, good, bad))
    try:
        with warnings.catch_warnings(record=True, category=NotMixed) as found:
            warnings.simplefilter("always", NotMixed)
            drawn_states = _draw(subject)
    except HarmoniumError as error:
        return [*parts, f"<p>No samples: {escape(error)}.</p>"]
    shows = f"The states of {_TILES} independent chains after {subject.sweeps} Gibbs sweeps."
    shows += "".join(f" Warning: {warning.message}." for warning in found)
    good = "as varied and as sharp as the data." if subject.image is not None else "they look like the data."
    bad = "all alike, noise, or less varied than the data: try more epochs, sweeps or chains."
    parts.append(_states(subject, drawn_states, "samples", "Samples", shows, good, bad))
    return ['<div class="grid">', *parts, "</div>"]


def _draw(subject: RunSubject) -> Tensor:
    machine, steps = subject.machine, subject.sweeps
    try:
        return machine.sample(_TILES, sweeps=steps, seed=0)
    except HarmoniumError:  # counts without a fixed total take the length of a document from the data
        if subject.data is None:
            raise
        return machine.sample(_TILES, sweeps=steps, start=subject.data[:_TILES], seed=0)


def _states(subject: RunSubject, states: Tensor, name: str, title: str, shows: str, good: str, bad: str) -> str:
    alt = f"{title}: {len(states)} rows of visible states"
    if subject.image is not None:
        shown, pixels = tiling.pictures(states, subject.image), subject.machine.visible.parts[0]
        limits = value_range(pixels, shown)
        picture = plots.mosaic(shown, columns=_WIDE, limits=limits, ink=is_ink(pixels))
        return html.figure(figures.png(picture, alt), title, shows, good, bad)
    figure = plots.samples(subject.machine, states, letters=subject.letters)
    if isinstance(subject.machine.visible.support, OneHot):
        shows += " The plot shows the frequency of each state at each site."
    return html.figure(figures.svg(figure, name, alt), title, shows, good, bad)


def _learned(subject: RunSubject) -> list[str]:
    parts = [*(_receptive_fields(subject, layer) for layer in subject.hidden_layers), _reconstructions(subject)]
    return parts if subject.image is not None else ['<div class="grid">', *parts, "</div>"]


#: what good weights look like, by the kind of the data
_GOOD_FIELDS = {
    "images": "local strokes, edges or parts that differ between units.",
    "sequences": "strong weights at a few sites, for letters that occur together, and different sites between units.",
    "columns": "strong weights for a few columns that belong together, and different columns between units.",
}


def _kind(subject: RunSubject) -> str:
    """Return the kind of the data, for captions."""
    if subject.image is not None:
        return "images"
    return "sequences" if subject.letters is not None else "columns"


def _receptive_fields(subject: RunSubject, layer: int) -> str:
    machine, image = subject.machine, subject.image
    weights, limit = ordered_weights(machine, _FIELDS, layer)
    count, title = len(weights), subject.of_layer("Receptive fields", layer)
    colors = "Positive weights are red, negative weights blue."
    shows = f"The weights of each hidden unit, in the order of their norms. {colors}"
    if layer > 1:
        shows = f"The weights of each unit of hidden layer {layer}, multiplied with those of the layers below. {colors}"
    good = _GOOD_FIELDS[_kind(subject)]
    bad = "noise (too little training), many copies of one field, or almost all zero (too strong a penalty)."
    alt = f"{title}, of the {count} hidden units with the largest weights"
    tiles = kernel_tiles(machine.couplings[0], _FIELDS) if layer == 1 else None
    if tiles is not None:
        alt = f"Kernels of {len(tiles.images)} feature maps"
        shows = f"The kernels of the feature maps, in the order of their norms. {colors}"
        key = "" if tiles.images.shape[1] == 3 else _key(tiles.limit)
        drawing = figures.png(tiles.picture(10), alt)
        return html.figure(drawing + key, subject.of_layer("Kernels", layer), shows, good.replace("units", "maps"), bad)
    if image is None:
        figure = plots.receptive_fields(machine, layer=layer, n=count, letters=subject.letters)
        if isinstance(machine.visible.support, OneHot):
            shows = f"The weights of the hidden unit with the largest norm, for each state at each site. {colors}"
        return html.figure(figures.svg(figure, f"fields-{layer}", alt), title, shows, good, bad)
    columns = 15 if count >= 45 else 10
    picture = plots.diverging(tiling.pictures(weights, image), columns=columns, limit=limit)
    scale = "" if image[0] == 3 else _key(limit)
    return html.figure(figures.png(picture, alt) + scale, title, shows, good, bad)


def _key(limit: float) -> str:
    return f'<p class="key">−{limit:.2g} <i role="presentation"></i> +{limit:.2g}</p>'


def _reconstructions(subject: RunSubject) -> str:
    rows, machine = subject.test if subject.test is not None else subject.data, subject.machine
    if rows is None:
        return ""
    whose = f"{subject.test_name} rows, not used in training" if subject.test is not None else "training rows"
    shows = f"Mean visible values given the mean hidden values of a row, ⟨v | ⟨h | v⟩⟩, for {whose}."
    good = "close to the data, slightly smoothed."
    bad = "close to the average of all rows (too few hidden units or epochs). Accurate ones alone prove little."
    alt = "Data and their reconstructions"
    if subject.image is None:
        figure = plots.reconstructions(machine, rows[:500])
        return html.figure(figures.svg(figure, "reconstructions", alt), "Reconstructions", shows, good, bad)
    shows += " Upper lines: data. Lower lines: reconstructions."
    some = rows[:30]
    before, after = (tiling.pictures(x, subject.image) for x in (some, reconstruct(machine, some)))
    pixels = machine.visible.parts[0]
    limits = value_range(pixels, before)
    across, ink = min(15, len(some)), is_ink(pixels)
    picture = plots.mosaic(paired(before, after, across), columns=across, limits=limits, ink=ink)
    return html.figure(figures.png(picture, alt), "Reconstructions", shows, good, bad)


_CURVE_WORDS = {
    "pseudo_likelihood": (
        "The log-probability of a visible unit given all others, on up to 1,000 training rows.",
        "rises, then levels off (the maximum is 0 for discrete units).",
        "falls or jumps: the learning rate is too large.",
    ),
    "reconstruction": (
        "The squared error of ⟨v | ⟨h | v⟩⟩, on up to 1,000 training rows.",
        "falls, then levels off.",
        "rises steadily. It can fall while samples get worse, so do not trust it alone.",
    ),
    "free_energy_gap": (
        "The mean free energy of held-out rows minus that of training rows.",
        "stays near zero.",
        "keeps growing: the machine overfits.",
    ),
    "mixing_time": (
        "The number of Gibbs sweeps between independent states, from short runs of a few chains during training.",
        "stays short.",
        "grows beyond the number of sweeps of a run: samples depend on where their chains start.",
    ),
    "chain_drift": (
        "How far the mean of the chains moves with fixed parameters.",
        "stays below 5: the chains follow the machine.",
        "larger: the chains are out of equilibrium; use more sweeps per update or a smaller learning rate.",
    ),
    "label_error": (
        "The fraction of validation rows whose most probable label is wrong.",
        "falls, then levels off.",
        "rises while the reconstruction error falls: the machine overfits.",
    ),
    "weight_norm": (
        "The Frobenius norm of the weights.",
        "grows quickly at first, then slowly.",
        "diverges, or stays near zero.",
    ),
}


def _curves(subject: RunSubject) -> list[str]:
    parts = [_curve(subject.history, name, f"curve-{k}") for k, name in enumerate(drawable(subject.history))]
    return ['<div class="grid small">', *parts, "</div>"] if parts else []


def _pretraining(subject: RunSubject) -> list[str]:
    """One curve for each pretrained RBM: the pseudo-likelihood, or else the reconstruction error."""
    if not subject.table("training").get("pretrain"):
        return []
    parts = []
    for layer in subject.hidden_layers:
        run = Run(machine_folder(subject.run.folder, layer - 1))
        history = run.read_metrics()
        names = [name for name in drawn(history) if name in ("pseudo_likelihood", "reconstruction")]
        if names:
            parts.append(_curve(history, names[0], f"pretraining-{layer}", f", layers {layer - 1} and {layer}"))
    return ['<div class="grid small">', *parts, "</div>"] if parts else []


def _curve(history: Sequence[dict[str, float]], name: str, prefix: str, where: str = "") -> str:
    title, unit = described(name)
    shows, good, bad = _CURVE_WORDS.get(
        of_machine(name)[0], ("A metric recorded in training.", "as you expect.", "otherwise.")
    )
    figure = plots.learning_curve(history, name)
    figure.axes[0].set_title("", loc="left")
    first, last = ([row[name] for row in history if name in row][k] for k in (0, -1))
    alt = f"{title}{where} against the epoch, in {unit}: from {first:.4g} to {last:.4g}"
    return html.figure(figures.svg(figure, prefix, alt), title + where, shows, good, bad)


def _activity(subject: RunSubject) -> list[str]:
    parts: list[str] = []
    if subject.data is None:
        return parts
    for layer in subject.hidden_layers:
        figure = plots.hidden_activity(subject.machine, subject.data[:2000], layer=layer)
        parts.append(
            html.figure(
                figures.svg(figure, f"activity-{layer}", "Mean activity of each hidden unit over the data, sorted"),
                subject.of_layer("Hidden activity", layer),
                "The mean value of every hidden unit over the data, and the range of the middle 80 % of the rows.",
                "wide bands: each unit responds to some rows and not to others.",
                "a flat line at 0 or 1 without a band: units that never change.",
            )
        )
    parts.append(
        html.figure(
            figures.svg(plots.weight_histogram(subject.machine), "weights-1", "Histogram of the weights"),
            "Weights",
            "Histogram of all weights with a logarithmic vertical axis.",
            "a peak at zero with broad tails: a few strong weights among many weak ones.",
            "a narrow Gaussian (little was learned), or isolated outliers (too large a learning rate).",
        )
    )
    return ['<div class="grid">', *parts, "</div>"]


# -- tables -----------------------------------------------------------------------------------------------------


def _evaluation(subject: RunSubject, found: Analysis) -> list[str]:
    parts = [verdict_list(found.verdicts)]
    if found.measures:
        held_out = any(row.test is not None for row in found.measures)
        cells = [
            [row.name, number(row.train), *([number(row.test)] if held_out else []), row.unit, row.better, row.note]
            for row in found.measures
            if held_out or row.train is not None
        ]
        columns = ["measure", "train", *([subject.test_name] if held_out else []), "unit", "better", "note"]
        parts.append(html.table(columns, cells, f"Measured on {found.seen}."))
    return parts


def _configuration(subject: RunSubject) -> list[str]:
    folder = subject.run.folder.name
    text = subject.run.config_path.read_text(encoding="utf-8")
    words = f"harmonium train --config {shlex.quote(folder)}/config.toml --run {shlex.quote(folder)}-again"
    full = command(subject.config)
    return [
        html.facts(_summary(subject)),
        "<h3>Repeat this run</h3>" if full else "",
        "<p>The same version and the same number of threads give the same result, bit-for-bit.</p>"
        f"<pre>{escape(words)}</pre>"
        f"<p>Or with all options on the command line:</p><pre>{escape(full)}</pre>"
        if full
        else "",
        f"<details><summary>config.toml</summary><pre>{escape(text)}</pre></details>",
    ]


def _summary(subject: RunSubject) -> dict[str, Any]:
    data, training = (subject.table(name) for name in ("data", "training"))
    words = {name: text_of(name, value) for name, value in training.items()}
    rate = words.get("learning_rate")
    rows = {
        "machine": _layers(subject.machine),
        "data": data.get("source"),
        "rows": f"{data['rows']:,}" if isinstance(data.get("rows"), int) else data.get("rows"),
        "binarized": data.get("binarize"),
        "negative phase": words.get("negative"),
        "pretraining": f"{training['pretrain']} epochs of each layer" if training.get("pretrain") else None,
        "optimizer": None if rate is None else f"{words.get('optimizer')}, learning rate {rate}",
        **{name: words.get(name) for name in ("schedule", "penalties", "constraints", "epochs")},
        "batch size": words.get("batch_size"),
        "seed": words.get("seed"),
        "threads": subject.table("machine").get("threads"),
        "version": subject.config.get("harmonium") if isinstance(subject.config.get("harmonium"), str) else None,
    }
    return {name: value for name, value in rows.items() if value is not None}


def command(config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, or an empty string if the configuration does not name its data.

    >>> command({"data": {"source": "digits", "labels": True}, "training": {"epochs": 3, "centered": False}})
    'harmonium train digits --labels --epochs 3 --centered false'
    """
    tables = {name: config[name] if isinstance(config.get(name), Mapping) else {} for name in _TABLES}
    source = tables["data"].get("source")
    if not source:
        return ""
    words = ["harmonium", "train", str(source)]
    for table in (tables["data"], tables["machine"]):
        for key, value in table.items():
            if key not in ("source", "rows", "bytes", "sha256", "mean"):
                flag = f"--{key.replace('_', '-')}"
                words += [flag] if value is True else _repeated(flag, value)
    for name, value in tables["training"].items():
        if value != "custom":
            words += _repeated(f"--{name.replace('_', '-')}", value, partial(text_of, name))
    return shlex.join(words)


def _repeated(flag: str, value: Any, text: Callable[[Any], str] = str) -> list[str]:
    return [word for part in (value if isinstance(value, list) else [value]) for word in (flag, text(part))]


def _version() -> str:
    from .. import __version__

    return __version__

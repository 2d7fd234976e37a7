"""The measured parts of a report: likelihood, sample quality, equilibrium, spectrum and landscape.

The settings are small, so that a report takes seconds. ``harmonium evaluate`` measures with larger ones and saves the
numbers; a report then shows those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from matplotlib.figure import Figure

from .. import files, landscape, noise, plots, quality, spectra
from ..errors import HarmoniumError
from ..machines import BoltzmannMachine
from ..machines.enumeration import EXACT_STATES
from ..machines.mixing import watch
from ..plots import style
from ..quality.inputs import FEWEST_ROWS
from ..training import NegativePhase
from ..training.callbacks import equilibrium_verdict
from ..training.values import phase_of
from . import evaluation, figures, saved
from .evaluation import LikelihoodRow
from .sequences import evaluate_frames
from .subject import RunSubject

_SMALL = 2**15  # cost of a sweep, up to which the annealing has both directions
_BETAS = 200  # of the annealing, if the machine cannot be enumerated
_MOST_TERMS, _FEWEST_PSEUDO_ROWS = 2**24, 100  # of the pseudo-likelihood
_SAMPLES, _SAMPLE_SWEEPS, _COMPARED_ROWS = 400, 100, 2000
_CHAINS = 32
_STARTS, _ITERATIONS = 60, 300  # of mean field
_CHECKPOINTS = 8  # of the trajectory
_AXES_ROWS = 5000


@dataclass
class Analysis:
    """What was measured: rows of numbers, sentences by topic, key numbers, and figures with their numbers by name."""

    measures: list[LikelihoodRow] = field(default_factory=list)
    seen: str = ""
    verdicts: dict[str, str] = field(default_factory=dict)
    cards: list[tuple[str, str, str]] = field(default_factory=list)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)


def analyze(subject: RunSubject) -> Analysis:
    """Measure everything that the rows and the machine of a run allow. What fails for a machine is a sentence."""
    found = Analysis()
    kept = saved.read(subject.run.folder, subject.epoch)
    parts: list[tuple[str, Callable[[RunSubject, Analysis, saved.Evaluation | None], None]]] = [
        ("Likelihood", _likelihood),
        ("Sample quality", _quality),
        ("Equilibrium", _equilibrium),
        ("Spectrum", _spectrum),
        ("Landscape", _landscape),
    ]
    for name, part in parts:
        try:
            part(subject, found, kept)
        except HarmoniumError as error:
            found.verdicts[name] = f"Not measured: {error}."
    return found


def _likelihood(subject: RunSubject, found: Analysis, kept: saved.Evaluation | None) -> None:
    if kept is not None:
        found.measures = list(kept.measures)
        train, test = kept.train, kept.test
    elif subject.sequences is not None:
        found.measures = evaluate_frames(subject.conditional, subject.sequences)
        train, test = subject.sequences.sizes
    elif subject.data is None:
        return
    else:
        found.measures = _measures(subject)
        train, test = len(subject.data), 0 if subject.test is None else len(subject.test)
    found.seen = f"{train:,} training rows" + (f" and {test:,} {subject.test_name} rows" if test else "")
    known = [row for row in found.measures if row.train is not None]
    best = [row for row in known if row.name.startswith("log-likelihood")]
    shown = [
        *best[:1],
        *(row for row in known if row.name in ("pseudo-log-likelihood per unit", "reconstruction error")),
    ]
    for row in shown:
        other = "" if row.test is None else f"; {subject.test_name} {number(row.test)}"
        found.cards.append((number(row.train), row.name, f"{row.unit}, training rows{other}"))
    if best:
        found.verdicts["Likelihood"] = _likelihood_words(best[0], subject)


def _measures(subject: RunSubject) -> list[LikelihoodRow]:
    """Measure with ln Z by enumeration, or else by a short annealing."""
    assert subject.data is not None
    seen = min(evaluation.MOST_ROWS, max(_FEWEST_PSEUDO_ROWS, _MOST_TERMS // max(1, subject.weights)))
    chosen = evaluation.Subject(subject.machine, subject.data, subject.test, EXACT_STATES, most_rows=seen)
    rows = evaluation.evaluate(chosen)
    if rows[0].train is not None:
        return rows
    small = subject.cost <= _SMALL
    chosen = evaluation.Subject(subject.machine, subject.data, subject.test, betas=_BETAS)
    return [*(evaluation.annealed(chosen) if small else evaluation.forward(chosen)), *rows[1:]]


def _likelihood_words(row: LikelihoodRow, subject: RunSubject) -> str:
    other = "" if row.test is None else f", {subject.test_name} rows {number(row.test)}"
    gap = "" if row.test is None or row.train is None else f" (difference {number(row.test - row.train)})"
    return f"{row.name}: training rows {number(row.train)}{other} {row.unit}{gap}. {row.note}."


def _quality(subject: RunSubject, found: Analysis, kept: saved.Evaluation | None) -> None:
    if kept is not None and kept.samples is not None:
        found.verdicts["Sample quality"] = str(kept.samples["verdict"])
        return
    if subject.data is None:
        return
    few = [name for name, rows in (("training", subject.data), (subject.test_name, subject.test))
           if rows is not None and len(rows) < FEWEST_ROWS]  # fmt: skip
    if len(subject.data) < FEWEST_ROWS:
        found.verdicts["Sample quality"] = f"Not measured: expected at least {FEWEST_ROWS} {few[0]} rows."
        return
    rows = subject.data[:_COMPARED_ROWS]
    test = None if few or subject.test is None else subject.test[:_COMPARED_ROWS]
    sweeps = min(subject.sweeps, _SAMPLE_SWEEPS)
    drawn = subject.machine.sample(_SAMPLES, sweeps=sweeps, start=subject.data, seed=0, check_mixing=False)
    compared = quality.compare(
        drawn, rows if test is None else test, train=None if test is None else rows,
        most_rows=1000, seed=0,
    )  # fmt: skip
    found.verdicts["Sample quality"] = compared.verdict
    alt = "Samples compared with data: moments, principal axes, nearest neighbors"
    found.figures["quality"] = {
        "drawing": figures.svg(_compared(compared), "quality", alt),
        "n": _SAMPLES,
        "sweeps": sweeps,
        "rows": "training" if test is None else subject.test_name,
    }


def _compared(compared: quality.SampleComparison) -> Figure:
    """Return the main plots of a comparison; ``plots.quality`` has all of them."""
    with style.look():
        figure = style.new_figure((9.0, 5.6))
        moments, cloud, variances, neighbors = figure.subplots(2, 2).ravel()
        plots.correlation_scatter(compared.correlations[2 if 2 in compared.correlations else 1], ax=moments)
        moments.set_aspect("auto")
        if len(compared.principal.axes) > 1:
            plots.principal_overlay(compared.principal, ax=cloud)
            cloud.set_title("Data and samples")
        else:
            cloud.set_visible(False)
        plots.spectra(compared.principal, ax=variances)
        plots.neighbor_accuracy(compared.neighbors, ax=neighbors)
    return figure


def _equilibrium(subject: RunSubject, found: Analysis, kept: saved.Evaluation | None) -> None:
    machine = subject.machine
    if not isinstance(machine, BoltzmannMachine) or machine.context is not None or not subject.run.last.exists():
        return
    written = subject.table("training").get("negative")
    phase = phase_of(written) if isinstance(written, Mapping) else None  # else an object of the user
    chains = None if phase is None else _persistent_chains(phase, machine, subject.run.read_state()[1])
    start = subject.data if chains is None else chains
    if start is None:
        return
    measured = subject.history[-1] if subject.history else {}
    if "mixing_time" in measured and "chain_drift" in measured:  # the numbers that training printed
        time, drift = measured["mixing_time"], measured["chain_drift"]
    else:
        monitor, _ = watch(
            machine, start[:_CHAINS].to(machine.dtype), subject.sweeps, noise.generator(0, machine.device)
        )
        if monitor.unjudged is not None:
            found.verdicts["Equilibrium"] = f"Not judged: {monitor.unjudged}."
            return
        time, drift = 2 * monitor.time, monitor.drift(since=0)
    verdict = equilibrium_verdict(getattr(phase, "k", 1), time, drift, chains is not None)
    found.verdicts["Equilibrium"] = f"{verdict[0].upper()}{verdict[1:]}."
    words = "not reached" if math.isinf(time) else f"{time:.0f}"
    found.cards.append((words, "mixing time", "sweeps between independent states"))


def _persistent_chains(phase: NegativePhase, machine: BoltzmannMachine, state: dict[str, Any]) -> torch.Tensor | None:
    """Return the visible states of the chains of a checkpoint; None if they do not continue from step to step."""
    if not state.get("processes"):
        return None
    (own,) = state["processes"][0]["negative"]
    return phase.visible_chains(machine, own, noise.generator(0, machine.device))


def _spectrum(subject: RunSubject, found: Analysis, kept: saved.Evaluation | None) -> None:
    trajectory = subject.run.trajectory()
    if not isinstance(subject.machine, BoltzmannMachine) or len(trajectory) < 2:
        return
    last = len(trajectory) - 1
    chosen = sorted({round(k * last / (_CHECKPOINTS - 1)) for k in range(_CHECKPOINTS)})
    machines: dict[float, Any] = {float(trajectory[k][0]): files.load(trajectory[k][1]) for k in chosen}
    history = spectra.spectral_history(machines)
    axes = None if subject.data is None else spectra.data_modes(subject.data[:_AXES_ROWS])
    final = history.spectra[-1]
    modes = min(10, len(final))
    words = f"{history.outliers[-1]} of {len(final)} singular values of the weights are above the noise; "
    words += f"effective rank {final.effective_rank:.1f}"
    if axes is not None:
        words += f". The {modes} strongest modes contain {history.alignment(axes.axes, modes)[-1].item():.0%} of the "
        words += f"{modes} first principal axes of the data"
    found.verdicts["Spectrum"] = words + "."
    drawing = figures.svg(_growth(history), "spectrum", "Singular values of the weights")
    found.figures["spectrum"] = {"drawing": drawing, "checkpoints": len(machines)}


def _growth(history: spectra.SpectralHistory) -> Figure:
    """Return the singular values during training, and their histogram at the end."""
    with style.look():
        figure = style.new_figure((9.0, 3.0))
        left, right = figure.subplots(1, 2)
        plots.mode_evolution(history, ax=left)
        plots.spectrum_histogram(history.spectra[-1], noise=history.spectra[0].noise, ax=right)
    return figure


def _landscape(subject: RunSubject, found: Analysis, kept: saved.Evaluation | None) -> None:
    if subject.data is None or not isinstance(subject.machine, BoltzmannMachine) or subject.machine.context is not None:
        return
    starts = subject.data[:_STARTS]
    solved = landscape.find_solutions(subject.machine, starts, max_iterations=_ITERATIONS)
    found.verdicts["Landscape"] = f"Mean-field solutions: {solved.diagnosis}".rstrip(".") + "."
    if len(solved) > 1:
        drawing = figures.svg(_depths(solved), "landscape", "Free energies and basins of the solutions")
        found.figures["landscape"] = {"drawing": drawing, "starts": len(starts)}


def _depths(solved: landscape.Landscape) -> Figure:
    """Return the solutions in a figure of the width of the page, so that its text is as large as elsewhere."""
    with style.look():
        figure = style.new_figure((9.0, 3.0))
        return plots.solution_depths(solved, ax=figure.subplots())


def number(value: float | None) -> str:
    """Format a number for the page.

    >>> number(-0.36506), number(None)
    ('−0.3651', '–')
    """
    return "–" if value is None else f"{value:.4g}".replace("-", "−")

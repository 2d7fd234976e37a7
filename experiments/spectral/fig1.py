"""Figure 1: a linear machine learns the principal components of its data one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.spectra import LinearTheory, SpectralHistory, data_modes, spectral_history
from harmonium.training import PCD, Run, fit
from harmonium.units import Gaussian

from ..judging import Verdict, every, mean
from ..machines import plain_gradients
from ..record import Record

#: variances of the data along the strongest modes and along all others; σ_v² = 1 is the threshold
STRONG, REST = (6.0, 4.0, 2.8, 2.0, 1.5), 0.5
VISIBLE, HIDDEN, ROWS = 50, 25, 4000
RATE, BATCH, STD = 2e-3, 200, 1e-3
EPOCHS = {"quick": 600, "full": 2000}
_LEARNED = 0.5  # of the final strength, at which a mode has appeared
_LATER = 1.2  # times the epoch of the mode before
_CLOSE = 0.05  # largest relative difference of a singular value from the theory
_FORGOTTEN = 0.5  # largest share of the initial weak modes that remains at the end
_WEAK = 0.5  # of the weakest learned mode: limit of all other singular values
_ALIGNED = 0.95
_GAIN = 0.5  # least gain, relative to that of the theory


@dataclass(frozen=True)
class Learned:
    """What one machine has learned from its own data; for each mode above the threshold unless stated otherwise."""

    history: SpectralHistory
    theory: LinearTheory
    path: Tensor  # (checkpoints, modes): prediction of the theory
    likelihood: Tensor  # (checkpoints,): of the machine, in nats per row
    epochs: list[float]  # at which the modes appear
    aligned: Tensor  # |u·e| at the end
    gains: list[float]  # of the likelihood, around the time when a mode appears
    left: float  # share of the initial weights outside of the strong components that remains

    @property
    def modes(self) -> int:
        """Number of components that grow according to the theory."""
        return self.theory.unstable


def run(record: Record, scale: str, epochs: int = 0, seeds: int = 5, seed: int = 0) -> None:
    """Synthetic data with five components above the threshold; ``epochs`` replaces that of the scale.

    Errors are those over ``seeds`` data sets, each with its own machine. The figure shows the first.
    """
    found = [learn(record, epochs or EPOCHS[scale], seed + k) for k in range(seeds)]
    record.table(
        "modes",
        [
            {"seed": seed + n, "epoch": epoch, "log_likelihood": own.likelihood[t].item()}
            | {f"w{k + 1}": own.history.values[t, k].item() for k in range(own.modes)}
            | {f"theory{k + 1}": own.path[t, k].item() for k in range(own.modes)}
            for n, own in enumerate(found)
            for t, epoch in enumerate(own.history.epochs)
        ],
    )
    record.figure("fig1", _figure(found[0]))
    _claims(record, found)


def learn(record: Record, epochs: int, seed: int) -> Learned:
    """Draw data, train a machine, and compare it with the theory."""
    rows = draw(seed)
    axes = data_modes(rows, centered=False)
    theory = LinearTheory(axes.variances)
    machines = train(record, rows, epochs, seed)
    history = spectral_history(machines)
    times = torch.tensor(history.epochs, dtype=torch.float64) * RATE * (ROWS // BATCH)
    # the theory starts when the vectors are aligned with the axes: from the initial strengths along them
    path = theory.evolve(_on_axes(history, axes.axes), times)
    likelihood = torch.stack([log_probability(machine, rows).mean() for machine in machines.values()])
    modes = theory.unstable
    appeared = appearance(history, modes)
    record.say(f"seed {seed}: modes at epochs {', '.join(f'{epoch:.0f}' for epoch in appeared)}")
    return Learned(
        history,
        theory,
        path,
        likelihood,
        appeared,
        history.spectra[-1].alignment(axes.axes)[:modes, :modes].diagonal(),
        gains(history.epochs, likelihood.tolist(), appeared),
        remaining(history, axes.axes[:modes]),
    )


def draw(seed: int) -> Tensor:
    """Gaussian rows (n, visible) with the given variances along random axes."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.linalg.qr(torch.randn(VISIBLE, VISIBLE, generator=generator, dtype=torch.float64)).Q
    spread = torch.full((VISIBLE,), REST, dtype=torch.float64)
    spread[: len(STRONG)] = torch.tensor(STRONG, dtype=torch.float64)
    return torch.randn(ROWS, VISIBLE, generator=generator, dtype=torch.float64) * spread.sqrt() @ axes.T


def train(record: Record, rows: Tensor, epochs: int, seed: int) -> Mapping[float, RBM]:
    """A machine of Gaussian units along training, without biases, as in the theory."""
    folder = record.folder / f"machine-{seed}"
    rbm = RBM(Gaussian(VISIBLE, learn=()), Gaussian(HIDDEN, learn=())).double()
    rbm.initialize(weights="normal", scale=STD, seed=seed)
    fit(
        rbm,
        rows,
        negative=PCD(1, chains=500),
        epochs=epochs,
        initialize="keep",
        run=folder,
        resume=Run(folder).exists(),
        seed=seed,
        **plain_gradients(RATE, BATCH, len(rows)),
    )
    return cast("Mapping[float, RBM]", Run(folder).machines())


@torch.no_grad()
def log_probability(machine: RBM, rows: Tensor) -> Tensor:
    """ln p of every row (n,) by a machine of Gaussian units of variance 1 without biases.

    Its partition function is Gaussian: ln Z = (N_v + N_h)/2 ln 2π - ½ ln det(1 - WᵀW); NaN where it diverges.
    """
    weight = machine.coupling.matrix().double()
    gram = torch.eye(weight.shape[1], dtype=torch.float64) - weight.T @ weight
    sign, log_det = torch.linalg.slogdet(gram)
    finite = bool(sign > 0) and bool((torch.linalg.eigvalsh(gram) > 0).all())
    log_partition = (sum(weight.shape) * math.log(2 * math.pi) - log_det) / 2 if finite else math.nan
    return -machine.free_energy(rows.double()) - log_partition


def _on_axes(history: SpectralHistory, axes: Tensor, checkpoint: int = 0) -> Tensor:
    """|Wᵀe| along each principal axis: the singular values, if the singular vectors are the axes."""
    found = history.spectra[checkpoint]
    return torch.linalg.vector_norm(found.values[:, None] * (found.left @ axes[:HIDDEN].T.to(found.left)), dim=0)


def remaining(history: SpectralHistory, strong: Tensor) -> float:
    """How much of the initial weights outside of the ``strong`` axes (k, visible) is left in the final ones: their
    scalar product in units of the former. New noise of the gradient does not count."""
    first, last = (found.left.T * found.values @ found.right for found in (history.spectra[0], history.spectra[-1]))
    first = first - strong.T @ (strong @ first)
    return ((first * last).sum() / first.square().sum()).item()


def gains(epochs: list[float], likelihood: list[float], appeared: list[float]) -> list[float]:
    """The gain in likelihood as each mode appears: between the geometric means of successive epochs."""
    middle = [math.sqrt(a * b) for a, b in pairwise(appeared)]
    ends = [epochs[0], *middle, epochs[-1]]
    values = np.interp(ends, epochs, likelihood).tolist()
    return [b - a for a, b in pairwise(values)]


def appearance(history: SpectralHistory, modes: int) -> list[float]:
    """The epoch at which each of the first modes first has half of its final strength.

    ln w is interpolated linearly between checkpoints, as modes grow exponentially.
    """
    found = []
    for values in style.as_array(history.values)[:, :modes].T:
        wanted = _LEARNED * values[-1]
        k = int((values >= wanted).argmax())
        before, after = history.epochs[max(k - 1, 0)], history.epochs[k]
        share = 1.0 if k == 0 else math.log(wanted / values[k - 1]) / math.log(values[k] / values[k - 1])
        found.append(before + share * (after - before))
    return found


# -- verdicts, from one value for each seed (rows) and mode (columns) ------------------------------------------------


def _claims(record: Record, found: list[Learned]) -> None:
    modes = min(own.modes for own in found)
    last = np.stack([style.as_array(own.history.values[-1]) for own in found])
    end = np.stack([style.as_array(own.theory.equilibrium(HIDDEN)[:modes]) for own in found])
    epochs = np.array([own.epochs[:modes] for own in found])
    record.claim(
        "the modes emerge from the bulk one after the other, the strongest first",
        f"half of the final strength at epochs {_list(epochs, '.0f')} ({len(found)} seeds)",
        judge_order(epochs),
    )
    record.claim(
        "the singular values end at w² = (s - σ_v²)/(σ_v² σ_h² s)",
        f"relative to it, {_list(last[:, :modes] / end, '.4f')}",
        judge_equilibrium(last[:, :modes], end),
    )
    left = np.array([own.left for own in found])
    others = last[:, modes:].max(1) / end.min(1)
    record.claim(
        "components below the threshold are damped",
        f"of the initial weights outside of the modes {mean(left):.3f} is left at the end; the largest other "
        f"singular value is {mean(others):.1e} of the weakest mode",
        judge_damped(left, others),
    )
    aligned = np.stack([style.as_array(own.aligned[:modes]) for own in found])
    record.claim(
        "the left vectors are aligned with the components of the data at the end",
        f"|u·e| = {_list(aligned, '.3f')}",
        judge_aligned(aligned),
    )
    gained = np.array([own.gains[:modes] for own in found])
    expected = np.stack([style.as_array(_expected(own.theory)[:modes]) for own in found])
    record.claim(
        "the likelihood increases with each mode that is learned",
        f"of the machine, nats per row: {_list(gained, '.3f')} as the modes appear; by the theory "
        f"{', '.join(f'{value:.3f}' for value in expected.mean(0))}",
        judge_likelihood(gained, expected),
    )


def _list(values: np.ndarray, spec: str) -> str:
    return ", ".join(f"{mean(column):{spec}}" for column in values.T)


def _expected(theory: LinearTheory) -> Tensor:
    """The contribution of each mode above the threshold σ_v² = 1 to the likelihood: ½ (s - 1 - ln s)."""
    s = theory.variances[: theory.unstable]
    return (s - 1 - s.log()) / 2


def judge_order(epochs: np.ndarray) -> Verdict:
    """Criterion: each mode appears more than LATER times as late as the stronger one before it."""
    return every(mean(column).above(math.log(_LATER)) for column in np.diff(np.log(np.maximum(epochs, 1)), axis=1).T)


def judge_equilibrium(last: np.ndarray, end: np.ndarray) -> Verdict:
    """Criterion: no singular value differs from the theory by more than CLOSE of it."""
    return every(mean(column).within(_CLOSE) for column in (last / end - 1).T)


def judge_damped(left: np.ndarray, others: np.ndarray) -> Verdict:
    """From one value for each seed. Criterion: less than FORGOTTEN of the initial weak components is left, and no
    other singular value reaches WEAK of the weakest mode."""
    return every([mean(left).below(_FORGOTTEN), mean(others).below(_WEAK)])


def judge_aligned(aligned: np.ndarray) -> Verdict:
    """Criterion: every |u·e| exceeds ALIGNED."""
    return every(mean(column).above(_ALIGNED) for column in aligned.T)


def judge_likelihood(gained: np.ndarray, expected: np.ndarray) -> Verdict:
    """Criterion: the machine's own likelihood rises with every mode, by more than GAIN of the prediction."""
    return every(mean(column).above(_GAIN) for column in (gained / expected).T)


# -- the figure -----------------------------------------------------------------------------------------------------


def _figure(own: Learned) -> Figure:
    history, path, likelihood, aligned, theory = own.history, own.path, own.likelihood, own.aligned, own.theory
    with style.look():
        figure = Figure(figsize=(8.6, 3.3), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        values = style.as_array(history.values)
        for k in range(values.shape[1]):
            strong = k < theory.unstable
            left.plot(history.epochs, values[:, k], color=style.ACCENT if strong else style.FAINT,
                      linewidth=1.6 if strong else 0.6)  # fmt: skip
            if strong:
                left.plot(history.epochs, style.as_array(path[:, k]), color=style.INK, linestyle=":", linewidth=1.1)
        left.plot([], [], color=style.ACCENT, label="modes above the threshold")
        left.plot([], [], color=style.INK, linestyle=":", label="linear theory")
        left.plot([], [], color=style.FAINT, label="all others")
        left.set(xlabel="epoch", ylabel="singular value")
        left.set_title("One mode after the other")
        score = left.twinx()
        score.plot(history.epochs, style.as_array(likelihood), color=style.SECOND)
        score.set_ylabel("log-likelihood, nats per row", color=style.SECOND)
        score.tick_params(axis="y", colors=style.SECOND)
        score.spines["right"].set(visible=True, color=style.SECOND)
        left.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.08))
        right.bar(range(1, len(aligned) + 1), style.as_array(aligned), color=style.ACCENT, width=0.6)
        right.set_xticks(range(1, len(aligned) + 1))
        right.set(xlabel="mode", ylabel="|u · principal axis|", ylim=(0, 1.05))
        right.set_title("Alignment at the end")
    return figure

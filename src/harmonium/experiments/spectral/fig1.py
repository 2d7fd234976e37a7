"""Figure 1: a linear machine learns the principal components of its data one by one."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...analysis import LinearTheory, SpectralHistory, data_modes, spectral_history
from ...machines import RBM
from ...plots import style
from ...training import PCD, Run, fit
from ...units import Gaussian
from ..record import Record

#: of the data, the strongest modes and that of all others; σ_v² = 1 is the threshold
STRONG, REST = (6.0, 4.0, 2.8, 2.0, 1.5), 0.5
VISIBLE, HIDDEN, ROWS = 50, 25, 4000
RATE, BATCH, STD = 2e-3, 200, 1e-3
EPOCHS = {"quick": 600, "full": 2000}
_LEARNT = 0.5  # of the final strength: a mode has appeared
_CLOSE = 0.05  # by which a singular value may miss the theory
_ALIGNED = 0.95


def run(record: Record, scale: str, epochs: int = 0, seed: int = 0) -> None:
    """Synthetic data with five components above the threshold; ``epochs`` in the place of the scale's."""
    rows = draw(seed)
    axes = data_modes(rows, centred=False)
    theory = LinearTheory(axes.variances)
    history = train(record, rows, epochs or EPOCHS[scale], seed)
    times = torch.tensor(history.epochs, dtype=torch.float64) * RATE * (ROWS // BATCH)
    # the theory starts where the vectors have turned to the axes: from the strengths on them at the beginning
    start = _on_axes(history, axes.axes)
    path = theory.evolve(start, times)
    likelihood = theory.log_likelihood(_on_axes_along(history, axes.axes))
    modes = theory.unstable
    record.table(
        "modes",
        [
            {"epoch": epoch, "log_likelihood": likelihood[t].item()}
            | {f"w{k + 1}": history.values[t, k].item() for k in range(modes)}
            | {f"theory{k + 1}": path[t, k].item() for k in range(modes)}
            for t, epoch in enumerate(history.epochs)
        ],
    )
    aligned = history.spectra[-1].alignment(axes.axes)[:modes, :modes].diagonal()
    record.figure("fig1", _figure(history, path, likelihood, aligned, theory))
    _claims(record, history, theory, likelihood, aligned)


def draw(seed: int) -> Tensor:
    """Gaussian rows (n, visible) with the given variances along random axes."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.linalg.qr(torch.randn(VISIBLE, VISIBLE, generator=generator, dtype=torch.float64)).Q
    spread = torch.full((VISIBLE,), REST, dtype=torch.float64)
    spread[: len(STRONG)] = torch.tensor(STRONG, dtype=torch.float64)
    return torch.randn(ROWS, VISIBLE, generator=generator, dtype=torch.float64) * spread.sqrt() @ axes.T


def train(record: Record, rows: Tensor, epochs: int, seed: int) -> SpectralHistory:
    """The spectra of a machine of Gaussian units along training, without biases, as in the theory."""
    folder = record.folder / "machine"
    rbm = RBM(Gaussian(VISIBLE, learn=()), Gaussian(HIDDEN, learn=())).double()
    rbm.initialise(weights="normal", scale=STD, seed=seed)
    fit(
        rbm,
        rows,
        negative=PCD(5, chains=1000),
        epochs=epochs,
        batch_size=BATCH,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        transforms=(),
        initialise=False,
        metrics_every=epochs,
        run=folder,
        seed=seed,
        progress=False,
    )
    return spectral_history(Run(folder).machines())


def _on_axes(history: SpectralHistory, axes: Tensor, checkpoint: int = 0) -> Tensor:
    """|Wᵀe| along each principal axis: the singular values, where these are the axes."""
    found = history.spectra[checkpoint]
    return torch.linalg.vector_norm(found.values[:, None] * (found.left @ axes[:HIDDEN].T.to(found.left)), dim=0)


def _on_axes_along(history: SpectralHistory, axes: Tensor) -> Tensor:
    return torch.stack([_on_axes(history, axes, k) for k in range(len(history.epochs))])


def appearance(history: SpectralHistory, modes: int) -> list[float]:
    """The epoch at which each of the first modes first has half of its final strength."""
    values = history.values[:, :modes]
    reached = values >= _LEARNT * values[-1]
    return [history.epochs[int(column.nonzero()[0])] for column in reached.T]


def _claims(
    record: Record, history: SpectralHistory, theory: LinearTheory, likelihood: Tensor, aligned: Tensor
) -> None:
    modes, last = theory.unstable, history.values[-1]
    epochs = appearance(history, modes)
    record.claim(
        "the modes emerge from the bulk one after the other, the strongest first",
        f"half of the final strength at epochs {', '.join(f'{epoch:g}' for epoch in epochs)}",
        epochs == sorted(epochs) and len(set(epochs)) > 1,
    )
    end = theory.equilibrium(HIDDEN)[:modes]
    miss = (last[:modes] - end).abs().max().item()
    found = ", ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(last[:modes].tolist(), end.tolist(), strict=True))
    record.claim(
        "the singular values end at w² = (s - σ_v²)/(σ_v² σ_h² s)", f"{found}: largest miss {miss:.3f}", miss <= _CLOSE
    )
    below = last[modes:].max().item()
    record.claim(
        "components below the threshold are damped",
        f"the largest other singular value went from {history.values[0, 0].item():.4f} to {below:.4f}",
        below < 0.5 * end.min().item(),
    )
    record.claim(
        "the left vectors are aligned with the components of the data at the end",
        f"|u·e| = {', '.join(f'{value:.3f}' for value in aligned.tolist())}",
        bool((aligned >= _ALIGNED).all()),
    )
    gains = [likelihood[history.epochs.index(epoch)].item() for epoch in epochs]
    record.claim(
        "the likelihood increases with each mode that is learnt",
        f"{likelihood[0].item():.2f} nats at the start, {', '.join(f'{gain:.2f}' for gain in gains)} as the modes "
        f"appear, {likelihood[-1].item():.2f} at the end",
        gains == sorted(gains) and gains[0] > likelihood[0].item(),
    )


def _figure(
    history: SpectralHistory, path: Tensor, likelihood: Tensor, aligned: Tensor, theory: LinearTheory
) -> Figure:
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
        score.set_ylabel("log-likelihood, nats a row", color=style.SECOND)
        score.tick_params(axis="y", colors=style.SECOND)
        score.spines["right"].set(visible=True, color=style.SECOND)
        left.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.08))
        right.bar(range(1, len(aligned) + 1), style.as_array(aligned), color=style.ACCENT, width=0.6)
        right.set_xticks(range(1, len(aligned) + 1))
        right.set(xlabel="mode", ylabel="|u · principal axis|", ylim=(0, 1.05))
        right.set_title("Alignment at the end")
    return figure

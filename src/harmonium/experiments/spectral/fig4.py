"""Figure 4: strong modes are amplified, weak ones damped, and the top of the spectrum is flattened."""

from __future__ import annotations

from matplotlib.figure import Figure

from ...analysis import DataModes, SpectralHistory
from ...plots import mode_evolution, singular_values, style
from ..record import Record
from .trained import Machines, on_machines, table

INSET = (1, 2, 10, 100, 350, 400)  # modes of the inset, for 400 hidden units
_AMPLIFIED = 1.05  # times its value at the start
_TOP = 10


@on_machines
def run(record: Record, trained: Machines) -> None:
    """All singular values along training, and the data's."""
    history, axes = trained.history(), trained.axes()
    record.table("singular_values", table(history))
    with style.look():
        figure = Figure(figsize=(9.8, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        singular_values(history, data=axes, ax=left)
        mode_evolution(history, modes=[mode for mode in INSET if mode <= len(history.spectra[0])], ax=right)
    record.figure("fig4", figure)
    _claims(record, history, axes)


def amplified(history: SpectralHistory) -> list[int]:
    """How many singular values are larger than the one of the same rank at the start, at every checkpoint."""
    return [int((found.values > _AMPLIFIED * history.spectra[0].values).sum()) for found in history.spectra]


def _claims(record: Record, history: SpectralHistory, axes: DataModes) -> None:
    start, last = history.spectra[0].values, history.spectra[-1].values
    number = amplified(history)
    weakest = history.values[:, -1]
    lowest = int(weakest.argmin())
    record.claim(
        "modes up to some cut-off are amplified, those beyond it are damped",
        f"{number[-1]} of {len(last)} grew: the first from {start[0].item():.3f} to {last[0].item():.3f}, the median "
        f"from {start.median().item():.3f} to {last.median().item():.3f}, the last from {start[-1].item():.4f} to "
        f"{last[-1].item():.4f}, by way of {weakest[lowest].item():.4f} at epoch {history.epochs[lowest]:g}",
        0 < number[-1] < len(last) and last[-1].item() < start[-1].item(),
    )
    middle = next((k for k, n in enumerate(number) if n >= 1), len(number) - 1)
    record.claim(
        "the cut-off of the linear regime is smaller than that of the end",
        f"{number[middle]} modes amplified at epoch {history.epochs[middle]:g}, {number[-1]} at the end",
        number[middle] < number[-1],
    )
    spread = axes.variances.sqrt()
    top = min(_TOP, len(last))
    here, there = (last[0] / last[top - 1]).item(), (spread[0] / spread[top - 1]).item()
    record.claim(
        "the top of the spectrum is flattened beside that of the data",
        f"the first over singular value {top}: {here:.2f} of the weights, {there:.2f} of the data",
        here < there,
    )

"""Figure 4: strong modes are amplified, weak ones damped, and the top of the spectrum is flattened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.plots import mode_evolution, singular_values, style
from harmonium.spectra import DataModes, SpectralHistory

from .. import judging
from ..judging import IF_TRUE, Measured, Verdict, jackknife
from ..record import Record
from .trained import Machines, on_machines, table

INSET = (1, 2, 10, 100, 350, 400)  # modes of the inset, for 400 hidden units
_AMPLIFIED, _DAMPED = 1.05, 0.95  # times its value at the start
_AMPLIFIED_RANGE = 1.02, 1.1
_SHARE = 0.05  # of the modes on either side of a cut-off
_LARGER = 1.5  # times the cut-off of the linear regime
_TOP = 10
_FLAT = 0.8  # of the ratio of the data


@on_machines
def run(record: Record, trained: Machines) -> None:
    """All singular values along training, and those of the data."""
    history, axes = trained.history(), trained.axes()
    record.table("singular_values", table(history))
    with style.look():
        figure = Figure(figsize=(9.8, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        singular_values(history, data=axes, ax=left)
        mode_evolution(history, modes=[mode for mode in INSET if mode <= len(history.spectra[0])], ax=right)
    record.figure("fig4", figure)
    _claims(record, trained, history, axes)


@dataclass(frozen=True)
class Change:
    """How many singular values have grown, and how many have shrunk, since the start, compared by rank."""

    amplified: int
    range: tuple[int, int]  # of that number, with a larger and with a smaller threshold of growth
    damped: int
    modes: int

    @staticmethod
    def of(start: np.ndarray, now: np.ndarray) -> Change:
        """From the singular values, the largest first."""
        ratio = now / start
        least, most = (int((ratio > times).sum()) for times in reversed(_AMPLIFIED_RANGE))
        return Change(int((ratio > _AMPLIFIED).sum()), (least, most), int((ratio < _DAMPED).sum()), len(ratio))

    @property
    def cut_off(self) -> bool:
        """Whether at least SHARE of all modes are amplified and at least SHARE are damped."""
        return min(self.amplified, self.damped) >= _SHARE * self.modes


def linear_growth(rows: Tensor, time: float, variance: float) -> np.ndarray:
    """The factor by which each mode of the weights grows within ``time`` in the linear theory, in decreasing order.

    For small weights dW/dt = σ_h² (C - diag C) W with the covariance C of the ``rows`` (n, visible): the visible fields
    account for the variances. ``variance`` is σ_h².
    """
    moved = rows.double() - rows.double().mean(0)
    covariance = moved.T @ moved / len(rows)
    found = torch.linalg.eigvalsh(covariance - covariance.diag().diag()).flip(0)
    return style.as_array((variance * time * found).clamp(max=50.0).exp())


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, trained: Machines, history: SpectralHistory, axes: DataModes) -> None:
    difference = trained.difference
    values = style.as_array(history.values)
    start, last, weakest = values[0], values[-1], values[:, -1]
    changes = [Change.of(start, now) for now in values]
    lowest = int(weakest.argmin())

    def claim(claimed: str, measured: str, verdict: Verdict) -> None:
        judging.claim(record, claimed, measured, verdict, difference, IF_TRUE)

    claim(
        "modes up to some cut-off are amplified, those beyond it are damped",
        f"of {len(last)} modes {changes[-1].amplified} grew and {changes[-1].damped} shrank by 5 % or more: the first "
        f"from {start[0]:.3f} to {last[0]:.3f}, the median from {np.median(start):.3f} to {np.median(last):.3f}, the "
        f"last from {start[-1]:.4f} to {last[-1]:.4f}, with a minimum of {weakest[lowest]:.4f} at epoch "
        f"{history.epochs[lowest]:g}",
        judge_cut_off(changes[-1]),
    )
    growth = linear_growth(trained.rows, trained.time, trained.reading.variance)[: len(last)]
    linear = Change.of(np.ones(len(growth)), growth)
    claim(
        "the cut-off of the linear regime is smaller than that of the end",
        f"{changes[-1].amplified} modes amplified ({_range(changes[-1])}) at the end"
        + ("" if changes[-1].cut_off else ", where there is no cut-off")
        + f"; {linear.amplified} ({_range(linear)}) by the linear theory",
        judge_cut_offs(linear, changes[-1]),
    )
    top = min(_TOP, len(last))
    here = float(last[0] / last[top - 1])
    there = jackknife(_steepness(axes, top), [_steepness(part, top) for part in trained.axes_without()])
    above = int((last > history.spectra[0].noise.threshold).sum())
    claim(
        "the top of the spectrum is flattened compared with that of the data",
        f"singular value 1 over number {top}: {here:.2f} of the weights, {there:.3f} of the data; {above} modes "
        "are above the noise",
        judge_flattened(here, there, above),
    )


def _range(change: Change) -> str:
    return f"{change.range[0]} to {change.range[1]} by other thresholds"


def _steepness(axes: DataModes, top: int) -> float:
    return float((axes.variances[0] / axes.variances[top - 1]).sqrt())


def judge_cut_off(end: Change) -> Verdict:
    """Criterion: at the end SHARE of the modes have grown by 5 % and as many have shrunk by 5 %, which is several times
    the difference of singular values of the same rank between random matrices."""
    return end.cut_off


def judge_cut_offs(linear: Change, end: Change) -> Verdict:
    """Criterion: the number of amplified modes at the end is more than LARGER times that of the linear theory, with any
    threshold for growth; it fails if the number is smaller. Open in between, as the number grows with training, whose
    length is not published, and if there is no cut-off at the end or none in the theory."""
    if not (end.cut_off and linear.cut_off):
        return None
    if end.range[0] > _LARGER * linear.range[1]:
        return True
    return False if end.range[1] < linear.range[0] else None


def judge_flattened(here: float, there: Measured, above: int) -> Verdict:
    """From the ratio of the first to the tenth singular value of the weights and of the data.

    Criterion: the former is less than FLAT of the latter. Open if fewer than TOP modes are above the noise, whose
    spectrum is flat.
    """
    if above < _TOP:
        return None
    return Measured(here / there.value, here / there.value**2 * there.error, there.dof).below(_FLAT)

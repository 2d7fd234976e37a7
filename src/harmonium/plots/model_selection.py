"""Plot of a cross-validated choice of hidden units and penalty."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..runs.cross_validation import Selection
from . import style

_APART = 1.03  # factor between the lines along the horizontal axis, so that equal scores do not hide each other


def selection(study: Selection, *, ax: Axes | None = None) -> Figure:
    """Plot the validation log-likelihood of each candidate with its standard error; the chosen one has a ring.

    There is a line for each strength of the penalty, against the number of hidden units.

    >>> from harmonium.runs.cross_validation import Candidate
    >>> few, many = (Candidate(f"bernoulli:{n}", 0.0, n, (-2.0, -2.2), (-2.0, -2.0)) for n in (3, 9))
    >>> selection(Selection((few, many), many, "l2", "best mean")).axes[0].get_xlabel()
    'hidden units'
    """
    with style.look():
        ax = style.axes(ax, (6.4, 3.4))
        strengths = list(dict.fromkeys(part.strength for part in study.candidates))
        for k, strength in enumerate(strengths):
            parts = sorted((p for p in study.candidates if p.strength == strength), key=lambda p: p.units)
            points = np.array([(_APART**k * p.units, p.score, p.standard_error) for p in parts]).T
            label = f"{study.penalty.replace('_', ' ').upper()} {strength:g}"
            color = style.COLORS[k % len(style.COLORS)]
            ax.errorbar(*points, marker="o", markersize=4, capsize=3, linewidth=1.4, label=label, color=color)
        x = study.best.units * _APART ** strengths.index(study.best.strength)
        label = f"chosen ({study.rule})"
        ax.plot(x, study.best.score, "o", markersize=13, fillstyle="none", color=style.INK, label=label)
        ax.set_xscale("log", base=2)
        ticks = sorted({p.units for p in study.candidates})
        ax.set_xticks(ticks, [str(n) for n in ticks])
        ax.minorticks_off()
        ax.set(xlabel="hidden units", ylabel="nats per row")
        ax.set_title("Validation log-likelihood")
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return style.figure_of(ax)

"""The functions of a unit: log-partition function, mean, mode and variance against the field."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from ..errors import InvalidOption
from ..units import Unit
from . import style

_POINTS = 301


@torch.no_grad()
def unit_curves(unit: Unit, *, reach: float = 6.0, figure: Figure | None = None) -> Figure:
    """Plot ln Z(B), its derivative, the mean, with the mode, and its second derivative, the variance.

    The field B from ``-reach`` to ``reach`` acts on the first unit of the layer; for a vector unit, such as a Potts
    unit, on its first component, and the curves are those of this component.

    >>> import harmonium as hm
    >>> len(unit_curves(hm.units.Bernoulli(1)).axes)
    3
    """
    if not reach > 0:
        raise InvalidOption(f"reach: expected a positive number, found {reach}")
    field = torch.linspace(-reach, reach, _POINTS, dtype=unit.bias.dtype)
    B = torch.zeros(_POINTS, *unit.shape, dtype=unit.bias.dtype)
    B.view(_POINTS, -1)[:, 0] = field
    gain = (unit.log_partition(B) - unit.log_partition(torch.zeros_like(B[:1]))).reshape(_POINTS, -1).sum(1)
    mean, mode, variance = (values.reshape(_POINTS, -1)[:, 0] for values in (unit.mean(B), unit.mode(B),
                                                                            unit.variance(B)))  # fmt: skip
    with style.look():
        figure = figure or style.new_figure((7.6, 2.5))
        left, middle, right = figure.subplots(1, 3)
        left.plot(field, style.as_array(gain), color=style.ACCENT)
        left.set_title("ln Z(B) − ln Z(0)")
        middle.plot(field, style.as_array(mode), color=style.SECOND, linewidth=1.2, label="mode")
        middle.plot(field, style.as_array(mean), color=style.ACCENT, label="mean")
        middle.set_title("Mean and mode")
        middle.legend(fontsize=8)
        right.plot(field, style.as_array(variance), color=style.ACCENT)
        right.set_title("Variance")
        right.set_ylim(bottom=0, top=1.08 * max(float(variance.max()), 1e-9))
        for ax in (left, middle, right):
            ax.set_xlabel("field B")
            ax.axvline(0, color=style.FAINT, linewidth=0.8, zorder=0)
    return figure

"""Measures and figures of machines on sequences, whose rows are frames given the frames before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import plots
from ..errors import HarmoniumError
from ..machines import ConditionalRBM
from ..tasks import LinearAutoregression, forecast, next_frame
from . import figures
from .evaluation import LikelihoodRow

_FRAMES, _CONTINUATIONS = 60, 3
_MOST_ROWS = 2000  # for the errors of the machine, which are averages over chains
_EXACT_ROWS, _EXACT_UNITS = 200, 12
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Sequences:
    """Frames and their windows, (n, *frame) and (n, order, *frame): those of training, and held-out ones if any."""

    train: Pair
    test: Pair | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of frames for training and of held-out frames."""
        return len(self.train[0]), 0 if self.test is None else len(self.test[0])

    @property
    def shown(self) -> Pair:
        """The held-out frames, or those of training if there are none."""
        return self.train if self.test is None else self.test


def evaluate_frames(machine: ConditionalRBM, rows: Sequences) -> list[LikelihoodRow]:
    """Compute the error of the next frame, also of two baselines, and ln p(frame | window) of a small machine.

    >>> import harmonium as hm
    >>> pair = hm.Windows(torch.zeros(20, 2), 3)[:]
    >>> [row.name for row in evaluate_frames(hm.ConditionalRBM(hm.units.Gaussian(2), 4, (3, 2)), Sequences(pair))][:2]
    ['error of the next frame', 'the same, repeating the last frame']
    """
    unit, better = "squared, per channel", "lower"
    linear = LinearAutoregression.fitted(*rows.train)
    models = {
        "error of the next frame": lambda context: next_frame(machine, context, seed=0),
        "the same, repeating the last frame": lambda context: context[:, -1],
        "the same, linear autoregression": linear,
    }
    notes = ("mean given the window, by Gibbs sampling", "", "of the same order, with a quadratic penalty of 1")
    found = []
    for (name, model), note in zip(models.items(), notes, strict=True):
        train, test = (_error(model, part) for part in (rows.train, rows.test))
        found.append(LikelihoodRow(name, unit, train, test, note, better))
    return [*found, _exact(machine, rows)]


def _error(model: object, pair: Pair | None) -> float | None:
    if pair is None:
        return None
    v, context = (part[:_MOST_ROWS] for part in pair)
    predicted: Tensor = model(context)  # type: ignore[operator]
    return (predicted - v).double().square().mean().item()


def _exact(machine: ConditionalRBM, rows: Sequences) -> LikelihoodRow:
    """The mean of ln p(frame | window), with an enumeration of the hidden states for each frame."""
    name, unit = "log-likelihood given the window, exact", "nats per frame"
    if machine.hidden.size > _EXACT_UNITS:
        return LikelihoodRow(name, unit, note=f"not enumerated for more than {_EXACT_UNITS} hidden units")
    try:
        train, test = (_log_likelihood(machine, pair) for pair in (rows.train, rows.test))
    except HarmoniumError as error:
        return LikelihoodRow(name, unit, note=str(error))
    return LikelihoodRow(name, unit, train, test, f"on at most {_EXACT_ROWS} frames of each part")


@torch.no_grad()
def _log_likelihood(machine: ConditionalRBM, pair: Pair | None) -> float | None:
    if pair is None:
        return None
    v, context = (part[:_EXACT_ROWS] for part in pair)
    return machine.given(context).log_probability(v).mean().item()


def forecasts(machine: ConditionalRBM, rows: Sequences, name: str) -> dict[str, Any]:
    """Return continuations of a window of the data as a part of the page."""
    window = rows.shown[1][:1]
    found = forecast(machine, window, _FRAMES, n=_CONTINUATIONS, seed=0)[0]
    figure = plots.forecasts(window[0].cpu(), found.cpu())
    drawing = figures.svg(figure, "forecasts", f"{_CONTINUATIONS} continuations of {_FRAMES} frames")
    return {"drawing": drawing, "n": _CONTINUATIONS, "rows": name}

"""Continuations of sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

_MOST = 6  # channels
_PAST, _FUTURE, _TRUTH = "0.35", "#2a6fbb", "0.6"


def forecasts(
    start: Tensor, samples: Tensor, data: Tensor | None = None, channels: Sequence[str] | None = None
) -> Figure:
    """Draw continuations of a sequence: the channels with the largest variance, one above the other.

    Args:
        start: frames before the forecast, (frames, *frame).
        samples: continuations, (n, frames, *frame).
        data: frames that followed in the data, (frames, *frame).
        channels: names of the channels.

    >>> figure = forecasts(torch.zeros(3, 2), torch.rand(4, 10, 2))
    >>> len(figure.axes)
    2
    """
    past, future = start.flatten(1), samples.flatten(2)
    order = future.var((0, 1), correction=0).argsort(descending=True)[:_MOST].sort().values.tolist()
    figure = Figure(figsize=(7, 0.7 + 1.0 * len(order)), layout="constrained")
    axes = figure.subplots(len(order), 1, sharex=True, squeeze=False)[:, 0]
    before, after = torch.arange(-len(past) + 1, 1), torch.arange(future.shape[1] + 1)
    for ax, k in zip(axes, order, strict=True):
        ax.plot(before, past[:, k], color=_PAST)
        for one in future:
            ax.plot(after, torch.cat([past[-1:, k], one[:, k]]), color=_FUTURE, linewidth=0.8, alpha=0.8)
        if data is not None:
            seen = data.flatten(1)[: future.shape[1], k]
            ax.plot(after[: len(seen) + 1], torch.cat([past[-1:, k], seen]), color=_TRUTH, linestyle="--")
        ax.set_ylabel(f"channel {k + 1}" if channels is None else channels[k], rotation=0, ha="right", va="center")
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("frame")
    return figure

"""Linear autoregression, a baseline for conditional machines on sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..arrays import as_tensor, check_finite
from ..errors import InvalidData, InvalidOption
from ..shown import brief


@brief
@dataclass(frozen=True)
class LinearAutoregression:
    """The mean of a frame as a linear function of the window of frames before it.

    Attributes:
        slopes: (order · channels, channels).
        inputs: mean of the windows, (order · channels,).
        mean: mean of the frames, (channels,).

    >>> time = torch.arange(200.0)
    >>> import harmonium as hm
    >>> v, context = hm.Windows(torch.stack([torch.sin(time / 5), torch.cos(time / 5)], 1), 2)[:]
    >>> model = LinearAutoregression.fitted(v, context, strength=1e-6)
    >>> (model(context) - v).abs().max().item() < 1e-3
    True
    """

    slopes: Tensor
    inputs: Tensor
    mean: Tensor

    @staticmethod
    def fitted(
        v: Tensor, context: Tensor, strength: float = 1.0, weights: Tensor | None = None
    ) -> LinearAutoregression:
        """Minimize the weighted squared errors plus ``strength`` times the squared slopes.

        Args:
            v: frames (n, *frame).
            context: the windows before them, (n, order, *frame).
            strength: weight of the squared slopes.
            weights: weight of each row, (n,); by default 1.
        """
        windows, frames = as_tensor(context, "context"), as_tensor(v, "v")
        if windows.ndim < 2 or frames.ndim < 2 or len(windows) != len(frames) or not len(frames):
            raise InvalidData(
                f"v, context: expected the same number of rows (n, *frame) and (n, order, *frame), n ≥ 1, "
                f"found {tuple(frames.shape)} and {tuple(windows.shape)}"
            )
        for rows, what in ((frames, "v"), (windows, "context")):
            check_finite(rows, what)
        if not 0 <= strength < math.inf:
            raise InvalidOption(f"strength: expected a number of at least 0, found {strength}")
        x, y = windows.flatten(1).double(), frames.flatten(1).double()
        w = torch.ones(len(y), 1, dtype=torch.float64) if weights is None else weights.unsqueeze(1)
        inputs, mean = (w * x).sum(0) / w.sum(), (w * y).sum(0) / w.sum()
        x, y = x - inputs, y - mean
        curvature = (w * x).T @ x + strength * torch.eye(x.shape[1], dtype=x.dtype)
        slopes, singular = torch.linalg.solve_ex(curvature, (w * x).T @ y)
        if singular:
            raise InvalidOption(f"strength: expected more than {strength} for windows that are linearly dependent")
        return LinearAutoregression(slopes, inputs, mean)

    def __call__(self, context: Tensor) -> Tensor:
        """The mean of the next frame: (n, order, *frame) -> (n, *frame)."""
        found = (context.flatten(1).double() - self.inputs) @ self.slopes + self.mean
        return found.to(context.dtype).reshape(len(context), *context.shape[2:])

    def continued(self, window: Tensor, frames: int) -> Tensor:
        """Forecasts of windows: (m, order, *frame) -> (m, frames, *frame)."""
        made = []
        for _ in range(frames):
            made.append(self(window))
            window = torch.cat([window[:, 1:], made[-1].unsqueeze(1)], 1)
        return torch.stack(made, 1)

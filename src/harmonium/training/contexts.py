"""Training data with a context for each row: any context, or the past of a sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..machines import Machine
from .autoregression import LinearAutoregression
from .batches import Pair, Source, as_rows

_ROUNDS = 10  # of fitting with weights, and weighting by residuals


class Conditional(Source):
    """Rows of data with a context each, for :class:`ConditionalRBM`.

    Args:
        data: n rows of the visible layer, of any kind that ``fit`` accepts.
        context: n rows of the context, an array or tensor (n, *context).

    >>> import harmonium as hm
    >>> machine = hm.ConditionalRBM(4, 3, 2)
    >>> rows = Conditional(torch.eye(4), torch.tensor([[0.0, 1], [0, 1], [1, 0], [1, 0]]))
    >>> result = hm.fit(machine, rows, negative="exact", epochs=2, seed=0, progress=False)
    """

    context: tuple[int, ...]

    def __init__(self, data: Any, context: Any) -> None:
        self._visible, self._context = as_rows(data, "data"), as_rows(context, "context")
        super().__init__(self._visible._rows, self._visible.shape)
        self.context, self.valid = self._context.shape, self._visible.valid
        self.complete, self.volatile = self._visible.complete, self._visible.volatile
        if len(self._context) != len(self):
            raise InvalidData(
                f"context: expected {len(self)} rows, one for each row of data, found {len(self._context)}"
            )

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        v, context = out
        return self._visible.take(index, v, generator), self._context.take(index, context)

    def every(self, machine: Machine) -> Iterator[Any]:
        return zip(self._visible.every(machine), self._context.chunks(machine, self._visible.chunk_rows), strict=True)


class Windows(Source):
    """The frames of sequences, each with the ``order`` frames before it as context, (order, *frame).

    The context has the frames in the order of time, the last one before the row at the end. The first ``order`` frames
    of each sequence are only context, so no window contains frames of two sequences.

    Args:
        sequences: one sequence (frames, *frame), or several of any lengths.
        order: number of frames in the window.
        standardize: True to give each channel mean 0 and variance 1 over all frames, or other windows, such as those of
            the training data, whose scale is used. :meth:`standardized` and :meth:`restored` convert frames.

    >>> rows = Windows([torch.arange(4.0).unsqueeze(1), 10 + torch.arange(3.0).unsqueeze(1)], 2)
    >>> v, context = rows[:]
    >>> v.flatten().tolist(), context.squeeze(2).tolist()
    ([2.0, 3.0, 12.0], [[0.0, 1.0], [1.0, 2.0], [10.0, 11.0]])
    """

    context: tuple[int, ...]

    def __init__(self, sequences: Any, order: int, *, standardize: bool | Windows = False) -> None:
        self.order = whole("order", order)
        if self.order < 1:
            raise InvalidOption(f"order: expected at least 1 frame in the window, found {order}")
        parts = as_sequences(sequences)
        for k, part in enumerate(parts):
            if len(part) <= self.order:
                raise InvalidData(
                    f"sequence {k}: expected more than {self.order} frames, the length of the window, found {len(part)}"
                )
        frames = torch.cat(parts)
        #: what :meth:`standardized` subtracts from each channel, and divides it by; ``None`` if it does nothing
        self.location: Tensor | None = None
        self.scale: Tensor | None = None
        if isinstance(standardize, Windows):
            self.location, self.scale = standardize.location, standardize.scale
        elif standardize:
            frames = frames if frames.is_floating_point() else frames.to(torch.get_default_dtype())
            spread, self.location = torch.std_mean(frames, 0, correction=0)
            self.scale = torch.where(spread > 1e-6 * self.location.abs(), spread, 1.0)  # a constant channel stays one
        self._frames = self.standardized(frames)
        ends = torch.tensor([len(part) for part in parts]).cumsum(0)
        starts = ends - torch.tensor([len(part) for part in parts])
        #: index of each row in the concatenated frames, and of its sequence
        self.frame = torch.cat([torch.arange(int(a) + self.order, int(b)) for a, b in zip(starts, ends, strict=True)])
        self.sequence = torch.cat([torch.full((len(part) - self.order,), k) for k, part in enumerate(parts)])
        self._back = torch.arange(-self.order, 0)
        shape = tuple(self._frames.shape[1:])
        super().__init__(self.frame, shape)
        self.context = (self.order, *shape)

    def __getitem__(self, index: Any) -> Pair:
        """Rows (n, *frame) and their contexts (n, order, *frame), for a slice or a tensor of row indices."""
        frame = self.frame[index]
        return self._frames[frame], self._frames[frame.unsqueeze(-1) + self._back]

    def standardized(self, x: Any) -> Tensor:
        """Frames (..., *frame) in the units of the data as the machine learns them."""
        x = as_tensor(x, "frames")
        return x if self.location is None or self.scale is None else (x - self.location) / self.scale

    def restored(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`standardized`: frames (..., *frame) in the units of the data."""
        return x if self.location is None or self.scale is None else x * self.scale + self.location

    def robust_weights(self, power: float = 1.5) -> Tensor:
        """Weights of the rows for :class:`Weighted`, small where a linear autoregression has a large residual: (n,).

        Squared errors are dominated by the few frames that cannot be predicted, such as turns and jumps. The weight of
        a row is (m + r)^-power, with its mean squared residual r in units of the variances of the channels, and the
        median m of r. The autoregression is fitted with these weights, repeatedly. The mean of the weights is 1; with
        ``power=0`` all are 1.

        >>> time = torch.arange(100.0)
        >>> frames = torch.stack([torch.sin(time / 5), torch.cos(time / 5)], 1)
        >>> frames[50] += 3  # a jump
        >>> weights = Windows(frames, 2).robust_weights()
        >>> bool(weights[48] < 0.01), round(weights.mean().item(), 4)
        (True, 1.0)
        """
        if not 0 <= power < math.inf:
            raise InvalidOption(f"power: expected a number of at least 0, found {power}")
        v, context = self[:]
        spread = v.double().var(0, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
        found = torch.ones(len(v), dtype=torch.float64)
        for _ in range(_ROUNDS if power else 0):
            model = LinearAutoregression.fitted(v, context, 1.0, found)
            r = ((model(context) - v).double().square() / spread).flatten(1).mean(1)
            m = r.median()
            if not m > 0:  # most frames are predicted exactly
                m = r.mean().clamp(min=torch.finfo(r.dtype).tiny)
            found = (1 + r / m) ** -power
            found = found / found.mean()
        return found

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        v, context = self[index.cpu()]
        return out[0].copy_(v), out[1].copy_(context)


def as_sequences(sequences: Any) -> list[Tensor]:
    """Return sequences as tensors (frames, *frame) of the same frame shape; raise if a value is not a finite number.

    >>> [part.shape for part in as_sequences([[[0, 1], [2, 3]], [[4, 5]]])]
    [torch.Size([2, 2]), torch.Size([1, 2])]
    """
    several = isinstance(sequences, Sequence) and not isinstance(sequences, str)
    parts: list[Tensor] = []
    for k, given in enumerate(sequences if several else [sequences]):
        part = as_tensor(given, f"sequence {k}")
        if part.ndim < 2:
            raise InvalidData(f"sequence {k}: expected shape (frames, channels), found {tuple(part.shape)}")
        if parts and part.shape[1:] != parts[0].shape[1:]:
            raise InvalidData(
                f"sequence {k}: expected frames of shape {tuple(parts[0].shape[1:])}, as in sequence 0, "
                f"found {tuple(part.shape[1:])}"
            )
        if not bool(torch.isfinite(part).all()):
            raise InvalidData(f"sequence {k}: expected finite numbers, found NaN or infinity")
        parts.append(part)
    if not parts:
        raise InvalidData("sequences: expected at least one sequence, found none")
    return parts

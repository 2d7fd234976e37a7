"""The interface of the messages on a chain of layers, and their iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ...units.base import per_row


class Graph(ABC):
    """A representation of messages: tensors with one row per start."""

    method: str
    width: int  # number of entries of all messages of one start
    depth: int  # number of layers

    @abstractmethod
    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]:
        """Return the messages at given means and variances of all layers."""

    @abstractmethod
    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        """Return the new messages of a layer to its neighbors, by index, and a mask of undefined rows."""

    @abstractmethod
    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Return the means and variances of all layers, and B and A (empty for exact messages)."""

    @abstractmethod
    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        """Return the messages of :meth:`outgoing` as differentiable functions, without a check for undefined rows."""

    @abstractmethod
    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the differences of the means and of the standard deviations; None where a tensor has none."""

    @abstractmethod
    def free_energy(self, messages: list[Tensor]) -> Tensor:
        """Return the estimate of -ln Z at given messages: (rows,)."""


class Scheme:
    """One iteration: update the messages of the even layers, then those of the odd layers."""

    def __init__(self, graph: Graph, messages: list[Tensor], damping: float) -> None:
        self.graph, self.messages, self.damping = graph, messages, damping
        self.lost = torch.zeros(len(messages[0]), dtype=torch.bool, device=messages[0].device)
        self._spread = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)

    def state(self) -> list[Tensor]:
        """Return the messages."""
        return self.messages

    def keep(self, rows: Tensor) -> None:
        """Keep only these rows."""
        self.messages = [x[rows] for x in self.messages]
        self.lost = self.lost[rows]

    def step(self, measure: bool = True) -> Tensor | None:
        """Do one sweep; return the mean squared residual of the means of all messages (cavity magnetizations)."""
        totals = torch.zeros(2, len(self.lost), dtype=self.messages[0].dtype, device=self.lost.device)
        counts = [0, 0]
        for parity in (0, 1):
            for layer in range(parity, self.graph.depth, 2):
                outgoing, lost = self.graph.outgoing(layer, self.messages)
                self.lost |= lost
                for k, value in outgoing.items():
                    if measure:
                        for kind, difference in enumerate(self.graph.residual(k, value, self.messages[k])):
                            if difference is not None:
                                totals[kind] += per_row(difference.square())
                                counts[kind] += difference[0].numel()
                    self.messages[k].lerp_(value, 1 - self.damping)
        if not measure:
            return None
        residual, self._spread = (total / count for total, count in zip(totals, counts, strict=True))
        return residual.masked_fill_(self.lost, torch.nan)

    def spread(self) -> Tensor:
        """Return the mean squared residual of the standard deviations of all messages: (rows,)."""
        return self._spread

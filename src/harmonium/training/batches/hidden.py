"""The hidden states of a machine as rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ... import noise
from ...errors import InvalidData
from ...machines import DeepBeliefNetwork
from .conversion import as_source
from .source import CHECK_ELEMENTS, Source


class HiddenStates(Source):
    """The hidden states of a layer of a deep belief network given rows of data: the input of the machine above it.

    The rows are passed up when they are asked for, in parts that fit into memory; the states of the whole data set are
    never stored. They are samples or means, as ``inputs`` of the network, which is used with its current parameters.
    During training the samples come from the random stream of the run, so every epoch has new ones and the run resumes
    bit-for-bit. Elsewhere (initialization, metrics) the seed is fixed. Values are not checked: samples are always in
    the support of the units above, and means are accepted although they are not.

    Args:
        network: a deep belief network.
        data: rows of its visible layer, as in :func:`fit`.
        layer: number of the hidden layer, from 1 to that below the top machine.

    >>> import harmonium as hm
    >>> network = hm.DeepBeliefNetwork.of([4, 3, 2])
    >>> HiddenStates(network, torch.zeros(10, 4), 1).take(torch.arange(5), torch.empty(5, 3)).unique()
    tensor([0., 1.])
    """

    initial_rows = 10_000
    valid = True

    def __init__(self, network: DeepBeliefNetwork, data: Any, layer: int) -> None:
        if not 1 <= layer < len(network.machines):
            raise InvalidData(f"layer: expected a number from 1 to {len(network.machines) - 1}, found {layer}")
        self._network, self._inner, self._layer = network, as_source(data, network), layer
        super().__init__(self._inner, tuple(network.machines[layer].visible.shape))

    def begin(self, epoch: int) -> None:
        self._inner.begin(epoch)

    @property
    def chunk_rows(self) -> int:
        widest = max(unit.size for unit in self._network.layers[: self._layer + 1])
        return max(1, CHECK_ELEMENTS // widest)

    @torch.no_grad()
    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        random = noise.generator(0, out.device) if generator is None else generator
        for rows, part in zip(index.split(self.chunk_rows), out.split(self.chunk_rows), strict=True):
            x = torch.empty(len(rows), *self._inner.shape, dtype=out.dtype, device=out.device)
            x = self._inner.take(rows, x, generator)
            for k in range(self._layer):
                x = self._network.pass_up(k, x, generator=random)
            part.copy_(x)
        return out

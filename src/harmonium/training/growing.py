"""Growing a machine by a layer, without changing the distribution of its visible units."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .. import noise
from ..couplings import Dense
from ..machines import BoltzmannMachine, DeepBoltzmannMachine
from ..machines.chain import as_layer
from ..meanfield import naive
from ..units import Unit
from .batches import as_source

_ROWS, _ITERATIONS = 5000, 10  # for the mean states of the last hidden layer


@torch.no_grad()
def deepen(
    machine: BoltzmannMachine, hidden: Unit | int, data: Any, *, scale: float = 0.02, seed: int | None = 0
) -> DeepBoltzmannMachine:
    """Return a deep machine with the parameters of ``machine`` and a new, weakly coupled hidden layer on top.

    The new layer starts almost independent of the others, so the visible layer keeps its distribution: exactly for
    ``scale=0``, and up to terms of second order in the new weights otherwise. Joint training with :func:`fit` then
    starts from the likelihood of ``machine``, which :func:`pretrain` does not guarantee.

    Args:
        machine: trained machine, for example an RBM; not changed.
        hidden: the new layer, or its number of binary units.
        data: rows (n, *visible), for the mean states of the layer below the new one.
        scale: standard deviation of the new weights. Zero is a saddle point, where learning takes long to begin.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(16))
    >>> _ = hm.fit(rbm, data, epochs=1, seed=0, progress=False)
    >>> deep = hm.deepen(rbm, 8, data)
    >>> [tuple(unit.shape) for unit in deep.layers]
    [(64,), (16,), (8,)]
    """
    rows = as_source(data, machine)
    some = rows.rows(torch.arange(min(len(rows), _ROWS)), machine)
    below = naive(machine, clamped=some, damping=0.0, iterations=_ITERATIONS).magnetizations[-1].mean(0, keepdim=True)
    grown = copy.deepcopy(machine)
    top = copy.deepcopy(as_layer(hidden)).to(machine.device, machine.dtype)
    new = Dense(tuple(machine.layers[-1].shape), tuple(top.shape)).to(machine.device, machine.dtype)
    new.initialize(scale, generator=noise.generator(seed, machine.device))
    deep = DeepBoltzmannMachine([*grown.layers, top], [*grown.couplings, new])
    # the new fields have mean zero: both layers keep their mean activity
    above = top.mean(torch.zeros(1, *top.shape, dtype=machine.dtype, device=machine.device))
    deep.layers[-2].shift_bias(-new.down(above)[0])
    top.shift_bias(-new.up(below)[0])
    return deep

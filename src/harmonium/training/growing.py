"""Growing a machine by a layer or by hidden units, without changing the distribution of its visible units."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .. import noise
from ..checks import count
from ..couplings import Dense
from ..errors import InvalidOption
from ..machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from ..machines.chain import as_layer
from ..meanfield import naive
from ..noise import Seed
from ..units import Unit
from ..units.layer import UnitLayer
from .batches import as_source

_ROWS, _ITERATIONS = 5000, 10  # for the mean states of the last hidden layer


@torch.no_grad()
def deepen(
    machine: BoltzmannMachine, hidden: Unit | int, data: Any, *, scale: float = 0.02, seed: Seed = None
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


@torch.no_grad()
def widen(machine: RBM, hidden: int, *, scale: float = 0.01, seed: Seed = None) -> RBM:
    """Return an RBM with the parameters of ``machine`` and ``hidden`` further hidden units of the same kind.

    The new units have the default parameters of their kind and small random weights, so the visible layer keeps its
    distribution: exactly for ``scale=0``, and up to terms of second order in the new weights otherwise. Training of the
    larger machine with :func:`fit` starts from the likelihood of ``machine``.

    Args:
        machine: trained RBM with a hidden layer of shape (n,) and couplings between all units; not changed.
        hidden: number of new hidden units.
        scale: standard deviation of the new weights.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> small = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> _ = hm.fit(small, hm.data.load("digits", binarize="threshold"), negative="exact", epochs=1, progress=False)
    >>> hm.widen(small, 8).hidden.shape
    torch.Size([16])
    """
    if count("hidden", hidden) < 1:
        raise InvalidOption(f"hidden: expected at least 1, found {hidden}")
    if type(machine) is not RBM or type(machine.coupling) is not Dense or len(machine.hidden.shape) != 1:
        raise InvalidOption(f"widen: expected an RBM with a dense coupling and a hidden layer (n,), found {machine!r}")
    (known,) = machine.hidden.shape
    layer = UnitLayer.from_config({**machine.hidden.config(), "shape": [known + hidden]})
    layer.to(machine.device, machine.dtype)
    for new, old in zip(layer.parameters(), machine.hidden.parameters(), strict=True):
        (new if new.shape == old.shape else new[:known]).copy_(old)  # a shared parameter has no rows
    added = Dense(tuple(machine.visible.shape), hidden).to(machine.device, machine.dtype)
    added.initialize(scale, generator=noise.generator(seed, machine.device))
    visible = copy.deepcopy(machine.visible)
    # the new fields on the visible layer have mean zero
    start = layer.mean(torch.zeros(1, known + hidden, dtype=machine.dtype, device=machine.device))[:, known:]
    visible.shift_bias(-added.down(start)[0])
    weight = torch.cat([machine.coupling.weight, added.weight], 1)
    return RBM(visible, layer, Dense(tuple(machine.visible.shape), known + hidden, weight))

"""Start of the training of deep machines: from RBMs of each layer, or from a trained machine with one layer less."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .. import noise
from ..couplings import Dense
from ..machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from ..machines.chain import as_layer
from ..meanfield import naive
from ..units import Unit
from .batches import as_source
from .loop import Result, fit

_ROWS, _ITERATIONS = 5000, 10  # for the mean states of the last hidden layer


def pretrain(machine: BoltzmannMachine, data: Any, *, epochs: int = 10, seed: int = 0, **options: Any) -> list[Result]:
    """Train every coupling of a deep machine as an RBM, from the visible layer up (Hinton et al. 2006).

    See Tramel et al. (2018), Alg. 4. The weights are those of the RBMs. In the deep machine, a layer between two others
    gets the fields of both, so the result describes the data worse than the first RBM alone until all layers are
    trained jointly. :func:`deepen` starts from a deep machine that is as good as an RBM.

    The first RBM is trained on the ``data`` and sets the parameters of the first coupling and its two layers. Each
    further RBM is trained on samples of the hidden layer below, given the data, and sets its coupling and its hidden
    layer. Afterwards train all layers jointly with :func:`fit`, which keeps these parameters (``initialize=False`` is
    not needed, because the weights are not zero).

    Args:
        machine: deep machine; changed in place.
        data: training data, as in :func:`fit`.
        epochs: number of epochs for each RBM.
        seed: seed of the first RBM; each further RBM uses the next integer.
        options: other arguments of :func:`fit`, used for each RBM: ``negative``, ``batch_size``, ``optimizer``, …

    Returns:
        The results of :func:`fit` for each RBM, from the visible layer up.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> layers = [hm.units.Bernoulli(64), hm.units.Bernoulli(16), hm.units.Bernoulli(8)]
    >>> deep = hm.DeepBoltzmannMachine(layers)
    >>> _ = pretrain(deep, data, epochs=1, progress=False)
    >>> [bool(coupling.weight.any()) for coupling in deep.couplings]
    [True, True]
    """
    source = as_source(data, machine)
    rows: Any = data
    results = []
    for k, coupling in enumerate(machine.couplings):
        lower, upper = machine.layers[k], machine.layers[k + 1]
        rbm = RBM(copy.deepcopy(lower), copy.deepcopy(upper), copy.deepcopy(coupling))
        results.append(fit(rbm, rows, epochs=epochs, seed=seed + k, **options))
        with torch.no_grad():
            coupling.load_state_dict(rbm.coupling.state_dict())
            upper.load_state_dict(rbm.hidden.state_dict())
            if k == 0:
                lower.load_state_dict(rbm.visible.state_dict())
                rows = source.rows(torch.arange(len(source)), machine)
            generator = noise.generator(seed + k, machine.device)
            rows = torch.cat([upper.sample(coupling.up(part), generator=generator) for part in rows.split(1000)])
    return results


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

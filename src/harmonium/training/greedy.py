"""Layer by layer: starting values for a deep machine, Alg. 4 of the TAP paper."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .. import noise
from ..machines import RBM, BoltzmannMachine
from .batches import as_source
from .loop import Result, fit


def pretrain(
    machine: BoltzmannMachine, data: Any, *, epochs: int = 10, seed: int | None = None, **options: Any
) -> list[Result]:
    """Train every coupling of a deep machine as that of an RBM, from the visible layer up.

    The first RBM learns the ``data`` and gives the machine the parameters of its two layers; each further one learns
    draws of the hidden layer below, given the data, and gives its weights and its hidden layer. What follows is joint
    training with :func:`fit`, which starts from here (``initialize=False`` is not needed: the weights are not zero).

    Args:
        epochs: of each RBM.
        options: of :func:`fit`, for each of them: ``negative``, ``batch_size``, ``optimizer``, …

    Returns:
        What :func:`fit` returned for each, from the visible layer up.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> layers = [hm.units.Bernoulli(64), hm.units.Bernoulli(16), hm.units.Bernoulli(8)]
    >>> deep = hm.DeepBoltzmannMachine(layers)
    >>> _ = pretrain(deep, data, epochs=1, progress=False)
    >>> [bool(coupling.weight.any()) for coupling in deep.couplings]
    [True, True]
    """
    seed, source = noise.resolve_seed(seed), as_source(data, machine)
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

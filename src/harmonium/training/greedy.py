"""Greedy layer-by-layer pretraining of a deep machine, Tramel et al. (2018), Alg. 4."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from .. import noise
from ..errors import NotLearned
from ..machines import RBM, BoltzmannMachine
from .batches import as_source
from .loop import Result, fit


def pretrain(
    machine: BoltzmannMachine,
    data: Any,
    *,
    epochs: int = 10,
    seed: int = 0,
    run: str | Path | None = None,
    **options: Any,
) -> list[Result]:
    """Train every coupling of a deep machine as an RBM, from the visible layer up (Hinton et al. 2006).

    The first RBM is trained on the ``data`` and sets the parameters of the first coupling and its two layers. Each
    further RBM is trained on samples of the hidden layer below, given the data, and sets its coupling and its hidden
    layer. Afterwards train all layers jointly with :func:`fit`, which keeps these parameters (``initialize=False`` is
    not needed, because the weights are not zero).

    Args:
        machine: deep machine; changed in place.
        data: training data, as in :func:`fit`.
        epochs: number of epochs for each RBM.
        seed: seed of the first RBM; each further RBM uses the next integer.
        run: folder for the runs of the RBMs, ``pretrain-1``, ``pretrain-2``, …; nothing is saved if None. With
            ``resume=True``, finished runs are loaded and an unfinished one is continued.
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
        folder = None if run is None else pretraining_folder(run, k)
        with _named_warnings(f"coupling {k + 1}"):
            results.append(fit(rbm, rows, epochs=epochs, seed=seed + k, run=folder, **options))
        with torch.no_grad():
            coupling.load_state_dict(rbm.coupling.state_dict())
            upper.load_state_dict(rbm.hidden.state_dict())
            if k == 0:
                lower.load_state_dict(rbm.visible.state_dict())
                rows = source.rows(torch.arange(len(source)), machine)
            generator = noise.generator(seed + k, machine.device)
            rows = torch.cat([upper.sample(coupling.up(part), generator=generator) for part in rows.split(1000)])
    return results


def pretraining_folder(run: str | Path, coupling: int) -> Path:
    """Return the folder of the pretraining of a coupling in the folder of a run.

    >>> pretraining_folder("runs/deep", 0).name
    'pretrain-1'
    """
    return Path(run) / f"pretrain-{coupling + 1}"


@contextmanager
def _named_warnings(name: str) -> Iterator[None]:
    """Say in warnings about the result which RBM they are about."""
    with warnings.catch_warnings(record=True) as found:
        yield
    for warning in found:
        label = f"{name}: " if issubclass(warning.category, NotLearned) else ""
        warnings.warn(f"{label}{warning.message}", warning.category, stacklevel=4)

"""Greedy layer-by-layer training of stacks and deep machines (Hinton et al. 2006; Tramel et al. 2018, Alg. 4)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..couplings import Dense
from ..errors import InvalidOption, NotLearned
from ..machines import RBM, DeepBeliefNetwork, Machine
from .batches import HiddenStates
from .loop import Result, fit


def pretrain(
    machine: Machine,
    data: Any,
    *,
    epochs: int | Sequence[int] = 10,
    seed: int = 0,
    transposed: bool = False,
    validation: Any = None,
    run: str | Path | None = None,
    **options: Any,
) -> list[Result]:
    """Train the machines of a deep belief network one after the other, from the visible layer up (Hinton et al. 2006).

    The first machine is trained on the ``data``, each further one on hidden states of the machine below, given the data
    (:class:`HiddenStates`): samples or means, as ``inputs`` of the network. They are computed batch by batch, never for
    the whole data set at once. Afterwards all machines can be trained jointly with :func:`fit`, which keeps their
    parameters.

    A deep Boltzmann machine is trained as the deep belief network of its layers (Tramel et al. 2018, Alg. 4): the first
    RBM sets the parameters of the first coupling and its two layers, each further one those of its coupling and its
    hidden layer. In the deep machine, a layer between two others gets the fields of both, so the result describes the
    data worse than the first RBM alone until all layers are trained jointly. :func:`deepen` starts from a deep machine
    that is as good as an RBM.

    Args:
        machine: deep belief network or deep Boltzmann machine; changed in place.
        data: training data, as in :func:`fit`.
        epochs: number of epochs of every machine, or one number for each.
        seed: seed of the first machine; each further machine uses the next integer.
        transposed: whether a machine starts as the transpose of the machine below it, with hidden and visible layer
            exchanged, where their units and numbers allow it. The new machine then has the distribution of the hidden
            layer below, and training it raises the variational bound (Hinton et al. 2006). Otherwise the machines start
            as ``initialize`` of :func:`fit` states.
        validation: validation rows, passed up like the data.
        run: folder for the runs of the machines, in its folders ``machine-1``, ``machine-2``, …; with ``resume=True``
            training continues bit-for-bit.
        options: other arguments of :func:`fit`, used for each machine: ``negative``, ``batch_size``, ``optimizer``, …

    Returns:
        The results of :func:`fit` for each machine, from the visible layer up.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> network = hm.DeepBeliefNetwork.of([64, 16, 8])
    >>> _ = pretrain(network, data, epochs=1, progress=False)
    >>> [bool(coupling.weight.any()) for coupling in network.couplings]
    [True, True]
    """
    network = machine if isinstance(machine, DeepBeliefNetwork) else _stack(machine)
    numbers = [epochs] * len(network.machines) if isinstance(epochs, int) else list(epochs)
    if len(numbers) != len(network.machines):
        raise InvalidOption(f"epochs: expected one number for each of {len(network.machines)} machines, found {epochs}")
    results = []
    for k, rbm in enumerate(network.machines):
        rows, unseen = (
            given if given is None or k == 0 else HiddenStates(network, given, k) for given in (data, validation)
        )
        if transposed and k > 0:
            _transpose(network.machines[k - 1], rbm)
        folder = None if run is None else machine_folder(run, k)
        own = {**options, "epochs": numbers[k], "seed": seed + k, "run": folder, "validation": unseen}
        with _named_warnings(f"machine {k + 1}"):
            results.append(fit(rbm, rows, **own))
    return results


def machine_folder(run: str | Path, k: int) -> Path:
    """Return the folder of the greedy training of machine ``k`` (from 0) in the folder of a run.

    >>> machine_folder("runs/deep", 0).name
    'machine-1'
    """
    return Path(run) / f"machine-{k + 1}"


@contextmanager
def _named_warnings(name: str) -> Iterator[None]:
    """Say in warnings about the result which machine they are about."""
    with warnings.catch_warnings(record=True) as found:
        yield
    for warning in found:
        label = f"{name}: " if issubclass(warning.category, NotLearned) else ""
        warnings.warn(f"{label}{warning.message}", warning.category, stacklevel=4)


def _stack(machine: Any) -> DeepBeliefNetwork:
    """Return the deep belief network of the layers and couplings of a deep machine; inner visible layers are copies."""
    return DeepBeliefNetwork.of(machine.layers, machine.couplings)


@torch.no_grad()
def _transpose(lower: RBM, upper: RBM) -> None:
    """Exchange the layers of ``lower`` to initialize ``upper``, if it has the same units and dense couplings."""
    pairs = [(lower.hidden, upper.visible), (lower.visible, upper.hidden)]
    alike = all(a.config() == b.config() for a, b in pairs)
    if not alike or type(lower.coupling) is not Dense or type(upper.coupling) is not Dense:
        return
    for ours, theirs in pairs:
        theirs.load_state_dict(ours.state_dict())
    upper.weight.copy_(lower.weight.T)

"""Greedy layer-by-layer training of stacks and deep machines (Hinton et al. 2006; Tramel et al. 2018, Alg. 4)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..couplings import Dense
from ..errors import InvalidOption, NotLearned, warn
from ..machines import RBM, DeepBeliefNetwork, Machine
from ..noise import Seed, resolve_seed
from .batches import HiddenStates
from .plan import Plan
from .result import Result
from .run import Run

_PER_RUN = ("epoch", "seconds", "samples_per_second", "weight_norm")  # metrics with one value for the whole stack


def pretrain(
    machine: Machine,
    data: Any,
    *,
    epochs: int | Sequence[int] = 10,
    seed: Seed = None,
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
        seed: seed of the first machine; each further machine uses the next integer. By default a number drawn from
            torch's generator.
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
    from .train import train  # which pretrains deep machines

    seed = resolve_seed(seed)
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
        own, others = Plan.split({**options, "epochs": numbers[k], "seed": seed + k})
        if k > 0:  # penalties of pixels and the like concern the first machine only
            penalties, constraints = (
                [one for one in parts or () if one.applies(rbm)] for parts in (own.penalties, own.constraints)
            )
            own = replace(own, penalties=penalties, constraints=constraints)
        with _named_warnings(f"machine {k + 1}"):
            results.append(train(rbm, rows, own, run=folder, validation=unseen, **others))
    return results


def gather(network: Any, run: Run) -> list[dict[str, float]]:
    """Write the metrics, the trajectory and the checkpoint of a network from the runs of its machines.

    The network at an epoch has all machines at that epoch, although they were trained one after the other. Returns the
    metrics of all epochs; those of machine k end in _k.
    """
    runs = [Run(machine_folder(run.folder, k)) for k in range(len(network.machines))]
    run.check_held()
    history = joined([part.read_metrics() for part in runs])
    run.write_metrics(history)
    earlier = copy.deepcopy(network)
    for kept in zip(*(part.trajectory() for part in runs), strict=True):
        for machine, (_, path) in zip(earlier.machines, kept, strict=True):
            files.load_parameters(machine, path, files.read_tensors(path)[0])
        run.write_snapshot(earlier, kept[0][0])
    run.write_checkpoint(network, {"epoch": history[-1]["epoch"]})
    return history


def joined(histories: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, float]]:
    """Join the metrics of machines that were trained for the same epochs.

    >>> joined([[{"epoch": 1, "seconds": 2.0, "gap": 0.5}], [{"epoch": 1, "seconds": 1.0, "gap": 0.25}]])
    [{'epoch': 1, 'seconds': 3.0, 'gap_1': 0.5, 'gap_2': 0.25}]
    """
    found = []
    for rows in zip(*histories, strict=True):
        row = {"epoch": rows[0]["epoch"], "seconds": sum(part["seconds"] for part in rows)}
        if all("samples_per_second" in part for part in rows):
            row["samples_per_second"] = round(1 / sum(1 / part["samples_per_second"] for part in rows), 1)
        if all("weight_norm" in part for part in rows):
            row["weight_norm"] = sum(part["weight_norm"] ** 2 for part in rows) ** 0.5
        for k, part in enumerate(rows):
            row |= {f"{name}_{k + 1}": value for name, value in part.items() if name not in _PER_RUN}
        found.append(row)
    return found


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
        warn(f"{label}{warning.message}", warning.category)


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

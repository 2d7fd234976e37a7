"""HDF5 archives of the packages ``rbms`` and ``fastrbm``, which keep all checkpoints of a run in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..couplings import Dense
from ..errors import InvalidData, InvalidOption, unknown
from ..extras import require
from ..files import atomic
from ..machines import RBM
from ..units import Bernoulli, Potts, Unit
from . import hdf5

_UPDATE = "update_"
#: the visible units of each kind of machine in these files; hidden units are always Bernoulli
_VISIBLE: dict[str, type[Unit]] = {"BBRBM": Bernoulli, "PBRBM": Potts}
_NAMES = {unit.name(): kind for kind, unit in _VISIBLE.items()}
_CHAINS = 100


def read_rbms(path: str | os.PathLike[str], update: int | None = None) -> RBM:
    """Read a machine of the packages ``rbms`` or ``fastrbm``: the checkpoint ``update``, by default the last one.

    >>> import tempfile, harmonium as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.convert.write_rbms(hm.RBM(4, 2), folder + "/rbm.h5")
    ...     hm.convert.read_rbms(folder + "/rbm.h5").layers[1]
    Bernoulli((2,))
    """
    with hdf5.opened(Path(path)) as file:
        updates = _updates(file)
        if update is not None and update not in updates:
            raise unknown("update", str(update), list(map(str, updates)))
        return _machine(file, max(updates) if update is None else update)


def read_rbms_trajectory(path: str | os.PathLike[str]) -> dict[int, RBM]:
    """Read all checkpoints of a file as machines, by their number of updates, for functions of a training run.

    >>> import tempfile, harmonium as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.convert.write_rbms({1: hm.RBM(4, 2), 10: hm.RBM(4, 2)}, folder + "/run.h5")
    ...     list(hm.convert.read_rbms_trajectory(folder + "/run.h5"))
    [1, 10]
    """
    with hdf5.opened(Path(path)) as file:
        return {update: _machine(file, update) for update in _updates(file)}


def write_rbms(
    machines: RBM | Mapping[int, RBM], path: str | os.PathLike[str], *, chains: Tensor | None = None
) -> None:
    """Write a machine, or the checkpoints of a run by number of updates, so that the package ``rbms`` can read them.

    Args:
        machines: RBMs with Bernoulli or Potts visible units and Bernoulli hidden units.
        path: the file to write; an existing file is replaced.
        chains: visible states (n, *visible) of persistent chains; by default draws of the visible units without
            couplings.
    """
    run = machines if isinstance(machines, Mapping) else {0: machines}
    if not run:
        raise InvalidData("machines: expected at least one machine, found none")
    kind = {_kind(machine) for machine in run.values()}
    if len(kind) > 1:
        raise InvalidData("machines: expected machines of one kind, found Bernoulli and Potts visible units")
    last = run[max(run)]
    states = last.independent(_CHAINS, torch.Generator().manual_seed(0)) if chains is None else last.as_states(chains)
    h5py = require("h5py", "HDF5 files need")
    with atomic(path) as temporary, h5py.File(temporary, "w") as file:
        file["model_type"] = kind.pop()
        file["parallel_chains"] = _codes(last.visible, states).cpu().numpy()
        for name, value in {"batch_size": 0, "gibbs_steps": 0, "learning_rate": 0.0, "L1": 0.0, "L2": 0.0}.items():
            file[f"hyperparameters/{name}"] = value
        for update, machine in sorted(run.items()):
            group = file.create_group(f"{_UPDATE}{update}")
            group["time"] = 0.0
            for name, values in _parameters(machine).items():
                group[f"params/{name}"] = values.detach().cpu().numpy()
                group[name] = group[f"params/{name}"]  # where older versions look


def _updates(file: Any) -> list[int]:
    found = [name.removeprefix(_UPDATE) for name in file if name.startswith(_UPDATE)]
    updates = sorted(int(number) for number in found if number.isdecimal())
    if not updates:
        raise InvalidData(f"{hdf5.place(file)}: expected groups named update_N, found {', '.join(file) or 'nothing'}")
    return updates


def _machine(file: Any, update: int) -> RBM:
    group = file[f"{_UPDATE}{update}"]
    group = group.get("params", group)
    weight, visible, hidden = (hdf5.tensor(group, name) for name in ("weight_matrix", "vbias", "hbias"))
    kind = hdf5.text(file, "model_type") if "model_type" in file else ("PBRBM" if weight.ndim == 3 else "BBRBM")
    if kind not in _VISIBLE:
        raise InvalidData(f"{hdf5.place(file)}: expected a machine of kind {' or '.join(_VISIBLE)}, found {kind}")
    if tuple(weight.shape) != (*visible.shape, *hidden.shape) or hidden.ndim != 1:
        raise InvalidData(
            f"{hdf5.place(group)}: expected weights of shape {(*visible.shape, *hidden.shape)}, "
            f"found {tuple(weight.shape)}"
        )
    coupling = Dense(tuple(visible.shape), len(hidden), weight.reshape(-1, len(hidden)))
    return RBM(_VISIBLE[kind](visible.shape, bias=visible), Bernoulli(len(hidden), bias=hidden), coupling)


def _kind(machine: RBM) -> str:
    visible, hidden = (unit.name() for unit in machine.layers)
    if visible not in _NAMES or hidden != Bernoulli.name() or len(machine.hidden.shape) != 1:
        raise InvalidOption(
            f"write_rbms: expected bernoulli or potts visible units and a vector of bernoulli hidden units, "
            f"found {visible} and {hidden}"
        )
    return _NAMES[visible]


def _parameters(machine: RBM) -> dict[str, Tensor]:
    visible, hidden = machine.visible.full(machine.visible.bias), machine.hidden.full(machine.hidden.bias)
    weight = machine.coupling.matrix().reshape(*visible.shape, len(hidden))
    return {"weight_matrix": weight, "vbias": visible, "hbias": hidden}


def _codes(unit: Unit, states: Tensor) -> Tensor:
    """States as ``rbms`` stores them: the index of the state instead of a one-hot vector."""
    return states.argmax(-1).to(states.dtype) if unit.event_shape else states.flatten(1)

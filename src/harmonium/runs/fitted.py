"""Runs that were started with ``hm.fit``: their configuration as options of a run, and a check of their data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RunError
from ..machines import Machine
from ..options import DataOptions, MachineOptions, TrainingOptions
from ..training.batches import Source
from ..training.loop import data_mean
from . import config as schema
from . import specs

_TOLERANCE = 1e-6  # of the mean of all values


def config_of(tables: Mapping[str, Any], machine: Machine | None) -> schema.Config:
    """Return the configuration as options of a run, with no source of the data.

    >>> import harmonium as hm
    >>> found = config_of({"training": {"epochs": 3}, "data": {"rows": 60}}, hm.RBM(6, 2))
    >>> found.machine.visible, found.training.epochs, found.data.rows
    ('bernoulli:6', 3, 60)
    """
    training = _table(tables, "training")
    known = {name: training[name] for name in ("epochs", "batch_size", "seed") if name in training}
    visible = None if machine is None else "+".join(map(str, specs.of_layer(machine.visible)))
    dtype = "float32" if machine is None else str(machine.dtype).removeprefix("torch.")
    return schema.Config(
        data=DataOptions(rows=_table(tables, "data").get("rows")),
        machine=MachineOptions(visible=visible, dtype=dtype),
        training=TrainingOptions(**known),
    )


def check_mean(tables: Mapping[str, Any], rows: Source, machine: Machine) -> None:
    """Raise if the mean of the rows is not that of the rows of the run."""
    expected = _table(tables, "data").get("mean")
    found = data_mean(rows.mean(machine))
    if expected is not None and abs(found - expected) > _TOLERANCE * max(1.0, abs(expected)):
        raise RunError(
            f"data: expected the rows of the run, whose values have the mean {expected:.7g}, found the mean {found:.7g}"
        )


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tables.get(name, {})
    return found if isinstance(found, Mapping) else {}

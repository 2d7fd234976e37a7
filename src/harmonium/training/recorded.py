"""The arguments of ``fit`` in the configuration of a run, so that the command line can continue it.

Arguments without a name, such as a function for the learning rate, cannot be written to a file. The configuration lists
them, and such a run is continued in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import HarmoniumError, RunError
from . import specs
from .arguments import Arguments
from .batches import ArraySource, DatasetSource, Source, TensorSource
from .centering import Centered
from .constraints import Average, ZeroSum
from .negative import NegativePhase, WeightedSum
from .penalties import L1, L2, L1Squared, L2ToMean, Smooth
from .transforms import Transform

#: the transforms that can be made again from their configuration
TRANSFORMS: dict[str, type[Transform]] = {
    kind.__name__: kind for kind in (L1, L2, L1Squared, L2ToMean, Smooth, Centered, ZeroSum, Average)
}
_PLAIN = ("epochs", "batch_size", "seed", "metrics_every", "precision", "threads")
#: rows that a file can contain; others are weighted, drawn again, have labels, a context or missing values
_PLAIN_SOURCES = (TensorSource, ArraySource, DatasetSource)


def recorded(
    given: Arguments, phase: NegativePhase, chosen: Sequence[Transform], source: Source, **resolved: Any
) -> dict[str, Any]:
    """Return the tables ``training``, ``negative`` and ``transforms`` of a call of ``fit``.

    ``resolved`` are the values of arguments that depend on the data, such as the number of epochs. The entry
    ``unnamed`` lists the arguments that only the program knows.
    """
    optimizer, schedule = _optimizer(given), _schedule(given)
    unnamed = {
        "optimizer": optimizer is None,
        "schedule": schedule is None,
        "negative": not _known(phase),
        "transforms": not all(type(part) in TRANSFORMS.values() for part in chosen),
        "data": type(source) not in _PLAIN_SOURCES,
    }
    values = {name: getattr(given, name) for name in _PLAIN} | resolved
    names = {"optimizer": optimizer, "learning_rate": given.learning_rate, "schedule": schedule}
    left_out = [name for name, missing in unnamed.items() if missing]
    return {
        "training": {**values, **names, **({"unnamed": left_out} if left_out else {})},
        "negative": phase.config(),
        "transforms": [part.config() for part in chosen],
    }


def arguments(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the arguments of ``fit`` from the configuration of a run; raises if it does not contain all of them.

    >>> tables = {"training": {"epochs": 3, "optimizer": "sgd", "schedule": "constant"}, "transforms": [],
    ...           "negative": {"name": "pcd", "k": 2}}
    >>> arguments(tables, "run")["negative"]
    PCD(k=2, chains=None)
    """
    training = config.get("training", {})
    unnamed = training.get("unnamed", [])
    if unnamed:
        raise RunError(
            f"{where}: expected a run whose arguments have names, found own objects for {', '.join(unnamed)}; "
            f"continue it in Python with hm.fit(…, run=…, resume=True)"
        )
    try:
        return {
            **{name: training[name] for name in (*_PLAIN, "optimizer", "learning_rate") if name in training},
            "schedule": specs.schedule(training["schedule"]),
            "negative": specs.recorded_phase(config["negative"]),
            "transforms": [_transform(table) for table in config.get("transforms", [])],
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, HarmoniumError):
            raise
        raise RunError(f"{where}: config.toml is damaged; expected the arguments of hm.fit ({error})") from None


def _optimizer(given: Arguments) -> str | None:
    """Return the name of the optimizer; None for an object or a function."""
    if given.optimizer_name is not None:
        return given.optimizer_name
    named = [name for name in specs.OPTIMIZERS if name == getattr(given.optimizer, "__name__", "").lower()]
    return named[0] if named and given.learning_rate is not None else None


def _schedule(given: Arguments) -> str | None:
    """Return the schedule as a string; None for a function."""
    if given.schedule is None:
        return given.default_schedule
    if isinstance(given.schedule, str):
        return given.schedule
    named = [name for name, kind in specs.SCHEDULES.items() if kind is type(given.schedule)]
    if not named or not is_dataclass(given.schedule):
        return None
    values = [str(getattr(given.schedule, field.name)) for field in fields(given.schedule)]
    return ":".join([named[0], *values])


def _known(phase: NegativePhase) -> bool:
    """Return whether a phase can be made again from its configuration."""
    if type(phase) is WeightedSum:
        return all(_known(part) for part in phase.phases)
    return type(phase) in specs.NEGATIVES.values()


def _transform(table: Mapping[str, Any]) -> Transform:
    options = dict(table)
    return TRANSFORMS[options.pop("transform")](**options)

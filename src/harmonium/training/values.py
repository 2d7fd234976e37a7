"""The values of a plan: objects, their text on the command line, and their tables in a configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import noise
from ..checks import as_table, as_text, count, from_table, parse, written
from ..errors import InvalidOption, unknown
from .constraints import CONSTRAINTS, Constraint
from .descent import AnyOptimizer
from .initial import INITIAL, Initial
from .negative import PHASES, NegativePhase, WeightedSum
from .optimizers import OPTIMIZERS, Optimizer
from .penalties import PENALTIES, Penalty
from .precision import AUTO, BFLOAT16, FLOAT32
from .schedules import SCHEDULES

SMOOTHING = 0.01  # of the offsets of centered coordinates
CUSTOM = "custom"  # what a configuration says about an object or a function without a name
_PRECISIONS = (FLOAT32, BFLOAT16, AUTO)
_SUM = "weighted-sum"


def _at_least(least: int) -> Any:
    def check(name: str, value: Any) -> int:
        if count(name, value) < least:
            raise InvalidOption(f"{name}: expected at least {least}, found {value}")
        return count(name, value)

    return check


def _rate(name: str, value: Any) -> float | str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value == "auto" or (number and 0 < value < math.inf):
        return value if value == "auto" else float(value)
    raise InvalidOption(f'{name}: expected a positive number or "auto", found {value!r}')


def _centered(name: str, value: Any) -> float | bool:
    if isinstance(value, bool):
        return SMOOTHING if value else False
    if isinstance(value, (int, float)) and 0 < value <= 1:
        return float(value)
    raise InvalidOption(f"{name}: expected a number in (0, 1], or False for plain coordinates, found {value!r}")


def _precision(name: str, value: Any) -> str:
    if value not in _PRECISIONS:
        raise unknown(name, str(value), _PRECISIONS)
    return str(value)


def phase_of(value: Any) -> NegativePhase:
    """Return a negative phase from an object, a text or a table.

    >>> phase_of("discriminative+0.01*cd:1").terms
    ((1.0, Discriminative(part=None)), (0.01, CD(k=1)))
    """
    return _phase("negative", value)


def _phase(name: str, value: Any) -> NegativePhase:
    if isinstance(value, str):
        value = re.sub(r"^hybrid:(.+)$", r"discriminative+\1*cd:1", value.strip())
        if "+" not in value and "*" not in value:
            return parse("negative phase", PHASES, value)
        return WeightedSum([_term(term, value) for term in value.split("+")])
    if isinstance(value, Mapping):
        if value.get("name") != _SUM:
            return from_table("negative phase", PHASES, value)
        terms = [dict(term) for term in value["terms"]]
        return WeightedSum([(term.pop("weight"), _phase(name, term)) for term in terms])
    if not isinstance(value, NegativePhase):
        raise InvalidOption(
            f'{name}: expected a phase such as harmonium.PCD(1) or a string such as "pcd:1", found {value!r}'
        )
    return value


def _term(term: str, text: str) -> tuple[float, NegativePhase]:
    """Parse a term of a weighted sum, ``PHASE`` or ``WEIGHT*PHASE``."""
    weight, times, phase = term.rpartition("*")
    try:
        return float(weight) if times else 1.0, parse("negative phase", PHASES, phase.strip())
    except ValueError as error:
        if isinstance(error, InvalidOption):
            raise
        raise InvalidOption(
            f"negative phase '{text}': expected terms such as 0.01*cd:1, found '{term.strip()}'"
        ) from None


def _named(family: str, known: Mapping[str, type], value: Any) -> Any:
    """Return the value of a text or a table; another value as it is."""
    if isinstance(value, str):
        return parse(family, known, value)
    return from_table(family, known, value) if isinstance(value, Mapping) else value


def _optimizer(name: str, value: Any) -> Any:
    value = _named("optimizer", OPTIMIZERS, value)
    if not (isinstance(value, (AnyOptimizer, Optimizer)) or callable(value)):
        raise InvalidOption(
            f"{name}: expected a torch.optim optimizer, a function that makes one or a name, found {value!r}"
        )
    return value


def _schedule(name: str, value: Any) -> Any:
    value = _named("schedule", SCHEDULES, value)
    if not callable(value):
        raise InvalidOption(
            f'{name}: expected a function of the clock or a string such as "linear:0.3", found {value!r}'
        )
    return value


def _several(known: Mapping[str, type], base: type, family: str, example: str) -> Any:
    def check(name: str, value: Any) -> tuple[Any, ...]:
        parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        made = tuple(_named(family, known, part) for part in parts)
        for part in made:
            if not isinstance(part, base):
                raise InvalidOption(f'{name}: expected a list such as ["{example}"], found {part!r}')
        return made

    return check


def _initial(name: str, value: Any) -> Initial:
    value = _named("initialization", INITIAL, value)
    if not isinstance(value, Initial):
        raise InvalidOption(f'{name}: expected "normal:0.01", "sign", "modes" or "keep", found {value!r}')
    return value


# -- plain values -----------------------------------------------------------------------------------------------------

_FAMILIES: dict[str, Mapping[str, type]] = {
    "negative": PHASES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "penalties": PENALTIES,
    "constraints": CONSTRAINTS,
    "initialize": INITIAL,
}


def plain(name: str, value: Any) -> Any:
    """Return a value of a plan as numbers, words and tables; :data:`CUSTOM` for an object without a name."""
    if isinstance(value, tuple):
        return [plain(name, part) for part in value]
    if name not in _FAMILIES:
        return value
    if type(value) is WeightedSum:
        terms = [(weight, plain(name, phase)) for weight, phase in value.terms]
        if all(phase != CUSTOM for _, phase in terms):
            return {"name": _SUM, "terms": [{"weight": weight, **phase} for weight, phase in terms]}
    return as_table(_FAMILIES[name], value) or CUSTOM


def text_of(name: str, value: Any) -> str:
    """Return a value of the table ``[training]`` as the text of the command line.

    >>> text_of("optimizer", {"name": "sgd", "momentum": 0.9})
    'sgd,momentum=0.9'
    """
    if isinstance(value, list):
        return ", ".join(text_of(name, part) for part in value) or "none"
    if not isinstance(value, Mapping) or name not in _FAMILIES:
        return written(value)
    if value.get("name") == _SUM:
        terms = [dict(term) for term in value["terms"]]
        return "+".join(
            f"{'' if (weight := term.pop('weight')) == 1 else f'{weight:g}*'}{text_of(name, term)}" for term in terms
        )
    return as_text(_FAMILIES[name], value, leading=name != "optimizer")


def without_objects(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table ``[training]`` without the objects and functions that only a program knows."""
    return {name: value for name, value in table.items() if value != CUSTOM}


#: the check of each field of a plan, which returns its value
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "negative": _phase,
    "epochs": _at_least(0),
    "pretrain": _at_least(0),
    "batch_size": _at_least(1),
    "optimizer": _optimizer,
    "learning_rate": _rate,
    "schedule": _schedule,
    "penalties": _several(PENALTIES, Penalty, "penalty", "l2:0.001"),
    "constraints": _several(CONSTRAINTS, Constraint, "constraint", "zero-sum"),
    "centered": _centered,
    "initialize": _initial,
    "precision": _precision,
    "seed": lambda name, seed: noise.check_seed(seed),
}

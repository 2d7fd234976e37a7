"""Checks of common arguments, and values written as text or as tables of a configuration."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import operator
import re
import typing
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any

from .errors import InvalidOption, unknown

#: of a layer; torch has at most 64, and states have one more
MOST_DIMENSIONS = 32
#: of a state of a layer
MOST_ENTRIES = 2**40
#: of samples, chains, steps and epochs; the integers of torch have 63 bits
MOST_COUNTED = 2**62


def kebab(name: str) -> str:
    """The name of a class on the command line and in files.

    >>> kebab("TruncatedGaussian"), kebab("DoubleReLU"), kebab("PCD")
    ('truncated-gaussian', 'double-relu', 'pcd')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.replace("ReLU", "Relu")).lower()


def whole(name: str, value: int) -> int:
    """The value as an int (NumPy integers are accepted); raises :class:`InvalidOption` if it is not an integer.

    >>> whole("kernel", 3.0)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: kernel: expected a whole number, found 3.0
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidOption(f"{name}: expected a whole number, found {value!r}") from None


def count(name: str, value: int) -> int:
    """The value as an int, as :func:`whole`; raises :class:`InvalidOption` also if it is too large for any use.

    >>> count("n", 10**400)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: n: expected a whole number of at most 4.6e+18, found about 1e+400
    """
    number = whole(name, value)
    if abs(number) > MOST_COUNTED:
        found = f"{'-' * (number < 0)}1e+{math.log10(abs(number)):.0f}"
        raise InvalidOption(f"{name}: expected a whole number of at most {MOST_COUNTED:.2g}, found about {found}")
    return number


def as_shape(shape: int | Iterable[int], what: str = "layer") -> tuple[int, ...]:
    """The shape of a layer, from a number of units or a tuple.

    >>> as_shape(784), as_shape((3, 32, 32))
    ((784,), (3, 32, 32))
    """
    try:
        sizes = tuple(map(operator.index, shape)) if isinstance(shape, Iterable) else (operator.index(shape),)
    except TypeError:
        raise InvalidOption(f"{what}: expected a number of units or a tuple of sizes, found {shape!r}") from None
    if not sizes or min(sizes) < 1:
        raise InvalidOption(f"{what}: expected a layer shape of positive sizes, found {sizes}")
    if len(sizes) > MOST_DIMENSIONS:
        raise InvalidOption(f"{what}: expected at most {MOST_DIMENSIONS} dimensions, found {len(sizes)}")
    if math.prod(sizes) > MOST_ENTRIES:
        raise InvalidOption(f"{what}: expected at most {MOST_ENTRIES:,} entries, found {math.prod(sizes):.3g}")
    return sizes


# -- values with a name ---------------------------------------------------------------------------------------------

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "sizes such as 28x28",
    list: "a list",
}


def parse(family: str, table: Mapping[str, type], text: str) -> Any:
    """Make a value from the text NAME[:VALUE][,key=value…]; VALUE is that of the first field of the dataclass.

    >>> @dataclasses.dataclass(frozen=True)
    ... class PCD:
    ...     k: int = 1
    ...     chains: int | None = None
    >>> parse("negative phase", {"pcd": PCD}, "pcd:2,chains=100")
    PCD(k=2, chains=100)
    """
    name, value, options = split(text)
    kind = known_kind(family, table, name)
    if value is not None:
        first = next(iter(_fields(kind)), None)
        if first is None:
            raise InvalidOption(f"{family} '{text}': expected no value after {name}, found '{value}'")
        if first in options:
            raise InvalidOption(f"{family} '{text}': {first} is given twice, after the colon and as an option")
        options = {first: literal(value), **options}
    return make(f"'{text}'", name, kind, options)


def from_table(family: str, table: Mapping[str, type], given: Mapping[str, Any]) -> Any:
    """Make a value from a table of a configuration, ``{"name": "pcd", "k": 2}``; the inverse of :func:`as_table`."""
    options = dict(given)
    if not isinstance(options.get("name"), str):
        raise InvalidOption(f"{family}: expected a table with a name, found {given!r}")
    name = options.pop("name")
    return make(f"{family} '{name}'", name, known_kind(family, table, name), options)


def as_table(table: Mapping[str, type], value: Any) -> dict[str, Any] | None:
    """Return the name and the fields of a value, without those that are None; None if its class is not in the table."""
    name = next((name for name, kind in table.items() if type(value) is kind), None)
    if name is None:
        return None
    fields = {key: getattr(value, key) for key in _fields(type(value))}
    return {"name": name, **{key: field for key, field in fields.items() if field is not None}}


def as_text(table: Mapping[str, type], given: Mapping[str, Any], *, leading: bool = True) -> str:
    """Return the text from which :func:`parse` makes the value of a table of :func:`as_table`.

    With ``leading``, the first field follows a colon. Other fields are left out if they have their default.
    """
    kind = table[given["name"]]
    fields = list(_fields(kind))
    plain = {field.name: field.default for field in dataclasses.fields(kind)}
    options = {key: value for key, value in given.items() if key != "name" and value != plain[key]}
    head = str(given["name"])
    if leading and fields and fields[0] in given and type(given[fields[0]]) is not bool:
        options.pop(fields[0], None)
        head += f":{written(given[fields[0]])}"
    return ",".join([head, *(f"{key.replace('_', '-')}={written(value)}" for key, value in options.items())])


def written(value: Any) -> str:
    """Return a plain value as the text of the command line.

    >>> written(0.5), written(True), written([28, 28])
    ('0.5', 'true', '28x28')
    """
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return f"{value:g}" if type(value) is float else str(value).lower() if type(value) is bool else str(value)


def known_kind(family: str, table: Mapping[str, type], name: str) -> type:
    """Return the class of a name; raise with the closest known name."""
    if name not in table:
        raise unknown(family, name, table)
    return table[name]


def make(where: str, name: str, kind: type, options: Mapping[str, Any]) -> Any:
    """Make a value of a dataclass after checking the names and the types of its fields."""
    fields = _fields(kind)
    for key, value in options.items():
        if not fields:
            raise InvalidOption(f"{where}: {name} has no options, found {key}")
        if key not in fields:
            raise unknown(f"option of {name}", key, fields)
        check_type(where, key, value, fields[key])
    required = [field.name for field in dataclasses.fields(kind) if _is_required(field)]
    for key in required:
        if key not in options:
            raise InvalidOption(f"{where}: expected a value of {key}, as in {name}:{key.upper()}")
    return kind(**options)


def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def check_type(where: str, name: str, value: Any, annotation: Any) -> None:
    """Raise unless a value has one of the plain types of an annotation; whole numbers are accepted as numbers."""
    if annotation in (inspect.Parameter.empty, Any):
        return
    parts = typing.get_args(annotation) if typing.get_origin(annotation) in (typing.Union, UnionType) else (annotation,)
    for part in parts:
        if typing.get_origin(part) is list and isinstance(value, list) and value:
            for item in value:
                check_type(where, name, item, typing.get_args(part)[0])
            return
    kinds = [tuple if _is_sizes(part) else typing.get_origin(part) or part for part in parts]
    kinds = [kind for kind in kinds if kind in _WORDS]
    if not kinds:
        raise InvalidOption(f"{where}: {name} cannot be set in a text")
    finite = not isinstance(value, float) or math.isfinite(value)
    own = tuple if isinstance(value, list) else type(value)
    if not finite or not any(own is kind or (kind is float and own is int) for kind in kinds):
        raise InvalidOption(f"{where}: {name}: expected {' or '.join(_WORDS[k] for k in kinds)}, found {value!r}")


def _is_sizes(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(tuple, origin)


def split(text: str) -> tuple[str, str | None, dict[str, Any]]:
    """Split ``NAME[:VALUE][,key=value…]`` into name, value and options.

    >>> split("mean-field:3,method=naive")
    ('mean-field', '3', {'method': 'naive'})
    """
    head, *rest = [part.strip() for part in text.split(",")]
    name, colon, value = head.partition(":")
    options = {}
    for part in rest:
        key, equals, other = part.partition("=")
        if not equals or not key or not other:
            raise InvalidOption(f"'{text}': expected key=value after a comma, found '{part}'")
        options[key.strip().replace("-", "_")] = literal(other.strip())
    return name.strip().lower().replace("_", "-"), value.strip() if colon else None, options


def literal(text: str) -> Any:
    """Return the number, the truth value, the sizes or the word that a text stands for.

    >>> literal("0.5"), literal("true"), literal("28x28"), literal("tap")
    (0.5, True, (28, 28), 'tap')
    """
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(map(int, text.split("x")))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)
    return value if isinstance(value, (int, float, bool, str)) else text


# -- names of arguments ---------------------------------------------------------------------------------------------

#: name in another library -> argument of this library
SYNONYMS = {
    **dict.fromkeys(("lr", "rate", "eta", "step_size"), "learning_rate"),
    **dict.fromkeys(("n_epochs", "num_epochs", "n_iter", "max_iter", "max_epochs", "iterations"), "epochs"),
    **dict.fromkeys(("batchsize", "batch", "minibatch_size", "n_batch"), "batch_size"),
    **dict.fromkeys(("k", "cd_k", "n_gibbs", "gibbs_steps", "n_steps", "steps", "sweeps"), "negative"),
    **dict.fromkeys(("weight_decay", "decay", "weight_cost", "l2", "l1", "penalty"), "penalties"),
    **dict.fromkeys(("n_hidden", "num_hidden", "n_components", "hidden_units"), "hidden"),
    **dict.fromkeys(("random_state", "random_seed", "rng"), "seed"),
    **dict.fromkeys(("optim", "solver"), "optimizer"),
    **dict.fromkeys(("scheduler", "lr_scheduler", "lr_schedule"), "schedule"),
    **dict.fromkeys(("val", "validation_data", "val_data", "test_data"), "validation"),
    **dict.fromkeys(("zero_sum", "average"), "constraints"),
    **dict.fromkeys(("chains", "n_chains", "num_chains"), "negative"),
    **dict.fromkeys(("preset", "config"), "plan"),
    "momentum": "optimizer",
    "verbose": "progress",
}

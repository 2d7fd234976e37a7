"""The short strings of the command line: ``bernoulli:500``, ``potts:31x21``, ``pcd:10``, ``linear:0.3``."""

from __future__ import annotations

import ast
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from .. import training
from ..errors import InvalidOption, unknown
from ..units import Mixed, Unit

_NEGATIVES: dict[str, Callable[..., training.NegativePhase]] = {
    "cd": training.CD,
    "pcd": training.PCD,
    "exact": training.Exact,
    "parallel-tempering": training.ParallelTempering,
    "trajectory-tempering": training.TrajectoryTempering,
    "mean-field": training.MeanField,
}
_SCHEDULES: dict[str, Callable[..., training.Schedule]] = {
    "constant": training.Constant,
    "linear": training.LinearDecay,
    "growing": training.GrowingSteps,
}
_OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], float | None]] = {  # with their learning rates by default
    "sgd": (torch.optim.SGD, None),
    "adam": (torch.optim.Adam, 1e-3),
    "adamw": (torch.optim.AdamW, 1e-3),
    "rmsprop": (torch.optim.RMSprop, 1e-3),
}
_MOMENTUM_RATE = 0.05  # of SGD with momentum
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
_LARGEST = 2**31  # entries of a layer


@dataclass(frozen=True)
class UnitSpec:
    """``NAME[:SHAPE][,key=value…]``: a layer of units, whose shape may still be open.

    >>> spec = UnitSpec.parse("truncated-gaussian:361,low=0,high=1")
    >>> spec.name, spec.shape, spec.options
    ('truncated-gaussian', (361,), {'low': 0, 'high': 1})
    >>> str(UnitSpec.parse("potts:31x21"))
    'potts:31x21'
    """

    name: str
    shape: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> UnitSpec:
        """Read the string; unknown names and options tell the nearest valid one."""
        name, argument, options = _split(text)
        known = {known: kind for known, kind in Unit.registry.items() if kind is not Mixed}
        if name not in known:
            raise unknown("unit", name, known)
        shape = None if argument is None else parse_shape(argument, text)
        if shape is not None and math.prod(shape) > _LARGEST:
            raise InvalidOption(f"'{text}': the layer is too large; expected at most {_LARGEST:,} units")
        learn = options.pop("learn", None)
        parameters = inspect.signature(known[name], eval_str=True).parameters
        allowed = {key: p for key, p in parameters.items() if key not in ("shape", "options")}
        for option, value in options.items():
            if option not in allowed:
                raise unknown(f"option of {name} units", option, allowed)
            _check_type(text, option, value, allowed[option].annotation)
        for required, parameter in allowed.items():
            needed = parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
            if needed and required not in options:
                raise InvalidOption(f"{name} units need the option {required}, as in '{name}:100,{required}=…'")
        if learn is not None:
            options["learn"] = tuple(str(learn).split("/"))
        return cls(name, shape, options)

    @property
    def kind(self) -> type[Unit]:
        """The class of the units."""
        return Unit.registry[self.name]

    def build(self) -> Unit:
        """The layer."""
        if self.shape is None:
            raise InvalidOption(f"{self.name}: expected a number of units, as in '{self.name}:100'")
        try:
            return self.kind(self.shape, **self.options)
        except TypeError as error:
            raise InvalidOption(f"{self}: {error}") from None

    def __str__(self) -> str:
        shape = "" if self.shape is None else ":" + "x".join(map(str, self.shape))
        return self.name + shape + "".join(f",{key}={_written(value)}" for key, value in self.options.items())


def layer(specs: list[UnitSpec]) -> Unit:
    """The layer of one spec, or the mixed layer of several."""
    units = [spec.build() for spec in specs]
    return units[0] if len(units) == 1 else Mixed(*units)


def parse_layer(text: str) -> list[UnitSpec]:
    """The parts of a layer, separated by ``+`` where it is mixed: ``bernoulli:784+potts:1x10``."""
    return [UnitSpec.parse(part) for part in text.split("+")]


def parse_shape(text: str, whole: str | None = None) -> tuple[int, ...]:
    """``28x28`` as a tuple of positive numbers."""
    try:
        shape = tuple(int(part) for part in text.split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InvalidOption(f"'{whole or text}': expected sizes such as 500 or 31x21, found '{text}'")
    return shape


def negative_phase(text: str, chains: int | None = None) -> training.NegativePhase:
    """``cd:10``, ``pcd:1``, ``parallel-tempering:1,rungs=10``, ``mean-field:10,method=naive`` or ``exact``.

    >>> negative_phase("pcd:5", chains=20).config()
    {'method': 'pcd', 'k': 5, 'chains': 20}
    """
    name, argument, options = _split(text)
    if chains is not None:
        options["chains"] = chains
    return _call("negative phase", text, name, _NEGATIVES, argument, int, options)


def schedule(text: str) -> training.Schedule:
    """``constant``, ``linear:0.3`` or ``growing:10``.

    >>> schedule("linear:0.5")
    LinearDecay(constant=0.5)
    """
    name, argument, options = _split(text)
    number = float if name == "linear" else int
    return _call("schedule", text, name, _SCHEDULES, argument, number, options)


def optimizer(name: str, rate: float | None, momentum: float | None) -> Callable[[Any], torch.optim.Optimizer] | None:
    """A function that makes the optimizer of the parameters it is given; ``None`` for plain SGD with default rates."""
    kind, _ = _optimizer(name)
    rate = default_rate(name, momentum) if rate is None else rate
    if rate is None:
        return None
    options: dict[str, Any] = {"lr": rate}
    if not rate > 0:
        raise InvalidOption(f"learning rate: expected a positive number, found {rate:g}")
    if momentum is not None:
        if "momentum" not in inspect.signature(kind.__init__).parameters:
            raise InvalidOption(f"optimizer '{name}' has no momentum; expected sgd or rmsprop")
        if not 0 <= momentum < 1:
            raise InvalidOption(f"momentum: expected a number in [0, 1), found {momentum:g}")
        options["momentum"] = momentum
    return partial(kind, **options)


def default_rate(name: str, momentum: float | None) -> float | None:
    """The learning rate of an optimizer where none is given; ``None`` where ``fit`` chooses it from the data."""
    rate = _optimizer(name)[1]
    return _MOMENTUM_RATE if rate is None and momentum is not None else rate


def _optimizer(name: str) -> tuple[type[torch.optim.Optimizer], float | None]:
    if name not in _OPTIMIZERS:
        raise unknown("optimizer", name, _OPTIMIZERS)
    return _OPTIMIZERS[name]


def dtype(name: str) -> torch.dtype:
    """``float32`` or ``float64``."""
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise unknown("dtype", name, known)
    return known[name]


def device(name: str) -> torch.device:
    """A device of torch that is at hand."""
    try:
        found = torch.device(name)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError) as error:
        raise InvalidOption(f"device '{name}': not at hand ({str(error).splitlines()[0]})") from None
    return found


def _call(
    kind: str,
    text: str,
    name: str,
    known: Mapping[str, Callable[..., Any]],
    argument: str | None,
    number: type[int] | type[float],
    options: dict[str, Any],
) -> Any:
    if name not in known:
        raise unknown(kind, name, known)
    allowed = inspect.signature(known[name], eval_str=True).parameters
    for option, value in options.items():
        if option not in allowed:
            if not allowed:
                raise InvalidOption(f"{kind} '{name}' has no options, found {option}")
            raise unknown(f"option of {name}", option, allowed)
        _check_type(text, option, value, allowed[option].annotation)
    values = []
    if argument is not None:
        if not allowed:
            raise InvalidOption(f"{kind} '{text}': {name} takes no number")
        first = next(iter(allowed))
        if first in options:
            raise InvalidOption(f"{kind} '{text}': {first} is given twice, after the colon and as an option")
        try:
            values = [number(argument)]
        except ValueError:
            raise InvalidOption(
                f"{kind} '{text}': expected {_WORDS[number]} after the colon, found '{argument}'"
            ) from None
    return known[name](*values, **options)


def _check_type(text: str, option: str, value: Any, annotation: Any) -> None:
    """Refuse a value that is none of the plain types in a parameter's annotation; a whole number is a number too."""
    if annotation is inspect.Parameter.empty:
        return
    kinds = [kind for kind in (typing.get_args(annotation) or (annotation,)) if kind in _WORDS]
    if not kinds:
        raise InvalidOption(f"'{text}': {option} is no option of such a string")
    finite = not isinstance(value, float) or math.isfinite(value)
    if not finite or not any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds):
        raise InvalidOption(f"'{text}': {option}: expected {' or '.join(_WORDS[k] for k in kinds)}, found {value!r}")


def _split(text: str) -> tuple[str, str | None, dict[str, Any]]:
    """NAME[:ARGUMENT][,key=value…]."""
    head, *rest = [part.strip() for part in text.split(",")]
    name, colon, argument = head.partition(":")
    options = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InvalidOption(f"'{text}': expected key=value after a comma, found '{part}'")
        options[key.strip().replace("-", "_")] = _literal(value.strip())
    return name.strip().lower().replace("_", "-"), argument.strip() if colon else None, options


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)
    return value if isinstance(value, (int, float, bool, str)) else text


def _written(value: Any) -> str:
    return "/".join(value) if isinstance(value, tuple) else str(value)

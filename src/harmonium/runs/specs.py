"""Parse strings for layers, types and devices: ``bernoulli:500``, ``potts:31x21``, ``float64``, ``cuda``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import InvalidOption, unknown
from ..training.specs import check_type, split
from ..units import Mixed, Unit

_LARGEST = 2**31  # entries of a layer


@dataclass(frozen=True)
class UnitSpec:
    """A layer of units, ``NAME[:SHAPE][,key=value…]``; ``shape`` is None if it is to be taken from the data.

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
        """Parse the string. Unknown names and options raise an error that suggests the nearest valid one."""
        name, argument, options = split(text)
        known = {known: kind for known, kind in Unit.registry.items() if kind is not Mixed}
        if name not in known:
            raise unknown("unit", name, known)
        shape = None if argument is None else parse_shape(argument, text)
        if shape is not None and math.prod(shape) > _LARGEST:
            raise InvalidOption(f"'{text}': expected at most {_LARGEST:,} units; the layer is too large")
        learn = options.pop("learn", None)
        parameters = inspect.signature(known[name], eval_str=True).parameters
        allowed = {key: p for key, p in parameters.items() if key not in ("shape", "options")}
        for option, value in options.items():
            if option not in allowed:
                raise unknown(f"option of {name} units", option, allowed)
            check_type(text, option, value, allowed[option].annotation)
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
        """Build the layer."""
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
    """Build the layer of one spec, or the mixed layer of several."""
    units = [spec.build() for spec in specs]
    return units[0] if len(units) == 1 else Mixed(*units)


def parse_layer(text: str) -> list[UnitSpec]:
    """Parse a layer; ``+`` separates the parts of a mixed layer: ``bernoulli:784+potts:1x10``."""
    return [UnitSpec.parse(part) for part in text.split("+")]


def parse_hidden(text: str) -> list[UnitSpec]:
    """Parse a hidden layer; a number alone means Bernoulli units.

    >>> [str(part) for part in parse_hidden("200")]
    ['bernoulli:200']
    """
    return parse_layer(f"bernoulli:{text.strip()}" if text.strip().isdecimal() else text)


def parse_shape(text: str, whole: str | None = None) -> tuple[int, ...]:
    """Parse sizes such as ``28x28`` into a tuple of positive numbers."""
    try:
        shape = tuple(int(part) for part in text.split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InvalidOption(f"'{whole or text}': expected sizes such as 500 or 31x21, found '{text}'")
    return shape


def dtype(name: str) -> torch.dtype:
    """Return the type named ``float32`` or ``float64``."""
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise unknown("dtype", name, known)
    return known[name]


def device(name: str) -> torch.device:
    """Return a torch device; raises if it is not available."""
    try:
        found = torch.device(name)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError) as error:
        raise InvalidOption(
            f"device: expected an available device of torch, found '{name}' ({str(error).splitlines()[0]})"
        ) from None
    return found


def _written(value: Any) -> str:
    return "/".join(value) if isinstance(value, tuple) else str(value)

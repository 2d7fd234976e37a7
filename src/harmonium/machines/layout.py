"""Parse strings for layers, types and devices: ``bernoulli:500``, ``potts:31x21``, ``float64``, ``cuda``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from ..checks import check_type, split
from ..couplings import Coupling, Dense
from ..errors import InvalidOption, unknown
from ..units import Mixed, Unit
from .convolutions import feature_maps

_LARGEST = 2**31  # entries of a layer
#: the options of a layer of feature maps, which follow those of its units
_CONVOLUTION: dict[str, type] = {"kernel": int, "stride": int, "padding": int, "pool": int, "biases": str}


@dataclass(frozen=True)
class UnitSpec:
    """A layer of units, ``NAME[:SHAPE][,key=value…]``; ``shape`` is None if it is to be taken from the data.

    With the option ``kernel``, it is a layer of feature maps: ``bernoulli:32,kernel=5,stride=2`` has 32 of them.

    >>> spec = UnitSpec.parse("truncated-gaussian:361,low=0,high=1")
    >>> spec.name, spec.shape, spec.options
    ('truncated-gaussian', (361,), {'low': 0, 'high': 1})
    >>> str(UnitSpec.parse("potts:31x21"))
    'potts:31x21'
    """

    name: str
    shape: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    convolution: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> UnitSpec:
        """Parse the string. Unknown names and options raise an error that suggests the nearest valid one."""
        name, argument, options = split(text)
        known = {known: kind for known, kind in Unit.registry.items() if kind is not Mixed}
        if name not in known:
            raise unknown("unit", name, known)
        shape = None if argument is None else parse_shape(argument, text)
        if shape is not None and known[name].entries(shape) > _LARGEST:
            raise InvalidOption(f"'{text}': expected at most {_LARGEST:,} units; the layer is too large")
        convolution = {key: options.pop(key) for key in _CONVOLUTION if key in options}
        _check_convolution(text, shape, convolution)
        learn, shared = options.pop("learn", None), options.pop("shared", None)
        parameters = inspect.signature(known[name], eval_str=True).parameters
        first = next(iter(parameters))  # the shape
        allowed = {key: p for key, p in parameters.items() if key not in (first, "options")}
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
        if shared is not None:
            options["shared"] = _dimensions(text, str(shared))
        return cls(name, shape, options, convolution)

    @property
    def kind(self) -> type[Unit]:
        """The class of the units."""
        return Unit.registry[self.name]

    def build(self) -> Unit:
        """Build the layer."""
        if self.shape is None:
            raise InvalidOption(f"{self.name}: expected a number of units, as in '{self.name}:100'")
        if self.convolution:
            raise InvalidOption(f"{self}: expected units without a kernel; only hidden layers have feature maps")
        try:
            return self.kind(self.shape, **self.options)
        except TypeError as error:
            raise InvalidOption(f"{self}: {error}") from None

    def __str__(self) -> str:
        shape = "" if self.shape is None else ":" + "x".join(map(str, self.shape))
        options = {**self.options, **self.convolution}
        return self.name + shape + "".join(f",{key}={_written(value)}" for key, value in options.items())


def of_layer(unit: Unit) -> list[UnitSpec]:
    """Return the specs of a layer.

    >>> from harmonium.units import Bernoulli, Categories
    >>> [str(spec) for spec in of_layer(Mixed(Bernoulli(3), Categories([3, 5])))]
    ['bernoulli:3', 'categories:3x5']
    """
    found = []
    for member in unit.members:
        config = member.config()
        name, learn = config.pop("unit"), tuple(config.pop("learn"))
        shape = tuple(config.pop("states", ()) or config.pop("shape"))
        found.append(UnitSpec(name, shape, config if learn == ("bias",) else {**config, "learn": learn}))
    return found


def described(machine: Any) -> dict[str, Any]:
    """Return the table ``[machine]`` of a machine: its layers as text, if all layers and couplings have one.

    >>> from harmonium import RBM
    >>> described(RBM(784, 500))
    {'visible': 'bernoulli:784', 'machine': 'rbm', 'hidden': ['bernoulli:500']}
    """
    visible, *hidden = [_text(unit) for unit in machine.layers]
    kind = {"RBM": "rbm", "DeepBoltzmannMachine": "dbm", "DeepBeliefNetwork": "dbn"}.get(type(machine).__name__)
    dense = all(type(coupling) is Dense for coupling in machine.couplings)
    found = {} if visible is None else {"visible": visible}
    return {**found, "machine": kind, "hidden": hidden} if dense and kind and None not in hidden else found


def _text(unit: Unit) -> str | None:
    """Return a layer as text; None if the text would make another layer."""
    try:
        parts = of_layer(unit)
        text = "+".join(map(str, parts))
        return text if layer(parse_layer(text)).config() == unit.config() else None
    except (InvalidOption, KeyError, TypeError, ValueError):
        return None


def as_built(parts: list[UnitSpec], layer: Unit) -> list[UnitSpec]:
    """Write out what the visible ``layer`` of a machine learns by default, so that a configuration keeps its meaning.

    >>> from harmonium import RBM
    >>> parts = parse_layer("gaussian:560")
    >>> [str(part) for part in as_built(parts, RBM(layer(parts), 10).visible)]
    ['gaussian:560,learn=bias/precision']
    """
    return [_learning(spec, tuple(unit.learn)) for spec, unit in zip(parts, layer.members, strict=True)]


def _learning(spec: UnitSpec, learn: tuple[str, ...]) -> UnitSpec:
    said = "learn" in spec.options or not spec.kind.learn_as_visible
    return spec if said else replace(spec, options={**spec.options, "learn": learn})


def layer(specs: list[UnitSpec]) -> Unit:
    """Build the layer of one spec, or the mixed layer of several."""
    units = [spec.build() for spec in specs]
    return units[0] if len(units) == 1 else Mixed(*units)


def stage(parts: list[UnitSpec], lower: Unit, number: int = 1) -> tuple[Unit, Coupling | None]:
    """Build the hidden layer of ``parts`` above the layer ``lower``, and its coupling; None for a dense one.

    Errors name the layer by its ``number``.

    >>> from harmonium.units import Bernoulli
    >>> stage(parse_hidden("bernoulli:16,kernel=3"), Bernoulli((1, 8, 8)))[0]
    Bernoulli((16, 6, 6), shared=(1, 2))
    """
    if not is_convolutional(parts):
        return layer(parts), None
    (spec,) = parts
    assert spec.shape is not None
    (channels,), options = spec.shape, dict(spec.convolution)
    units = partial(spec.kind, **spec.options) if spec.options else spec.kind
    try:
        return feature_maps(tuple(lower.shape), channels=channels, hidden=units, **options)
    except (InvalidOption, TypeError) as error:
        raise InvalidOption(f"layer {number} ({spec}): {error}") from None


def is_convolutional(parts: list[UnitSpec]) -> bool:
    """Return whether the layer consists of feature maps, which need images below.

    >>> is_convolutional(parse_hidden("bernoulli:16,kernel=3")), is_convolutional(parse_hidden("16"))
    (True, False)
    """
    found = any(spec.convolution for spec in parts)
    if found and len(parts) > 1:
        raise InvalidOption(f"{'+'.join(map(str, parts))}: expected one type of units with a kernel, found several")
    return found


def check(parts: list[UnitSpec], number: int) -> None:
    """Raise if the hidden layer with this number cannot be built.

    Feature maps are checked only in :func:`stage`, with the layer below.
    """
    if is_convolutional(parts):
        return
    try:
        layer(parts)
    except InvalidOption as error:
        raise InvalidOption(f"layer {number}: {error}") from None


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
        torch.zeros(1, device=found).cpu()  # a device without memory, such as meta, cannot copy
    except Exception as error:  # each backend has its own; some, such as hpu, are missing modules
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidOption(f"device: expected an available device of torch, found '{name}' ({reason})") from None
    return found


def _check_convolution(text: str, shape: tuple[int, ...] | None, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        check_type(text, option, value, _CONVOLUTION[option])
    if not options:
        return
    if "kernel" not in options:
        raise InvalidOption(f"'{text}': expected the size of the kernels, as in kernel=5, with {', '.join(options)}")
    if shape is None or len(shape) != 1:
        raise InvalidOption(f"'{text}': expected a number of feature maps, as in bernoulli:32,kernel=5")


def _dimensions(text: str, shared: str) -> tuple[int, ...]:
    try:
        return tuple(int(k) for k in shared.split("/"))
    except ValueError:
        raise InvalidOption(f"'{text}': shared: expected dimensions such as 1/2, found '{shared}'") from None


def _written(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)

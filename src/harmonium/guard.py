"""One sentence for an argument of a wrong type, instead of an error from deep inside.

A public function is wrapped once, by :func:`guard` at the end of the ``__init__`` of its package. The wrapper does
nothing until a call fails. Then it compares the arguments with their annotations, and names the first one that differs.
A call that works is never refused, and costs nothing.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import numbers
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy
import torch

from .errors import HarmoniumError, InvalidOption, clipped

#: what a call raises that does not expect one of its arguments; errors of this package are clear as they are
_RAW = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_MOST_PARTS = 1000  # of a sequence, whose types are compared


def guard(namespace: dict[str, Any], *, methods: bool = True) -> None:
    """Wrap the public functions, constructors and methods that are named in ``__all__`` of a package.

    Args:
        namespace: ``globals()`` of the package.
        methods: whether methods are wrapped too. Not those of units and couplings, which are called in every step.
    """
    for name in namespace["__all__"]:
        value = namespace[name]
        if not str(getattr(value, "__module__", "")).startswith("harmonium"):
            continue
        if inspect.isfunction(value):
            namespace[name] = _wrapped(value)
            home = sys.modules.get(value.__module__)
            if home is not None and getattr(home, name, None) is value:
                setattr(home, name, namespace[name])  # so that the function can be pickled by its name
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            _guard_class(value, methods)


def _guard_class(kind: type, methods: bool) -> None:
    """Wrap the constructor and the public methods that a class and its bases in this package define."""
    for base in kind.__mro__:
        if not base.__module__.startswith("harmonium") or getattr(base, "_is_protocol", False):
            continue
        for name, value in list(vars(base).items()):
            if name == "__init__" or (methods and not name.startswith("_")):
                if inspect.isfunction(value):
                    setattr(base, name, _wrapped(value))
                elif isinstance(value, (classmethod, staticmethod)):
                    setattr(base, name, type(value)(_wrapped(value.__func__)))


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "__guarded__") or inspect.isgeneratorfunction(function):
        return function

    @functools.wraps(function)
    def guarded(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except _RAW as error:
            # a sentence about an argument of an inner function is replaced by one about an argument of this one
            clear = isinstance(error, HarmoniumError) and not hasattr(error, "argument")
            wrong = None if clear else mismatch(function, given, named)
            if wrong is None:
                raise
            sentence = InvalidOption(wrong)
            sentence.argument = wrong.partition(":")[0]  # type: ignore[attr-defined]
            raise sentence from error

    guarded.__guarded__ = True  # type: ignore[attr-defined]
    return guarded


def mismatch(function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first argument that does not have the type of its annotation; None if all have.

    >>> def draw(n: int, *, scale: float = 1.0): ...
    >>> mismatch(draw, (3,), {"scale": "wide"})
    "scale: expected a number, found 'wide'"
    """
    try:
        bound = inspect.signature(function).bind(*given, **named)
    except TypeError:  # the message of Python names the missing or unknown argument
        return None
    hints = _hints(inspect.unwrap(function))
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        values = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        if name not in hints or kind is inspect.Parameter.VAR_KEYWORD:
            continue
        for one in values:
            if not fits(one, hints[name]):
                return f"{name}: expected {words(hints[name])}, found {_shown(one)}"
    return None


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the arguments; a type that is only known to type checkers is left out."""
    found = {}
    for name, annotation in function.__annotations__.items():
        try:
            found[name] = eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation
        except (NameError, TypeError):
            continue
    return found


# -- types ------------------------------------------------------------------------------------------------------------


def fits(value: Any, annotation: Any) -> bool:
    """Return whether a value has the type of an annotation.

    Integers and numbers of NumPy and torch count as ``int`` and ``float``, and an integer is also a number.

    >>> fits(numpy.int64(3), float | None), fits("3", float | None), fits([1, "a"], Sequence[int])
    (True, False, False)
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is typing.Annotated:
        return fits(value, parts[0])
    if origin is not None:
        return isinstance(value, origin) and _parts_fit(value, origin, parts)
    if annotation in _PLAIN:
        return _PLAIN[annotation][1](value)
    if annotation is Any or not isinstance(annotation, type):
        return True
    if getattr(annotation, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(annotation) if not name.startswith("_"))
    return isinstance(value, annotation)


def _parts_fit(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    """Compare what a collection holds; a text is a collection of texts only in the eyes of Python."""
    if not issubclass(origin, collections.abc.Iterable):
        return True
    if isinstance(value, (str, bytes)):
        return False
    if issubclass(origin, collections.abc.Mapping):
        key, item = parts
        return all(fits(k, key) and fits(v, item) for k, v in list(value.items())[:_MOST_PARTS])
    if not isinstance(value, (collections.abc.Sequence, torch.Tensor, numpy.ndarray)) or not parts:
        return True  # a generator would be used up
    if getattr(value, "ndim", 1) == 0:
        return False
    if origin is tuple and parts[-1] is not ...:
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(part, parts[0]) for part in value[:_MOST_PARTS])


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    scalar = isinstance(value, (torch.Tensor, numpy.ndarray)) and value.ndim == 0 and "complex" not in str(value.dtype)
    return scalar or isinstance(value, numbers.Real)


#: words for plain types, and whether a value has the type
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    None: ("None", lambda value: value is None),
    type(None): ("None", lambda value: value is None),
    int: ("a whole number", _is_whole),
    float: ("a number", _is_number),
    bool: ("True or False", lambda value: isinstance(value, (bool, numpy.bool_))),
    str: ("a text", lambda value: isinstance(value, str)),
    torch.Tensor: ("a tensor", lambda value: isinstance(value, torch.Tensor)),
    object: ("anything", lambda value: True),
}
_KINDS = {
    collections.abc.Callable: "a function",
    collections.abc.Mapping: "a mapping",
    dict: "a dict",
    os.PathLike: "a path",
}


def words(annotation: Any) -> str:
    """Return a type in words.

    >>> words(int | None), words(Sequence[float]), words(Callable[[int], int])
    ('a whole number or None', 'a sequence of numbers', 'a function')
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(words(part) for part in parts))
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    if annotation in _PLAIN:
        return _PLAIN[annotation][0]
    if (origin or annotation) in _KINDS:
        return _KINDS[origin or annotation]
    if origin is not None and issubclass(origin, collections.abc.Iterable) and parts:
        if origin is tuple and parts[-1] is not ...:
            return f"({', '.join(words(part) for part in parts)})"
        return f"a sequence of {_plural(words(parts[0]))}"
    name = getattr(annotation, "__name__", str(annotation))
    return f"{'an' if name[:1] in 'AEIOU' or name[:3] in ('RBM', 'L1P', 'L2P') else 'a'} {name}"


def _plural(text: str) -> str:
    """Return the words for several of a type."""
    return " or ".join(f"{one.removeprefix('a ').removeprefix('an ')}s" for one in text.split(" or "))


def _shown(value: Any) -> str:
    """Return a value of any type as a few words."""
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        return (
            f"{type(value).__name__} of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
        )
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (str, bytes, numbers.Number, Iterable)):
        return clipped(repr(value), 60)
    return f"{type(value).__name__} {clipped(repr(value), 60)}" if callable(value) else clipped(repr(value), 60)

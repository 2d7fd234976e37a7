"""Complete signatures of functions and constructors that pass keyword arguments on with ``**``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_INTERNAL = ("options",)  # set by the constructor of a unit itself


def forwards(target: Callable[..., Any], *names: str) -> Callable[[F], F]:
    """Show the keyword arguments that a function passes on to ``target`` in its signature.

    Args:
        target: the function that receives the arguments.
        names: the names of the arguments; by default all keyword-only arguments of ``target``.

    >>> def area(height, width=1): ...
    >>> @forwards(area, "height", "width")
    ... def volume(depth, **sides): ...
    >>> inspect.signature(volume)
    <Signature (depth, *, height, width=1)>
    """

    def complete(function: F) -> F:
        _complete(function, target, names)
        return function

    return complete


def complete_constructor(cls: type) -> None:
    """Show the keyword arguments that ``__init__`` passes on to the base class in the signature of the class.

    >>> class Base:
    ...     def __init__(self, shape, *, bias=0.0): ...
    >>> class Derived(Base):
    ...     def __init__(self, shape, *, trials, **common): ...
    >>> complete_constructor(Derived)
    >>> inspect.signature(Derived)
    <Signature (shape, *, trials, bias=0.0)>
    """
    if "__init__" in vars(cls):
        base = next(vars(kind)["__init__"] for kind in cls.__mro__[1:] if "__init__" in vars(kind))
        _complete(vars(cls)["__init__"], base, ())


def _complete(function: Any, target: Any, names: tuple[str, ...]) -> None:
    own = _signature(function)
    kept = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    if len(kept) == len(own.parameters):
        return
    passed = [
        p.replace(kind=Parameter.KEYWORD_ONLY)
        for p in _signature(target).parameters.values()
        if (p.name in names if names else p.kind is Parameter.KEYWORD_ONLY and p.name not in _INTERNAL)
    ]
    function.__signature__ = own.replace(parameters=[*kept, *(p for p in passed if p.name not in own.parameters)])


def _signature(function: Any) -> Signature:
    """The signature with types as annotations; with strings if a type is not defined yet."""
    try:
        return inspect.signature(function, eval_str=True)
    except NameError:
        return inspect.signature(function)

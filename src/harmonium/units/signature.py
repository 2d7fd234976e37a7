"""Complete signatures of constructors that pass keyword arguments on to their base class."""

from __future__ import annotations

import inspect
from inspect import Parameter, Signature


def complete_signature(cls: type) -> None:
    """Show the keyword arguments that ``__init__`` passes on with ``**`` in the signature of the class.

    >>> class Base:
    ...     def __init__(self, shape, *, bias=0.0): ...
    >>> class Derived(Base):
    ...     def __init__(self, shape, *, trials, **common): ...
    >>> complete_signature(Derived)
    >>> inspect.signature(Derived)
    <Signature (shape, *, trials, bias=0.0)>
    """
    init = vars(cls).get("__init__")
    if init is None:
        return
    own = _signature(init)
    passed = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    if len(passed) == len(own.parameters):
        return
    base = next(vars(kind)["__init__"] for kind in cls.__mro__[1:] if "__init__" in vars(kind))
    inherited = [
        p
        for name, p in _signature(base).parameters.items()
        if p.kind is Parameter.KEYWORD_ONLY and name not in own.parameters and name != "options"
    ]
    init.__signature__ = own.replace(parameters=[*passed, *inherited])


def _signature(function: object) -> Signature:
    """The signature with types as annotations; with strings if a type is not defined when the class is."""
    try:
        return inspect.signature(function, eval_str=True)  # type: ignore[arg-type]
    except NameError:
        return inspect.signature(function)  # type: ignore[arg-type]

"""Registries of classes by their names in files and on the command line. Subclasses are registered when defined."""

from __future__ import annotations

from typing import TypeVar

from .errors import InvalidOption, unknown

T = TypeVar("T")


class Registry(dict[str, type[T]]):
    """Classes of one ``kind`` ("unit", "coupling") by their names.

    >>> table: Registry[float] = Registry("number")
    >>> table.add("float", float)
    >>> table.find("float")
    <class 'float'>
    >>> table.find("flaot")
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: unknown number 'flaot': did you mean 'float'? (known: float). If it is a class of
    your own, import the module that defines it first
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def add(self, name: str, cls: type[T]) -> None:
        """Register a class. It replaces an earlier one of the same name, unless that is part of this package."""
        known, package = self.get(name), __name__.partition(".")[0]
        if known is not None and _inside(known, package) and not _inside(cls, package):
            raise InvalidOption(
                f"{cls.__name__}: the {self.kind} name {name} is used by {package}; choose another name"
            )
        self[name] = cls

    def find(self, name: object) -> type[T]:
        """The class with the given name."""
        if name not in self:
            error = unknown(self.kind, str(name), self)
            raise InvalidOption(f"{error}. If it is a class of your own, import the module that defines it first")
        return self[str(name)]


def _inside(cls: type, package: str) -> bool:
    return cls.__module__.startswith(f"{package}.")

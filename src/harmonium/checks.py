"""Checks of common arguments."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable

from .errors import InvalidOption

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

"""Products with binary states, means and draws in C, faster than those of torch. docs/kernels.md explains how.

The library is optional: without it, or for other tensors, every function here returns False and does nothing, and the
caller computes the same with torch. It is built by the installation if there is a C compiler, once for each set of
instructions; the best one for the processor is loaded. ``HARMONIUM_KERNELS=0`` in the environment turns it off, and 1
turns its products on where they have not been measured, on processors that are not x86.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

#: part of ones above which a dense product is as fast
MOST = 0.6
#: rows, and weights, below which a dense product may be faster
_FEW_ROWS, _FEW_WEIGHTS = 32, 2**15
_FOLDER = Path(__file__).parent
_WANTED = os.environ.get("HARMONIUM_KERNELS")
#: files of the library by the capability that torch reports, and what runs on the same processor
_FILES = {"AVX512": ("avx512", "avx2", "generic"), "AVX2": ("avx2", "generic")}

_pointer, _long, _int, _double = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_double
_ARGUMENTS = {
    "up": (*[_pointer] * 3, *[_long] * 3, _double, _int),
    "down": (*[_pointer] * 3, *[_long] * 3, _double, _int),
    "correlate": (*[_pointer] * 3, *[_long] * 3, ctypes.c_float, _double, _int),
    "draw": (_pointer, _pointer, _long, ctypes.c_uint64, _int),
    "draw_one": (_pointer, _pointer, _long, _long, ctypes.c_uint64, _int),
    "softmax": (*[_pointer] * 3, *[_long] * 3, _int),
    "draw_softmax": (*[_pointer] * 3, *[_long] * 3, ctypes.c_uint64, _int),
}


@cache
def library() -> ctypes.CDLL | None:
    """The library for this processor, or ``None`` if it was not built or is turned off."""
    if _WANTED == "0":
        return None
    for name in _FILES.get(torch.backends.cpu.get_cpu_capability(), ("generic",)):
        try:
            found = ctypes.CDLL(str(_FOLDER / f"kernels.{name}.so"))
        except OSError:
            continue
        for function, types in _ARGUMENTS.items():
            getattr(found, function).argtypes = types
        if _team() is not None:
            found.use_team(_team())
            os.register_at_fork(after_in_child=partial(found.use_team, None))  # a child has none of the threads
        return found
    return None


@cache
def _team() -> Any:
    """The function of the OpenMP library of torch that runs another one on several threads; ``None`` if it has none."""
    try:
        return ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, TypeError):  # another OpenMP library; no symbols of the process on Windows
        return None


@cache
def _products() -> bool:
    """Whether products in C are used: on processors on which they were measured to be faster, or if wanted."""
    return library() is not None and (_WANTED == "1" or platform.machine().lower() in ("x86_64", "amd64"))


def described() -> str:
    """How products with binary states are computed, for people.

    >>> described().split()[0] in ("C", "dense")
    True
    """
    found = library()
    return (
        f"C ({Path(found._name).suffixes[0][1:]})" if found is not None and _products() else "dense products of torch"
    )


def up(x: Tensor, weight: Tensor, out: Tensor) -> bool:
    """Write x W into ``out`` if x (rows, lower) is 0 and 1, or -1 and 1, everywhere; ``weight`` is (lower, upper)."""
    return _large(x, weight, out) and _call("up", (x, weight, out), len(x), *weight.shape, MOST)


def down(y: Tensor, weight: Tensor, out: Tensor) -> bool:
    """Write y Wᵀ into ``out`` if y (rows, upper) is 0 and 1, or -1 and 1, everywhere."""
    return _large(y, weight, out) and _call("down", (y, weight, out), len(y), *weight.shape, MOST)


def correlate(x: Tensor, y: Tensor, out: Tensor, scale: float) -> bool:
    """Add scale xᵀy to ``out`` (lower, upper) if all but a few rows of x (rows, lower) are 0 and 1, or -1 and 1."""
    return _large(x, out, y) and _call("correlate", (x, y, out), len(x), *out.shape, scale, MOST)


def draw(p: Tensor, out: Tensor, generator: Generator | None) -> bool:
    """Write 1 with probability ``p``, otherwise 0, into ``out``."""
    return _usable(p, out) and _call("draw", (p, out), p.numel(), _key(generator))


def draw_one(p: Tensor, out: Tensor, generator: Generator | None) -> bool:
    """Write one-hot draws with the probabilities ``p`` along the last dimension into ``out``."""
    states = p.shape[-1]
    return _usable(p, out) and _call("draw_one", (p, out), p.numel() // states, states, _key(generator))


def softmax(field: Tensor, bias: Tensor, out: Tensor) -> bool:
    """Write the softmax of field + bias along the last dimension into ``out``, (rows, *shape) and (*shape)."""
    return _matching(field, bias, out) and _call("softmax", (field, bias, out), *_sites(field))


def draw_softmax(field: Tensor, bias: Tensor, out: Tensor, generator: Generator | None) -> bool:
    """Write one-hot draws from this softmax into ``out``."""
    return _matching(field, bias, out) and _call("draw_softmax", (field, bias, out), *_sites(field), _key(generator))


def _matching(field: Tensor, bias: Tensor, out: Tensor) -> bool:
    """Whether every row of the field has its own entry of the bias, and the library can read all."""
    return field.shape[1:] == bias.shape and len(field) > 0 and _usable(field, bias, out)


def _sites(field: Tensor) -> tuple[int, int, int]:
    """Rows, sites and states of a field (rows, *sites, states)."""
    rows, states = len(field), field.shape[-1]
    return rows, field.numel() // (rows * states), states


def _large(x: Tensor, weight: Tensor, other: Tensor) -> bool:
    """Whether a product is large enough, and the library can read its tensors."""
    if x.shape[0] < _FEW_ROWS or weight.numel() < _FEW_WEIGHTS or not _products():
        return False
    one_by_one = _team() is None and torch.get_num_threads() > 2  # then dense products on all threads are as fast
    return not one_by_one and _usable(x, weight, other)


def _usable(*tensors: Tensor) -> bool:
    """Whether the library can read the memory of the tensors."""
    if library() is None or torch.compiler.is_compiling():
        return False
    for t in tensors:
        if t.dtype is not torch.float32 or not t.is_cpu or t.layout is not torch.strided or not t.is_contiguous():
            return False
    return True


def _call(function: str, tensors: tuple[Tensor, ...], *numbers: float) -> bool:
    found = library()
    assert found is not None
    try:
        pointers = [t.data_ptr() for t in tensors]
    except RuntimeError:  # inside a transformation such as torch.func.vmap, tensors have no memory of their own
        return False
    return getattr(found, function)(*pointers, *numbers, torch.get_num_threads()) != 0


def _key(generator: Generator | None) -> int:
    """One random word of the generator, from which the library makes all numbers of a call."""
    word = torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return int(word.item()) & (2**64 - 1)

"""Random numbers for the samplers, the largest cost of a Gibbs step after its matrix products.

All functions draw from a ``torch.Generator`` (or torch's default one), so equal seeds give equal results.
"""

from __future__ import annotations

import operator
import threading
from enum import IntEnum, unique

import torch
from torch import Generator, Tensor

from . import kernels
from .errors import InvalidOption

# Scaled slightly below 2^-16, so that rounding never reaches the ends: p = 0 always gives 0 and p = 1 always gives 1.
_LOW_BITS = 2.0**-16 * (1 - 2.0**-7)


@unique
class Purpose(IntEnum):
    """The purposes of random streams. Each has its own number, so that no two use the same stream of a seed.

    The numbers must never change, because the results of a seed depend on them.
    """

    ORDER = 0  # order of the rows in an epoch
    INITIALIZE = 1
    CHAINS = 2
    METRICS = 3
    HELD_OUT = 101  # rows for validation
    BINARIZE = 102
    SHOW = 103  # rows to show in a report


#: a number or a generator, which make a call reproducible; ``None`` is torch's default generator
Seed = int | Generator | None


def generator(seed: Seed, device: torch.device | str = "cpu") -> Generator | None:
    """The generator of a seed on ``device``; ``None``, torch's default one, for ``None``.

    >>> generator(7).initial_seed()
    7
    """
    if seed is None or isinstance(seed, Generator):
        return seed
    return Generator(device=device).manual_seed(check_seed(seed))


def resolve_seed(seed: Seed) -> int:
    """The seed, or a new one from a generator.

    >>> _ = torch.manual_seed(0)
    >>> resolve_seed(7), resolve_seed(None) == resolve_seed(None)
    (7, False)
    """
    if seed is None or isinstance(seed, Generator):
        return int(torch.randint(2**62, (1,), generator=seed))
    return check_seed(seed)


def check_seed(seed: int) -> int:
    """The seed as an int; raises :class:`InvalidOption` unless it is a whole number from 0 to 2⁶³ - 1.

    >>> check_seed(-1)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: seed: expected a whole number from 0 to 2⁶³ - 1, found -1
    """
    try:
        value = operator.index(seed)  # also accepts NumPy integers
    except TypeError:
        value = -1
    if not 0 <= value < 2**63:
        raise InvalidOption(f"seed: expected a whole number from 0 to 2⁶³ - 1, found {seed!r}")
    return value


def bernoulli_(p: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
    """Write 1 with probability ``p`` and 0 otherwise into ``out`` (any float type), and return it.

    On the CPU, draws in float32 are made in C (:mod:`harmonium.kernels`), with probabilities exact to 2⁻²⁵. Otherwise
    one 64-bit word of the generator provides four draws. 16 bits are enough for almost every draw, and the remaining
    one in 65 536 also uses the bits of a neighboring draw, so marginal probabilities are exact to about 2⁻²⁴.

    >>> p = torch.tensor([0.0, 1.0, 1.0])
    >>> bernoulli_(p, torch.empty(3), torch.Generator().manual_seed(0))
    tensor([0., 1., 1.])
    """
    if p.dtype.itemsize < 4:  # the draw needs 32 bits: in narrower types it would be inaccurate or overflow
        p = p.float()
    if kernels.draw(p, out, generator):
        return out
    if p.device.type != "cpu":
        return torch.lt(torch.rand(p.shape, dtype=p.dtype, device=p.device, generator=generator), p, out=out)
    scratch = _scratch(p)
    scratch.words.random_(-(2**63), None, generator=generator)
    scratch.bits.copy_(scratch.halves)
    torch.add(scratch.high, scratch.low, alpha=_LOW_BITS, out=scratch.draw)
    torch.add(scratch.offset, p, alpha=65536.0, out=scratch.threshold)
    return torch.lt(scratch.draw, scratch.threshold, out=out)


class _Scratch:
    """Buffers for draws of one shape, reused because allocating them costs as much as the draws."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype) -> None:
        n = shape.numel()
        self.words = torch.empty(n // 4 + 1, dtype=torch.int64)
        self.halves = self.words.view(torch.int16)[: n + 1]
        self.bits = torch.empty(n + 1, dtype=dtype)
        self.high, self.low = self.bits[1:].view(shape), self.bits[:-1].view(shape)
        self.draw, self.threshold = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
        self.offset = torch.tensor(-32768.5, dtype=dtype)


_kept = threading.local()
_MOST_KEPT, _LARGEST_KEPT = 16, 2**22


def _scratch(p: Tensor) -> _Scratch:
    """Buffers for draws with the shape and dtype of ``p``, cached per thread for the last few shapes."""
    if p.numel() > _LARGEST_KEPT:
        return _Scratch(p.shape, p.dtype)
    kept: dict[object, _Scratch] = _kept.__dict__.setdefault("scratch", {})
    key = (p.shape, p.dtype)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _MOST_KEPT:
            kept.pop(next(iter(kept)))
        found = kept[key] = _Scratch(p.shape, p.dtype)
    return found


def bernoulli(p: Tensor, generator: Generator | None = None) -> Tensor:
    """1 with probability ``p``, otherwise 0: the shape and dtype of ``p``."""
    return bernoulli_(p, torch.empty_like(p), generator)


def normal(like: Tensor, generator: Generator | None = None) -> Tensor:
    """Standard normal draws with the shape, dtype and device of ``like``."""
    return torch.empty_like(like).normal_(generator=generator)


def uniform(like: Tensor, generator: Generator | None = None) -> Tensor:
    """Uniform draws in [0, 1) with the shape, dtype and device of ``like``."""
    return torch.empty_like(like).uniform_(generator=generator)


def exponential(like: Tensor, generator: Generator | None = None) -> Tensor:
    """Exponential draws of rate one; more precise than -ln u of a uniform u near u = 0 and u = 1."""
    return torch.empty_like(like).exponential_(generator=generator)


def logistic(like: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws of the logistic distribution, whose distribution function is 1/(1 + e^{-x})."""
    return torch.log(exponential(like, generator).expm1_())


def categorical(p: Tensor, generator: Generator | None = None) -> Tensor:
    """One-hot draws from the probabilities ``p`` along the last dimension, by inversion of the distribution function.

    Needs one uniform number for each draw. Sums are in float64, so that small probabilities are precise. On the CPU
    this takes a fifth of the time of a race of exponential numbers, one for each state, and in C a third of that.

    >>> categorical(torch.tensor([[0.0, 1.0, 0.0]]), torch.Generator().manual_seed(0))
    tensor([[0., 1., 0.]])
    """
    drawn = torch.empty_like(p)
    if kernels.draw_one(p, drawn, generator):
        return drawn
    reached = p.cumsum(-1, dtype=torch.float64)
    below = uniform(reached[..., :1].contiguous(), generator).mul_(reached[..., -1:]).lt(reached)
    below[..., -1] = True  # also if the product is rounded up to the sum
    drawn = below.to(p.dtype)
    drawn[..., 1:] -= below[..., :-1].to(p.dtype)
    return drawn


def ragged_categorical(p: Tensor, last: Tensor, generator: Generator | None = None) -> Tensor:
    """One-hot draws of several sites at once, by inversion of the distribution function: (..., size) -> (..., size).

    ``p`` has the probabilities of all sites one after the other; ``last`` (sites,) is the index of the last state of
    each site. Needs one uniform number for each site.

    >>> p = torch.tensor([[0.0, 1.0, 0.0, 0.0, 1.0]])
    >>> ragged_categorical(p, torch.tensor([1, 4]), torch.Generator().manual_seed(0))
    tensor([[0., 1., 0., 0., 1.]])
    """
    reached = p.cumsum(-1, dtype=torch.float64)
    ends = reached.index_select(-1, last)
    begin = torch.cat([torch.zeros_like(ends[..., :1]), ends[..., :-1]], -1)
    # a uniform number in float32 is at most 1 - 2⁻²⁴, so that the sum in float64 is below the end of the site
    place = uniform(ends.to(torch.float32), generator).to(torch.float64).mul_(ends - begin).add_(begin)
    chosen = torch.searchsorted(reached, place, right=True)
    return torch.zeros_like(p).scatter_(-1, torch.minimum(chosen, last), 1.0)

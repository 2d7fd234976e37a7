"""ln Z, mean and variance of scalar units with finitely many values, as explicit sums."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from .. import noise
from .probabilities import softmax


def terms(values: Tensor, log_base: Tensor, field: Tensor, A: Tensor | None) -> Tensor:
    """The exponents ln base(x) + field·x - A x²/2 for every value x, in a new last dimension."""
    exponent = log_base + field.unsqueeze(-1) * values
    return exponent if A is None else exponent - A.unsqueeze(-1) * values.square() / 2


def log_sum(exponents: Tensor) -> Tensor:
    """ln Σ e^t over the last dimension, with full relative precision even if the sum is close to one."""
    top = exponents.argmax(-1, keepdim=True)
    largest = exponents.gather(-1, top)
    others = (exponents - largest).exp().scatter(-1, top, 0.0).sum(-1)
    return largest.squeeze(-1) + torch.log1p(others)


def mean(values: Tensor, exponents: Tensor) -> Tensor:
    """The mean of x under e^t."""
    return (softmax(exponents) * values).sum(-1)


def variance(values: Tensor, exponents: Tensor) -> Tensor:
    """The variance of x under e^t, from squared differences, so that small values are precise."""
    p = softmax(exponents)
    center = (p * values).sum(-1, keepdim=True)
    return (p * (values - center).square()).sum(-1)


def sample(values: Tensor, exponents: Tensor, generator: Generator | None) -> Tensor:
    """A draw of x under e^t."""
    return (noise.categorical(softmax(exponents.detach()), generator) * values).sum(-1)

"""The interface of a unit. The rest of the library is built on its log-partition function ln Z(B, A)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor, nn

from ..errors import InvalidOption
from . import finite
from .inplace import InPlace, per_row
from .layer import UnitLayer, Value
from .modules import Activation
from .support import OneHot, Support
from .tail import Tail

__all__ = ["Tail", "Unit", "Value", "per_row"]


class Unit(InPlace, UnitLayer, named=False):
    """A layer of independent units with weight e^{-U(x)} on their support.

    In a field B and with a quadratic term A (both of the layer's shape, with any leading batch dimensions)::

        ln Z(B, A) = ln ∫ dx e^{-U(x) + B x - A x²/2},   mean f_a = ∂_B ln Z,   variance f_c = ∂²_B ln Z

    To define a new unit type, subclass ``Unit`` with ``support`` and :meth:`log_weight`. A unit with infinitely many
    states must also define :meth:`log_partition`, :meth:`sample` and :meth:`mode`, one with unbounded support
    :meth:`tail`, and a vector unit :meth:`initialize_from`. All other methods have defaults based on automatic
    differentiation or on a sum over the states; closed forms are faster and more precise.
    ``harmonium.testing.check_unit`` tests a new type.

    Natural parameters enter -U linearly; the ``bias`` enters as +b·x. ``learn`` names the natural parameters that
    training updates. ``shared`` gives the dimensions of ``shape`` over which all natural parameters are equal:
    ``Bernoulli((32, 13, 13), shared=(1, 2))`` has one bias for each of 32 feature maps. Defining a class registers it
    under its :meth:`name`, so that files with such units can be loaded.
    """

    #: the set of allowed values; a class gives the kind of set, an instance may restrict it
    support: Support
    #: names of the natural parameters
    naturals: ClassVar[tuple[str, ...]] = ("bias",)

    # -- the weight ---------------------------------------------------------------------------------------------

    def log_weight(self, x: Tensor) -> Tensor:
        """-U(x) for each unit: (..., *shape) -> (..., *site shape)."""
        raise NotImplementedError(f"{self.name()}: a unit must define log_weight")

    def tail(self) -> Tail:
        """The decay of the weight at infinity; must be overridden if the support is unbounded."""
        if not self.support.bounded:
            raise InvalidOption(f"{self.name()}: the support is unbounded; override tail()")
        return Tail.bounded(self.size)

    def normalizable(self, A: Tensor) -> Tensor:
        """Mask (..., *shape) of the units for which Z(B, A) is finite (for any B)."""
        return self.tail().allows(A.reshape(*A.shape[: A.ndim - len(self.shape)], -1)).view_as(A)

    # -- the log-partition function and its derivatives ---------------------------------------------------------

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """ln Z(B, A) for each unit: (..., *shape) -> (..., *site shape); differentiable."""
        return finite.log_partition(self, B, A)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """f_a = ∂_B ln Z(B, A): (..., *shape) -> (..., *shape)."""
        return _derivative(lambda field: self.log_partition(field, A), B)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """f_c = ∂²_B ln Z(B, A), for vector units the diagonal: (..., *shape) -> (..., *shape)."""
        return _derivative(lambda field: self.mean(field, A), B, vectors=bool(self.event_shape))

    def free_variance(self) -> Tensor:
        """The variance at B = 0: (*shape)."""
        return self.variance(torch.zeros(self.shape, dtype=self.bias.dtype, device=self.bias.device))

    def cumulant(self, n: int) -> Tensor:
        """The n-th cumulant of the free unit (B = 0), n from 1 to 6: (*shape)."""
        zero = torch.zeros(self.shape, dtype=self.bias.dtype, device=self.bias.device, requires_grad=True)

        def derivative(pick: Callable[[Tensor], Tensor]) -> Tensor:
            value = pick(self.mean(zero))
            for _ in range(n - 1):
                (slope,) = torch.autograd.grad(value.sum(), zero, create_graph=True)
                value = pick(slope)
            return value.detach()

        with torch.enable_grad():
            if not self.event_shape:
                return derivative(lambda x: x)
            components = range(self.shape[-1])  # each depends on the fields of all of them
            return torch.stack([derivative(lambda x, k=k: x[..., k]) for k in components], -1)  # type: ignore[misc]

    # -- states -------------------------------------------------------------------------------------------------

    def mode(self, B: Tensor) -> Tensor:
        """The most probable value in the field B (the activation function): (..., *shape) -> (..., *shape)."""
        return finite.mode(self, B)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        """An exact draw of each unit in the field B: (..., *shape) -> (..., *shape)."""
        return finite.sample(self, B, A, generator)

    def relax(self, B: Tensor, *, temperature: float = 2 / 3, generator: Generator | None = None) -> Tensor:
        """A value near an exact draw that is differentiable in B and in the parameters: (..., *shape) -> (..., *shape).

        Discrete states are relaxed by a logistic function or a softmax of the ``temperature``, and rounding gives an
        exact draw (Maddison, Mnih & Teh 2017; Jang, Gu & Poole 2017).
        """
        raise InvalidOption(f'gradient: expected "straight-through" for {self.name()} units, found "relaxed"')

    def forward(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """``unit(B)``: the mean in the field B."""
        return self.mean(B, A)

    @property
    def conserves(self) -> bool:
        """Whether rows differ in a conserved quantity, such as the length of a document or the items that are rated.

        Each row then has a distribution of its own, and a chain of one row should not continue as one of another.
        """
        return False

    def conserving(self, x: Tensor) -> Self:
        """A copy with conserved quantities (such as the length of each document) fixed to those of ``x`` (n, *shape).

        Returns the layer itself if it conserves nothing.
        """
        if not self.conserves:
            return self
        bound = copy.copy(self)
        bound.conserve(x)
        return bound

    def conserve(self, x: Tensor) -> None:
        """Fix conserved quantities to those of ``x`` (n, *shape), for units with ``conserves``."""
        raise NotImplementedError

    # -- sufficient statistics ----------------------------------------------------------------------------------

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        """The sufficient statistic of each natural parameter at the states ``x``: each (..., *shape)."""
        return {**self._slopes(lambda unit: unit.log_weight(x), x), "bias": x}

    def moments(self, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        """The conditional expectation of each statistic in the field B; pass ``mean`` if it is already known."""
        mean = self.mean(B, A) if mean is None else mean
        return {**self._slopes(lambda unit: unit.log_partition(B, A), B), "bias": mean}

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Set the parameters so that the free unit has the single-site statistics of ``data`` (n, *shape).

        Units that share their parameters are taken together (:meth:`observations`).

        By default, finds by bisection the bias for which the free unit has the mean of the data.
        """
        if self.event_shape:
            raise NotImplementedError(f"{self.name()}: a vector unit must define initialize_from")
        self._match_mean(self.observations(data).to(torch.float64).mean(0))

    def initialize_given(self, data: Tensor, context: Tensor, pseudocount: float | None = None) -> Tensor:
        """Set the parameters as :meth:`initialize_from`, and return weights of a context (n, inputs) of each row.

        The weights (inputs, *shape) give the field on the units for each entry of the context. By default they are
        zero; units with a linear activation return those of a linear regression.
        """
        self.initialize_from(data, pseudocount)
        return data.new_zeros(context.shape[1], *self.shape)

    @property
    def softmax(self) -> bool:
        """Whether each unit is a sum of independent one-hot (or zero) vectors in the same field; used by mean field."""
        return isinstance(self.support, OneHot)

    def copies(self, mean: Tensor) -> Tensor:
        """The number of independent vectors in each softmax unit with this mean: (..., q) -> (..., 1)."""
        return mean.sum(-1, keepdim=True)

    def log_unpool(self, x: Tensor) -> Tensor:
        """The log-probability with which ``unpool`` draws x (n, *shape) from its pooled state: (n,). By default 0."""
        if self.pooled_shape != self.shape:
            raise NotImplementedError(f"{self.name()}: a unit with pooled states must define log_unpool")
        return x.new_zeros(len(x))

    def to_module(self) -> nn.Module:
        """The mean as a torch module, a function of the field plus the bias: (batch, *shape) -> (batch, *shape)."""
        return Activation(self)

    # -- helpers ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _match_mean(self, mean: Tensor, reach: float = 1e3) -> None:
        """Set the bias, within ±reach, so that the free unit has this mean, which increases with the bias."""
        low, high = torch.full_like(mean, -reach), torch.full_like(mean, reach)
        current = self.bias.detach().double()
        for _ in range(80):
            middle = (low + high) / 2
            below = self.mean((middle - current).to(self.bias.dtype)).double() < mean
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        self.bias.copy_((low + high) / 2)

    def _slopes(self, function: Callable[[Unit], Tensor], like: Tensor) -> dict[str, Tensor]:
        """The derivatives of ``function(layer)`` by natural parameter; empty if the bias is the only one."""
        if self.naturals == ("bias",):
            return {}
        values = {name: x.detach().expand(like.shape).clone().requires_grad_() for name, x in self.natural().items()}
        with torch.enable_grad():
            total = function(self.with_natural(values)).sum()
        slopes = torch.autograd.grad(total, list(values.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(values, slopes, strict=True))


def _derivative(function: Any, B: Tensor, vectors: bool = False) -> Tensor:
    """The elementwise derivative of ``function`` at B; differentiable if B requires a gradient."""
    tracked = B.requires_grad
    with torch.enable_grad():
        field = B if tracked else B.detach().requires_grad_()
        value = function(field)
        if not vectors:
            (slope,) = torch.autograd.grad(value.sum(), field, create_graph=True)
        else:  # each component of a vector unit depends on the fields of all: one derivative at a time
            parts = []
            for k in range(value.shape[-1]):
                (slope,) = torch.autograd.grad(value[..., k].sum(), field, create_graph=True)
                parts.append(slope[..., k])
            slope = torch.stack(parts, -1)
    return slope if tracked else slope.detach()

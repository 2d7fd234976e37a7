"""The interface of a coupling."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from ..allocation import check_memory
from ..errors import InvalidOption, unknown
from ..registry import Registry


def check_scale(scale: float) -> None:
    """Raise :class:`InvalidOption` if the scale of the initial weights is negative or not finite."""
    try:
        valid = math.isfinite(scale) and scale >= 0
    except TypeError:
        valid = False
    if not valid:
        raise InvalidOption(f"scale: expected a finite number of at least 0, found {scale!r}")


class Coupling(nn.Module):
    """The bilinear term x·W·y between a lower layer x and an upper layer y.

    ``lower`` and ``upper`` are the shapes of the two layers; all methods take and return batches of those shapes.
    To define a new coupling type, subclass ``Coupling`` with a parameter ``weight`` (:meth:`new_parameter`) and
    :meth:`up`. All other methods have defaults based on automatic differentiation; explicit formulas are faster. If an
    entry of the matrix W is neither zero nor an entry of ``weight``, override :meth:`squared` too.
    ``harmonium.testing.check_coupling`` tests a new type. Defining a class registers it under its lowercase name, so
    that files with such couplings can be loaded.
    """

    registry: ClassVar[Registry[Coupling]] = Registry("coupling")

    weight: nn.Parameter
    #: whether :meth:`correlate` is the outer product, so that its sum over a batch is a matrix product
    outer_product: ClassVar[bool] = False
    #: the dimensions of ``weight`` that run over the lower layer, for norms of the weights of an upper unit
    incoming_dims: ClassVar[tuple[int, ...]] = (0,)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Coupling.registry.add(cls.__name__.lower(), cls)

    def __init__(
        self, lower: tuple[int, ...], upper: tuple[int, ...], options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.lower, self.upper = torch.Size(lower), torch.Size(upper)
        self.options = dict(options or {})

    @property
    def fan_in(self) -> float:
        """The average number of lower entries coupled to an upper entry."""
        return self.lower.numel()

    def new_parameter(self, weight: Tensor | None, shape: tuple[int, ...]) -> nn.Parameter:
        """A parameter with the given weights, or zeros."""
        if weight is None:
            size = torch.get_default_dtype().itemsize * math.prod(shape)
            check_memory(f"weights of shape {shape}", size, "use fewer units, or a Masked or Conv2d coupling")
            return nn.Parameter(torch.zeros(shape))
        weight = torch.as_tensor(weight).detach()
        if weight.shape != shape:
            raise InvalidOption(f"weight: expected shape {shape}, found {tuple(weight.shape)}")
        if not bool(torch.isfinite(weight).all()):
            raise InvalidOption("weight: expected finite values, found NaN or infinity")
        return nn.Parameter(weight.clone() if weight.is_floating_point() else weight.to(torch.get_default_dtype()))

    def up(self, x: Tensor) -> Tensor:
        """Wᵀx, the field on the upper layer: (batch, *lower) -> (batch, *upper); linear in x and differentiable."""
        raise NotImplementedError(f"{type(self).__name__}: a coupling must define up")

    def forward(self, x: Tensor) -> Tensor:
        """``coupling(x)``: the field on the upper layer."""
        return self.up(x)

    def down(self, y: Tensor) -> Tensor:
        """W y, the field on the lower layer: (batch, *upper) -> (batch, *lower).

        By default the transpose of :meth:`up`, by automatic differentiation.
        """
        tracked = torch.is_grad_enabled()
        with torch.enable_grad():
            x = torch.zeros(len(y), *self.lower, dtype=y.dtype, device=y.device, requires_grad=True)
            (value,) = torch.autograd.grad(self.up(x), x, y, create_graph=tracked)
        return value

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        """The gradient of Σ_b x_b·W·y_b with respect to ``weight``, times ``scale``: the shape of ``weight``.

        If ``out`` is given, the result is written into it or, with ``add=True``, added to it. By default computed by
        automatic differentiation.
        """
        with torch.enable_grad():
            weight = self.weight.detach().requires_grad_()
            bond = (self.with_weight(weight).up(x.detach()) * y.detach()).sum()
        value = torch.autograd.grad(bond, weight)[0].mul_(scale)
        if out is None:
            return value
        return out.add_(value) if add else out.copy_(value)

    def squared(self) -> Coupling:
        """The coupling with W² (elementwise) in place of W, for mean field; differentiable."""
        return self.with_weight(self.weight.square())

    def with_weight(self, weight: Tensor) -> Coupling:
        """The same connections with other weights, given as a tensor that may be part of a graph."""
        other = copy.copy(self)
        other.__dict__["_parameters"] = {name: p for name, p in self._parameters.items() if name != "weight"}
        other.__dict__["weight"] = weight
        return other

    def matrix(self) -> Tensor:
        """The dense matrix W: (lower size, upper size)."""
        eye = torch.eye(self.lower.numel(), dtype=self.weight.dtype, device=self.weight.device)
        return self.up(eye.reshape(-1, *self.lower)).flatten(1)

    def kernels(self) -> Tensor | None:
        """The weights as small images (upper channels, lower channels, height, width), for plots; None if they are not.

        By default None.
        """
        return None

    def initialize(self, scale: float, kind: str = "normal", generator: Generator | None = None) -> None:
        """Set random weights: N(0, scale²), or ±scale with a random sign (``kind="sign"``)."""
        check_scale(scale)
        with torch.no_grad():
            if kind == "normal":
                self.weight.normal_(0.0, scale, generator=generator)
            elif kind == "sign":
                self.weight.bernoulli_(0.5, generator=generator).mul_(2 * scale).sub_(scale)
            else:
                raise unknown("weight initialization", kind, ("normal", "sign"))
        self.project()

    def project(self) -> None:
        """Project ``weight`` onto the allowed set after an update. By default does nothing."""

    def lower_factors(self, scale: Tensor) -> Tensor:
        """Factors of ``weight``, for which it broadcasts, if the lower states are divided by ``scale`` (*lower).

        By default one factor for all weights, the root mean square of the scales.
        """
        return scale.square().mean().sqrt()

    def to_modules(self, bias: Tensor) -> list[nn.Module]:
        """Torch modules with parameters of their own that map x to Wᵀx + b: (batch, *lower) -> (batch, *upper).

        ``bias`` (*upper) is b. By default a module that calls :meth:`up`.
        """
        return [Up(copy.deepcopy(self)), Shift(bias)]

    # -- in-place versions for inner loops ---------------------------------------------------------------------

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        """Write :meth:`up` into ``out``."""
        return out.copy_(self.up(x))

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        """Write :meth:`down` into ``out``."""
        return out.copy_(self.down(y))

    def config(self) -> dict[str, Any]:
        """Everything needed to rebuild the coupling except its weights."""
        return {
            "coupling": type(self).__name__.lower(),
            "lower": list(self.lower),
            "upper": list(self.upper),
            **self.options,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Coupling:
        """The coupling that :meth:`config` describes, with zero weights."""
        return Coupling.registry.find(config.get("coupling")).build(config)

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Coupling:
        """A coupling of this class from its :meth:`config`."""
        options = {key: value for key, value in config.items() if key not in ("coupling", "lower", "upper")}
        return cls(tuple(config["lower"]), tuple(config["upper"]), **options)

    def extra_repr(self) -> str:
        return f"{tuple(self.lower)} – {tuple(self.upper)}"


class Up(nn.Module):
    """The field on the upper layer as a module."""

    def __init__(self, coupling: Coupling) -> None:
        super().__init__()
        self.coupling = coupling

    def forward(self, x: Tensor) -> Tensor:
        """Wᵀx: (batch, *lower) -> (batch, *upper)."""
        return self.coupling.up(x)


class Shift(nn.Module):
    """Add a bias to every entry."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """x + b: (batch, *shape) -> (batch, *shape)."""
        return x + self.bias

"""The contract of a unit: everything the library does follows from its log-partition function ln Z(B, A)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from ..checks import as_shape, kebab
from ..errors import InvalidData, InvalidOption, NotEnumerable, unknown
from .support import Support

Value = float | Tensor


@dataclass(frozen=True)
class Tail:
    """How the weight of each unit of a layer falls at infinity (tensors of the layer's flat size).

    ``gaussian``: it falls as e^{-precision x²/2}; ``factorial``: as 1/x!; neither: the support is bounded.
    ``one_sided``: only x → +∞ exists. A machine decides from this whether its partition function is finite.
    """

    gaussian: Tensor
    factorial: Tensor
    one_sided: Tensor
    precision: Tensor

    @staticmethod
    def bounded(n: int) -> Tail:
        """The tail of units that have none."""
        no = torch.zeros(n, dtype=torch.bool)
        return Tail(no, no, no, torch.full((n,), math.inf, dtype=torch.float64))

    @staticmethod
    def normal(precision: Tensor, one_sided: bool = False) -> Tail:
        """A Gaussian tail of the given precision, on both sides or on the right only."""
        precision = precision.detach().double().cpu().flatten()
        yes = torch.ones(precision.numel(), dtype=torch.bool)
        return Tail(yes, ~yes, yes if one_sided else ~yes, precision)

    @staticmethod
    def poisson(n: int) -> Tail:
        """The tail 1/x! of counts."""
        yes = torch.ones(n, dtype=torch.bool)
        return Tail(~yes, yes, yes, torch.full((n,), math.inf, dtype=torch.float64))

    @staticmethod
    def join(tails: Iterable[Tail]) -> Tail:
        """The tail of several groups of units side by side."""
        tails = list(tails)
        fields = ("gaussian", "factorial", "one_sided", "precision")
        return Tail(*(torch.cat([getattr(tail, name) for tail in tails]) for name in fields))


class Unit(nn.Module):
    """A layer of independent units with weight e^{-U(x)} on their support.

    In a field B and with a quadratic term A (both of the layer's shape, with any leading batch dimensions)::

        ln Z(B, A) = ln ∫ dx e^{-U(x) + B x - A x²/2},   mean f_a = ∂_B ln Z,   variance f_c = ∂²_B ln Z

    A subclass of one's own needs ``support``, :meth:`log_weight`, :meth:`log_partition` and :meth:`sample`; every
    unit here also overrides mean, variance and cumulants with stable closed forms. Natural parameters enter -U
    linearly; the ``bias`` of a unit enters as +b·x. ``learn`` names the natural parameters that training changes.
    """

    support: Support
    #: how many trailing dimensions of ``shape`` make one unit: 0 for scalar units, 1 for one-hot or count vectors
    event_dims: ClassVar[int] = 0
    #: whether a unit is a one-hot vector, so that a constant added to its fields changes nothing
    one_hot: ClassVar[bool] = False
    #: whether a vector unit is a sum of one-hot vectors, all in the same field, as a Potts unit (one of them) is
    tied_softmax: ClassVar[bool] = False
    #: whether :meth:`sample_` needs nothing but the mean where that is given
    samples_from_mean: ClassVar[bool] = False
    #: the natural parameters of the unit, by the name of its constructor's keyword
    naturals: ClassVar[tuple[str, ...]] = ("bias",)

    registry: ClassVar[dict[str, type[Unit]]] = {}

    def __init_subclass__(cls, *, named: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not named:  # a view of other units, not a kind that a file or a command could name
            return
        known = Unit.registry.get(cls.name())
        ours = __name__.partition(".")[0]
        if known is not None and known.__module__.startswith(f"{ours}.") and not cls.__module__.startswith(f"{ours}."):
            raise InvalidOption(f"a unit named {cls.name()} comes with {ours}: choose another name for {cls.__name__}")
        Unit.registry[cls.name()] = cls

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        bias: Value = 0.0,
        learn: Iterable[str] = ("bias",),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.shape = torch.Size(as_shape(shape, self.name()))
        if not self.shape or min(self.shape) < 1 or len(self.shape) < self.event_dims:
            raise InvalidOption(f"{self.name()}: expected a layer shape of positive sizes, found {tuple(self.shape)}")
        self.learn = tuple(learn)
        for name in self.learn:
            if name not in self.naturals:
                raise unknown(f"parameter of {self.name()} to learn", name, self.naturals)
        self.options = dict(options or {})
        self.bias = self._parameter("bias", bias)

    # -- what a unit is -------------------------------------------------------------------------------------

    @classmethod
    def name(cls) -> str:
        """The unit's name on the command line and in files: ``TruncatedGaussian`` is ``truncated-gaussian``."""
        return kebab(cls.__name__)

    @property
    def size(self) -> int:
        """The number of entries of one state of the layer."""
        return self.shape.numel()

    @property
    def sites(self) -> int:
        """The number of units in the layer (a one-hot vector is one unit)."""
        return self.shape[: len(self.shape) - self.event_dims].numel()

    def config(self) -> dict[str, Any]:
        """What is needed to build the unit again, parameters aside: plain numbers and strings."""
        return {"unit": self.name(), "shape": list(self.shape), "learn": list(self.learn), **self.options}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Unit:
        """The unit that :meth:`config` describes, with default parameters."""
        try:
            kind = Unit.registry[config["unit"]]
        except KeyError:
            raise unknown("unit", str(config.get("unit")), Unit.registry) from None
        if kind.from_config.__func__ is not Unit.from_config.__func__:  # type: ignore[attr-defined]
            return kind.from_config(config)
        options = {key: value for key, value in config.items() if key not in ("unit", "shape")}
        return kind(config["shape"], **options)

    def extra_repr(self) -> str:
        options = "".join(f", {key}={value}" for key, value in self.options.items())
        return f"{tuple(self.shape)}{options}"

    def tail(self) -> Tail:
        """How the weight falls at infinity; a unit on an unbounded support has to say."""
        if not self.support.bounded:
            raise InvalidOption(f"{self.name()}: the support is unbounded: override tail() to say how the weight falls")
        return Tail.bounded(self.size)

    @property
    def conserves(self) -> bool:
        """Whether :meth:`bind` fixes something that no move of a chain changes."""
        return False

    def bind(self, x: Tensor) -> Unit:
        """The layer as a chain through the states ``x`` sees it: what no move changes is fixed."""
        return self

    # -- the one function and its derivatives ---------------------------------------------------------------

    def log_weight(self, x: Tensor) -> Tensor:
        """-U(x) for each unit: (..., *shape) -> (..., *site shape)."""
        raise NotImplementedError

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """ln Z(B, A) for each unit: (..., *shape) -> (..., *site shape); differentiable."""
        raise NotImplementedError

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """f_a = ∂_B ln Z(B, A): (..., *shape) -> (..., *shape)."""
        return _derivative(lambda field: self.log_partition(field, A), B)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """f_c = ∂²_B ln Z(B, A), for vector units the diagonal: (..., *shape) -> (..., *shape)."""
        return _derivative(lambda field: self.mean(field, A), B, diagonal_dims=self.event_dims)

    def mode(self, B: Tensor) -> Tensor:
        """The most probable value in the field B, which is the activation function: (..., *shape) -> (..., *shape)."""
        states = self.support.states()
        if states is None:
            raise NotImplementedError(f"{self.name()}: mode of an infinite support needs a formula")
        states = states.to(B.device)
        B64 = B.detach().to(torch.float64)  # float32 cannot tell the weights of a large field from each other
        weights = torch.stack([self.log_weight(state.expand(B.shape)) + self._dot(B64, state) for state in states])
        return states[weights.argmax(0)].to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        """An exact draw of each unit in the field B: (..., *shape) -> (..., *shape)."""
        raise NotImplementedError

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
            if self.event_dims == 0:
                return derivative(lambda x: x)
            components = range(self.shape[-1])  # of a vector unit depend on each other's field
            return torch.stack([derivative(lambda x, k=k: x[..., k]) for k in components], -1)  # type: ignore[misc]

    # -- sufficient statistics ------------------------------------------------------------------------------

    def natural(self) -> dict[str, Tensor]:
        """The natural parameters as differentiable tensors; -U(x) = Σ natural · statistics + a constant of x."""
        return {"bias": self.bias}

    def with_natural(self, values: Mapping[str, Tensor]) -> Unit:
        """The same units with other natural parameters.

        These are plain tensors that may be part of a graph and may have leading dimensions, (..., *shape), which
        broadcast against those of a batch. A positive parameter ``p`` is stored as ``log_p``, others as they are.
        """
        other = copy.copy(self)
        stored = {
            name if name in self._parameters or name in self.__dict__ else f"log_{name}": value
            for name, value in values.items()
        }
        other.__dict__["_parameters"] = {}
        for name, value in stored.items():
            other.__dict__[name] = value.log() if name not in values else value
        return other

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        """The sufficient statistic of each natural parameter at the states ``x``: each (..., *shape)."""
        return {"bias": x}

    def moments(self, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        """The conditional expectation of each statistic in the field B; ``mean`` where it is known already."""
        return {"bias": self.mean(B, A) if mean is None else mean}

    def accumulate_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        """Add the gradient with respect to the natural parameters to ``.grad`` of what is stored."""
        with torch.enable_grad():
            for name, value in self.natural().items():
                if value.requires_grad:
                    value.backward(gradients[name].reshape(value.shape))

    def biases(self) -> list[nn.Parameter]:
        """The bias as it is stored: one parameter, or one for each part of a mixed layer, in the layer's order."""
        return [self.bias]

    @torch.no_grad()
    def shift_bias(self, change: Tensor) -> None:
        """Add ``change`` (*shape) to the bias."""
        pieces = change.flatten().split([bias.numel() for bias in self.biases()])
        for bias, piece in zip(self.biases(), pieces, strict=True):
            bias.add_(piece.view(bias.shape))

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Set the parameters so that the free unit has the single-site statistics of ``data`` (n, *shape).

        Unless a unit knows better: the bias at which the mean is that of the data, by bisection.
        """
        if self.event_dims:
            raise NotImplementedError(f"{self.name()}: a vector unit needs an initialize_from of its own")
        self._match_mean(data.to(torch.float64).mean(0))

    @torch.no_grad()
    def _match_mean(self, mean: Tensor, reach: float = 1e3) -> None:
        """Set the bias, between -reach and reach, at which the free unit has this mean, which grows with it."""
        low, high = torch.full_like(mean, -reach), torch.full_like(mean, reach)
        current = self.bias.detach().double()
        for _ in range(80):
            middle = (low + high) / 2
            below = self.mean((middle - current).to(self.bias.dtype)).double() < mean
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        self.bias.copy_((low + high) / 2)

    def log_partition_gain(self, B: Tensor, before: Unit, B_before: Tensor, mean: Tensor | None = None) -> Tensor:
        """Σ ln Z(B) - ln Z_before(B_before) over the units, the step of an annealing: (batch,).

        ``mean`` is that at B where it is known already.
        """
        return per_row(self.log_partition(B) - before.log_partition(B_before))

    # -- in-place forms for the hot loop: a unit overrides them only for speed -------------------------------

    def mean_(self, B: Tensor, out: Tensor) -> Tensor:
        """Write the mean in the field B into ``out``."""
        return out.copy_(self.mean(B))

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        """Write f_a(B, A) into ``mean`` and f_c(B, A) into ``variance``, which share most of their work."""
        mean.copy_(self.mean(B, A))
        variance.copy_(self.variance(B, A))

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        """Write a draw in the field B into ``out``; ``mean`` where it is known already, else B may be overwritten."""
        return out.copy_(self.sample(B, generator=generator))

    # -- enumeration ----------------------------------------------------------------------------------------

    @property
    def cardinality(self) -> int | None:
        """The number of states of the layer; ``None`` where it is infinite."""
        states = self.support.states()
        return None if states is None else len(states) ** self.sites

    def enumerate(self, index: Tensor | None = None) -> Tensor:
        """The states of the layer with the given numbers (default: all), unit 0 changing fastest: (n, *shape)."""
        states = self.support.states()
        if states is None:
            raise NotEnumerable(f"{self.name()} units have infinitely many states")
        states = states.to(self.bias)
        index = torch.arange(len(states) ** self.sites) if index is None else index
        digits = torch.empty(len(index), self.sites, dtype=torch.int64)
        for site in range(self.sites):
            digits[:, site] = index % len(states)
            index = index // len(states)
        return states[digits.to(states.device)].reshape(len(digits), *self.shape)

    def check(self, x: Tensor, what: str = "data") -> None:
        """Raise :class:`InvalidData` unless ``x`` is (n, *shape) with every value in the support."""
        if x.shape[1:] != self.shape:
            raise InvalidData(
                f"{what}: expected shape (n, {', '.join(map(str, self.shape))}) for {self.name()} units, "
                f"found {tuple(x.shape)}"
            )
        self.support.check(x, what)

    # -- helpers --------------------------------------------------------------------------------------------

    def _dot(self, B: Tensor, x: Tensor) -> Tensor:
        """B x for each unit: summed over the components of a vector unit."""
        product = B * x
        return product.sum(-1) if self.event_dims else product

    def _parameter(self, name: str, value: Value) -> nn.Parameter:
        """A natural parameter of the layer's shape; plain numbers take the type of the bias, which comes first."""
        plain = self.bias.dtype if "bias" in self._parameters else torch.get_default_dtype()
        value = value.detach() if isinstance(value, Tensor) else torch.as_tensor(value, dtype=plain)
        if not value.is_floating_point():
            value = value.to(plain)
        try:
            full = torch.empty(self.shape, dtype=value.dtype, device=value.device).copy_(value)
        except RuntimeError:
            raise InvalidOption(
                f"{name}: expected a number or a tensor of shape {tuple(self.shape)}, found {tuple(value.shape)}"
            ) from None
        if not bool(torch.isfinite(full).all()):
            raise InvalidOption(f"{name}: expected finite values")
        return nn.Parameter(full, requires_grad=name in self.learn)


def _derivative(function: Any, B: Tensor, diagonal_dims: int = 0) -> Tensor:
    """The elementwise derivative of ``function`` at B; differentiable again when B is part of a graph."""
    tracked = B.requires_grad
    with torch.enable_grad():
        field = B if tracked else B.detach().requires_grad_()
        value = function(field)
        if diagonal_dims == 0:
            (slope,) = torch.autograd.grad(value.sum(), field, create_graph=True)
        else:  # the components of a vector unit depend on each other's field: one derivative at a time
            parts = []
            for k in range(value.shape[-1]):
                (slope,) = torch.autograd.grad(value[..., k].sum(), field, create_graph=True)
                parts.append(slope[..., k])
            slope = torch.stack(parts, -1)
    return slope if tracked else slope.detach()


def leaves(unit: Unit) -> Iterator[Unit]:
    """The layers of one kind of unit that make up a layer: the parts of a mixed one, or the layer itself."""
    parts = getattr(unit, "parts", None)
    if parts is None:
        yield unit
    else:
        for part in parts:
            yield from leaves(part)


def per_row(x: Tensor) -> Tensor:
    """The sum over all but the first dimension."""
    return x.flatten(1).sum(1) if x.ndim > 1 else x  # a layer of one vector unit has one value a row

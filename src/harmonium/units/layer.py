"""Shape, parameters, name, configuration and checks of a layer of units: everything except its mathematics."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, cast

import torch
from torch import Generator, Tensor, nn

from ..allocation import check_memory
from ..arrays import abstract
from ..checks import as_shape, kebab
from ..errors import InvalidData, InvalidOption, unknown
from ..registry import Registry
from ..signatures import complete_constructor
from . import enumeration
from .support import Support

if TYPE_CHECKING:
    from .base import Unit

Value = float | Tensor


class BiasOptions(TypedDict, total=False):
    """Keyword arguments of all units: the bias, and the dimensions along which parameters are shared."""

    bias: Value
    shared: Iterable[int]


class LayerOptions(BiasOptions, total=False):
    """The same, and the names of the parameters that training updates."""

    learn: Iterable[str]


class UnitLayer(nn.Module):
    """The base class of :class:`Unit`. A new unit type does not need to override anything here."""

    support: Support
    naturals: ClassVar[tuple[str, ...]]
    registry: ClassVar[Registry[Unit]] = Registry("unit")

    def __init_subclass__(cls, *, named: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_constructor(cls)
        if named:  # unnamed classes are internal and never appear in files or commands
            UnitLayer.registry.add(cls.name(), cast("type[Unit]", cls))

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        bias: Value = 0.0,
        learn: Iterable[str] = ("bias",),
        shared: Iterable[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not hasattr(type(self), "support") and "support" not in vars(self):
            raise InvalidOption(
                f"{type(self).__name__}: expected a class attribute 'support' with the values of a unit, such as "
                'harmonium.units.support.Values("votes", (-1.0, 0.0, 1.0)), found none'
            )
        self.shape = torch.Size(as_shape(shape, self.name()))
        self.shared = self._dimensions(shared)
        self.learn = tuple(learn)
        for name in self.learn:
            if name not in self.naturals:
                raise unknown(f"parameter of {self.name()} to learn", name, self.naturals)
        self.options = dict(options or {})
        self.bias = self.new_parameter("bias", bias)

    # -- shape --------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of entries in one state of the layer."""
        return self.shape.numel()

    @classmethod
    def entries(cls, shape: Sequence[int]) -> int:
        """The number of entries in one state of a layer that is built from ``shape``: the product of the sizes."""
        return math.prod(shape)

    @property
    def event_shape(self) -> torch.Size:
        """The shape of one unit, the last part of ``shape``: () for scalar units, (q,) for vector units."""
        return self.shape[len(self.shape) - self.support.event_dim :]

    @property
    def sites(self) -> int:
        """The number of units in the layer (a one-hot vector is one unit)."""
        return self.size // self.event_shape.numel()

    def dot(self, B: Tensor, x: Tensor) -> Tensor:
        """B x for each unit, summed over the components of a vector: (..., *shape) -> (..., *site shape)."""
        product = B * x
        return product.sum(-1) if self.event_shape else product

    # -- pooling ------------------------------------------------------------------------------------------------

    @property
    def pooled_shape(self) -> torch.Size:
        """The shape of the layer's pooled state, which the next machine of a stack has as its data."""
        return self.shape

    def pool(self, x: Tensor) -> Tensor:
        """The pooled state of states: (..., *shape) -> (..., *pooled_shape). By default x itself."""
        return x

    def unpool(self, p: Tensor, *, generator: Generator | None = None) -> Tensor:
        """A draw of the free units given their pooled state: (..., *pooled_shape) -> (..., *shape). By default p."""
        return p

    def pooled_layer(self) -> Unit:
        """Units for the pooled state, the visible layer of the next machine of a stack. By default a copy."""
        return copy.deepcopy(cast("Unit", self))

    # -- layers of several unit types --------------------------------------------------------------------------

    @property
    def parts(self) -> list[Unit]:
        """The layers of a single unit type that make up this layer: only itself, unless it is mixed."""
        return [cast("Unit", self)]

    def split(self, x: Tensor) -> list[Tensor]:
        """Split states into those of each part: (..., *shape) -> a list of (..., *part shape)."""
        return [x]

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        """The inverse of :meth:`split`."""
        (x,) = pieces
        return x

    def with_parts(self, parts: Sequence[Unit]) -> Unit:
        """The layer with its parts replaced by ``parts`` of the same shapes."""
        (unit,) = parts
        return unit

    @property
    def members(self) -> list[Unit]:
        """The layers that own the parameters of this layer: only itself, unless it is mixed."""
        return [cast("Unit", self)]

    def by_member(self, x: Tensor) -> list[tuple[Unit, Tensor]]:
        """The members, each with its part of the values: (n, *shape) -> pairs of a layer and (n, *member shape)."""
        return [(cast("Unit", self), x)]

    # -- parameters ---------------------------------------------------------------------------------------------

    #: dimensions of ``shape`` over which the natural parameters are equal, such as (1, 2) for one bias per feature map
    shared: tuple[int, ...] = ()
    #: what a visible layer learns unless ``learn`` is given; empty: the same as other layers
    learn_as_visible: ClassVar[tuple[str, ...]] = ()
    #: whether (x - m)/s of a unit x is again such a unit, for all m and s > 0
    affine: ClassVar[bool] = False
    #: whether ``shared`` may contain the dimension of the components of a vector unit
    shares_components: ClassVar[bool] = False

    @property
    def parameter_shape(self) -> torch.Size:
        """The shape of the stored parameters, which broadcast to ``shape``: size 1 in the shared dimensions."""
        return torch.Size(1 if k in self.shared else n for k, n in enumerate(self.shape))

    def full(self, value: Tensor) -> Tensor:
        """Expand a parameter, (..., *parameter_shape) -> (..., *shape)."""
        return value.expand(*value.shape[: value.ndim - len(self.shape)], *self.shape)

    def shared_sum(self, value: Tensor) -> Tensor:
        """Σ over the shared dimensions, (..., *shape) -> (..., *parameter_shape), as in the gradient of a parameter."""
        return value.sum(self._from_the_end(), keepdim=True) if self.shared else value

    def shared_mean(self, value: Tensor) -> Tensor:
        """The mean over the shared dimensions, (..., *shape) -> (..., *parameter_shape)."""
        return value.mean(self._from_the_end(), keepdim=True) if self.shared else value

    def observations(self, data: Tensor) -> Tensor:
        """Rows of data as rows of each parameter: (n, *shape) -> (n · shared units, *parameter_shape)."""
        if not self.shared:
            return data
        kept = [1 + k for k in range(len(self.shape)) if k not in self.shared]
        return data.permute(0, *(1 + k for k in self.shared), *kept).reshape(-1, *self.parameter_shape)

    def _from_the_end(self) -> tuple[int, ...]:
        return tuple(k - len(self.shape) for k in self.shared)

    def _dimensions(self, shared: Iterable[int]) -> tuple[int, ...]:
        shared = (shared,) if isinstance(shared, int) else tuple(shared)
        most = len(self.shape) - (0 if self.shares_components else self.support.event_dim)
        found = tuple(sorted({k + len(self.shape) if k < 0 else k for k in shared}))
        if not all(0 <= k < most for k in found):
            raise InvalidOption(
                f"shared: expected dimensions from 0 to {most - 1} of {tuple(self.shape)}, found {tuple(shared)}"
            )
        return found

    def new_parameter(self, name: str, value: Value) -> nn.Parameter:
        """A parameter of shape ``parameter_shape``, learned if ``name`` is in ``learn``.

        Python numbers get the dtype of the bias, which is created first.
        """
        plain = self.bias.dtype if "bias" in self._parameters else torch.get_default_dtype()
        value = value.detach() if isinstance(value, Tensor) else torch.as_tensor(value, dtype=plain)
        if not value.is_floating_point():
            value = value.to(plain)
        size = value.element_size() * self.parameter_shape.numel()
        check_memory(f"{name} of {self.name()} units", size, "use fewer units")
        try:
            full = torch.empty(self.parameter_shape, dtype=value.dtype, device=value.device).copy_(value)
        except RuntimeError:
            raise InvalidOption(
                f"{name}: expected a number or a tensor of shape {tuple(self.parameter_shape)}, "
                f"found {tuple(value.shape)}"
            ) from None
        if not bool(torch.isfinite(value).all()):
            raise InvalidOption(f"{name}: expected finite values, found NaN or infinity")
        return nn.Parameter(full, requires_grad=name in self.learn)

    def natural(self) -> dict[str, Tensor]:
        """The natural parameters as differentiable tensors; -U(x) = Σ natural · statistics + a fixed function of x.

        They broadcast to ``shape``, and have size 1 in its shared dimensions.
        """
        return {name: getattr(self, name) for name in self.naturals}

    def with_natural(self, values: Mapping[str, Tensor]) -> Self:
        """A copy with other natural parameters.

        These are plain tensors, which may be part of a graph. They may have leading dimensions, (..., *shape), which
        broadcast against those of a batch. A positive parameter ``p`` is stored as ``log_p``.
        """
        other = type(self).__new__(type(self))  # as copy.copy, in a tenth of the time: annealing does it in every step
        other.__dict__.update(self.__dict__)
        stored = {
            name if name in self._parameters or name in self.__dict__ else f"log_{name}": value
            for name, value in values.items()
        }
        other.__dict__["_parameters"] = {}
        for name, value in stored.items():
            other.__dict__[name] = value.log() if name not in values else value
        return other

    def become_visible(self) -> None:
        """Called when the layer becomes the visible layer of a machine. By default does nothing."""

    def standardized(self, location: Tensor, scale: Tensor) -> Unit:
        """A copy with the parameters of (x - location)/scale, for units with :attr:`affine`."""
        raise NotImplementedError(f"{self.name()}: (x - location)/scale is not a unit of this type")

    def in_field(self, B: Tensor) -> Unit:
        """A copy with the field B (..., *shape) added to the bias; differentiable, also in B.

        The leading dimensions of B broadcast against those of a batch: (n, *shape) for a field for each row.
        """
        return cast("Unit", self.with_natural({**self.natural(), "bias": self.full(self.bias) + B}))

    def gradients(self, totals: Mapping[str, Tensor]) -> dict[Tensor, Tensor]:
        """The gradient by stored parameter from that by natural parameter, ``totals`` (*shape)."""
        with torch.enable_grad():
            natural = {name: value for name, value in self.natural().items() if value.requires_grad}
            stored = [parameter for parameter in self.parameters() if parameter.requires_grad]
            slopes = [self.shared_sum(totals[name].reshape(self.shape)) for name in natural]
            found = torch.autograd.grad(list(natural.values()), stored, slopes, materialize_grads=True)
        return dict(zip(stored, found, strict=True))

    def biases(self) -> list[nn.Parameter]:
        """The stored bias parameters: one, or one for each part of a mixed layer, in order."""
        return [self.bias]

    @torch.no_grad()
    def shift_bias(self, change: Tensor) -> None:
        """Add ``change`` (*shape) to the bias; to a shared bias, its mean over the units that share the bias."""
        for bias, piece in zip(self.biases(), self.by_bias(change), strict=True):
            bias.add_(piece)

    def by_bias(self, change: Tensor) -> list[Tensor]:
        """A change of the field (*shape) as changes of :meth:`biases`: the mean over the units that share a bias."""
        return [self.shared_mean(change.expand(self.shape)) if self.shared else change]

    def bias_sums(self, total: Tensor) -> list[Tensor]:
        """The gradient by the field (*shape) as gradients by :meth:`biases`: the sum over the units that share one."""
        return [self.shared_sum(total)]

    def from_biases(self, values: Sequence[Tensor]) -> Tensor:
        """The transpose of :meth:`by_bias`: one tensor for each of :meth:`biases` -> (*shape), perhaps the same one."""
        (value,) = values
        return self.full(value) * (value.numel() / self.size) if self.shared else value

    # -- names and files ----------------------------------------------------------------------------------------

    @classmethod
    def name(cls) -> str:
        """The unit's name on the command line and in files: ``TruncatedGaussian`` is ``truncated-gaussian``."""
        return kebab(cls.__name__)

    def config(self) -> dict[str, Any]:
        """Everything needed to rebuild the unit except its parameters, as plain numbers and strings."""
        shared = {"shared": list(self.shared)} if self.shared else {}  # older versions read files without it
        return {"unit": self.name(), "shape": list(self.shape), "learn": list(self.learn), **shared, **self.options}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Unit:
        """The unit that :meth:`config` describes, with default parameters."""
        return UnitLayer.registry.find(config.get("unit")).build(config)

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Unit:
        """A unit of this class from its :meth:`config`."""
        options = {key: value for key, value in config.items() if key not in ("unit", "shape")}
        return cast("Unit", cls(config["shape"], **options))

    def extra_repr(self) -> str:
        options = "".join(f", {key}={value}" for key, value in self.options.items())
        shared = f", shared={self.shared}" if self.shared else ""
        return f"{tuple(self.shape)}{shared}{options}"

    # -- states -------------------------------------------------------------------------------------------------

    @property
    def cardinality(self) -> int | None:
        """The number of states of the layer; ``None`` if infinite."""
        return enumeration.cardinality(cast("Unit", self))

    def enumerate(self, index: Tensor | None = None) -> Tensor:
        """The states of the layer with the given indices (default: all), unit 0 varying fastest: (n, *shape)."""
        return enumeration.states(cast("Unit", self), index)

    def check(self, x: Tensor, what: str = "data") -> None:
        """Raise :class:`InvalidData` unless ``x`` is (n, *shape) with every value in the support."""
        if x.shape[1:] != self.shape:
            raise InvalidData(
                f"{what}: expected shape (n, {', '.join(map(str, self.shape))}) for {self.name()} units, "
                f"found {tuple(x.shape)}"
            )
        if not abstract(x):
            self.support.check(x, what)

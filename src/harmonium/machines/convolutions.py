"""Convolutional machines on images: feature maps with shared weights and biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Required, TypedDict, Unpack

from ..couplings import Conv2d
from ..errors import InvalidOption, unknown
from ..signatures import forwards
from ..units import AtMostOne, Bernoulli, Unit
from .chain import as_layer
from .rbm import RBM

#: a class of units, or a function of their shape and the keyword ``shared``
Units = Callable[..., Unit]


class Window(TypedDict, total=False):
    """Keyword arguments of the kernels of feature maps."""

    kernel: Required[int]
    stride: int
    padding: int
    pool: int


class MapOptions(Window, total=False):
    """Keyword arguments of :func:`feature_maps`."""

    channels: Required[int]
    hidden: Units
    biases: str


@forwards(Conv2d.output_shape, "kernel", "stride", "padding", "pool")
def feature_maps(
    lower: tuple[int, ...], *, channels: int, hidden: Units = Bernoulli, biases: str = "map", **window: Unpack[Window]
) -> tuple[Unit, Conv2d]:
    """Return a layer of feature maps above a layer of shape ``lower``, and the coupling of the two.

    The arguments are those of :func:`convolutional`. Use it for machines of several layers.

    >>> from harmonium.units import ReLU
    >>> feature_maps((3, 32, 32), channels=16, kernel=4, stride=2, padding=1, hidden=ReLU)[0]
    ReLU((16, 16, 16), shared=(1, 2))
    """
    upper = Conv2d.output_shape(lower, channels, **window)
    if biases not in ("map", "position"):
        raise unknown("kind of biases", biases, ("map", "position"))
    pool = window.get("pool", 1)
    kind = AtMostOne if pool > 1 and hidden is Bernoulli else hidden
    if pool > 1 and not _pools(kind):
        raise InvalidOption(f"hidden: expected bernoulli units for pool={pool}, found {_name(kind)}")
    shared = range(1, len(upper)) if biases == "map" else ()
    return kind(upper, shared=tuple(shared)), Conv2d(lower, upper, **window)


@forwards(feature_maps)
def convolutional(visible: Unit | tuple[int, ...], **maps: Unpack[MapOptions]) -> RBM:
    """Return an RBM whose hidden layer consists of feature maps (:func:`feature_maps`).

    Args:
        visible: units of shape (channels, height, width), or this shape for Bernoulli units. They have a bias for each
            pixel unless they share it, as ``Gaussian((3, 32, 32), shared=(1, 2))`` with one for each color.
        channels: number of feature maps.
        kernel: height and width of the kernels.
        stride: distance of neighboring kernels.
        padding: number of zeros added on each side of the image.
        pool: width of the blocks of probabilistic max-pooling (Lee et al. 2009); 1 for none.
        hidden: class of the hidden units, or ``partial(Multinary, levels=255, scale=0.1)`` with options.
        biases: "map" for one bias (and other parameters) per feature map, "position" for one per unit.

    >>> rbm = convolutional((1, 28, 28), channels=8, kernel=5, stride=1, pool=2)
    >>> rbm.hidden
    AtMostOne((8, 12, 12, 4), shared=(1, 2, 3))
    >>> rbm.weight.shape, rbm.hidden.bias.shape
    (torch.Size([8, 1, 5, 5]), torch.Size([8, 1, 1, 1]))
    """
    lower = as_layer(visible)
    return RBM(lower, *feature_maps(tuple(lower.shape), **maps))


def _pools(kind: Any) -> bool:
    unit = kind((1, 2))
    return unit.pooled_shape != unit.shape


def _name(kind: Any) -> str:
    return str(getattr(kind, "func", kind).__name__)

"""Standardized coordinates of real-valued visible units: location and scale of each unit in the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..units import Unit

#: standard deviations below this fraction of the mean are rounding errors, as in ``harmonium.units.positive``
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Scaling:
    """Locations m and scales s of the units of a layer, so that z = (x - m)/s has mean 0 and variance 1 in the data.

    Only units whose family contains every affine image of its members (:attr:`Unit.affine`, Gaussian units) are
    scaled; the others have m = 0 and s = 1. Units that share their parameters share location and scale. A unit that is
    constant in the data has the median scale of its layer.

    >>> from harmonium.units import Gaussian
    >>> rows = torch.tensor([[0.0, 1000.0, 7.0], [2.0, 3000.0, 7.0]])
    >>> found = Scaling.of(Gaussian(3), rows)
    >>> found.location.tolist(), found.scale.tolist()
    ([1.0, 2000.0, 7.0], [1.0, 1000.0, 1.0])
    """

    location: Tensor
    scale: Tensor

    @staticmethod
    def of(layer: Unit, data: Tensor) -> Scaling | None:
        """The scaling of a layer from data (n, *shape); ``None`` if no unit is scaled."""
        if not any(part.affine for part in layer.parts):
            return None  # before the variance, which takes as long as several updates
        variance, mean = torch.var_mean(data.to(torch.float64), 0, correction=0)
        return Scaling.from_moments(layer, mean, variance)

    @staticmethod
    def from_moments(layer: Unit, mean: Tensor, variance: Tensor) -> Scaling | None:
        """The scaling of a layer from means and variances (*shape) in float64; ``None`` if no unit is scaled."""
        if not any(part.affine for part in layer.parts):
            return None
        pieces = zip(layer.parts, layer.split(mean), layer.split(variance), strict=True)
        found = [
            _measured(part, m, v) if part.affine else (torch.zeros_like(m), torch.ones_like(v)) for part, m, v in pieces
        ]
        location, scale = (layer.join(list(values)).to(layer.bias.detach()) for values in zip(*found, strict=True))
        return Scaling(location, scale)

    def states(self, x: Tensor) -> Tensor:
        """Standardized states z: (n, *shape) -> (n, *shape)."""
        return (x - self.location) / self.scale

    def layer(self, layer: Unit) -> Unit:
        """A copy of the layer with the parameters that describe z; units that are not scaled are not copied."""
        return layer.with_parts(
            [part.standardized(m, s) if part.affine else part for part, m, s in self.of_parts(layer)]
        )

    def of_parts(self, layer: Unit) -> Iterator[tuple[Unit, Tensor, Tensor]]:
        """Every member of the layer with its location and scale, in the shape of the member's parameters."""
        for (part, m), (_, s) in zip(
            layer.by_member(self.location[None]), layer.by_member(self.scale[None]), strict=True
        ):
            yield part, part.shared_mean(m[0]), part.shared_mean(s[0])


def _measured(part: Unit, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Location and scale (*shape) of the units of one part."""
    location = part.full(part.shared_mean(mean))
    variance = part.full(part.shared_mean(variance + (mean - location).square()))
    resolved = variance > (_ROUNDING * location).square()
    typical = variance[resolved].median() if bool(resolved.any()) else torch.ones_like(variance).mean()
    return location, torch.where(resolved, variance, typical).sqrt()

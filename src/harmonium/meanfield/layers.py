"""Layers and couplings in mean field, for scalar and softmax units.

A scalar unit i has the quadratic term A_i = -Σ_j W_ij² c_j from its neighbors, Tramel et al. (2018), eq. (33), and the
reaction term A_i a_i in its field, eq. (34). The components of a softmax unit are correlated: c becomes the covariance
matrix C_j of site j, A_i the matrix -Σ_j W_ij C_j W_ijᵀ, and the reaction term a matrix-vector product. Since
xᵀAx = Σ_k A_kk x_k for a one-hot x, the unit itself depends only on the diagonal of A. A multinomial unit is a sum of D
such vectors, each with mean p = a/D and the same field. All of this also holds if a vector may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..couplings import Coupling
from ..errors import InvalidOption
from ..units import Unit


@dataclass(frozen=True)
class LayerPart:
    """A contiguous part of the flat layer: ``sites`` units with ``size`` entries each."""

    start: int
    sites: int
    size: int
    unit: Unit

    @property
    def softmax(self) -> bool:
        """Whether the units are softmax units."""
        return self.unit.softmax

    def share(self, x: Tensor) -> Tensor:
        """Return p = a/D, (..., size), the mean of one of the D vectors of a softmax unit."""
        return x / self.unit.copies(x)

    @property
    def entries(self) -> slice:
        """The entries of the part in the flat layer."""
        return slice(self.start, self.start + self.sites * self.size)

    def of(self, x: Tensor) -> Tensor:
        """Select the part from a flat batch: (rows, size of the layer) -> (rows, sites, size)."""
        return x[:, self.entries].unflatten(1, (self.sites, self.size))


class MeanFieldLayer:
    """The units of a layer in parts; ``diagonal`` is True if all units are scalar."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.parts: list[LayerPart] = []
        start = 0
        for kind in unit.parts:
            if kind.event_shape and not kind.softmax:
                raise InvalidOption(f"mean field expects scalar or softmax units, found the vector unit {kind.name()}")
            self.parts.append(LayerPart(start, kind.sites, kind.size // kind.sites, kind))
            start += kind.size
        self.diagonal = not any(part.softmax for part in self.parts)
        self._softmax = torch.zeros(unit.size, dtype=torch.bool)
        for part in self.parts:
            self._softmax[part.entries] = part.softmax
        self._softmax = self._softmax.view(unit.shape)
        self._pure = bool(self._softmax.all())

    def seen(self, B: Tensor, A: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the field and quadratic term to pass to the unit; for one-hot vectors A is a shift of the field."""
        if self.diagonal:
            return B, A
        if self._pure:
            return B - A / 2, None
        softmax = self._softmax.to(B.device)
        return torch.where(softmax, B - A / 2, B), torch.where(softmax, 0.0, A)

    def second_moment(self, a: Tensor, c: Tensor) -> Tensor:
        """Return ⟨x²⟩, which A/2 multiplies in the Legendre transform; for one-hot vectors it equals ⟨x⟩."""
        square = torch.addcmul(c, a, a)
        return square if self.diagonal else torch.where(self._softmax.to(a.device), a, square)


class Link:
    """The coupling between two layers of scalar units: fields W a and quadratic terms -W² c."""

    def __init__(self, coupling: Coupling, second_order: bool) -> None:
        self.coupling = coupling
        self._minus_square = coupling.weight.detach().square().neg_() if second_order else None
        self.curvature = None if self._minus_square is None else coupling.with_weight(self._minus_square)

    def refresh(self) -> None:
        """Recompute the squared weights after a change of the weights."""
        if self._minus_square is not None:
            torch.mul(self.coupling.weight.detach(), self.coupling.weight.detach(), out=self._minus_square).neg_()

    def field_(self, upward: bool, a: Tensor, out: Tensor) -> None:
        """Write the field W a, with a of the other layer, to ``out``."""
        (self.coupling.up_ if upward else self.coupling.down_)(a, out)

    def react_(self, upward: bool, own: Tensor, a: Tensor, c: Tensor, A: Tensor) -> Tensor | None:
        """Write the quadratic term from (a, c) of the other layer to ``A``.

        Returns the reaction term, or None if it is A·own.
        """
        assert self.curvature is not None
        (self.curvature.up_ if upward else self.curvature.down_)(c, A)
        return None

    def field(self, upward: bool, a: Tensor) -> Tensor:
        """Return the field W a, with a of the other layer, differentiable in a."""
        return (self.coupling.up if upward else self.coupling.down)(a)

    def react(self, upward: bool, own: Tensor, a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the quadratic term from (a, c) of the other layer and the reaction term, both differentiable."""
        assert self.curvature is not None
        A = (self.curvature.up if upward else self.curvature.down)(c)
        return A, A * own

    def energy(self, a: list[Tensor], c: list[Tensor] | None) -> Tensor:
        """Return a·W·a' + ½ c·W²·c' for each row, differentiable in the weights; only the first term without ``c``."""
        value = (self.coupling.up(a[0]) * a[1]).flatten(1).sum(1)
        if c is not None:
            value = value + (self.coupling.squared().up(c[0]) * c[1]).flatten(1).sum(1) / 2
        return value

    def gradient_(self, a: list[Tensor], c: list[Tensor] | None, out: Tensor) -> Tensor:
        """Write the row mean of the derivative of :meth:`energy`, a a' + W c c' in eq. (39), to ``out``."""
        scale = 1 / len(a[0])
        if c is None:
            return self.coupling.correlate(a[0], a[1], out=out, scale=scale)
        self.coupling.correlate(c[0], c[1], out=out, scale=scale).mul_(self.coupling.weight.detach())
        return self.coupling.correlate(a[0], a[1], out=out, add=True, scale=scale)


class SoftmaxLink(Link):
    """The coupling between two layers, at least one with softmax units: blocks of a dense matrix, one per site pair."""

    def __init__(self, coupling: Coupling, second_order: bool, lower: MeanFieldLayer, upper: MeanFieldLayer) -> None:
        super().__init__(coupling, second_order=False)
        self._lower, self._upper = lower, upper
        self.refresh()

    def refresh(self) -> None:
        self._matrix = self.coupling.matrix().detach()

    def react_(self, upward: bool, own: Tensor, a: Tensor, c: Tensor, A: Tensor) -> Tensor | None:
        target = self._upper if upward else self._lower
        term, reaction = self._reaction(self._matrix, upward, *(x.flatten(1) for x in (own, a, c)))
        A.copy_(term.view_as(A))
        return None if target.diagonal else reaction.view_as(A)

    def react(self, upward: bool, own: Tensor, a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        A, reaction = self._reaction(self._matrix, upward, *(x.flatten(1) for x in (own, a, c)))
        return A.view_as(own), reaction.view_as(own)

    def energy(self, a: list[Tensor], c: list[Tensor] | None) -> Tensor:
        value = super().energy(a, None)
        if c is None:
            return value
        (low, high), own = (x.flatten(1) for x in a), c[0].flatten(1)
        A, reaction = self._reaction(self.coupling.matrix(), False, low, high, c[1].flatten(1))
        for part in self._lower.parts:  # ½ Σ tr C W C' Wᵀ = -½ ⟨C, A⟩
            here = part.entries
            if part.softmax:
                value = value - (low[:, here] * (A[:, here] - reaction[:, here])).sum(1) / 2
            else:
                value = value - (own[:, here] * A[:, here]).sum(1) / 2
        return value

    def gradient_(self, a: list[Tensor], c: list[Tensor] | None, out: Tensor) -> Tensor:
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.energy(a, c).mean(), self.coupling.weight)
        return out.copy_(slope)

    def _reaction(self, W: Tensor, upward: bool, own: Tensor, a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the diagonal of A = -Σ_j W_ij C_j W_ijᵀ and A p, with the mean p of one vector, as flat batches."""
        target, source = (self._upper, self._lower) if upward else (self._lower, self._upper)
        W = W.T if upward else W
        A, reaction = torch.zeros_like(own), torch.zeros_like(own)
        for here in target.parts:
            x = here.of(own)
            p = here.share(x)
            for there in source.parts:
                block = W[here.entries, there.entries].reshape(here.sites, here.size, there.sites, there.size)
                q = there.of(a)
                if there.softmax:
                    crossed = torch.einsum("iqjr,bjr->biqj", block, there.share(q)).square()
                    totals = there.unit.copies(q).squeeze(-1).unsqueeze(1).unsqueeze(1)
                    term = torch.einsum("iqjr,bjr->biq", block.square(), q) - (crossed * totals).sum(-1)
                else:
                    term = torch.einsum("iqjr,bjr->biq", block.square(), there.of(c))
                A[:, here.entries] -= term.flatten(1)
                if not here.softmax:
                    reaction[:, here.entries] -= (term * x).flatten(1)
                    continue
                along = torch.einsum("iqjr,biq->bijr", block, p)
                if there.softmax:
                    mean = (there.share(q).unsqueeze(1) * along).sum(-1, keepdim=True)
                    along = q.unsqueeze(1) * (along - mean)
                else:
                    along = there.of(c).unsqueeze(1) * along
                reaction[:, here.entries] -= torch.einsum("iqjr,bijr->biq", block, along).flatten(1)
        return A, reaction


def link(coupling: Coupling, lower: MeanFieldLayer, upper: MeanFieldLayer, second_order: bool = True) -> Link:
    """Return the mean-field form of a coupling."""
    if second_order and not (lower.diagonal and upper.diagonal):
        return SoftmaxLink(coupling, second_order, lower, upper)
    return Link(coupling, second_order)

"""What mean field has to know of a layer and of a coupling: how the components of a unit vary together.

A scalar unit i in the field of its neighbors has the quadratic term A_i = -Σ_j W_ij² c_j, eq. (33), and the reaction
A_i a_i in its field, eq. (34). The components of a softmax unit are correlated: there c becomes the covariance matrix
C_j of site j, A_i the matrix -Σ_j W_ij C_j W_ijᵀ and the reaction A_i a_i a product with it. Since xᵀAx = Σ_k A_kk x_k
for a one-hot x, the unit itself still sees nothing but the diagonal. A multinomial unit is D such vectors, each with
the mean p = a/D and the same field.
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
    """A run of entries of the flat layer: ``sites`` units of ``size`` entries each."""

    start: int
    sites: int
    size: int
    softmax: bool

    @property
    def entries(self) -> slice:
        """Where the part is in the flat layer."""
        return slice(self.start, self.start + self.sites * self.size)

    def of(self, x: Tensor) -> Tensor:
        """The part's entries of a flat batch: (rows, size of the layer) -> (rows, sites, size)."""
        return x[:, self.entries].unflatten(1, (self.sites, self.size))


class MeanFieldLayer:
    """A layer's units and how they are grouped; ``diagonal`` where every unit is a scalar."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.parts: list[LayerPart] = []
        start = 0
        for kind in unit.parts:
            if kind.event_shape and not kind.softmax:
                raise InvalidOption(f"mean field expects scalar or softmax units, found the vector unit {kind.name()}")
            self.parts.append(LayerPart(start, kind.sites, kind.size // kind.sites, kind.softmax))
            start += kind.size
        self.diagonal = not any(part.softmax for part in self.parts)
        self._softmax = torch.zeros(unit.size, dtype=torch.bool)
        for part in self.parts:
            self._softmax[part.entries] = part.softmax
        self._softmax = self._softmax.view(unit.shape)
        self._pure = bool(self._softmax.all())

    def seen(self, B: Tensor, A: Tensor) -> tuple[Tensor, Tensor | None]:
        """The field and the quadratic term to give to the unit: one-hot vectors take A as a shift of their field."""
        if self.diagonal:
            return B, A
        if self._pure:
            return B - A / 2, None
        softmax = self._softmax.to(B.device)
        return torch.where(softmax, B - A / 2, B), torch.where(softmax, 0.0, A)

    def second_moment(self, a: Tensor, c: Tensor) -> Tensor:
        """What A/2 multiplies in the Legendre transform: ⟨x²⟩, which for one-hot vectors is ⟨x⟩."""
        square = torch.addcmul(c, a, a)
        return square if self.diagonal else torch.where(self._softmax.to(a.device), a, square)


class Link:
    """The coupling of two layers of scalar units: fields W a and quadratic terms -W² c."""

    def __init__(self, coupling: Coupling, second_order: bool) -> None:
        self.coupling = coupling
        self._minus_square = coupling.weight.detach().square().neg_() if second_order else None
        self.curvature = None if self._minus_square is None else coupling.with_weight(self._minus_square)

    def refresh(self) -> None:
        """Take up a change of the weights."""
        if self._minus_square is not None:
            torch.mul(self.coupling.weight.detach(), self.coupling.weight.detach(), out=self._minus_square).neg_()

    def field_(self, upward: bool, a: Tensor, out: Tensor) -> None:
        """Write W a of the other layer into ``out``."""
        (self.coupling.up_ if upward else self.coupling.down_)(a, out)

    def react_(self, upward: bool, own: Tensor, a: Tensor, c: Tensor, A: Tensor) -> Tensor | None:
        """Write the quadratic term from the other layer's (a, c) into ``A``; the reaction where it is not A·own."""
        assert self.curvature is not None
        (self.curvature.up_ if upward else self.curvature.down_)(c, A)
        return None

    def field(self, upward: bool, a: Tensor) -> Tensor:
        """W a of the other layer, differentiable in it."""
        return (self.coupling.up if upward else self.coupling.down)(a)

    def react(self, upward: bool, own: Tensor, a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The quadratic term from the other layer's (a, c) and the reaction, differentiable in all three."""
        assert self.curvature is not None
        A = (self.curvature.up if upward else self.curvature.down)(c)
        return A, A * own

    def energy(self, a: list[Tensor], c: list[Tensor] | None) -> Tensor:
        """a·W·a' + ½ c·W²·c' for each row, differentiable in the weights; without ``c`` the first term alone."""
        value = (self.coupling.up(a[0]) * a[1]).flatten(1).sum(1)
        if c is not None:
            value = value + (self.coupling.squared().up(c[0]) * c[1]).flatten(1).sum(1) / 2
        return value

    def gradient_(self, a: list[Tensor], c: list[Tensor] | None, out: Tensor) -> Tensor:
        """Write the mean over the rows of the derivative of :meth:`energy`, a a' + W c c' of eq. (39), into ``out``."""
        scale = 1 / len(a[0])
        if c is None:
            return self.coupling.correlate(a[0], a[1], out=out, scale=scale)
        self.coupling.correlate(c[0], c[1], out=out, scale=scale).mul_(self.coupling.weight.detach())
        return self.coupling.correlate(a[0], a[1], out=out, add=True, scale=scale)


class SoftmaxLink(Link):
    """The coupling of two layers of which one at least has softmax units: blocks of a dense matrix, site by site."""

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
        """The diagonal of A = -Σ_j W_ij C_j W_ijᵀ and the product A p, p the mean of one vector: flat batches."""
        target, source = (self._upper, self._lower) if upward else (self._lower, self._upper)
        W = W.T if upward else W
        A, reaction = torch.zeros_like(own), torch.zeros_like(own)
        for here in target.parts:
            x = here.of(own)
            p = _share(x)
            for there in source.parts:
                block = W[here.entries, there.entries].reshape(here.sites, here.size, there.sites, there.size)
                q = there.of(a)
                if there.softmax:
                    crossed = torch.einsum("iqjr,bjr->biqj", block, _share(q)).square()
                    totals = q.sum(-1).unsqueeze(1).unsqueeze(1)
                    term = torch.einsum("iqjr,bjr->biq", block.square(), q) - (crossed * totals).sum(-1)
                else:
                    term = torch.einsum("iqjr,bjr->biq", block.square(), there.of(c))
                A[:, here.entries] -= term.flatten(1)
                if not here.softmax:
                    reaction[:, here.entries] -= (term * x).flatten(1)
                    continue
                along = torch.einsum("iqjr,biq->bijr", block, p)
                if there.softmax:
                    mean = (_share(q).unsqueeze(1) * along).sum(-1, keepdim=True)
                    along = q.unsqueeze(1) * (along - mean)
                else:
                    along = there.of(c).unsqueeze(1) * along
                reaction[:, here.entries] -= torch.einsum("iqjr,bijr->biq", block, along).flatten(1)
        return A, reaction


def _share(x: Tensor) -> Tensor:
    """p = a/D, the mean of one of the D vectors that a softmax unit is a sum of: (..., size)."""
    return x / x.sum(-1, keepdim=True)


def link(coupling: Coupling, lower: MeanFieldLayer, upper: MeanFieldLayer, second_order: bool = True) -> Link:
    """The coupling as mean field sees it."""
    if second_order and not (lower.diagonal and upper.diagonal):
        return SoftmaxLink(coupling, second_order, lower, upper)
    return Link(coupling, second_order)

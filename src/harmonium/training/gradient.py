"""The gradient of a coupling, stored as two factors until the full matrix is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller

import torch
from torch import Tensor

from ..couplings import Coupling

Along = Callable[[Coupling], Tensor]


class CouplingGradient:
    """Gradient g = Σ_b x_b y_bᵀ + s W, stored as factors x (rows, *lower), y (rows, *upper) and s, or in ``.grad``.

    A low-rank change, such as centering, adds rows to the factors; weight decay changes the number s. A plain gradient
    step adds the product to the weights without storing g. :meth:`dense` writes g to ``.grad`` for everything else.
    Couplings whose gradient is not an outer product (masks, convolutions) are dense from the start.
    """

    def __init__(self, coupling: Coupling) -> None:
        self.coupling = coupling
        self._x: Tensor | None = None
        self._y: Tensor | None = None
        self._rows = 0
        self._decay = 0.0

    def set_factors(self, x: Tensor, y: Tensor, rows: int) -> None:
        """Use the first ``rows`` rows of two buffers as factors; the remaining rows are free for low-rank changes."""
        self._x, self._y, self._rows, self._decay = x, y, rows, 0.0
        if not self.coupling.outer_product:
            self.dense()

    def set_dense(self, value: Tensor) -> None:
        """Set the full gradient."""
        write_gradient(self.coupling.weight, value)
        self._x = self._y = None
        self._decay = 0.0

    def set_sum(self, terms: Sequence[tuple[float, CouplingGradient]], dense: Tensor | None, spare: int = 0) -> None:
        """Set g to Σ w g' over other gradients g' of the same coupling, plus the matrix ``dense``.

        Terms that are stored as factors stay factors, with ``spare`` free rows for low-rank changes, unless ``dense``
        is given. Terms without factors are left out: they must be in ``dense``, because all share one ``.grad``.
        """
        parts = [(w, g._x[: g._rows], g._y[: g._rows]) for w, g in terms if g._x is not None and g._y is not None]
        if dense is not None:
            for w, x, y in parts:
                self.coupling.correlate(x, y, out=dense, add=True, scale=w)
            self.set_dense(dense)
            return
        free = [torch.zeros_like(part[:spare]) for part in parts[0][1:]]
        x = torch.cat([*(x for _, x, _ in parts), free[0]])
        y = torch.cat([*(y * w for w, _, y in parts), free[1]])
        self.set_factors(x, y, len(x) - len(free[0]))

    @property
    def factored(self) -> bool:
        """Whether g is stored as factors."""
        return self._x is not None

    def dense(self) -> Tensor:
        """Write the gradient to ``.grad`` of the weights and return it."""
        weight = self.coupling.weight
        if self._x is not None and self._y is not None:
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)
            self.coupling.correlate(self._x[: self._rows], self._y[: self._rows], out=weight.grad)
            if self._decay:
                weight.grad.add_(weight.detach(), alpha=self._decay)
            self._x = self._y = None
        assert weight.grad is not None
        return weight.grad

    def subtract(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """g ← g - Σ x yᵀ over pairs of a lower state x (*lower) and an upper state y (*upper)."""
        rows = self._rows
        if self._x is None or self._y is None or rows + len(pairs) > len(self._x):
            x, y = (torch.stack(states) for states in zip(*pairs, strict=True))
            self.coupling.correlate(x, y, out=self.dense(), add=True, scale=-1.0)
            return
        for k, (x, y) in enumerate(pairs):
            torch.neg(x, out=self._x[rows + k])
            self._y[rows + k].copy_(y)
        self._rows += len(pairs)

    def add_weights(self, scale: float) -> None:
        """g ← g + scale·W."""
        if self._x is None:
            self.dense().add_(self.coupling.weight.detach(), alpha=scale)
        else:
            self._decay += scale

    def down(self, y: Tensor) -> Tensor:
        """g y for one state of the upper layer: (*upper) -> (*lower)."""
        return self._product(methodcaller("down", y.unsqueeze(0)), y, self._y, self._x)

    def up(self, x: Tensor) -> Tensor:
        """gᵀx for one state of the lower layer: (*lower) -> (*upper)."""
        return self._product(methodcaller("up", x.unsqueeze(0)), x, self._x, self._y)

    def _product(
        self, along: Callable[[Coupling], Tensor], state: Tensor, near: Tensor | None, far: Tensor | None
    ) -> Tensor:
        """The product of g with one state, from the stored states of its layer (near) and of the other (far)."""
        if near is None or far is None:
            return along(self.coupling.with_weight(self.dense()))[0]
        product = self._contract(near, state, far)
        if self._decay:
            with unrounded(state):
                product.add_(along(self.coupling)[0], alpha=self._decay)
        return product

    def descend(self, rate: float) -> bool:
        """Take the step W ← W - rate·g without storing g; return False and do nothing if g is dense."""
        if self._x is None or self._y is None:
            return False
        weight = self.coupling.weight
        weight.grad = None  # an optimizer skips the weights
        if self._decay:
            weight.mul_(1 - rate * self._decay)
        self.coupling.correlate(self._x[: self._rows], self._y[: self._rows], out=weight, add=True, scale=-rate)
        return True

    def _contract(self, inner: Tensor, state: Tensor, outer: Tensor) -> Tensor:
        shares = torch.mv(inner[: self._rows].flatten(1), state.flatten())
        return torch.mv(outer[: self._rows].flatten(1).T, shares).view(outer.shape[1:])


def unrounded(x: Tensor) -> torch.autocast:
    """Turn off autocast: for a single row, rounding the weights takes longer than the product."""
    return torch.autocast(x.device.type, enabled=False)


def write_gradient(parameter: Tensor, value: Tensor) -> None:
    """Write ``value`` to ``.grad``, in place if it exists."""
    if parameter.grad is None:
        parameter.grad = value.clone().reshape(parameter.shape)
    else:
        parameter.grad.copy_(value.reshape(parameter.shape))

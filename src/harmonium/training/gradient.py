"""The gradient of the loss of a machine: linear in its data, with couplings as factors until a matrix is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..couplings import Coupling
from ..units import Unit

SPARE_ROWS = 2  # free rows of the factors, for low-rank changes of the gradient


@dataclass
class Gradient:
    """The gradient of ⟨F⟩_data - F_model of one machine.

    Attributes:
        units: gradient by stored parameter of the layers.
        couplings: gradients of the couplings that are learned, by the index of the coupling.
        hidden: mean states (*shape) of the hidden layers over the batch.
        context: gradients of the couplings of a context that are learned, by the layer that they act on.
        loss: the loss at fixed states, a differentiable scalar, for tests; None if the phase has no such form.
    """

    units: dict[Tensor, Tensor]
    couplings: dict[int, CouplingGradient]
    hidden: list[Tensor]
    context: dict[int, CouplingGradient] = field(default_factory=dict)
    loss: Callable[[], Tensor] | None = None

    @property
    def links(self) -> list[CouplingGradient]:
        """The gradients of all couplings."""
        return [*self.couplings.values(), *self.context.values()]

    def tensors(self) -> list[Tensor]:
        """All of the gradient, with matrices for the couplings."""
        return [*self.units.values(), *(link.dense() for link in self.links)]

    def write(self) -> None:
        """Write the gradient to ``.grad`` of the parameters."""
        for parameter, value in self.units.items():
            parameter.grad = value.view(parameter.shape)
        for link in self.links:
            link.coupling.weight.grad = link.dense()

    @staticmethod
    def sum(terms: Sequence[tuple[float, Gradient]]) -> Gradient:
        """Return Σ w g over gradients g of one machine; the hidden means are those of the first."""
        first = terms[0][1]
        units = {
            parameter: torch.stack([one.units[parameter] * weight for weight, one in terms]).sum(0)
            for parameter in first.units
        }
        links = {k: CouplingGradient.sum([(w, one.couplings[k]) for w, one in terms]) for k in first.couplings}
        losses = [(weight, one.loss) for weight, one in terms if one.loss is not None]

        def loss() -> Tensor:
            return torch.stack([weight * value() for weight, value in losses]).sum()

        return Gradient(units, links, first.hidden, loss=loss if len(losses) == len(terms) else None)


class CouplingGradient:
    """Gradient g = Σ_b x_b y_bᵀ + s W, stored as factors x (rows, *lower), y (rows, *upper) and s, or as a matrix.

    A low-rank change, such as centering, adds rows to the factors; weight decay changes the number s. A plain gradient
    step adds the product to the weights without storing g. Couplings whose gradient is not an outer product (masks,
    convolutions) have a matrix from the start.

    Args:
        coupling: the coupling.
        x, y: buffers of states of the two layers; the rows after the first ``rows`` are free for low-rank changes.
        rows: number of rows in use.
    """

    def __init__(self, coupling: Coupling, x: Tensor | None, y: Tensor | None, rows: int = 0) -> None:
        self.coupling, self._rows, self._decay = coupling, rows, 0.0
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._used: tuple[Tensor, Tensor] | None = None
        self._matrix: Tensor | None = None
        if x is not None and y is not None:
            if coupling.outer_product:
                self._buffers = x, y
            else:
                self._matrix = coupling.correlate(x[:rows], y[:rows], out=torch.empty_like(coupling.weight))

    def _factors(self) -> tuple[Tensor, Tensor] | None:
        """The rows of the factors in use, or None if there is a matrix."""
        if self._used is None and self._buffers is not None:
            x, y = self._buffers
            self._used = x[: self._rows], y[: self._rows]
        return self._used

    @classmethod
    def of_matrix(cls, coupling: Coupling, matrix: Tensor) -> CouplingGradient:
        """Return a gradient that is stored as a matrix of the shape of the weights."""
        made = cls(coupling, None, None)
        made._matrix = matrix
        return made

    @staticmethod
    def sum(terms: Sequence[tuple[float, CouplingGradient]]) -> CouplingGradient:
        """Return Σ w g over gradients of one coupling: factors if all of them are, with free rows."""
        coupling = terms[0][1].coupling
        parts = [(w, *factors) for w, g in terms if (factors := g._factors()) is not None]
        if len(parts) == len(terms):
            free = [torch.zeros_like(part[:SPARE_ROWS]) for part in parts[0][1:]]
            x = torch.cat([*(x for _, x, _ in parts), free[0]])
            y = torch.cat([*(y * w for w, _, y in parts), free[1]])
            return CouplingGradient(coupling, x, y, len(x) - SPARE_ROWS)
        total = torch.zeros_like(coupling.weight)
        for w, g in terms:
            if g._matrix is not None:
                total.add_(g._matrix, alpha=w)
        for w, x, y in parts:
            coupling.correlate(x, y, out=total, add=True, scale=w)
        return CouplingGradient.of_matrix(coupling, total)

    def dense(self) -> Tensor:
        """Return the gradient as a matrix, which further changes act on."""
        weight, factors = self.coupling.weight, self._factors()
        if factors is not None:
            out = torch.empty_like(weight) if weight.grad is None else weight.grad
            self._matrix = self.coupling.correlate(*factors, out=out)
            if self._decay:
                self._matrix.add_(weight.detach(), alpha=self._decay)
            self._buffers = self._used = None
        assert self._matrix is not None
        return self._matrix

    def subtract(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """g ← g - Σ x yᵀ over pairs of a lower state x (*lower) and an upper state y (*upper)."""
        rows = self._rows
        if self._buffers is None or rows + len(pairs) > len(self._buffers[0]):
            x, y = (torch.stack(states) for states in zip(*pairs, strict=True))
            self.coupling.correlate(x, y, out=self.dense(), add=True, scale=-1.0)
            return
        lower, upper = self._buffers
        for row, (x, y) in enumerate(pairs, rows):
            torch.neg(x, out=lower[row])
            upper[row].copy_(y)
        self._rows, self._used = rows + len(pairs), None

    def add_weights(self, scale: float) -> None:
        """g ← g + scale·W."""
        if self._buffers is None:
            self.dense().add_(self.coupling.weight.detach(), alpha=scale)
        else:
            self._decay += scale

    def down(self, y: Tensor) -> Tensor:
        """g y for one state of the upper layer: (*upper) -> (*lower)."""
        return self._product("down", y, near=1)

    def up(self, x: Tensor) -> Tensor:
        """gᵀx for one state of the lower layer: (*lower) -> (*upper)."""
        return self._product("up", x, near=0)

    def _product(self, direction: str, state: Tensor, near: int) -> Tensor:
        """The product of g with one state of the layer ``near``, 0 or 1."""
        factors = self._factors()
        if factors is None:
            return getattr(self.coupling.with_weight(self.dense()), direction)(state.unsqueeze(0))[0]
        product = contract(torch.mv(factors[near].flatten(1), state.flatten()), factors[1 - near])
        if self._decay:
            with unrounded(state):
                product.add_(getattr(self.coupling, direction)(state.unsqueeze(0))[0], alpha=self._decay)
        return product

    def descend(self, rate: float) -> None:
        """Take the step W ← W - rate·g, without storing g if it has factors."""
        weight, factors = self.coupling.weight, self._factors()
        if factors is None:
            weight.sub_(self.dense(), alpha=rate)
            return
        if self._decay:
            weight.mul_(1 - rate * self._decay)
        self.coupling.correlate(*factors, out=weight, add=True, scale=-rate)


def contract(weights: Tensor, states: Tensor) -> Tensor:
    """Return Σ_b w_b x_b: (n,), (n, *shape) -> (*shape)."""
    if states.ndim == 2:
        return torch.mv(states.T, weights)
    return torch.mv(states.flatten(1).T, weights).view(states.shape[1:])


def unrounded(x: Tensor) -> torch.autocast:
    """Turn off autocast: for a single row, rounding the weights takes longer than the product."""
    return torch.autocast(x.device.type, enabled=False)


def unit_gradient(unit: Unit, totals: dict[str, Tensor]) -> dict[Tensor, Tensor]:
    """Return the gradient by stored parameter from ``totals`` (*shape) by natural parameter."""
    if list(totals) == ["bias"] and only_bias(unit):  # the general case needs automatic differentiation
        return bias_gradient(unit, totals["bias"])
    return unit.gradients(totals)


def bias_gradient(unit: Unit, total: Tensor) -> dict[Tensor, Tensor]:
    """Return the gradient by stored bias from ``total`` (*shape)."""
    pairs = zip(unit.biases(), unit.bias_sums(total), strict=True)
    return {bias: value for bias, value in pairs if bias.requires_grad}


def only_bias(unit: Unit) -> bool:
    """Return whether the unit learns at most its biases, which allows a faster computation."""
    biases = {id(bias) for bias in unit.biases()}
    return all(id(parameter) in biases for parameter in unit.parameters() if parameter.requires_grad)

"""A linear support vector machine for many rows and features: one against the rest, squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS = 5000  # whose products are computed at once


@dataclass
class LinearSVM:
    """Weights (features, classes) and offsets (classes,) of the scores."""

    weight: Tensor
    offset: Tensor

    def predict(self, x: Tensor) -> Tensor:
        """The classes of rows: (n, features) -> (n,)."""
        return (x @ self.weight + self.offset).argmax(1)


class Standardized:
    """Features (n, features) with their means, scales and second moments, which every cost needs.

    z are the features, standardized and divided by the root of their number, so that a cost has the same meaning for
    every layer. The standard deviation has a floor of 1 % of the largest one.
    """

    @torch.no_grad()
    def __init__(self, x: Tensor) -> None:
        self.x, self.mean, deviation = x, x.mean(0), x.std(0)
        self.scale = 1 / (deviation.clamp(min=0.01 * deviation.max().item()) * x.shape[1] ** 0.5)
        self.moments = x.new_zeros(x.shape[1], x.shape[1])
        for part in x.split(_ROWS):
            z = (part - self.mean) * self.scale
            self.moments += z.T @ z

    def factor(self, cost: float) -> Tensor:
        """The Cholesky factor of 1 + 2 cost ⟨zzᵀ⟩: (features, features)."""
        found = 2 * cost / len(self.x) * self.moments
        found.diagonal().add_(1.0)
        return torch.linalg.cholesky(found)


@torch.no_grad()
def train(features: Tensor | Standardized, y: Tensor, cost: float, *, classes: int, iterations: int = 50) -> LinearSVM:
    """Minimize ‖w‖²/2 + cost · ⟨max(0, 1 - t (w·z + b))²⟩ over rows for each class, t = ±1, by L-BFGS.

    z are the standardized features. The steps are taken in the coordinates u = Lᵀw with LLᵀ = 1 + 2 cost ⟨zzᵀ⟩, the
    Hessian where no row is beyond its margin; features are strongly correlated, and steps in w would need thousands of
    iterations.

    >>> x, y = torch.tensor([[0.0, 1.0], [0.2, 0.8], [1.0, 0.1], [0.9, 0.0]]), torch.tensor([0, 0, 1, 1])
    >>> train(x, y, 100.0, classes=2).predict(x).tolist()
    [0, 0, 1, 1]
    """
    of = Standardized(features) if isinstance(features, Tensor) else features
    x, mean, scale, factor = of.x, of.mean, of.scale, of.factor(cost)
    sign = torch.full((len(y), classes), -1.0, dtype=x.dtype)
    sign[torch.arange(len(y)), y] = 1.0
    u = torch.zeros(x.shape[1], classes, dtype=x.dtype, requires_grad=True)
    offset = torch.zeros(classes, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [u, offset], max_iter=iterations, history_size=20, line_search_fn="strong_wolfe", tolerance_change=1e-9
    )

    def current() -> tuple[Tensor, Tensor, Tensor]:
        weight = torch.linalg.solve_triangular(factor.T, u.detach(), upper=True)
        scaled = weight * scale[:, None]
        return weight, scaled, offset.detach() - mean @ scaled

    def loss() -> Tensor:  # with its gradient: autograd would keep the scores twice
        weight, scaled, shift = current()
        hinge = (1 - sign * (x @ scaled + shift)).clamp_(min=0)
        slope = -2 * cost / len(y) * hinge * sign
        total = slope.sum(0)
        products = (slope.T.contiguous() @ x).T  # about ten times as fast as x.T @ slope
        gradient = (products - mean[:, None] * total) * scale[:, None] + weight
        u.grad = torch.linalg.solve_triangular(factor, gradient, upper=False).contiguous()
        offset.grad = total
        return weight.square().sum() / 2 + cost / len(y) * hinge.square().sum()

    optimizer.step(loss)
    return LinearSVM(*current()[1:])

"""Whether a machine has a finite partition function, from the tails of its units and its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..couplings import Coupling
from ..errors import NotNormalizable
from ..units import Tail


def check(tails: Sequence[Tail], couplings: Sequence[Coupling]) -> None:
    """Raise :class:`NotNormalizable`, with the reason, unless Z is certainly finite.

    Couplings of bounded units are always allowed. For coupled unbounded units, Z is finite in these cases. A 1/x! tail
    with a 1/y! tail or a half-line Gaussian: if and only if W ≤ 0. A 1/x! tail with a Gaussian: if and only if W = 0.
    Gaussians: if their quadratic form is positive definite, where pairs of half-line Gaussians with W ≤ 0 are left out;
    with half-line Gaussians this condition is sufficient but not necessary.
    """
    dangerous = False
    for k, coupling in enumerate(couplings):
        lower, upper = tails[k], tails[k + 1]
        if not (lower.unbounded.any() and upper.unbounded.any()):
            continue
        weight = coupling.matrix().detach().double().cpu()
        pair = lower.unbounded[:, None] & upper.unbounded[None, :]
        growing = pair & torch.where(_one_sided(lower, upper), weight > 0, weight != 0)
        factorial = lower.factorial[:, None] | upper.factorial[None, :]
        if bool((growing & factorial).any()):
            i, j = torch.nonzero(growing & factorial)[0].tolist()
            raise NotNormalizable(
                f"no finite partition function: the weight {weight[i, j].item():g} couples counts with tail 1/x! to an "
                f"unbounded unit (units {i} and {j} of layers {k} and {k + 1}), and e^(Wxy) grows faster than x!"
            )
        dangerous |= bool(growing.any())
    if dangerous:
        _check_quadratic_form(tails, couplings)


def _check_quadratic_form(tails: Sequence[Tail], couplings: Sequence[Coupling]) -> None:
    sizes = [len(tail.precision) for tail in tails]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    form = torch.zeros(sum(sizes), sum(sizes), dtype=torch.float64)
    gaussian = torch.cat([tail.gaussian for tail in tails])
    precision = torch.cat([tail.precision for tail in tails])
    form.diagonal().copy_(torch.where(gaussian, precision, torch.ones_like(precision)))
    for k, coupling in enumerate(couplings):
        weight = coupling.matrix().detach().double().cpu()
        pair = tails[k].gaussian[:, None] & tails[k + 1].gaussian[None, :]
        harmless = _one_sided(tails[k], tails[k + 1]) & (weight <= 0)
        rows = slice(starts[k], starts[k] + sizes[k])
        columns = slice(starts[k + 1], starts[k + 1] + sizes[k + 1])
        form[rows, columns] = torch.where(pair & ~harmless, -weight, 0.0)
        form[columns, rows] = form[rows, columns].T
    smallest = torch.linalg.eigvalsh(form)[0].item()
    if not smallest > 0:
        raise NotNormalizable(
            "no finite partition function: the quadratic form of the Gaussian units has the eigenvalue "
            f"{smallest:.3g}, expected all positive (the weights are beyond the spectral bound)"
        )


def _one_sided(lower: Tail, upper: Tail) -> Tensor:
    return lower.one_sided[:, None] & upper.one_sided[None, :]


def may_diverge(machine: Any) -> bool:
    """Return whether large weights of the machine give an infinite partition function: neighboring Gaussian units."""
    return any(bool(a.gaussian.any() and b.gaussian.any()) for a, b in pairwise(u.tail() for u in machine.layers))


class SpectralBound:
    """Keep the weights of a machine within the spectral bound of Gaussian units, which a step of training may pass.

    The curvature of the loss diverges at the bound, so no learning rate is small enough for every step. Weights beyond
    0.99 of the bound are scaled back to it, and the biases change such that the fields stay the same at the ``mean`` of
    the data (*visible); by default, at the mean of the visible units without couplings.

    >>> from harmonium import RBM, units
    >>> rbm = RBM(units.Gaussian(1), units.Gaussian(1))
    >>> _ = torch.nn.init.constant_(rbm.weight, 1.2)
    >>> SpectralBound(rbm).hold()
    >>> round(rbm.weight.item(), 3)
    0.99
    """

    def __init__(self, machine: Any, mean: Tensor | None = None) -> None:
        self._machine, self._mean = machine, mean
        self._known: list[tuple[Tensor, float]] = []  # relative weights and their norms at the last computation

    @torch.no_grad()
    def hold(self) -> None:
        """Scale the weights back if they are beyond 0.99 of the bound."""
        tails = [unit.tail() for unit in self._machine.layers]
        neighbors = zip(tails, tails[1:], self._machine.couplings, strict=False)
        relative = [_relative(lower, upper, coupling) for lower, upper, coupling in neighbors]
        if not _LIMIT < _reach(self._bounds(relative)) < math.inf:  # weights that are not finite are not scaled
            return
        sizes = [_norm(matrix) for matrix in relative]
        self._known = list(zip(relative, sizes, strict=True))
        if _reach(sizes) > _LIMIT:
            self._scale(_LIMIT / _reach(sizes), [size > 0 for size in sizes])
            self._known = []

    def _bounds(self, relative: Sequence[Tensor]) -> list[float]:
        """Return upper bounds of the spectral norms: Frobenius norms, of the changes if the norms before are known."""
        if not self._known:
            return [matrix.norm().item() for matrix in relative]
        pairs = zip(relative, self._known, strict=True)
        return [size + torch.dist(matrix, known).item() for matrix, (known, size) in pairs]

    def _scale(self, factor: float, scaled: Sequence[bool]) -> None:
        machine, mean = self._machine, self._mean
        if mean is None:
            mean = machine.visible.mean(machine.couplings[0].weight.new_zeros(1, *machine.visible.shape))[0]
        state = mean.to(machine.couplings[0].weight).unsqueeze(0)
        for k, coupling in enumerate(machine.couplings):
            field = coupling.up(state)
            state = machine.layers[k + 1].mean(field)
            if scaled[k]:
                machine.layers[k].shift_bias(coupling.down(state)[0] * (1 - factor))
                machine.layers[k + 1].shift_bias(field[0] * (1 - factor))
                coupling.weight.mul_(factor)


#: largest allowed relative weights of Gaussian units in training; the partition function is finite below 1
_LIMIT = 0.99
_EXACT, _LANCZOS = 40, 40


def _reach(sizes: Sequence[float]) -> float:
    """Return an upper bound of the largest eigenvalue of a chain of layers, from the norms of its couplings."""
    return max(lower + upper for lower, upper in pairwise([0.0, *sizes, 0.0]))


def _relative(lower: Tail, upper: Tail, coupling: Coupling) -> Tensor:
    """Return γ^(-1/2) W γ'^(-1/2) for Gaussian units with precisions γ and γ', and 0 for others."""
    weight = coupling.matrix().detach()
    scales = [torch.where(tail.gaussian, tail.precision.rsqrt(), 0.0).to(weight) for tail in (lower, upper)]
    matrix = (weight * scales[0][:, None]).mul_(scales[1])
    if bool(lower.one_sided.any() and upper.one_sided.any()):
        matrix = torch.where(_one_sided(lower, upper).to(weight.device), matrix.clamp(min=0), matrix)
    return matrix


def _norm(matrix: Tensor) -> float:
    """Return the spectral norm; for many units by the Lanczos method, which never overestimates it."""
    if min(matrix.shape) <= _EXACT:
        return torch.linalg.matrix_norm(matrix, 2).item()
    vector = torch.randn(matrix.shape[1], generator=torch.Generator().manual_seed(0)).to(matrix)
    vector, before = vector / vector.norm(), torch.zeros_like(vector)
    diagonal, beside = list[Tensor](), [matrix.new_zeros(())]
    for _ in range(_LANCZOS):
        image = matrix.T @ (matrix @ vector)
        diagonal.append(image @ vector)
        image = image - diagonal[-1] * vector - beside[-1] * before
        beside.append(image.norm())
        before, vector = vector, image / beside[-1].clamp(min=torch.finfo(matrix.dtype).tiny)
    off = torch.stack(beside[1:-1]).diag(1)
    return torch.linalg.eigvalsh(torch.stack(diagonal).diag() + off + off.T)[-1].clamp(min=0).sqrt().item()

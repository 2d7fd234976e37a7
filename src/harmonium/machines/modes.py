"""Initial weights along the principal modes of data, so that learning does not begin with finding them."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

#: root mean square of the input to a hidden unit, by default
SCALE = 4.0
_ROWS = 5000  # of the data, from which the modes are computed


@torch.no_grad()
def weights_along(x: Tensor, hidden: int, scale: float, generator: Generator | None = None) -> Tensor:
    """Weights (visible, hidden) that project rows x (n, visible) on random combinations of their principal modes.

    W = c V diag(σ_k) Q, where the columns of V are the first modes of the centered rows, at most as many as hidden
    units, σ_k are their standard deviations, and Q has random orthonormal rows. The number c is such that the input
    (x - ⟨x⟩)W of a hidden unit has the root mean square ``scale``. Zero if all rows are equal. The idea is that of the
    pre-training of Béreux et al. (2024), here without their optimization of a low-rank machine.

    >>> rows = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    >>> W = weights_along(rows, 3, 2.0, torch.Generator().manual_seed(0))
    >>> ((rows - 0.5) @ W).square().mean().sqrt(), bool(((W[0] - W[1]).abs() < 1e-6).all())
    (tensor(2.), True)
    """
    every = max(1, len(x) // _ROWS)
    centered = (x[::every] - x.mean(0)).to(torch.float64)
    if len(centered) < centered.shape[1]:
        _, deviations, modes = torch.linalg.svd(centered, full_matrices=False)
        modes = modes.T
    else:
        squares, modes = torch.linalg.eigh(centered.T @ centered)  # in ascending order
        deviations, modes = squares.clamp_min(0).sqrt().flip(0), modes.flip(1)
    number = min(hidden, len(deviations))
    draw = torch.empty(hidden, number, dtype=x.dtype, device=x.device).normal_(generator=generator)
    mixed, _ = torch.linalg.qr(draw.to(torch.float64))
    weights = modes[:, :number] * deviations[:number] @ mixed.T
    size = (centered @ weights).square().mean().sqrt()
    return (weights * (scale / size if size > 0 else 0.0)).to(x.dtype)

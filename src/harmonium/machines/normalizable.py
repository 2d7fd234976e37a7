"""Whether a machine has a finite partition function, from the tails of its units and its weights."""

from __future__ import annotations

from collections.abc import Sequence

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
        if not (_unbounded(lower).any() and _unbounded(upper).any()):
            continue
        weight = coupling.matrix().detach().double().cpu()
        pair = _unbounded(lower)[:, None] & _unbounded(upper)[None, :]
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


def _unbounded(tail: Tail) -> Tensor:
    return tail.gaussian | tail.factorial


def _one_sided(lower: Tail, upper: Tail) -> Tensor:
    return lower.one_sided[:, None] & upper.one_sided[None, :]

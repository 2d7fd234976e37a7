"""Scores of estimated signals, with bootstrap confidence intervals over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..checks import whole
from ..errors import InvalidData, InvalidOption, unknown
from ..noise import Seed
from ..quality.inputs import rows
from ..shown import brief

_TILE = 2**20  # images per step of the bootstrap


@brief
@dataclass(frozen=True)
class Score:
    """A score with its confidence interval [low, high] at the confidence ``level``.

    >>> print(mse(torch.zeros(4, 2), torch.ones(4, 2)))
    1.0000 [1.0000, 1.0000]
    """

    name: str
    estimate: float
    low: float
    high: float
    level: float = 0.95
    #: score of each image, (n,)
    images: Tensor = field(default_factory=lambda: torch.empty(0), repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"

    def minus(self, other: Score, *, resamples: int = 1000, seed: Seed = None) -> Score:
        """Mean difference between two scores of the same images, in the same order.

        The scores of two denoisers are correlated across images, so this interval is narrower than the separate ones.
        """
        if self.name != other.name or len(self.images) != len(other.images):
            raise InvalidData(
                f"difference: expected two scores of the same images, found {self.name} of {len(self.images)} and "
                f"{other.name} of {len(other.images)}"
            )
        images = self.images - other.images
        name = f"difference in {self.name}"
        return _score(name, images.unsqueeze(1), lambda x: x[..., 0], images, self.level, resamples, seed)


def mcc(
    signal: Any,
    estimate: Any,
    *,
    average: str = "images",
    level: float = 0.95,
    resamples: int = 1000,
    seed: Seed = None,
) -> Score:
    """Matthews correlation coefficient between binary signals and their estimates, both (n, ...).

    It is 1 for no errors and 0 for no correlation. If the signal or its estimate is constant, it is 1 if they are equal
    and 0 otherwise, by convention.

    Args:
        signal, estimate: values {0, 1} or {-1, 1}.
        average: ``"images"`` for the mean of the coefficients of all images, as in Tramel et al. (2018), figure 8;
            ``"pixels"`` for the coefficient of all pixels together.
        level: confidence level of the interval.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.

    >>> signal = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]])
    >>> mcc(signal, torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])).images
    tensor([1.0000, 0.5774], dtype=torch.float64)
    """
    if average not in ("images", "pixels"):
        raise unknown("average", str(average), ("images", "pixels"))
    truth, guess = (_positive(x, name) for x, name in _alike(signal, estimate))
    table = torch.stack([(a & b).sum(1) for a in (truth, ~truth) for b in (guess, ~guess)], 1).double()
    images = _matthews(table)
    if average == "images":
        return _score("MCC", images.unsqueeze(1), lambda x: x[..., 0], images, level, resamples, seed)
    return _score("MCC", table, _matthews, images, level, resamples, seed)


def mse(signal: Any, estimate: Any, *, level: float = 0.95, resamples: int = 1000, seed: Seed = None) -> Score:
    """Mean squared error of estimates (n, ...) over pixels and images; options as of :func:`mcc`."""
    (truth, _), (guess, _) = _alike(signal, estimate)
    images = (truth.double() - guess.double()).square().mean(1)
    return _score("MSE", images.unsqueeze(1), lambda x: x[..., 0], images, level, resamples, seed)


def _alike(signal: Any, estimate: Any) -> list[tuple[Tensor, str]]:
    truth, guess = rows(signal, "signal", fewest=1), rows(estimate, "estimate", fewest=1)
    if truth.shape != guess.shape:
        raise InvalidData(
            f"estimate: expected the shape of the signal, {tuple(truth.shape)}, found {tuple(guess.shape)}"
        )
    return [(truth.flatten(1), "signal"), (guess.to(truth.device).flatten(1), "estimate")]


def _positive(x: Tensor, what: str) -> Tensor:
    for low in (0.0, -1.0):
        if bool(((x == low) | (x == 1)).all()):
            return x == 1
    raise InvalidData(f"{what}: expected binary values, 0 and 1 or -1 and 1. For the MCC, round estimates first")


def _matthews(table: Tensor) -> Tensor:
    """Coefficient from counts (..., 4): positive in both, in the signal only, in the estimate only, in neither."""
    both, signal, estimate, neither = table.unbind(-1)
    margins = (both + signal) * (both + estimate) * (neither + signal) * (neither + estimate)
    value = (both * neither - signal * estimate) / margins.clamp_min(1e-300).sqrt()
    return torch.where(signal + estimate == 0, 1.0, torch.where(margins > 0, value, 0.0))


def _score(
    name: str,
    terms: Tensor,
    value: Callable[[Tensor], Tensor],
    images: Tensor,
    level: float,
    resamples: int,
    seed: Seed,
) -> Score:
    """Apply ``value`` to the mean of ``terms`` (n, k) over images; the interval is from bootstrap percentiles."""
    if not 0 < level < 1:
        raise InvalidOption(f"level: expected a number between 0 and 1, found {level!r}")
    if whole("resamples", resamples) < 1:
        raise InvalidOption(f"resamples: expected at least 1, found {resamples}")
    n, terms = len(terms), terms.cpu()
    index = torch.randint(n, (resamples, n), generator=noise.generator(seed))
    means = torch.cat([terms[part].mean(1) for part in index.split(max(1, _TILE // n))])
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.quantile(value(means), ends).tolist()
    return Score(name, value(terms.mean(0)).item(), low, high, level, images)

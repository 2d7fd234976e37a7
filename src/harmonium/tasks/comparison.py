"""Denoisers side by side over a range of noise: Fig. 8 and Fig. 9 of the TAP paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..noise import resolve_seed
from .baselines import Pointwise, nearest_neighbors
from .channels import Channel
from .denoising import denoise
from .observed import by_part
from .posterior import nearest
from .scores import Score, mcc, mse


@dataclass(frozen=True)
class DenoisingCurves:
    """Scores of denoisers at each level of the noise, and the estimates of the first few images."""

    #: what a level is: "p" or "σ"
    symbol: str
    levels: list[float]
    #: by the name of the denoiser, a score for each level
    scores: dict[str, list[Score]]
    #: the share of rows in which the machine's inference converged, for each level
    converged: list[float]
    #: the signals shown, (images, *visible)
    signals: Tensor = field(repr=False)
    #: by the name of the denoiser, (levels, images, *visible); "noisy" is what it saw
    estimates: dict[str, Tensor] = field(repr=False)

    def table(self) -> list[list[str]]:
        """Rows of text: the level, then the score of each denoiser."""
        columns = [[str(score) for score in scores] for scores in self.scores.values()]
        return [[f"{level:g}", *cells] for level, *cells in zip(self.levels, *columns, strict=True)]


def compare_denoisers(
    machine: BoltzmannMachine,
    signals: Any,
    train: Any,
    channels: Sequence[Channel],
    *,
    neighbors: int = 1,
    shown: int = 8,
    name: str = "machine",
    seed: int | None = None,
    score: Callable[..., Score] | None = None,
    **options: Any,
) -> DenoisingCurves:
    """The machine, the optimal pointwise estimator and the nearest training rows, on the same noisy signals.

    ``signals`` (n, *visible) are unseen rows, ``train`` (m, *visible) those of the baselines. The score is the MCC of
    rounded estimates for binary units, else the mean squared error of the posterior means, or ``score(signal,
    estimate)``. The machine starts at the pointwise estimate; ``options`` are further ones of :func:`denoise`.

    >>> import harmonium as hm
    >>> from harmonium.tasks import BinarySymmetric
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    >>> x = torch.rand(30, 6, generator=torch.Generator().manual_seed(0)).round()
    >>> curves = compare_denoisers(rbm, x[:10], x, [BinarySymmetric(p) for p in (0.0, 0.3)])
    >>> [score.estimate for score in curves.scores["machine"]][0]
    1.0
    """
    if not channels:
        raise InvalidOption("channels: expected at least one, found none")
    seed = resolve_seed(seed)
    unit, clean = machine.visible, machine.as_states(signals)
    unit.check(clean, "signals")
    estimator = Pointwise.from_data(unit, train)
    binary = unit.cardinality == 2**unit.sites and not unit.event_shape
    scores: dict[str, list[Score]] = {name: [], "OPE": [], f"{neighbors}-NN": []}
    estimates: dict[str, list[Tensor]] = {label: [] for label in ("noisy", *scores)}
    converged = []
    for k, channel in enumerate(channels):
        noisy = channel.corrupt(clean, seed=seed + k)
        found = denoise(machine, noisy, channel, start=estimator, seed=seed + k, **options)
        means = [
            found.means,
            estimator.estimate(noisy, channel).means.to(clean),
            nearest_neighbors(train, noisy, k=neighbors).to(clean),
        ]
        converged.append(found.converged.double().mean().item())
        estimates["noisy"].append(noisy[:shown])
        for label, mean in zip(scores, means, strict=True):
            estimates[label].append(mean[:shown])
            final = by_part(unit, nearest, mean) if binary else mean
            scores[label].append((score or (mcc if binary else mse))(clean, final, seed=seed))
    return DenoisingCurves(
        channels[0].symbol,
        [channel.level for channel in channels],
        scores,
        converged,
        clean[:shown],
        {label: torch.stack(parts) for label, parts in estimates.items()},
    )

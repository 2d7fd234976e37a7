"""Compare denoisers over a range of noise levels: Tramel et al. (2018), figures 8 and 9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..noise import Seed, resolve_seed
from ..shown import brief
from .baselines import Pointwise, nearest_neighbors
from .channels import Channel
from .denoising import denoise
from .observed import by_part
from .posterior import nearest
from .scores import Score, mcc, mse


@brief
@dataclass(frozen=True)
class DenoisingCurves:
    """Scores of denoisers at each noise level, and the estimates of the first few images."""

    #: symbol of the noise level, such as "p" or "σ"
    symbol: str
    levels: list[float]
    #: scores at each level, by name of the denoiser
    scores: dict[str, list[Score]]
    #: fraction of rows for which inference with the machine converged, at each level
    converged: list[float]
    #: signals of the first few images, (images, *visible)
    signals: Tensor = field(repr=False)
    #: estimates (levels, images, *visible), by name of the denoiser; "noisy" are the observations
    estimates: dict[str, Tensor] = field(repr=False)

    def table(self) -> list[list[str]]:
        """Table rows as text: the level, then the score of each denoiser."""
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
    seed: Seed = None,
    score: Callable[..., Score] | None = None,
    **options: Any,
) -> DenoisingCurves:
    """Compare a machine, the optimal pointwise estimator and the nearest training rows on the same noisy signals.

    The machine starts from the pointwise estimate.

    Args:
        machine: the machine used as prior.
        signals: held-out rows (n, *visible).
        train: training rows (m, *visible) of the baselines.
        channels: the noise channels, usually of one type at several levels.
        neighbors: number of nearest neighbors.
        shown: number of signals whose estimates are kept.
        name: name of the machine in the result.
        seed: seed of the noise, the inference and the intervals.
        score: function ``score(signal, estimate)``; by default the MCC of rounded estimates for binary units, and
            the mean squared error of the posterior means for others.
        options: options of :func:`denoise`.

    >>> import harmonium as hm
    >>> from harmonium.tasks import BinarySymmetric
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    >>> x = torch.rand(30, 6, generator=torch.Generator().manual_seed(0)).round()
    >>> curves = compare_denoisers(rbm, x[:10], x, [BinarySymmetric(p) for p in (0.0, 0.3)])
    >>> [score.estimate for score in curves.scores["machine"]][0]
    1.0
    """
    if not channels:
        raise InvalidOption("channels: expected at least one channel, found none")
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

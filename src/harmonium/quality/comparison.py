"""All measures of samples against data, as one table and a verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..errors import InvalidData
from .distinct import Novelty, novelty
from .entropies import Entropy, site_entropy, state_entropy
from .inputs import ArrayLike, alike
from .measured import Measured
from .nearest import NeighborAccuracy, nearest_neighbor_accuracy
from .pair_correlations import Correlations, all_orders
from .principal_axes import Principal, principal


class QualityRow(NamedTuple):
    """One line of the table: what was measured, its standard error, and what good samples would give."""

    name: str
    estimate: float
    standard_error: float
    ideal: float


@dataclass(frozen=True)
class SampleComparison:
    """How samples compare with data; see :func:`compare`. Entropies are pairs, of the samples and of the data."""

    sample_rows: int
    data_rows: int
    neighbors: NeighborAccuracy
    correlations: dict[int, Correlations]
    principal: Principal
    novelty: Novelty
    site_entropy: tuple[Measured, Measured] | None
    state_entropy: tuple[Entropy, Entropy] | None

    def table(self) -> list[QualityRow]:
        """A row for each measure; an ideal that is no round number is what the data give against themselves."""
        near, axes, new = self.neighbors, self.principal, self.novelty
        lines = [
            QualityRow("nearest-neighbor accuracy", *near.accuracy, 0.5),
            QualityRow("nearest-neighbor accuracy, of the data", *near.truth, 0.5),
            QualityRow("nearest-neighbor accuracy, of the samples", *near.synthetic, 0.5),
        ]
        if near.train is not None and near.privacy_loss is not None:
            lines += [
                QualityRow("nearest-neighbor accuracy, training rows", *near.train.accuracy, 0.5),
                QualityRow("privacy loss", *near.privacy_loss, 0.0),
            ]
        for found in self.correlations.values():
            lines += [
                QualityRow(f"{found.name}, RMS difference", *found.difference, found.floor.estimate),
                QualityRow(f"{found.name}, Pearson's r", *found.pearson, found.ideal_pearson),
                QualityRow(f"{found.name}, slope", *found.slope, found.ideal_slope),
            ]
        lines += [
            QualityRow("leading axes, overlap", *axes.overlap, axes.overlap_floor.estimate),
            QualityRow("leading axes, distance in standard deviations", *axes.distance, axes.distance_floor.estimate),
            QualityRow("total variance, samples over data", *axes.variance, 1.0),
        ]
        if self.site_entropy is not None:
            ours, theirs = self.site_entropy
            lines.append(QualityRow("entropy of independent sites, nats", *ours, theirs.estimate))
        if self.state_entropy is not None:
            mine, its = self.state_entropy
            lines.append(QualityRow("entropy of the states, nats", mine.estimate, mine.standard_error, its.estimate))
        return [
            *lines,
            QualityRow("distinct rows, share", *new.distinct, new.distinct_data.estimate),
            QualityRow(
                f"copies of {'training' if near.train else 'data'} rows, share", *new.copied, new.copied_data.estimate
            ),
        ]

    @property
    def problems(self) -> tuple[str, ...]:
        """What tells the samples from the data, beyond four standard errors; signs of copying come first."""
        near, axes, new = self.neighbors, self.principal, self.novelty
        found = []
        if near.privacy_loss is not None and near.privacy_loss.above(0.0):
            found.append(
                f"they lie closer to the training rows than to held-out ones (privacy loss {near.privacy_loss})"
            )
        elif near.accuracy.below(near.chance):
            found.append(
                f"they lie closer to the data than data to each other, as copies do (accuracy {near.accuracy})"
            )
        if new.copying:
            found.append(
                f"{new.copied.estimate:.1%} are exact copies, of new data {new.copied_data.estimate:.1%} would be"
            )
        if new.repetitive:
            found.append(f"only {new.distinct.estimate:.1%} are distinct, of the data {new.distinct_data.estimate:.1%}")
        if near.accuracy.above(near.chance):
            found.append(f"nearest neighbors tell them apart (accuracy {near.accuracy}, ideal 0.5)")
        if near.asymmetry.above(0.0) or near.asymmetry.below(0.0):
            manner = "scatter wider than the data" if near.asymmetry.estimate > 0 else "crowd together"
            real, drawn = near.truth.estimate, near.synthetic.estimate
            found.append(f"they {manner} (accuracy {real:.2f} of data and {drawn:.2f} of samples)")
        found += [
            f"{part.name} differ by {part.ratio:.1f} times what two data sets of these sizes would"
            for part in self.correlations.values()
            if part.meaningful
        ]
        if axes.turned:
            found.append(
                f"the leading axes overlap by {axes.overlap.estimate:.2f}, ideal {axes.overlap_floor.estimate:.2f}"
            )
        if axes.displaced:
            found.append(
                f"along the leading axes they are {axes.distance.estimate:.2f} standard deviations away, "
                f"ideal {axes.distance_floor.estimate:.2f}"
            )
        if axes.variance.above(1.0) or axes.variance.below(1.0):
            found.append(f"their total variance is {axes.variance} of that of the data")
        return tuple(found)

    @property
    def verdict(self) -> str:
        """One sentence."""
        sizes = f"{self.sample_rows} samples, {self.data_rows} rows of data"
        if not self.problems:
            return f"Nothing measured here tells the samples from the data ({sizes})."
        return f"The samples can be told from the data ({sizes}): {'; '.join(self.problems)}."

    def __str__(self) -> str:
        rows = self.table()
        width = max(len(row.name) for row in rows)
        head = f"{'':{width}}  {'value':>10}  {'error':>9}  {'ideal':>10}"
        lines = [
            f"{row.name:{width}}  {row.estimate:10.4g}  {row.standard_error:9.1g}  {row.ideal:10.4g}" for row in rows
        ]
        return "\n".join([head, *lines, self.verdict])


@torch.no_grad()
def compare(
    samples: ArrayLike,
    data: ArrayLike,
    train: ArrayLike | None = None,
    *,
    most_rows: int = 10_000,
    seed: int | None = None,
) -> SampleComparison:
    """Everything that this package measures of ``samples`` against ``data``, both (n, *shape) and at least 40 rows.

    Where ``train`` is given, ``data`` are rows that the machine has not learned from, and copies of training rows show.
    Rows are taken as independent: samples of a chain should be thinned beyond its autocorrelation time. At most
    ``most_rows`` of each go into the search for neighbors.

    >>> import harmonium as hm
    >>> digits = hm.data.load("digits", binarize="threshold")
    >>> result = compare(digits[::2], digits[1::2])
    >>> result.verdict
    'Nothing measured here tells the samples from the data (721 samples, 721 rows of data).'
    >>> noise = torch.rand(900, 64, generator=torch.Generator().manual_seed(0)).round()
    >>> compare(noise, digits).neighbors.estimate > 0.9
    True
    """
    samples, data = alike(samples, data)
    if train is not None:
        train = alike(samples, train, name="train")[1].to(data.device)
    return SampleComparison(
        len(samples),
        len(data),
        nearest_neighbor_accuracy(samples, data, train=train, most_rows=most_rows, seed=seed),
        all_orders(samples, data, seed=seed),
        principal(samples, data, seed=seed),
        novelty(samples, data, train=train, seed=seed),
        *_entropies(samples, data),
    )


def _entropies(
    samples: torch.Tensor, data: torch.Tensor
) -> tuple[tuple[Measured, Measured] | None, tuple[Entropy, Entropy] | None]:
    """Those that make sense: none of continuous values, none of states that were hardly seen."""
    try:
        sites = site_entropy(samples), site_entropy(data)
    except InvalidData:
        return None, None
    states = state_entropy(samples), state_entropy(data)
    return sites, states if all(part.trustworthy for part in states) else None

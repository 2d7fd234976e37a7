"""Compare samples with data by all measures of this package: a table and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..errors import InvalidData
from ..estimates import Estimate
from ..noise import Seed
from ..shown import brief
from .distinct import Novelty, novelty
from .entropies import Entropy, site_entropy, state_entropy
from .inputs import ArrayLike, alike
from .nearest import NeighborAccuracy, nearest_neighbor_accuracy
from .pair_correlations import Correlations, all_orders
from .principal_axes import Principal, principal
from .significance import above, below


class QualityRow(NamedTuple):
    """One row of the table: a measured value, its standard error, and the value expected of perfect samples."""

    name: str
    value: float
    standard_error: float
    ideal: float


@brief
@dataclass(frozen=True)
class SampleComparison:
    """Result of :func:`compare`. Entropies are pairs (samples, data)."""

    sample_rows: int
    data_rows: int
    neighbors: NeighborAccuracy
    correlations: dict[int, Correlations]
    principal: Principal
    novelty: Novelty
    site_entropy: tuple[Estimate, Estimate] | None
    state_entropy: tuple[Entropy, Entropy] | None

    def table(self) -> list[QualityRow]:
        """One row for each measure. An ideal value without a closed form is measured between parts of the data."""
        near, axes, new = self.neighbors, self.principal, self.novelty
        lines = [
            QualityRow("nearest-neighbor accuracy", *near.accuracy[:2], 0.5),
            QualityRow("nearest-neighbor accuracy, of the data", *near.truth[:2], 0.5),
            QualityRow("nearest-neighbor accuracy, of the samples", *near.synthetic[:2], 0.5),
        ]
        if near.train is not None and near.privacy_loss is not None:
            lines += [
                QualityRow("nearest-neighbor accuracy, training rows", *near.train.accuracy[:2], 0.5),
                QualityRow("privacy loss", *near.privacy_loss[:2], 0.0),
            ]
        for found in self.correlations.values():
            lines += [
                QualityRow(f"{found.name}, RMS difference", *found.difference[:2], found.floor.value),
                QualityRow(f"{found.name}, Pearson's r", *found.pearson[:2], found.ideal_pearson),
                QualityRow(f"{found.name}, slope", *found.slope[:2], found.ideal_slope),
            ]
        lines += [
            QualityRow("leading axes, overlap", *axes.overlap[:2], axes.overlap_floor.value),
            QualityRow("leading axes, distance in standard deviations", *axes.distance[:2], axes.distance_floor.value),
            QualityRow("total variance, samples over data", *axes.variance[:2], 1.0),
        ]
        if self.site_entropy is not None:
            ours, theirs = self.site_entropy
            lines.append(QualityRow("entropy of independent sites, nats", *ours[:2], theirs.value))
        if self.state_entropy is not None:
            mine, its = self.state_entropy
            lines.append(QualityRow("entropy of the states, nats", mine.value, mine.standard_error, its.value))
        source = "training" if near.train else "data"
        return [
            *lines,
            QualityRow("distinct rows, fraction", *new.distinct[:2], new.distinct_data.value),
            QualityRow(f"copies of {source} rows, fraction", *new.copied[:2], new.copied_data.value),
        ]

    @property
    def problems(self) -> tuple[str, ...]:
        """Differences between samples and data of more than four standard errors; signs of copying come first."""
        near, axes, new = self.neighbors, self.principal, self.novelty
        found = []
        if near.privacy_loss is not None and above(near.privacy_loss, 0.0):
            found.append(
                f"they are closer to the training rows than to held-out rows (privacy loss {near.privacy_loss})"
            )
        elif below(near.accuracy, near.chance):
            found.append(
                f"they are closer to the data than the data to each other, like copies (accuracy {near.accuracy})"
            )
        if new.copying:
            found.append(f"{new.copied.value:.1%} are exact copies (new data: {new.copied_data.value:.1%})")
        if new.repetitive:
            found.append(f"only {new.distinct.value:.1%} are distinct (data: {new.distinct_data.value:.1%})")
        if above(near.accuracy, near.chance):
            found.append(f"nearest neighbors distinguish them (accuracy {near.accuracy}, ideal 0.5)")
        if above(near.asymmetry, 0.0) or below(near.asymmetry, 0.0):
            manner = "more spread out" if near.asymmetry.value > 0 else "more concentrated"
            found.append(
                f"they are {manner} than the data (accuracy {near.truth.value:.2f} for data and "
                f"{near.synthetic.value:.2f} for samples)"
            )
        found += [
            f"{part.name} differ by {part.ratio:.1f} times the difference expected between two data sets of these sizes"
            for part in self.correlations.values()
            if part.meaningful
        ]
        if axes.turned:
            found.append(f"the leading axes overlap by {axes.overlap.value:.2f}, ideal {axes.overlap_floor.value:.2f}")
        if axes.displaced:
            found.append(
                f"their distance along the leading axes is {axes.distance.value:.2f} standard deviations, "
                f"ideal {axes.distance_floor.value:.2f}"
            )
        if above(axes.variance, 1.0) or below(axes.variance, 1.0):
            found.append(f"their total variance is {axes.variance} times that of the data")
        return tuple(found)

    @property
    def verdict(self) -> str:
        """One sentence that lists the problems."""
        sizes = f"{self.sample_rows} samples, {self.data_rows} rows of data"
        if not self.problems:
            return f"Nothing measured here tells the samples from the data ({sizes})."
        return f"The samples differ from the data ({sizes}): {'; '.join(self.problems)}."

    def __str__(self) -> str:
        rows = self.table()
        width = max(len(row.name) for row in rows)
        head = f"{'':{width}}  {'value':>10}  {'error':>9}  {'ideal':>10}"
        lines = [f"{row.name:{width}}  {row.value:10.4g}  {row.standard_error:9.1g}  {row.ideal:10.4g}" for row in rows]
        return "\n".join([head, *lines, self.verdict])


@torch.no_grad()
def compare(
    samples: ArrayLike, data: ArrayLike, train: ArrayLike | None = None, *, most_rows: int = 10_000, seed: Seed = None
) -> SampleComparison:
    """Compare samples with data by all measures of this package.

    Rows are treated as independent: thin the samples of a Markov chain to more than its autocorrelation time.

    Args:
        samples: samples of a machine (n, *shape), at least 40 rows.
        data: rows of data (m, *shape), at least 40; held-out rows if ``train`` is given.
        train: training rows (k, *shape), to detect copies.
        most_rows: maximum number of rows of each set in the search for nearest neighbors.
        seed: seed of the random subsets.

    >>> import harmonium as hm
    >>> digits = hm.data.load("digits", binarize="threshold")
    >>> result = compare(digits[::2], digits[1::2])
    >>> result.verdict
    'Nothing measured here tells the samples from the data (721 samples, 721 rows of data).'
    >>> noise = torch.rand(900, 64, generator=torch.Generator().manual_seed(0)).round()
    >>> compare(noise, digits).neighbors.value > 0.9
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
) -> tuple[tuple[Estimate, Estimate] | None, tuple[Entropy, Entropy] | None]:
    """The entropies that are defined: None for continuous values, and for states that the rows do not cover."""
    try:
        sites = site_entropy(samples), site_entropy(data)
    except InvalidData:
        return None, None
    states = state_entropy(samples), state_entropy(data)
    return sites, states if all(part.trustworthy for part in states) else None

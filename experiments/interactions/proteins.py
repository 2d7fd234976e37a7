"""A protein family: are the strongest couplings of a machine between residues in contact in the folded domain?

WW domains (Pfam PF00397, 31 sites), after Tubiana, Cocco and Monasson, eLife 8:e39397 (2019). The structure is that of
Pin1, Protein Data Bank entry 1PIN (Ranganathan, Lu, Hunter and Noel, Cell 89, 1997; entries are in the public domain).
Pin1 is in the alignment without an insertion: its residue i + 6 is site i. Two sites are in contact if their β carbons
are less than 8 Å apart. Only pairs at least five sites apart are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from harmonium import data as datasets
from harmonium import units
from harmonium.errors import unknown
from harmonium.interactions import ContactRanking, average_product_correction, coupling_norms, n_body
from harmonium.likelihood import pseudo
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.training import L2, PCD, Linear, Weighted, ZeroSum

from ..judging import THREE_SIGMA, Measured, Verdict, averaged, brief, every, share_above, unlikely
from ..machines import MachineOptions, Machines, name_by_settings
from ..options import with_options_of
from ..record import Record
from .replicates import columns, measured

LETTERS = "ACDEFGHIKLMNPQRSTVWY-"
PIN1 = "LPPGWEKRMSRSSGRVYYFNHITNASQWERP"
#: β carbons (α of glycine) of residues 7 to 37 in 1PIN, in Å
CARBONS = (
    (43.375, 11.054, 119.556), (39.270, 14.789, 119.009), (35.939, 13.524, 122.680), (36.334, 8.965, 121.515),
    (39.690, 9.827, 118.115), (41.183, 4.687, 119.868), (45.609, 4.445, 116.315), (41.312, 0.656, 115.379),
    (44.985, -2.758, 113.345), (41.207, -4.176, 109.433), (40.104, -8.475, 112.928), (42.370, -11.262, 109.681),
    (43.887, -6.561, 107.625), (47.663, -4.704, 108.560), (43.941, -1.999, 106.976), (47.022, 1.454, 110.722),
    (41.637, 3.023, 110.043), (41.580, 7.263, 113.210), (37.860, 3.418, 115.269), (34.964, 8.250, 116.586),
    (34.809, 4.593, 121.235), (31.405, 8.871, 121.001), (30.715, 9.249, 115.959), (30.060, 3.905, 115.163),
    (33.201, 8.177, 112.405), (36.022, 3.626, 110.366), (38.459, 8.433, 108.818), (42.639, 6.263, 105.924),
    (42.443, 11.257, 107.741), (45.893, 11.394, 112.137), (40.593, 12.279, 114.238),
)  # fmt: skip
REACH = 8.0
APART = 5
EPOCHS = {"quick": 15, "full": 60}
HIDDEN = ("Gaussian", "ReLU", "Bernoulli")
WEIGHTED, ALIKE = "couplings", "couplings, all sequences alike"
INFORMATION, INFORMATION_ALIKE = "mutual information", "mutual information, all alike"
_SITES = len(PIN1)
_RATE, _BATCH, _DECAY = 0.005, 500, 0.01
_SCORED = 300  # test rows for the pseudo-likelihood
_FAR = 2.0  # times chance, for a share of contacts "far above" it
_CONSERVED = 0.5  # least share of sequences with the residue of a conserved site
_CHARGED = 10  # number of pairs with the strongest attraction of opposite charges
_CHEMISTRY = "DEKRHNQSTGPAVILMCFWY"


class Trained(Machines):
    """Machines on sequences of the WW domain."""

    def __init__(self, record: Record, scale: str, **options: Unpack[MachineOptions]) -> None:
        super().__init__(record, scale, "protein-ww", **options)


@with_options_of(Trained)
def run(record: Record, trained: Machines, hidden: str = "Gaussian", size: int = 200, seeds: int = 3) -> None:
    """Machines on weighted and on unweighted sequences, ``seeds`` of each; ``rows=0`` means all rows.

    Figure and tables are those of the first seed.
    """
    if hidden not in HIDDEN:
        raise unknown("hidden", hidden, HIDDEN)
    train, test = (datasets.load("protein-ww", split=split) for split in ("train", "test"))
    train, test = train[: trained.given_rows or None], test[:: max(1, len(test) // _SCORED)]
    each = datasets.similarity_weights(train)
    near = touching()
    ranked: dict[str, list[Ranking]] = {}
    tables: dict[str, list[Tensor]] = {}
    for name, part in ((WEIGHTED, Weighted(train, each)), (ALIKE, train)):
        ranked[name], tables[name] = [], []
        for k in range(seeds):
            seed = trained.seed + k
            rbm = _train(trained, name, part, hidden, size, seed)
            tables[name].append(n_body(rbm, 2, method="small", seed=0))
            ranked[name].append(_ranked(coupling_norms(tables[name][-1], LETTERS), near))
            score = pseudo(rbm, test).mean().item()
            record.numbers[f"test pseudo-likelihood, {name}, seed {seed}"] = score
    for name, weight in ((INFORMATION, each), (INFORMATION_ALIKE, torch.ones_like(each))):
        ranked[name] = [_ranked(mutual_information(train, weight), near)]
    record.numbers |= {"sequences": len(train), "effective sequences": each.sum().item()}
    pulls = [attraction(table) for table in tables[WEIGHTED]]
    first = {name: part[0] for name, part in ranked.items()}
    _tables(record, ranked, pulls[0], near)
    _claims(record, train, ranked, pulls, near)
    record.figure("proteins", _figure(first, near, tables[WEIGHTED][0], _most_charged(pulls[0])))


def _train(machines: Machines, score: str, rows: Tensor | Weighted, hidden: str, size: int, seed: int) -> RBM:
    epochs = machines.given_epochs or EPOCHS[machines.scale]
    rbm = RBM(units.Potts((_SITES, len(LETTERS))), getattr(units, hidden)(size))
    kind = machines.data, "weighted" if score == WEIGHTED else "alike", hidden.lower(), size
    machines.train(
        name_by_settings(*kind, rows=len(rows), epochs=epochs, seed=seed),
        rbm,
        rows,
        words=f"{score}, {size} hidden units ({hidden}), seed {seed}",
        negative=PCD(2),
        epochs=epochs,
        batch_size=min(_BATCH, len(rows)),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=_RATE),
        penalties=[L2(_DECAY)],
        constraints=[ZeroSum()],
        schedule=Linear(),
        seed=seed,
        progress=False,
    )
    return rbm


# -- scores of pairs --------------------------------------------------------------------------------------------------


def touching(reach: float = REACH) -> Tensor:
    """Which pairs of sites are less than ``reach`` Å apart in Pin1: (31, 31), symmetric."""
    places = torch.tensor(CARBONS, dtype=torch.float64)
    return (torch.cdist(places, places) < reach).fill_diagonal_(False)


def mutual_information(rows: Tensor, weight: Tensor) -> Tensor:
    """Mutual information of every pair of sites, in nats, from weighted frequencies of letters: (sites, sites)."""
    sites, letters = rows.shape[1:]
    flat, share = rows.flatten(1).double(), (weight / weight.sum()).double()
    pair = ((flat * share[:, None]).T @ flat).reshape(sites, letters, sites, letters).permute(0, 2, 1, 3)
    one = (share @ flat).reshape(sites, letters)
    both = one[:, None, :, None] * one[None, :, None, :]
    return (torch.xlogy(pair, pair) - torch.xlogy(pair, both)).sum((2, 3))


def attraction(couplings: Tensor) -> Tensor:
    """How much opposite charges (K, R with D, E) are favored over equal ones: (sites, sites)."""
    plus, minus = ([LETTERS.index(letter) for letter in letters] for letters in ("KR", "DE"))

    def mean(first: list[int], second: list[int]) -> Tensor:
        return couplings[:, :, first][:, :, :, second].mean((2, 3))

    return (mean(plus, minus) + mean(minus, plus) - mean(plus, plus) - mean(minus, minus)) / 4


def _ranked(score: Tensor, near: Tensor) -> Ranking:
    return Ranking.of(average_product_correction(score), near, APART)


@dataclass(frozen=True)
class Ranking(ContactRanking):
    """A ranking of pairs of sites with known contacts, with errors of its precision."""

    hits: Tensor

    def p_value(self, count: int) -> float:
        """The probability of as many contacts, or more, among ``count`` pairs at random."""
        found, every = int(self.hits[:count].sum()), int(self.hits.sum())
        return float(stats.hypergeom.sf(found - 1, len(self.hits), every, count))

    def replicated_precision(self) -> Tensor:
        """The average precision with all pairs, then without each site: (1 + sites,).

        Unlike the precision of a fixed number of pairs, it changes smoothly with the ranking, so that a jackknife over
        sites gives its error.
        """
        sites = int(self.pairs.max()) + 1
        left = [torch.ones(len(self.hits), dtype=torch.bool)]
        left += [(self.pairs != site).all(1) for site in range(sites)]
        parts = [replace(self, pairs=self.pairs[m], scores=self.scores[m], hits=self.hits[m]) for m in left]
        return torch.tensor([part.average_precision() for part in parts], dtype=torch.float64)

    def words(self, count: int) -> str:
        """The first pairs, with sites counted from 1 and contacts marked by a star."""
        some = zip(self.pairs[:count].tolist(), self.hits[:count].tolist(), strict=True)
        return ", ".join(f"{i + 1}–{j + 1}{'*' if hit else ''}" for (i, j), hit in some)


def _most_charged(pull: Tensor) -> tuple[int, int]:
    first, second = torch.triu_indices(len(pull), len(pull), APART)
    best = int(pull[first, second].argmax())
    return int(first[best]), int(second[best])


# -- tables --------------------------------------------------------------------------------------------------


def _tables(record: Record, ranked: Mapping[str, Sequence[Ranking]], pull: Tensor, near: Tensor) -> None:
    counts = (10, _SITES // 2, _SITES)
    record.table(
        "precision",
        [
            {
                "score": name,
                "seed": k,
                **{f"first_{count}": r.precision(count) for count in counts},
                **columns("average_precision", r.replicated_precision()),
                "chance": r.chance,
            }
            for name, part in ranked.items()
            for k, r in enumerate(part)
        ],
    )
    record.table(
        "pairs",
        [
            {"score": name, "rank": k + 1, "first": i + 1, "second": j + 1, "value": value, "contact": int(hit)}
            for name, (r, *_) in ranked.items()
            for k, ((i, j), value, hit) in enumerate(
                zip(r.pairs.tolist(), r.scores.tolist(), r.hits.tolist(), strict=True)
            )
        ],
    )
    first, second = torch.triu_indices(_SITES, _SITES, APART)
    record.table(
        "charges",
        [
            {"first": i + 1, "second": j + 1, "attraction": pull[i, j].item(), "contact": int(near[i, j])}
            for i, j in zip(first.tolist(), second.tolist(), strict=True)
        ],
    )


# -- criteria ---------------------------------------------------------------------------------------------------------


def judge_alignment(present: bool, conserved: Iterable[tuple[int, int]]) -> Verdict:
    """The structure matches the columns: its sequence is in the alignment, and conserved residues are conserved.

    Args:
        present: whether the sequence of the structure is a row.
        conserved: for each conserved residue the number of rows that have it, and of all rows; the criterion is half.
    """
    return every((present, *(share_above(*counts, _CONSERVED, THREE_SIGMA) for counts in conserved)))


def judge_contacts(counts: Iterable[tuple[int, int, float]]) -> Verdict:
    """Pairs are contacts "far above chance": their share is more than twice that of all pairs, in every training.

    Args:
        counts: contacts among the first pairs, the number of these pairs, and the share of contacts among all pairs.
    """
    return every(share_above(hits, n, _FAR * chance, THREE_SIGMA) for hits, n, chance in counts)


def judge_better_ranking(gain: Measured) -> Verdict:
    """A ranking predicts contacts better than another: the difference of average precisions is positive."""
    return gain.above(0.0, THREE_SIGMA)


def judge_charges(found: Iterable[tuple[float, float, float]]) -> Verdict:
    """Attracting pairs are contacts more often than by chance: p below that of three standard errors, every time.

    Args:
        found: p-value, share of contacts among the pairs, and share among all.
    """
    return every(unlikely(p, share > chance, THREE_SIGMA) for p, share, chance in found)


def gain(first: Sequence[Ranking], second: Sequence[Ranking]) -> Measured:
    """The difference of average precisions with its error over sites and seeds; a single ``second`` is used for all."""
    others = list(second) * len(first) if len(second) == 1 else second
    return averaged(
        [measured(a.replicated_precision() - b.replicated_precision()) for a, b in zip(first, others, strict=True)]
    )


def _claims(
    record: Record, train: Tensor, ranked: Mapping[str, Sequence[Ranking]], pulls: Sequence[Tensor], near: Tensor
) -> None:
    half, whole = _SITES // 2, _SITES
    codes = torch.tensor([LETTERS.index(letter) for letter in PIN1])
    letters = train.argmax(-1)
    conserved = {k: int((letters[:, k] == codes[k]).sum()) for k in (4, 27, 30)}
    present = bool((letters == codes).all(1).any())
    record.claim(
        "residues of the structure match columns of the alignment: Pin1 is in it, W 5, W 28 and P 31 are conserved",
        f"Pin1 is {'' if present else 'not '}a row; "
        + ", ".join(f"{PIN1[k]} {k + 1} in {hits / len(train):.0%}" for k, hits in conserved.items()),
        judge_alignment(present, [(hits, len(train)) for hits in conserved.values()]),
    )
    found = ranked[WEIGHTED]
    record.claim(
        "the strongest couplings are contacts, far above chance",
        "; ".join(
            f"{r.precision(half):.2f} of the first {half} (p = {r.p_value(half):.1e}), "
            f"{r.precision(whole):.2f} of the first {whole}"
            for r in found
        )
        + f"; {found[0].chance:.2f} of all; {found[0].words(10)}",
        judge_contacts((int(r.hits[:half].sum()), half, r.chance) for r in found),
    )
    for other, claimed in (
        (ALIKE, "weighting sequences by their similarity improves the prediction"),
        (INFORMATION, "couplings predict contacts better than mutual information of the same sequences"),
    ):
        better = gain(found, ranked[other])
        shares = {count: [_mean_precision(part, count) for part in (found, ranked[other])] for count in (half, whole)}
        record.claim(
            claimed,
            f"average precision higher by {brief(better)} over {len(found)} seeds; "
            + "; ".join(f"first {count}: {a:.2f} against {b:.2f}" for count, (a, b) in shares.items()),
            judge_better_ranking(better),
        )
    charged = [Ranking.of(pull, near, APART) for pull in pulls]
    record.claim(
        "pairs with the strongest attraction of opposite charges are contacts more often than by chance",
        "; ".join(f"{r.precision(_CHARGED):.1f} of {_CHARGED} (p = {r.p_value(_CHARGED):.1e})" for r in charged)
        + f"; {charged[0].words(_CHARGED)}",
        judge_charges((r.p_value(_CHARGED), r.precision(_CHARGED), r.chance) for r in charged),
    )


def _mean_precision(ranked: Sequence[Ranking], count: int) -> float:
    return sum(r.precision(count) for r in ranked) / len(ranked)


def _figure(ranked: dict[str, Ranking], near: Tensor, couplings: Tensor, charged: tuple[int, int]) -> Figure:
    with style.look():
        figure = Figure(figsize=(11.4, 3.7), layout="constrained")
        where, curve, table = figure.subplots(1, 3, width_ratios=(1, 1, 1.12))
        _map(where, ranked, near)
        drawn = zip(ranked.items(), (style.ACCENT, style.ACCENT, style.SECOND, style.SECOND), strict=True)
        for ((name, found), color), line in zip(drawn, ("-", ":", "-", ":"), strict=True):
            count = np.arange(1, 2 * _SITES + 1)
            hits = found.hits[: len(count)].double().cumsum(0).numpy()
            curve.plot(count, hits / count, line, color=color, linewidth=1.4, label=name)
        curve.axhline(next(iter(ranked.values())).chance, color=style.FAINT, linewidth=1, label="chance")
        curve.set(xlabel="pairs, strongest first", ylabel="share of contacts", ylim=(0, 1.02))
        curve.set_title("precision")
        curve.legend(fontsize=7.5)
        _letters(table, couplings, charged)
    return figure


def _map(ax: Axes, ranked: dict[str, Ranking], near: Tensor) -> None:
    """Contacts as squares, with the first 31 pairs by couplings above the diagonal and by mutual information below."""
    ends = (0.5, _SITES + 0.5)
    ax.imshow(near.numpy(), cmap="Greys", vmin=0, vmax=4, origin="lower", extent=(*ends, *ends))
    for name, flipped in (("couplings", False), ("mutual information", True)):
        found = ranked[name]
        pairs = found.pairs[:_SITES].numpy() + 1
        x, y = (pairs[:, 1], pairs[:, 0]) if flipped else (pairs[:, 0], pairs[:, 1])
        colors = [style.ACCENT if hit else style.SECOND for hit in found.hits[:_SITES].tolist()]
        ax.scatter(x, y, s=13, c=colors, zorder=2, linewidths=0)
    ax.set(xlabel="site (below: mutual information)", ylabel="site (above: couplings)", xlim=ends, ylim=ends)
    ax.set_title(f"contacts (gray), first {_SITES} pairs")


def _letters(ax: Axes, couplings: Tensor, pair: tuple[int, int]) -> None:
    order = [LETTERS.index(letter) for letter in _CHEMISTRY]
    i, j = pair
    values = couplings[i, j][order][:, order].numpy()
    limit = float(np.abs(values).max()) or 1.0
    style.heat_map(ax, values, (-limit, limit), "coupling", style.DIVERGING)
    ax.set_xticks(range(len(order)), list(_CHEMISTRY), fontsize=6.5)
    ax.set_yticks(range(len(order)), list(_CHEMISTRY), fontsize=6.5)
    ax.set(xlabel=f"site {j + 1}", ylabel=f"site {i + 1}")
    ax.set_title(f"couplings of sites {i + 1} and {j + 1}")

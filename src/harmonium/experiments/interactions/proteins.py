"""A protein family: do the strongest couplings of a machine join residues that touch in the folded domain?

WW domains (Pfam PF00397, 31 sites), after Tubiana, Cocco and Monasson, eLife 8:e39397 (2019). The structure is that of
Pin1, Protein Data Bank entry 1PIN (Ranganathan, Lu, Hunter and Noel, Cell 89, 1997; entries are in the public domain).
Pin1 is in the alignment without an insertion: its residue i + 6 is site i. Two sites touch where their β carbons are
less than 8 Å apart, and pairs count from five sites apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from ... import data as datasets
from ... import units
from ...analysis import interactions
from ...errors import unknown
from ...likelihood import pseudo_log_likelihood
from ...machines import RBM
from ...plots import style
from ...training import L2, PCD, Centred, LinearDecay, Weighted, ZeroSum, fit
from ..record import Record

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
_SITES = len(PIN1)
_RATE, _BATCH, _DECAY = 0.005, 500, 0.01
_SCORED = 300  # test rows for the pseudo-likelihood
_CERTAIN = 0.01  # probability of so many contacts by chance
_CHEMISTRY = "DEKRHNQSTGPAVILMCFWY"


def run(
    record: Record, scale: str, hidden: str = "Gaussian", size: int = 200, epochs: int = 0, rows: int = 0, seed: int = 0
) -> None:
    """One machine on weighted sequences and one on all alike; ``rows`` 0 are all of them."""
    if hidden not in HIDDEN:
        raise unknown("hidden", hidden, HIDDEN)
    train, test = (datasets.load("protein-ww", split=split) for split in ("train", "test"))
    train, test = train[: rows or None], test[:: max(1, len(test) // _SCORED)]
    each = datasets.similarity_weights(train)
    near = touching()
    ranked: dict[str, Ranking] = {}
    tables: dict[str, Tensor] = {}
    for name, part in (("couplings", Weighted(train, each)), ("couplings, all sequences alike", train)):
        record.say(f"training: {name}, {size} hidden units ({hidden})")
        rbm = _train(part, hidden, size, epochs or EPOCHS[scale], seed)
        tables[name] = interactions(rbm, 2, method="small")
        ranked[name] = Ranking.of(corrected(norms(tables[name])), near)
        record.numbers[f"test pseudo-likelihood, {name}"] = pseudo_log_likelihood(rbm, test).mean().item()
    for name, weight in (("mutual information", each), ("mutual information, all alike", torch.ones_like(each))):
        ranked[name] = Ranking.of(corrected(mutual_information(train, weight)), near)
    record.numbers |= {"sequences": len(train), "effective sequences": each.sum().item()}
    pull = attraction(tables["couplings"])
    _tables(record, ranked, pull, near)
    _claims(record, train, ranked, pull, near)
    record.figure("proteins", _figure(ranked, near, tables["couplings"], _most_charged(pull)))


def _train(rows: Tensor | Weighted, hidden: str, size: int, epochs: int, seed: int) -> RBM:
    rbm = RBM(units.Potts((_SITES, len(LETTERS))), getattr(units, hidden)(size))
    fit(
        rbm,
        rows,
        negative=PCD(2),
        epochs=epochs,
        batch_size=min(_BATCH, len(rows)),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=_RATE),
        transforms=(Centred(), L2(_DECAY), ZeroSum()),
        schedule=LinearDecay(),
        seed=seed,
        progress=False,
    )
    return rbm


# -- scores of pairs --------------------------------------------------------------------------------------------------


def touching(reach: float = REACH) -> Tensor:
    """Which pairs of sites are less than ``reach`` apart in Pin1: (31, 31), symmetric."""
    places = torch.tensor(CARBONS, dtype=torch.float64)
    return (torch.cdist(places, places) < reach).fill_diagonal_(False)


def mutual_information(rows: Tensor, weight: Tensor) -> Tensor:
    """Of every two sites, in nats, from weighted frequencies of letters: (sites, sites)."""
    sites, letters = rows.shape[1:]
    flat, share = rows.flatten(1).double(), (weight / weight.sum()).double()
    pair = ((flat * share[:, None]).T @ flat).reshape(sites, letters, sites, letters).permute(0, 2, 1, 3)
    one = (share @ flat).reshape(sites, letters)
    both = one[:, None, :, None] * one[None, :, None, :]
    return (torch.xlogy(pair, pair) - torch.xlogy(pair, both)).sum((2, 3))


def norms(couplings: Tensor) -> Tensor:
    """The Frobenius norm of each pair's table (sites, sites, letters, letters), without the gap: (sites, sites)."""
    return couplings[:, :, :-1, :-1].square().sum((2, 3)).sqrt()


def corrected(score: Tensor) -> Tensor:
    """Less what the two sites have with everyone, S_ij - S_i S_j / S: the average product correction."""
    score = score.clone().fill_diagonal_(0)
    mean = score.sum(1) / (len(score) - 1)
    return score - torch.outer(mean, mean) / mean.mean()


def attraction(couplings: Tensor) -> Tensor:
    """How much opposite charges (K, R with D, E) are favoured over equal ones: (sites, sites)."""
    plus, minus = ([LETTERS.index(letter) for letter in letters] for letters in ("KR", "DE"))

    def mean(first: list[int], second: list[int]) -> Tensor:
        return couplings[:, :, first][:, :, :, second].mean((2, 3))

    return (mean(plus, minus) + mean(minus, plus) - mean(plus, plus) - mean(minus, minus)) / 4


@dataclass(frozen=True)
class Ranking:
    """Pairs of sites (n, 2) from the highest score to the lowest, and which of them touch (n,)."""

    pairs: Tensor
    scores: Tensor
    hits: Tensor

    @classmethod
    def of(cls, score: Tensor, near: Tensor) -> Ranking:
        """All pairs at least ``APART`` sites apart."""
        first, second = torch.triu_indices(len(score), len(score), APART)
        order = score[first, second].argsort(descending=True, stable=True)
        first, second = first[order], second[order]
        return cls(torch.stack([first, second], 1), score[first, second], near[first, second])

    def precision(self, count: int) -> float:
        """The share of contacts among the first ``count``."""
        return self.hits[:count].double().mean().item()

    @property
    def chance(self) -> float:
        """The share of contacts among all pairs."""
        return self.hits.double().mean().item()

    def p_value(self, count: int) -> float:
        """The probability of as many contacts, or more, among ``count`` pairs at random."""
        found, every = int(self.hits[:count].sum()), int(self.hits.sum())
        return float(stats.hypergeom.sf(found - 1, len(self.hits), every, count))

    def words(self, count: int) -> str:
        """The first pairs, sites counted from 1, contacts with a star."""
        some = zip(self.pairs[:count].tolist(), self.hits[:count].tolist(), strict=True)
        return ", ".join(f"{i + 1}–{j + 1}{'*' if hit else ''}" for (i, j), hit in some)


def _most_charged(pull: Tensor) -> tuple[int, int]:
    first, second = torch.triu_indices(len(pull), len(pull), APART)
    best = int(pull[first, second].argmax())
    return int(first[best]), int(second[best])


# -- what is written --------------------------------------------------------------------------------------------------


def _tables(record: Record, ranked: dict[str, Ranking], pull: Tensor, near: Tensor) -> None:
    counts = (10, _SITES // 2, _SITES)
    record.table(
        "precision",
        [
            {"score": name, **{f"first_{count}": r.precision(count) for count in counts}, "chance": r.chance}
            for name, r in ranked.items()
        ],
    )
    record.table(
        "pairs",
        [
            {"score": name, "rank": k + 1, "first": i + 1, "second": j + 1, "value": value, "contact": int(hit)}
            for name, r in ranked.items()
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


def _claims(record: Record, train: Tensor, ranked: dict[str, Ranking], pull: Tensor, near: Tensor) -> None:
    half, whole = _SITES // 2, _SITES
    codes = torch.tensor([LETTERS.index(letter) for letter in PIN1])
    most = train.float().mean(0)
    record.claim(
        "the structure's residues are the alignment's columns: Pin1 is in it, W 5, W 28 and P 31 are conserved",
        ", ".join(f"{PIN1[k]} {k + 1} in {most[k, codes[k]]:.0%}" for k in (4, 27, 30)),
        bool((train.argmax(-1) == codes).all(1).any()),
    )
    found = ranked["couplings"]

    def compared(other: str) -> str:
        return "; ".join(
            f"first {count}: {found.precision(count):.2f} against {ranked[other].precision(count):.2f}"
            for count in (half, whole)
        )

    record.claim(
        "the strongest couplings are contacts, far above chance",
        f"{found.precision(half):.2f} of the first {half} (p = {found.p_value(half):.1e}), "
        f"{found.precision(whole):.2f} of the first {whole}, {found.chance:.2f} of all; {found.words(10)}",
        found.p_value(half) < _CERTAIN,
    )
    for other, claimed in (
        ("couplings, all sequences alike", "weighting sequences by their similarity improves the prediction"),
        ("mutual information", "couplings predict contacts better than mutual information of the same sequences"),
    ):
        holds = all(found.precision(count) > ranked[other].precision(count) for count in (half, whole))
        record.claim(claimed, compared(other), holds)
    charged = Ranking.of(pull, near)
    i, j = _most_charged(pull)
    record.claim(
        "where the machine has opposite charges attract each other most, the two sites touch",
        f"sites {i + 1} and {j + 1}, {'a contact' if near[i, j] else 'no contact'}; of the ten strongest attractions "
        f"{charged.precision(10):.2f} are contacts: {charged.words(10)}",
        bool(near[i, j]),
    )


def _figure(ranked: dict[str, Ranking], near: Tensor, couplings: Tensor, charged: tuple[int, int]) -> Figure:
    with style.look():
        figure = Figure(figsize=(11.4, 3.7), layout="constrained")
        where, curve, table = figure.subplots(1, 3, width_ratios=(1, 1, 1.12))
        _map(where, ranked, near)
        drawn = zip(ranked.items(), (style.ACCENT, style.ACCENT, style.SECOND, style.SECOND), strict=True)
        for ((name, found), colour), line in zip(drawn, ("-", ":", "-", ":"), strict=True):
            count = np.arange(1, 2 * _SITES + 1)
            hits = found.hits[: len(count)].double().cumsum(0).numpy()
            curve.plot(count, hits / count, line, color=colour, linewidth=1.4, label=name)
        curve.axhline(next(iter(ranked.values())).chance, color=style.FAINT, linewidth=1, label="chance")
        curve.set(xlabel="pairs, strongest first", ylabel="share of contacts", ylim=(0, 1.02))
        curve.set_title("precision")
        curve.legend(fontsize=7.5)
        _letters(table, couplings, charged)
    return figure


def _map(ax: Axes, ranked: dict[str, Ranking], near: Tensor) -> None:
    """Contacts as squares; the first 31 pairs by couplings above the diagonal, by mutual information below it."""
    ends = (0.5, _SITES + 0.5)
    ax.imshow(near.numpy(), cmap="Greys", vmin=0, vmax=4, origin="lower", extent=(*ends, *ends))
    for name, flipped in (("couplings", False), ("mutual information", True)):
        found = ranked[name]
        pairs = found.pairs[:_SITES].numpy() + 1
        x, y = (pairs[:, 1], pairs[:, 0]) if flipped else (pairs[:, 0], pairs[:, 1])
        colours = [style.ACCENT if hit else style.SECOND for hit in found.hits[:_SITES].tolist()]
        ax.scatter(x, y, s=13, c=colours, zorder=2, linewidths=0)
    ax.set(xlabel="site (below: mutual information)", ylabel="site (above: couplings)", xlim=ends, ylim=ends)
    ax.set_title(f"contacts (grey), first {_SITES} pairs")


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

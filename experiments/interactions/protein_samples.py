"""Samples of a protein family: are the correlations of letters those of the natural sequences?

WW domains (Pfam PF00397, 31 sites). A machine with Gaussian hidden units learns the sequences weighted by similarity.
Chains start from independent sites, so that they remember no sequence. The correlations ⟨x_ia x_jb⟩ - ⟨x_ia⟩⟨x_jb⟩ of
all pairs of sites and letters are compared with those of the weighted sequences by Pearson's r. The criterion is
r ≥ 0.95 with the training sequences for every seed. The data limit r: two halves of the training sequences show how far
a model without error would come. The settings were chosen by the pseudo-likelihood of held-out training sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium import data as datasets
from harmonium import noise, units
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.training import L2, PCD, Linear, Weighted, ZeroSum

from ..judging import Measured, brief, every, jackknife
from ..machines import MachineOptions, Machines, name_by_settings
from ..options import with_options_of
from ..record import Record

GOAL = 0.95
EPOCHS = 20
SEEDS = {"quick": 1, "full": 3}
CHAINS, GROUPS = 1000, 10
WARM_UP, SPACING, TIMES = 300, 20, 12  # sweeps before the first draw and between draws, number of draws
_RATE, _BATCH, _DECAY = 0.005, 500, 0.01
_SHOWN = 20_000  # points in the figure


class Trained(Machines):
    """Machines on sequences of the WW domain."""

    def __init__(self, record: Record, scale: str, **options: Unpack[MachineOptions]) -> None:
        super().__init__(record, scale, "protein-ww", **options)


@with_options_of(Trained)
def run(record: Record, trained: Machines, size: int = 200, seeds: int = 0, chains: int = CHAINS) -> None:
    """Train ``seeds`` machines with ``size`` hidden units, and compare samples of ``chains`` chains with the data."""
    train, test = (datasets.load("protein-ww", split=split) for split in ("train", "test"))
    train = train[: trained.given_rows or None]
    weights = datasets.similarity_weights(train)
    wanted = {
        "training sequences": correlations(moments(train, weights)),
        "test sequences": correlations(moments(test, datasets.similarity_weights(test))),
    }
    half, whole = limits(train, weights, trained.seed)
    record.numbers |= {
        "two halves of the training sequences": half,
        "limit from the training sequences": whole,
        "training and test sequences": pearson(*wanted.values()),
    }
    record.say(f"two halves of the training sequences: r = {half:.3f}; a perfect model would have {whole:.3f}")
    rows, found = [], []
    for seed in range(trained.seed, trained.seed + (seeds or SEEDS[trained.scale])):
        rbm = _train(trained, Weighted(train, weights), tuple(train.shape[1:]), size, seed)
        drawn = draws(rbm, chains, seed)
        own = {name: agreement(drawn, other) for name, other in wanted.items()}
        found.append(own)
        rows += [{"seed": seed, "data": name, "r": r.value, "standard_error": r.error} for name, r in own.items()]
        record.say(f"seed {seed}: " + ", ".join(f"r = {brief(r)} with {name}" for name, r in own.items()))
        if seed == trained.seed:
            record.figure("protein_samples", _figure(wanted["training sequences"], correlations(drawn.mean(0)), seed))
    record.table("agreement", rows)
    against = [one["training sequences"] for one in found]
    record.claim(
        f"correlations of samples agree with those of the training sequences, r ≥ {GOAL}",
        "; ".join(brief(r) for r in against) + f"; a perfect model would have {whole:.3f}",
        every(r.above(GOAL) for r in against),
    )


def _train(machines: Machines, rows: Weighted, shape: tuple[int, ...], size: int, seed: int) -> RBM:
    epochs = machines.given_epochs or EPOCHS
    rbm = RBM(units.Potts(shape), units.Gaussian(size))
    machines.train(
        name_by_settings(machines.data, "gaussian", size, rows=len(rows), epochs=epochs, seed=seed),
        rbm,
        rows,
        words=f"{size} Gaussian hidden units, seed {seed}",
        negative=PCD(5),
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


def moments(rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """Weighted means of x_ia x_jb of one-hot rows (n, sites, letters): (sites, letters, sites, letters)."""
    flat = rows.flatten(1).double()
    share = torch.ones(len(flat), dtype=flat.dtype) if weights is None else weights.double()
    return ((flat * (share / share.sum()).unsqueeze(1)).T @ flat).reshape(*rows.shape[1:], *rows.shape[1:])


def correlations(pairs: Tensor) -> Tensor:
    """⟨x_ia x_jb⟩ - ⟨x_ia⟩⟨x_jb⟩ of all sites i < j and all letters a, b, from the moments: (pairs · letters²,)."""
    sites, letters = pairs.shape[:2]
    mean = pairs.reshape(sites * letters, -1).diagonal().reshape(sites, letters)
    i, j = torch.triu_indices(sites, sites, 1)
    return (pairs[i, :, j] - mean[i].unsqueeze(2) * mean[j].unsqueeze(1)).flatten()


def pearson(first: Tensor, second: Tensor) -> float:
    """Pearson's correlation coefficient of two vectors."""
    return torch.corrcoef(torch.stack([first, second]))[0, 1].item()


def limits(rows: Tensor, weights: Tensor, seed: int) -> tuple[float, float]:
    """r of two random halves of the rows, and r of all rows with the exact correlations that follows from it.

    If both halves have independent errors of the same size, their r is the reliability ρ of one half. That of all rows
    is 2ρ/(1 + ρ), and its square root is the correlation with the exact values (Spearman-Brown).
    """
    order = torch.randperm(len(rows), generator=noise.generator(seed, rows.device))
    parts = [correlations(moments(rows[part], weights[part])) for part in order.tensor_split(2)]
    half = pearson(*parts)
    return half, (2 * half / (1 + half)) ** 0.5


@torch.no_grad()
def draws(rbm: RBM, chains: int, seed: int, warm_up: int = WARM_UP, times: int = TIMES) -> Tensor:
    """Moments of chains from independent sites, averaged over time, for each group of chains: (groups, …)."""
    generator = noise.generator(seed, rbm.device)
    v = rbm.independent(chains, generator)
    total: Tensor | float = 0.0
    for draw in range(times):
        for _ in range(SPACING if draw else warm_up):
            v = rbm.sample_visible(rbm.sample_hidden(v, seed=generator), seed=generator)
        total = total + torch.stack([moments(part) for part in v.tensor_split(min(GROUPS, chains))])
    assert isinstance(total, Tensor)
    return total / times


def agreement(drawn: Tensor, other: Tensor) -> Measured:
    """Pearson's r of the correlations of samples and of data; the error is that of the samples, over their chains."""
    left = [pearson(correlations(torch.cat([drawn[:k], drawn[k + 1 :]]).mean(0)), other) for k in range(len(drawn))]
    return jackknife(pearson(correlations(drawn.mean(0)), other), left)


def _figure(data: Tensor, samples: Tensor, seed: int) -> Figure:
    some = torch.randperm(len(data), generator=noise.generator(seed, data.device))[:_SHOWN]
    points: Sequence[Tensor] = (data[some], samples[some])
    with style.look():
        figure = Figure(figsize=(3.8, 3.7), layout="constrained")
        axes = figure.subplots()
        axes.plot(*points, ".", markersize=2, alpha=0.5, rasterized=True)
        axes.axline((0, 0), slope=1, color="gray", linewidth=0.8)
        axes.set(xlabel="correlation, training sequences", ylabel="correlation, samples", aspect="equal")
        axes.set_title(f"r = {pearson(data, samples):.3f}")
    return figure

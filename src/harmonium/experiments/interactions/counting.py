"""Small machines, state by state: what block Gibbs sampling visits against what the interaction model says."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from scipy import stats
from torch import Tensor

from ... import noise, units
from ...analysis import InteractionModel, all_tuples
from ...errors import NotMixed
from ...machines import RBM
from ...plots import style
from ...units import Unit
from ..record import Record

#: activation function (the mode of a hidden unit given its input): the unit that has it
ACTIVATIONS: dict[str, type[Unit]] = {
    "Linear": units.Gaussian,
    "ReLU": units.ReLU,
    "Step": units.Bernoulli,
    "Exponential": units.Poisson,
}
NONLINEAR = ("ReLU", "Step", "Exponential")
REPEATS = 20
LEAST_P_VALUE = 0.01
_FEWEST = 5.0  # expected visits of a cell of χ²
_SMALLEST_PARTS = 25_600  # chains that run side by side


@dataclass(frozen=True)
class Counted:
    """Frequencies of every state in ``REPEATS`` samples of ``size``, (repeats, states), and ln p of a model, (states,).

    Chains are independent of each other, so that counts are multinomial, and χ² is what it is in the books.
    """

    model: InteractionModel
    log_p: Tensor
    frequencies: Tensor
    size: int
    warnings: tuple[str, ...]

    @property
    def mean(self) -> Tensor:
        """Over the samples: (states,)."""
        return self.frequencies.mean(0)

    @property
    def spread(self) -> Tensor:
        """The standard deviation over the samples, which is the error bar: (states,)."""
        return self.frequencies.std(0)

    @property
    def within_bars(self) -> float:
        """The share of states whose probability is within the error bar about the mean frequency."""
        return ((self.mean - self.log_p.exp()).abs() <= self.spread).double().mean().item()

    def chi_square(self) -> tuple[float, int, float]:
        """χ² of all counts together, its degrees of freedom and p-value; rare states are one cell."""
        total = self.size * len(self.frequencies)
        expected, found = total * self.log_p.exp().numpy(), total * self.mean.numpy()
        rare = expected < _FEWEST
        cells, counts = list(expected[~rare]), list(found[~rare])
        if rare.any():
            cells.append(expected[rare].sum())
            counts.append(found[rare].sum())
        if len(cells) > 1 and cells[-1] < _FEWEST:  # all rare states together are rare still
            last, count = cells.pop(), counts.pop()
            cells[-1] += last
            counts[-1] += count
        chi = float(((np.array(counts) - cells) ** 2 / cells).sum())
        return chi, len(cells) - 1, float(stats.chi2.sf(chi, len(cells) - 1))


@torch.no_grad()
def count(rbm: RBM, size: int, steps: int, seed: int, repeats: int = REPEATS) -> Counted:
    """Draw ``repeats`` samples of ``size`` states, each the end of a chain of its own, and count them."""
    n = rbm.visible.size
    model = InteractionModel.from_rbm(rbm, max_order=n)
    _, log_p = model.distribution()
    generator, powers = noise.generator(seed), 2 ** torch.arange(n)
    chains = copy.deepcopy(rbm).to(torch.float32)  # twice as fast, and exact to far less than a count
    told: list[str] = []
    frequencies = torch.zeros(repeats, 2**n, dtype=torch.float64)
    for repeat in range(repeats):
        left = size
        while left:
            some = min(left, _SMALLEST_PARTS)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", NotMixed)
                states = chains.sample(some, steps=steps, generator=generator)
            told += [str(warning.message) for warning in caught if issubclass(warning.category, NotMixed)]
            frequencies[repeat] += torch.bincount(states.long() @ powers, minlength=2**n)
            left -= some
    return Counted(model, log_p, frequencies / size, size, tuple(dict.fromkeys(told)))


def truncated_distance(model: InteractionModel, log_p: Tensor, order: int) -> float:
    """KL(p | the model without its interactions above ``order``), in nats."""
    kept = {s: term for s, term in model.terms.items() if s <= order}
    _, short = InteractionModel(model.n, kept).distribution()
    return (log_p.exp() * (log_p - short)).sum().item()


def best_pairwise(model: InteractionModel, log_p: Tensor) -> float:
    """KL(p | the nearest pairwise model), in nats: what no choice of fields and couplings explains."""
    p, states = log_p.exp(), model.enumerate().double()
    features = torch.cat([states, states[:, all_tuples(model.n, 2)].prod(2)], 1)
    wanted = p @ features
    given = [model.terms[order][1] for order in (1, 2)]
    parameters = torch.cat(given).clone().requires_grad_()
    optimizer = torch.optim.LBFGS([parameters], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.logsumexp(features @ parameters, 0) - wanted @ parameters
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return (p * (log_p - torch.log_softmax(features @ parameters.detach(), 0))).sum().item()


def multi_information(model: InteractionModel, log_p: Tensor) -> float:
    """KL(p | the product of its marginals), in nats: all that there is to explain beside single variables."""
    p, states = log_p.exp(), model.enumerate().double()
    mean = p @ states
    independent = torch.xlogy(states, mean).sum(1) + torch.xlogy(1 - states, 1 - mean).sum(1)
    return (p * (log_p - independent)).sum().item()


def strengths(model: InteractionModel) -> dict[int, float]:
    """The root mean square interaction of each order."""
    return {order: values.square().mean().sqrt().item() for order, (_, values) in model.terms.items()}


# -- what all three figures write -----------------------------------------------------------------------------------


def claim_agreement(record: Record, name: str, counted: Counted) -> None:
    """The frequencies of a machine against the probabilities of its interaction model."""
    chi, freedom, p_value = counted.chi_square()
    together = f"{len(counted.frequencies)} samples of {counted.size:,}"
    told = f"; {'; '.join(counted.warnings)}" if counted.warnings else ""
    record.claim(
        f"{name}: frequencies of the states match the probabilities of the interaction model",
        f"χ² = {chi:.1f} with {freedom} degrees of freedom, p = {p_value:.3f}, in {together}; "
        f"{counted.within_bars:.1%} of the states within the error bar{told}",
        p_value >= LEAST_P_VALUE,
    )


def state_rows(name: str, counted: Counted) -> list[dict[str, object]]:
    """A row of the table for every state."""
    words = ["".join(str(int(bit)) for bit in row) for row in counted.model.enumerate()]
    columns = zip(words, counted.log_p.exp().tolist(), counted.mean.tolist(), counted.spread.tolist(), strict=True)
    return [{"machine": name, "state": w, "probability": p, "frequency": f, "spread": s} for w, p, f, s in columns]


def write(record: Record, found: dict[str, Counted]) -> dict[str, dict[str, float]]:
    """The tables of states, interactions and a summary of each machine, which is given back."""
    summary = {
        name: {
            "multi_information": multi_information(counted.model, counted.log_p),
            "missed_by_pairs": best_pairwise(counted.model, counted.log_p),
            "missed_by_truncation": truncated_distance(counted.model, counted.log_p, 2),
            **{f"strength_{order}": value for order, value in strengths(counted.model).items()},
        }
        for name, counted in found.items()
    }
    record.table("summary", [{"machine": name, **row} for name, row in summary.items()])
    record.table("states", [row for name, counted in found.items() for row in state_rows(name, counted)])
    record.table("interactions", [row for name, counted in found.items() for row in interaction_rows(name, counted)])
    return summary


def interaction_rows(name: str, counted: Counted) -> list[dict[str, object]]:
    """A row of the table for every interaction."""
    return [
        {"machine": name, "order": order, "variables": "-".join(map(str, chosen)), "interaction": value}
        for order, (tuples, values) in counted.model.terms.items()
        for chosen, value in zip(tuples.tolist(), values.tolist(), strict=True)
    ]


def alignment(ax: Axes, counted: Counted, title: str) -> None:
    """Frequencies with error bars against probabilities, both logarithmic; the interactions by order in an inset."""
    p, mean, spread = counted.log_p.exp().numpy(), counted.mean.numpy(), counted.spread.numpy()
    seen = mean > 0
    low = p[seen].min() if seen.any() else p.min()
    ax.plot([low, p.max()], [low, p.max()], color=style.SECOND, linewidth=1, zorder=3)
    below = np.minimum(spread, 0.999 * mean)  # on a logarithmic axis bars end above zero
    ax.errorbar(p[seen], mean[seen], yerr=[below[seen], spread[seen]], fmt="o", markersize=2, linewidth=0.6,
                color=style.ACCENT, alpha=0.5)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="probability in the interaction model", ylabel="frequency")
    ax.set_ylim(bottom=low / 4)
    ax.set_title(title)
    inset = ax.inset_axes((0.66, 0.1, 0.33, 0.32))
    for order, (_, values) in counted.model.terms.items():
        inset.plot(np.full(len(values), order), values, ".", markersize=2, color=style.INK)
    inset.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    inset.set_xlabel("order", fontsize=7, labelpad=1)
    inset.set_title("interactions", fontsize=7, pad=2)
    inset.tick_params(labelsize=6)
    inset.set_xticks([order for order in counted.model.terms if order % 2 == 0 or counted.model.n < 6])


def largest_beyond(model: InteractionModel, order: int) -> float:
    """The largest magnitude of an interaction above ``order``."""
    return max((values.abs().max().item() for s, (_, values) in model.terms.items() if s > order), default=math.nan)

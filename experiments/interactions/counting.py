"""Small machines, state by state: frequencies in block Gibbs samples against probabilities of the interaction model."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from harmonium import noise, units
from harmonium.errors import NotMixed
from harmonium.interactions import InteractionModel, all_tuples
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.units import Unit

from ..judging import THREE_SIGMA, Measured, Verdict, mean
from ..record import Record

#: activation function (the mode of a hidden unit given its input): unit
ACTIVATIONS: dict[str, type[Unit]] = {
    "Linear": units.Gaussian,
    "ReLU": units.ReLU,
    "Step": units.Bernoulli,
    "Exponential": units.Poisson,
}
NONLINEAR = ("ReLU", "Step", "Exponential")
REPEATS = 20
#: units of the random machines of figures 3 and 4
VISIBLE, HIDDEN = 10, 15
#: states in each of the 20 samples of figures 3 and 4: 25 or 500 times the number of states
SIZES = {"quick": 25_600, "full": 512_000}
LEAST_P_VALUE = 0.01
#: largest p-value of χ² for a model without the higher orders, for an agreement to mean something
CONTROL_P_VALUE = 1e-6
#: strengths "decay rapidly" if each order is at most half as strong as the one before
RAPID = 0.5
#: share of the multi-information that a pairwise model may miss and still represent a machine "very well"
PAIRWISE = 0.1
#: number of random machines over which decay and distance to pairwise models are averaged
MACHINES = 50
#: a machine is frozen if a single state has a larger probability: there is no distribution left to represent
FROZEN = 0.99
_FEWEST = 5.0  # least expected count of a cell of χ²
_SMALLEST_PARTS = 25_600  # chains that run in parallel


@dataclass(frozen=True)
class Counted:
    """Frequencies of every state in ``REPEATS`` samples of ``size``, (repeats, states), and ln p of a model, (states,).

    Chains are independent of each other, so that counts are multinomial, and χ² has its usual distribution.
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
        """The standard deviation over the samples, the error bar: (states,)."""
        return self.frequencies.std(0)

    @property
    def within_bars(self) -> float:
        """The share of states whose probability is within the error bar about the mean frequency."""
        return ((self.mean - self.log_p.exp()).abs() <= self.spread).double().mean().item()

    def chi_square(self) -> tuple[float, int, float]:
        """χ² of the counts of all samples, its degrees of freedom and p-value; rare states share one cell."""
        total = self.size * len(self.frequencies)
        expected, found = total * self.log_p.exp().numpy(), total * self.mean.numpy()
        rare = expected < _FEWEST
        cells, counts = list(expected[~rare]), list(found[~rare])
        if rare.any():
            cells.append(expected[rare].sum())
            counts.append(found[rare].sum())
        if len(cells) > 1 and cells[-1] < _FEWEST:  # all rare states together are still rare
            last, count = cells.pop(), counts.pop()
            cells[-1] += last
            counts[-1] += count
        chi = float(((np.array(counts) - cells) ** 2 / cells).sum())
        return chi, len(cells) - 1, float(stats.chi2.sf(chi, len(cells) - 1))


@torch.no_grad()
def count(rbm: RBM, size: int, steps: int, seed: int, repeats: int = REPEATS) -> Counted:
    """Draw ``repeats`` samples of ``size`` states, each the end of its own chain, and count them."""
    n = rbm.visible.size
    model = InteractionModel.from_rbm(rbm, max_order=n)
    _, log_p = model.distribution()
    generator, powers = noise.generator(seed), 2 ** torch.arange(n)
    chains = copy.deepcopy(rbm).to(torch.float32)  # twice as fast, and accurate to much less than one count
    told: list[str] = []
    frequencies = torch.zeros(repeats, 2**n, dtype=torch.float64)
    for repeat in range(repeats):
        left = size
        while left:
            some = min(left, _SMALLEST_PARTS)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", NotMixed)
                states = chains.sample(some, sweeps=steps, seed=generator)
            told += [str(warning.message) for warning in caught if issubclass(warning.category, NotMixed)]
            frequencies[repeat] += torch.bincount(states.long() @ powers, minlength=2**n)
            left -= some
    return Counted(model, log_p, frequencies / size, size, tuple(dict.fromkeys(told)))


def truncated(model: InteractionModel, order: int) -> Tensor:
    """ln p of the model without its interactions above ``order``: (states,)."""
    return InteractionModel(model.n, {s: term for s, term in model.terms.items() if s <= order}).distribution()[1]


def truncated_distance(model: InteractionModel, log_p: Tensor, order: int) -> float:
    """KL(p | the model without its interactions above ``order``), in nats."""
    return (log_p.exp() * (log_p - truncated(model, order))).sum().item()


def best_pairwise(model: InteractionModel, log_p: Tensor) -> float:
    """KL(p | the nearest pairwise model), in nats: what no fields and couplings explain."""
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
    """KL(p | the product of its marginals), in nats: all that fields alone do not explain."""
    p, states = log_p.exp(), model.enumerate().double()
    mean = p @ states
    independent = torch.xlogy(states, mean).sum(1) + torch.xlogy(1 - states, 1 - mean).sum(1)
    return (p * (log_p - independent)).sum().item()


def strengths(model: InteractionModel) -> dict[int, float]:
    """The root mean square interaction of each order."""
    return {order: values.square().mean().sqrt().item() for order, (_, values) in model.terms.items()}


# -- tables and claims of figures 2 to 4 ------------------------------------------------------------------------------


def judge_agreement(p_value: float, control: float, mixed: bool = True) -> Verdict:
    """Frequencies agree with a model: p ≥ 0.01, while the same counts reject a control with p < 10⁻⁶.

    Args:
        p_value: of χ² against the interaction model.
        control: of χ² against the same model without its higher orders; if this is not rejected, there are too few
            samples, and the claim is open.
        mixed: whether the chains have converged; if not, a disagreement says nothing about the model.

    >>> judge_agreement(0.4, 1e-30), judge_agreement(1e-5, 1e-30), judge_agreement(0.4, 0.2)
    (True, False, None)
    """
    if p_value < LEAST_P_VALUE:
        return False if mixed else None
    return True if control < CONTROL_P_VALUE else None


def claim_agreement(record: Record, name: str, counted: Counted, control: int) -> None:
    """Compare frequencies with the interaction model; without orders above ``control`` the model has to be rejected."""
    chi, freedom, p_value = counted.chi_square()
    short = replace(counted, log_p=truncated(counted.model, control))
    rejected = short.chi_square()[2]
    together = f"{len(counted.frequencies)} samples of {counted.size:,}"
    told = f"; {'; '.join(counted.warnings)}" if counted.warnings else ""
    record.claim(
        f"{name}: frequencies of the states match the probabilities of the interaction model",
        f"χ² = {chi:.1f} with {freedom} degrees of freedom, p = {p_value:.3f}, in {together}; "
        f"without interactions above order {control} p = {rejected:.1g}; "
        f"{counted.within_bars:.1%} of the states within the error bar{told}",
        judge_agreement(p_value, rejected, not counted.warnings),
    )


@dataclass(frozen=True)
class Typical:
    """Random machines of one kind: mean and standard error over the ``machines`` that are not frozen in a single state.

    ``factor`` is the factor of strengths from one order to the next, from order 2 on. ``missed`` is ln of the share of
    the multi-information that the nearest pairwise model misses, ``truncated`` the same for the machine's own fields
    and couplings. These are logarithms because shares differ by orders of magnitude between machines.
    """

    machines: int
    factor: Measured
    missed: Measured
    truncated: Measured

    def row(self) -> dict[str, float]:
        """The columns of a table."""
        columns = {"factor": self.factor, "ln_missed": self.missed, "ln_truncated": self.truncated}
        pairs = {key: v for n, x in columns.items() for key, v in ((n, x.value), (f"{n}_se", x.error))}
        return {"machines": self.machines, **pairs}


@torch.no_grad()
def typical(machine: Callable[[int], RBM], seeds: Sequence[int]) -> Typical:
    """Measure ``machine(seed)`` for every seed."""
    rows = []
    for seed in seeds:
        rbm = machine(seed)
        model = InteractionModel.from_rbm(rbm, max_order=rbm.visible.size)
        log_p = model.distribution()[1]
        if log_p.max() > math.log(FROZEN):
            continue
        information = multi_information(model, log_p)
        missed = best_pairwise(model, log_p), truncated_distance(model, log_p, 2)
        rows.append((decay_factor(strengths(model)), *(log_share(part, information) for part in missed)))
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return Typical(len(rows), *(mean(column) for column in columns))


def seeds(seed: int, machines: int) -> list[int]:
    """Seeds of the random machines that are averaged over."""
    return [seed + 1000 + k for k in range(machines)]


def log_share(part: float, whole: float) -> float:
    """ln(part/whole), at least ln 10⁻¹², which is zero within rounding."""
    return math.log(max(part / whole, 1e-12))


def share_words(log_share: Measured) -> str:
    """A typical share with its interval of one standard error.

    >>> share_words(Measured(math.log(0.1), 0.5))
    '10 % (6.1 to 16 %)'
    >>> share_words(Measured(math.log(1.2), 0.1))
    '120 % (109 to 133 %)'
    """
    shares = (100 * math.exp(log_share.value + k * log_share.error) for k in (-1, 0, 1))
    low, middle, high = (f"{x:.2g}" if x < 99.5 else f"{x:.0f}" for x in shares)
    return f"{middle} % ({low} to {high} %)"


def decay_factor(strength: dict[int, float]) -> float:
    """The factor from one order to the next, by least squares of logarithms, from order 2 on.

    >>> round(decay_factor({1: 7.0, 2: 0.5, 3: 0.1, 4: 0.02}), 9)
    0.2
    """
    orders = [order for order in strength if order > 1]
    slope = np.polyfit(orders, np.log([strength[order] for order in orders]), 1)[0]
    return float(np.exp(slope))


def judge_rapid(factor: Measured) -> Verdict:
    """Strengths decay rapidly: each order is less than half as strong as the one before, by three standard errors."""
    return factor.below(RAPID, THREE_SIGMA)


def judge_pairwise(missed: Measured) -> Verdict:
    """A pairwise model represents a machine very well: it misses less than a tenth of the multi-information.

    Args:
        missed: ln of the share that is missed.
    """
    return missed.below(math.log(PAIRWISE), THREE_SIGMA)


def judge_higher(missed: Measured) -> Verdict:
    """Higher orders are relevant: every pairwise model misses more than a tenth of the multi-information.

    Args:
        missed: ln of the share that the nearest one misses.
    """
    return missed.above(math.log(PAIRWISE), THREE_SIGMA)


def moebius(rbm: RBM) -> dict[int, float]:
    """The largest interaction of each order, from the enumerated probabilities of the machine, without eq. (14).

    >>> from harmonium.couplings import Dense
    >>> from harmonium.units import Bernoulli, Gaussian
    >>> rbm = RBM(Bernoulli(3), Gaussian(1), Dense(3, 1, torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)))
    >>> {order: round(value, 6) for order, value in moebius(rbm).items()}[2]
    6.0
    """
    states, log_p = rbm.distribution()
    n = states.shape[1]
    table = torch.empty_like(log_p)
    table[states.long() @ 2 ** torch.arange(n)] = log_p
    left = inclusion_exclusion(table)
    order = torch.tensor([bin(k).count("1") for k in range(2**n)])
    return {s: left[order == s].abs().max().item() for s in range(1, n + 1)}


def inclusion_exclusion(table: Tensor) -> Tensor:
    """I_S = Σ_{T ⊆ S} (-1)^{|S| - |T|} f(T) for f (2ⁿ, ...) by sets as binary numbers, along the first dimension."""
    left, n = table.clone(), (len(table) - 1).bit_length()
    for k in range(n):
        part = left.view(2 ** (n - 1 - k), 2, 2**k, *table.shape[1:])
        part[:, 1] -= part[:, 0].clone()
    return left


def state_rows(name: str, counted: Counted) -> list[dict[str, object]]:
    """A row of a table for every state."""
    words = ["".join(str(int(bit)) for bit in row) for row in counted.model.enumerate()]
    columns = zip(words, counted.log_p.exp().tolist(), counted.mean.tolist(), counted.spread.tolist(), strict=True)
    return [{"machine": name, "state": w, "probability": p, "frequency": f, "spread": s} for w, p, f, s in columns]


def write(record: Record, found: dict[str, Counted]) -> dict[str, dict[str, float]]:
    """Write tables of states, interactions and a summary of each machine; returns the summary."""
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
    """A row of a table for every interaction."""
    return [
        {"machine": name, "order": order, "variables": "-".join(map(str, chosen)), "interaction": value}
        for order, (tuples, values) in counted.model.terms.items()
        for chosen, value in zip(tuples.tolist(), values.tolist(), strict=True)
    ]


def panels(found: dict[str, Counted]) -> Figure:
    """A panel for each machine."""
    columns = 2 if len(found) == 4 else len(found)
    with style.look():
        figure = Figure(figsize=(4.2 * columns, 3.6 * (len(found) // columns)), layout="constrained")
        grid = np.atleast_1d(figure.subplots(len(found) // columns, columns)).ravel()
        for ax, (name, counted) in zip(grid, found.items(), strict=True):
            alignment(ax, counted, name)
    return figure


def alignment(ax: Axes, counted: Counted, title: str) -> None:
    """Plot frequencies with error bars against probabilities, both logarithmic; an inset has interactions by order."""
    p, mean, spread = counted.log_p.exp().numpy(), counted.mean.numpy(), counted.spread.numpy()
    seen = mean > 0
    low = p[seen].min() if seen.any() else p.min()
    ax.plot([low, p.max()], [low, p.max()], color=style.SECOND, linewidth=1, zorder=3)
    below = np.minimum(spread, 0.999 * mean)  # bars on a logarithmic axis end above zero
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

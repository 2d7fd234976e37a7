"""A table of quality measures of a machine, on training data and on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import likelihood, meanfield, noise
from ..errors import HarmoniumError, NotEnumerable
from ..likelihood import LogPartition
from ..likelihood.estimate import DIRECTIONS
from ..likelihood.rows import row_weights, sums_hidden
from ..machines import RBM, DeepBeliefNetwork, Machine, enumeration

_DRAWS = 10  # samples of the hidden layers of a deep belief network, for each row
_MOST_TERMS, _FEWEST_SITES = 2**27, 8  # hidden units evaluated for the pseudo-likelihood, and sites of each row
MOST_ROWS = 1000  # for the pseudo-likelihood, whose cost grows with rows times units


@dataclass(frozen=True)
class Subject:
    """A machine to evaluate, with rows of the training data (n, *visible) and held-out rows, if there are any."""

    machine: Machine
    train: Tensor
    test: Tensor | None = None
    most_states: int = enumeration.MAX_STATES
    betas: int = 0  # steps of annealed importance sampling; 0 skips it
    most_rows: int = MOST_ROWS  # of the pseudo-likelihood

    @property
    def bounds(self) -> bool:
        """Whether likelihoods are lower bounds: for a stack, and for a deep machine with large hidden layers."""
        if isinstance(self.machine, DeepBeliefNetwork):
            return True
        rows = max(len(self.train), 0 if self.test is None else len(self.test))
        return self.machine.depth > 2 and not sums_hidden(self.machine.machines[0], rows)

    def named(self, name: str) -> str:
        """Return the name of a quantity, which says whether it is a bound."""
        return f"{name} bound" if self.bounds else name


@dataclass(frozen=True)
class LikelihoodRow:
    """One measure on training and test rows. A value is None if it cannot be computed; ``note`` gives the reason."""

    name: str
    unit: str
    train: float | None = None
    test: float | None = None
    note: str = ""
    better: str = "higher"


Measure = Callable[[Subject], list[LikelihoodRow]]


def evaluate(subject: Subject) -> list[LikelihoodRow]:
    """Compute all measures. One that fails for this machine becomes a row with the reason.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> rows = evaluate(Subject(rbm, torch.zeros(3, 4)))
    >>> rows[0].name, round(rows[0].train, 4)
    ('log-likelihood, exact', -2.7726)
    """
    return [row for measure in MEASURES for row in measure(subject)]


def exact(subject: Subject) -> list[LikelihoodRow]:
    """Compute ⟨ln p(v)⟩, or a lower bound for a large deep machine, with ln Z by enumeration."""
    name, unit = f"{subject.named('log-likelihood')}, exact", "nats per row"
    name = f"{name} ln Z" if subject.bounds else name
    try:
        subject.machine.check_normalizable()
        top = subject.machine.machines[-1]
        _, states = enumeration.cheaper_parity(top)
        if states > subject.most_states:
            raise NotEnumerable(f"not enumerated here: the smaller side has {states} states")
        found = likelihood.exact(subject.machine)
    except HarmoniumError as error:
        return [LikelihoodRow(name, unit, note=str(error))]
    train, test = (_log_likelihood(found, rows) for rows in (subject.train, subject.test))
    return [LikelihoodRow(name, unit, train, test, f"ln Z = {found.value:.4f} by enumeration of {states} states")]


def annealed(subject: Subject) -> list[LikelihoodRow]:
    """Estimate ⟨ln p(v)⟩, or a lower bound, with ln Z by annealing in both directions, and check that they agree."""
    if not subject.betas:
        return []
    name, unit = f"{subject.named('log-likelihood')}, annealed", "nats per row"
    options: dict[str, Any] = {
        "betas": subject.betas, "sampling_sweeps": _sampling_sweeps(subject.betas), "seed": 0
    }  # fmt: skip
    try:
        result = likelihood.estimate(subject.machine, subject.train, **options)
        found = result.log_partition
        if found is None and subject.test is not None:  # documents: ln Z depends on their length
            test: float | None = likelihood.estimate(subject.machine, subject.test, **options).value
        else:
            test = None if found is None else _log_likelihood(found, subject.test)
    except HarmoniumError as error:
        return [LikelihoodRow(name, unit, note=str(error))]
    low, high = result.interval
    verdict = "trustworthy" if result.trustworthy else f"not trustworthy: {'; '.join(result.problems)}"
    ends = f"between {low:.2f} and {high:.2f}" if math.isfinite(low) else f"at most {high:.2f}, with no lower bound"
    if result.bound:
        ends = f"{f'at least {low:.2f}, ' * math.isfinite(low)}the bound itself {ends}"
    if found is None:
        how = "ln Z of each length"
    else:
        how = f"gap {found.details['gap']:.2f}" if found.method == DIRECTIONS else f"ln Z from {found.method}"
    note = f"train {ends}, {how}: {verdict}"
    return [LikelihoodRow(name, unit, result.value, test, note)]


def forward(subject: Subject, runs: int = 100) -> list[LikelihoodRow]:
    """Estimate ⟨ln p(v)⟩ with ln Z by annealing in one direction, which is fast, but too optimistic on average."""
    name, unit = f"{subject.named('log-likelihood')}, annealed forward", "nats per row"
    try:
        base = subject.train if len(subject.machine.machines) == 1 else None
        top = subject.machine.machines[-1]
        found = likelihood.ais(top, runs=runs, betas=subject.betas, base=base, check=False, seed=0)
    except HarmoniumError as error:
        return [LikelihoodRow(name, unit, note=str(error))]
    found = replace(found, machine=subject.machine)
    train, test = (_log_likelihood(found, rows) for rows in (subject.train, subject.test))
    note = f"{subject.betas} steps in one direction, too high on average; 'harmonium evaluate' anneals in both"
    return [LikelihoodRow(name, unit, train, test, note)]


def _sampling_sweeps(betas: int) -> int:
    """The sweeps that draw the samples of the reverse direction: a fifth of the annealing steps, at most 1000."""
    return min(1000, max(50, betas // 5))


def pseudo_likelihood(subject: Subject) -> list[LikelihoodRow]:
    """Compute ⟨Σ_i ln p(v_i | v_-i)⟩, in total and per unit, to compare machines of different sizes."""
    name, machine = "pseudo-log-likelihood", subject.machine
    if not isinstance(machine, RBM):
        return []
    try:
        train, test = (_mean_pseudo(machine, rows, subject.most_rows) for rows in (subject.train, subject.test))
    except HarmoniumError as error:
        return [LikelihoodRow(name, "nats per row", note=str(error))]
    sites = machine.visible.sites
    seen = [str(min(len(rows), subject.most_rows)) for rows in (subject.train, subject.test) if rows is not None]
    note = f"on {' and '.join(seen)} rows"
    if _sites(machine, subject.most_rows) < sites:
        note += f", {_sites(machine, subject.most_rows)} random units of each"
    return [
        LikelihoodRow(name, "nats per row", train, test, f"sum over {sites} units; {note}"),
        LikelihoodRow(
            f"{name} per unit", "nats per unit", _divided(train, sites), _divided(test, sites), f"the sum / {sites}"
        ),
    ]


def reconstruction(subject: Subject) -> list[LikelihoodRow]:
    """Compute the mean squared error of ⟨v | ⟨h | v⟩⟩ per value."""
    train, test = (_reconstruction(subject.machine, rows) for rows in (subject.train, subject.test))
    return [
        LikelihoodRow("reconstruction error", "squared, per value", train, test, "between v and ⟨v | ⟨h | v⟩⟩", "lower")
    ]


def free_energy(subject: Subject) -> list[LikelihoodRow]:
    """Compute ⟨F⟩ of training and test rows, and their difference, which grows when the machine overfits."""
    train, test = (_free_energy(subject.machine, rows) for rows in (subject.train, subject.test))
    gap = None if test is None or train is None else test - train
    note = f"{'of the bounds, ' * subject.bounds}held-out minus training rows; grows when the machine overfits"
    return [
        LikelihoodRow(subject.named("free energy"), "nats", train, test, "only differences are meaningful", "neither"),
        LikelihoodRow(
            "free-energy gap", "nats", None, gap, note if gap is not None else "needs held-out rows", "near 0"
        ),
    ]


MEASURES: list[Measure] = [exact, annealed, pseudo_likelihood, reconstruction, free_energy]


@torch.no_grad()
def _mean_pseudo(machine: RBM, rows: Tensor | None, most_rows: int) -> float | None:
    if rows is None:
        return None
    sites, generator = _sites(machine, most_rows), noise.generator(0, machine.device)
    some = None if sites == machine.visible.sites else sites
    found = likelihood.pseudo(machine, rows[:most_rows], sites=some, seed=generator)
    return found.double().mean().item()


def _sites(machine: RBM, most_rows: int) -> int:
    """Return the number of sites of each row for the pseudo-likelihood: all, or fewer for a large machine."""
    bits = max(
        math.log2(part.cardinality or 1) / part.sites for part in machine.visible.parts
    )  # of the states of a site
    cost = most_rows * machine.hidden.size * 2 ** min(bits, 20.0)
    return min(machine.visible.sites, max(_FEWEST_SITES, int(_MOST_TERMS / cost)))


@torch.no_grad()
def _reconstruction(machine: Machine, rows: Tensor | None) -> float | None:
    if rows is None:
        return None
    parts = [(meanfield.reconstruct(machine, part) - part).double().square().sum().item() for part in rows.split(4096)]
    return sum(parts) / rows.numel()


def _free_energy(machine: Machine, rows: Tensor | None) -> float | None:
    """Return the mean free energy, an upper bound of it for a large deep machine, or None if there are no rows."""
    if rows is None:
        return None
    found = row_weights(machine, rows, runs=_DRAWS, generator=noise.generator(0, machine.device))
    return -found.values.mean().item()


def _log_likelihood(found: LogPartition, rows: Tensor | None) -> float | None:
    return None if rows is None else found.log_likelihood(rows, runs=_DRAWS, seed=0).value


def _divided(value: float | None, by: int) -> float | None:
    return None if value is None else value / by

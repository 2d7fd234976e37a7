"""ln p*(v) = ln p(v) + ln Z of rows of data: with the hidden layers, and units that are missing, summed out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import meanfield
from ..checks import count
from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine, DeepBeliefNetwork, Machine, enumeration
from ..machines.chain import ArrayLike
from ..machines.given import Given
from ..machines.kernel import log_weight
from ..machines.partial import PartialRows, log_marginal, observed_sites
from ..sampling.annealing import anneal
from ..sampling.path import Path, beta_grid, in_fields
from ..units import Unit
from ..units.base import per_row
from .weights import Weights

_CHUNK = 4096
_ELEMENTS = 2**22  # rows times hidden states at once
_STATES = 8192  # rows times runs that are annealed at once
_PARTIAL_ROWS = 1024  # rows with missing units that are summed at once
_ITERATIONS = 20  # of mean field, for the start of an annealing
HIDDEN = ("naive", "tap", "annealing")


@dataclass(frozen=True)
class RowWeights:
    """ln p* of rows.

    Attributes:
        values: ln p* of each row (n,) in float64.
        errors: standard errors of ``values`` (n,): of a sampled sum, or 0.
        bound: whether ``values`` are lower bounds.
        baseline: mean log-likelihood of independent units with the means of the rows.
    """

    values: Tensor
    errors: Tensor
    bound: bool = False
    baseline: float | None = None

    @property
    def error(self) -> float:
        """Standard error of the mean of ``values``, for these rows."""
        return self.errors.norm().item() / len(self.errors)


@torch.no_grad()
def row_weights(
    machine: Machine,
    data: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    hidden: str = "naive",
    runs: int = 20,
    betas: int | Sequence[float] = 200,
    generator: Generator | None = None,
) -> RowWeights:
    """Return ln p* of every row of ``data`` (n, *visible); :meth:`LogPartition.log_likelihood` has the arguments.

    >>> row_weights(RBM(3, 2), torch.zeros(1, 3)).values  # zero weights: 2 ln 2
    tensor([1.3863], dtype=torch.float64)
    """
    if hidden not in HIDDEN:
        raise unknown("hidden", hidden, HIDDEN)
    if count("runs", runs) < 1:
        raise InvalidOption(f"runs: expected at least one, found {runs}")
    if mask is not None:
        return _missing(machine, data, mask, runs, betas, generator)
    rows = machine.checked_states(data)
    baseline = independent_units(machine.visible, rows).mean().item()
    if len(machine.machines) > 1:
        assert isinstance(machine, DeepBeliefNetwork)
        values, errors = sampled(machine, rows, runs, generator)
        return RowWeights(values, errors, bound=True, baseline=baseline)
    machine = machine.machines[0]
    summed = machine.depth == 2 or sums_hidden(machine, len(rows))
    if hidden == "annealing" and not summed:
        weights = annealed(machine, PartialRows(rows, torch.ones_like(rows, dtype=torch.bool)), runs, betas, generator)
        return RowWeights(weights.log_mean, weights.standard_error, baseline=baseline)
    values = hidden_sums(machine, rows) if summed else _in_parts(rows, lambda part: _MEAN_FIELDS[hidden](machine, part))
    return RowWeights(values, torch.zeros_like(values), bound=hidden == "naive" and not summed, baseline=baseline)


def _missing(
    machine: Machine,
    data: ArrayLike,
    mask: ArrayLike,
    runs: int,
    betas: int | Sequence[float],
    generator: Generator | None,
) -> RowWeights:
    """ln p*(v_obs) = ln Σ_missing p*(v) of every row: exact with few hidden states, otherwise annealed."""
    if len(machine.machines) > 1:
        raise InvalidOption(f"mask: expected a Boltzmann machine, found {type(machine).__name__}")
    double = copy.deepcopy(machine.machines[0]).double()
    rows = _partial_rows(double, data, mask)
    complete = rows.mask.flatten(1).all(1)
    values, errors = torch.zeros(2, len(rows), dtype=torch.float64)
    if isinstance(double, RBM) and enumeration.enumerable(double, parity=1):
        parts = torch.arange(len(rows)).split(_PARTIAL_ROWS)
        values = torch.cat([log_marginal(double, rows.rows(index)) for index in parts])
    else:
        left = complete.logical_not() if double.depth == 2 else torch.ones_like(complete)
        if not bool(left.all()):
            values[~left] = hidden_sums(double, rows.values[~left])
        if bool(left.any()):
            weights = annealed(double, rows.rows(left), runs, betas, generator)
            values[left], errors[left] = weights.log_mean, weights.standard_error
    whole = independent_units(double.visible, rows.values).mean().item() if bool(complete.all()) else None
    return RowWeights(values, errors, baseline=whole)


def mean_free_energy(machine: Machine, data: ArrayLike) -> float:
    """Return the mean free energy ⟨F(v)⟩ of ``data``, or an upper bound of it; the log-likelihood is -⟨F⟩ - ln Z.

    >>> import harmonium as hm
    >>> round(mean_free_energy(hm.RBM(3, 2), torch.zeros(5, 3)), 6)
    -1.386294
    """
    return -row_weights(machine, data).values.mean().item()


@torch.no_grad()
def independent_units(unit: Unit, rows: Tensor) -> Tensor:
    """ln p of rows (n, *shape) for independent units that are fitted to these rows: (n,) in float64.

    >>> independent_units(RBM(2, 1).visible, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([-1.3863, -1.3863], dtype=torch.float64)
    """
    apart = copy.deepcopy(unit).double()
    apart.initialize_from(rows.double())
    apart = apart.conserving(rows.double())

    def log_p(part: Tensor) -> Tensor:
        return per_row(apart.log_weight(part)) - per_row(apart.conserving(part).log_partition(torch.zeros_like(part)))

    return _in_parts(rows.double(), log_p)


def _in_parts(rows: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The values of ``function`` for all rows, some thousand at a time: (n,) in float64."""
    return torch.cat([function(part).double() for part in rows.split(_CHUNK)])


# -- hidden layers that are summed out, or approximated by mean field -------------------------------------------------


def naive_bound(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    """Lower bounds of ln p* of rows by naive mean field of the hidden layers, valid even without convergence: (n,).

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> naive_bound(deep, torch.zeros(1, 3))  # zero weights: 3 ln 2
    tensor([2.0794])
    """
    return -meanfield.hidden_given(machine, rows).free_energy


def _tap_approximation(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    return -meanfield.tap(machine, clamped=rows).free_energy


_MEAN_FIELDS = {"naive": naive_bound, "tap": _tap_approximation}


def sums_hidden(machine: BoltzmannMachine, rows: int) -> bool:
    """Return whether the hidden layers of a deep machine have few enough states for a sum over them for each row."""
    most = min(enumeration.EXACT_STATES_PER_ROW, enumeration.MAX_STATES // max(1, rows))
    return machine.depth > 2 and enumeration.enumerable(_hidden_part(machine), most)


@torch.no_grad()
def hidden_sums(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    """Return ln Σ_h p*(v, h) of every row of an RBM, or of a small deep machine: (n,) in float64.

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> hidden_sums(deep, torch.zeros(1, 3))  # zero weights: 3 ln 2
    tensor([2.0794], dtype=torch.float64)
    """
    if machine.depth == 2:
        return _in_parts(rows, lambda part: log_weight(machine, [part, None]))
    double = copy.deepcopy(machine).double()
    rows, hidden = rows.double(), _hidden_part(double)
    up = double.couplings[0].up(rows)
    total = torch.full((len(rows),), -math.inf, dtype=torch.float64, device=rows.device)
    for state, parity in enumeration.states(hidden):
        total = torch.logaddexp(total, _summed_over(hidden, state, parity, up))
    return total + per_row(double.visible.log_weight(rows))


def _summed_over(hidden: BoltzmannMachine, state: list[Tensor | None], parity: int, up: Tensor) -> Tensor:
    """Return ln Σ e^{-E} over some states of the hidden layers of one parity, for every field ``up`` on the first."""
    first = state[0]
    if first is None:  # the first hidden layer is summed out with the field from both of its neighbors
        field = hidden.field(0, state)
        each = (log_weight(hidden, state, summed=0, dtype=torch.float64, fields={0: field + one}) for one in up)
        return torch.stack([torch.logsumexp(values, 0) for values in each])
    own = log_weight(hidden, state, summed=1 - parity, dtype=torch.float64)
    parts = up.flatten(1).split(max(1, _ELEMENTS // len(own)))
    return torch.cat([torch.logsumexp(part @ first.flatten(1).T + own, 1) for part in parts])


def _hidden_part(machine: BoltzmannMachine) -> BoltzmannMachine:
    """Return the hidden layers of a deep machine as a machine of their own."""
    return BoltzmannMachine(*copy.deepcopy((list(machine.layers[1:]), list(machine.couplings[1:]))))


# -- deep belief networks ----------------------------------------------------------------------------------------------


def sampled(network: DeepBeliefNetwork, rows: Tensor, n: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The variational bound of ln p* of rows from ``n`` samples of the hidden layers, and its standard error: (n,).

    The errors are infinite for a single sample.
    """
    draws = torch.stack([_in_parts(rows, lambda part: sampled_bound(network, part, generator)) for _ in range(n)])
    errors = draws.std(0) / math.sqrt(n) if n > 1 else torch.full_like(draws[0], math.inf)
    return draws.mean(0), errors


@torch.no_grad()
def sampled_bound(network: DeepBeliefNetwork, v: Tensor, generator: Generator | None = None) -> Tensor:
    """Return one sample of the variational bound of ln p* of each row: (n, *visible) -> (n,) in float64.

    The bound is ln p(v) ≥ ⟨ln p(v|h_1) + … + ln p*(h_{L-1})⟩ - ln Z + H(q), with hidden states from the recognition
    distribution q(h_1|v) q(h_2|h_1) … and p*/Z the marginal distribution of the top machine (Hinton et al. 2006;
    Salakhutdinov & Murray 2008). Machine k has both conditional distributions, and with its free energies F_k of
    visible and F̃_k of hidden states

        ln p_k(x|y) - ln q_k(y|x) = F̃_k(y) - F_k(x).

    The bound is therefore -⟨F⟩ - ln Z with F = F_1(v) - F̃_1(h_1) + F_2(h_1) - … + F_L(h_{L-1}), for any units. If
    machine 2 is the transpose of machine 1, F_2 = F̃_1 and the bound is the exact log-likelihood of machine 1. Hidden
    units that are pooled contribute -ln r(h) to F, where r(h) is the probability of h given its pooled state.

    >>> network = DeepBeliefNetwork.of([3, 2, 4])
    >>> sampled_bound(network, torch.zeros(2, 3))  # zero weights: 2 ln 2 - 3 ln 2 + 4 ln 2
    tensor([2.0794, 2.0794], dtype=torch.float64)
    """
    total = torch.zeros(len(v), dtype=torch.float64, device=network.device)
    for k, machine in enumerate(network.machines):
        total -= machine.free_energy(v, check=False).double()
        if k + 1 < len(network.machines):
            h = machine.sample_hidden(v, seed=generator)
            total += (machine.hidden_free_energy(h) + machine.hidden.log_unpool(h)).double()
            v = network.upward(k, h)
    return total


# -- rows with missing units, and layers that cannot be summed out ----------------------------------------------------


def _partial_rows(machine: BoltzmannMachine, data: ArrayLike, mask: ArrayLike) -> PartialRows:
    """The rows in float64, with zeros at missing units; raise unless the observed values are in the support."""
    given = Given.checked(machine, data, mask)
    assert given is not None
    rows = PartialRows.of(given.values.double(), machine.visible, given.mask)
    machine.visible.check(rows.fill(_any_state(machine, len(rows)).double()), "data")
    return rows


def _any_state(machine: BoltzmannMachine, n: int) -> Tensor:
    """Valid visible states (n, *visible)."""
    return machine.visible.mode(torch.zeros(n, *machine.visible.shape, dtype=machine.dtype, device=machine.device))


def annealed(
    machine: BoltzmannMachine,
    rows: PartialRows,
    runs: int,
    betas: int | Sequence[float],
    generator: Generator | None,
) -> Weights:
    """Estimates of p*(v_obs) of rows (runs, n) by annealed importance sampling of all other units (Neal 2001).

    The base has no couplings; its units are in the mean fields of the machine given the row. Observed units stay fixed.
    The mean of the weights is p*(v_obs), for any number of layers and of missing units.
    """
    schedule, index = beta_grid(betas), torch.arange(len(rows))
    parts = index.split(max(1, _STATES // runs))
    return Weights(torch.cat([_anneal(machine, rows.rows(part), runs, schedule, generator) for part in parts], 1))


def _anneal(
    machine: BoltzmannMachine, rows: PartialRows, runs: int, schedule: Sequence[float], generator: Generator | None
) -> Tensor:
    """Log-weights (runs, n) in float64."""
    fields = [field.repeat(runs, *(1 for _ in field.shape[1:])) for field in _mean_fields(machine, rows)]
    several = rows.rows(torch.arange(len(rows)).repeat(runs))
    base = in_fields(machine, fields)
    zero = [torch.zeros_like(field) for field in fields]
    sites, visible = observed_sites(base.visible, several.mask), base.visible
    free = torch.where(sites, 0.0, visible.log_partition(zero[0]).reshape(len(sites), -1)).sum(1)
    start = free.double() + several.log_weight(visible)
    for unit, x in zip(base.layers[1:], zero[1:], strict=True):
        start = start + per_row(unit.log_partition(x)).double()
    state = [unit.sample(x, generator=generator) for unit, x in zip(base.layers, zero, strict=True)]
    state[0] = several.fill(state[0])
    held = {0: True if bool(several.mask.all()) else several.mask}
    weights, _ = anneal(Path(machine, base), state, schedule, generator, held=held)
    return (start + weights).view(runs, -1)


def _mean_fields(machine: BoltzmannMachine, rows: PartialRows) -> list[Tensor]:
    """The fields (n, *shape) on all layers in naive mean field given the observed units."""
    x = [rows.fill(_any_state(machine, len(rows)))]
    for unit, coupling in zip(machine.layers[1:], machine.couplings, strict=True):
        x.append(unit.mean(coupling.up(x[-1])))
    for _ in range(_ITERATIONS):
        for k in (*range(1, machine.depth, 2), *range(0, machine.depth, 2)):
            mean = machine.layer(k).mean(machine.field(k, x))
            x[k] = mean if k else rows.fill(mean)
    return [machine.field(k, x) for k in range(machine.depth)]

"""ln p*(v) = ln p(v) + ln Z of rows of data: with the hidden layers, and units that are missing, summed out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import meanfield
from ..checks import count
from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine, DeepBeliefNetwork, Machine, enumeration
from ..machines.chain import ArrayLike
from ..machines.given import Given
from ..machines.kernel import half_sweep, log_weight
from ..machines.partial import PartialRows, log_marginal, observed_sites
from ..sampling.path import Path, beta_grid
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
        return _partial_rows(machine, data, mask, runs, betas, generator)
    rows = machine.checked_states(data)
    baseline = independent_units(machine.visible, rows).mean().item()
    if len(machine.machines) > 1:
        assert isinstance(machine, DeepBeliefNetwork)
        values, errors = sampled(machine, rows, runs, generator)
        return RowWeights(values, errors, bound=True, baseline=baseline)
    machine = machine.machines[0]
    summed = machine.depth == 2 or sums_hidden(machine, len(rows))
    if hidden == "annealing" and not summed:
        weights = _by_annealing(machine, rows, runs, betas, generator)
        return RowWeights(weights.log_mean, weights.standard_error, baseline=baseline)
    values = hidden_sums(machine, rows) if summed else _in_parts(rows, lambda part: _MEAN_FIELDS[hidden](machine, part))
    return RowWeights(values, torch.zeros_like(values), bound=hidden == "naive" and not summed, baseline=baseline)


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


# -- annealing of the hidden layers of a deep machine, for each row ---------------------------------------------------


def _by_annealing(
    machine: BoltzmannMachine,
    rows: Tensor,
    runs: int,
    betas: int | Sequence[float],
    generator: Generator | None,
) -> Weights:
    """Estimates of p* (runs, n) by annealed importance sampling of the hidden layers (Neal 2001).

    The annealing starts without the couplings between hidden layers, where p* is known, and increases them to their
    values, with v fixed. The mean of the weights is p*(v).
    """
    schedule, parts = beta_grid(betas), []
    for part in rows.split(max(1, _STATES // runs)):
        path = Path(machine, _separate(machine, part))
        weights = _anneal_hidden(path, part.repeat(runs, *(1 for _ in part.shape[1:])), schedule, generator)
        parts.append(weights.view(runs, len(part)))
    return Weights(torch.cat(parts, 1))


def _separate(machine: BoltzmannMachine, rows: Tensor) -> BoltzmannMachine:
    """A copy without couplings between hidden layers, whose biases contain the mean fields of these couplings."""
    a = meanfield.naive(machine, clamped=rows, damping=0.0, iterations=5).magnetizations
    apart = copy.deepcopy(machine)
    for k in range(1, len(machine.couplings)):
        coupling = machine.couplings[k]
        apart.layers[k].shift_bias(coupling.down(a[k + 1]).mean(0))
        apart.layers[k + 1].shift_bias(coupling.up(a[k]).mean(0))
        apart.couplings[k].weight.zero_()
    return apart


def _anneal_hidden(path: Path, visible: Tensor, schedule: Sequence[float], generator: Generator | None) -> Tensor:
    """Return the log-weights (n,) in float64: ln p*(v) of the base and the gains of all steps."""
    machine, base = path.target, path.base
    held = machine.couplings[0].up(visible)
    fields = [held, *(torch.zeros(len(visible), *unit.shape).to(held) for unit in machine.layers[2:])]
    weights = per_row(base.visible.log_weight(visible)).double()
    state = [visible]
    for unit, field in zip(base.layers[1:], fields, strict=True):
        weights += per_row(unit.log_partition(field)).double()
        state.append(unit.sample(field, generator=generator))
    before = _Clamped(path, held, schedule[0])
    for beta in schedule[1:]:
        seen = {k: before.response(k, state) for k in path.odd}
        now = _Clamped(path, held, beta, seen)
        weights += log_weight(now, state, dtype=torch.float64)
        weights -= log_weight(_Clamped(path, held, before.beta, seen), state, dtype=torch.float64)
        if beta < schedule[-1]:
            half_sweep(now, state, 1, generator)
            now = _Clamped(path, held, beta)
            half_sweep(now, state, 0, generator, held={0: True})
        before = now
    return weights


class _Clamped:
    """The machine at β of a path (:class:`harmonium.machines.kernel.Layers`) with a fixed visible layer.

    β scales the couplings between hidden layers. ``held`` is the field of the visible layer; ``seen`` are the
    responses of the other layers at β = 1, if they are already known.
    """

    def __init__(self, path: Path, held: Tensor, beta: float, seen: Mapping[int, Tensor] | None = None) -> None:
        self.path, self.held, self.beta, self._seen = path, held, beta, seen or {}

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.path.target.depth

    def layer(self, layer: int) -> Unit:
        """The units of a layer at β."""
        return self.path.unit(layer, self.beta)

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a hidden layer."""
        field = self.beta * (self._seen[layer] if layer in self._seen else self.response(layer, state))
        return field + self.held if layer == 1 else field

    def response(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field of the other hidden layers on a hidden layer at β = 1."""
        couplings, total = self.path.target.couplings, torch.zeros((), dtype=self.held.dtype, device=self.held.device)
        if layer > 1:
            total = total + couplings[layer - 1].up(state[layer - 1])  # type: ignore[arg-type]
        if layer < len(couplings):
            total = total + couplings[layer].down(state[layer + 1])  # type: ignore[arg-type]
        return total


# -- rows with missing units -------------------------------------------------------------------------------------------


def _partial_rows(
    machine: Machine,
    data: ArrayLike,
    mask: ArrayLike,
    runs: int,
    betas: int | Sequence[float],
    generator: Generator | None,
) -> RowWeights:
    """ln p*(v_obs) = ln Σ_missing p*(v) of every row: exact with few hidden states, otherwise annealed (Neal 2001)."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"machine: expected an RBM (two layers), found {type(machine).__name__}")
    given = Given.checked(machine, data, mask)
    assert given is not None
    double = copy.deepcopy(machine).double()
    rows = PartialRows.of(given.values.double(), double.visible, given.mask)
    double.visible.check(rows.fill(_any_state(double, len(rows))), "data")
    complete = observed_sites(double.visible, rows.mask).all(1)
    values, errors = torch.empty(len(rows), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
    if enumeration.enumerable(machine, parity=1):
        values = torch.cat(
            [log_marginal(double, rows.rows(index)) for index in torch.arange(len(rows)).split(_PARTIAL_ROWS)]
        )
    else:
        values[complete] = -double.free_energy(rows.values[complete])
        incomplete = torch.nonzero(~complete).flatten()
        for index in incomplete.split(max(1, _STATES // runs)) if len(incomplete) else ():
            weights = Weights(_anneal_missing(double, rows.rows(index), runs, beta_grid(betas), generator))
            values[index], errors[index] = weights.log_mean, weights.standard_error
    whole = independent_units(double.visible, rows.values).mean().item() if bool(complete.all()) else None
    return RowWeights(values, errors, baseline=whole)


def _any_state(rbm: RBM, n: int) -> Tensor:
    """A valid state for the units that are missing."""
    return rbm.visible.mode(torch.zeros(n, *rbm.visible.shape, dtype=rbm.dtype, device=rbm.device))


def _anneal_missing(
    rbm: RBM, rows: PartialRows, runs: int, schedule: list[float], generator: Generator | None
) -> Tensor:
    """Log-weights (runs, n), the logarithms of unbiased estimates of p*(v_obs).

    At β the missing units v and the hidden units have the weight e^{-U(v) - U(h) + v·(βWh + (1-β)a) + h·(c + βWᵀv)},
    where a = W⟨h⟩ and c contains the fields of the observed units and (1-β)Wᵀ⟨v⟩, with the means of mean field. At
    β = 0 the units are independent, and at β = 1 this is the machine given the observed units.
    """
    layer, hidden, coupling = rbm.visible, rbm.hidden, rbm.coupling
    sites, missing = observed_sites(layer, rows.mask), ~rows.mask
    v = rows.fill(_any_state(rbm, len(rows)))
    for _ in range(_ITERATIONS):
        h = hidden.mean(coupling.up(v))
        v = rows.fill(layer.mean(coupling.down(h)))
    a, mean = coupling.down(h), v * missing
    base = per_row(torch.where(sites, 0.0, layer.log_partition(a).reshape(len(sites), -1)))
    base = base + per_row(hidden.log_partition(coupling.up(v))) + rows.log_weight(layer)

    def repeated(x: Tensor) -> Tensor:
        return x.repeat(runs, *(1 for _ in x.shape[1:]))

    a, sites, missing = repeated(a), repeated(sites), repeated(missing)
    known, constant = repeated(coupling.up(rows.values)), repeated(coupling.up(mean))
    weights, v = repeated(base), torch.where(missing, layer.sample(a, generator=generator), 0.0)

    def weight_at(beta: float, up: Tensor) -> Tensor:
        own = layer.log_weight(v).reshape(len(v), -1)
        tilt = per_row(torch.where(sites, 0.0, own)) + (1 - beta) * per_row(a * v)
        return tilt + per_row(hidden.log_partition(known + (1 - beta) * constant + beta * up))

    before = schedule[0]
    for beta in schedule[1:]:
        up = coupling.up(v)
        weights = weights + weight_at(beta, up) - weight_at(before, up)
        h = hidden.sample(known + (1 - beta) * constant + beta * up, generator=generator)
        drawn = layer.sample(beta * coupling.down(h) + (1 - beta) * a, generator=generator)
        v, before = torch.where(missing, drawn, 0.0), beta
    return weights.view(runs, -1)

"""Log-likelihood of the observed units of rows with missing values."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import RBM, enumeration
from ..machines.chain import ArrayLike
from ..machines.given import Given
from ..machines.partial import PartialRows, log_marginal, observed_sites
from ..noise import Seed
from ..sampling.path import beta_grid
from ..shown import brief
from ..units.base import per_row
from .clamped import ClampedEstimate

_ROWS = 1024  # rows whose marginals are computed at once
_STATES = 8192  # rows times runs that are annealed at once
_ITERATIONS = 20  # of mean field, for the start of the annealing


@brief
@dataclass(frozen=True)
class ObservedLikelihood:
    """ln p(v_obs) of every row, with missing units summed out.

    Attributes:
        log_probabilities: (n,) in float64.
        log_partition: ln Z.
        exact: whether the sums over missing units are exact. If not, they come from annealing, and ln p(v_obs) is too
            small on average (Jensen's inequality).
        standard_errors: (n,), of the annealing; zero if exact.
    """

    log_probabilities: Tensor
    log_partition: float
    exact: bool
    standard_errors: Tensor

    @property
    def log_likelihood(self) -> float:
        """Mean of ln p(v_obs) over the rows, in nats."""
        return self.log_probabilities.mean().item()

    @property
    def standard_error(self) -> float:
        """Standard error of ``log_likelihood`` from the annealing, for these rows."""
        return self.standard_errors.square().sum().sqrt().item() / len(self.standard_errors)


@torch.no_grad()
def observed(
    rbm: RBM,
    data: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    log_partition: float | None = None,
    runs: int = 20,
    betas: int = 200,
    seed: Seed = None,
) -> ObservedLikelihood:
    """Compute ln p(v_obs) = ln Σ_missing p(v) of every row.

    The sum is exact if no unit is missing, or if the hidden layer has at most 2^20 states (20 Bernoulli units), for any
    number of missing units of any type. Otherwise it is estimated by annealed importance sampling (Neal 2001) from the
    mean-field distribution of missing and hidden units, for each row.

    Args:
        rbm: a restricted Boltzmann machine.
        data: rows (n, *visible); values of missing units are ignored.
        mask: boolean, ``True`` for observed units; by default ``True`` where ``data`` is not NaN.
        log_partition: ln Z, for example from :func:`estimate`; by default by enumeration.
        runs: number of annealing runs for each row.
        betas: number of steps of the annealing.
        seed: seed of the annealing.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> found = hm.likelihood.observed(rbm, torch.tensor([[1.0, 0.0, torch.nan]]))
    >>> found.log_probabilities.exp(), found.exact
    (tensor([0.2500], dtype=torch.float64), True)
    """
    if not isinstance(rbm, RBM):
        raise InvalidOption(f"machine: expected an RBM (two layers), found {type(rbm).__name__}")
    if count("runs", runs) < 1:
        raise InvalidOption(f"runs: expected at least one, found {runs}")
    given = Given.checked(rbm, data, mask)
    if given is None:
        raise InvalidOption("data: expected rows, found None")
    log_z = rbm.log_partition() if log_partition is None else float(log_partition)
    double = copy.deepcopy(rbm).double()
    rows = PartialRows.of(given.values.double(), double.visible, given.mask)
    double.visible.check(rows.fill(_any_state(double, len(rows))), "data")
    sums = enumeration.enumerable(rbm, parity=1)
    complete = observed_sites(double.visible, rows.mask).all(1)
    found, errors = torch.empty(len(rows), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)
    exact = sums or bool(complete.all())
    if sums:
        found = torch.cat([log_marginal(double, rows.rows(index)) for index in torch.arange(len(rows)).split(_ROWS)])
    else:
        found[complete] = -double.free_energy(rows.values[complete])
        generator, schedule = noise.generator(seed, rbm.device), beta_grid(betas)
        incomplete = torch.nonzero(~complete).flatten()
        for index in incomplete.split(max(1, _STATES // runs)) if len(incomplete) else ():
            estimate = ClampedEstimate(_anneal(double, rows.rows(index), runs, schedule, generator))
            found[index], errors[index] = estimate.rows, estimate.standard_errors
    return ObservedLikelihood(found - log_z, log_z, exact, errors)


def _any_state(rbm: RBM, n: int) -> Tensor:
    """A valid state for the units that are missing."""
    return rbm.visible.mode(torch.zeros(n, *rbm.visible.shape, dtype=rbm.dtype, device=rbm.device))


def _anneal(rbm: RBM, rows: PartialRows, runs: int, schedule: list[float], generator: Generator | None) -> Tensor:
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

    def log_weight(beta: float, up: Tensor) -> Tensor:
        own = layer.log_weight(v).reshape(len(v), -1)
        tilt = per_row(torch.where(sites, 0.0, own)) + (1 - beta) * per_row(a * v)
        return tilt + per_row(hidden.log_partition(known + (1 - beta) * constant + beta * up))

    before = schedule[0]
    for beta in schedule[1:]:
        up = coupling.up(v)
        weights = weights + log_weight(beta, up) - log_weight(before, up)
        h = hidden.sample(known + (1 - beta) * constant + beta * up, generator=generator)
        drawn = layer.sample(beta * coupling.down(h) + (1 - beta) * a, generator=generator)
        v, before = torch.where(missing, drawn, 0.0), beta
    return weights.view(runs, -1)

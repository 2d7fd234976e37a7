"""Models of interacting binary variables: p(x) ∝ exp(Σ_i I_i x_i + Σ_{i<j} I_ij x_i x_j + …).

Bulso & Roudi (2021), eq. (3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..checks import whole
from ..errors import InvalidData, InvalidOption, NotEnumerable, unknown
from ..machines import RBM
from ..noise import Seed
from . import construction as construction
from .comparison import InteractionComparison
from .differences import chunks
from .n_body_formula import n_body
from .sites import Sites
from .terms import Terms, merged
from .tuples import all_tuples, check_order, check_tuples

_MOST_VARIABLES = 24  # limit of enumeration: 2^24 states
VALUES = {"binary": (0.0, 1.0), "spin": (-1.0, 1.0)}


class InteractionModel:
    """Distribution p(x) ∝ exp Σ_S I_S Π_{i∈S} x_i over ``n`` binary variables. All numbers are float64.

    Args:
        n: number of variables.
        terms: the interactions of each order: a pair of tuples (m, order) and values (m,), or a dense symmetric tensor
            (n, …, n), of which only entries with different indices are used.
        variables: ``"binary"`` for values {0, 1}, ``"spin"`` for ±1.

    >>> model = InteractionModel(3, {3: ([[0, 1, 2]], [1.0])})
    >>> states, log_p = model.distribution()
    >>> log_p[-1] - log_p[0]  # only the state 111 differs
    tensor(1., dtype=torch.float64)
    """

    def __init__(self, n: int, terms: Mapping[int, Any], *, variables: str = "binary") -> None:
        self.n = whole("n", n)
        if self.n < 1:
            raise InvalidOption(f"n: expected at least one variable, found {n}")
        if variables not in VALUES:
            raise unknown("kind of variables", variables, VALUES)
        self.variables = variables
        self.terms: Terms = {}
        for order in sorted(terms):
            order = check_order(order, self.n)
            self.terms[order] = _term(self.n, order, terms[order])

    @classmethod
    def from_rbm(cls, rbm: RBM, max_order: int, **options: Any) -> InteractionModel:
        """Compute all interactions of an RBM up to ``max_order``; ``options`` are those of :func:`n_body`.

        Visible units with values {0, 1} give a binary model, other units with two states a spin model. If ``max_order``
        is the number of visible units, the model is exactly the distribution of the visible layer.
        """
        sites = Sites.of(rbm)
        if sites.states != 2:
            raise InvalidOption(f"interaction model: expected visible units with two states, found {sites.states}")
        gauge = sites.gauge(options.get("gauge"))
        terms = {}
        for order in range(1, check_order(max_order, sites.number) + 1):
            tuples = all_tuples(sites.number, order)
            if order == 2:  # all pairs at once are much faster than one by one
                terms[order] = (tuples, n_body(rbm, order, **options).cpu()[tuple(tuples.T)])
            else:
                terms[order] = (tuples, n_body(rbm, order, tuples, **options).cpu())
        return cls(sites.number, terms, variables="binary" if gauge == "lattice-gas" else "spin")

    def __repr__(self) -> str:
        parts = ", ".join(f"{len(values)} of order {order}" for order, (_, values) in self.terms.items())
        return f"InteractionModel({self.n} {self.variables} variables: {parts or 'no interactions'})"

    @property
    def max_order(self) -> int:
        """Largest order that has interactions; 0 if there are none."""
        return max((order for order, (_, values) in self.terms.items() if len(values)), default=0)

    def dense(self, order: int) -> Tensor:
        """Interactions of one order as a symmetric tensor (n, …, n), zero where indices coincide."""
        order = check_order(order, self.n)
        full = torch.zeros((self.n,) * order, dtype=torch.float64)
        if order in self.terms:
            tuples, values = self.terms[order]
            for columns in _orderings(tuples):
                full[columns] = values
        return full

    # -- probabilities ----------------------------------------------------------------------------------------

    def energy(self, x: Any) -> Tensor:
        """Energy -Σ_S I_S Π_{i∈S} x_i: (batch, n) -> (batch,)."""
        x = self._states(x)
        energy = torch.zeros(len(x), dtype=torch.float64)
        for order, (tuples, values) in self.terms.items():
            for rows in chunks(len(x), len(tuples) * order):
                energy[rows] -= x[rows][:, tuples].prod(2) @ values
        return energy

    def enumerate(self) -> Tensor:
        """All states (2^n, n); variable 0 changes fastest."""
        if self.n > _MOST_VARIABLES:
            raise NotEnumerable(f"enumeration: expected at most {_MOST_VARIABLES} variables, found {self.n}")
        bits = torch.arange(2**self.n).unsqueeze(1) >> torch.arange(self.n) & 1
        low, high = VALUES[self.variables]
        return bits * (high - low) + low

    def log_partition(self) -> float:
        """ln Z = ln Σ_x e^{-E(x)}, by enumeration."""
        return torch.logsumexp(-self.energy(self.enumerate()), 0).item()

    def log_probability(self, x: Any, log_partition: float | None = None) -> Tensor:
        """Log-probability ln p(x), (batch, n) -> (batch,); ln Z is computed by enumeration unless it is given."""
        return -self.energy(x) - (self.log_partition() if log_partition is None else log_partition)

    def distribution(self) -> tuple[Tensor, Tensor]:
        """All states (2^n, n) and their log-probabilities (2^n,)."""
        states = self.enumerate()
        return states, torch.log_softmax(-self.energy(states), 0)

    @torch.no_grad()
    def sample(
        self,
        n: int,
        *,
        sweeps: int = 1000,
        start: Any = None,
        seed: Seed = None,
    ) -> Tensor:
        """Sample ``n`` states by Gibbs sampling: (n, variables).

        Each sample is the last state of an independent chain after ``sweeps`` sweeps over all variables, starting from
        the rows of ``start`` (used cyclically) or from random states.

        >>> InteractionModel(2, {1: [50.0, -50.0]}).sample(2, sweeps=1)
        tensor([[1., 0.],
                [1., 0.]], dtype=torch.float64)
        """
        if whole("n", n) < 1 or whole("sweeps", sweeps) < 0:
            raise InvalidOption(f"expected n ≥ 1 and sweeps ≥ 0, found n={n}, sweeps={sweeps}")
        generator = noise.generator(seed)
        low, high = VALUES[self.variables]
        if start is None:
            x = torch.randint(2, (n, self.n), generator=generator).double() * (high - low) + low
        else:
            given = self._states(start)
            x = given[torch.arange(n) % len(given)].clone()
        partners = [self._partners(site) for site in range(self.n)]
        for _ in range(sweeps):
            for site, terms in enumerate(partners):
                field = torch.zeros(n, dtype=torch.float64)
                for others, values in terms:
                    field += x[:, others].prod(2) @ values
                up = noise.bernoulli(torch.sigmoid((high - low) * field), generator)
                x[:, site] = up * (high - low) + low
        return x

    def _partners(self, site: int) -> list[tuple[Tensor, Tensor]]:
        """For each order, the other variables in the interactions of ``site`` and the values of these interactions."""
        found = []
        for tuples, values in self.terms.values():
            rows = (tuples == site).any(1)
            mine = tuples[rows]
            found.append((mine[mine != site].reshape(len(mine), tuples.shape[1] - 1), values[rows]))
        return found

    def _states(self, x: Any) -> Tensor:
        x = _double(x)
        if x.ndim != 2 or x.shape[1] != self.n:
            raise InvalidData(f"states: expected shape (batch, {self.n}), found {tuple(x.shape)}")
        low, high = VALUES[self.variables]
        if not bool(((x == low) | (x == high)).all()):
            raise InvalidData(f"states: expected {self.variables} values {low:g} or {high:g}")
        return x

    # -- other forms ------------------------------------------------------------------------------------------

    def to_spin(self) -> InteractionModel:
        """Rewrite the distribution in spins σ = 2x - 1, using Π_S x = 2^{-s} Σ_{T⊆S} Π_T σ.

        >>> InteractionModel(2, {2: [[0.0, 4.0], [4.0, 0.0]]}).to_spin().dense(1)
        tensor([1., 1.], dtype=torch.float64)
        """
        return self if self.variables == "spin" else self._expanded("spin", lambda s, t: 0.5**s)

    def to_binary(self) -> InteractionModel:
        """The same distribution of x = (1 + σ)/2: Π_S σ = Σ_{T⊆S} 2^t (-1)^{s-t} Π_T x."""
        return self if self.variables == "binary" else self._expanded("binary", lambda s, t: 2.0**t * (-1.0) ** (s - t))

    def _expanded(self, variables: str, weight: Callable[[int, int], float]) -> InteractionModel:
        parts: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for s, (tuples, values) in self.terms.items():
            for t in range(1, s + 1):
                for columns in combinations(range(s), t):
                    parts.setdefault(t, []).append((tuples[:, list(columns)], values * weight(s, t)))
        return InteractionModel(self.n, {order: merged(found) for order, found in parts.items()}, variables=variables)

    def to_rbm(self, hidden: str = "gaussian", units: int | None = None) -> RBM:
        """Construct an RBM with {0, 1} visible units that has these interactions.

        Args:
            hidden: ``"gaussian"`` for pairwise models; ``"bernoulli"`` or ``"poisson"`` for any model, exactly, with
                one hidden unit per interaction of order 2 or more.
            units: number of Gaussian hidden units; n - 1 by default. The construction is exact for n - 1 or more:
                Bulso & Roudi (2021), eq. (22). With fewer, a local search that starts from the largest eigenvalues
                minimizes the squared error of the couplings.
        """
        model = self.to_binary()
        if hidden == "gaussian":
            if model.max_order > 2:
                raise InvalidOption(
                    f"hidden='gaussian': expected interactions of order 2 at most, found order {model.max_order}. Use "
                    "hidden='bernoulli'"
                )
            return construction.linear(model.dense(2) if self.n > 1 else torch.zeros(1, 1), model.dense(1), units)
        if units is not None:
            raise InvalidOption(
                f"units: expected None for {hidden} hidden units, one per interaction, found {units}. Only gaussian "
                "hidden units have an adjustable number"
            )
        return construction.many_body(self.n, model.terms, hidden)

    def compare(self, other: InteractionModel) -> dict[int, InteractionComparison]:
        """Compare the interactions of each order with those of another model; missing interactions count as zero."""
        if other.n != self.n or other.variables != self.variables:
            raise InvalidOption(
                f"comparison: expected {self.n} {self.variables} variables, found {other.n} {other.variables}"
            )
        found = {}
        for order in sorted({*self.terms, *other.terms}):
            mine, theirs = self._of(order), other._of(order)
            zero = [(tuples, torch.zeros_like(values)) for tuples, values in (mine, theirs)]
            x, y = merged([mine, zero[1]])[1], merged([theirs, zero[0]])[1]
            found[order] = InteractionComparison.of(x, y)
        return found

    def _of(self, order: int) -> tuple[Tensor, Tensor]:
        empty = torch.empty(0, order, dtype=torch.int64), torch.empty(0, dtype=torch.float64)
        return self.terms.get(order, empty)


def _term(n: int, order: int, given: Any) -> tuple[Tensor, Tensor]:
    """Return sorted tuples (m, order) and float64 values (m,), given such a pair or a dense tensor."""
    if isinstance(given, tuple):
        tuples, values = given
        tuples = check_tuples(tuples, n, order).sort(1).values
        values = _double(values)
        if values.shape != tuples.shape[:1]:
            raise InvalidData(f"order {order}: expected {len(tuples)} values, found shape {tuple(values.shape)}")
        if len(tuples.unique(dim=0)) != len(tuples):
            raise InvalidData(f"order {order}: expected different tuples, found the same tuple twice")
    else:
        full = _double(given)
        if full.shape != (n,) * order:
            raise InvalidData(f"order {order}: expected shape {(n,) * order}, found {tuple(full.shape)}")
        tuples = all_tuples(n, order)
        values = full[tuple(tuples.T)]
        for columns in _orderings(tuples):
            if not torch.allclose(full[columns], values, rtol=1e-10, atol=1e-12):
                raise InvalidData(f"order {order}: expected a symmetric tensor")
    if not bool(torch.isfinite(values).all()):
        raise InvalidData(f"order {order}: expected finite interactions")
    return tuples, values


def _double(values: Any) -> Tensor:
    """Convert directly to float64: a list of numbers would otherwise be rounded to float32."""
    return torch.as_tensor(values, dtype=torch.float64).detach().cpu()


def _orderings(tuples: Tensor) -> list[tuple[Tensor, ...]]:
    """All permutations of the columns of the tuples, as indices of a dense tensor."""
    return [tuple(tuples[:, axis] for axis in axes) for axes in permutations(range(tuples.shape[1]))]

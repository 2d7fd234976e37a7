"""Contrastive divergence without bias, by pairs of coupled chains (Qiu, Zhang & Wang 2020)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import Generator, Tensor

from ...checks import count
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ..gradient import Gradient
from ..sample import Sample, per_row
from .base import Batch, NegativePhase, State, as_rbm


@dataclass(frozen=True)
class UnbiasedCD(NegativePhase):
    """Contrastive divergence plus a correction that removes its bias (Qiu, Zhang & Wang 2020).

    From each row of a batch start two chains: ξ, which is one sweep ahead, and η. Both make their sweeps with the same
    random numbers, so that they meet, ξ_t = η_{t-1}, and stay together. The estimate

        f(ξ_k) + Σ_{t>k} [f(ξ_t) - f(η_{t-1})],

    where the sum ends when they meet, has the mean of f under the model (Jacob et al. 2020). Slow mixing
    costs time and variance instead of bias. A pair that has not met after ``limit`` sweeps is cut off, which leaves
    a bias; ``cut_off`` of the state is the number of such pairs so far. The visible units need finitely many states:
    real-valued chains approach each other, but do not meet.

    >>> UnbiasedCD(1, limit=200)
    UnbiasedCD(k=1, limit=200)
    """

    k: int = 1
    _: KW_ONLY
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= count("k", self.k) <= count("limit", self.limit):
            raise InvalidOption(f"k, limit: expected 1 ≤ k ≤ limit, found k={self.k}, limit={self.limit}")

    def with_sweeps(self, k: int) -> UnbiasedCD:
        return replace(self, k=k, limit=max(k, self.limit))

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        if as_rbm(machine, self).visible.cardinality is None:
            name = machine.visible.name()
            raise InvalidOption(f"UnbiasedCD: expected visible units with finitely many states, found {name} units")
        return {"cut_off": 0}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm = as_rbm(machine, self)
        states, weights, cut_off = self._coupled(rbm, batch.visible, generator)
        gradient = Sample.of(rbm, batch.visible, states, weights).gradient()
        return gradient, {"cut_off": state["cut_off"] + cut_off}

    def by_statistics(self, batch: Batch) -> bool:
        return True

    def _coupled(self, rbm: RBM, rows: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor, int]:
        """Return states (n, *visible) and weights (n,) whose weighted sum of f estimates the mean of f; n ≥ rows.

        The third value is the number of pairs that were cut off.
        """
        behind, cut_off = rows, 0
        weight = behind.new_full((len(behind),), 1.0 / len(behind))
        ahead = _sweep(rbm, behind, generator)
        states, weights = list[Tensor](), list[Tensor]()
        for t in range(1, self.limit + 1):  # the chains are ξ_t and η_{t-1}
            apart = (ahead != behind).flatten(1).any(1)
            if t == self.k:
                states, weights = [ahead], [weight]
            if t >= self.k:
                ahead, behind = ahead[apart], behind[apart]
                if not len(ahead):
                    break
            if t > self.k:
                states += [ahead, behind]
                weights += [weight[: len(ahead)], -weight[: len(ahead)]]
            if t == self.limit:
                cut_off = len(ahead)
                break
            ahead, behind = _same_numbers(rbm, ahead, behind, generator)
        return torch.cat(states), torch.cat(weights), cut_off


def _sweep(rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
    return rbm.conserving(v).sweep([v, v], generator)[0]  # draws the hidden layer first


def _same_numbers(rbm: RBM, x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """A sweep of two sets of chains with the same random numbers; chains that are equal stay equal."""
    source = torch.default_generator if generator is None else generator
    kept, together = source.get_state(), (x == y).flatten(1).all(1)
    after_x = _sweep(rbm, x, source)
    source.set_state(kept)
    after_y = _sweep(rbm, y, source)
    return after_x, torch.where(per_row(together, rbm.visible), after_x, after_y)

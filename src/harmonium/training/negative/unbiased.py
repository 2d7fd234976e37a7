"""Contrastive divergence without bias, by pairs of coupled chains (Qiu, Zhang & Wang 2020)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...checks import count
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from .base import as_rbm, learned_couplings
from .signed import SPARE_ROWS, SignedRows, new_buffer


@dataclass
class UnbiasedCD(SignedRows):
    """Contrastive divergence plus a correction that removes its bias (Qiu, Zhang & Wang 2020).

    From each row of a batch start two chains: ξ, which is one sweep ahead, and η. Both make their sweeps with the same
    random numbers, so that they meet, ξ_t = η_{t-1}, and stay together. The estimate

        f(ξ_k) + Σ_{t>k} [f(ξ_t) - f(η_{t-1})],

    where the sum ends when they meet, has the mean of f under the model (Jacob et al. 2020). Slow mixing
    costs time and variance instead of bias. A pair that has not met after ``limit`` sweeps is cut off, which leaves
    a bias; ``cut_off`` is the number of such pairs so far. The visible units need finitely many states: real-valued
    chains approach each other, but do not meet.

    >>> UnbiasedCD(1, limit=200)
    UnbiasedCD(k=1, limit=200)
    """

    supports_bfloat16: ClassVar[bool] = False
    k: int = 1
    _: KW_ONLY
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= count("k", self.k) <= count("limit", self.limit):
            raise InvalidOption(f"k, limit: expected 1 ≤ k ≤ limit, found k={self.k}, limit={self.limit}")
        self.cut_off = 0

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        if as_rbm(machine, type(self).__name__).visible.cardinality is None:
            name = machine.visible.name()
            raise InvalidOption(f"UnbiasedCD: expected visible units with finitely many states, found {name} units")
        self.cut_off = 0
        self.resize(machine, batch_size)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        self.coupling_gradients = learned_couplings(machine)
        self._set_rows(machine, new_buffer(machine, batch_size, machine.visible), batch_size, 1)

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        rbm, rows = as_rbm(machine, "UnbiasedCD"), len(self.batch)
        self._states, self._weights = self._coupled(rbm, generator)
        v = torch.cat([self.batch, self._states])
        self._signs = torch.cat([torch.full_like(self._weights[:rows], -1.0 / rows), self._weights])
        field = rbm.coupling.up(v)
        mean = rbm.hidden.mean(field)
        self._write(rbm.visible, v, lambda: rbm.visible.statistics(v))
        self._write(rbm.hidden, mean, lambda: rbm.hidden.moments(field, mean=mean))
        self._hidden = mean[:rows].mean(0)
        lower, upper = (torch.cat([x, x.new_zeros(SPARE_ROWS, *x.shape[1:])]) for x in (v, mean))
        upper[: len(v)].mul_(self._signs_of(rbm.hidden))
        for link in self.coupling_gradients.values():
            link.set_factors(lower, upper, len(v))

    def _coupled(self, rbm: RBM, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """States (n, *visible) and weights (n,) whose weighted sum of f estimates the mean of f; n ≥ rows."""
        behind = self.batch.clone()
        weight = behind.new_full((len(behind),), 1.0 / len(behind))
        ahead = _sweep(rbm, behind, generator)
        states, weights = list[Tensor](), list[Tensor]()
        limit = max(self.k, self.limit)  # a schedule may have changed k
        for t in range(1, limit + 1):  # the chains are ξ_t and η_{t-1}
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
            if t == limit:
                self.cut_off += len(ahead)
                break
            ahead, behind = _same_numbers(rbm, ahead, behind, generator)
        return torch.cat(states), torch.cat(weights)

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [self._hidden]

    def loss(self, machine: BoltzmannMachine, data: Tensor) -> Tensor | None:
        rbm = as_rbm(machine, "UnbiasedCD")
        model = (self._weights * rbm.free_energy(self._states, check=False)).sum()
        return rbm.free_energy(data, check=False).mean() - model


def _sweep(rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
    return rbm.conserving(v).sweep([v, v], generator)[0]  # draws the hidden layer first


def _same_numbers(rbm: RBM, x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """A sweep of two sets of chains with the same random numbers; chains that are equal stay equal."""
    source = torch.default_generator if generator is None else generator
    kept, together = source.get_state(), (x == y).flatten(1).all(1)
    after_x = _sweep(rbm, x, source)
    source.set_state(kept)
    after_y = _sweep(rbm, y, source)
    return after_x, torch.where(together.view(-1, *(1 for _ in rbm.visible.shape)), after_x, after_y)

"""The machines of figures 5 to 11: every activation function at several sizes, trained once and shared.

Contrastive divergence with k = ⌈epoch/every⌉ steps and the learning rate η₀/k, mini-batches of 100, plain gradients,
weights ±√(0.1/N), thresholds that center the inputs. The published η₀ are not given ("as small as possible"); those of
the quick scale are the largest with which every size trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import torch
from torch import Tensor

from harmonium import data as datasets
from harmonium import noise
from harmonium.interactions import all_tuples, n_body, random_tuples
from harmonium.likelihood import pseudo
from harmonium.machines import RBM
from harmonium.training import CD, Growing, Metric
from harmonium.units import Bernoulli

from .. import machines as shared
from ..machines import MachineOptions, name_by_settings, plain_gradients
from ..options import override, parse_sizes, with_options_of
from ..record import Record
from .counting import ACTIVATIONS
from .replicates import Scatter, kept, strength, unit_blocks

RATES = {
    "quick": {"Linear": 0.01, "ReLU": 0.02, "Step": 0.1, "Exponential": 0.003},
    "full": {"Linear": 0.003, "ReLU": 0.003, "Step": 0.03, "Exponential": 0.001},
}
BATCH = 100
#: random tuples of order 3, where there are too many to visit all
TUPLES = {"quick": 20_000, "full": 500_000}
_RARE = 0.01


@dataclass(frozen=True)
class Settings:
    """The settings of a scale; ``rows=0`` means all rows."""

    sizes: tuple[int, ...]
    rows: int
    epochs: int
    every: int


SETTINGS = {
    "quick": Settings(sizes=(50, 100, 200, 400), rows=0, epochs=10, every=5),
    "full": Settings(sizes=(50, 100, 200, 400, 600, 800, 1000, 1200), rows=0, epochs=500, every=10),
}


class Machines(shared.Machines):
    """Machines by activation function and size, and their interactions.

    Args:
        data: a binary data set, or one to be binarized at half of its range.
        hidden: sizes such as ``"50,400"`` instead of those of the scale.
        options: as in :class:`experiments.machines.Machines`.
    """

    def __init__(
        self,
        record: Record,
        scale: str,
        data: str = "mnist",
        *,
        hidden: str | int = "",
        **options: Unpack[MachineOptions],
    ) -> None:
        super().__init__(record, scale, data, **options)
        sizes = parse_sizes(hidden) if hidden else ()
        chosen = override(SETTINGS[scale], sizes=sizes, epochs=self.given_epochs, rows=self.given_rows)
        self.sizes, self.epochs, self.every, self.limit = chosen.sizes, chosen.epochs, chosen.every, chosen.rows
        self._machines: dict[tuple[str, int], RBM] = {}
        self._found: dict[tuple[str, int, int, str, bool], Tensor] = {}
        self._masks: dict[tuple[int, bool], Tensor] = {}

    @cached_property
    def rows(self) -> Tensor:
        """The training rows."""
        rows = datasets.load(self.data, binarize="threshold")
        return rows[: self.limit] if self.limit else rows

    @cached_property
    def test(self) -> Tensor:
        """The test rows."""
        return datasets.load(self.data, split="test", binarize="threshold")

    def size(self, published: int) -> int:
        """The size nearest to a published one; 1200, the largest there, stands for the largest here."""
        if published >= max(SETTINGS["full"].sizes):
            return self.sizes[-1]
        return min(self.sizes, key=lambda size: abs(size - published))

    def some(self, *published: int) -> tuple[int, ...]:
        """The sizes that stand for published ones, each once."""
        return tuple(dict.fromkeys(self.size(m) for m in published))

    def has(self, *published: int) -> bool:
        """Whether there are machines of exactly the published sizes, so that a claim about them can be decided."""
        return set(published) <= set(self.sizes)

    def differs(self, *sizes: int, trained_out: bool = True) -> str:
        """The settings that leave a published claim open, in words; empty if it can be decided.

        Args:
            sizes: numbers of hidden units that the claim is about.
            trained_out: whether the claim compares machines with each other, or states a value at the end of training.
                The paper trains for 500 epochs with k up to 50; after fewer, machines of different sizes or activation
                functions are at different stages of training. Claims that compare quantities of the same machine do
                not need it.

        Every claim about the published machines needs MNIST with all of its rows.
        """
        published, found = SETTINGS["full"], []
        if self.data != "mnist":
            found.append(f"{self.data} instead of MNIST")
        if self.limit:
            found.append(f"{self.limit} rows instead of all")
        if trained_out and self.epochs < published.epochs:
            found.append(f"{self.epochs} epochs instead of {published.epochs}")
        elif trained_out and self.every != published.every:
            found.append(f"k grows every {self.every} epochs instead of {published.every}")
        missing = [str(size) for size in sizes if size not in self.sizes]
        if missing:
            found.append(f"no machines of {', '.join(missing)} hidden units")
        return ", ".join(found)

    def build(self, activation: str, size: int) -> RBM:
        """A new machine."""
        return RBM(Bernoulli(self.rows.shape[1]), ACTIVATIONS[activation](size))

    def options(self, activation: str) -> dict[str, Any]:
        """The options of ``fit`` for its training."""
        return plain_gradients(RATES[self.scale][activation], BATCH, len(self.rows)) | {
            "negative": CD(1),
            "epochs": self.epochs,
            "schedule": Growing(self.every),
            "initialize": "sign",
        }

    def __call__(self, activation: str, size: int) -> tuple[RBM, list[dict[str, float]]]:
        """A trained machine and the history of its training."""
        kind = self.data, activation.lower(), size
        machine = self.build(activation, size)
        watched = Metric("test_pseudo_likelihood", lambda rbm: self.pseudo_likelihood(rbm, self.test))
        result = self.train(
            name_by_settings(*kind, rows=len(self.rows), epochs=self.epochs, seed=self.seed),
            machine,
            self.rows,
            words=f"{activation}, {size} hidden units, {self.epochs} epochs",
            callbacks=[watched],
            **self.options(activation),
        )
        return machine, result.history

    def machine(self, activation: str, size: int) -> RBM:
        """A trained machine, loaded once."""
        if (activation, size) not in self._machines:
            self._machines[activation, size] = self(activation, size)[0]
        return self._machines[activation, size]

    def interactions(
        self, activation: str, size: int, order: int, *, method: str = "exact", bias: bool = True
    ) -> Tensor:
        """All fields (N,) or couplings i < j of a trained machine, or the interactions of random tuples."""
        key = activation, size, order, method, bias
        if key not in self._found:
            self._found[key] = self._interactions(*key)
        return self._found[key]

    def _interactions(self, activation: str, size: int, order: int, method: str, bias: bool) -> Tensor:
        return self.of(self.machine(activation, size), order, method=method, bias=bias)

    def of(self, rbm: RBM, order: int, *, method: str = "exact", bias: bool = True) -> Tensor:
        """The interactions of any machine on these rows, for each of :meth:`tuples`."""
        if order == 2:
            return n_body(rbm, 2, method=method, seed=0)[tuple(self.tuples(2).T)]
        return n_body(rbm, order, self.tuples(order), method=method, bias=bias, seed=0)

    def tuples(self, order: int) -> Tensor:
        """All units or pairs, or random tuples of a higher order, the same for every machine: (t, order)."""
        n = self.rows.shape[1]
        return all_tuples(n, order) if order < 3 else random_tuples(n, order, TUPLES[self.scale], seed=self.seed)

    def masks(self, order: int, live: bool = False) -> Tensor:
        """Masks of the jackknife over blocks of units: (1 + blocks, t); at order 1 perhaps of live units only."""
        if (order, live) not in self._masks:
            tuples = self.tuples(order)[self.live] if live else self.tuples(order)
            self._masks[order, live] = kept(tuples, unit_blocks(self.rows.shape[1]))
        return self._masks[order, live]

    @cached_property
    def live(self) -> Tensor:
        """Which visible units are on in 1 to 99 % of the rows; fields of the others say little else: (N,)."""
        mean = self.rows.mean(0)
        return (mean >= _RARE) & (mean <= 1 - _RARE)

    def compare(self, order: int, first: tuple[str, int], second: tuple[str, int], live: bool = True) -> Scatter:
        """How interactions of a machine (activation, size) follow those of another; fields of ``live`` or all units."""
        x, y = (self.interactions(*key, order) for key in (first, second))
        if order == 1 and live:
            x, y = x[self.live], y[self.live]
        return Scatter.of(x, y, self.masks(order, order == 1 and live))

    def strength(self, activation: str, size: int, order: int) -> Tensor:
        """√⟨I²⟩ of an order with its replicates, fields without the visible bias: (1 + blocks,)."""
        return strength(self.interactions(activation, size, order, bias=False), self.masks(order))

    def small_against_exact(self, activation: str, size: int) -> Scatter:
        """How the small-weight limit of the couplings follows the exact ones."""
        small, exact = (self.interactions(activation, size, 2, method=method) for method in ("small", "exact"))
        return Scatter.of(small, exact, self.masks(2))

    def typical_weight(self, activation: str, size: int) -> Tensor:
        """√⟨w²⟩ with its replicates over blocks of visible units: (1 + blocks,)."""
        rows = self.machine(activation, size).coupling.matrix().detach().double().square().mean(1).sqrt()
        return strength(rows, kept(self.tuples(1), unit_blocks(len(rows))))

    def pseudo_likelihoods(self, rbm: RBM, rows: Tensor, repeats: int = 1) -> Tensor:
        """Σ_i ln p(v_i | v_-i) of each row in nats, from ``repeats`` random units: the same for every machine. (n,)"""
        generator = noise.generator(self.seed)
        values = [
            torch.cat([pseudo(rbm, part, sites=1, seed=generator).double() for part in rows.split(1000)])
            for _ in range(repeats)
        ]
        return torch.stack(values).mean(0)

    def pseudo_likelihood(self, rbm: RBM, rows: Tensor, repeats: int = 1) -> float:
        """The mean over the rows."""
        return self.pseudo_likelihoods(rbm, rows, repeats).mean().item()


#: makes an experiment of a function of a record and machines
on_machines = with_options_of(Machines)

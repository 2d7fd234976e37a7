"""Figure 4: strong weights and high thresholds make machines with interactions of high order."""

from __future__ import annotations

import torch

from harmonium import noise
from harmonium.couplings import Dense
from harmonium.interactions import n_body
from harmonium.machines import RBM
from harmonium.units import Bernoulli

from ..judging import brief, negate
from ..record import Record
from . import counting

THRESHOLD = 5.0


def run(
    record: Record, scale: str, size: int = 0, steps: int = 30, machines: int = counting.MACHINES, seed: int = 0
) -> None:
    """The three non-linear activation functions; ``size`` and ``machines`` as in figure 3."""
    size = size or counting.SIZES[scale]
    found = {}
    for k, name in enumerate(counting.NONLINEAR):
        record.say(f"{name}: {counting.REPEATS} samples of {size:,} states")
        found[name] = counting.count(machine(name, seed + k), size, steps, seed + k)
    counting.write(record, found)
    typical = {
        name: counting.typical(lambda k, name=name: machine(name, k), counting.seeds(seed, machines))  # type: ignore[misc]
        for name in found
    }
    record.table("typical", [{"machine": name, **row.row()} for name, row in typical.items()])
    for name, counted in found.items():
        counting.claim_agreement(record, name, counted, control=2)
        row = typical[name]
        # The opposite of the claims of figure 3 on weak machines, with the same numbers and margins.
        record.claim(
            f"{name}: relevant interactions of higher order",
            f"the nearest pairwise model misses {counting.share_words(row.missed)} of the multi-information, "
            f"in {row.machines} random machines",
            counting.judge_higher(row.missed),
        )
        record.claim(
            f"{name}: the hierarchy of orders of figure 3 disappears",
            f"×{brief(row.factor)} per order, from order 2 on, in {row.machines} random machines",
            negate(counting.judge_rapid(row.factor)),
        )
    record.figure("fig4", counting.panels(found))


def machine(activation: str, seed: int, visible: int = counting.VISIBLE, hidden: int = counting.HIDDEN) -> RBM:
    """Weights N(0, 1), all thresholds 5, visible biases for which the fields vanish."""
    weights = torch.randn(visible, hidden, dtype=torch.float64, generator=noise.generator(seed))
    unit = counting.ACTIVATIONS[activation](hidden, bias=torch.full((hidden,), -THRESHOLD, dtype=torch.float64))
    rbm = RBM(Bernoulli(visible, bias=torch.zeros(visible, dtype=torch.float64)), unit, Dense(visible, hidden, weights))
    rbm.visible.bias.data.copy_(-n_body(rbm, 1, bias=False))
    return rbm

"""Figure 3: random machines of 10 visible and 15 hidden units against their interaction models, state by state."""

from __future__ import annotations

import math

import torch

from harmonium import noise
from harmonium.couplings import Dense
from harmonium.machines import RBM
from harmonium.units import Bernoulli

from ..judging import Verdict, brief
from ..record import Record
from . import counting

_ROUNDING = 1e-9


def run(
    record: Record, scale: str, size: int = 0, steps: int = 40, machines: int = counting.MACHINES, seed: int = 0
) -> None:
    """All four activation functions: ``size`` states per sample, and averages over ``machines`` random machines."""
    found = {}
    for k, name in enumerate(counting.ACTIVATIONS):
        record.say(f"{name}: {counting.REPEATS} samples of {size or counting.SIZES[scale]:,} states")
        found[name] = counting.count(machine(name, seed + k), size or counting.SIZES[scale], steps, seed + k)
    for name, counted in found.items():
        counting.claim_agreement(record, name, counted, control=1)
    largest = counting.moebius(machine("Linear", seed))
    beyond = max(value for order, value in largest.items() if order > 2)
    record.claim(
        "Linear: no interactions above order 2",
        f"from enumerated probabilities: the largest coupling is {largest[2]:.3f}, of higher orders {beyond:.1e}",
        judge_no_higher(largest[2], beyond),
    )
    counting.write(record, found)
    typical = {
        name: counting.typical(lambda k, name=name: machine(name, k), counting.seeds(seed, machines))  # type: ignore[misc]
        for name in counting.NONLINEAR
    }
    record.table("typical", [{"machine": name, **row.row()} for name, row in typical.items()])
    for name, row in typical.items():
        record.claim(
            f"{name}: the strength of interactions decays rapidly with their order",
            f"×{brief(row.factor)} per order, from order 2 on, in {row.machines} random machines",
            counting.judge_rapid(row.factor),
        )
        for words, missed in (
            ("the pairwise model nearest to it", row.missed),
            ("its own fields and couplings, without all higher orders", row.truncated),
        ):
            record.claim(
                f"{name}: very well represented by a pairwise model, taken as {words}",
                f"misses {counting.share_words(missed)} of the multi-information, in {row.machines} random machines",
                counting.judge_pairwise(missed),
            )
    record.figure("fig3", counting.panels(found))


def judge_no_higher(coupling: float, beyond: float) -> Verdict:
    """No interactions above order 2: they are rounding errors, and there are couplings.

    >>> judge_no_higher(0.7, 1e-15), judge_no_higher(0.7, 1e-3), judge_no_higher(0.0, 0.0)
    (True, False, None)
    """
    if beyond > _ROUNDING:
        return False
    return True if coupling > 1e3 * _ROUNDING else None


def machine(activation: str, seed: int, visible: int = counting.VISIBLE, hidden: int = counting.HIDDEN) -> RBM:
    """Weights N(0, 1/M), biases N(0, 0.01)."""
    generator = noise.generator(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    weights, b, c = normal(visible, hidden) / math.sqrt(hidden), 0.1 * normal(visible), 0.1 * normal(hidden)
    unit = counting.ACTIVATIONS[activation](hidden, bias=c)
    return RBM(Bernoulli(visible, bias=b), unit, Dense(visible, hidden, weights))

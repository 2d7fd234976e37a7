"""Figure 4: strong weights and high thresholds make machines with interactions of high order."""

from __future__ import annotations

import torch

from ... import noise
from ...analysis import interactions
from ...couplings import Dense
from ...machines import RBM
from ...units import Bernoulli
from ..record import Record
from . import counting, fig3

THRESHOLD = 5.0
_RELEVANT = 0.1  # of the strength of couplings, for an order to matter
_ZERO = 1e-9


def run(record: Record, scale: str, size: int = 0, steps: int = 30, seed: int = 0) -> None:
    """The three non-linear activation functions; ``size`` takes the place of the scale's states a sample."""
    size = size or fig3.SIZES[scale]
    found = {}
    for k, name in enumerate(counting.NONLINEAR):
        record.say(f"{name}: {counting.REPEATS} samples of {size:,} states")
        found[name] = counting.count(machine(name, seed + k), size, steps, seed + k)
    summary = counting.write(record, found)
    for name, counted in found.items():
        counting.claim_agreement(record, name, counted)
        strengths, row = counting.strengths(counted.model), summary[name]
        record.claim(f"{name}: the fields are zero", f"root mean square {strengths[1]:.1e}", strengths[1] < _ZERO)
        record.claim(
            f"{name}: relevant interactions of higher order",
            f"orders 2 to {counted.model.n}: {', '.join(f'{v:.2g}' for o, v in strengths.items() if o > 1)}; "
            f"the nearest pairwise model is {row['missed_by_pairs']:.3f} nats away, "
            f"of {row['multi_information']:.3f} nats of multi-information",
            min(strengths[3], strengths[4]) > _RELEVANT * strengths[2],
        )
    record.figure("fig4", fig3.draw(found))


def machine(activation: str, seed: int, visible: int = fig3.VISIBLE, hidden: int = fig3.HIDDEN) -> RBM:
    """Weights N(0, 1), all thresholds 5, visible biases for which the fields vanish."""
    weights = torch.randn(visible, hidden, dtype=torch.float64, generator=noise.generator(seed))
    unit = counting.ACTIVATIONS[activation](hidden, bias=torch.full((hidden,), -THRESHOLD, dtype=torch.float64))
    rbm = RBM(Bernoulli(visible, bias=torch.zeros(visible, dtype=torch.float64)), unit, Dense(visible, hidden, weights))
    rbm.visible.bias.data.copy_(-interactions(rbm, 1, bias=False))
    return rbm

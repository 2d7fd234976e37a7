"""Figure 3: random machines of 10 visible and 15 hidden units against their interaction models, state by state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from matplotlib.figure import Figure

from ... import noise
from ...couplings import Dense
from ...machines import RBM
from ...plots import style
from ...units import Bernoulli
from ..record import Record
from . import counting

#: states in each of the 20 samples: of all together, or of each, 500 times the number of states
SIZES = {"quick": 25_600, "full": 512_000}
VISIBLE, HIDDEN = 10, 15
_PAIRWISE = 0.1  # of the multi-information, which a pairwise model may miss and still represent a machine very well


def run(record: Record, scale: str, size: int = 0, steps: int = 40, seed: int = 0) -> None:
    """All four activation functions; ``size`` takes the place of the scale's states a sample."""
    found = {}
    for k, name in enumerate(counting.ACTIVATIONS):
        record.say(f"{name}: {counting.REPEATS} samples of {size or SIZES[scale]:,} states")
        found[name] = counting.count(machine(name, seed + k), size or SIZES[scale], steps, seed + k)
    for name, counted in found.items():
        counting.claim_agreement(record, name, counted)
    beyond = counting.largest_beyond(found["Linear"].model, 2)
    record.claim("Linear: no interactions above order 2", f"the largest is {beyond:.1e}", beyond == 0)
    for name, row in counting.write(record, found).items():
        if name not in counting.NONLINEAR:
            continue
        strengths = counting.strengths(found[name].model)
        record.claim(
            f"{name}: the strength of interactions decays rapidly with their order",
            ", ".join(f"{value:.2g}" for value in strengths.values()),
            all(b < a for a, b in itertools.pairwise(strengths.values())),
        )
        for words, missed in (
            ("the pairwise model nearest to it", row["missed_by_pairs"]),
            ("its own fields and couplings, all higher orders left out", row["missed_by_truncation"]),
        ):
            share = missed / row["multi_information"]
            record.claim(
                f"{name}: very well represented by a pairwise model, taken as {words}",
                f"{missed:.5f} nats away, {share:.1%} of the multi-information",
                share <= _PAIRWISE,
            )
    record.figure("fig3", draw(found))


def machine(activation: str, seed: int, visible: int = VISIBLE, hidden: int = HIDDEN) -> RBM:
    """Weights N(0, 1/M), biases N(0, 0.01)."""
    generator = noise.generator(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    weights, b, c = normal(visible, hidden) / math.sqrt(hidden), 0.1 * normal(visible), 0.1 * normal(hidden)
    unit = counting.ACTIVATIONS[activation](hidden, bias=c)
    return RBM(Bernoulli(visible, bias=b), unit, Dense(visible, hidden, weights))


def draw(found: dict[str, counting.Counted]) -> Figure:
    """A panel for each machine."""
    columns = 2 if len(found) == 4 else len(found)
    with style.look():
        figure = Figure(figsize=(4.2 * columns, 3.6 * (len(found) // columns)), layout="constrained")
        grid = np.atleast_1d(figure.subplots(len(found) // columns, columns)).ravel()
        for ax, (name, counted) in zip(grid, found.items(), strict=True):
            counting.alignment(ax, counted, name)
    return figure

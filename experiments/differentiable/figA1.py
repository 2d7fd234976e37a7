"""Figure A1: with a learning rate of one third, the generated faces are more blurred."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from harmonium.plots import tiling

from ..judging import Verdict, claim, mean
from ..options import with_options_of
from ..record import Record
from .faces import DATASET, generate
from .trained import BRIGHTEST, Machines

_FACTOR = 1 / 3


@with_options_of(Machines)
def run(record: Record, trained: Machines, n: int = 64) -> None:
    """Samples of both networks with the same random numbers, and the strength of their edges."""
    train = trained.rows(DATASET)
    found = {name: generate(trained, n, factor=factor) for name, factor in (("rate", 1.0), ("a third of it", _FACTOR))}
    sheet = [images[:16] for made in found.values() for images in made.values()]
    record.figure("figA1", tiling.tiles(torch.cat(sheet), columns=16, limits=(0.0, float(BRIGHTEST)), ink=False))
    record.numbers["edges_of_faces"] = float(edges(train[:n]).mean())
    for way in found["rate"]:
        high, low = (edges(made[way]) for made in found.values())
        claim(
            record,
            f"with a third of the learning rate, {way} are more blurred: their edges are weaker",
            f"root mean squared difference of neighboring pixels: {mean(high):.2f}, with a third of the rate "
            f"{mean(low):.2f}; of faces {edges(train[:n]).mean():.2f} gray values",
            judge_blurred(high, low),
            f"LFW instead of CelebA, {trained.difference(DATASET)}",
        )


def edges(images: Tensor) -> np.ndarray:
    """The root mean squared difference between neighboring pixels of each image: (n,)."""
    x = images.float()
    squares = (x.diff(dim=2).square().flatten(1).mean(1) + x.diff(dim=3).square().flatten(1).mean(1)) / 2
    return squares.sqrt().numpy()


def judge_blurred(high: np.ndarray, low: np.ndarray) -> Verdict:
    """Criterion: the edges are weaker with the lower rate."""
    return mean(high).minus(mean(low)).above()

"""Section 4: all layers of a stack are trained at once, by the sum of their losses; compared with layer by layer.

The stack has four machines, two of feature maps and two dense ones. Both ways take the same number of updates of every
machine. In joint training the machines above learn from features that still change. In greedy training each machine
needs its own pass of the images through the machines below it. The CPU times are recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from harmonium.machines import DeepBeliefNetwork
from harmonium.training import pretrain

from ..judging import Verdict, claim, every, mean
from ..machines import name_by_settings
from ..options import with_options_of
from ..record import Record
from .networks import Architecture, groups
from .trained import BRIGHTEST, CHUNK, Machines, Settings, states

DATASET, LEVELS = "mnist", 255
STACK = Architecture((32, 64), (500, 200))
#: epochs of the scales, and rows
QUICK, FULL = (10, 5000), (100, 0)


class Stacks(Machines):
    """The networks of this comparison: four machines, without sparsity and with small initial weights."""

    def settings(self, dataset: str) -> Settings:
        epochs, rows = QUICK if self.scale == "quick" else FULL
        known = super().settings(dataset)
        return replace(known, architecture=STACK, epochs=epochs, rows=rows, gain=1.0, activity=0.5)


@with_options_of(Stacks)
def run(record: Record, trained: Stacks, n: int = 2000) -> None:
    """Reconstruction errors of test images at every layer: before training, trained jointly, and layer by layer."""
    test = trained.load(DATASET, "test")[0][:n]
    seconds: dict[str, float] = {}

    def timed(name: str, make: Callable[[], DeepBeliefNetwork]) -> DeepBeliefNetwork:
        began = time.process_time()
        network = make()
        seconds[name] = time.process_time() - began
        return network

    networks = {
        "before": trained.untrained(DATASET, LEVELS),
        "joint": timed("joint", lambda: trained.network(DATASET, LEVELS)),
        "greedy": timed("greedy", lambda: _greedy(record, trained)),
    }
    record.numbers["cpu_seconds"] = seconds
    found = {name: _errors(network, test) for name, network in networks.items()}
    layers = range(len(found["before"]))
    blank = trained.rows(DATASET).float().mean(0) - test.float()
    flat = blank.flatten(1).square().mean(1).sqrt() / BRIGHTEST
    record.numbers["error_of_the_mean_image"] = flat.mean().item()
    record.table(
        "reconstruction",
        [
            {"layer": k + 1, **{name: 100 * errors[k].mean() for name, errors in found.items()}, "unit": "percent of N"}
            for k in layers
        ],
    )
    gains = [found["before"][k] - found["joint"][k] for k in layers]
    claim(
        record,
        "joint training improves the reconstruction of images from every layer",
        "root mean squared error, as a share of N, before and after: "
        + "; ".join(f"layer {k + 1} {mean(found['before'][k])}, {mean(found['joint'][k])}" for k in layers),
        judge_every(gains),
    )
    more = found["greedy"][-1] - found["joint"][-1]
    claim(
        record,
        "joint training reconstructs images from the top layer better than greedy training with as many updates",
        f"{mean(found['joint'][-1])} and {mean(found['greedy'][-1])}, paired difference {mean(more):.4f}; "
        f"CPU seconds {seconds['joint']:.0f} and {seconds['greedy']:.0f}",
        mean(more).above(),
    )


def _greedy(record: Record, trained: Stacks) -> DeepBeliefNetwork:
    network = trained.untrained(DATASET, LEVELS)
    options = trained.options(DATASET, network, LEVELS)
    del options["epochs"]
    rate = trained.settings(DATASET).rate
    options["optimizer"] = lambda parameters: _adam(network, list(parameters), rate)
    rows, epochs = len(trained.rows(DATASET)), trained.epochs(DATASET)
    folder = trained.folder / name_by_settings(
        DATASET, "greedy", *STACK.channels, *STACK.dense, rows=rows, epochs=epochs, seed=trained.seed
    )
    record.say(f"training: {DATASET}, layer by layer")
    pretrain(
        network,
        trained.rows(DATASET),
        epochs=trained.epochs(DATASET),
        seed=trained.seed,
        run=folder,
        resume=folder.exists(),
        **options,
    )
    return network


def _adam(network: DeepBeliefNetwork, parameters: list[torch.Tensor], rate: float) -> torch.optim.Optimizer:
    """Adam for the parameters of one machine, with the rates of joint training."""
    wanted = {id(parameter) for parameter in parameters}
    own = [{**group, "params": [p for p in group["params"] if id(p) in wanted]} for group in groups(network, rate)]
    return torch.optim.Adam(own)


@torch.no_grad()
def _errors(network: DeepBeliefNetwork, images: torch.Tensor) -> list[np.ndarray]:
    """For each layer, the root mean squared error of each image after going up to it and down, as a share of N."""
    found = []
    for layer in range(1, len(network.machines) + 1):
        parts = []
        for rows in images.split(CHUNK):
            v = states(rows, LEVELS)
            parts.append((network.reconstruct(v, layer) - v).flatten(1).square().mean(1).sqrt() / LEVELS)
        found.append(torch.cat(parts).numpy())
    return found


def judge_every(gains: list[np.ndarray]) -> Verdict:
    """Criterion: the mean gain over the same images is positive at every layer."""
    return every(mean(gain).above() for gain in gains)

"""Section 4: all layers of a stack are trained at once, by the sum of their losses; compared with layer by layer.

Both ways take the same number of updates of every machine. In joint training a machine also passes each batch up to the
ones above, and the machines above learn from features that still change.
"""

from __future__ import annotations

import numpy as np
import torch

from harmonium.machines import DeepBeliefNetwork
from harmonium.training import pretrain

from ..judging import Verdict, claim, every, mean
from ..options import with_options_of
from ..record import Record
from .networks import groups
from .trained import CHUNK, Machines, states

DATASET, LEVELS = "mnist", 255


@with_options_of(Machines)
def run(record: Record, trained: Machines, n: int = 2000) -> None:
    """Reconstruction errors of test images at every layer: before training, trained jointly, and layer by layer."""
    test = trained.load(DATASET, "test")[0][:n]
    networks = {
        "before": trained.untrained(DATASET, LEVELS),
        "joint": trained.network(DATASET, LEVELS),
        "greedy": _greedy(record, trained),
    }
    found = {name: _errors(network, test) for name, network in networks.items()}
    layers = range(len(found["before"]))
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
        f"{mean(found['joint'][-1])} and {mean(found['greedy'][-1])}, paired difference {mean(more):.4f}",
        mean(more).above(),
    )


def _greedy(record: Record, trained: Machines) -> DeepBeliefNetwork:
    network = trained.untrained(DATASET, LEVELS)
    options = trained.options(DATASET, network, LEVELS)
    del options["epochs"]
    rate = trained.settings(DATASET).rate
    options["optimizer"] = lambda parameters: _adam(network, list(parameters), rate)
    folder = trained.folder / f"{DATASET}-greedy-rows-{len(trained.rows(DATASET))}-epochs-{trained.epochs(DATASET)}"
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

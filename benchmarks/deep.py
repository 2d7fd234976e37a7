"""Speed of training deep machines, compared with the bare matrix products.

    python benchmarks/deep.py            # all numbers of iterations (minutes)
    python benchmarks/deep.py --quick    # fewer chunks

Steps of a deep Boltzmann machine (DeepPCD, 784–500–1000 binary units, batches and chains of 100) relative to the
*floor*: the matrix products that a step needs, with the same shapes and precision and nothing else. The step of an RBM
of 784×500 units is timed as well, because a deep machine has to be better than an RBM trained for the same time.

Steps of joint training of a convolutional stack (3–32–64 feature maps of 4×4, stride 2, on 3×32×32 images with 255
levels, CD-1, Adam), relative to a plain torch autoencoder with the same layers, batches and optimizer. A step of the
autoencoder has one pass up, one down and their gradients; a step of CD-1 has two passes up and one down for each
machine, random numbers, and gradients of two sets of rows.

Candidates are timed in turn, in CPU time with one thread. Results are written to benchmarks/results/deep.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

import harmonium as hm
from common import binary_data, interleaved, ratios, show, write

SIZES = (784, 500, 1000)
BATCH, STEPS = 100, 4
CHANNELS, LEVELS = (3, 32, 64), 255
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def floor(sizes: tuple[int, ...], iterations: int, precision: str) -> Callable[[], None]:
    """Return a function that computes only the products of the steps of a machine with three layers."""
    kind = PRECISIONS[precision]
    visible, middle, top = sizes
    W, V = torch.randn(visible, middle).to(kind) * 0.01, torch.randn(middle, top).to(kind) * 0.01
    v, h, t = (binary_data(2 * BATCH, size).to(kind) for size in sizes)

    def run() -> None:
        for _ in range(STEPS):
            v[:BATCH] @ W  # the batch
            for _ in range(iterations):
                h[:BATCH] @ V
                t[:BATCH] @ V.T
            h[BATCH:] @ W.T  # a sweep of the chains
            h[BATCH:] @ V
            v[BATCH:] @ W
            t[BATCH:] @ V.T
            v.T @ h  # the gradient
            h.T @ t

    return run


def ours(machine: hm.BoltzmannMachine, negative: hm.training.NegativePhase, precision: str) -> Callable[[], None]:
    """Return a function that runs the steps of hm.fit on a small data set, centered and with weight decay."""
    data = binary_data(BATCH * STEPS, machine.visible.size)
    penalties = [hm.L2(1.5e-4)]
    plan = hm.Plan(negative=negative, batch_size=BATCH, learning_rate=0.01, penalties=penalties, precision=precision)
    training = hm.Training(machine, data, plan)
    return training.one_epoch


def products(chunks: int) -> dict[str, dict[str, dict[str, float]]]:
    """Time the steps of a deep machine, of an RBM and the floor, for each precision and number of iterations."""
    results = {}
    for precision in PRECISIONS:
        for iterations in (1, 2, 10):
            candidates = {"floor": floor(SIZES, iterations, precision)}
            for positive in ("mean-field", "gibbs"):
                deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(size) for size in SIZES])
                phase = hm.DeepPCD(1, iterations=iterations, positive=positive)
                candidates[f"DeepPCD, {positive}"] = ours(deep, phase, precision)
            rbm = hm.RBM(hm.units.Bernoulli(SIZES[0]), hm.units.Bernoulli(SIZES[1]))
            candidates["RBM, PCD"] = ours(rbm, hm.PCD(1), precision)
            table = ratios(interleaved(candidates, chunks, time.process_time), "floor")
            title = f"{precision}, {iterations} iterations"
            show(f"784–500–1000, {title}, {STEPS} steps", table)
            results[title] = table
    return results


def autoencoder(channels: tuple[int, ...], images: Tensor) -> Callable[[], None]:
    """Return a function that trains a convolutional autoencoder with plain torch."""
    steps_up, steps_down = [], []
    for lower, upper in pairwise(channels):
        steps_up += [nn.Conv2d(lower, upper, 4, stride=2, padding=1), nn.Sigmoid()]
        steps_down = [nn.ConvTranspose2d(upper, lower, 4, stride=2, padding=1), nn.Sigmoid(), *steps_down]
    network = nn.Sequential(*steps_up, *steps_down)
    optimizer = torch.optim.Adam(network.parameters())

    def run() -> None:
        for batch in (images / LEVELS).split(BATCH):
            optimizer.zero_grad()
            functional.binary_cross_entropy(network(batch), batch).backward()
            optimizer.step()

    return run


def stack(channels: tuple[int, ...], images: Tensor) -> Callable[[], None]:
    """Return a function that trains a stack of convolutional machines jointly with hm.fit."""
    units = partial(hm.units.Multinary, levels=LEVELS, scale=0.1, form="integral")
    machines, visible = [], units(tuple(images.shape[1:]))
    for upper in channels[1:]:
        options = {"channels": upper, "kernel": 4, "stride": 2, "padding": 1, "hidden": units}
        machines.append(hm.machines.convolutional(visible, **options))
        visible = machines[-1].hidden.pooled_layer()
    network = hm.DeepBeliefNetwork(machines, inputs="means")
    plan = hm.Plan(negative=hm.CD(1), batch_size=BATCH, optimizer="adam", centered=False)
    training = hm.Training(network, images, plan)
    return training.one_epoch


def convolutions(chunks: int) -> dict[str, dict[str, float]]:
    """Time joint training of a convolutional stack, and an autoencoder with the same layers."""
    shape = (STEPS * BATCH, CHANNELS[0], 32, 32)
    images = torch.randint(LEVELS + 1, shape, generator=torch.Generator().manual_seed(0)).float()
    candidates = {"torch autoencoder": autoencoder(CHANNELS, images), "stack": stack(CHANNELS, images)}
    table = ratios(interleaved(candidates, chunks, time.process_time), "torch autoencoder")
    show(f"channels {CHANNELS}, {STEPS} steps of {BATCH} images", table, "× autoencoder")
    return table


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer chunks")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    write("deep", {"products": products(9 if quick else 41), "convolutions": convolutions(3 if quick else 15)})


if __name__ == "__main__":
    main()

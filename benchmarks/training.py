"""Speed of training, compared with the bare matrix products, textbook code, and other libraries.

    python benchmarks/training.py            # everything (about a quarter of an hour)
    python benchmarks/training.py --quick    # the main shape only, fewer chunks

Two measurements; candidates are timed in turn, so that changes of the computer's speed affect all equally:

* steps of harmonium and of plain torch as in a textbook, relative to the *floor*: the matrix products that the
  algorithm needs, with the same shapes and nothing else; in wall time with two threads and CPU time with one;
* whole epochs of 60 000 rows of the other libraries, each in its own process, relative to harmonium.

Run it without other load. Results are written to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import harmonium as hm
from common import binary_data, interleaved, ratios, show, write
from harmonium.training.train import prepare
from peers import python_of

SHAPES = [
    # visible, hidden, batch, k
    (784, 500, 100, 1),
    (784, 500, 500, 1),
    (784, 64, 128, 1),
    (784, 1200, 100, 1),
    (784, 500, 100, 10),
]


def steps_of(visible: int, hidden: int, batch: int, k: int) -> int:
    """Return the steps per chunk, so that chunks take about the same time for every shape."""
    return max(4, round(20 * (784 * 500 * 100 * 5) / (visible * hidden * batch * (3 + 2 * k))))


def floor(visible: int, hidden: int, batch: int, k: int, method: str) -> Callable[[], None]:
    """Return a function that computes only the products of a step."""
    W = torch.randn(visible, hidden) * 0.01
    v, h = binary_data(2 * batch, visible), (torch.rand(2 * batch, hidden) < 0.5).float()
    field_v, field_h, both = torch.empty(batch, visible), torch.empty(batch, hidden), torch.empty(2 * batch, hidden)
    gradient = torch.empty(visible, hidden)
    chunk = steps_of(visible, hidden, batch, k)

    def pcd() -> None:
        for _ in range(chunk):
            for _ in range(k - 1):
                torch.mm(h[:batch], W.T, out=field_v)
                torch.mm(v[batch:], W, out=field_h)
            torch.mm(h[:batch], W.T, out=field_v)
            torch.mm(v, W, out=both)
            torch.mm(v.T, h, out=gradient)

    def cd() -> None:
        for _ in range(chunk):
            torch.mm(v[:batch], W, out=field_h)
            for _ in range(k):
                torch.mm(h[:batch], W.T, out=field_v)
                torch.mm(v[batch:], W, out=field_h)
            torch.mm(v.T, h, out=gradient)

    return pcd if method == "pcd" else cd


def ours(visible: int, hidden: int, batch: int, k: int, method: str, centered: bool = False) -> Callable[[], None]:
    """Return a function that runs the steps of hm.fit on a small data set, with shuffling and torch.optim.SGD."""
    rbm = hm.RBM(hm.units.Bernoulli(visible), hm.units.Bernoulli(hidden))
    training = prepare(
        rbm,
        binary_data(steps_of(visible, hidden, batch, k) * batch, visible),
        negative=(hm.PCD if method == "pcd" else hm.CD)(k),
        batch_size=batch,
        centered=centered,
    )
    return training.one_epoch


def textbook(visible: int, hidden: int, batch: int, k: int, method: str) -> Callable[[], None]:
    """Return a function that trains with plain torch, as in a tutorial."""
    W = torch.randn(visible, hidden) * 0.01
    b, c = torch.zeros(visible), torch.zeros(hidden)
    chunk = steps_of(visible, hidden, batch, k)
    data = binary_data(chunk * batch, visible)
    chain = [data[:batch].clone()]

    def run() -> None:
        order = torch.randperm(len(data))
        for step in range(chunk):
            v0 = data[order[step * batch : (step + 1) * batch]]
            v = v0 if method == "cd" else chain[0]
            for _ in range(k):
                h = torch.bernoulli(torch.sigmoid(v @ W + c))
                v = torch.bernoulli(torch.sigmoid(h @ W.T + b))
            chain[0] = v
            p0, p1 = torch.sigmoid(v0 @ W + c), torch.sigmoid(v @ W + c)
            W.add_((v0.T @ p0 - v.T @ p1) * (0.05 / batch))
            b.add_((v0 - v).mean(0) * 0.05)
            c.add_((p0 - p1).mean(0) * 0.05)

    return run


def steps(shapes: list[tuple[int, int, int, int]], chunks: int) -> dict[str, object]:
    """Measure ratios to the floor for every shape, in wall time with two threads and CPU time with one."""
    results: dict[str, object] = {}
    for threads, clock, what in ((2, time.perf_counter, "wall, 2 threads"), (1, time.process_time, "CPU, 1 thread")):
        torch.set_num_threads(threads)
        for shape in shapes:
            for method in ("pcd", "cd"):
                candidates = {
                    "floor": floor(*shape, method),
                    "harmonium": ours(*shape, method),
                    "harmonium centered": ours(*shape, method, centered=True),
                    "textbook torch": textbook(*shape, method),
                }
                table = ratios(interleaved(candidates, chunks, clock), "floor")
                visible, hidden, batch, k = shape
                name = f"{method.upper()}-{k} {visible}x{hidden} batch {batch}, {what}"
                results[name] = table
                show(name, table)
    return results


def epochs(rounds: int) -> dict[str, object]:
    """Time whole epochs at 784×500, batch 100, each library in its own process, in turn."""
    here = Path(__file__).parent
    results: dict[str, object] = {}
    for method, peers in {
        "pcd": ["harmonium", "harmonium --centered", "sklearn-float32", "sklearn-float64", "rbms"],
        "cd": ["harmonium", "rbms", "learnergy"],
    }.items():
        times: dict[str, list[float]] = {peer: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                name, *options = peer.split()
                command = [python_of(name), str(here / "peers.py"), name, "--method", method, *options]
                output = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
                times[peer] += json.loads(output.stdout.splitlines()[-1])
        table = ratios(times, "harmonium")
        name = f"one epoch of {method.upper()}-1, 60000x784, 500 hidden, batch 100"
        results[name] = table
        show(name, table, "× harmonium")
    return results


def main() -> None:
    """Run the benchmark and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("steps", "epochs"))
    args = parser.parse_args()
    if args.only != "epochs":
        write("training_steps", {"ratios": steps(SHAPES[:1] if args.quick else SHAPES, 15 if args.quick else 31)})
    if args.only != "steps":
        write("training_epochs", {"ratios": epochs(3 if args.quick else 5)})


if __name__ == "__main__":
    sys.exit(main())

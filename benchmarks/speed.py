"""Time of updates and annealing steps through the public interface, relative to their bare matrix products.

    python benchmarks/speed.py                                 # CPU time with one thread, wall time with two
    python benchmarks/speed.py --label before --path OTHER     # the same for the package in the folder OTHER/src

The time of an update is the difference of a long and a short call of ``hm.fit``, divided by their difference in
updates, so that it contains all that a user waits for except the start. The same holds for ``hm.likelihood.ais``. Both
calls and the products are measured in turn. Only functions are used that every version has, so that two versions can be
compared; each is measured in a process of its own. Run it without other load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from common import RESULTS, binary_data, write

_ROUNDS = 5
_SHORT, _LONG = 1, 6  # epochs
_BETAS = (100, 700)


def one_hot(rows: int, sites: int, states: int) -> Tensor:
    """Random one-hot rows (rows, sites, states)."""
    return torch.nn.functional.one_hot(torch.randint(states, (rows, sites)), states).float()


def products(visible: int, hidden: int, rows: int) -> Callable[[], None]:
    """The three products of an update of PCD-1 with batches of ``rows`` rows."""
    W, v = torch.randn(visible, hidden) * 0.01, binary_data(2 * rows, visible)
    h = (torch.rand(2 * rows, hidden) < 0.5).float()
    down, up, gradient = torch.empty(rows, visible), torch.empty(2 * rows, hidden), torch.empty(visible, hidden)

    def compute() -> None:
        torch.mm(h[:rows], W.T, out=down)
        torch.mm(v, W, out=up)
        torch.mm(v.T, h, out=gradient)

    return compute


def two_products(visible: int, hidden: int, rows: int) -> Callable[[], None]:
    """The two products of an annealing step."""
    W, v, h = torch.randn(visible, hidden) * 0.05, binary_data(rows, visible), (torch.rand(rows, hidden) < 0.5).float()
    up, down = torch.empty(rows, hidden), torch.empty(rows, visible)

    def compute() -> None:
        torch.mm(v, W, out=up)
        torch.mm(h, W.T, out=down)

    return compute


class Updates:
    """Calls of ``hm.fit`` with a number of epochs of ``steps`` updates."""

    def __init__(self, visible: Any, data: Tensor, hidden: int, batch: int, **options: Any) -> None:
        self.visible, self.data, self.hidden, self.batch, self.options = visible, data, hidden, batch, options
        self.amounts, self.steps = (_SHORT, _LONG), -(-len(data) // batch)
        self.floor = products(data[0].numel(), hidden, batch)

    def __call__(self, epochs: int) -> None:
        machine = hm.RBM(self.visible(), hm.units.Bernoulli(self.hidden))
        options = {"batch_size": self.batch, "metrics_every": 1000, "progress": False, "seed": 0, **self.options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these data have nothing to learn
            hm.fit(machine, self.data, epochs=epochs, initialize=True, **options)


class Annealing:
    """Calls of ``hm.likelihood.ais`` with a number of temperatures."""

    amounts, steps = _BETAS, 1

    def __init__(self, visible: int, hidden: int, runs: int) -> None:
        self.machine, self.runs = hm.RBM(hm.units.Bernoulli(visible), hm.units.Bernoulli(hidden)), runs
        torch.nn.init.normal_(self.machine.coupling.weight, std=0.05)
        self.base, self.floor = binary_data(1000, visible), two_products(visible, hidden, runs)

    def __call__(self, betas: int) -> None:
        hm.likelihood.ais(self.machine, runs=self.runs, betas=betas, base=self.base)


def cases() -> dict[str, Updates | Annealing]:
    """What is measured. Optimizers are given, because rates from the data differ between versions in their cost."""
    bernoulli, rows, wide = hm.units.Bernoulli, binary_data(4000, 784), 4000
    plain = {"negative": hm.PCD(1), "optimizer": partial(torch.optim.SGD, lr=0.001), "transforms": []}
    centered = {**plain, "transforms": [hm.Centered()]}
    return {
        "PCD-1, 784×500, batch 100": Updates(lambda: bernoulli(784), rows, 500, 100, **plain),
        "PCD-1 centered, 784×500, batch 100": Updates(lambda: bernoulli(784), rows, 500, 100, **centered),
        "PCD-1, 784×64, batch 128": Updates(lambda: bernoulli(784), binary_data(12800, 784), 64, 128, **plain),
        "PCD-1, Potts 196×4, 500 hidden": Updates(
            lambda: hm.units.Potts((196, 4)), one_hot(wide, 196, 4), 500, 100, **plain
        ),
        "PCD-1, Gaussian 784, 500 hidden": Updates(
            lambda: hm.units.Gaussian(784), torch.randn(wide, 784), 500, 100, **plain
        ),
        "exact gradient, 112×8, batch 100": Updates(
            lambda: bernoulli(112), binary_data(4000, 112), 8, 100, **{**plain, "negative": hm.Exact()}
        ),
        "AIS, 784×500, 100 runs": Annealing(784, 500, 100),
    }


def measured(case: Updates | Annealing, clock: Callable[[], float]) -> dict[str, float]:
    """Milliseconds of a step and of its products, and their ratio: medians over rounds."""
    few, many = case.amounts
    steps = (many - few) * case.steps
    case(few)

    def seconds(work: Callable[[], object]) -> float:
        began = clock()
        work()
        return clock() - began

    def floor() -> None:
        for _ in range(steps):
            case.floor()

    step, bare = list[float](), list[float]()
    for _ in range(_ROUNDS):
        bare.append(seconds(floor) / steps)
        step.append((seconds(lambda: case(many)) - seconds(lambda: case(few))) / steps)
    ratios = [a / b for a, b in zip(step, bare, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    ms = 1000 * statistics.median(step)
    return {"milliseconds": ms, "products": 1000 * statistics.median(bare), "ratio": middle, "low": low, "high": high}


def measure() -> dict[str, dict[str, dict[str, float]]]:
    """All cases with one thread and with two."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for threads, clock, what in ((1, time.process_time, "CPU, 1 thread"), (2, time.perf_counter, "wall, 2 threads")):
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # fit does not choose a number of its own
        for name, case in cases().items():
            row = found.setdefault(name, {})[what] = measured(case, clock)
            print(f"{name:38s} {what:16s} {row['milliseconds']:8.3f} ms  {row['ratio']:.2f} × products", flush=True)
    return found


def main() -> None:
    """Measure in this process, or the package in another folder in a process of its own; write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="now", help="name of the version in the results")
    parser.add_argument("--path", type=Path, help="folder with another version of the package")
    args = parser.parse_args()
    if args.path is not None:
        source = str((args.path / "src").resolve())
        command = [sys.executable, __file__, "--label", args.label]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": source})
        return
    place = RESULTS / "speed.json"
    versions = json.loads(place.read_text())["versions"] if place.exists() else {}
    write("speed", {"versions": {**versions, args.label: measure()}})


if __name__ == "__main__":
    main()

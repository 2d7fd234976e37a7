"""Time of updates and annealing steps through the public interface, relative to their bare matrix products.

    python benchmarks/speed.py                                 # CPU time with one thread, wall time with two
    python benchmarks/speed.py --label before --path OTHER     # the same for the package in the folder OTHER/src

An update is timed by the epochs of one call of ``hm.fit``; after every epoch, a callback times as many products. The
speed of the computer changes within seconds, so that only ratios of neighboring times can be compared. An annealing
step or a sweep of the tempering is the difference of a long and a short call, with the products in turn. Only functions
are used that every version has, so that two versions can be compared; each is measured in a process of its own. Run it
without other load.
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
from common import RESULTS, binary_data, interleaved, write
from harmonium.training.precision import fast_bfloat16

_ROUNDS = 21
_BETAS, _SWEEPS = (20, 120), (2, 7)


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


class Timed(hm.Callback):
    """The time of every epoch, and of as many products as it has updates."""

    def __init__(self, floor: Callable[[], None], steps: int, clock: Callable[[], float]) -> None:
        self.floor, self.steps, self.clock = floor, steps, clock
        self.times: list[tuple[float, float]] = []
        self._began = 0.0

    def on_start(self, progress: Any) -> None:
        self._began = self.clock()

    def on_epoch(self, progress: Any) -> None:
        ended = self.clock()
        for _ in range(self.steps):
            self.floor()
        now = self.clock()
        self.times.append(((ended - self._began) / self.steps, (now - ended) / self.steps))
        self._began = now


class Updates:
    """A call of ``hm.fit``, timed by its epochs."""

    def __init__(self, visible: Any, data: Tensor, hidden: int, batch: int, **options: Any) -> None:
        self.visible, self.data, self.hidden, self.batch, self.options = visible, data, hidden, batch, options
        self.floor = products(data[0].numel(), hidden, batch)

    def times(self, clock: Callable[[], float]) -> list[tuple[float, float]]:
        """Seconds of an update and of its products, for every epoch but the first."""
        machine = hm.RBM(self.visible(), hm.units.Bernoulli(self.hidden))
        timed = Timed(self.floor, -(-len(self.data) // self.batch), clock)
        options = {"batch_size": self.batch, "progress": False, "seed": 0, **self.options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these data have nothing to learn
            hm.fit(machine, self.data, epochs=_ROUNDS + 2, initialize="normal", callbacks=[timed], **options)
        return timed.times[1:-1]  # the first epoch warms up, and the last one has metrics


class Steps:
    """A function of a number of steps, timed by the difference of a long and a short call."""

    def __init__(self, call: Callable[[int], object], floor: Callable[[], None], few: int, many: int) -> None:
        self.call, self.floor, self.few, self.many = call, floor, few, many

    def times(self, clock: Callable[[], float]) -> list[tuple[float, float]]:
        """Seconds of a step and of its products, for every round."""
        number = self.many - self.few
        calls = {
            "few": lambda: self.call(self.few),
            "many": lambda: self.call(self.many),
            "products": lambda: [self.floor() for _ in range(number)],
        }
        found = interleaved(calls, _ROUNDS, clock)
        rounds = zip(found["few"], found["many"], found["products"], strict=True)
        return [((long - short) / number, bare / number) for short, long, bare in rounds]


def annealing(visible: int, hidden: int, runs: int) -> Steps:
    """Steps of ``hm.likelihood.ais``."""
    machine, base = _machine(visible, hidden), binary_data(1000, visible)
    return Steps(
        lambda n: hm.likelihood.ais(machine, runs=runs, betas=n, base=base),
        two_products(visible, hidden, runs),
        *_BETAS,
    )


def tempering(visible: int, hidden: int, chains: int, rungs: int) -> Steps:
    """Sweeps of ``hm.sampling.parallel_tempering``."""
    machine, betas = _machine(visible, hidden), [k / (rungs - 1) for k in range(rungs)]
    return Steps(
        lambda n: hm.sampling.parallel_tempering(machine, chains, sweeps=n, betas=betas, seed=0),
        two_products(visible, hidden, chains * rungs),
        *_SWEEPS,
    )


def _machine(visible: int, hidden: int) -> hm.RBM:
    machine = hm.RBM(hm.units.Bernoulli(visible), hm.units.Bernoulli(hidden))
    torch.nn.init.normal_(machine.coupling.weight, std=0.05)
    return machine


def cases() -> dict[str, Updates | Steps]:
    """What is measured. Optimizers are given, because rates from the data differ between versions in their cost."""
    bernoulli, rows, wide = hm.units.Bernoulli, binary_data(4000, 784), 4000
    plain = {"negative": hm.PCD(1), "optimizer": partial(torch.optim.SGD, lr=0.001), "centered": False}
    centered = {**plain, "centered": True}
    found: dict[str, Updates | Steps] = {
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
        "AIS, 784×500, 100 runs": annealing(784, 500, 100),
        "tempering, 784×500, 20 rungs, 100 chains": tempering(784, 500, 100, 20),
    }
    if fast_bfloat16(torch.device("cpu")):
        found["PCD-1 centered, bfloat16"] = Updates(
            lambda: bernoulli(784), rows, 500, 100, **centered, precision="bfloat16"
        )
    return found


def measured(case: Updates | Steps, clock: Callable[[], float]) -> dict[str, float]:
    """Milliseconds of a step and of its products, and their ratio with its quartiles: medians over rounds."""
    times = case.times(clock)
    low, middle, high = statistics.quantiles([step / bare for step, bare in times], n=4)
    step, bare = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    return {"milliseconds": step, "products": bare, "ratio": middle, "low": low, "high": high}


def measure() -> dict[str, dict[str, dict[str, float]]]:
    """All cases with one thread and with two."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for threads, clock, what in ((1, time.process_time, "CPU, 1 thread"), (2, time.perf_counter, "wall, 2 threads")):
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # fit does not choose a number of its own
        for name, case in cases().items():
            row = found.setdefault(name, {})[what] = measured(case, clock)
            quartiles = f"[{row['low']:.2f}, {row['high']:.2f}]"
            print(f"{name:42s} {what:16s} {row['milliseconds']:8.3f} ms  {row['ratio']:.2f} {quartiles}", flush=True)
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

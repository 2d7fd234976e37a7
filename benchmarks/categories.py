"""Bernoulli columns or categories that were found: test likelihood of both layers, and the CPU time of ragged layers.

    python benchmarks/categories.py likelihood [--sets adult mushrooms dna] [--rates 0.1 0.2] [--updates 20000]
    python benchmarks/categories.py time

``likelihood`` trains machines on the binary density sets in $HARMONIUM_DATA/density (Larochelle & Murray 2011): with
Bernoulli units, and with the categories that ``hm.data.find_categories`` finds in the training rows. For both, learning
rate is chosen with the first seed, and the number of updates with every seed, by the exact likelihood of the
*validation* rows; test rows are used once, for the chosen machine. All likelihoods are exact (2^16 hidden states).
``time`` compares ``Categories`` with ``Mixed`` of ``Potts`` layers for the categories of ``adult``.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import harmonium as hm
from common import write

STATES = [5, 9, 5, 16, 5, 7, 15, 6, 5, 2, 2, 2, 5, 42]  # of the categories of adult
BATCH = 100


def load(name: str) -> dict[str, Tensor]:
    """The splits of a density set."""
    with np.load(Path(os.environ["HARMONIUM_DATA"]) / "density" / f"{name}.npz") as packed:
        columns = int(packed["variables"])
        splits = {"train": "train", "valid": "valid", "test": "test"}
        return {k: torch.from_numpy(np.unpackbits(packed[s], axis=1)[:, :columns]).float() for k, s in splits.items()}


class Best(hm.Callback):
    """Keeps the parameters with the largest exact log-likelihood of the validation rows."""

    def __init__(self, rows: Tensor, times: int = 5) -> None:
        self.rows, self.times, self.value, self.epoch = rows, times, -float("inf"), 0

    def on_epoch(self, progress: Any) -> None:
        if progress.epoch % max(1, progress.epochs // self.times) == 0:
            value = hm.likelihood.exact(progress.machine).log_likelihood(self.rows).value
            if value > self.value:
                self.value, self.epoch, self.machine = value, progress.epoch, copy.deepcopy(progress.machine)


def trained(
    layer: Callable[[], hm.units.Unit], rows: dict[str, Tensor], args: argparse.Namespace, seed: int, settings: Any
) -> dict[str, Any]:
    """Train with every setting, and return the results of the one that is best on the validation rows."""
    found: dict[str, Any] = {"validation": -float("inf")}
    epochs = -(-args.updates * BATCH // len(rows["train"]))
    for rate in settings:
        best = Best(rows["valid"])
        hm.fit(
            hm.RBM(layer(), args.hidden),
            rows["train"],
            negative=hm.PCD(args.k),
            epochs=epochs,
            batch_size=BATCH,
            learning_rate=rate,
            schedule="linear:0.3",
            callbacks=[best],
            seed=seed,
            progress=False,
        )
        if best.value > found["validation"]:
            found = {"validation": best.value, "rate": rate, "epoch": best.epoch, "machine": best.machine}
    found["test"] = hm.likelihood.exact(found.pop("machine")).log_likelihood(rows["test"]).value
    return found


def likelihood(args: argparse.Namespace) -> None:
    """Print the test likelihood of both layers for every set and seed."""
    results = []
    for name in args.sets:
        binary = load(name)
        found = hm.data.find_categories(binary["train"])
        encoded = {split: found.encode(rows) for split, rows in binary.items()}
        print(
            f"{name}: {len(found.groups)} categories, {sum(found.none)} with a state none, "
            f"{len(found.others)} other columns"
        )
        layers = {
            "bernoulli": (partial(hm.units.Bernoulli, found.columns), binary),
            "categories": (found.layer, encoded),
        }
        for kind, (layer, rows) in layers.items():
            if kind not in args.layers:
                continue
            settings = args.rates
            for seed in range(args.seeds):
                began = time.process_time()
                one = trained(layer, rows, args, seed, settings)
                settings = [one["rate"]]
                results.append(
                    {"set": name, "layer": kind, "seed": seed, **one, "cpu_seconds": time.process_time() - began}
                )
                print(
                    f"  {kind:10} seed {seed}: validation {one['validation']:.3f}, test {one['test']:.3f} "
                    f"(rate {one['rate']}, epoch {one['epoch']}; {results[-1]['cpu_seconds']:.0f} s)",
                    flush=True,
                )
    write("categories", {"hidden": args.hidden, "updates": args.updates, "k": args.k, "results": results})


def cpu_milliseconds(function: Callable[[], Any], repeats: int = 300) -> float:
    """The CPU time of a call."""
    for _ in range(20):
        function()
    began = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - began) / repeats * 1e3


@torch.no_grad()
def timing() -> None:
    """Print the CPU time of a ragged layer as ``Mixed`` and as ``Categories``."""
    torch.set_num_threads(1)
    layers = {
        "Mixed": hm.units.Mixed(*(hm.units.Potts((1, q)) for q in STATES)),
        "Categories": hm.units.Categories(STATES),
    }
    generator = torch.Generator().manual_seed(0)
    for rows in (100, 500):
        B = torch.randn(rows, sum(STATES), generator=generator)
        for name, layer in layers.items():
            functions = {
                "sample": lambda layer=layer, B=B: layer.sample(B, generator=generator),
                "mean": lambda layer=layer, B=B: layer.mean(B),
                "log_partition": lambda layer=layer, B=B: layer.log_partition(B),
            }
            times = ", ".join(f"{key} {cpu_milliseconds(call):.3f} ms" for key, call in functions.items())
            print(f"{rows} rows, {name}: {times}")
    data = layers["Categories"].sample(torch.randn(2000, sum(STATES), generator=generator), generator=generator)
    for name, layer in layers.items():
        training = hm.Training(hm.RBM(layer, 100), data, hm.Plan(learning_rate=0.05, seed=0))
        print(f"update of 100 rows, 100 hidden units, {name}: {cpu_milliseconds(training.one_epoch, 20) / 20:.2f} ms")


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("likelihood", "time"))
    parser.add_argument("--sets", nargs="+", default=["adult", "mushrooms", "dna"])
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.1, 0.2])
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--layers", nargs="+", default=["bernoulli", "categories"])
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    if args.what == "likelihood":
        likelihood(args)
    else:
        timing()


if __name__ == "__main__":
    main()

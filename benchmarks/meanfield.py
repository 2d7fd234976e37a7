"""Cost of mean field: an iteration compared with its matrix products, TAP with adaptive TAP and with PCD.

    python benchmarks/meanfield.py [--threads 1] [--chunks 30]

1. One TAP iteration of a 784 x 500 binary machine with 100 starts, relative to its *floor*: the four products W m and
   W² c in both directions, written into existing buffers. Naive mean field is relative to its two products.
2. An iteration of TAP compared with one of adaptive TAP, by the number of starts, as in fig. 10 (right) of Tramel et
   al. (2018).
3. An epoch of training with TAP (3 and 10 iterations per step) compared with one of PCD-1.

With one thread, times are CPU times, so that other programs do not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import harmonium as hm
from common import binary_data, interleaved, ratios, show, write
from harmonium import meanfield
from harmonium.meanfield.chain import Chain
from harmonium.meanfield.layers import MeanFieldLayer
from harmonium.meanfield.starts import upward

VISIBLE, HIDDEN, BATCH = 784, 500, 100


def machine(scale: float = 0.05) -> hm.RBM:
    """Return a machine with weights for which TAP converges and the units are not saturated."""
    rbm = hm.RBM(hm.units.Bernoulli(VISIBLE), hm.units.Bernoulli(HIDDEN))
    rbm.initialize(scale=scale, seed=0)
    return rbm


@torch.no_grad()
def iteration(clock: Callable[[], float], chunks: int) -> dict[str, Any]:
    """Time one iteration relative to the products that it needs."""
    rbm, data = machine(), binary_data(BATCH, VISIBLE)
    weight = rbm.coupling.weight.detach()
    square = weight.square()
    lower, upper = torch.empty(BATCH, VISIBLE), torch.empty(BATCH, HIDDEN)

    def chain(second_order: bool) -> Chain:
        a, c = upward(rbm, data, torch.zeros_like(data))
        return Chain(rbm, [MeanFieldLayer(unit) for unit in rbm.layers], a, c, second_order=second_order)

    tap, naive = chain(True), chain(False)

    def products() -> None:
        torch.mm(tap.a[0], weight, out=upper)
        torch.mm(tap.c[0], square, out=upper)
        torch.mm(tap.a[1], weight.T, out=lower)
        torch.mm(tap.c[1], square.T, out=lower)

    table = {}
    candidates = {"the four products": products, "TAP": tap.step, "TAP, not measured": lambda: tap.step(False)}
    table |= ratios(interleaved({k: _ten(v) for k, v in candidates.items()}, chunks, clock), "the four products")
    show(f"One TAP iteration, {VISIBLE} x {HIDDEN}, {BATCH} starts (ten at a time)", table)

    def two_products() -> None:
        torch.mm(naive.a[0], weight, out=upper)
        torch.mm(naive.a[1], weight.T, out=lower)

    other = ratios(
        interleaved({"the two products": _ten(two_products), "naive": _ten(naive.step)}, chunks, clock),
        "the two products",
    )
    show("One naive iteration", other)
    return {"tap": table, "naive": other}


def _ten(run: Callable[[], Any]) -> Callable[[], None]:
    def ten() -> None:
        for _ in range(10):
            run()

    return ten


def adaptive(clock: Callable[[], float], sizes: tuple[int, ...] = (1, 4)) -> dict[str, Any]:
    """Time an iteration of TAP and of adaptive TAP, as the difference of two runs of different length."""
    rbm, found = machine(), {}
    print("\nTAP and adaptive TAP, seconds per iteration")
    for size in sizes:
        data = binary_data(size, VISIBLE)
        seconds = {}
        for name, solve in (("tap", meanfield.tap), ("adatap", meanfield.adatap)):
            few, many = (2, 102) if name == "tap" else (1, 3)
            times = []
            for steps in (few, many):
                began = clock()
                solve(rbm, data, iterations=steps)
                times.append(clock() - began)
            seconds[name] = (times[1] - times[0]) / (many - few)
        ratio = seconds["adatap"] / seconds["tap"]
        found[str(size)] = {**seconds, "ratio": ratio}
        print(f"  {size:4d} starts   TAP {seconds['tap']:.2e}   adaTAP {seconds['adatap']:.2e}   x {ratio:.0f}")
    return found


def epochs(clock: Callable[[], float], chunks: int, rows: int = 2000) -> dict[str, Any]:
    """Time epochs of training on ``rows`` rows in batches of 100."""
    data = binary_data(rows, VISIBLE)
    phases = {
        "PCD-1": hm.PCD(1),
        "TAP, 3 iterations": hm.training.MeanField(3),
        "TAP, 10 iterations": hm.training.MeanField(10),
    }
    runs = {}
    for name, phase in phases.items():
        optimizer = lambda p: torch.optim.SGD(p, lr=0.005)  # noqa: E731
        plan = hm.Plan(negative=phase, batch_size=BATCH, optimizer=optimizer)
        runs[name] = hm.Training(machine(0.01), data, plan).one_epoch
    table = ratios(interleaved(runs, chunks, clock), "PCD-1")
    show(f"An epoch of {rows} rows, {VISIBLE} x {HIDDEN}, batches of {BATCH}", table, "× PCD-1")
    return table


def main() -> None:
    """Run the benchmark, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    print(f"{args.threads} thread(s), torch {torch.__version__}")
    results = {
        "iteration": iteration(clock, args.chunks),
        "adaptive": adaptive(clock),
        "epochs": epochs(clock, max(3, args.chunks // 6)),
    }
    write("meanfield", results)


if __name__ == "__main__":
    main()

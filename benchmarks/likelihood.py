"""How much does annealed importance sampling cost beyond its two matrix products per temperature?

    python benchmarks/likelihood.py            # 784×500, 100 runs, and other sizes
    python benchmarks/likelihood.py --quick    # the main shape only

Measures wall time with two threads and CPU time with one, relative to the bare products (the *floor*) measured in
turn; and the peak memory with 1000 and with 8000 temperatures, which should not differ. Run it without other load.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch

import harmonium as hm
from common import binary_data, interleaved, ratios, show, write

SHAPES = [(784, 500, 100), (784, 500, 500), (784, 64, 100), (784, 1200, 100)]


def temperatures_of(visible: int, hidden: int, runs: int) -> int:
    """Return the temperatures per chunk, so that chunks take about the same time for every shape."""
    return max(100, round(1000 * (784 * 500 * 100) / (visible * hidden * runs)))


def floor(visible: int, hidden: int, runs: int) -> Callable[[], None]:
    """Return a function that computes only the products of every temperature."""
    W = torch.randn(visible, hidden) * 0.01
    v, h = binary_data(runs, visible), (torch.rand(runs, hidden) < 0.5).float()
    up, down = torch.empty(runs, hidden), torch.empty(runs, visible)
    chunk = temperatures_of(visible, hidden, runs)

    def products() -> None:
        for _ in range(chunk):
            torch.mm(v, W, out=up)
            torch.mm(h, W.T, out=down)

    return products


def machine(visible: int, hidden: int) -> hm.RBM:
    """Return a machine with weights as large as those of trained machines."""
    rbm = hm.RBM(hm.units.Bernoulli(visible), hm.units.Bernoulli(hidden))
    rbm.initialize(weights="normal", scale=0.05, seed=0)
    return rbm


def ours(visible: int, hidden: int, runs: int) -> Callable[[], None]:
    """Return a function that runs hm.likelihood.ais from the single-site statistics of data."""
    rbm, data = machine(visible, hidden), binary_data(1000, visible)
    chunk = temperatures_of(visible, hidden, runs)

    def anneal() -> None:
        hm.likelihood.ais(rbm, runs=runs, betas=chunk, base=data)

    return anneal


def memory(temperatures: int) -> float:
    """Return the peak memory in MB of a separate process that anneals over this number of temperatures."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(temperatures)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Run the benchmark, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory is not None:
        hm.likelihood.ais(machine(784, 64), runs=100, betas=args.memory)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    rows = {}
    for shape in SHAPES[:1] if args.quick else SHAPES:
        for threads, what, clock in ((2, "wall time", time.perf_counter), (1, "CPU time", time.process_time)):
            torch.set_num_threads(threads)
            times = interleaved({"floor": floor(*shape), "ais": ours(*shape)}, 5 if args.quick else 10, clock)
            name = f"{shape[0]}x{shape[1]}, {shape[2]} runs: {what}, threads: {threads}"
            rows[name] = ratios(times, "floor")
            show(name, rows[name])
    megabytes = {str(n): memory(n) for n in (1000, 8000)}
    print(f"peak memory in MB by number of temperatures: {megabytes}")
    write("likelihood", {"ratios": rows, "memory_mb": megabytes})


if __name__ == "__main__":
    main()

"""Time to compute all couplings of a 784 × 1200 machine, for each activation function.

    python benchmarks/interactions.py [--hidden 1200] [--scale 0.1] [--repeats 3]

Computes 306 936 couplings, exactly and in the small-parameter limit, from weights as large as after training on MNIST,
and the error of the fast form compared with eq. (14) of Bulso & Roudi (2021), summed term by term, for random pairs.
Set OMP_NUM_THREADS=1 to measure one core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import harmonium as hm
from common import write
from harmonium import interactions

UNITS = {
    "step": hm.units.Bernoulli,
    "ReLU": hm.units.ReLU,
    "linear": hm.units.Gaussian,
    "exponential": hm.units.Poisson,
    "spin": hm.units.Spin,
}


def seconds(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median wall time and CPU time of several runs."""
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    wall, processor = (statistics.median(column) for column in zip(*times, strict=True))
    return wall, processor


def main() -> None:
    """Time every activation function and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visible", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=1200)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    pairs = interactions.random_tuples(args.visible, 2, 500, seed=0)
    rows = []
    for name, kind in UNITS.items():
        weight = args.scale * torch.randn(args.visible, args.hidden, generator=generator)
        hidden = kind(args.hidden, bias=torch.randn(args.hidden, generator=generator))
        coupling = hm.couplings.Dense(args.visible, args.hidden, weight)
        rbm = hm.RBM(hm.units.Bernoulli(args.visible), hidden, coupling)
        wall, processor = seconds(lambda: interactions.n_body(rbm, 2), args.repeats)  # noqa: B023
        small, _ = seconds(lambda: interactions.n_body(rbm, 2, method="small"), args.repeats)  # noqa: B023
        error = interactions.n_body(rbm, 2)[tuple(pairs.T)] - interactions.n_body(rbm, 2, pairs)
        row = {"unit": name, "seconds": wall, "cpu_seconds": processor, "small_seconds": small}
        row["error"] = error.abs().max().item()
        rows.append(row)
        print("{unit:12s} {seconds:6.2f} s (CPU {cpu_seconds:.2f} s)   ".format(**row), end="")
        print("small-parameter limit {small_seconds:5.2f} s   error {error:.1e}".format(**row))
    number = args.visible * (args.visible - 1) // 2
    print(f"{number} couplings, {torch.get_num_threads()} thread(s)")
    write("interactions", {**vars(args), "couplings": number, "rows": rows})


if __name__ == "__main__":
    main()

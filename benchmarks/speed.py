"""Time of training, annealing and tempering through the public interface, in units of dense float32 products.

    python benchmarks/speed.py                          # with the kernels of binary states and without them
    python benchmarks/speed.py --before FOLDER          # and the package in FOLDER/src
    python benchmarks/speed.py --only PCD AIS --rounds 5
    python benchmarks/speed.py --densities              # the three products in C by the density of the states
    python benchmarks/speed.py --busy                   # threads beside two busy processes
    python benchmarks/speed.py --likelihoods            # exact likelihoods after training with the kernels and without

The unit of an update is its three products by torch (down of the chains, up and gradient of batch and chains), that of
a step of annealing, a sweep of tempering or a transformation its products. The unit is timed in turn with the step, and
the versions take turns, each in a process of its own: CPU time with one thread, wall time with two. Rows are those of
MNIST (pixels > 127), and machines are trained on them, so that densities are those of training. Run it without other
load; $HARMONIUM_DATA has the files.
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
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from common import binary_data, interleaved, kept, quiet, without_metrics, write
from peers import log_likelihood, mnist

Pairs = list[tuple[float, float]]  # seconds of a step and of its products
Clock = Callable[[], float]
ROWS, WARM, TIMED, ROUNDS = 10_000, 3, 5, 7  # rows of an epoch; epochs before the timed ones; repetitions in a process


# -- dense products ---------------------------------------------------------------------------------------------------
def products(visible: int, hidden: int, rows: int, batch: int = 0) -> Callable[[], None]:
    """The products down of ``rows`` rows, and up and gradient of ``rows + batch`` rows; no gradient for batch 0."""
    W, v = torch.randn(visible, hidden) * 0.01, binary_data(rows + batch, visible)
    h = (torch.rand(rows + batch, hidden) < 0.5).float()
    down, up, gradient = torch.empty(rows, visible), torch.empty(rows + batch, hidden), torch.empty(visible, hidden)

    def compute() -> None:
        torch.mm(h[:rows], W.T, out=down)
        torch.mm(v, W, out=up)
        if batch:
            torch.mm(v.T, h, out=gradient)

    return compute


# -- cases ------------------------------------------------------------------------------------------------------------
def updates(visible: Any, hidden: Any, data: Tensor, batch: int = 100, **options: Any) -> Callable[[Clock], Pairs]:
    """Updates of ``hm.fit``, timed by epochs, each followed by as many products."""
    steps, sizes = -(-len(data) // batch), (data[0].numel(), hidden.shape.numel())
    floor = products(*sizes, batch, batch)

    def run(clock: Clock) -> Pairs:
        times: list[float] = []

        class Timed(hm.Callback):
            def on_epoch(self, progress: Any) -> None:
                times.append(clock())
                for _ in range(steps):
                    floor()
                times.append(clock())

        options.setdefault("negative", hm.PCD(1))
        epochs = WARM + TIMED + 1
        hm.fit(
            hm.RBM(visible, hidden),
            data,
            epochs=epochs,
            batch_size=batch,
            callbacks=[Timed()],
            **quiet(epochs),
            **options,
        )
        parts = [(b - a) / steps for a, b in pairwise(times)]  # products, epoch, products, …
        return list(zip(parts[2 * WARM - 1 : -2 : 2], parts[2 * WARM : -2 : 2], strict=True))

    return run


def calls(call: Callable[[int], object], floor: Callable[[], None], few: int, many: int) -> Callable[[Clock], Pairs]:
    """Steps of a function, timed by the difference of a long and a short call."""

    def run(clock: Clock) -> Pairs:
        number = many - few
        turns = {"few": lambda: call(few), "many": lambda: call(many), "bare": lambda: [floor() for _ in range(number)]}
        found = interleaved(turns, ROUNDS, clock)
        rounds = zip(found["few"], found["many"], found["bare"], strict=True)
        return [((long - short) / number, bare / number) for short, long, bare in rounds]

    return run


def setup(clock: Clock) -> Pairs:
    """The first call of ``hm.fit`` in a process besides its three epochs, and the dense products of an epoch."""
    data, times = mnist()[:30000], [clock()]
    floor = products(784, 500, 100, 100)

    class Timed(hm.Callback):
        def on_epoch(self, progress: Any) -> None:
            times.append(clock())

    began = clock()
    hm.fit(hm.RBM(784, 500), data, epochs=3, batch_size=100, callbacks=[Timed()], **quiet(3))
    total, began = clock() - began, clock()
    for _ in range(300):
        floor()
    return [(total - 3 * (times[2] - times[1]), clock() - began)]


def trained(hidden: int = 500) -> hm.RBM:
    """A machine after three epochs on MNIST."""
    machine = hm.RBM(784, hidden)
    hm.fit(machine, mnist()[:ROWS], epochs=3, batch_size=100, **quiet(3))
    return machine


def annealing() -> Callable[[Clock], Pairs]:
    """Steps of ``hm.likelihood.ais``."""
    machine, base = trained(), mnist()[:1000]

    def anneal(n: int) -> Any:
        return hm.likelihood.ais(machine, betas=n, base=base, check=False, seed=0)

    return calls(anneal, products(784, 500, 100), 20, 120)


def tempering(chains: int = 100, rungs: int = 20) -> Callable[[Clock], Pairs]:
    """Sweeps of ``hm.sampling.parallel_tempering`` with their exchanges."""
    machine, betas = trained(), [k / (rungs - 1) for k in range(rungs)]

    def sweeps(n: int) -> object:
        return hm.sampling.parallel_tempering(machine, chains, sweeps=n, betas=betas, seed=0)

    return calls(sweeps, products(784, 500, chains * rungs), 2, 7)


def transforming() -> Callable[[Clock], Pairs]:
    """Means of the hidden units of 2000 rows."""
    machine, rows, W, out = trained(), mnist()[:2000], torch.randn(784, 500), torch.empty(2000, 500)

    def transform(n: int) -> None:
        with torch.no_grad():
            for _ in range(n):
                machine.hidden_mean(rows)

    return calls(transform, lambda: torch.mm(rows, W, out=out), 1, 11)


def alignment(rows: int, sites: int, states: int) -> Tensor:
    """One-hot rows (rows, sites, states) with other frequencies at every site, as in an alignment of sequences."""
    logits = 2 * torch.randn(sites, states, generator=torch.Generator().manual_seed(0))
    drawn = torch.multinomial(logits.softmax(-1), rows, replacement=True).T
    return torch.nn.functional.one_hot(drawn, states).float()


def documents(rows: int, words: int, length: int) -> Tensor:
    """Counts of words (rows, words) with frequencies that fall as 1 / rank."""
    frequencies = (1 / torch.arange(1, words + 1)).expand(rows, words)
    drawn = torch.multinomial(frequencies, length, replacement=True)
    return torch.zeros(rows, words).scatter_add_(1, drawn, torch.ones(rows, length))


def case(name: str) -> Callable[[Clock], Pairs]:
    """What is measured."""
    from harmonium.units import Bernoulli, Gaussian, Multinomial, Potts, Spin

    binary = {
        "PCD-1, 784×500": (500, 100),
        "PCD-1, 784×64, batch 128": (64, 128),
    }
    if name in binary:
        hidden, batch = binary[name]
        return updates(Bernoulli(784), Bernoulli(hidden), mnist()[:ROWS], batch)
    made: dict[str, Callable[[], Callable[[Clock], Pairs]]] = {
        "PCD-1, spins 784×500": lambda: updates(Spin(784), Spin(500), 2 * mnist()[:ROWS] - 1),
        "PCD-1, Potts 112×21, 200 hidden": lambda: updates(Potts((112, 21)), Bernoulli(200), alignment(4000, 112, 21)),
        "PCD-1, Gaussian 784×500": lambda: updates(Gaussian(784), Bernoulli(500), torch.randn(4000, 784)),
        "CD-1, documents 2000×100": lambda: updates(
            Multinomial(2000), Bernoulli(100), documents(4000, 2000, 100), negative=hm.CD(1)
        ),
        "PCD-1, 8×4, batch 32": lambda: updates(Bernoulli(8), Bernoulli(4), binary_data(16000, 8), 32),
        "AIS, 784×500, 100 runs": annealing,
        "tempering, 784×500, 20 rungs": tempering,
        "transform, 784×500, 2000 rows": transforming,
        "set-up of fit, 784×500, 30 000 rows": lambda: setup,
    }
    return made[name]()


CASES = (
    "PCD-1, 784×500",
    "PCD-1, 784×64, batch 128",
    "PCD-1, spins 784×500",
    "PCD-1, Potts 112×21, 200 hidden",
    "PCD-1, Gaussian 784×500",
    "CD-1, documents 2000×100",
    "PCD-1, 8×4, batch 32",
    "AIS, 784×500, 100 runs",
    "tempering, 784×500, 20 rungs",
    "transform, 784×500, 2000 rows",
    "set-up of fit, 784×500, 30 000 rows",
)


# -- measuring --------------------------------------------------------------------------------------------------------
def work(name: str, threads: int, wall: bool) -> None:
    """Measure a case in this process; print the pairs."""
    torch.set_num_threads(threads)
    without_metrics()
    warnings.simplefilter("ignore")  # most of these data have nothing to learn
    print(json.dumps(case(name)(time.perf_counter if wall or threads > 1 else time.process_time)))


def measured(name: str, threads: int, changes: dict[str, str], *more: str) -> Pairs:
    """Measure a case in a process of its own."""
    command = [sys.executable, __file__, "--worker", name, "--threads", str(threads), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **changes}  # then fit does not choose a number
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return [(step, bare) for step, bare in json.loads(done.stdout.splitlines()[-1])]


def summary(pairs: Pairs) -> dict[str, float]:
    """Milliseconds of a step, and the ratio to its products with quartiles: medians over all rounds."""
    low, middle, high = statistics.quantiles([step / bare for step, bare in pairs], n=4, method="inclusive")
    return {
        "milliseconds": 1000 * statistics.median(step for step, _ in pairs),
        "ratio": middle,
        "low": low,
        "high": high,
    }


def table(
    names: list[str], versions: dict[str, dict[str, str]], numbers: list[int], rounds: int
) -> Iterator[tuple[str, Any]]:
    """Measure all versions with the numbers of threads in turn; print a row for each case and yield it."""
    columns = [(version, threads) for version in versions for threads in numbers]
    print("| | " + " | ".join(f"{version}, {'wall' if threads > 1 else 'CPU'}" for version, threads in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name in names:
        pairs: dict[tuple[str, int], Pairs] = {column: [] for column in columns}
        for _ in range(rounds):
            for version, threads in pairs:
                pairs[version, threads] += measured(name, threads, versions[version])
        row = {f"{version}, threads {threads}": summary(found) for (version, threads), found in pairs.items()}
        cells = [f"{r['milliseconds']:.3g} ms, {r['ratio']:.2f} ({r['low']:.2f}–{r['high']:.2f})" for r in row.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        yield name, row


def densities() -> dict[str, float]:
    """CPU time of the three products in C over that of torch, for densities of independent units."""
    from harmonium import kernels

    torch.set_num_threads(1)
    B, D, H, found = 100, 784, 500, {}
    W, down, up, gradient = torch.randn(D, H), torch.empty(B, D), torch.empty(2 * B, H), torch.zeros(D, H)
    mean = torch.rand(2 * B, H)
    for visible in (0.02, 0.13, 0.3, 0.5):
        for hidden in (0.1, 0.2, 0.35, 0.5):
            v, h = (torch.rand(2 * B, D) < visible).float(), (torch.rand(B, H) < hidden).float()

            def dense(v: Tensor = v, h: Tensor = h) -> None:
                torch.mm(h, W.T, out=down), torch.mm(v, W, out=up), gradient.addmm_(v.T, mean, alpha=1e-3)

            def sparse(v: Tensor = v, h: Tensor = h) -> None:
                done = kernels.down(h, W, down), kernels.up(v, W, up), kernels.correlate(v, mean, gradient, 1e-3)
                assert all(done), f"expected products in C, found {kernels.described()}"

            times = interleaved({"dense": dense, "sparse": sparse}, 41, time.process_time)
            ratio = statistics.median(s / d for s, d in zip(times["sparse"], times["dense"], strict=True))
            found[f"{visible} {hidden}"] = ratio
            print(f"visible {visible}, hidden {hidden}: {ratio:.2f}", flush=True)
    return found


def busy(rounds: int, name: str = "PCD-1, 784×500") -> dict[str, float]:
    """Wall milliseconds of an update beside two busy processes: one thread, two, and the choice of ``fit``."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    ways: dict[str, list[float]] = {"one thread": [], "two threads": [], "chosen by fit": []}
    try:
        time.sleep(1)
        for _ in range(rounds):
            for way in ways:
                threads = 1 if way == "one thread" else 2
                changes = {"OMP_NUM_THREADS": ""} if way == "chosen by fit" else {}
                pairs = measured(name, threads, changes, "--wall")
                ways[way].append(1000 * statistics.median(step for step, _ in pairs))
    finally:
        for other in others:
            other.kill()
    found = {way: statistics.median(times) for way, times in ways.items()}
    print("beside two busy processes:", ", ".join(f"{way} {value:.2f} ms" for way, value in found.items()))
    return found


def likelihoods(seeds: int = 6, epochs: int = 20) -> dict[str, list[float]]:
    """Exact mean log-likelihoods of 10 000 other rows after training 784×16 units, with the kernels and without."""
    from harmonium import kernels

    data, library, found = mnist(), kernels.library(), {}
    assert library is not None, "expected the library of kernels, found none"
    kernels._FEW_WEIGHTS = 1  # they are not used for so few weights otherwise
    for name, used in (("kernels", library), ("torch", None)):
        kernels.library = lambda used=used: used
        found[name] = []
        for seed in range(seeds):
            machine = hm.RBM(784, 16)
            hm.fit(machine, data[:20000], epochs=epochs, batch_size=100, **{**quiet(epochs), "seed": seed})
            with torch.no_grad():
                value = log_likelihood(data[50000:], machine.weight, machine.visible.bias, machine.hidden.bias)
            found[name].append(value)
        error = statistics.stdev(found[name]) / seeds**0.5
        print(f"{name}: {statistics.mean(found[name]):.2f} ± {error:.2f} nats, seeds {found[name]}", flush=True)
    return found


def main() -> None:
    """Measure one case in this process, or the cases in processes of their own; write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of the names of cases")
    parser.add_argument("--before", type=Path, help="folder with another version of the package")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--densities", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--likelihoods", action="store_true")
    parser.add_argument("--worker", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    parser.add_argument("--wall", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rounds < 2:
        parser.error(f"--rounds must be at least 2 for quartiles, not {args.rounds}")
    if args.worker:
        work(args.worker, args.threads[0], args.wall)
        return
    results = kept("speed")
    found: dict[str, Any] = {}
    if args.densities:
        found["densities"] = densities()
    if args.busy:
        found["busy"] = busy(args.rounds)
    if args.likelihoods:
        found["likelihoods"] = likelihoods()
    if not found:
        versions = {"now": {}, "without kernels": {"HARMONIUM_KERNELS": "0"}}
        if args.before is not None:
            versions["before"] = {"PYTHONPATH": str((args.before / "src").resolve())}
        names = [name for name in CASES if name.startswith(tuple(args.only))]
        cases = results.get("cases", {})
        for name, row in table(names, versions, args.threads, args.rounds):
            cases[name] = {**cases.get(name, {}), **row}
        found["cases"] = cases
    write("speed", {**results, **found})


if __name__ == "__main__":
    main()

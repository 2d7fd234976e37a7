"""Regression tests on difficult inputs: each check computes numbers and compares them with goals.

    python benchmarks/adversarial.py                        # everything; half an hour on one core
    python benchmarks/adversarial.py --quick                # minutes: fewer machines, the same goals
    python benchmarks/adversarial.py --only likelihood      # one of the checks
    python benchmarks/adversarial.py --only verdicts --seeds 0-2 --settings default   # a piece of one, see verdicts.py

The exit status is 1 if a goal is missed. Results of full runs: ``results/adversarial.json``.

To add a check, write a function that takes :class:`Options` and returns :class:`Number` objects; add it to ``CHECKS``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

import harmonium as hm
import verdicts
from common import RESULTS, write
from harmonium.likelihood import LogPartition
from harmonium.likelihood.estimate import DATA
from harmonium.training.outcome import gain_over_independent

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "likelihood"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "conformance"))
from hard_machines import KINDS, ROWS, exact_draws, make, one_mode
from test_defaults import LEARNABLE, VERDICTS, trained, verdict


@dataclass(frozen=True)
class Options:
    """Command-line options."""

    quick: bool
    first_seed: int = 0
    resume: bool = False
    seeds: Sequence[int] = ()
    settings: str = "short"


@dataclass(frozen=True)
class Number:
    """A measured number, with the largest allowed value (``None``: for information only)."""

    name: str
    value: float
    goal: float | None = None
    note: str = ""

    @property
    def good(self) -> bool:
        """Return whether the goal is met."""
        return self.goal is None or self.value <= self.goal


# -- the likelihood of machines that are hard to sample ----------------------------------------------------------------

# The thresholds of the library were chosen on seeds from 1000 on; this report uses seeds from 0 on.
SEEDS, QUICK_SEEDS = 20, 2
SLOW = {"relu": 2}  # seeds of kinds whose units are slow to sample
TEMPERATURES, SAMPLING_STEPS, POPULATION = 400, 50, 1000
WRONG = 0.5  # nats
LARGEST_FALSE_ASSURANCE, LARGEST_MISSES = 0.01, 0.005


@dataclass
class Tally:
    """Counts of how the verdicts and intervals of one method compare with the exact values."""

    total: int = 0
    trusted: int = 0
    false_assurance: int = 0
    needless_distrust: int = 0
    within: int = 0
    misses: int = 0
    open_ended: int = 0

    def add(self, error: float, trusted: bool, low: float, high: float) -> str:
        """Count one result, given its ``error`` and an interval of the error; return a description of what is wrong."""
        wrong, missed = not abs(error) <= WRONG, not low <= 0 <= high
        self.total += 1
        self.trusted += trusted
        self.within += not wrong
        self.false_assurance += trusted and wrong
        self.needless_distrust += not trusted and not wrong
        self.misses += missed
        self.open_ended += not math.isfinite(high - low)
        marks = {"false assurance": trusted and wrong, "interval misses": missed, "needless": not trusted and not wrong}
        return ", ".join(mark for mark, on in marks.items() if on)

    def numbers(self, name: str, verdict: bool = True) -> list[Number]:
        """Return the fractions; a method without a verdict cannot give false assurance."""
        n = max(self.total, 1)
        found = [
            Number(f"{name}: interval misses", self.misses / n, LARGEST_MISSES, f"{self.misses} of {self.total}"),
            Number(
                f"{name}: intervals open at an end", self.open_ended / n, None, f"{self.open_ended} of {self.total}"
            ),
        ]
        if not verdict:
            unseen = f"{self.false_assurance} of {self.total}"
            return [*found, Number(f"{name}: wrong without a visible problem", self.false_assurance / n, None, unseen)]
        false = f"{self.false_assurance} of {self.total}, {self.trusted} of them trusted"
        needless = f"{self.needless_distrust} of {self.within} results within {WRONG} nats"
        return [
            Number(f"{name}: false assurance", self.false_assurance / n, LARGEST_FALSE_ASSURANCE, false),
            Number(f"{name}: needless distrust", self.needless_distrust / max(self.within, 1), None, needless),
            *found,
        ]


def likelihood(options: Options) -> list[Number]:
    """Check verdicts and intervals of the estimates of ln Z, with data from one mode and with exact samples as data.

    An estimate is wrong if it differs from the exact value, by enumeration, by more than half a nat.
    """
    cases = _cases(options)
    two_sided, one_sided, from_data = Tally(), Tally(), Tally()
    numbers: list[Number] = []
    began = time.perf_counter()
    for done, (kind, seed) in enumerate(cases, 1):
        machine = make(kind, seed)
        log_z = machine.log_partition()
        source = Generator().manual_seed(seed)
        data = {"one mode": one_mode(machine, ROWS, source), "exact draws": exact_draws(machine, ROWS, source)}
        remarks = []
        for name, rows in data.items():
            options: dict[str, Any] = {"betas": TEMPERATURES, "sampling_sweeps": SAMPLING_STEPS, "seed": seed}
            found = hm.likelihood.estimate(machine, rows, **options).log_partition
            error, (low, high) = found.value - log_z, (end - log_z for end in found.interval)
            mark = two_sided.add(error, found.trustworthy, low, high)
            remarks.append((f"two-sided, {name}", mark and f"{mark} {error:+.2f} {found.problems}"))
            remarks.append((f"forward from {name}", _one_sided(from_data, found.details["checks"][DATA], log_z)))
        remarks.append(("forward", _one_sided(one_sided, found.details["forward"], log_z)))
        said = "; ".join(f"{name}: {text}" for name, text in remarks if text)
        print(f"  {done}/{len(cases)} {time.perf_counter() - began:.0f} s {kind} {seed} {said}", flush=True)
        if done % 50 == 0 or done == len(cases):
            numbers = [
                Number(
                    "machines", done, None, f"{len({kind for kind, _ in cases[:done]})} kinds, two sets of data each"
                ),
                *two_sided.numbers("two-sided"),
                *one_sided.numbers("forward from the base", verdict=False),
                *from_data.numbers("forward from data", verdict=False),
            ]
            if done < len(cases):
                show(numbers)
    return numbers


def population(options: Options) -> list[Number]:
    """Check population annealing in the same way, using its conditional interval, which has both ends.

    It is fast, so there are twice as many machines: those of the other check, on which it had 2 misses in 302, and
    equally many new ones, because so few misses say little about a level of 0.3 %.
    """
    tally, cases = Tally(), _cases(options, 2)
    for kind, seed in cases:
        machine = make(kind, seed)
        found = hm.likelihood.population(machine, POPULATION, seed=seed)
        ends = [end - machine.log_partition() for end in found.details["conditional_interval"]]
        error = found.value - machine.log_partition()
        mark = tally.add(error, not found.problems, *ends)
        if mark:
            print(f"  {kind} {seed}: {mark} {error:+.2f} [{ends[0]:+.2f}, {ends[1]:+.2f}] {found.problems}", flush=True)
    return [Number("machines", len(cases)), *tally.numbers("population annealing")]


def _cases(options: Options, times: int = 1) -> list[tuple[str, int]]:
    """Return (kind, seed) of the machines."""
    first, count = options.first_seed, times * (QUICK_SEEDS if options.quick else SEEDS)
    return [
        (kind, seed) for seed in range(first, first + count) for kind in KINDS if seed - first < SLOW.get(kind, count)
    ]


def _one_sided(tally: Tally, found: LogPartition, log_z: float) -> str:
    low, high = found.interval
    error = found.value - log_z
    mark = tally.add(error, not found.problems, low - log_z, high - log_z)
    return f"interval misses {error:+.2f}" if "misses" in mark else ""


# -- training ----------------------------------------------------------------------------------------------------------


def optimizers(options: Options) -> list[Number]:
    """Check Adam with centering and exact gradients: fall of the likelihood from its maximum, and below plain Adam."""
    potts, relu = hm.units.Potts((4, 3)), hm.units.ReLU(3)
    teacher = hm.RBM(potts, relu).double()
    source = Generator().manual_seed(1)
    with torch.no_grad():
        for parameter, scale in ((teacher.coupling.weight, 0.7), (potts.bias, 0.3), (relu.bias, 0.3)):
            parameter.copy_(scale * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    data = teacher.sample(2000, sweeps=300, seed=1, check_mixing=False)
    ends = []
    for centered in (True, False):
        rbm = hm.RBM(hm.units.Potts((4, 3)), hm.units.ReLU(3)).double()
        values: list[float] = []
        record = hm.training.Metric("x", partial(_keep_likelihood, values, data), every=20)
        hm.fit(rbm, data, negative=hm.Exact(), epochs=200 if options.quick else 800, batch_size=2000,
               initialize="normal:0.3", centered=centered, progress=False, callbacks=[record],
               optimizer=lambda p: torch.optim.Adam(p, lr=0.004))  # fmt: skip
        ends.append((max(values) - values[-1], values[-1]))
    return [
        Number(
            "centered Adam: fall from the maximum, nats",
            ends[0][0],
            1e-3,
            "0.8 before it acted in centered coordinates",
        ),
        Number("centered Adam: behind plain Adam, nats", ends[1][1] - ends[0][1], 0.01, "0.83 before"),
    ]


def _keep_likelihood(values: list[float], data: Tensor, machine: hm.RBM) -> float:
    values.append(hm.likelihood.exact(machine).log_likelihood(data).value)
    return values[-1]


def defaults(options: Options) -> list[Number]:
    """Check the defaults of ``fit``: the digits, and (full run) every pair of units that can learn.

    The data of a pair are 1000 independent exact samples of a machine of these units, and the gain is the mean exact
    log-likelihood of these rows minus that of independent units fitted to them. ``verdict`` has the criterion.
    """
    digits = torch.as_tensor(hm.data.load("digits", binarize="threshold")).float()
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(16))
    hm.fit(rbm, digits, seed=0, progress=False)
    ours, (_, theirs) = hm.likelihood.exact(rbm).log_likelihood(digits).value, gain_over_independent(rbm, digits)
    found = [Number("digits: behind independent units, nats", theirs - ours, -4.0, "-0.04 with the former defaults")]
    if options.quick:
        return found
    kept = RESULTS / f"{_PAIRS}.json"
    done: dict[str, dict[str, Any]] = json.loads(kept.read_text())["pairs"] if options.resume and kept.exists() else {}
    for pair in LEARNABLE:
        name = "-".join(pair)
        if name not in done:
            began = time.process_time()
            done[name] = {**trained(pair), "seconds": time.process_time() - began}
            write(_PAIRS, {"pairs": done})
        row = done[name]
        words = f"gain {row['gain'] or math.nan:6.3f} nats, of the machine that made the data {row['possible']:6.3f}"
        print(f"  {name:50s} {row['seconds']:6.1f} s  {words}  {verdict(**row)}", flush=True)
    by = {word: [name for name, row in done.items() if verdict(**row) == word] for word in VERDICTS}
    learns, fails, idle = (by[word] for word in VERDICTS)
    return [
        *found,
        Number(f"pairs of units of {len(learns) + len(fails)} that do not learn", len(fails), 0, ", ".join(fails)),
        Number("pairs of units with nothing to learn", len(idle), None, ", ".join(idle)),
    ]


_PAIRS = "adversarial_defaults"  # name of the file with the results of all pairs of units


# -- units and mean field ----------------------------------------------------------------------------------------------


def units(options: Options) -> list[Number]:
    """Check numbers that used to have large rounding errors: samples, modes and variances in large fields (float32)."""
    n, source = 200_000, Generator().manual_seed(0)
    spread = max(
        abs(kind(1).sample(torch.full((n, 1), 1e4), generator=source).double().var().item() - 1)
        for kind in (hm.units.ReLU, hm.units.DoubleReLU)
    )
    mode = hm.units.Multinomial(3, total=3).mode(torch.tensor([[0.0, -200.0, 0.0]]))
    worst = 0.0
    for kind, exact in ((hm.units.Bernoulli, math.exp(-20)), (hm.units.Spin, 4 * math.exp(-40))):
        mean, variance = torch.empty(1, 1), torch.empty(1, 1)
        with torch.no_grad():
            kind(1).mean_and_variance_(torch.full((1, 1), 20.0), None, mean, variance)
        worst = max(worst, abs(variance.item() / exact - 1))
    return [
        Number("ReLU units at B = 10⁴: error of the variance", spread, 0.02, "25 before"),
        Number("Multinomial mode: negative counts", int((mode < 0).sum()), 0, "1 before"),
        Number("binary variance at B = 20: relative error", worst, 1e-5, "1 before"),
    ]


def mean_field(options: Options) -> list[Number]:
    """Check for false convergence: strong damping, and the unstable solution of a ferromagnet."""
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(20)).double()
    with torch.no_grad():
        rbm.coupling.weight.fill_(0.1)  # the threshold is 0.05
    ones = torch.ones(1, 20, dtype=torch.float64)
    damped = hm.meanfield.naive(rbm, 0.5 * ones, damping=0.9999, tolerance=1e-3, max_iterations=50)
    still = hm.meanfield.naive(rbm, 1e-6 * ones, tolerance=1e-4)
    stable, small = hm.meanfield.stability(rbm, still).stable, still.magnetizations[0].abs().amax(1) < 0.5
    return [
        Number("damping 0.9999: starts that seem converged", int(damped.converged.sum()), 0, "1 before"),
        Number(
            "ferromagnet at m = 10⁻⁶: unstable solutions that seem stable",
            int((stable & small).sum()),
            0,
            "1 before",
        ),
    ]


def phases(options: Options) -> list[Number]:
    """Check the verdict and the interval of every estimator of ln Z on machines of 36 kinds (see verdicts.py)."""
    done = verdicts.run(options.seeds or verdicts.SEEDS[: 2 if options.quick else None], options.settings)
    numbers = []
    for title, part in verdicts.groups(done).items():
        print(verdicts.table(part), verdicts.remarks(part), sep="\n", flush=True)
        numbers.append(Number(f"{title}machines, {options.settings} settings", len(part)))
        for one in verdicts.scores(part):
            names = "trusted and wrong", "trusted intervals that miss", "distrusted but right"
            for name, share, goal in zip(names, one.shares, (0.005, 0.01, 0.1), strict=True):
                numbers.append(Number(f"{title}{one.method}: {name}", share, goal))
    return numbers


CHECKS: dict[str, Callable[[Options], list[Number]]] = {
    "likelihood": likelihood,
    "population": population,
    "verdicts": phases,
    "optimizers": optimizers,
    "defaults": defaults,
    "units": units,
    "mean-field": mean_field,
}


def show(numbers: Sequence[Number]) -> None:
    """Print a table."""
    for number in numbers:
        goal = "" if number.goal is None else f"goal ≤ {number.goal:g}  {'met' if number.good else 'MISSED'}"
        print(f"  {number.name:52s} {number.value:10.4g}  {goal:22s} {number.note}")


def _seeds(text: str) -> Sequence[int]:
    """Return the seeds of a range such as 0-20, or of one number."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    """Run the checks, print the numbers, and write the results of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer machines; writes no results")
    parser.add_argument("--only", choices=CHECKS, action="append", help="one of the checks")
    parser.add_argument("--first-seed", type=int, default=0, help="thresholds were chosen on seeds from 1000 on")
    parser.add_argument("--seeds", type=_seeds, default=(), help="of the machines of the verdicts, such as 0-20")
    parser.add_argument("--settings", choices=verdicts.SETTINGS, default="short", help="of the verdicts")
    parser.add_argument("--resume", action="store_true", help="continue with the pairs of units not yet trained")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    found: list[Number] = []
    for name in arguments.only or CHECKS:
        print(f"\n{name}", flush=True)
        began = time.perf_counter()
        numbers = CHECKS[name](
            Options(arguments.quick, arguments.first_seed, arguments.resume, arguments.seeds, arguments.settings)
        )
        show(numbers)
        found += numbers
        results[name] = {"seconds": time.perf_counter() - began, "numbers": [asdict(number) for number in numbers]}
    if not arguments.quick and not arguments.first_seed and not arguments.seeds:
        kept = RESULTS / "adversarial.json"
        before = json.loads(kept.read_text()) if kept.exists() else {}
        write("adversarial", {**{name: before[name] for name in CHECKS if name in before}, **results})
    missed = [number.name for number in found if not number.good]
    if missed:
        sys.exit(f"goals missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()

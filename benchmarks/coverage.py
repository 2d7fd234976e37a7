"""Coverage of the conditional intervals of annealed importance sampling, 100 seeds of each machine with known ln Z.

    python benchmarks/coverage.py            # all small machines, and the digits machine
    python benchmarks/coverage.py --small    # without the digits machine (which takes minutes)

Uses every machine of the conformance suite, some with strong weights, and a 784 x 15 machine trained on handwritten
digits. The weights of 100 x ``RUNS`` independent chains are split into 100 groups, and each group is one estimate. The
chains are independent, so that this equals 100 runs with different seeds and is much cheaper. (The schedule is fixed;
one chosen by a pilot run would be shared by all groups.)

The reverse direction starts from exact samples: of the enumerated states, or of the hidden states and then the visible
ones. Results: ``results/coverage.json``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

import harmonium as hm
from common import write
from harmonium.likelihood import LogPartition, Weights, ais, reverse_ais
from harmonium.likelihood.annealing import from_weights
from harmonium.machines import enumeration
from harmonium.sampling.path import free

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS / "machines")]
from cases import MACHINES, PAIRS, generator, id_of, rbm  # noqa: E402
from golden_machines import BINARY, BINARY_IDS, binary, digits  # noqa: E402
from oracle import joint  # noqa: E402

SEEDS, RUNS = 100, 100
BATCH = 1000  # chains of a large machine at a time, so that they stay in the cache


def split(machine: hm.BoltzmannMachine, found: LogPartition) -> list[LogPartition]:
    """Return the estimates of groups of runs."""
    base, reverse = found.details["base_log_partition"], found.method == "reverse annealing"
    groups = found.details["weights"].log_weights.view(-1, RUNS)
    return [from_weights(machine, Weights(weights), base, reverse=reverse) for weights in groups]


def summary(groups: list[LogPartition], log_z: float) -> dict[str, Any]:
    """Return how often the intervals of the groups contain ln Z, and the mean error."""
    errors = torch.tensor([group.value - log_z for group in groups], dtype=torch.float64)
    ends = [group.details["conditional_interval"] for group in groups]
    return {
        "inside": sum(low <= log_z <= high for low, high in ends),
        "open": sum(not math.isfinite(high - low) for low, high in ends),
        "without_problems": sum(not group.problems for group in groups),
        "mean_error": errors.mean().item(),
        "error_of_mean": (errors.std() / math.sqrt(len(errors))).item(),
        "standard_error": sum(group.standard_error for group in groups) / len(groups),
        "effective_runs": sum(group.details["effective_runs"] for group in groups) / len(groups),
    }


def both(
    machine: hm.BoltzmannMachine,
    log_z: float,
    start: Tensor,
    seed: int,
    base: hm.BoltzmannMachine | Tensor,
    temperatures: int,
) -> dict[str, Any]:
    """Run both directions, and check that their means lie on the expected sides of the truth (within 3 errors)."""
    began = time.perf_counter()
    source = Generator().manual_seed(seed)
    options: dict[str, Any] = {"betas": temperatures, "base": base, "seed": source}
    forward, reverse = [], []
    for part in start.split(BATCH if start[0].numel() > 100 else len(start)):
        forward += split(machine, ais(machine, runs=len(part), check=False, **options))
        reverse += split(machine, reverse_ais(machine, part, check=False, **options))
    table: dict[str, Any] = {"forward": summary(forward, log_z), "reverse": summary(reverse, log_z)}
    low, high = table["forward"], table["reverse"]
    table["ordered"] = (
        low["mean_error"] <= 3 * low["error_of_mean"] and high["mean_error"] >= -3 * high["error_of_mean"]
    )
    table["seconds"] = time.perf_counter() - began
    return table


def small() -> Iterator[tuple[str, hm.BoltzmannMachine, float, Tensor, int]]:
    """Yield (name, machine, ln Z, exact samples, temperatures) of all machines that can be enumerated."""
    n = SEEDS * RUNS
    cases = {**{id_of(pair): rbm(*pair) for pair in PAIRS}, **MACHINES}
    for name, case in cases.items():
        machine = case.build()
        exact = joint(machine, case.nodes(machine))
        if len(machine.layers) == 2:  # in reverse, the hidden layers of a deep machine would first have to equilibrate
            yield name, machine, exact.log_partition, exact.draw(n, generator("coverage", name))[0], 30
    for name, golden in zip(BINARY_IDS, BINARY, strict=True):
        yield name, *_enumerated(binary(golden), n, name), 60
    for scale in (1.0, 2.0, 3.0):
        machine = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
        machine.initialize(scale=scale, seed=3)
        for temperatures in (15, 60, 240):
            name = f"strong-{scale:g}-{temperatures}"
            yield name, *_enumerated(machine, n, name), temperatures


def _enumerated(machine: hm.RBM, n: int, name: str) -> tuple[hm.RBM, float, Tensor]:
    states, log_p = machine.distribution()
    chosen = torch.multinomial(log_p.exp(), n, replacement=True, generator=generator("coverage", name))
    return machine, machine.log_partition(), states[chosen]


def draws_by_hidden_states(machine: hm.RBM, n: int, source: Generator) -> Tensor:
    """Draw exact visible states (n, *visible) of a machine whose hidden states can be enumerated."""
    parts = list(enumeration.chunks(machine, 1))
    hidden = torch.cat([state[1] for state, _ in parts if state[1] is not None])
    log_p = torch.cat([log_p for _, log_p in parts])
    chosen = torch.multinomial((log_p - log_p.max()).exp(), n, replacement=True, generator=source)
    return torch.cat([machine.sample_visible(h, seed=source) for h in hidden[chosen].split(1000)])


def show(name: str, table: dict[str, Any]) -> None:
    """Print one line of the table."""
    parts = [
        f"{side[:3]} {row['inside']:3d} (open {row['open']:3d}) "
        f"mean {row['mean_error']:+.4f} ± {row['error_of_mean']:.4f} effective {row['effective_runs']:5.1f}"
        for side, row in table.items()
        if isinstance(row, dict)
    ]
    print(
        f"{name:34s} {'  |  '.join(parts)}  {'' if table['ordered'] else 'NOT ORDERED'} {table['seconds']:.1f} s",
        flush=True,
    )


def main() -> None:
    """Run the benchmark and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="without the digits machine")
    parser.add_argument("--digits", action="store_true", help="only the digits machine")
    parser.add_argument("--temperatures", type=int, default=1000, help="temperatures for the digits machine")
    options = parser.parse_args()
    tables = {}
    if not options.digits:
        for k, (name, machine, log_z, start, temperatures) in enumerate(small()):
            tables[name] = both(machine, log_z, start, k, free(machine), temperatures)
            show(name, tables[name])
        write("coverage", {"seeds": SEEDS, "runs": RUNS, "machines": tables})
    if not options.small:
        machine, log_z = digits()
        machine, source = machine.float(), Generator().manual_seed(0)
        with torch.no_grad():
            base = draws_by_hidden_states(machine, 1000, source)
            start = draws_by_hidden_states(machine, SEEDS * RUNS, source)
        table = both(machine, log_z, start, 1, base, options.temperatures)
        show("digits-784x15", table)
        write(
            "coverage_digits",
            {"seeds": SEEDS, "runs": RUNS, "temperatures": options.temperatures, "base": "draws", "digits": table},
        )


if __name__ == "__main__":
    main()

"""Shared by the benchmarks: shapes, data, timing, statistics, result files."""

from __future__ import annotations

import inspect
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium

RESULTS = Path(__file__).parent / "results"


def binary_data(rows: int, columns: int, seed: int = 0) -> Tensor:
    """Return sparse binary rows with the density of MNIST (13 % ones). Speed does not depend on the pattern."""
    return (torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < 0.13).float()


def quiet(epochs: int) -> dict[str, Any]:
    """Options of ``fit``: a seed, no bar, and metrics after the last epoch alone where a version has this option."""
    late = {"metrics_every": epochs} if "metrics_every" in inspect.signature(harmonium.fit).parameters else {}
    return {"progress": False, "seed": 0, **late}


def without_metrics() -> None:
    """Leave out the metrics of ``fit`` in this process, so that an epoch consists of its updates."""
    from harmonium.training import loop

    loop.measure = lambda *given: {}


def interleaved(
    candidates: dict[str, Callable[[], None]], chunks: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Time the candidates in turn, chunk by chunk, so that changes of the computer's speed affect all equally."""
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(chunks):
        for name, run in candidates.items():
            began = clock()
            run()
            times[name].append(clock() - began)
    return times


def ratios(times: dict[str, list[float]], reference: str) -> dict[str, dict[str, float]]:
    """Return the time of each candidate relative to the reference of the same round: median and quartiles."""
    table = {}
    for name, values in times.items():
        quotients = [value / base for value, base in zip(values, times[reference], strict=True)]
        low, middle, high = statistics.quantiles(quotients, n=4)
        table[name] = {"ratio": middle, "quartiles": [low, high], "median_seconds": statistics.median(values)}
    return table


def kept(name: str) -> dict[str, Any]:
    """Return what ``results/NAME.json`` has; nothing if it does not exist."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, results: dict[str, Any]) -> None:
    """Write ``results/NAME.json``, with the processor and the versions of torch and Python."""
    RESULTS.mkdir(exist_ok=True)
    header = {
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads()},
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    temporary = RESULTS / f".{name}.json.tmp"
    temporary.write_text(json.dumps({**results, **header}, indent=1) + "\n")
    temporary.replace(RESULTS / f"{name}.json")  # a run that is stopped leaves the file of the last call


def show(title: str, table: dict[str, dict[str, float]], unit: str = "× floor") -> None:
    """Print a table of ratios."""
    print(f"\n{title}")
    for name, row in table.items():
        low, high = row["quartiles"]
        print(f"  {name:28s} {row['ratio']:6.2f} {unit}   [{low:.2f}, {high:.2f}]   {row['median_seconds']:.4f} s")

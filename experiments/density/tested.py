"""The test likelihood of machines with chosen settings, and the verdicts on published numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

from .. import judging
from ..judging import Measured
from ..record import Record
from .published import PUBLISHED
from .settings import Budget, Settings
from .trained import Rows, choose, independent, load, measured, parameters


def one(record: Record, name: str, budget: Budget, seed: int) -> dict[str, Any]:
    """The results of one data set: a row of the table."""
    rows = load(name)
    return tested(record, rows, choose(record, rows, budget, seed), budget, seed)


def tested(record: Record, rows: Rows, settings: Settings, budget: Budget, seed: int) -> dict[str, Any]:
    """Train with the chosen settings and several seeds, and estimate the test likelihood."""
    runs: list[dict[str, Any]] = []
    for k in range(seed, seed + budget.seeds):
        found = measured(rows, settings, "test", (budget.updates, budget.betas), budget.batch_size, k)
        low, high = found.interval
        runs.append(
            {
                "seed": k,
                "test": found.log_likelihood,
                "forward": found.forward,
                "reverse": found.reverse,
                "low": low,
                "high": high,
                "exact": found.exact,
                "trustworthy": not found.problems,
                "problems": "; ".join(found.problems),
                "parameters": parameters(found.machine),
                "minutes": found.seconds / 60,
            }
        )
        record.say(f"{rows.name}, seed {k}: test {found.log_likelihood:.3f} in [{low:.3f}, {high:.3f}]")
    record.table(f"{rows.name}_test", runs)
    mean = judging.mean(run["test"] for run in runs)
    return {
        **asdict(settings),
        "updates": budget.updates,
        "test": mean.value,
        "standard_error": mean.error,
        "lowest": low if math.isfinite(low := min(run["low"] for run in runs)) else None,  # JSON has no infinity
        "trustworthy": sum(run["trustworthy"] for run in runs),
        "seeds": len(runs),
        "parameters": runs[0]["parameters"],
        "minutes": sum(run["minutes"] for run in runs) / len(runs),
        "independent": independent(rows),
    }


def claims(record: Record, name: str, row: dict[str, Any]) -> None:
    """Record the row, and a verdict for each published number; open if an estimate is not trustworthy."""
    record.numbers[name] = row
    settings = Settings(**{field.name: row[field.name] for field in fields(Settings)})
    mean = Measured(row["test"], row["standard_error"], max(1, row["seeds"] - 1))
    known = "" if settings.visible == "bernoulli" else " (knows the categories)"
    words = f"{judging.brief(mean)} nats, mean of {row['seeds']} seeds{known}; {settings}"
    for model, value in PUBLISHED.get(name, {}).items():
        trusted = row["trustworthy"] == row["seeds"]
        record.claim(f"{name}: above {value} nats, {model}", words, mean.above(value) if trusted else None)
    record.claim(
        f"{name}: the estimates of all seeds are trustworthy",
        f"{row['trustworthy']} of {row['seeds']}",
        row["trustworthy"] == row["seeds"],
    )

"""The test likelihood of machines with chosen settings, and the verdicts on published numbers."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from harmonium.training.threads import using

from .. import judging
from ..judging import Measured, Verdict
from ..options import parse_choice
from ..record import Record
from . import cost
from .published import GOALS, PUBLISHED
from .settings import BERNOULLI, CATEGORIES, Budget, Settings, budget_of
from .trained import Pieces, Rows, Trained, choose, independent, load


def report(record: Record, scale: str, seed: int, pieces: str = "", visible: str = "", **options: Any) -> None:
    """Run the data set that the experiment is named after, and record its rows and verdicts.

    ``options`` are those of :func:`budget_of`.
    """
    name = record.name.partition("/")[2]
    if visible:
        parse_choice("visible", visible, (BERNOULLI, CATEGORIES))
    budget = budget_of(name, scale, **options)
    kept = Pieces(Path(pieces) if pieces else record.folder / "pieces")
    for title, row in one(record, kept, name, budget, seed, visible).items():
        claims(record, title, row)


def one(
    record: Record, pieces: Pieces, name: str, budget: Budget, seed: int, only: str = ""
) -> dict[str, dict[str, Any]]:
    """The results of one data set: a row of the table for each kind of visible units, or for ``only`` one."""
    found = {}
    with using(1):  # times are those of one core; several sets run in parallel
        rows = load(name)
        kinds = [visible for visible in rows.kinds if only in ("", visible)]
        for visible in kinds:
            plan(record, rows, visible, budget)
        for visible in kinds:
            settings = choose(record, pieces, rows, visible, budget, seed)
            found[name if visible == BERNOULLI else f"{name}, {visible}"] = tested(
                record, pieces, rows, settings, budget, seed
            )
    return found


def plan(record: Record, rows: Rows, visible: str, budget: Budget) -> None:
    """State the cost of the run before it starts."""
    search, final = cost.measure(rows, visible, budget).seconds(visible, budget)
    record.numbers[f"planned minutes of {rows.name}, {visible}"] = round((search + final) / 60, 1)
    record.say(
        f"{rows.name}, {visible} units: planned {search / 60:.1f} minutes of one core for the search and "
        f"{final / 60:.1f} for {budget.seeds} trainings with their test likelihoods"
    )


def tested(record: Record, pieces: Pieces, rows: Rows, settings: Settings, budget: Budget, seed: int) -> dict[str, Any]:
    """Train with the chosen settings and several seeds, and estimate the test likelihood."""
    runs: list[tuple[int, Trained]] = []
    for k in range(seed, seed + budget.seeds):
        found = pieces.measured(rows, settings, "test", (budget.updates, budget.betas), budget.batch_size, k)
        runs.append((k, found))
        record.say(f"{rows.name}, seed {k}: test {found}")
    record.table(
        f"{rows.name}_{settings.visible}_test",
        [{"seed": k, "test": found.log_likelihood, **asdict(found)} for k, found in runs],
    )
    return row(settings, [found for _, found in runs], budget, independent(rows))


def row(settings: Settings, runs: list[Trained], budget: Budget, base: float) -> dict[str, Any]:
    """A row of the table."""
    finite = all(found.forward is not None and found.reverse is not None for found in runs)
    mean = judging.mean(found.log_likelihood for found in runs) if finite else Measured(0.0)
    worst = [found.pessimistic for found in runs if found.pessimistic is not None]
    lows, highs = [found.low for found in runs], [found.high for found in runs]
    return {
        **asdict(settings),
        "updates": budget.updates,
        "betas": budget.betas,
        "test": mean.value if finite else None,  # JSON has no infinity
        "standard_error": mean.error if finite else None,
        "pessimistic": sum(worst) / len(worst) if finite and worst else None,
        "lowest": None if None in lows else min(low for low in lows if low is not None),
        "highest": None if None in highs else max(high for high in highs if high is not None),
        "exact": all(found.exact for found in runs),
        "trustworthy": sum(not found.problems for found in runs),
        "seeds": len(runs),
        "parameters": runs[0].parameters,
        "minutes": sum(found.seconds + found.estimate_seconds for found in runs) / len(runs) / 60,
        "independent": base,
    }


def claims(record: Record, name: str, row: dict[str, Any]) -> None:
    """Record the row, and a verdict for each published number and goal."""
    record.numbers[name] = row
    settings = Settings(**{field.name: row[field.name] for field in fields(Settings)})
    trusted = row["trustworthy"] == row["seeds"]
    if row["test"] is None:
        words = f"-∞: a row has the probability zero, or a training diverged; {settings}"
    else:
        known = "" if settings.visible == BERNOULLI else " (knows the categories)"
        mean = judging.brief(Measured(row["test"], row["standard_error"]))
        doubt = (
            "" if trusted else f", not trustworthy: {row['pessimistic']:.2f} with the largest ln Z of all annealings"
        )
        words = f"{mean} nats, mean of {row['seeds']} seeds{known}{doubt}; {settings}"
    data_set = name.partition(",")[0]
    for model, value in PUBLISHED.get(data_set, {}).items():
        record.claim(f"{name}: above {value} nats, {model}", words, above(row, value) if trusted else None)
    if data_set in GOALS:
        goal = GOALS[data_set]
        record.claim(f"{name}: goal of {goal:.2f} nats", words, above(row, goal) if trusted else None)
    record.claim(
        f"{name}: the estimates of all seeds are trustworthy", f"{row['trustworthy']} of {row['seeds']}", trusted
    )


def above(row: dict[str, Any], value: float) -> Verdict:
    """Whether the test likelihood exceeds a value.

    The mean over the seeds has to exceed it beyond the error from the seeds, and the interval of every estimate has to
    be above it. It does not exceed the value if both are below; otherwise the verdict is open.
    """
    if row["test"] is None:
        return False
    mean = Measured(row["test"], row["standard_error"], max(1, row["seeds"] - 1)).above(value)
    low, high = row["lowest"], row["highest"]
    inside = True if low is not None and low > value else False if high is not None and high < value else None
    return mean if mean == inside else None

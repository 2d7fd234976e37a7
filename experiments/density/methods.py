"""Ways to train small RBMs compared at equal CPU time, with exact likelihoods of validation rows.

Every way trains for the same CPU time of one thread. The learning rate is chosen for each way and data set with one
seed; the other seeds are compared. The likelihoods are of validation rows, because the result decides which way to use:
the test rows are kept for ``density/NAME``. Every training is kept, and a stopped run continues after the last one.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import harmonium as hm
from harmonium import files
from harmonium.errors import Diverged, NotLearned
from harmonium.training import Average
from harmonium.training.callbacks import MixingTime, Progress
from harmonium.training.schedules import Clock, Linear, Setting
from harmonium.training.threads import using

from .. import judging
from ..judging import Measured
from ..record import Record
from .settings import BERNOULLI, CATEGORIES, EXACT_BATCH, EXACT_RATE, RATES, Settings
from .trained import Rows, finite, load

#: data set, visible units, hidden units: all likelihoods are exact
SETS = (
    *(("nltcs", BERNOULLI, 16), ("plants", BERNOULLI, 12)),
    *(("mushrooms", CATEGORIES, 12), ("adult", CATEGORIES, 12)),
)
SECONDS = {"quick": 6.0, "full": 60.0}
_NEEDED = 3  # sets on which a way has to be better
_BATCH = 100
_MOST_EPOCHS = 1_000_000  # the time ends the training
_MEASUREMENTS, _SWEEPS, _CHAINS, _MOST_SWEEPS = 10, 400, 50, 20  # of the mixing time; the most sweeps of an update
_EXACT_SHARE = 0.25  # of the time, at the end or at the beginning


@dataclass(frozen=True)
class Way:
    """A way to train: negative phase, initial weights, and what is special.

    Attributes:
        negative: negative phase.
        initialize: "modes", or "normal" for small random weights.
        mixing: whether the number of sweeps is the measured autocorrelation time, at most 20.
        exact: whether the last quarter of the time has exact gradients.
        grown: whether the first quarter trains half of the hidden units with exact gradients.
        optimizer: optimizer.
        rates: learning rates to choose from; 0 for the default of ``fit``.
    """

    negative: str = "pcd:1"
    initialize: str = "modes"
    mixing: bool = False
    exact: bool = False
    grown: bool = False
    optimizer: str = "sgd"
    rates: tuple[float, ...] = RATES


REFERENCE = "PCD-1"
WAYS: Mapping[str, Way] = {
    REFERENCE: Way(),
    "PCD-1, small random weights": Way(initialize="normal"),
    "PCD-5": Way("pcd:5"),
    "sweeps from the mixing time": Way(mixing=True),
    "parallel tempering": Way("parallel-tempering:1"),
    "trajectory tempering": Way("trajectory-tempering:1"),
    "parallel tempering, adapted ladder": Way("parallel-tempering:1,adapt=true"),
    "unbiased CD": Way("unbiased-cd:1"),
    "PCD-1, exact gradients at the end": Way(exact=True),
    "exact gradients, then more hidden units": Way(grown=True),
    "Adam in centered coordinates": Way(optimizer="adam", rates=(0.001, 0.003, 0.01)),
    "default learning rates": Way(rates=(0.0,)),
}


class CPUTime:
    """The part of a CPU time that is spent, from 0 to 1."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.process_time()

    @property
    def fraction(self) -> float:
        """The part that is spent."""
        return min(1.0, (time.process_time() - self.began) / self.seconds)

    def clock(self, clock: Clock) -> Clock:
        """The clock of the training, with the fraction of the time instead of the epochs."""
        return replace(clock, fraction=self.fraction)


class TimedDecay:
    """A learning rate that is constant for the first part of a CPU time, then decreases linearly to zero."""

    def __init__(self, spent: CPUTime, constant: float = 0.5) -> None:
        self.spent, self.decay = spent, Linear(constant)

    def __call__(self, clock: Clock) -> Setting:
        return self.decay(self.spent.clock(clock))


@dataclass(frozen=True)
class TimedAverage(Average):
    """The average over the last part of a CPU time."""

    spent: CPUTime = field(kw_only=True)

    def after_step(self, machine: Any, state: dict[str, Any], clock: Clock) -> dict[str, Any]:
        """Add to the average."""
        return super().after_step(machine, state, self.spent.clock(clock))


class Stop(hm.Callback):
    """Stop the training when the time is over."""

    def __init__(self, spent: CPUTime) -> None:
        self.spent = spent

    def on_epoch(self, progress: Progress) -> None:
        progress.stop = self.spent.fraction >= 1


class SweepsFromMixing(hm.Callback):
    """Set the sweeps of an update to the autocorrelation time of the chains, at ten times of the training."""

    def __init__(self, spent: CPUTime) -> None:
        self.spent, self.measured = spent, 0
        self._mixing = MixingTime(sweeps=_SWEEPS, chains=_CHAINS)
        self.sweeps: list[int] = []

    def on_epoch(self, progress: Progress) -> None:
        if self.spent.fraction * _MEASUREMENTS < self.measured + 1:
            return
        self.measured = int(self.spent.fraction * _MEASUREMENTS)
        self._mixing.on_epoch(progress)
        apart = progress.metrics["mixing_time"]  # 2τ, infinite if it cannot be measured
        sweeps = round(max(1.0, min(_MOST_SWEEPS, apart / 2)))
        progress.negative = progress.negative.with_sweeps(sweeps)
        self.sweeps.append(sweeps)


def train(rows: Rows, settings: Settings, way: Way, seconds: float, seed: int) -> tuple[hm.RBM, dict[str, Any]]:
    """Train a machine for a CPU time; the second value has the number of updates and the last number of sweeps."""
    data = rows.encoded("train", settings.visible)
    updates, sweeps = 0, list[int]()

    def fit(machine: hm.RBM, negative: str, share: float, size: int, **options: Any) -> None:
        nonlocal updates
        spent = CPUTime(share * seconds)
        adapted = SweepsFromMixing(spent)
        found = hm.fit(
            machine,
            data,
            negative=negative,
            constraints=[TimedAverage(spent=spent)],
            schedule=TimedDecay(spent),
            callbacks=[*([adapted] if way.mixing else []), Stop(spent)],
            epochs=_MOST_EPOCHS,
            batch_size=size,
            seed=seed,
            progress=False,
            **options,
        )
        updates += len(found.history) * -(-len(data) // size)
        sweeps.extend(adapted.sweeps)

    def fit_exactly(machine: hm.RBM, initialize: str) -> None:
        fit(machine, "exact", _EXACT_SHARE, EXACT_BATCH, learning_rate=EXACT_RATE, initialize=initialize)

    machine, initialize = rows.machine(settings), way.initialize
    if way.grown:
        half = rows.machine(replace(settings, hidden=settings.hidden // 2))
        fit_exactly(half, initialize)
        machine, initialize = hm.widen(half, settings.hidden - settings.hidden // 2, seed=seed), "keep"
    share = 1 - _EXACT_SHARE * (way.exact + way.grown)
    rate = {"learning_rate": settings.learning_rate or None, "optimizer": way.optimizer}
    fit(machine, way.negative, share, _BATCH, initialize=initialize, **rate)
    if way.exact:
        fit_exactly(machine, "keep")
    return machine, {"updates": updates, "sweeps": sweeps}


def measured(
    folder: Path, rows: Rows, settings: Settings, name: str, seconds: float, seed: int
) -> tuple[float, dict[str, Any]]:
    """Train, and return the exact validation likelihood with the facts of the training; from a file if there is one."""
    words = [rows.name, settings.visible, settings.hidden, name, f"{settings.learning_rate:g}", f"{seconds:g}", seed]
    place = folder / f"{'-'.join(map(str, words)).replace(', ', '-').replace(' ', '-')}.json"
    if not place.exists():
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotLearned)
                machine, facts = train(rows, settings, WAYS[name], seconds, seed)
            facts["seconds"] = time.process_time() - began
            data = rows.encoded("validation", settings.visible)
            facts["validation"] = finite(hm.likelihood.exact(machine).log_likelihood(data).value)
        except Diverged as error:
            facts = {"validation": None, "problem": str(error), "seconds": time.process_time() - began}
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(place, json.dumps(facts) + "\n")
    facts = json.loads(place.read_text(encoding="utf-8"))
    found = facts["validation"]
    return float("-inf") if found is None else found, facts


def run(record: Record, scale: str, seconds: float = 0.0, seeds: int = 3, seed: int = 0, sets: str = "") -> None:
    """Compare the ways; ``sets`` is a list such as "nltcs,plants", by default all four."""
    budget, table, better = seconds or SECONDS[scale], list[dict[str, Any]](), dict[str, list[judging.Verdict]]()
    names = sets.split(",") if sets else [name for name, _, _ in SETS]
    pieces = record.folder / "pieces"
    with using(1):
        _warm_up()
        for data_set, visible, hidden in SETS:
            if data_set not in names:
                continue
            rows, found = load(data_set), dict[str, list[float]]()
            for name in WAYS:
                row = _compared(rows, Settings(hidden, visible=visible), name, (budget, pieces), (seed, seeds))
                found[name] = row.pop("values")
                gain = [a - b for a, b in zip(found[name], found[REFERENCE], strict=True)]
                difference = judging.mean(gain) if name != REFERENCE else Measured(0.0)
                row |= {"gain": difference.value, "gain_error": difference.error}
                if name != REFERENCE:
                    better.setdefault(name, []).append(replace(difference, dof=max(1, seeds - 1)).above(0.0))
                table.append(row)
                record.say(f"{data_set}: {name}: {row}")
    record.table("methods", table)
    for name, verdicts in better.items():
        ahead, behind = verdicts.count(True), verdicts.count(False)
        decided = True if ahead >= _NEEDED else False if len(SETS) - behind < _NEEDED else None
        record.claim(
            f"{name}: better than {REFERENCE} on at least {_NEEDED} sets",
            f"better on {ahead}, worse on {behind} of {len(verdicts)}",
            decided,
        )


def _warm_up() -> None:
    """Train for a moment: the first training of a process is slower."""
    rows = load(SETS[0][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)
        for way in (Way(), Way(exact=True, mixing=True)):
            train(rows, Settings(SETS[0][2]), way, 0.5, 0)


def _compared(
    rows: Rows, settings: Settings, name: str, budget: tuple[float, Path], seeds: tuple[int, int]
) -> dict[str, Any]:
    """The row of a way and a data set: the best rate of the first seed, and the likelihoods of the following seeds."""
    (seconds, pieces), (seed, number) = budget, seeds

    def tried(rate: float) -> float:
        return measured(pieces, rows, replace(settings, learning_rate=rate), name, seconds, seed)[0]

    best = replace(settings, learning_rate=max(WAYS[name].rates, key=tried))
    found = [measured(pieces, rows, best, name, seconds, seed + k) for k in range(1, number + 1)]
    values = [value for value, _ in found]
    mean = judging.mean(values)
    return {
        "set": rows.name,
        "visible": settings.visible,
        "hidden": settings.hidden,
        "way": name,
        "rate": best.learning_rate,
        "validation": mean.value,
        "standard_error": mean.error,
        "seconds": sum(facts["seconds"] for _, facts in found) / number,
        "updates": sum(facts.get("updates", 0) for _, facts in found) // number,
        "sweeps": " ".join(map(str, found[-1][1].get("sweeps", []))),
        "values": values,
    }

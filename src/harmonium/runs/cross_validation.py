"""Choose the hidden units and the strength of a penalty by cross-validation, in parallel processes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import noise
from ..arrays import as_tensor
from ..checks import whole
from ..errors import Diverged, InvalidData, InvalidOption, unknown
from ..machines import RBM, layout
from ..machines.chain import as_layer
from ..shown import Shown, short
from ..training.state import stream
from ..units import Unit
from .folds import PENALTIES, Study, elsewhere, here

_FEWEST_FOLDS = 2


@dataclass(frozen=True)
class Candidate:
    """A choice of hidden units and penalty, with the mean log-likelihoods of each fold, in nats per row.

    ``validation`` are those of the rows left out, ``train`` those of the other rows. They are NaN if the training of a
    fold failed.
    """

    hidden: str
    strength: float
    units: int
    validation: tuple[float, ...]
    train: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean of the validation log-likelihood over the folds."""
        return sum(self.validation) / len(self.validation)

    @property
    def standard_error(self) -> float:
        """The standard error of :attr:`score`, from the spread of the folds."""
        n = len(self.validation)
        return math.sqrt(sum((value - self.score) ** 2 for value in self.validation) / (n - 1) / n)


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """Result of :func:`select`: all candidates, and the chosen one (``best``)."""

    candidates: tuple[Candidate, ...]
    best: Candidate
    penalty: str
    rule: str

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The chosen candidate and its score."""
        best = self.best
        score = f"{short(best.score, 5)} ± {best.standard_error:.2g} nats"
        chosen = {"hidden": best.hidden, self.penalty: best.strength, "validation log-likelihood": score}
        return "Selection", {**chosen, "rule": self.rule, "candidates": len(self.candidates)}

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each candidate: its score, the standard error, and whether it is chosen."""
        return [
            {
                "hidden": part.hidden,
                self.penalty: part.strength,
                "validation": part.score,
                "standard_error": part.standard_error,
                "train": sum(part.train) / len(part.train),
                "chosen": part is self.best,
            }
            for part in self.candidates
        ]


def select(
    data: Any,
    *,
    hidden: Sequence[int | str],
    penalties: Sequence[float] = (0.0,),
    penalty: str = "l2",
    visible: Unit | str | int | None = None,
    folds: int = 5,
    one_standard_error: bool = False,
    jobs: int | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Selection:
    """Choose the number of hidden units and the strength of a penalty by cross-validation.

    Each candidate is trained once for each fold, on the rows of the other folds, and judged by the log-likelihood of
    the rows of the fold. ln Z is exact if it can be enumerated (up to 2^20 states), otherwise from annealed importance
    sampling. Folds are trained in parallel processes with one thread each. The choice uses validation rows only: keep
    test rows out of ``data``.

    Args:
        data: rows (n, *visible).
        hidden: the hidden layers to compare, as numbers of Bernoulli units or strings such as "relu:20".
        penalties: the strengths of the penalty to compare.
        penalty: "l1", "l2", "l1_squared" or "l2_to_mean".
        visible: the visible units, an object or a string such as "spin"; by default Bernoulli units.
        folds: number of parts of the rows, at least 2.
        one_standard_error: choose the simplest candidate (the fewest hidden units, then the strongest penalty) whose
            score is within one standard error of the best score, instead of the best one.
        jobs: number of processes; by default the number of processors, at most the number of trainings.
        seed: seed of the folds and of the training.
        progress: print a line after each training.
        options: arguments of :func:`harmonium.fit` that can be written as JSON, such as ``epochs`` or ``negative``.

    >>> import harmonium as hm
    >>> rows = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]]).repeat(20, 1)
    >>> found = select(rows, hidden=[1, 2], folds=2, jobs=1, epochs=2, negative="exact", progress=False)
    >>> [part.hidden for part in found.candidates], len(found.best.validation)
    (['bernoulli:1', 'bernoulli:2'], 2)
    """
    study = _study(data, hidden, penalties, penalty, visible, folds, seed, options)
    count = len(study.tasks)
    wanted = (os.cpu_count() or 1) if jobs is None else whole("jobs", jobs)
    if wanted < 1:
        raise InvalidOption(f"jobs: expected at least 1, found {jobs}")
    scores: dict[int, tuple[float, float]] = {}
    found = here(study) if wanted == 1 else elsewhere(study, min(wanted, count))
    for done, (task, train, validation) in enumerate(found, 1):
        scores[task] = train, validation
        if progress:
            name, strength, fold = study.tasks[task]
            words = f"{name} {penalty} {strength:g}, fold {fold + 1}: {validation:.4g} nats"
            print(f"select {done}/{count}: {words}", file=sys.stderr, flush=True)
    candidates = tuple(
        Candidate(
            name,
            strength,
            layout.layer(layout.parse_hidden(name)).size,
            *(tuple(scores[k * folds + fold][part] for fold in range(folds)) for part in (1, 0)),
        )
        for k, (name, strength, _) in enumerate(study.tasks[::folds])
    )
    rule = "one standard error" if one_standard_error else "best mean"
    return Selection(candidates, choose(candidates, one_standard_error=one_standard_error), penalty, rule)


def choose(candidates: Sequence[Candidate], *, one_standard_error: bool = False) -> Candidate:
    """Return the candidate with the best score, or the simplest one within one standard error of it.

    >>> large = Candidate("bernoulli:9", 0.0, 9, (-2.0, -2.2, -2.4), (-1.0,) * 3)
    >>> small = Candidate("bernoulli:3", 0.0, 3, (-2.1, -2.3, -2.4), (-2.0,) * 3)
    >>> choose([large, small]).hidden, choose([large, small], one_standard_error=True).hidden
    ('bernoulli:9', 'bernoulli:3')
    """
    valid = [part for part in candidates if math.isfinite(part.score)]
    if not valid:
        raise Diverged("select: expected a candidate whose training succeeds, found none")
    best = max(valid, key=lambda part: part.score)
    if not one_standard_error:
        return best
    close = [part for part in valid if part.score >= best.score - best.standard_error]
    return min(close, key=lambda part: (part.units, -part.strength))


def _study(
    data: Any,
    hidden: Sequence[int | str],
    penalties: Sequence[float],
    penalty: str,
    visible: Unit | str | int | None,
    folds: int,
    seed: int,
    options: dict[str, Any],
) -> Study:
    """Check the arguments and divide the rows."""
    if penalty not in PENALTIES:
        raise unknown("penalty", penalty, PENALTIES)
    if not hidden or not penalties:
        raise InvalidOption("hidden, penalties: expected at least one value of each, found none")
    for strength in penalties:
        PENALTIES[penalty](strength)  # raises for a negative one
    try:
        json.dumps(options)
    except TypeError:
        raise InvalidOption(
            'options: expected arguments of fit that can be written as JSON, such as negative="cd:1", found objects'
        ) from None
    rows = as_tensor(data)
    layer = _visible(visible, tuple(rows.shape[1:]))
    names = ["+".join(map(str, layout.parse_hidden(str(text)))) for text in hidden]
    if len(set(names)) < len(names) or len(set(penalties)) < len(penalties):
        raise InvalidOption("hidden, penalties: expected different values, found the same one twice")
    for name in names:  # raises for unknown units, and for pairs without a finite partition function
        states = RBM(layer, layout.layer(layout.parse_hidden(name))).checked_states(rows)
    if whole("folds", folds) < _FEWEST_FOLDS or len(rows) < 2 * folds:
        raise InvalidData(
            f"folds: expected at least 2, and two rows for each, found {folds} folds and {len(rows)} rows"
        )
    fold = torch.arange(len(rows)) % folds
    fold = fold[torch.randperm(len(rows), generator=stream(noise.check_seed(seed), noise.Purpose.SHOW))]
    tasks = [(name, float(strength), k) for name in names for strength in penalties for k in range(folds)]
    return Study(states, fold, layer.config(), penalty, tasks, seed, options)


def _visible(given: Unit | str | int | None, shape: tuple[int, ...]) -> Unit:
    if isinstance(given, str):
        (spec,) = layout.parse_layer(given)
        return layout.UnitSpec(spec.name, spec.shape or shape, spec.options).build()
    return as_layer(shape if given is None else given)

"""MovieLens 100k: errors and rankings of predicted ratings on the folds u1 to u5, against means, biases and an SVD.

After Salakhutdinov, Mnih and Hinton, Restricted Boltzmann machines for collaborative filtering (2007), who used the
data of the Netflix prize. The data are those of Harper and Konstan (2015): ``u.data`` of MovieLens 100k, or
``ml-100k.inter``, the same lines in the same order, in the folder ``movielens-100k`` of $HARMONIUM_DATA. The test part
of fold k is the k-th fifth of the lines, which is how the script ``mku.sh`` of the data set makes u1 to u5.

All settings are chosen on a tenth of the *training* part of fold 1 and then used for all folds. No test rating is used
before the last step. The conditional machine is also given which items each user has rated, including those of the test
part, without their ratings, as in the paper.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from harmonium.data import RatingTable, locate, read_ratings
from harmonium.data.rating_files import read_lines
from harmonium.errors import DataNotFound, InvalidData
from harmonium.machines import RBM
from harmonium.tasks import RatingScores, predict, score_ratings

from ..judging import Measured, mean
from ..record import Record
from .baselines import Biases, Factors, global_mean, item_means
from .trained import train

FOLDER, FILES = "movielens-100k", ("u.data", "ml-100k.inter")
_RATINGS, _FOLDS = 100_000, 5
_VALIDATION = 0.1  # of the training part of fold 1
_GOAL = 0.95
_RIDGES = (2.0, 5.0, 10.0)
_RANKS, _SHRINKAGES = (2, 5, 10, 20), (0.05, 0.1, 0.2)
EPOCHS = {"quick": 40, "full": 100}
#: hidden units and strengths of the penalty among which the validation part chooses; the quick one was chosen so before
CHOICES: dict[str, tuple[tuple[int, float], ...]] = {
    "quick": ((100, 0.01),),
    "full": tuple((hidden, strength) for hidden in (100, 200, 400) for strength in (0.005, 0.01, 0.02)),
}
MACHINE, CONDITIONAL = "RBM", "conditional RBM"
Predictor = Callable[[RatingTable, RatingTable], Tensor]


def run(record: Record, scale: str, folds: int = 5, epochs: int = 0, hidden: int = 0, seed: int = 0) -> None:
    """Choose settings on fold 1, then train and test on the first ``folds`` folds; ``hidden`` replaces the choices."""
    table, fold = load()
    length = epochs or EPOCHS[scale]
    first = table.subset(fold != 0)
    choices = CHOICES[scale] if not hidden else ((hidden, 0.01),)
    predictors = _chosen(record, first, length, choices, seed)
    found: dict[str, list[RatingScores]] = {name: [] for name in predictors}
    rows = []
    for k in range(folds):
        known, test = table.subset(fold != k), table.subset(fold == k)
        for name, predictor in predictors.items():
            begin = time.process_time()
            score = score_ratings(test, predictor(known, test))
            found[name].append(score)
            seconds = round(time.process_time() - begin, 1)
            rows.append({"fold": f"u{k + 1}", "prediction": name, **vars(score), "cpu_seconds": seconds})
            record.say(f"u{k + 1}, {name}: {score}")
        record.table("folds", rows)
    keys = ("rmse", "mae", "ndcg", "precision", "recall")
    record.table(
        "movielens",
        [{"prediction": name, **{key: _mean(part, key).value for key in keys}} for name, part in found.items()],
    )
    _claims(record, found, folds)


def load() -> tuple[RatingTable, Tensor]:
    """The ratings, and the fold of each, 0 to 4."""
    roots = [Path(own).expanduser() for own in [os.environ.get("HARMONIUM_DATA")] if own]
    places = [root / FOLDER for root in (*roots, locate.cache())]
    path = next((place / name for place in places for name in FILES if (place / name).is_file()), None)
    if path is None:
        raise DataNotFound(
            f"MovieLens 100k: expected {' or '.join(FILES)} in {' or '.join(map(str, places))}, found neither. "
            "How to obtain: ml-100k.zip from grouplens.org/datasets/movielens, or the folder dataset_example/ml-100k "
            "in the Python package recbole."
        )
    table = read_ratings(path, range(1, 6))
    lines = {(line.user, line.item): k for k, line in enumerate(read_lines(path))}
    if len(lines) != _RATINGS:
        raise InvalidData(f"{path}: expected {_RATINGS} ratings, found {len(lines)}")
    place = [lines[table.users[u], table.items[i]] for u, i in table.pairs.tolist()]
    return table, torch.tensor(place) // (_RATINGS // _FOLDS)


def _chosen(
    record: Record, train_part: RatingTable, epochs: int, choices: tuple[tuple[int, float], ...], seed: int
) -> dict[str, Predictor]:
    """The predictors with the settings that have the smallest error on the validation ratings."""
    order = torch.randperm(len(train_part.user), generator=torch.Generator().manual_seed(seed))
    cut = round(_VALIDATION * len(order))
    held, known = train_part.subset(order[:cut]), train_part.subset(order[cut:])
    tried = []

    def error(name: str, guess: Tensor, **settings: float) -> float:
        value = score_ratings(held, guess).rmse
        tried.append({"prediction": name, **settings, "rmse": value})
        record.say(f"validation, {name} {settings}: RMSE {value:.4f}")
        return value

    ridge = min(_RIDGES, key=lambda x: error("biases", Biases.fit(known, x).predict(held.pairs), ridge=x))
    grid = [(rank, shrinkage) for rank in _RANKS for shrinkage in _SHRINKAGES]
    biases = Biases.fit(known, ridge)
    rank, shrinkage = min(
        grid,
        key=lambda x: error("SVD", Factors.fit(known, x[0], x[1], biases).predict(held.pairs), rank=x[0], ridge=x[1]),
    )

    def machine(data: RatingTable, hidden: int, strength: float, context: Tensor | None = None) -> RBM:
        return train(data, hidden=hidden, epochs=epochs, strength=strength, context=context, seed=seed)

    size, strength = min(
        choices,
        key=lambda x: error("RBM", predict(machine(known, *x), known, held.pairs), hidden=x[0], strength=x[1]),
    )
    record.table("validation", tried)
    record.numbers |= {"ridge": ridge, "rank": rank, "shrinkage": shrinkage, "hidden": size, "strength": strength}

    def conditional(data: RatingTable, test: RatingTable) -> Tensor:
        seen = (data.rated | test.rated).float()
        return predict(machine(data, size, strength, seen), data, test.pairs, context=seen)

    return {
        "mean of all": lambda data, test: global_mean(data, test.pairs),
        "mean of the item": lambda data, test: item_means(data, test.pairs),
        "biases": lambda data, test: Biases.fit(data, ridge).predict(test.pairs),
        "SVD": lambda data, test: Factors.fit(data, rank, shrinkage, Biases.fit(data, ridge)).predict(test.pairs),
        MACHINE: lambda data, test: predict(machine(data, size, strength), data, test.pairs),
        CONDITIONAL: conditional,
    }


def _mean(part: list[RatingScores], key: str) -> Measured:
    return mean([getattr(score, key) for score in part])


def _claims(record: Record, found: dict[str, list[RatingScores]], folds: int) -> None:
    errors = {name: _mean(part, "rmse") for name, part in found.items()}
    words = ", ".join(f"{name} {value.value:.4f}" for name, value in errors.items())
    whole = folds == _FOLDS
    ours = errors[MACHINE]
    record.claim(
        f"the mean RMSE of the RBM over u1 to u5 is below {_GOAL}",
        f"{ours:.4f} over {folds} folds ({words})",
        ours.value < _GOAL if whole else None,  # the folds are given, not drawn: their mean has no error
    )
    for other in ("mean of the item", "biases", "SVD"):
        gaps = mean([b.rmse - a.rmse for a, b in zip(found[MACHINE], found[other], strict=True)])
        record.claim(
            f"the RBM has a smaller error than {other}",
            f"difference of the RMSE {gaps:+.4f}",
            gaps.above(0.0) if whole else None,
        )

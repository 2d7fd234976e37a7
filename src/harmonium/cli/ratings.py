"""The command ``recommend``, and the error of predicted ratings during training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .. import tasks
from ..data.ratings import RatingTable
from ..errors import InvalidOption, unknown
from ..machines import RBM
from ..runs.setup import Setup, reopen
from ..tasks.recommendation import METHODS
from ..training import Metric
from ..training.loop import measured_every
from . import show
from .output import write_table

_MOST = 20_000  # training ratings that are predicted from the others


def recommend_run(
    folder: Path, *, user: Sequence[str] | None, n: int, data: str | None, method: str, out: Path | None
) -> dict[str, Any]:
    """Print the best items for each user, or the errors of predicted ratings if there are no users."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    setup = reopen(folder, data)
    machine, known = _rated(setup, folder)
    if not user:
        if out is not None:
            raise InvalidOption("out: expected --user NAME for a table of recommendations, found no user")
        return _print_errors(setup, folder, method)
    found = tasks.recommend(machine, known, n, users=user, method=method)
    rows = [
        [one.user, rank, item, expected]
        for one in found
        for rank, (item, expected) in enumerate(zip(one.items, one.expected, strict=True), 1)
    ]
    show.table(
        f"{folder}: items that the user has not rated, with the highest expected ratings",
        ["user", "rank", "item", "expected"],
        [[*row[:3], f"{row[3]:.2f}"] for row in rows],
        numbers=(1, 3),
    )
    if out is not None:
        write_table(out, ["user", "rank", "item", "expected"], rows)
    return {"items": [dict(zip(("user", "rank", "item", "expected"), row, strict=True)) for row in rows]}


def held_out_error(setup: Setup) -> Metric:
    """The root mean squared error of the held-out ratings, measured during training as the metric ``rmse``."""
    known, held_out = setup.rows.ratings, setup.rows.held_out_ratings
    assert known is not None and held_out is not None

    def error(machine: RBM) -> float:
        return tasks.score_ratings(held_out, tasks.predict(machine, known, held_out.pairs)).rmse

    return Metric("rmse", error, every=measured_every(setup.config.training.epochs or 1))


def _print_errors(setup: Setup, folder: Path, method: str) -> dict[str, Any]:
    machine, known = _rated(setup, folder)
    some = torch.randperm(len(known.user), generator=torch.Generator().manual_seed(0))[:_MOST]
    parts = {"training ratings, each predicted from the user's others": known.subset(some)}
    if setup.rows.held_out_ratings is not None:
        parts["held-out ratings"] = setup.rows.held_out_ratings
    scores = {
        name: tasks.score_ratings(part, tasks.predict(machine, known, part.pairs, method=method))
        for name, part in parts.items()
    }
    show.table(
        f"{folder}: errors of expected ratings; ranking of each user's ratings among themselves",
        ["ratings", "number", "RMSE", "MAE", "NDCG@10", "precision@10", "recall@10"],
        [
            [name, len(parts[name].user), *(f"{x:.4f}" for x in (s.rmse, s.mae, s.ndcg, s.precision, s.recall))]
            for name, s in scores.items()
        ],
        numbers=range(1, 7),
    )
    names = ("rmse", "mae", "ndcg", "precision", "recall")
    return {name: {"n": len(parts[name].user), **{key: getattr(s, key) for key in names}} for name, s in scores.items()}


def _rated(setup: Setup, folder: Path) -> tuple[RBM, RatingTable]:
    if setup.rows.ratings is None or not isinstance(setup.machine, RBM):
        raise InvalidOption(
            f"{folder}: expected a run on ratings (such as u.data) with one hidden layer, found {setup.rows.title}"
        )
    return setup.machine, setup.rows.ratings

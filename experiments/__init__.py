"""Reproductions of published results: one module for each figure, table or number.

``harmonium reproduce NAME``, or ``python -m experiments NAME`` in the root of the repository, runs one. It writes a
folder with figures, numbers as CSV, and ``verdict.json``: each claim, what was measured here, and whether the claim
holds. Experiments are part of the repository and not of the installed package.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from harmonium.errors import unknown
from harmonium.locking import locked

from .judging import WORDS
from .record import Claim, Record

__all__ = ["EXPERIMENTS", "SCALES", "WORDS", "Claim", "Record", "describe", "reproduce"]

DENSITY = (
    *("accidents", "adult", "baudio", "binarized-mnist", "bnetflix", "caltech-silhouettes", "dna", "jester"),
    *("mushrooms", "nips", "nltcs", "ocr-letters", "plants", "pumsb-star"),
)
DIFFERENTIABLE = ("table1", "table2", "fig1", "fig2", "figA1", "greedy_joint")
#: name: module of this package; the first line of its docstring describes it
EXPERIMENTS = {
    "classification/20newsgroups": "classification.newsgroups",
    "classification/mnist": "classification.mnist",
    "conditional/mocap": "conditional.mocap",
    "deep/dbm": "deep.dbm",
    "density/all": "density.all_sets",
    "density/methods": "density.methods",
    **{f"density/{name}": "density.single" for name in DENSITY},
    "deep/finetune": "deep.finetune",
    **{f"differentiable/{name}": f"differentiable.{name}" for name in DIFFERENTIABLE},
    "gaussian/capacity": "gaussian.capacity",
    "gaussian/defaults": "gaussian.defaults",
    "gaussian/samplers": "gaussian.samplers",
    **{f"interactions/fig{k}": f"interactions.fig{k}" for k in range(2, 12)},
    "interactions/protein_samples": "interactions.protein_samples",
    "interactions/proteins": "interactions.proteins",
    "interactions/spikes": "interactions.spikes",
    "mnist/500": "mnist_500",
    "recommendation/generated": "recommendation.generated",
    "recommendation/movielens": "recommendation.movielens",
    **{f"spectral/fig{k}": f"spectral.fig{k}" for k in range(1, 5)},
    **{f"tap/fig{k}": f"tap.fig{k}" for k in range(3, 12)},
    "tap/table1": "tap.table1",
    "text/topics": "text.topics",
}
SCALES = ("quick", "full")


def describe(name: str) -> str:
    """One line about an experiment."""
    return (inspect.getdoc(_module(name)) or "").splitlines()[0]


def reproduce(name: str, scale: str, folder: str | Path, **options: Any) -> Record:
    """Run an experiment and write its results to ``folder``.

    Args:
        name: one of ``EXPERIMENTS``.
        scale: "quick" or "full".
        folder: a new folder, or that of an experiment that was stopped: trainings in it continue.
        options: the experiment's own.

    >>> reproduce("mnist/5000", "quick", "runs/never")
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: unknown experiment 'mnist/5000': did you mean 'mnist/500'? (...)
    """
    run = _module(name).run
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    known = [key for key in inspect.signature(run).parameters if key not in ("record", "scale")]
    for key in options:
        if key not in known:
            raise unknown(f"option of {name}", key, known)
    with locked(folder):
        record = Record(name, scale, Path(folder))
        run(record, scale, **options)
        record.close()
    return record


def _module(name: str) -> ModuleType:
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    return importlib.import_module(f".{EXPERIMENTS[name]}", __name__)

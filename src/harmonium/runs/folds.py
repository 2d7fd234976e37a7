"""Trainings of a cross-validation, in this process or in other ones with one thread each."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import Diverged, HarmoniumError
from ..likelihood import ais, exact
from ..likelihood.rows import mean_free_energy
from ..machines import RBM, enumeration, layout
from ..training import L1, L2, L1Squared, L2ToMean, fit
from ..units import Unit

PENALTIES: dict[str, Any] = {"l1": L1, "l2": L2, "l1_squared": L1Squared, "l2_to_mean": L2ToMean}
_RUNS, _BETAS = 100, 1000
#: the program of a worker; with ``-m``, Python warns that the package has imported this module before
_WORKER = f"import sys; from {__name__} import work; work(*sys.argv[1:])"


@dataclass(frozen=True)
class Study:
    """The rows, the fold of each row, and the tasks (hidden layer, strength, fold), with the folds varying fastest."""

    rows: Tensor
    fold: Tensor
    visible: dict[str, Any]
    penalty: str
    tasks: list[tuple[str, float, int]]
    seed: int
    options: dict[str, Any]


def score(study: Study, task: int) -> tuple[float, float]:
    """Train on the other folds; return the mean log-likelihoods of the training and of the validation rows."""
    name, strength, fold = study.tasks[task]
    train, validation = study.rows[study.fold != fold], study.rows[study.fold == fold]
    machine = RBM(Unit.from_config(study.visible), layout.layer(layout.parse_hidden(name))).to(dtype=study.rows.dtype)
    penalties = [PENALTIES[study.penalty](strength)] if strength else []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(machine, train, penalties=penalties, seed=study.seed, progress=False, **study.options)
            log_z = _log_partition(machine, train, study.seed)
    except Diverged:
        return math.nan, math.nan
    return -mean_free_energy(machine, train) - log_z, -mean_free_energy(machine, validation) - log_z


def _log_partition(machine: RBM, rows: Tensor, seed: int) -> float:
    try:
        if enumeration.enumerable(machine):
            return exact(machine).value
    except HarmoniumError:
        pass
    return ais(machine, runs=_RUNS, betas=_BETAS, base=rows, check=False, seed=seed).value


# -- processes ----------------------------------------------------------------------------------------------------


def here(study: Study) -> Iterator[tuple[int, float, float]]:
    """Yield (task, train, validation) from this process."""
    for task in range(len(study.tasks)):
        yield task, *score(study, task)


def elsewhere(study: Study, jobs: int) -> Iterator[tuple[int, float, float]]:
    """Yield (task, train, validation) from ``jobs`` other processes, one after the other.

    They are started as commands, because the processes of ``multiprocessing`` run the user's program again.
    """
    with tempfile.TemporaryDirectory(prefix="harmonium-select-") as folder:
        _write(study, Path(folder))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", _WORKER, folder, str(k), str(jobs)],
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
            for k in range(jobs)
        ]
        try:
            for worker in workers:
                assert worker.stdout is not None
                for line in worker.stdout:
                    task, train, validation = json.loads(line)
                    yield task, train, validation
                if worker.wait():
                    raise HarmoniumError(f"select: a process ended with status {worker.returncode}; its error is above")
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def _write(study: Study, folder: Path) -> None:
    save_file({"rows": study.rows.contiguous(), "fold": study.fold}, folder / "rows.safetensors")
    plain = {"visible": study.visible, "penalty": study.penalty, "tasks": study.tasks, "seed": study.seed}
    (folder / "study.json").write_text(json.dumps({**plain, "options": study.options}), encoding="utf-8")


def _read(folder: Path) -> Study:
    tensors = load_file(folder / "rows.safetensors")
    plain = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    plain["tasks"] = [tuple(task) for task in plain["tasks"]]
    return Study(rows=tensors["rows"], fold=tensors["fold"], **plain)


def work(folder: str, first: str, jobs: str) -> None:
    """Do every ``jobs``-th task from ``first`` on; print the task and its two log-likelihoods as a line of JSON."""
    torch.set_num_threads(1)
    study = _read(Path(folder))
    for task in range(int(first), len(study.tasks), int(jobs)):
        print(json.dumps([task, *score(study, task)]), flush=True)

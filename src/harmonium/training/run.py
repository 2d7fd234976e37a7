"""The run folder: configuration, metrics and checkpoints.

Files are replaced atomically. One process writes (:mod:`harmonium.locking`); readers need no lock.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from .. import files, locking
from ..errors import CheckpointError, HarmoniumError, RunError
from ..machines import Machine
from ..paths import check_file, expand, read_toml
from ..shown import Shown, short
from .state import flatten, unflatten

_TRAINING = "training"


#: metrics in a short line
IN_REPR = ("pseudo likelihood", "reconstruction", "free energy gap", "label error")


class Run(Shown):
    """Run folder with config.toml, metrics.csv, machines at log-spaced epochs and the two newest checkpoints.

    The newest checkpoint is checkpoints/last.safetensors; previous.safetensors replaces it if it is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = expand(folder)
        self._last_intact = True  # as far as is known
        self._own: tuple[int, int] | None = None  # the folder, while a run is written to it

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The folder, and the metrics of the last epoch if there are any."""
        try:
            history = self.read_metrics()
        except RunError as error:
            return "Run", {"folder": self.folder, "problem": error}
        last = {name.replace("_", " "): short(value) for name, value in (history[-1] if history else {}).items()}
        page = self.folder / "report.html"
        return "Run", {"folder": self.folder, **last, **({"report": page} if page.exists() else {})}

    def __repr__(self) -> str:
        title, facts = self.shown()
        kept = {name: value for name, value in facts.items() if name in ("folder", "epoch", "problem", *IN_REPR)}
        return f"{title}({', '.join(f'{name} {value}' for name, value in kept.items())})"

    @property
    def config_path(self) -> Path:
        """config.toml: the full configuration of the run."""
        return self.folder / "config.toml"

    @property
    def metrics_path(self) -> Path:
        """metrics.csv: one row per epoch."""
        return self.folder / "metrics.csv"

    @property
    def last(self) -> Path:
        """The newest checkpoint, with the state for an exact resume."""
        return self.folder / "checkpoints" / "last.safetensors"

    @property
    def previous(self) -> Path:
        """The checkpoint before the newest one."""
        return self.folder / "checkpoints" / "previous.safetensors"

    def exists(self) -> bool:
        """Return whether the folder contains a run."""
        return self.config_path.exists() or self.last.exists()

    def check_new(self) -> None:
        """Raise unless a new run can begin here: the folder is new, or it is empty.

        What an interrupted write or a killed process has left over does not count; the run removes it.
        """
        if self.exists():
            raise RunError(f"{self.folder}: already contains a run; resume it or choose another folder")
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: expected a folder for the run, found a file")
        others = sorted(path.name for path in self.folder.glob("*") if not _left_over(path))
        if others:
            raise RunError(f"{self.folder}: expected a new or empty folder for the run, found '{others[0]}' in it")

    def hold(self) -> None:
        """Remember which folder this is, so that :meth:`check_held` notices if it is moved, deleted or replaced."""
        self._own = _identity(self.folder)

    def is_held(self) -> bool:
        """Return whether the folder is still that of :meth:`hold`."""
        return self._own is not None and _identity(self.folder) == self._own

    def check_held(self) -> None:
        """Raise :class:`RunError` unless the folder is still that of :meth:`hold`."""
        if self._own is not None and not self.is_held():
            found = "another one" if self.folder.exists() else "none"
            raise RunError(
                f"{self.folder}: expected the folder in which the run began, found {found}; it was moved, deleted or "
                "replaced during training, which has stopped. Its checkpoints are in the folder, wherever it is now"
            )

    # -- configuration --------------------------------------------------------------------------------------

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the configuration."""
        files.write_text(self.config_path, to_toml(config))

    def read_config(self) -> dict[str, Any]:
        """Read the configuration."""
        if not self.config_path.exists():
            raise RunError(f"{self.folder}: not a run folder (no config.toml)")
        try:
            return read_toml(self.config_path)
        except (OSError, ValueError) as error:
            raise RunError(f"{self.config_path}: damaged; expected a TOML file ({error})") from None

    def recorded(self, *names: str) -> Any:
        """Return an entry of the configuration; None if it is missing or the file is damaged.

        >>> Run("runs/none").recorded("training", "threads") is None
        True
        """
        try:
            found: Any = self.read_config() if self.config_path.exists() else None
        except HarmoniumError:  # reported when the run is opened
            return None
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    # -- metrics --------------------------------------------------------------------------------------------

    def write_metrics(self, history: Sequence[dict[str, float]]) -> None:
        """Write the table of all epochs, with columns in order of first appearance."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in history for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: repr(value) for key, value in row.items()} for row in history)
        files.write_text(self.metrics_path, text.getvalue())

    def read_metrics(self) -> list[dict[str, float]]:
        """Read the table, without empty cells. A missing file gives no rows; a damaged file raises ``RunError``."""
        if not self.metrics_path.exists():
            return []
        check_file(self.metrics_path, RunError)
        try:
            with self.metrics_path.open(encoding="utf-8", newline="") as file:
                history = [_metrics(row) for row in csv.DictReader(file)]
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError, csv.Error):
            history = []
        if not history:
            raise RunError(f"{self.metrics_path}: damaged; expected a table of numbers with one row per epoch")
        return history

    # -- checkpoints ----------------------------------------------------------------------------------------

    def write_checkpoint(self, machine: Machine, training: dict[str, Any]) -> None:
        """Replace the newest checkpoint, which becomes the previous one."""
        plain, tensors = flatten(training, f"{_TRAINING}/state")
        if self._last_intact and self.last.exists():
            self.previous.unlink(missing_ok=True)
            try:
                os.link(self.last, self.previous)
            except OSError:  # the file system has no hard links
                shutil.copyfile(self.last, self.previous)
        self._last_intact = True
        self._write_machine(self.last, tensors, {_TRAINING: json.dumps(plain)}, machine)

    def read_checkpoint(self, machine: Machine) -> dict[str, Any]:
        """Load the newest checkpoint's parameters into ``machine`` and return the training state."""
        tensors, state = self.read_state()
        files.load_parameters(machine, self.last, tensors)
        return state

    def read_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tensors and the training state of the last intact checkpoint; warn if a later one is damaged.

        The damaged one is replaced when the next checkpoint is written.
        """
        try:
            return _read_state(self.last)
        except CheckpointError as error:
            try:
                found = _read_state(self.previous)
            except CheckpointError:
                raise CheckpointError(f"{error}; the checkpoint before it is not intact either") from None
            warnings.warn(f"{error}. The checkpoint before it, {self.previous.name}, is used", stacklevel=1)
            self._last_intact = False
            return found

    def write_snapshot(self, machine: Machine, epoch: int) -> None:
        """Save the machine of this epoch."""
        self._write_machine(self.last.with_name(f"epoch-{epoch:06d}.safetensors"), {}, {"epoch": str(epoch)}, machine)

    def _write_machine(
        self, path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str], machine: Machine
    ) -> None:
        """Write a machine; a run folder that was moved is not created again without its other files."""
        with contextlib.suppress(OSError):  # reported by the writing
            path.parent.mkdir(exist_ok=True)
        files.write_tensors(path, tensors, metadata, machine)

    def trajectory(self) -> list[tuple[int, Path]]:
        """Return the saved machines as (epoch, file), in order."""
        named = ((path.stem.removeprefix("epoch-"), path) for path in (self.folder / "checkpoints").glob("epoch-*"))
        found = [(int(name), path) for name, path in named if name.isdecimal() and path.suffix == ".safetensors"]
        return sorted(found)

    def machines(self) -> dict[float, Any]:
        """Load the saved machines, by epoch, in order."""
        return {float(epoch): files.load(path) for epoch, path in self.trajectory()}

    def clean(self) -> None:
        """Remove what interrupted writes have left over."""
        for path in (*self.folder.glob(".*.tmp"), *self.folder.glob("checkpoints/.*.tmp")):
            path.unlink(missing_ok=True)

    def discard(self, *names: str) -> None:
        """Remove what a run has written that stopped before its first checkpoint, with other files by ``names``."""
        self.clean()
        others = (self.folder / name for name in names)
        for path in (self.config_path, self.metrics_path, *others, *(path for _, path in self.trajectory())):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty or not there
            os.rmdir(self.folder / "checkpoints")


def _read_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors and the training state of a checkpoint; raise :class:`CheckpointError` if it is damaged."""
    tensors, metadata = files.read_tensors(path)
    if _TRAINING not in metadata:
        raise CheckpointError(f"{path}: contains a machine without training state; it cannot be resumed")
    try:
        state = unflatten(json.loads(metadata[_TRAINING]), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the training state is damaged ({error})") from None
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: the training state is damaged")
    return tensors, state


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return the device and the number of a folder; None if there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def to_toml(config: Mapping[str, Any]) -> str:
    """Return nested tables of strings, numbers, booleans and lists as TOML, without values of None.

    >>> print(to_toml({"seed": np.int64(0), "data": {"name": "digits", "mean": None}}), end="")
    seed = 0
    <BLANKLINE>
    [data]
    name = "digits"
    """
    return tomli_w.dumps(_plain(config))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _left_over(path: Path) -> bool:
    """Return whether a file is left over from an interrupted write or a killed process."""
    return path.name == locking.NAME or (path.name.startswith(".") and path.suffix == ".tmp")


def _metrics(row: dict[str, str]) -> dict[str, float]:
    """Return the numbers of a row; a truncated row contains ``None``, for which ``float`` raises."""
    values = {key: float(cell) for key, cell in row.items() if cell != ""}
    return {**values, "epoch": int(values["epoch"])}


def log_spaced(epochs: int, per_decade: int = 8) -> set[int]:
    """Return the epochs at which a machine is saved: 0, log-spaced epochs, and the last.

    >>> sorted(log_spaced(20))
    [0, 1, 2, 3, 4, 6, 7, 10, 13, 18, 20]
    """
    kept, k = {0, epochs}, 0
    while (epoch := round(10 ** (k / per_decade))) <= epochs:
        kept.add(epoch)
        k += 1
    return kept

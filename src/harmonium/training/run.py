"""The run folder: configuration, metrics and checkpoints. All writes are atomic."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from pathlib import Path
from typing import Any

from .. import files
from ..errors import CheckpointError, RunError
from ..machines import Machine
from . import toml
from .state import flatten, unflatten

_TRAINING = "training"


class Run:
    """Run folder with config.toml, metrics.csv, checkpoints/last.safetensors and machines at log-spaced epochs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

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

    def exists(self) -> bool:
        """Return whether the folder contains a run."""
        return self.config_path.exists() or self.last.exists()

    # -- configuration --------------------------------------------------------------------------------------

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the configuration."""
        files.write_text(self.config_path, toml.dumps(config))

    def read_config(self) -> dict[str, Any]:
        """Read the configuration."""
        try:
            return tomllib.loads(self.config_path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.folder}: not a run folder (no config.toml)") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"{self.config_path}: damaged ({error})") from None

    # -- metrics --------------------------------------------------------------------------------------------

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write the table of all epochs, with columns in order of first appearance."""
        columns = list(dict.fromkeys(key for row in history for key in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: repr(value) for key, value in row.items()} for row in history)
        files.write_text(self.metrics_path, text.getvalue())

    def read_metrics(self) -> list[dict[str, float]]:
        """Read the table, without empty cells. A missing file gives no rows; a damaged file raises ``RunError``."""
        if not self.metrics_path.exists():
            return []
        try:
            with self.metrics_path.open(newline="", encoding="utf-8") as file:
                history = [_metrics(row) for row in csv.DictReader(file)]
        except (KeyError, OverflowError, TypeError, ValueError, csv.Error):
            history = []
        if not history:
            raise RunError(f"{self.metrics_path}: damaged; expected a table of numbers with one row per epoch")
        return history

    # -- checkpoints ----------------------------------------------------------------------------------------

    def write_checkpoint(self, machine: Machine, training: dict[str, Any]) -> None:
        """Replace the newest checkpoint."""
        plain, tensors = flatten(training, _TRAINING)
        files.write_tensors(self.last, tensors, {_TRAINING: json.dumps(plain)}, machine)

    def read_checkpoint(self, machine: Machine) -> dict[str, Any]:
        """Load the newest checkpoint's parameters into ``machine`` and return the training state."""
        tensors, metadata = files.read_tensors(self.last)
        files.load_parameters(machine, self.last, tensors)
        if _TRAINING not in metadata:
            raise CheckpointError(f"{self.last}: contains a machine without training state; it cannot be resumed")
        try:
            state: dict[str, Any] = unflatten(json.loads(metadata[_TRAINING]), tensors)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{self.last}: the training state is damaged ({error})") from None
        return state

    def write_snapshot(self, machine: Machine, epoch: int) -> None:
        """Save the machine of this epoch."""
        files.write_tensors(
            self.folder / "checkpoints" / f"epoch-{epoch:06d}.safetensors", {}, {"epoch": str(epoch)}, machine
        )

    def trajectory(self) -> list[tuple[int, Path]]:
        """Return the saved machines as (epoch, file), in order."""
        found = sorted((self.folder / "checkpoints").glob("epoch-*.safetensors"))
        return [(int(path.stem.removeprefix("epoch-")), path) for path in found]

    def machines(self) -> dict[float, Any]:
        """Load the saved machines, by epoch, in order."""
        return {float(epoch): files.load(path) for epoch, path in self.trajectory()}

    def clean(self) -> None:
        """Remove temporary files of an interrupted run."""
        for pattern in (".config.toml.*.tmp", ".metrics.csv.*.tmp", "checkpoints/.*.safetensors.*.tmp"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)


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

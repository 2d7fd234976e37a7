"""Checkpoints of a supervised training, from which it continues bit-for-bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import files
from ..errors import CheckpointError, RunError
from ..machines import Machine
from ..training.state import flatten, unflatten

_ENTRY = "finetuning"


class Checkpoint:
    """The state of a training in one file, which also holds the machine that it started from.

    Args:
        path: the file; None keeps nothing.
        machine: the machine.
        arguments: what must be equal when the training continues.
    """

    def __init__(self, path: Any, machine: Machine, arguments: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.machine, self.arguments = machine, arguments

    def read(self) -> dict[str, Any] | None:
        """Return the state, or None if there is none yet; raise if it was written with different arguments."""
        if self.path is None or not self.path.exists():
            return None
        tensors, metadata = files.read_tensors(self.path)
        if _ENTRY not in metadata:
            raise CheckpointError(f"{self.path}: expected a checkpoint of fine-tuning, found another file")
        try:
            state = unflatten(json.loads(metadata[_ENTRY]), tensors)
            found = state.pop("arguments")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path}: the training state is damaged ({error})") from None
        for name, value in self.arguments.items():
            if found.get(name) != value:
                raise RunError(f"{self.path}: {name}: expected {found.get(name)}, as in the checkpoint, found {value}")
        own = self.machine.state_dict()
        kept = files.parameters_for(self.machine, self.path, tensors)
        if any(not value.to(own[name]).equal(own[name]) for name, value in kept.items()):
            raise RunError(f"{self.path}: expected the machine of the checkpoint, found one with other parameters")
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file, atomically."""
        if self.path is None:
            return
        plain, tensors = flatten({**state, "arguments": self.arguments}, _ENTRY)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_tensors(self.path, tensors, {_ENTRY: json.dumps(plain)}, self.machine)

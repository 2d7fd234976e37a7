"""The command ``info``: the contents of a run folder or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import files
from ..machines import Machine
from ..training import Run
from . import show
from .measuring import check_exists


def describe(path: Path) -> None:
    """Print the contents of a run folder or a .safetensors file."""
    check_exists(path)
    if path.is_file():
        tensors, metadata = files.read_tensors(path)
        machine = files.machine_from(path, tensors, metadata)
        show.facts(str(path), {**_machine(machine), "file": f"{path.stat().st_size:,} bytes, {len(tensors)} tensors"})
        return
    run = Run(path)
    config = run.read_config()
    facts: dict[str, Any] = {}
    if run.last.exists():
        tensors, metadata = files.read_tensors(run.last)
        facts |= _machine(files.machine_from(run.last, tensors, metadata))
        done = int(json.loads(metadata["training"])["epoch"])
    else:
        done = 0
    wanted = config.get("training", {}).get("epochs")
    state = "finished" if done == wanted else f"'harmonium resume {path}' continues"
    facts["epochs done"] = f"{done} of {wanted} ({state})"
    for name, table in config.items():
        if not isinstance(table, dict):
            facts[name] = table
            continue
        for key, value in table.items():
            if not isinstance(value, (dict, list)):
                facts[f"{name}.{key}"] = value
    history = run.read_metrics()
    for key, value in (history[-1] if history else {}).items():
        facts[f"last {key.replace('_', ' ')}"] = show.number(value, 5)
    facts["files"] = ", ".join(_listed(path))
    show.facts(str(path), facts)


def _machine(machine: Machine) -> dict[str, Any]:
    layers = " – ".join(f"{unit.name()}:{'x'.join(map(str, unit.shape))}" for unit in machine.layers)
    return {
        "machine": f"{type(machine).__name__} {layers}",
        "parameters": f"{sum(p.numel() for p in machine.parameters()):,}, {str(machine.dtype).removeprefix('torch.')}",
    }


def _listed(folder: Path) -> list[str]:
    snapshots = Run(folder).trajectory()
    kept = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file()]
    plain = [name for name in kept if not Path(name).name.startswith("epoch-")]
    return [*plain, f"{len(snapshots)} machines of the trajectory"]

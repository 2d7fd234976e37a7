"""The commands ``info`` and ``convert``: the contents of a run folder or a file, and other formats."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .. import __version__, files, kernels
from ..convert import read, write
from ..errors import HarmoniumError, InvalidOption, RunError
from ..machines import Machine
from ..runs.setup import epochs_done
from ..training import Run
from ..training.greedy import machine_folder
from ..training.values import text_of
from . import show
from .measuring import check_exists


def info_run(path: Path | None, *, verify: bool) -> dict[str, Any]:
    """Describe the installation, or a run folder or file; with ``verify``, check its checksums."""
    if path is None and verify:
        raise InvalidOption("verify: expected a run folder or a file, found none")
    if path is None:
        return installation()
    return verify_files(path) if verify else describe(path)


def installation() -> dict[str, Any]:
    """Print the versions, the number of threads, and how products with binary states are computed."""
    facts = {
        "harmonium": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "products of binary states": kernels.described(),
    }
    show.facts("Installation", facts)
    return facts


def describe(path: Path) -> dict[str, Any]:
    """Print the contents of a run folder or a .safetensors file."""
    check_exists(path)
    if path.is_file():
        tensors, metadata = files.read_tensors(path)
        machine = files.machine_from(path, tensors, metadata)
        held = {**_machine(machine), "file": f"{path.stat().st_size:,} bytes, {len(tensors)} tensors"}
        show.facts(str(path), held)
        return {"path": str(path), **held}
    run = Run(path)
    config = run.read_config()
    facts: dict[str, Any] = {}
    if run.last.exists():
        facts |= _machine(files.load(path))
    stages = _stages(path)
    for name in stages:
        facts[f"{name}, epochs done"] = "{} of {}".format(*_epochs(Run(path / name)))
    done, wanted = _epochs(run)
    state = "finished" if done == wanted else f"'harmonium resume {path}' continues"
    facts["epochs done"] = f"{done} of {wanted} ({state})"
    for name, table in config.items():
        if not isinstance(table, dict):
            facts[name] = table
            continue
        for key, value in table.items():
            if name == "training":
                facts[f"{name}.{key}"] = text_of(key, value)
            elif isinstance(value, list) and all(isinstance(part, str) for part in value):
                facts[f"{name}.{key}"] = " – ".join(value)
            elif not isinstance(value, (dict, list)):
                facts[f"{name}.{key}"] = value
    history = run.read_metrics()
    for key, value in (history[-1] if history else {}).items():
        facts[f"last {key.replace('_', ' ')}"] = show.number(value, 5)
    facts["files"] = ", ".join(_listed(path))
    show.facts(str(path), facts)
    machine_facts = {name: value for name, value in facts.items() if name in ("machine", "parameters")}
    last = history[-1] if history else {}
    return {
        "path": str(path),
        **machine_facts,
        "epochs_done": done,
        "epochs": wanted,
        "metrics": last,
        "config": config,
    }


def convert_file(source: Path, target: Path) -> None:
    """Read a machine in any supported format and write it in another; never overwrites a file."""
    check_exists(source)
    if target.exists():
        raise InvalidOption(f"{target}: expected a new file, found an existing one")
    machine = read(source)
    write(machine, target)
    show.facts(str(target), _machine(machine))


def verify_files(path: Path) -> dict[str, Any]:
    """Verify the checksums of a file, or of every checkpoint and the data file of a run folder; print a table."""
    check_exists(path)
    found = [path] if path.is_file() else sorted(path.rglob("*.safetensors"))
    rows = [[str(file.relative_to(path) if file != path else file), _state(file)] for file in found]
    if path.is_dir():
        run = Run(path)
        rows.append(["config.toml", _attempted(run.read_config)])
        rows.append(["metrics.csv", _attempted(run.read_metrics)])
    show.table(f"{path}: {len(rows)} files", ["file", "state"], rows)
    damaged = [name for name, state in rows if state != _INTACT]
    if damaged:
        raise RunError(f"{path}: {len(damaged)} of {len(rows)} files are damaged: {', '.join(damaged[:10])}")
    return {"path": str(path), "files": dict(rows)}


_INTACT = "intact"


def _state(path: Path) -> str:
    return _attempted(lambda: files.load(path))


def _attempted(read: Callable[[], Any]) -> str:
    try:
        read()
    except HarmoniumError as error:
        return str(error)
    return _INTACT


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "machine": show.layers(machine),
        "parameters": f"{sum(p.numel() for p in machine.parameters()):,}, {str(machine.dtype).removeprefix('torch.')}",
    }


def _stages(folder: Path) -> list[str]:
    """Return the names of the folders of the pretraining of a deep machine, in order."""
    found = [machine_folder(folder, k) for k in range(len(list(folder.glob("machine-*"))))]
    return [path.name for path in found if Run(path).exists()]


def _epochs(run: Run) -> tuple[int, int | None]:
    """Return the number of epochs done and of all epochs of a run."""
    table = run.read_config().get("training")
    wanted = table.get("epochs") or table.get("pretrain") if isinstance(table, dict) else None
    return epochs_done(run.folder), wanted


def _listed(folder: Path) -> list[str]:
    snapshots, stages = Run(folder).trajectory(), _stages(folder)
    kept = [p.relative_to(folder) for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    plain = [str(p) for p in kept if not p.name.startswith("epoch-") and p.parts[0] not in stages]
    return [*plain, *stages, f"{len(snapshots)} machines of the trajectory"]

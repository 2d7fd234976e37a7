"""The configuration of a run on its page: a summary, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..machines import Machine
from ..training.values import text_of
from .subject import RunSubject

_TABLES = ("data", "machine", "training")


def layers(machine: Machine) -> str:
    """Return the sizes and the types of the layers."""
    return " – ".join(f"{'×'.join(map(str, unit.shape))} {unit.name()}" for unit in machine.layers)


def summary(subject: RunSubject) -> dict[str, Any]:
    """Return the data, the machine and the plan by name, without what is unknown."""
    data, training = (subject.table(name) for name in ("data", "training"))
    words = {name: text_of(name, value) for name, value in training.items()}
    rate = words.get("learning_rate")
    rows = {
        "machine": layers(subject.machine),
        "data": data.get("source"),
        "rows": f"{data['rows']:,}" if isinstance(data.get("rows"), int) else data.get("rows"),
        "binarized": data.get("binarize"),
        "negative phase": words.get("negative"),
        "pretraining": f"{training['pretrain']} epochs of each layer" if training.get("pretrain") else None,
        "optimizer": None if rate is None else f"{words.get('optimizer')}, learning rate {rate}",
        **{name: words.get(name) for name in ("schedule", "penalties", "constraints", "epochs")},
        "batch size": words.get("batch_size"),
        "seed": words.get("seed"),
        "threads": subject.table("machine").get("threads"),
        "version": subject.config.get("harmonium") if isinstance(subject.config.get("harmonium"), str) else None,
    }
    return {name: value for name, value in rows.items() if value is not None}


def command(config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, or an empty string if the configuration does not name its data.

    >>> command({"data": {"source": "digits", "labels": True}, "training": {"epochs": 3, "centered": False}})
    'harmonium train digits --labels --epochs 3 --centered false'
    """
    tables = {name: config[name] if isinstance(config.get(name), Mapping) else {} for name in _TABLES}
    source = tables["data"].get("source")
    if not source:
        return ""
    words = ["harmonium", "train", str(source)]
    for table in (tables["data"], tables["machine"]):
        for key, value in table.items():
            if key not in ("source", "rows", "bytes", "sha256", "mean"):
                flag = f"--{key.replace('_', '-')}"
                words += [flag] if value is True else _repeated(flag, value)
    for name, value in tables["training"].items():
        if value != "custom":
            words += _repeated(f"--{name.replace('_', '-')}", value, partial(text_of, name))
    return shlex.join(words)


def _repeated(flag: str, value: Any, text: Callable[[Any], str] = str) -> list[str]:
    return [word for part in (value if isinstance(value, list) else [value]) for word in (flag, text(part))]

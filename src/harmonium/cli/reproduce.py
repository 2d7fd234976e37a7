"""The command ``reproduce``: run an experiment of the repository; experiments are not part of the installed package."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InvalidOption, RunError
from . import INTERRUPTED, Interrupted, Terminated

#: the root of the repository, if the package is installed from a source checkout
CHECKOUT = Path(__file__).parents[3]


def find_experiments() -> ModuleType:
    """Import the package ``experiments`` of the current folder, or else of the source checkout."""
    for root in (Path.cwd(), CHECKOUT):
        if (root / "experiments" / "record.py").is_file() and (root / "experiments" / "judging.py").is_file():
            if sys.path[:1] != [str(root)]:
                sys.path.insert(0, str(root))
            return importlib.import_module("experiments")
    raise RunError(
        "reproduce: expected the folder 'experiments' of the harmonium repository, which is not part of the installed "
        f"package, in {Path.cwd()}; clone the repository and run the command in it"
    )


def reproduce_run(name: str | None, scale: str, run: Path | None, option: Sequence[str] | None) -> dict[str, Any]:
    """Run an experiment; without a name, list all names."""
    return list_experiments() if name is None else run_experiment(name, scale, run, option or ())


def list_experiments() -> dict[str, Any]:
    """Print the name and the subject of every experiment."""
    from . import show

    experiments = find_experiments()
    rows = [[name, experiments.describe(name)] for name in experiments.EXPERIMENTS]
    show.table("experiments", ["name", "about"], rows)
    return {"experiments": dict(rows)}


def run_experiment(name: str, scale: str, run: Path | None, options: Sequence[str]) -> dict[str, Any]:
    """Run an experiment and print its verdicts; see ``harmonium reproduce --help`` for the arguments."""
    from ..runs.setup import free_folder
    from . import show
    from .steps import step

    experiments = find_experiments()
    given = dict(map(parse_option, options))
    folder = free_folder(Path("runs") / name.replace("/", "-")) if run is None else run
    try:
        with step(f"{name}, {scale}"):
            record = experiments.reproduce(name, scale, folder, **given)
    except (KeyboardInterrupt, Terminated) as stop:
        status = stop.status if isinstance(stop, Terminated) else INTERRUPTED
        again = ["harmonium", "reproduce", name, "--scale", scale, "--run", str(folder)]
        again += [word for text in options for word in ("-o", text)]
        raise Interrupted(f"stopped; '{shlex.join(again)}' continues what it has trained", status) from None
    show.table(
        f"{name}, {scale}: {folder}",
        ["claim", "measured", "verdict"],
        [[claim.claimed, claim.measured, experiments.WORDS[claim.holds]] for claim in record.claims],
    )
    claims = [
        {"claim": claim.claimed, "measured": claim.measured, "verdict": experiments.WORDS[claim.holds]}
        for claim in record.claims
    ]
    return {"name": name, "scale": scale, "folder": str(folder), "claims": claims}


_WORDS = {"true": True, "false": False}


def parse_option(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; the value is a number or true or false if it looks like one.

    >>> parse_option("epochs=3"), parse_option("rate=0.1"), parse_option("data=digits"), parse_option("compare=false")
    (('epochs', 3), ('rate', 0.1), ('data', 'digits'), ('compare', False))
    """
    key, sign, value = text.partition("=")
    if not sign:
        raise InvalidOption(f"option: expected KEY=VALUE, got '{text}'")
    if value in _WORDS:
        return key, _WORDS[value]
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value

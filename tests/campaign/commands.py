"""Random command lines, each in a process of its own: it works, or fails with a short message and changes nothing."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from counting import Counts, Deadline, timed
from forking import Server, server
from typer.main import get_command

from harmonium.cli import main
from harmonium.cli.app import app

#: limits of one command, and the number of commands in one process
CPU_SECONDS, BYTES = 30, 2**30
BATCH = 100  # every process imports late what the first one of its commands needs
#: options that keep a command short, replaced by those that are drawn
SHORT: dict[str, dict[str, str]] = {
    "train": {"--epochs": "1", "--hidden": "2", "--run": "new", "--no-report": ""},
    "resume": {"--epochs": "3", "--no-report": ""},
    "sample": {"-n": "2", "--sweeps": "1"},
    "evaluate": {"--betas": "0"},
    "denoise": {"-n": "2", "--levels": "0.1"},
    "landscape": {"-n": "2"},
    "impute": {"--sweeps": "2"},
    "logos": {"--sweeps": "1", "-n": "1"},
}
#: how often a command is drawn, 3 times out of about 100 if it is not here; some would train for minutes
OFTEN = {"train": 36, "resume": 10, "info": 8, "sample": 8, "evaluate": 8, "interactions": 5}
FIGURES = {"report", "landscape", "denoise", "spectrum", "logos"}
NEVER = {"demo", "reproduce"}

SMALL = ["1", "2", "3", "4"]
_read = tomllib.loads(Path(__file__).with_name("values.toml").read_text(encoding="utf-8"))
STRANGE = [*_read["strange"], "9" * 400, "\udcff"]  # the last is a byte that is not UTF-8
VALUES: dict[str, list[str]] = {**_read["options"], "--hidden": _read["units"], "--visible": _read["units"]}
SOURCES = ["rows.npy", "rows.npy", "gray.csv", "rows.fasta", "ratings.csv", "text.txt", "people.csv", "labels.csv"]
RUNS = ["run", "run", "run", "dbm", "dbn", "sequences", "rated", "texts", "people", "labeled"]
OTHER = ["empty", "run/checkpoints/last.safetensors", "rows.npy", "none", "."]
OTHER_LINES = [
    *(["data", *rest] for rest in ([], ["list"], ["info"], ["info", "digits"], ["info", "x"], ["x"])),
    *([], ["-h"], ["--version"], ["nonsense"], ["reproduce"], ["reproduce", "x"], ["demo", "--epochs", "0"]),
]
#: the runs of :data:`RUNS`: data and options
TRAINED = {
    "run": ["rows.npy", "--hidden", "3", "--validation", "0.2"],
    "dbm": ["rows.npy", "--hidden", "3", "--hidden", "2"],
    "dbn": ["rows.npy", "--hidden", "3", "--hidden", "2", "--machine", "dbn", "--pretrain", "1"],
    "sequences": ["rows.fasta", "--hidden", "2"],
    "rated": ["ratings.csv", "--hidden", "2", "--validation", "0.1"],
    "texts": ["text.txt", "--hidden", "2"],
    "people": ["people.csv", "--hidden", "2"],
    "labeled": ["labels.csv", "--labels", "--hidden", "2", "--validation", "0.3"],
}


def _options(command: Any) -> tuple[list[str], list[str]]:
    """The options of a command with a value, and those without."""
    valued, flags = [], []
    for part in command.params:
        if part.param_type_name == "option":
            names = [name for name in (*part.opts, *part.secondary_opts) if name.startswith("-")]
            (flags if part.is_flag else valued).extend(names)
    return sorted(valued), sorted({*flags, "--help"})


def command_lines(number: int) -> Iterator[list[str]]:
    """Endless distinct command lines for the files of :func:`prepare`: mostly plausible, sometimes strange."""
    choice, seen = random.Random(number), set()
    commands = {name: found for name, found in get_command(app).commands.items() if name not in NEVER}
    shared = sorted({name for found in commands.values() for name in _options(found)[0]})
    names = [name for name in commands for _ in range(OFTEN.get(name, 3))]
    while True:
        name = choice.choice(names)
        words = _line(choice, name, commands[name], shared)
        if tuple(words) not in seen:
            seen.add(tuple(words))
            yield words


def _value(choice: random.Random, option: str) -> str:
    return choice.choice(STRANGE if choice.random() < 0.08 else VALUES.get(option, SMALL))


def _line(choice: random.Random, name: str, command: Any, shared: list[str]) -> list[str]:
    if choice.random() < 0.01 or name == "data":
        return choice.choice(OTHER_LINES)
    valued, flags = _options(command)
    words = [name]
    for part in command.params:
        if part.param_type_name == "argument" and (part.required or name == "train"):
            usual = SOURCES if name == "train" or part.name in ("file", "target") else RUNS
            strange = STRANGE if choice.random() < 0.5 else OTHER
            words.append(choice.choice(strange if choice.random() < 0.12 else usual))
    chosen = dict(SHORT.get(name, {}))
    if name in FIGURES and choice.random() < 0.8:
        chosen["--data"] = choice.choice(STRANGE)  # fails before it draws a figure
    for part in command.params:
        if part.param_type_name == "option" and part.required:
            chosen[part.opts[0]] = _value(choice, part.opts[0])
    for _ in range(choice.choice([0, 1, 1, 2, 2, 3])):
        kind = choice.random()
        option = choice.choice(shared if kind < 0.03 else flags if kind < 0.15 else valued or shared)
        chosen[option] = "" if option in flags else _value(choice, option)
    for option, value in chosen.items():
        words += [option] if option in flags else [option, value]
    return words + choice.choices(STRANGE, k=int(choice.random() < 0.02))


def prepare(folder: Path, processes: Server) -> None:
    """Write data of every kind, and train a machine on each."""
    draw = np.random.default_rng(0)
    bits = draw.integers(0, 2, (30, 6))
    np.save(folder / "rows.npy", bits.astype(np.uint8))
    np.savetxt(folder / "labels.csv", np.hstack([bits, bits[:, :1]]), delimiter=",", fmt="%d")
    np.savetxt(folder / "gray.csv", draw.random((30, 6)), delimiter=",")
    (folder / "rows.fasta").write_text("".join(f">s{k}\nACDE{'AC'[k % 2]}G\n" for k in range(20)))
    ratings = [f"u{k % 7},m{k % 5},{k % 3 + 1}" for k in range(35)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *ratings]) + "\n")
    (folder / "text.txt").write_text("\n".join(f"sun moon {'star comet' if k % 2 else 'bread'}" for k in range(20)))
    people = [f"{20 + k},{'nurse' if k % 2 else 'artist'},{k % 2 if k % 5 else ''}" for k in range(30)]
    (folder / "people.csv").write_text("\n".join(["age,job,member", *people]) + "\n")
    (folder / "map.csv").write_text("first,second\n1,3\n2,5\n")
    (folder / "config.toml").write_text('[data]\nsource = "rows.npy"\n[training]\nepochs = 1\n')
    (folder / "empty").mkdir()
    started = {
        name: processes.start("train", *words, "--epochs", 2, "--run", name, "-q", "--no-report", folder=folder)
        for name, words in TRAINED.items()
    }
    for name, process in started.items():
        assert process.wait().status == 0, f"{name}: {process.err}"


def commands(n: int, number: int, folder: Path) -> Counts:
    """Run ``n`` random command lines, several in each process."""
    counts = Counts("command lines")
    with timed(counts), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place, saved = folder / "place", folder / "saved"
        place.mkdir()
        prepare(place, server())
        shutil.copytree(place, saved)
        lines = command_lines(number)
        while counts.tried < n and not Deadline.passed():
            _batch(counts, [*itertools.islice(lines, min(BATCH, n - counts.tried))], place, saved)
    return counts


def _batch(counts: Counts, lines: list[list[str]], place: Path, saved: Path) -> None:
    """Run command lines in one process; if it does not survive them, each in a process of its own."""
    argument = {"lines": lines, "place": str(place), "saved": str(saved)}
    process = server().call("commands", "in_this_process", argument, cpu_seconds=CPU_SECONDS + len(lines))
    try:
        ended = process.wait()
    except TimeoutError:
        ended = None
    if ended is not None and ended.status == 0 and ended.memory < BYTES:
        counts.tried += len(lines)
        for words, found in zip(lines, json.loads(process.out), strict=True):
            _judge(counts, words, found)
        return
    shutil.rmtree(place)
    shutil.copytree(saved, place)
    if len(lines) > 1:
        for words in lines:
            _batch(counts, [words], place, saved)
    else:
        counts.tried += 1
        limit = ended is None or ended.status in (-signal.SIGXCPU, -signal.SIGKILL)
        kind = "hang" if limit else "large allocation" if ended.status == 0 else f"ended with status {ended.status}"
        counts.problem(kind, f"{lines[0]}: {ended}")


def _judge(counts: Counts, words: list[str], found: dict[str, Any]) -> None:
    status, err = found["status"], found["err"]
    counts.outcomes[f"status {status}"] += 1
    if found["raised"]:
        last = found["raised"].strip().splitlines()
        counts.problem(f"raw {last[-1][:80]}", f"{words}: {found['raised'][-1200:]}")
    elif status not in (0, 2) or "Traceback" in err:
        counts.problem(f"ended with status {status}", f"{words}: {err[-300:]}")
    elif status == 2 and not 1 <= len(err.strip().splitlines()) <= 8:
        counts.problem("long or empty message", f"{words}: {err[:300]}")
    if status == 2 and found["changed"]:
        counts.problem(f"{words[:1]} failed and changed files", f"{words}: {err[:300]} {found['changed']}")


# -- in the forked process --------------------------------------------------------------------------------------------


def in_this_process(argument: dict[str, Any]) -> None:
    """Run command lines, and print their outcomes as JSON; restore the files that they change."""
    place, saved = Path(argument["place"]), Path(argument["saved"])
    found = []
    before = listing(place)
    for words in argument["lines"]:
        os.chdir(place)
        found.append(_one(words))
        after = listing(place)
        if after != before:
            found[-1]["changed"] = [str(item) for item in sorted({*after.items()} ^ {*before.items()})[:4]]
            os.chdir(saved)
            shutil.rmtree(place)
            shutil.copytree(saved, place)
            before = listing(place)
    print(json.dumps(found))


def _one(words: list[str]) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    status: Any = None
    raised = ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        raised = traceback.format_exc()
    return {"status": status, "err": err.getvalue(), "raised": raised, "changed": None}


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below a folder."""
    found = {}
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(root, name)
            state = os.stat(path)
            found[path] = (0, 0) if name in folders else (state.st_size, state.st_mtime_ns)
    return found

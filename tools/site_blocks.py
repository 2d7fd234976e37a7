"""Run the code blocks of a page of the documentation, as a notebook would, and put their results below them.

A block ``python`` is executed; the result of its last line and what it prints are shown. With a title
(``python title="train.py"``) it is written to that file instead. The lines of a block ``sh`` are run as commands. All
blocks of a page share their variables and a temporary folder. A block that fails raises ``BlockFailed``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import harmonium as hm

_BLOCK = re.compile(r"^```(python|sh)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MOST_LINES = 40
_DPI = 110
REPOSITORY = Path(__file__).resolve().parents[1]


class BlockFailed(Exception):
    """A code block of a page raised an error."""


@dataclass
class Block:
    """A code block with its results: text, and images or animations as (suffix, bytes)."""

    language: str
    title: str | None
    code: str
    text: str = ""
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    width: int | None = None


@dataclass
class Executed:
    """A page as alternating pieces of Markdown and blocks."""

    name: str
    pieces: list[str | Block]

    @property
    def blocks(self) -> list[Block]:
        """The code blocks of the page."""
        return [piece for piece in self.pieces if isinstance(piece, Block)]

    def pictures(self) -> Iterator[tuple[str, bytes]]:
        """The file names and contents of all pictures."""
        for k, block in enumerate(self.blocks):
            for number, (suffix, content) in enumerate(block.pictures):
                yield picture_name(self.name, k, number, suffix), content

    def markdown(self) -> str:
        """The page with the results below the blocks."""
        parts, k = [], 0
        up = "../" * self.name.count("/")
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            title = f' title="{piece.title}"' if piece.title else ""
            parts.append(f"```{piece.language}{title}\n{piece.code}```\n")
            if piece.text:
                parts.append(f"\n``` {{.text .output}}\n{piece.text}\n```\n")
            for number, (suffix, _) in enumerate(piece.pictures):
                path = up + picture_name(self.name, k, number, suffix)
                size = f"{{ width={piece.width} }}" if piece.width else ""
                parts.append(f"\n![result of the code above]({path}){size}\n")
            k += 1
        return "".join(parts)


def picture_name(page: str, block: int, number: int, suffix: str) -> str:
    """Return the file name of a picture of a page."""
    return f"pictures/{page.replace('/', '-')}-{block + 1}{'' if number == 0 else f'-{number}'}{suffix}"


def parsed(name: str, text: str) -> Executed:
    """Split a page into Markdown and blocks.

    >>> page = parsed("a", "Text\\n```python\\n1 + 1\\n```\\n")
    >>> [getattr(piece, "code", piece) for piece in page.pieces]
    ['Text\\n', '1 + 1\\n', '\\n']
    """
    pieces: list[str | Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        pieces += [text[end : match.start()], Block(match[1], match[2], match[3])]
        end = match.end()
    return Executed(name, [*pieces, text[end:]])


def executed(name: str, text: str) -> Executed:
    """Run all blocks of a page in a new temporary folder."""
    page = parsed(name, text)
    if not page.blocks:
        return page
    variables: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, block in enumerate(page.blocks):
                _run(block, variables, f"{name}.md, block {number + 1}")
        finally:
            os.chdir(before)
    return page


def _run(block: Block, variables: dict[str, Any], where: str) -> None:
    try:
        if block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "sh":
            block.text = "\n".join(filter(None, (_command(line) for line in _commands(block.code))))
        else:
            _python(block, variables)
    except Exception as error:
        last = traceback.format_exception(error)[-1].strip()
        line = next((part.lineno for part in reversed(traceback.extract_tb(error.__traceback__))
                     if part.filename == "<block>"), None)  # fmt: skip
        place = where if line is None else f"{where}, line {line}"
        raise BlockFailed(f"{place}: {last}\n{block.code}") from error


def _python(block: Block, variables: dict[str, Any]) -> None:
    tree = ast.parse(block.code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, result = io.StringIO(), None
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),  # progress bars
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("default")
        exec(compile(tree, "<block>", "exec"), variables)
        if last is not None:
            result = eval(compile(ast.Expression(last.value), "<block>", "eval"), variables)
    lines = [f"{entry.category.__name__}: {entry.message}" for entry in caught
             if issubclass(entry.category, UserWarning)]  # fmt: skip
    _show(block, result)
    shown = "" if result is None or block.pictures else repr(result)
    block.text = _shortened("\n".join(filter(None, [printed.getvalue().rstrip(), *lines, shown])))


def _show(block: Block, result: Any) -> None:
    """Keep a result that is a picture."""
    if isinstance(result, Figure):
        buffer = io.BytesIO()
        result.savefig(buffer, format="png", dpi=_DPI)
        block.pictures.append((".png", buffer.getvalue()))
        block.width = round(100 * result.get_figwidth())
    elif isinstance(result, hm.plots.Animation):
        block.pictures.append((".gif", result.gif))


def _commands(code: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", code)
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def _command(line: str) -> str:
    """Run a command with the Python of this process, and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    python = os.pathsep.join(filter(None, [str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, check=False)
    if outcome.returncode:
        raise RuntimeError(f"exit status {outcome.returncode}: {(outcome.stderr or outcome.stdout).strip()[-2000:]}")
    return _shortened(outcome.stdout.rstrip())


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], "…"]
    return "\n".join(lines)


@contextlib.contextmanager
def short_training(rows: int = 600) -> Iterator[None]:
    """Train for one epoch, on the first rows of data sets, in pages whose examples take minutes."""
    load = hm.data.load
    trained: list[tuple[Any, str]] = [
        (hm, "fit"),
        (hm, "pretrain"),
        (hm.tasks, "fit_classifier"),
        (hm.tasks, "finetune"),
    ]
    kept = {(module, name): getattr(module, name) for module, name in trained} | {(hm.data, "load"): load}
    try:
        setattr(hm.data, "load", lambda *names, **options: _first(load(*names, **options), rows))  # noqa: B010
        for module, name in trained:
            setattr(module, name, _once(getattr(module, name)))
        yield
    finally:
        for (module, name), function in kept.items():
            setattr(module, name, function)


def _first(found: Any, rows: int) -> Any:
    """The first rows of a data set; those with labels are small."""
    return found if isinstance(found, tuple) else found[:rows]


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that trains, for one epoch."""
    return lambda *given, **options: function(*given, **{**options, "epochs": 1})


def checked(name: str, text: str) -> None:
    """Run the Python blocks of a page for one epoch, without results; blocks whose data set is missing are skipped."""
    page = parsed(name, text)
    variables: dict[str, Any] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, short_training():
        os.chdir(folder)
        sys.path.insert(0, str(REPOSITORY))  # some examples need a clone
        try:
            for number, block in enumerate(page.blocks):
                if block.language != "python" or block.title:
                    continue
                try:
                    _run(block, variables, f"{name}.md, block {number + 1}")
                except BlockFailed as error:
                    if not isinstance(error.__cause__, hm.errors.DataNotFound):
                        raise
        finally:
            sys.path.remove(str(REPOSITORY))
            os.chdir(before)

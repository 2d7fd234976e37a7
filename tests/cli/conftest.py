"""Run the command in this process, through the same entry point as the installed one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from harmonium.cli import main
from harmonium.report import page
from harmonium.report.analysis import Analysis

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))  # its processes are used here, too


@dataclass
class Outcome:
    status: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    """Restore the number of threads, which --threads sets for the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def short_reports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their measured parts, which take seconds; tests marked ``whole_report`` have all parts."""
    if not request.node.get_closest_marker("whole_report"):
        monkeypatch.setattr(page, "analyze", lambda _: Analysis())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), shown.out, shown.err)

    return run


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """60 rows of 6 binary values, two patterns with a little noise."""
    generator = np.random.default_rng(0)
    pattern = generator.integers(0, 2, (60, 1)) ^ (np.arange(6) < 3)
    rows = pattern ^ (generator.random((60, 6)) < 0.1)
    path = tmp_path / "binary.npy"
    np.save(path, rows.astype(np.uint8))
    return path


@pytest.fixture
def trained(binary: Path, tmp_path: Path, command: Command) -> Path:
    """A finished run on the binary rows."""
    run = tmp_path / "run"
    outcome = command(
        "train", binary, "--hidden", "bernoulli:3", "--epochs", 4, "--batch-size", 20, "--validation", 0.2,
        "--run", run, "--no-report", "--quiet",
    )  # fmt: skip
    assert (outcome.status, outcome.out) == (0, "")
    assert not outcome.err or "no better than independent units" in outcome.err  # two epochs teach little
    return run

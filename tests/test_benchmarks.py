"""The benchmarks are commands, not tests; this only checks that each can be imported with the present names."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
NEEDS = (FOLDER, Path(__file__).parent / "conformance")  # benchmarks/adversarial.py uses cases of the conformance suite


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*map(str, NEEDS), *sys.path])
    assert "main" in runpy.run_path(str(path)) or path.stem in ("common", "peers")

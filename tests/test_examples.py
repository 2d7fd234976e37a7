"""The examples are short and run, and each ends with a better likelihood, bound or accuracy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LINES = {"vae_prior": 80, "supervised": 50}  # others have 40


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= {"custom_unit", "custom_coupling", "custom_negative_phase", *LINES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.slow
def test_example(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES.get(path.stem, 40)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(float, re.findall(r"-?\d+\.\d+", done.stdout))
    assert after > before + 0.5

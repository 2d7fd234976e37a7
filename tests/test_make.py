"""``make`` recovers from an interrupted setup, also in a folder with spaces."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
#: a Python that only knows how to make an environment whose Python is itself
PYTHON = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$2" = venv ]; then
    for folder; do true; done
    rm -rf "$folder"; mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python"
fi
exit 0
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("state", ["nothing", "no pip", "no python", "no configuration", "whole"])
def test_setup(state, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    log, python = folder / "log", folder / "python 3"
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "setup.py"):
        shutil.copy(REPOSITORY / name, folder / name)
    python.write_text(PYTHON.format(log=log))
    python.chmod(0o755)
    inside = folder / ".venv" / "bin" / "python"
    if state != "nothing":
        inside.parent.mkdir(parents=True)
    if state == "no pip":
        inside.write_text("#!/bin/sh\nexit 1\n")
        inside.chmod(0o755)
    if state == "no configuration":
        inside.symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    if state == "whole":
        shutil.copy(python, inside)
    subprocess.run(["make", "PYTHON=./python\\ 3", ".venv/.installed"], cwd=folder, check=True, capture_output=True)
    calls = log.read_text()
    assert "pip install" in calls and (folder / ".venv" / ".installed").exists()
    assert ("venv --clear" in calls) == (state != "whole")

"""``harmonium convert``."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

import harmonium as hm
from harmonium.cli.app import app


def test_a_machine_is_converted_and_nothing_is_overwritten(tmp_path: Path) -> None:
    hm.save(hm.RBM(4, 2), tmp_path / "rbm.safetensors")
    runner = CliRunner()
    done = runner.invoke(app, ["convert", str(tmp_path / "rbm.safetensors"), str(tmp_path / "rbm.h5")])
    assert done.exit_code == 0, done.output
    before = (tmp_path / "rbm.h5").read_bytes()
    assert hm.convert.read(tmp_path / "rbm.h5").config() == hm.RBM(4, 2).config()
    again = runner.invoke(app, ["convert", str(tmp_path / "rbm.safetensors"), str(tmp_path / "rbm.h5")])
    assert again.exit_code != 0
    assert (tmp_path / "rbm.h5").read_bytes() == before

"""Experiments write figures, tables and verdicts; wrong names and options raise clear errors."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import experiments
import harmonium as hm
from harmonium.cli import main
from harmonium.cli import reproduce as command


def small(record: experiments.Record, scale: str, size: int = 3, config: str = "none") -> None:
    record.table("numbers", [{"n": k, "square": k * k} for k in range(size)])
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    record.figure("line", figure)
    record.claim("squares grow", f"{(size - 1) ** 2} at the end", size > 1)
    record.claim("config", config, None)
    record.numbers["size"] = size


@pytest.fixture
def known(monkeypatch):
    module = types.ModuleType("small", "An experiment in no time.")
    module.run = small
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"paper/fig1": "small"})
    monkeypatch.setattr(experiments, "_module", lambda name: module)


def test_what_is_left_behind(known, tmp_path):
    record = experiments.reproduce("paper/fig1", "quick", tmp_path / "out", size=4)
    with (tmp_path / "out" / "numbers.csv").open() as file:
        assert list(csv.DictReader(file))[-1] == {"n": "3", "square": "9"}
    assert (tmp_path / "out" / "line.png").read_bytes().startswith(b"\x89PNG")
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text(encoding="utf-8"))
    assert (verdict["experiment"], verdict["scale"]) == ("paper/fig1", "quick")
    assert verdict["claims"][0] == {"claimed": "squares grow", "measured": "9 at the end", "holds": True}
    assert [claim.holds for claim in record.claims] == [True, None]
    assert verdict["numbers"] == {"size": 4}


def test_a_finished_experiment_is_not_written_over(known, tmp_path):
    experiments.reproduce("paper/fig1", "quick", tmp_path)
    with pytest.raises(hm.errors.RunError, match="finished experiment"):
        experiments.reproduce("paper/fig1", "quick", tmp_path)


def test_a_failure_takes_away_its_folder_only_where_that_is_its_own_and_empty(known, tmp_path):
    def fail(options):
        with pytest.raises(TypeError):
            experiments.reproduce("paper/fig1", "quick", tmp_path / "out", **options)

    fail({"size": "many"})
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    fail({"size": "many"})
    assert (tmp_path / "out").is_dir()


def test_a_failure_keeps_what_was_written(known, tmp_path, monkeypatch):
    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments.Record, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.reproduce("paper/fig1", "quick", tmp_path / "out")
    assert (tmp_path / "out" / "numbers.csv").exists()


def test_wrong_options(known, tmp_path):
    with pytest.raises(hm.errors.InvalidOption, match="did you mean 'size'"):
        experiments.reproduce("paper/fig1", "quick", tmp_path, sizes=4)
    with pytest.raises(hm.errors.InvalidOption, match="scale"):
        experiments.reproduce("paper/fig1", "huge", tmp_path)


def test_the_command(known, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "paper/fig1", "--run", str(tmp_path / "a"), "-o", "size=1", "-o", "config=best"])
    assert not stop.value.code
    shown = capsys.readouterr().out
    assert "does not hold" in shown
    assert "open" in shown
    assert json.loads((tmp_path / "a" / "verdict.json").read_text())["claims"][1]["measured"] == "best"


def test_experiments_that_are_not_there(tmp_path, monkeypatch, capsys):
    """An installed package has no experiments; the message says where to find them."""
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "mnist/500"])
    assert stop.value.code == 2
    assert "clone the repository" in capsys.readouterr().err


def test_other_packages_of_that_name_are_not_taken(tmp_path, monkeypatch):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise AssertionError")
    monkeypatch.chdir(tmp_path)
    assert command.find_experiments() is experiments


def test_experiments_of_the_current_folder_come_first(tmp_path):
    """In a new process, because this one has already loaded the modules."""
    for name in ("__init__", "record", "judging"):
        path = tmp_path / "experiments" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    code = "from harmonium.cli.reproduce import find_experiments; print(find_experiments().__file__)"
    paths = os.pathsep.join([str(Path(hm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(result.stdout.strip()).parent.samefile(tmp_path / "experiments")


@pytest.mark.slow
def test_as_a_module(tmp_path):
    """``python -m experiments`` in the root of the repository is the same command."""
    result = subprocess.run(
        [sys.executable, "-m", "experiments", "mnist/501"],
        cwd=Path(experiments.__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "did you mean 'mnist/500'" in result.stderr


def test_the_list(known, capsys):
    with pytest.raises(SystemExit):
        main(["reproduce"])
    assert "An experiment in no time" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "words"), [("size", "KEY=VALUE"), ("siez=3", "did you mean 'size'")])
def test_wrong_options_of_the_command(known, tmp_path, capsys, text, words):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "paper/fig1", "--run", str(tmp_path / "a"), "-o", text])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_every_experiment_says_what_it_is_about(name):
    assert experiments.describe(name)

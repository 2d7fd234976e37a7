"""Examples in the help, completion, JSON, and the commands ``compare``, ``select`` and ``sample --tempering``."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from typer.main import get_command

import harmonium as hm
from harmonium.cli.app import app
from harmonium.cli.examples import EXAMPLES

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", found


@pytest.mark.slow
def test_every_command_has_an_example_that_it_accepts() -> None:
    known = dict(commands(get_command(app)))
    assert set(known) == set(EXAMPLES)
    for name, lines in EXAMPLES.items():
        assert lines and lines[0] in known[name].epilog.replace("\b", "")
        for line in lines:
            words = shlex.split(line)[1 + len(name.split()) :]
            context = known[name].make_context(name, words, resilient_parsing=False)
            assert context.command is known[name]


def test_commands_that_print_numbers_have_json() -> None:
    without = {name for name, found in commands(get_command(app)) if "--json" not in _flags(found)}
    assert without == {"demo", "train", "resume", "report", "logos", "impute", "forecast", "convert"}  # write files


def _flags(found: Any) -> list[str]:
    return [flag for part in found.params for flag in part.opts]


@pytest.mark.slow
def test_numbers_as_json(trained, command, tmp_path) -> None:
    for words in (
        ["evaluate", trained, "--betas", 0],
        ["info", trained],
        ["spectrum", trained],
        ["landscape", trained, "-n", 10],
        ["interactions", trained, "-n", 2],
        ["denoise", trained, "-n", 4, "--levels", "0.1"],
        ["sample", trained, "-n", 4, "--sweeps", 5],
        ["data", "list"],
        ["data", "info", "digits"],
    ):
        outcome = command(*words, "--json")
        assert outcome.status == 0, outcome.err
        assert outcome.out.count("\n") == 1 and json.loads(outcome.out), words
    found = json.loads(command("interactions", trained, "-n", 2, "--json").out)
    units, strength = hm.interactions.strongest(hm.load(trained), 2, 2)
    assert found["units"] == units.tolist() and found["strength"] == pytest.approx(strength.tolist())
    saved = json.loads((trained / "evaluation.json").read_text())
    exact = hm.likelihood.exact(hm.load(trained))
    rows = torch.from_numpy(np.load(tmp_path / "binary.npy")).float()
    assert saved["measures"][0]["name"] == "log-likelihood, exact" and saved["rows"] == {
        "train": 48, "test": 12, "test_name": "held out"
    }  # fmt: skip
    mean = (48 * saved["measures"][0]["train"] + 12 * saved["measures"][0]["test"]) / 60
    assert mean == pytest.approx(exact.log_likelihood(rows).value, rel=1e-5)


@pytest.mark.slow
def test_compare_shows_the_runs_side_by_side(trained, binary, tmp_path, command) -> None:
    other = tmp_path / "other"
    hm.fit(hm.RBM(6, 2), np.load(binary), epochs=3, negative="cd:1", run=other, progress=False)
    page = tmp_path / "page.html"
    outcome = command("compare", trained, other, "--out", page)
    assert outcome.status == 0, outcome.err
    assert re.search(r"epochs +4 +3", outcome.out) and "cd:1" in outcome.out
    text = page.read_text()
    assert text.count("<svg") >= 5 and "Comparison of run, other" in text  # curves and samples
    found = json.loads(command("compare", trained, other, "--out", page, "--json").out)
    last = hm.Run(other).read_metrics()[-1]
    assert found["other"]["Reconstruction error"] == last["reconstruction"]
    outcome = command("compare", trained)
    assert outcome.status == 2 and "expected two or more run folders, found 1" in outcome.err


@pytest.mark.slow
def test_select_prints_a_table_and_draws_a_plot(binary, tmp_path, command) -> None:
    words = ["select", binary, "--hidden", "1,3", "--l2", "0,0.1", "--folds", 2, "--epochs", 2, "--jobs", 1]
    outcome = command(*words, "--out", tmp_path / "plot.png", "--negative", "exact")
    assert outcome.status == 0, outcome.err
    assert "select 8/8" in outcome.err and outcome.out.count("chosen: best mean") == 1
    assert (tmp_path / "plot.png").stat().st_size > 1000
    outcome = command(*words, "--l1", "0.1")
    assert outcome.status == 2 and "expected one of --l1, --l2" in outcome.err


@pytest.mark.slow
def test_sample_warns_and_offers_tempering(tmp_path, command) -> None:
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(4))
    torch.nn.init.constant_(rbm.weight, 1.0)  # two modes that Gibbs sampling does not leave
    hm.save(rbm, tmp_path / "stuck.safetensors")
    outcome = command("sample", tmp_path / "stuck.safetensors", "-n", 20, "--sweeps", 100)
    assert outcome.status == 0 and "warning: the chains have not mixed" in outcome.err
    outcome = command("sample", tmp_path / "stuck.safetensors", "-n", 20, "--sweeps", 100, "--tempering")
    assert outcome.status == 0 and "of parallel tempering" in outcome.out
    trips = int(re.search(r"(\d+) round trips", outcome.out).group(1))
    assert ("tempered chains have not mixed" in outcome.err) == (trips < 20)


@pytest.mark.slow
def test_the_shell_completes_commands() -> None:
    asked = {"_HARMONIUM_COMPLETE": "complete_bash", "COMP_WORDS": "harmonium ev", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "harmonium"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["evaluate"]

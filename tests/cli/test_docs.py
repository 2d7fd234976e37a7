"""The examples of docs/cli.md and docs/proteins.md work when run in order, and those of the front pages learn."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import harmonium as hm

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
FRONT_PAGES = [DOCS.with_name("index.md"), DOCS.parents[1] / "README.md"]
#: options that make a command fast
SHORT = {"demo": ["--epochs", 2], "evaluate": ["--betas", 50]}


def shorter(line: str) -> str:
    """The command with a tenth of its epochs and annealing steps."""
    return re.sub(r"(--epochs|--betas) (\d+)", lambda found: f"{found[1]} {max(1, int(found[2]) // 10)}", line)


@pytest.mark.slow
@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: page.name)
def test_the_first_example_learns(page):
    """Until it measures the likelihood, with the numbers that it states."""
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    code = page.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    learned, independent = map(float, re.search(r"exact\(.*# (-[\d.]+) nats.*pixels: (-[\d.]+)", code).groups())
    found = {}
    exec(code.split("hm.likelihood.exact")[0], found)
    assert hm.likelihood.exact(found["rbm"]).log_likelihood(found["images"]).value == pytest.approx(learned, abs=0.15)
    found["rbm"].initialize(found["images"], scale=0.0)
    assert found["rbm"].log_probability(found["images"]).mean().item() == pytest.approx(independent, abs=0.06)


@pytest.mark.slow
def test_examples(command, tmp_path, monkeypatch):
    if not DOCS.exists():
        pytest.skip("the documentation is not beside the tests")
    text = DOCS.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    harmonium ")]
    assert len(lines) >= 8
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).integers(0, 2, (80, 5))
    np.savetxt("mine.csv", rows, fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    exec(text.split("```python")[1].split("```")[0], {})
    assert np.load("labeled.npy").shape[1] == 64 + 10
    hm.fit(hm.RBM(5, 2), rows.astype(float), epochs=2, run="runs/python", progress=False)
    for line in lines:
        words = shlex.split(shorter(line))[1:]
        more = SHORT.get(words[0], [])
        outcome = command(*words, *(more if more and more[0] not in words else []))
        assert outcome.status == 0, (line, outcome.err)
    own = text.split("```toml")[1].split("```")[0]
    (tmp_path / "own.toml").write_text(own)
    assert command("train", "--config", "own.toml", "--run", "runs/own", "-q", "--no-report").status == 0
    assert (tmp_path / "digits.png").exists()


@pytest.mark.slow
def test_examples_of_proteins(command, tmp_path, monkeypatch):
    page = DOCS.parent / "proteins.md"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    if not list(Path(os.environ.get("HARMONIUM_DATA", "/nowhere")).glob("*/WW_domain_MSA.fasta")):
        pytest.skip("the alignment protein-ww is not in $HARMONIUM_DATA")
    text = page.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    harmonium ")]
    assert len(lines) >= 5
    monkeypatch.chdir(tmp_path)
    exec(text.split("```python")[1].split("```")[0], {})
    (tmp_path / "bridges.csv").write_text("1,12\n2,11\n3,10\n4,9\n")
    for line in lines:
        outcome = command(*shlex.split(line)[1:])
        assert outcome.status == 0, (line, outcome.err)
        if " contacts " in line:
            assert "precision of the first 2: 1.00" in outcome.out
    assert hm.data.read_alignment("new.fasta").rows.shape == (100, 12, 21)
    assert (tmp_path / "mutants.csv").exists() and (tmp_path / "runs" / "mine" / "logo-hidden.png").exists()

"""Runs on files of sequences: from FASTA to contacts, mutants, logos and new sequences."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.cli.measuring import _has_alphabet
from harmonium.training import Run

LETTERS = "ACDEFGHIKLMNPQRSTVWY-"
OPTIONS = [
    "--hidden",
    "3",
    "--batch-size",
    20,
    "--validation",
    0.2,
    "--similarity",
    0.7,
    "--schedule",
    "constant",
    "--no-report",
    "-q",
]


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    """60 sequences of 8 sites with letters A and L, two patterns with a little noise; one letter is unknown."""
    generator = np.random.default_rng(0)
    codes = (generator.integers(0, 2, (60, 1)) ^ (np.arange(8) < 4)) ^ (generator.random((60, 8)) < 0.1)
    sequences = ["".join("LK"[k] for k in row) for row in codes]
    sequences[0] = "X" + sequences[0][1:]
    path = tmp_path / "mine.fasta"
    hm.data.write_fasta(path, sequences, [f"S{k}" for k in range(60)])
    return path


@pytest.fixture
def trained(fasta, tmp_path, command) -> Path:
    run = tmp_path / "run"
    outcome = command("train", fasta, *OPTIONS, "--epochs", 4, "--run", run)
    assert outcome.status == 0, outcome.err
    return run


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_training_on_a_fasta_file(command, fasta, tmp_path):
    run = tmp_path / "run"
    outcome = command("train", fasta, *OPTIONS[:-1], "--epochs", 2, "--run", run)
    assert outcome.status == 0
    for words in ("potts:8x21 – bernoulli:3", "similarity: 0.7", "(effective number", f"alphabet: {LETTERS}",
                  "1 letter read as a gap (X)", "48 for training, 12 held out"):  # fmt: skip
        assert words in outcome.out
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["data"]["similarity"] == 0.7 and config["data"]["alphabet"] == LETTERS
    assert config["machine"]["visible"] == "potts:8x21"


@pytest.mark.slow
def test_weights_change_what_is_learned_and_resume_keeps_them(command, fasta, trained, tmp_path):
    def weights(run: Path) -> torch.Tensor:
        return hm.load(run).coupling.weight

    parts, plain, again = (tmp_path / name for name in ("parts", "plain", "again"))
    assert command("train", fasta, *OPTIONS, "--epochs", 2, "--run", parts).status == 0
    assert command("resume", parts, "--epochs", 4, "-q", "--no-report").status == 0
    assert torch.equal(weights(parts), weights(trained))
    assert command("train", "--config", trained / "config.toml", "--run", again, "-q", "--no-report").status == 0
    assert torch.equal(weights(again), weights(trained))
    without = [option for option in OPTIONS if option not in ("--similarity", 0.7)]
    assert command("train", fasta, *without, "--epochs", 4, "--run", plain).status == 0
    assert not torch.equal(weights(plain), weights(trained))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.a3m", "a.sto"])
def test_every_format_gives_the_same_machine(command, fasta, trained, tmp_path, name):
    found = hm.data.read_alignment(fasta)
    lines = zip(found.names, found.sequences, strict=True)
    separator = {".csv": ",", ".tsv": "\t", ".sto": " ", ".a3m": "\n"}[Path(name).suffix]
    begin, end = {".sto": ("# STOCKHOLM 1.0\n", "//\n"), ".a3m": ("", "")}.get(
        Path(name).suffix, (f"name{separator}sequence\n", "")
    )
    mark = ">" * name.endswith("a3m")
    (tmp_path / name).write_text(begin + "".join(f"{mark}{a}{separator}{b}\n" for a, b in lines) + end)
    run = tmp_path / "other"
    assert command("train", tmp_path / name, *OPTIONS, "--epochs", 4, "--run", run).status == 0
    one, two = (hm.load(folder).coupling.weight for folder in (run, trained))
    assert torch.equal(one, two)


def test_held_out_sequences_are_weighted_like_the_others(fasta):
    from harmonium.runs import config, rows

    chosen = config.from_dict(
        {"data": {"source": str(fasta), "validation": 0.2, "similarity": 0.7}, "training": {"seed": 0}}
    )
    loaded = rows.load(chosen)
    held = torch.empty(12, 8, 21)
    loaded.held_out.take(torch.arange(12), held)
    both = torch.cat([loaded.one_hot().float(), held])
    near = torch.einsum("isa,jsa->ij", held, both) >= 0.7 * 8
    weights = 1 / near.sum(1).double()
    reached = loaded.weighted_held_out._reached
    torch.testing.assert_close(reached, weights.cumsum(0) / weights.sum())
    assert [loaded.name(k) for k in range(3)] == [loaded.names[k] for k in range(3)]


@pytest.mark.slow
def test_contacts(command, trained, tmp_path):
    plain = command("contacts", trained, "--separation", 2, "-n", 3)
    assert plain.status == 0 and "contact " not in plain.out
    pairs = table(trained / "contacts.csv")
    assert len(pairs) == 6 + 5 + 4 + 3 + 2 + 1 and "contact" not in pairs[0]
    expected = hm.interactions.contacts(hm.load(trained), letters=LETTERS, separation=2)
    assert [(int(row["first"]) - 1, int(row["second"]) - 1) for row in pairs] == [
        tuple(p) for p in expected.pairs.tolist()
    ]
    assert float(pairs[0]["score"]) == pytest.approx(expected.scores[0].item(), rel=1e-6)
    assert (trained / "contacts.png").exists()

    (tmp_path / "map.csv").write_text(f"first,second\n{pairs[0]['first']},{pairs[0]['second']}\n1,2\n")
    outcome = command(
        "contacts", trained, "--separation", 2, "--map", tmp_path / "map.csv", "--out", tmp_path / "known.csv"
    )
    assert outcome.status == 0, outcome.err
    for words in ("1 contacts among 21 pairs", "precision of the first 1: 1.00", "area under the ROC curve: 1.000"):
        assert words in outcome.out
    assert [row["contact"] for row in table(tmp_path / "known.csv")] == ["yes"] + ["no"] * 20
    assert (tmp_path / "known.png").exists()


@pytest.mark.slow
def test_mutants(command, trained, fasta):
    outcome = command("mutants", trained, "--sequence", "S7")
    if outcome.status:  # S7 is held out
        outcome = command("mutants", trained, "--sequence", "S8")
    assert outcome.status == 0, outcome.err
    assert command("mutants", trained, "--sequence", "LLLLKKKK").status == 0
    rows = table(trained / "mutants.csv")
    assert len(rows) == 8 * 20 and rows[0]["mutation"] == "L1A" and (trained / "mutants.png").exists()
    rbm, alignment = hm.load(trained), hm.data.read_alignment(fasta)
    changes = {row["mutation"]: float(row["change"]) for row in rows}
    before, after = rbm.free_energy(alignment.encode(["LLLLKKKK", "LLLLKWKK"])).tolist()
    assert changes["K6W"] == pytest.approx(before - after, abs=1e-4)
    wrong = command("mutants", trained, "--sequence", "nobody")
    assert wrong.status == 2 and "expected the name of a training sequence" in wrong.err and "8 letters" in wrong.err
    wrong = command("mutants", trained, "--sequence", "LLLL?KKK")
    assert wrong.status == 2 and "found '?'" in wrong.err


@pytest.mark.slow
def test_logos(command, trained):
    outcome = command("logos", trained, "-n", 2, "--sweeps", 2)
    assert outcome.status == 0, outcome.err
    assert all((trained / name).exists() for name in ("logo.png", "logo-samples.png", "logo-hidden.png"))


@pytest.mark.slow
def test_new_sequences(command, trained, fasta, tmp_path):
    assert command("sample", trained, "-n", 6, "--sweeps", 5).status == 0
    new = hm.data.read_alignment(trained / "samples.fasta", LETTERS)
    drawn = hm.load(trained).sample(6, sweeps=5, seed=0, check_mixing=False)
    assert new.sequences == new.decode(drawn)
    headers = [line.split() for line in (trained / "samples.fasta").read_text().splitlines() if line.startswith(">")]
    natural = hm.data.read_alignment(fasta)
    for k, (name, nearest, identity) in enumerate(headers):
        assert name == f">sample-{k + 1}"
        other = natural.row(nearest.removeprefix("nearest="))
        equal = (new.rows[k] * other).sum().item() / 8
        assert float(identity.removeprefix("identity=")) == pytest.approx(equal, abs=1e-3)
    assert command("sample", trained, "-n", 6, "--sweeps", 5, "--out", tmp_path / "new.csv").status == 0
    rows = table(tmp_path / "new.csv")
    assert [row["sequence"] for row in rows] == new.sequences and set(rows[0]) == {
        "name",
        "sequence",
        "nearest",
        "identity",
    }
    assert command("sample", trained, "-n", 6, "--sweeps", 5, "--out", tmp_path / "new.npy").status == 0
    assert np.load(tmp_path / "new.npy").shape == (6, 8, 21)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["contacts", "logos", "mutants"])
def test_runs_without_letters(command, binary, tmp_path, name):
    run = tmp_path / "run"
    command("train", binary, "--hidden", 2, "--epochs", 1, "--run", run, "--no-report", "-q")
    outcome = command(name, run, *(["--sequence", "S1"] if name == "mutants" else []))
    assert outcome.status == 2 and "expected a run on sequences" in outcome.err
    outcome = command("sample", run, "--sweeps", 1, "--out", tmp_path / "new.fasta")
    assert outcome.status == 2 and "expected a run on sequences" in outcome.err
    outcome = command("sample", run / "checkpoints" / "last.safetensors", "--out", tmp_path / "new.fasta")
    assert outcome.status == 2 and "needs a run folder" in outcome.err


WRONG = {
    "ragged": (">a\nACDE\n>b\nACD\n", [], "mine.fasta, line 3: expected 4 sites"),
    "letter": (">a\nACDE\n>b\nAC?E\n", [], "mine.fasta, line 4: expected letters of the protein alphabet"),
    "empty": ("", [], "mine.fasta is empty"),
    "alphabet": (">a\nACDE\n", ["--alphabet", "A"], "alphabet: expected protein, rna, dna"),
    "custom": (">a\nHPPX\n", ["--alphabet", "HP-"], "line 2: expected letters of the custom alphabet HP-"),
    "binarize": (">a\nACDE\n", ["--binarize", "threshold"], "binarize: expected none for the sequences"),
    "similarity": (">a\nACDE\n", ["--similarity", 1.5], "similarity: expected a fraction above 0 and at most 1"),
    "zero": (">a\nACDE\n", ["--similarity", 0], "similarity: expected a fraction above 0 and at most 1, found 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(command, tmp_path, case):
    content, options, message = WRONG[case]
    (tmp_path / "mine.fasta").write_text(content)
    outcome = command("train", tmp_path / "mine.fasta", *options, "--epochs", 1, "--run", tmp_path / "run")
    assert outcome.status == 2 and message in outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_options_of_sequences_need_sequences(command, binary, tmp_path):
    cases = {
        ("--alphabet", "dna"): "alphabet: expected none for the numbers in binary.npy",
        ("--similarity", "0.8"): "similarity: expected sequences, which have potts units",
    }
    for option, message in cases.items():
        outcome = command("train", binary, *option, "--epochs", 1, "--run", tmp_path / "run")
        assert outcome.status == 2 and message in outcome.err
    outcome = command("train", "protein-ww", "--alphabet", "protein", "--run", tmp_path / "run")
    assert outcome.status == 2 and "alphabet: expected none for the data set 'protein-ww'" in outcome.err


def test_other_data_have_their_own_alphabet():
    from harmonium.runs import config

    old = config.from_dict({"data": {"source": "a.fasta", "alphabet": LETTERS, "similarity": 0.8}})
    new = config.merge(old, {"data": {"source": "b.fasta"}})
    assert new.data.alphabet is None and new.data.similarity == 0.8
    assert config.merge(old, {"data": {"source": "b.fasta", "alphabet": "rna"}}).data.alphabet == "rna"
    assert config.merge(old, {"training": {"epochs": 3}}).data.alphabet == LETTERS


def test_named_alignments_are_written_as_letters(tmp_path):
    run = Run(tmp_path)
    for source, letters in (("protein-ww", True), ("digits", False)):
        run.write_config({"data": {"source": source}})
        assert _has_alphabet(tmp_path) is letters

"""Each command does what its help says."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import files, kernels
from harmonium.training import Run


def tensors(run: Path) -> dict[str, torch.Tensor]:
    return files.read_tensors(Run(run).last)[0]


def same(a: Path, b: Path) -> bool:
    one, two = tensors(a), tensors(b)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_version_and_help(command):
    assert command("--version").out.strip() == f"harmonium {hm.__version__}"
    shown = command("--help").out
    for name in ("demo", "train", "resume", "sample", "evaluate", "data", "info", "report"):
        assert name in shown
    assert command().out == shown


@pytest.mark.slow
def test_python_m_harmonium_is_the_command():
    done = subprocess.run([sys.executable, "-m", "harmonium", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"harmonium {hm.__version__}"


@pytest.mark.slow
def test_train_says_what_it_does_and_does_it(command, binary, tmp_path):
    run = tmp_path / "run"
    outcome = command(
        "train", binary, "--hidden", "bernoulli:3", "--epochs", 2, "--batch-size", 20, "--run", run, "--no-report"
    )
    assert outcome.status == 0
    for words in (
        "60 for training",
        "bernoulli:6 – bernoulli:3",
        "negative: exact (small machine: exact gradients cost little)",
        "learning rate: auto (chosen from the data)",
        str(run),
    ):
        assert words in outcome.out
    assert [row["epoch"] for row in Run(run).read_metrics()] == [1, 2]
    assert hm.load(run).visible.shape == (6,)


@pytest.mark.slow
def test_config_holds_everything_and_runs_again_to_the_bit(command, binary, tmp_path):
    options = [
        "--hidden", "spin:3", "--negative", "cd:2", "--epochs", 3, "--batch-size", 10, "--seed", 7, "--validation", 0.2,
        "--optimizer", "adam", "--schedule", "linear:0.5", "--constraints", "average:0.5",
        "--penalties", "l1:0.001", "--penalties", "l2:0.01", "--penalties", "l1-squared:0.001",
        "--initialize", "sign:0.1", "--dtype", "float64",
        "--centered", "false",
    ]  # fmt: skip
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    assert command("train", binary, *options, "--run", first, "-q", "--no-report").status == 0
    config = tomllib.loads((first / "config.toml").read_text())
    assert config["harmonium"] == hm.__version__
    assert config["data"]["source"] == str(binary.resolve()) and len(config["data"]["sha256"]) == 64
    assert config["training"]["learning_rate"] == 0.001 and config["machine"]["threads"] == torch.get_num_threads()
    assert hm.load(first).dtype == torch.float64

    assert command("train", "--config", first / "config.toml", "--run", again, "-q", "--no-report").status == 0
    assert same(first, again)
    assert (again / "config.toml").read_text() == (first / "config.toml").read_text()
    # the command line overrides the file
    assert (
        command("train", "--config", first / "config.toml", "--seed", 8, "--run", other, "-q", "--no-report").status
        == 0
    )
    assert not same(first, other)


@pytest.mark.slow
def test_the_command_in_the_report_is_the_configuration(command, trained, tmp_path):
    import shlex

    from harmonium.report.configuration import command as words_of

    again = tmp_path / "again"
    words = shlex.split(words_of(Run(trained).read_config()))
    assert command(*words[1:], "--run", again, "-q", "--no-report").status == 0
    assert same(trained, again)
    assert Run(again).read_config() == Run(trained).read_config()


@pytest.mark.slow
def test_config_paths_are_relative_to_the_file(command, binary, tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text('[data]\nsource = "binary.npy"\n[training]\nepochs = 1\nbatch_size = 20\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert command("train", "--config", "../run.toml", "-q", "--no-report").status == 0
    assert Run(elsewhere / "runs" / "binary").read_config()["data"]["source"] == str(binary.resolve())


@pytest.mark.slow
def test_default_folder_is_numbered_and_a_given_one_is_refused(command, binary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", binary, "--epochs", 1, "--batch-size", 20, "-q", "--no-report"]
    for _ in range(2):
        assert command(*arguments).status == 0
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {"binary", "binary-2"}
    outcome = command(*arguments, "--run", "runs/binary")
    assert outcome.status == 2 and "already contains a run" in outcome.err


@pytest.mark.slow
def test_options_change_the_training(command, binary, tmp_path):
    def weights(name: str, *options: object) -> torch.Tensor:
        common = ["--hidden", "bernoulli:3", "--epochs", 8, "--batch-size", 20, "-q", "--no-report"]
        outcome = command("train", binary, *common, "--run", tmp_path / name, *options)
        assert outcome.status == 0, outcome.err
        return hm.load(tmp_path / name).coupling.weight

    plain = weights("plain")
    changes = {
        "rate": ("--learning-rate", 0.1),
        "momentum": ("--optimizer", "sgd,momentum=0.9"),
        "rmsprop": ("--optimizer", "rmsprop"),
        "growing": ("--schedule", "growing:1"),
        "plain-gradient": ("--centered", "false"),
        "average": ("--constraints", "average:1.0"),
        "l2": ("--penalties", "l2:1.0"),
        "sign": ("--initialize", "sign"),
        "modes": ("--initialize", "modes"),
        "scale": ("--initialize", "normal:0.5"),
        "chains": ("--negative", "pcd:1,chains=7"),
        "cd": ("--negative", "cd:1"),
        "tempering": ("--negative", "parallel-tempering:1,rungs=3"),
        "held": ("--validation", 0.5),
    }
    for name, options in changes.items():
        assert not torch.equal(weights(name, *options), plain), name


@pytest.mark.slow
def test_named_data_sets_choose_their_units(command, tmp_path):
    run = tmp_path / "digits"
    assert (
        command("train", "digits", "--hidden", "bernoulli:4", "--epochs", 1, "--run", run, "-q", "--no-report").status
        == 0
    )
    config = Run(run).read_config()
    assert config["data"] == {
        "source": "digits",
        "binarize": "threshold",
        "split": "train",
        "validation": "test",
        "rows": 1442,
    }
    assert config["machine"]["visible"] == "bernoulli:64"
    gray = tmp_path / "gray"
    options = ["--visible", "truncated-gaussian,low=0,high=1", "--hidden", "bernoulli:4", "--epochs", 1]
    assert command("train", "digits", *options, "--run", gray, "-q", "--no-report").status == 0
    assert Run(gray).read_config()["machine"]["visible"] == "truncated-gaussian:64,low=0,high=1"


@pytest.mark.slow
def test_labels_become_one_hot(command, tmp_path):
    rows = np.random.default_rng(0).integers(0, 4, (50, 5))
    np.savetxt(tmp_path / "labels.csv", rows, fmt="%d", delimiter=",")
    run = tmp_path / "run"
    arguments = [
        "--visible",
        "potts:4",
        "--hidden",
        "gaussian:2",
        "--constraints",
        "zero-sum",
        "--epochs",
        1,
        "--batch-size",
        10,
    ]
    assert command("train", tmp_path / "labels.csv", *arguments, "--run", run, "-q").status == 0
    assert Run(run).read_config()["machine"]["visible"] == "potts:5x4"
    assert hm.load(run).visible.shape == (5, 4)
    drawn = tmp_path / "drawn.npy"
    assert command("sample", run, "-n", 3, "--sweeps", 5, "--start", "data", "--out", drawn).status == 0
    assert np.load(drawn).shape == (3, 5, 4) and (np.load(drawn).sum(-1) == 1).all()
    again = tmp_path / "again"
    assert command("train", "--config", run / "config.toml", "--run", again, "-q", "--no-report").status == 0
    assert same(run, again)


@pytest.mark.slow
def test_mixed_layers(command, tmp_path):
    pixels, label = np.random.default_rng(0).integers(0, 2, (40, 4)), np.eye(3)[np.arange(40) % 3]
    np.savez(tmp_path / "mixed.npz", x=np.concatenate([pixels, label], 1))
    run = tmp_path / "run"
    visible = "bernoulli:4+potts:1x3"
    assert (
        command(
            "train", tmp_path / "mixed.npz", "--visible", visible, "--epochs", 1, "--batch-size", 10, "--run", run, "-q"
        ).status
        == 0
    )
    assert hm.load(run).visible.name() == "mixed"


@pytest.mark.slow
def test_gray_files_are_binarized_at_half_of_their_largest_value(command, tmp_path):
    levels = np.random.default_rng(0).integers(0, 256, (30, 4, 4)).astype(np.uint8)
    levels[0, 0, 0] = 255
    np.save(tmp_path / "gray.npy", levels)
    np.save(tmp_path / "thresholded.npy", (levels > 127).astype(np.uint8))
    runs = [tmp_path / "a", tmp_path / "b"]
    common = ["--hidden", "bernoulli:3", "--epochs", 2, "--batch-size", 10, "-q", "--no-report"]
    assert command("train", tmp_path / "gray.npy", "--binarize", "threshold", *common, "--run", runs[0]).status == 0
    assert command("train", tmp_path / "thresholded.npy", *common, "--run", runs[1]).status == 0
    assert same(*runs)


@pytest.mark.slow
def test_resume_of_a_finished_run_says_so(command, trained):
    outcome = command("resume", trained)
    assert outcome.status == 0 and "finished" in outcome.out


@pytest.mark.slow
def test_resume_goes_on_to_more_epochs_as_if_they_had_been_asked_for_at_once(command, binary, tmp_path):
    whole, longer = tmp_path / "whole", tmp_path / "longer"
    arguments = ["--hidden", "bernoulli:3", "--batch-size", 20, "--validation", 0.2, "--schedule", "constant"]
    quiet = ["-q", "--no-report"]
    assert command("train", binary, *arguments, "--epochs", 9, "--run", whole, *quiet).status == 0
    assert command("train", binary, *arguments, "--epochs", 4, "--run", longer, *quiet).status == 0
    assert command("resume", longer, "--epochs", 9, *quiet).status == 0
    assert same(longer, whole)
    assert (longer / "config.toml").read_text() == (whole / "config.toml").read_text()
    assert command("resume", longer, "--epochs", 3).status == 2


@pytest.mark.slow
def test_the_default_schedule_depends_on_the_learning_rate_and_is_recorded(command, trained, binary, tmp_path):
    assert Run(trained).read_config()["training"]["schedule"] == {"name": "linear", "constant": 0.5}
    for k, rate in enumerate((("--learning-rate", 0.1), ("--optimizer", "sgd,momentum=0.5"), ("--optimizer", "adam"))):
        run = tmp_path / str(k)
        command("train", binary, "--hidden", 2, "--epochs", 1, *rate, "--run", run, "-q", "--no-report")
        assert Run(run).read_config()["training"]["schedule"] == {"name": "constant"}


@pytest.mark.slow
def test_resume_begins_again_without_a_checkpoint(command, trained, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    shutil.rmtree(copy / "checkpoints")
    outcome = command("resume", copy, "--no-report")
    assert outcome.status == 0 and "starts from the beginning" in outcome.out
    assert same(trained, copy)


@pytest.mark.slow
def test_resume_refuses_data_that_have_changed(command, binary, tmp_path):
    run = tmp_path / "run"
    assert command("train", binary, "--epochs", 1, "--batch-size", 20, "--run", run, "-q", "--no-report").status == 0
    np.save(binary, np.zeros((60, 6), dtype=np.uint8))
    outcome = command("resume", run, "--epochs", 2)
    assert outcome.status == 2 and "sha256" in outcome.err and len(outcome.err.strip().splitlines()) <= 2


@pytest.mark.slow
def test_data_that_have_moved_are_found_by_option(command, trained, binary):
    moved = binary.rename(binary.with_name("moved.npy"))
    assert command("evaluate", trained).status == 2
    assert command("evaluate", trained, "--data", moved).status == 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".png"])
def test_sample_writes_every_format(command, trained, tmp_path, suffix):
    out = tmp_path / f"samples{suffix}"
    assert command("sample", trained, "-n", 5, "--sweeps", 3, "--out", out).status == 0
    if suffix == ".png":
        assert out.read_bytes().startswith(b"\x89PNG")
    else:
        values = np.asarray(hm.data.read(out))
        assert values.shape == (5, 6) and set(np.unique(values)) <= {0, 1}


@pytest.mark.slow
def test_sample_follows_seed_and_start(command, trained, tmp_path):
    def draw(*options: object) -> np.ndarray:
        assert command("sample", trained, "-n", 20, "--sweeps", 0, "--out", tmp_path / "s.npy", *options).status == 0
        return np.load(tmp_path / "s.npy")

    assert np.array_equal(draw("--seed", 1), draw("--seed", 1))
    assert not np.array_equal(draw("--seed", 1), draw("--seed", 2))
    rows = {tuple(row) for row in np.load(trained.parent / "binary.npy").tolist()}
    assert all(tuple(row) in rows for row in draw("--start", "data").astype(int).tolist())


@pytest.mark.slow
def test_evaluate_gives_the_exact_likelihood(command, trained):
    outcome = command("evaluate", trained)
    assert outcome.status == 0
    line = next(line for line in outcome.out.splitlines() if line.startswith("log-likelihood, exact"))
    machine = hm.load(trained)
    value = float(line.split("row")[1].split()[0])
    assert value == pytest.approx(_train_rows_log_likelihood(machine, trained), abs=1e-3)
    assert "pseudo-log-likelihood per unit" in outcome.out and "over 6 units" in outcome.out
    assert "free-energy gap" in outcome.out and "held out" in outcome.out


def _train_rows_log_likelihood(machine, run: Path) -> float:
    from harmonium.runs.setup import prepare, read_config

    setup = prepare(read_config(run))
    rows = setup.rows.train.rows(torch.arange(len(setup.rows.train)), machine)
    assert len(rows) == 48
    return hm.likelihood.exact(machine).log_likelihood(rows).value


@pytest.mark.slow
def test_info(command, trained):
    outcome = command("info", trained)
    for words in (
        "bernoulli:6 – bernoulli:3",
        "4 of 4 (finished)",
        "training.negative: exact",
        "checkpoints/last.safetensors",
        "last reconstruction",
    ):
        assert words in outcome.out
    assert "bernoulli:6" in command("info", trained / "checkpoints" / "last.safetensors").out


def test_info_alone_describes_the_installation(command):
    facts = json.loads(command("info", "--json").out)
    assert facts["harmonium"] == hm.__version__ and facts["products of binary states"] == kernels.described()
    outcome = command("info", "--verify")
    assert outcome.status == 2 and "a run folder or a file" in outcome.err


@pytest.mark.slow
def test_data_commands(command):
    shown = command("data", "list")
    assert shown.status == 0
    for name in hm.data.names():
        assert name in shown.out
    facts = command("data", "info", "digits").out
    assert "CC BY 4.0" in facts and "1,442 train" in facts


@pytest.mark.slow
def test_runs_of_the_library_can_be_looked_at(command, tmp_path):
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    hm.fit(rbm, torch.ones(10, 4), epochs=1, batch_size=5, run=tmp_path / "run", progress=False)
    assert "1 of 1" in command("info", tmp_path / "run").out
    assert command("sample", tmp_path / "run", "-n", 2, "--sweeps", 1).status == 0
    assert (tmp_path / "run" / "samples.npy").exists()
    outcome = command("resume", tmp_path / "run")
    assert outcome.status == 0 and "nothing to resume" in outcome.out
    outcome = command("resume", tmp_path / "run", "--epochs", 2)
    assert outcome.status == 2 and "expected --data NAME or FILE; a run of hm.fit" in outcome.err


@pytest.mark.slow
def test_demo_leaves_a_report(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("demo", "demo-2"):
        outcome = command("demo", "--epochs", 2)
        assert outcome.status == 0
        assert str(Path("runs") / folder / "report.html") in outcome.out
        assert (tmp_path / "runs" / folder / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(command, binary, tmp_path, monkeypatch):
    from harmonium.runs import training

    real, calls = training.train_machine, []

    def interrupted(machine: object, data: object, plan: hm.Plan, **options: object) -> object:
        calls.append(plan.epochs)
        real(machine, data, dataclasses.replace(plan, epochs=1), **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_machine", interrupted)
    run = tmp_path / "run"
    outcome = command("train", binary, "--epochs", 3, "--batch-size", 20, "--run", run)
    assert outcome.status == 130 and f"harmonium resume {run}" in outcome.err and calls == [3]
    monkeypatch.undo()
    assert command("resume", run, "--no-report").status == 0


@pytest.mark.slow
def test_samples_of_a_file_are_written_beside_it(trained, command, tmp_path):
    file = tmp_path / "rbm.safetensors"
    file.write_bytes(Run(trained).last.read_bytes())
    assert command("sample", file, "-n", 3, "--sweeps", 1).status == 0
    assert np.load(tmp_path / "samples.npy").shape == (3, 6)


@pytest.mark.slow
def test_help_names_every_negative_phase_and_what_sample_reads(command):
    from harmonium.training.negative import PHASES

    text = command("train", "--help").out
    assert all(name in "".join(text.split()) for name in PHASES)
    assert "A run folder or a .safetensors file." in command("sample", "--help").out


@pytest.mark.slow
def test_gray_values_can_be_redrawn_in_every_epoch(command, tmp_path):
    gray = np.tile(np.array([0, 51, 255], dtype=np.uint8), (200, 1))
    path, run, again = tmp_path / "gray.npy", tmp_path / "run", tmp_path / "again"
    np.save(path, gray)
    options = (
        "train",
        path,
        "--binarize",
        "redraw",
        "--hidden",
        "bernoulli:2",
        "--no-report",
        "--schedule",
        "constant",
    )
    outcome = command(*options, "--epochs", 40, "--run", run)
    assert outcome.status == 0
    assert "sampling anew each epoch" in outcome.out
    mean = hm.load(run).sample(4000, sweeps=50, seed=0).mean(0)
    assert torch.allclose(mean, torch.tensor([0.0, 0.2, 1.0]), atol=0.05)
    command(*options, "--epochs", 20, "--run", again)
    command("resume", again, "--epochs", 40, "--no-report")
    assert same(run, again)


def test_a_data_set_by_name_is_redrawn_in_training_and_drawn_once_elsewhere():
    from harmonium.runs import config as schema
    from harmonium.runs import rows

    config = schema.merge(
        schema.Config(), {"data": {"source": "digits", "binarize": "redraw"}, "training": {"seed": 0}}
    )
    loaded = rows.load(config)
    assert isinstance(loaded.train, hm.Redrawn)
    index, out = torch.arange(100), torch.empty(100, 64)
    generator = torch.Generator().manual_seed(0)
    draws = [loaded.train.take(index, out, generator).clone() for _ in range(2)]
    assert not torch.equal(*draws)
    _, test = rows.load_test(config, loaded)
    assert torch.equal(test.take(index, out, generator).clone(), test.take(index, out, generator))
    assert set(out.unique().tolist()) == {0.0, 1.0}


@pytest.mark.slow
def test_samples_of_chains_that_did_not_mix_come_with_a_warning(command, tmp_path):
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(1))
    torch.nn.init.constant_(rbm.coupling.weight, 2.0)
    hm.save(rbm, tmp_path / "wells.safetensors")
    outcome = command("sample", tmp_path / "wells.safetensors", "-n", 100, "--sweeps", 100)
    assert outcome.status == 0
    assert outcome.err.startswith("warning: the chains have not mixed")


@pytest.mark.slow
def test_evaluate_compares_samples_with_the_data(command, tmp_path):
    run = tmp_path / "run"
    command("train", "digits", "--hidden", "bernoulli:8", "--epochs", 1, "--run", run, "--no-report")
    outcome = command("evaluate", run, "--betas", 0, "--samples", 100, "--sweeps", 20)
    assert outcome.status == 0
    assert "nearest-neighbor accuracy" in outcome.out
    assert (run / "quality.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_mean_field_is_a_negative_phase_of_the_command(command, binary, tmp_path):
    run = tmp_path / "run"
    outcome = command(
        "train", binary, "--negative", "mean-field:3,method=naive", "--hidden", "bernoulli:3", "--epochs", 2,
        "--batch-size", 20, "--run", run, "--no-report",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert command("resume", run, "--epochs", 3, "--no-report").status == 0


@pytest.mark.slow
def test_denoise_prints_a_table_and_draws(command, tmp_path):
    run = tmp_path / "run"
    command("train", "digits", "--hidden", "bernoulli:16", "--epochs", 3, "--run", run, "--no-report")
    outcome = command("denoise", run, "--levels", "0.1,0.3", "-n", 20)
    assert outcome.status == 0, outcome.err
    assert "0.3" in outcome.out
    assert (run / "denoise.png").exists()
    assert command("denoise", run, "--levels", "a").err.startswith("error: levels: expected numbers")


@pytest.mark.slow
def test_what_a_machine_has_learned(command, tmp_path):
    run = tmp_path / "run"
    command("train", "digits", "--hidden", "bernoulli:12", "--epochs", 4, "--run", run, "--no-report")
    spectrum = command("spectrum", run)
    assert spectrum.status == 0, spectrum.err
    assert "axes of the data (10)" in spectrum.out
    plain, relative = (
        float(command("spectrum", run, *options).out.splitlines()[2].split()[3]) for options in ([], ["--relative"])
    )
    assert relative == pytest.approx(plain / 4, rel=1e-3)  # {0, 1} units vary by ½
    landscape = command("landscape", run, "-n", 50)
    assert "solution from 50 starts" in landscape.out, landscape.err
    pairs = command("interactions", run, "-n", 3)
    assert len(pairs.out.splitlines()) == 1 + 1 + 3 + 1  # title, columns, pairs, the picture
    triples = command("interactions", run, "--order", 3, "-n", 3)
    assert len(triples.out.splitlines()[2].split()) == 4 and "png" not in triples.out
    for name in ("spectrum", "modes", "landscape", "interactions"):
        assert (run / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "0 to 0, found 1" in command("spectrum", run, "--layer", 1).err
    assert "expected one of tap" in command("landscape", run, "--method", "guess").err

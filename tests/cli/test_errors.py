"""User errors give one or two lines and exit status 2, and leave no files behind."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.cli import main
from harmonium.machines import layout as specs
from harmonium.training import Run


@pytest.fixture
def fails(command, tmp_path):
    """Run a command that has to fail, and look for words in its message."""

    def check(*arguments: object, words: tuple[str, ...]) -> str:
        before = {p for p in tmp_path.rglob("*") if p.is_file()}
        outcome = command(*arguments)
        assert outcome.status == 2, outcome
        assert 1 <= len(outcome.err.strip().splitlines()) <= 2 and "Traceback" not in outcome.err, outcome.err
        assert outcome.err.startswith("error: ")
        for word in words:
            assert word in outcome.err, outcome.err
        assert {p for p in tmp_path.rglob("*") if p.is_file()} == before, "partial output was left"
        return outcome.err

    return check


@pytest.fixture
def train(fails, tmp_path):
    """``harmonium train`` of an array, which has to fail without leaving a run folder."""

    def check(rows: object, *options: object, words: tuple[str, ...]) -> None:
        if isinstance(rows, np.ndarray):
            np.save(tmp_path / "rows.npy", rows)
            rows = tmp_path / "rows.npy"
        run = tmp_path / "new" / "run"
        defaults = {"--epochs": 1, "--batch-size": 5, "--run": run}
        others = [part for name, value in defaults.items() if name not in options for part in (name, value)]
        fails("train", rows, *others, *options, words=words)
        assert not run.exists()

    return check


BINARY = np.arange(60).reshape(20, 3) % 2


def test_missing_file(train, tmp_path):
    train(tmp_path / "none.csv", words=("none.csv", "expected a file"))


def test_unknown_data_set(train):
    train("digitz", words=("unknown data set 'digitz'", "did you mean 'digits'"))


def test_no_data(fails):
    fails("train", words=("no data",))


@pytest.mark.parametrize("visible", ["bernoulli:4", "bernoulli:2x3", "gaussian:4"])
def test_wrong_shape(train, visible):
    train(BINARY, "--visible", visible, words=("expected rows of shape", "found (3,)"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "options", [("--visible", "gaussian"), ("--visible", "bernoulli", "--binarize", "threshold"), ()]
)
def test_not_finite(train, value, options):
    rows = BINARY.astype(float)
    rows[7, 2] = value
    train(rows, *options, words=("expected finite numbers", f"found {value}", "row 7"))


def test_not_finite_in_a_table(train, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,0\n0,\n")
    train(tmp_path / "t.csv", "--visible", "bernoulli", words=("expected finite numbers", "row 2", "'b'"))


def test_pixels_for_binary_units(train):
    train(BINARY * 255, "--visible", "bernoulli", words=("binary values 0 or 1", "255", "binarize"))


def test_values_that_could_be_anything(train):
    train(BINARY * 255, words=("--visible", "values from 0 to 255"))


@pytest.mark.parametrize("visible", ["multinomial", "poisson"])
def test_negative_counts(train, visible):
    rows = BINARY.copy()
    rows[3, 1] = -2
    train(rows, "--visible", visible, words=("non-negative integer", "row 3"))


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("label", "shown"), [(4, "4"), (-1, "-1"), (0.5, "0.5")])
def test_labels_out_of_range(train, label, shown):
    rows = BINARY.astype(float)
    rows[5, 0] = label
    train(rows, "--visible", "potts:4", words=("expected labels from 0 to 3", f"found {shown}", "row 5"))


def test_states_of_labels_are_asked_for(train):
    train(BINARY, "--visible", "potts", words=("how many states", "potts:21"))


def test_mixed_layer_with_two_labels_at_once(train):
    rows = np.concatenate([BINARY, np.ones((20, 2), dtype=int)], 1)
    train(rows, "--visible", "bernoulli:3+potts:1x2", words=("one-hot", "row 0"))


@pytest.mark.slow
def test_empty_data(train, tmp_path):
    train(np.zeros((0, 3)), words=("expected samples", "(0, 3)"))
    (tmp_path / "empty.csv").write_text("")
    train(tmp_path / "empty.csv", words=("empty",))


def test_a_batch_larger_than_the_data_is_all_of_the_data(command, tmp_path):
    np.save(tmp_path / "rows.npy", BINARY)
    options = ("--hidden", "bernoulli:2", "--epochs", 2, "--run", tmp_path / "run", "--no-report")
    assert command("train", tmp_path / "rows.npy", "--batch-size", 21, *options).status == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hidden", "bernouli:3"), ("unknown unit 'bernouli'", "did you mean 'bernoulli'")),
        (("--hidden", "binomial:3"), ("trials",)),
        (("--hidden", "binomial:3,trial=2"), ("unknown option of binomial units 'trial'", "did you mean 'trials'")),
        (("--hidden", "bernoulli"), ("expected a number of units",)),
        (("--hidden", "bernoulli:x"), ("expected sizes",)),
        (("--hidden", "bernoulli:0"), ("expected sizes",)),
        (("--negative", "pdc:1"), ("unknown negative phase 'pdc'", "did you mean 'pcd'")),
        (("--negative", "cd:many"), ("k: expected a whole number", "'many'")),
        (("--negative", "cd:1.5"), ("k: expected a whole number", "1.5")),
        (("--negative", "pcd:1,chains=x"), ("chains: expected a whole number", "'x'")),
        (("--negative", "parallel-tempering:1,rungs=2.5"), ("rungs: expected a whole number", "2.5")),
        (("--negative", "trajectory-tempering:1,acceptance=high"), ("acceptance: expected a number", "'high'")),
        (("--negative", "pcd:1,k=2"), ("k is given twice",)),
        (("--schedule", "growing,every=1.5"), ("every: expected a whole number", "1.5")),
        (("--hidden", "binomial:3,trials=2.5"), ("trials: expected a whole number", "2.5")),
        (("--hidden", "binomial:3,trials=true"), ("trials: expected a whole number", "True")),
        (("--hidden", "gaussian:3,precision=abc"), ("precision: expected a number, found 'abc'",)),
        (("--hidden", "bernoulli:3,bias=abc"), ("bias: expected a number, found 'abc'",)),
        (("--hidden", "bernoulli:3,bias=1e999"), ("bias: expected a number, found inf",)),
        (("--hidden", "multinary:3,levels=2,activation=3"), ("activation: expected a word, found 3",)),
        (("--hidden", "multinary:3,levels=2,offsets=3"), ("offsets: expected sizes", "3")),
        (("--hidden", "bernoulli:3,learn=b"), ("parameter of bernoulli to learn 'b'", "did you mean 'bias'")),
        (("--hidden", "bernoulli:3,learn=3"), ("parameter of bernoulli to learn '3'", "bias")),
        (("--hidden", "bernoulli:99999999999"), ("too large", "2,147,483,648")),
        (("--hidden", "bernoulli:99999x99999"), ("too large",)),
        (("--visible", "bernoulli:99999999999"), ("too large",)),
        (("--initialize", "normal:1e999"), ("scale: expected a number", "inf")),
        (("--initialize", "normal:-1"), ("scale: expected a finite number of at least 0", "-1")),
        (("--seed", "99999999999999999999"), ("seed: expected a whole number", "99999999999999999999")),
        (("--threads", "0"), ("threads: expected at least 1", "found 0")),
        (("--negative", "exact,chains=3"), ("no options",)),
        (("--optimizer", "adan"), ("unknown optimizer 'adan'", "did you mean 'adam'")),
        (("--optimizer", "adam,momentum=0.5"), ("no options",)),
        (("--learning-rate", -1), ("positive",)),
        (("--schedule", "liner"), ("unknown schedule 'liner'", "did you mean 'linear'")),
        (("--schedule", "growing:0"), ("expected", "found 0")),
        (("--binarize", "treshold"), ("unknown way to binarize", "did you mean 'threshold'")),
        (("--validation", "1.5"), ("between 0 and 1",)),
        (("--validation", "test"), ("fraction of the file's rows",)),
        (("--split", "train"), ("data sets by name",)),
        (("--dtype", "float16"), ("unknown dtype", "float32")),
        (("--device", "toaster"), ("toaster",)),
        (("--initialize", "sing"), ("did you mean 'sign'",)),
        (("--image", "5x5"), ("3 values",)),
        (("--epochs", "0"), ("at least 1",)),
        (("--epochs", "many"), ("--epochs", "integer")),
        (("--constraints", "average:2"), ("0 < last",)),
        (("--threads", "-1"), ("at least 1",)),
        (("--hiden", "bernoulli:3"), ("--hiden", "--hidden")),
    ],
)
@pytest.mark.fast_cases(20)
def test_options_that_have_no_meaning(train, options, words):
    train(BINARY, *options, words=words)


@pytest.mark.parametrize("options", [("--epochs", 0), ("--batch-size", 0), ("--constraints", "zero-sum")])
def test_mistakes_are_found_before_the_plan_is_printed(command, tmp_path, options):
    np.save(tmp_path / "rows.npy", BINARY)
    outcome = command("train", tmp_path / "rows.npy", "--run", tmp_path / "run", *options)
    assert outcome.status == 2 and outcome.out == "" and "expect" in outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_more_than_memory_holds(train):
    train(
        BINARY, "--negative", f"pcd:1,chains={10**15}", words=("GB of memory, found", "use fewer chains")
    )  # no computer has petabytes


@pytest.mark.slow
def test_other_errors_of_torch_are_not_taken_for_a_lack_of_memory(monkeypatch, tmp_path):
    def broken(*arguments: object) -> None:
        raise RuntimeError("a mistake in the library")

    monkeypatch.setattr("harmonium.runs.machine.RBM", broken)
    with pytest.raises(RuntimeError, match="a mistake"):
        main(["train", "digits", "--run", str(tmp_path / "run")])


def test_learned_parameter_in_quotes():
    assert specs.UnitSpec.parse('bernoulli:3,learn="bias"').options == {"learn": ("bias",)}


def test_unknown_command(fails):
    fails("trian", words=("trian", "train"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[training]\nepoch = 3\n", ("unknown key of [training]", "'epoch'", "did you mean 'epochs'")),
        ("[trainig]\nepochs = 3\n", ("'trainig'", "did you mean 'training'")),
        ('[training]\nepochs = "three"\n', ("epochs", "a whole number", "'three'")),
        ("training = 3\n", ("expected a table [training]",)),
        ("[training\n", ("expected a configuration in TOML",)),
    ],
)
def test_configuration_files(train, tmp_path, text, words):
    (tmp_path / "c.toml").write_text(text)
    train(BINARY, "--config", tmp_path / "c.toml", words=words)


def test_missing_configuration(train, tmp_path):
    train(BINARY, "--config", tmp_path / "c.toml", words=("found no file",))


# -- run folders and checkpoints --------------------------------------------------------------------------------


def test_too_few_samples_to_compare_are_refused_before_any_work(fails, tmp_path):
    fails("evaluate", tmp_path / "run", "--samples", 39, words=("samples", "at least 40", "found 39"))


READERS = [("resume", "--epochs", "9"), ("sample",), ("info",), ("evaluate",), ("report",)]


def on(reader: tuple[str, ...], run: Path) -> list[object]:
    return [reader[0], run, *reader[1:]]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
@pytest.mark.slow
def test_truncated_checkpoint(fails, trained, reader):
    for path in (Run(trained).last, Run(trained).previous):
        path.write_bytes(path.read_bytes()[:-100])
    fails(*on(reader, trained), words=("last.safetensors", "expected a safetensors file"))


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "\0garbage", "epoch,seconds\n", "epoch,seconds\n1,0.1\n2\n"])
def test_damaged_metrics(fails, trained, content):
    Run(trained).metrics_path.write_text(content)
    before = Run(trained).config_path.read_bytes()
    for reader in (("resume", "--epochs", "9"), ("info",)):
        fails(*on(reader, trained), words=("metrics.csv: damaged",))
    assert Run(trained).config_path.read_bytes() == before


def test_sample_of_nothing(fails, tmp_path):
    fails("sample", tmp_path / "nope", words=("nope: no such file or folder", "run folder"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["-1", "9223372036854775808", "99999999999999999999"])
def test_sample_with_a_seed_out_of_range(fails, trained, seed):
    fails("sample", trained, "--seed", seed, words=("seed: expected a whole number from 0", seed))


@pytest.mark.slow
def test_start_from_data_that_a_file_does_not_know(fails, trained):
    fails("sample", Run(trained).last, "--start", "data", words=("--start data needs a run folder",))


class Trap:
    """Unpickling this leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
@pytest.mark.slow
def test_pickle_as_a_checkpoint_is_never_loaded(fails, trained, tmp_path, reader):
    for path in (Run(trained).last, Run(trained).previous):
        path.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    fails(*on(reader, trained), words=("expected a safetensors file", "pickle"))
    for path in (Run(trained).last, Run(trained).previous):
        torch.save({"x": Trap(tmp_path / "sprung")}, path)
    fails(*on(reader, trained), words=("expected a safetensors file",))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.slow
@pytest.mark.parametrize("reader", [READERS[0], READERS[3]], ids=lambda reader: reader[0])
def test_checkpoint_of_another_machine(fails, trained, reader):
    run, other = Run(trained), hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(5))
    run.write_checkpoint(other, {"epoch": 1})
    fails(*on(reader, trained), words=("a checkpoint of another machine", "(5,)"))


@pytest.mark.slow
def test_checkpoint_without_training_state(fails, trained):
    machine = hm.load(trained)
    for path in (Run(trained).last, Run(trained).previous):
        hm.save(machine, path)
    fails("resume", trained, "--epochs", 9, words=("training state",))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
def test_not_a_run_folder(fails, tmp_path, reader):
    fails(*on(reader, tmp_path / "nothing"), words=("nothing",))


@pytest.mark.slow
def test_damaged_configuration(fails, trained):
    (trained / "config.toml").write_text("[data\n")
    fails("resume", trained, words=("config.toml", "TOML"))


@pytest.mark.slow
def test_sample_options(fails, trained, tmp_path):
    fails("sample", trained, "--start", "dat", words=("did you mean 'data'",))
    fails("sample", trained, "--out", tmp_path / "s.jpg", words=("unknown file extension",))
    fails("sample", trained, "--out", tmp_path / "none" / "s.npy", words=("folder that exists",))


# -- a full disk ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_full_disk_at_the_beginning(train, monkeypatch):
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    train(BINARY.copy(), "--no-report", words=("cannot be written", "No space left"))


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_full_disk_does_not_lose_an_evaluation(command, trained, monkeypatch, option):
    def full(self: Path, text: str, **_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_text", full)
    done = command("evaluate", trained, "--betas", 20, "--samples", 0, *option)
    assert done.status == 2 and "No space left" in done.err and "log-likelihood" in done.out + done.err


@pytest.mark.slow
def test_full_disk_later_keeps_the_last_checkpoint(command, binary, tmp_path, monkeypatch):
    written, write = [], Path.write_bytes

    def full_after_a_while(self: Path, data: bytes) -> int:
        written.append(self)
        if len(written) > 6:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_after_a_while)
    run = tmp_path / "run"
    outcome = command("train", binary, "--epochs", 50, "--batch-size", 20, "--run", run, "-q", "--no-report")
    assert outcome.status == 2 and "No space left" in outcome.err
    assert not list(run.rglob("*.tmp"))
    monkeypatch.undo()
    whole = tmp_path / "whole"
    assert command("resume", run, "-q", "--no-report").status == 0
    assert command("train", binary, "--epochs", 50, "--batch-size", 20, "--run", whole, "-q", "--no-report").status == 0
    assert torch.equal(hm.load(run).coupling.weight, hm.load(whole).coupling.weight)


def _harmonium(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "harmonium", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.slow
def test_limit_of_file_size(binary, tmp_path):
    run = tmp_path / "run"
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))  # noqa: E731
    done = _harmonium("train", binary, "--batch-size", 20, "--run", run, "-q", "--no-report", preexec_fn=limit)
    assert done.returncode == 2 and "cannot be written" in done.stderr and len(done.stderr.strip().splitlines()) <= 2
    assert not run.exists()


@pytest.mark.slow
def test_full_file_system(binary, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no mount here")
    if mounted.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    try:
        done = _harmonium(
            "train",
            binary,
            "--hidden",
            "bernoulli:2000",
            "--batch-size",
            20,
            "--run",
            disk / "run",
            "-q",
            "--no-report",
        )
        assert done.returncode == 2 and "No space left" in done.stderr
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True)


def test_options_that_collect_may_be_repeated(fails):
    fails("reproduce", "no/such", "-o", "a=1", "--option", "b=2", words=("no/such",))


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--n-epochs", "--epochs"),
        ("--weight-decay", "--penalties"),
        ("--batchsize", "--batch-size"),
        ("--learningrate", "--learning-rate"),
        ("--k", "--negative"),
        ("--n-hidden", "--hidden"),
        ("--configs", "--config"),
    ],
)
def test_unknown_options_suggest_the_one_that_was_meant(fails, option, meant):
    fails("train", "digits", option, 3, words=(option, meant))


@pytest.mark.slow
def test_a_number_of_hidden_units_and_a_short_name_of_the_learning_rate(command, binary, tmp_path):
    run = tmp_path / "run"
    options = ("--hidden", 3, "--lr", 0.125, "--epochs", 1, "--run", run, "--no-report")
    assert command("train", binary, *options).status == 0
    (tmp_path / "own.toml").write_text("[machine]\nhidden = 3\n[training]\nepochs = 1\nlearning_rate = 0.125\n")
    again = tmp_path / "again"
    assert command("train", binary, "--config", tmp_path / "own.toml", "--run", again, "--no-report").status == 0
    config = Run(run).read_config()
    assert config == Run(again).read_config()
    assert (config["machine"]["hidden"], config["training"]["learning_rate"]) == (["bernoulli:3"], 0.125)

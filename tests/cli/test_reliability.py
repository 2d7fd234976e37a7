"""The command in an unfriendly world: several writers, signals, closed pipes, damage, odd environments."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from forking import server

from harmonium.cli import main
from harmonium.errors import Diverged
from harmonium.training import Run

COMMAND = [sys.executable, "-m", "harmonium"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def long_training(binary: Path, run: Path, epochs: int = 100_000) -> list[str]:
    return [*COMMAND, "train", str(binary), "--hidden", "3", "--epochs", str(epochs), "--batch-size", "5",
            "--run", str(run), "--no-report"]  # fmt: skip


# -- one writer ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_writer_is_refused(trained, binary, command, tmp_path):
    code = f"from harmonium.locking import locked\nwith locked({str(trained)!r}): print(flush=True); input()"
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdin is not None
    started.stdout.readline()
    before = contents(trained)
    refused = command("resume", trained, "--epochs", 8, "--no-report")
    assert refused.status == 2 and "in use by another process" in refused.err
    assert command("info", trained).status == 0  # readers are not refused
    assert command("sample", trained, "-n", 2, "--sweeps", 1, "--out", tmp_path / "x.npy").status == 0
    assert contents(trained) == before
    started.communicate("\n")
    assert command("resume", trained, "--epochs", 8, "-q", "--no-report").status == 0


@pytest.mark.slow
def test_a_new_run_in_a_folder_in_use(binary, command, tmp_path):
    """The folder of a run that has not yet written anything is in use."""
    (tmp_path / "run").mkdir()
    code = f"from harmonium.locking import locked\nwith locked({str(tmp_path / 'run')!r}): print(flush=True); input()"
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    started.stdout.readline()
    refused = command("train", binary, "--epochs", 1, "--run", tmp_path / "run")
    started.communicate("\n")
    assert refused.status == 2 and "in use by another process" in refused.err
    assert not list((tmp_path / "run").iterdir())


# -- validate first, write last -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "digits"), "expected the training file of the run"),
        (("--data", "other.npy"), "expected the training file of the run"),
        (("--data", "none.npy"), "expected a file"),
        (("--epochs", 3), "expected --epochs of at least 4"),
    ],
    ids=str,
)
def test_a_failed_resume_changes_nothing(trained, command, tmp_path, options, message):
    np.save(tmp_path / "other.npy", np.ones((60, 6), np.uint8))
    options = tuple(tmp_path / word if str(word).endswith(".npy") else word for word in options)
    before = contents(trained)
    extra = () if "--epochs" in options else ("--epochs", 9)
    outcome = command("resume", trained, *options, *extra)
    assert outcome.status == 2 and message in outcome.err
    assert contents(trained) == before
    assert command("resume", trained, "--epochs", 5, "-q", "--no-report").status == 0  # it still can be resumed


@pytest.mark.slow
def test_a_failure_within_training_keeps_the_configuration(trained, command, monkeypatch):
    """The checks of the loop come before the first write, too."""
    from harmonium.training import checkpoints

    def fails(*_: object) -> None:
        raise MemoryError

    before = contents(trained)
    monkeypatch.setattr(checkpoints, "restore", fails)
    assert command("resume", trained, "--epochs", 9).status == 2
    assert contents(trained) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resume", "evaluate"])
def test_the_data_of_a_run_cannot_be_exchanged_by_name(name, command, tmp_path):
    run = tmp_path / "run"
    options = ("--epochs", 1, "--hidden", 2, "--no-report", "-q")
    assert command("train", "digits", "--run", run, *options).status == 0
    before = contents(run)
    outcome = command(name, run, "--data", "mnist", *(("--epochs", 2) if name == "resume" else ()))
    assert outcome.status == 2 and "expected the data set of the run (digits), found 'mnist'" in outcome.err
    assert contents(run) == before


@pytest.mark.slow
def test_a_moved_file_is_recorded_when_the_run_continues(trained, binary, command, tmp_path):
    moved = binary.rename(tmp_path / "moved.npy")
    assert command("resume", trained, "--epochs", 5, "--data", moved, "-q", "--no-report").status == 0
    assert Run(trained).read_config()["data"]["source"] == str(moved)
    assert Run(trained).read_config()["training"]["epochs"] == 5


# -- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_verify(trained, command):
    good = command("info", trained, "--verify")
    assert good.status == 0 and good.out.count("intact") >= 7
    snapshot = Run(trained).trajectory()[1][1]
    content = bytearray(snapshot.read_bytes())
    content[-2] ^= 1
    snapshot.write_bytes(content)
    bad = command("info", trained, "--verify")
    assert bad.status == 2 and "1 of" in bad.err and snapshot.name in bad.err and "checksum" in bad.out
    one = command("info", snapshot, "--verify")
    assert one.status == 2 and "damaged" in one.err


def test_resume_takes_the_checkpoint_before_a_damaged_one(trained, command):
    last = Run(trained).last
    content = bytearray(last.read_bytes())
    content[-2] ^= 1
    last.write_bytes(content)
    outcome = command("resume", trained, "--epochs", 6, "-q", "--no-report")
    assert outcome.status == 0 and "previous.safetensors, is used" in outcome.err, outcome.err
    assert [row["epoch"] for row in Run(trained).read_metrics()] == [1, 2, 3, 4, 5, 6]


def test_a_refused_resume_changes_nothing(trained, command, tmp_path):
    last = Run(trained).last
    last.write_bytes(last.read_bytes()[:-9])
    np.save(tmp_path / "other.npy", np.zeros((60, 6), dtype=np.uint8))
    before = contents(trained)
    refused = command("resume", trained, "--epochs", 6, "--data", tmp_path / "other.npy")
    assert refused.status == 2 and "other.npy" in refused.err
    assert contents(trained) == before


def test_a_run_that_diverges_at_once_leaves_no_files(command, tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("a,b\n" + "\n".join(f"{k % 7}.5,{k % 3}.25" for k in range(40)))

    def diverge(*_, **__):
        (tmp_path / "run" / "table.json").write_text("{}")
        raise Diverged("the weights are not finite")

    monkeypatch.setattr("harmonium.cli.running._fit", diverge)
    failed = command("train", tmp_path / "table.csv", "--run", tmp_path / "run")
    assert failed.status == 2 and "not finite" in failed.err
    assert not [path for path in (tmp_path / "run").glob("*") if path.suffix]


def test_checkpoints_that_a_user_replaces_during_training(binary, command, tmp_path, monkeypatch):
    """The rest of the run is kept."""
    run, write = tmp_path / "run", Run.write_checkpoint

    def replaced_first(self, machine, state):
        if state["epoch"] == 3:
            shutil.rmtree(run / "checkpoints")
            (run / "checkpoints").write_text("mine")
        write(self, machine, state)

    monkeypatch.setattr(Run, "write_checkpoint", replaced_first)
    outcome = command("train", binary, "--hidden", 3, "--epochs", 5, "--run", run, "--no-report", "-q")
    assert outcome.status == 2 and "cannot be written" in outcome.err
    assert (run / "checkpoints").read_text() == "mine" and Run(run).read_config()
    assert [row["epoch"] for row in Run(run).read_metrics()] == [1, 2, 3]


@pytest.mark.slow
def test_absurd_numbers_of_samples(trained, command):
    refused = command("sample", trained, "-n", "9" * 400)
    assert refused.status == 2 and "-n" in refused.err
    refused = command("evaluate", trained, "--betas", "0", "--samples", "9" * 400)
    assert refused.status == 2 and "n: expected a whole number of at most" in refused.err
    refused = command("resume", trained, "--epochs", "9" * 400)
    assert refused.status == 2 and "epochs: expected a whole number of at most" in refused.err


# -- signals and pipes ----------------------------------------------------------------------------------------------


SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_signal_stops_within_an_epoch_with_a_checkpoint(number, status, tmp_path, command):
    np.save(tmp_path / "rows.npy", (np.random.default_rng(0).random((200, 10)) < 0.4).astype(np.uint8))
    options = [tmp_path / "rows.npy", "--hidden", 8, "--batch-size", 1, "--threads", 1, "--no-report"]
    options += ["--optimizer", "adam", "--schedule", "constant"]
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    process = server().start("train", *options, "--epochs", 100_000, "--run", run.folder)
    while not run.last.exists() and process.running():
        time.sleep(0.002)
    process.signal(number)
    assert process.wait().status == status, process.err
    assert f"stopped; 'harmonium resume {run.folder}' continues" in process.err and "Traceback" not in process.err
    assert command("info", run.folder).status == 0
    epochs = run.read_state()[1]["epoch"] + 1  # to the end of the epoch that was stopped
    assert command("resume", run.folder, "--epochs", epochs, "-q", "--no-report").status == 0
    assert command("train", *options, "--epochs", epochs, "-q", "--run", whole.folder).status == 0
    assert run.last.read_bytes() == whole.last.read_bytes()


@pytest.mark.slow
def test_a_closed_pipe_does_not_end_the_training(binary, tmp_path):
    words = long_training(binary, tmp_path / "run", epochs=5)[len(COMMAND) :]
    process = server().start(*words, closed_output=True)
    assert process.wait().status == 0 and "Traceback" not in process.err and "Broken" not in process.err
    assert len(Run(tmp_path / "run").read_metrics()) == 5


def test_a_closed_pipe_at_the_end_of_a_process():
    """Python itself complains if it cannot write what is left when it exits."""
    process = subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait() == 0 and err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_on_a_full_disk(monkeypatch, capsys):
    """A command whose output is lost says so, and does not end with status 0."""
    for words, status in ((["data", "list"], 1), (["no-such-command"], 2)):
        with Path("/dev/full").open("w") as full:
            monkeypatch.setattr(sys, "stdout", full)
            with pytest.raises(SystemExit) as stop:
                main(words)
            assert stop.value.code == status
        lost = "error: the output could not be written: No space left on device\n"
        assert (lost == capsys.readouterr().err) == (status == 1)


# -- odd environments -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_in_a_narrow_encoding(trained, encoding, monkeypatch):
    monkeypatch.chdir(trained.parent)
    for words in (["info", "run"], ["data", "list"]):
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
        with pytest.raises(SystemExit) as stop:
            main(words)
        sys.stdout.flush()
        assert not stop.value.code and written.getvalue().decode(encoding)


@pytest.mark.slow
def test_a_process_with_a_narrow_encoding():
    found = subprocess.run(
        [*COMMAND, "train", "--help"], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False
    )
    assert found.returncode == 0 and found.stdout and not found.stderr  # typer writes the help as UTF-8 in any case


def test_without_a_home_folder(command, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HARMONIUM_DATA", "~nosuchuser/data")
    found = command("data", "list")
    assert found.status == 2 and "nosuchuser" in found.err and "Traceback" not in found.err


@pytest.mark.slow
def test_a_user_without_a_home(command, monkeypatch):
    """As in a container whose user is not in the list of users: nothing tells where the cache is."""
    for name in ("HOME", "XDG_CACHE_HOME", "HARMONIUM_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert command("data", "list").status == 0
    found = command("train", "~/rows.npy")
    assert found.status == 2 and "home" in found.err


@pytest.mark.slow
def test_a_narrow_terminal(trained, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    for words in (["info", trained], ["data", "list"], ["train", "--help"]):
        assert command(*words).status == 0


@pytest.mark.parametrize(("owner", "function"), [(Path, "mkdir"), (os, "open")], ids=["mkdir", "open"])
def test_a_folder_that_cannot_be_written(owner, function, binary, command, tmp_path, monkeypatch):
    """As in a read-only folder; the tests may run as a user for whom there is none."""
    run, plain = tmp_path / "run", getattr(owner, function)

    def fails(path: object, *arguments: object, **options: object) -> object:
        if str(path).startswith(str(run)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return plain(path, *arguments, **options)

    before = contents(tmp_path)
    monkeypatch.setattr(owner, function, fails)
    outcome = command("train", binary, "--epochs", 1, "--run", run, "--no-report")
    monkeypatch.undo()
    assert outcome.status == 2 and outcome.err == f"error: {run}: cannot be written (Read-only file system)\n"
    assert contents(tmp_path) == before


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["~nosuchuser/rows.npy", "loop.npy", "x" * 3000 + ".npy"])
def test_paths_that_cannot_be(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop.npy").symlink_to("loop.npy")
    outcome = command("train", name, "--epochs", 1)
    assert outcome.status == 2 and "Traceback" not in outcome.err and len(outcome.err.splitlines()) <= 2
    outcome = command("train", "digits", "--epochs", 1, "--run", name)
    assert outcome.status == 2 and "Traceback" not in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["~nosuchuser/x", "loop", "x" * 3000])
def test_paths_of_other_commands_that_cannot_be(name, trained, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    before = contents(trained)
    lines = [[command_name, name] for command_name in ("info", "resume", "sample", "evaluate", "report")]
    lines += [["train", "--config", name], ["sample", trained, "-n", 2, "--sweeps", 1, "--out", f"{name}/x.npy"]]
    lines += [["evaluate", trained, "--data", f"{name}.npy"], ["impute", trained, f"{name}.csv"]]
    for words in lines:
        outcome = command(*words)
        assert outcome.status == 2 and len(outcome.err) < 4500 and "Traceback" not in outcome.err, (words, outcome.err)
    assert contents(trained) == before


@pytest.mark.slow
def test_a_data_file_behind_a_link(binary, command, tmp_path):
    (tmp_path / "link.npy").symlink_to(binary)
    assert (
        command("train", tmp_path / "link.npy", "--epochs", 1, "--run", tmp_path / "run", "-q", "--no-report").status
        == 0
    )
    assert Run(tmp_path / "run").read_config()["data"]["source"] == str(binary)


# -- numbers that are too large, files of another form ----------------------------------------------------------------


@pytest.mark.parametrize("threads", [10**6, 10**9])
def test_too_many_threads(binary, command, tmp_path, threads):
    outcome = command("train", binary, "--threads", threads, "--run", tmp_path / "run")
    assert outcome.status == 2 and "threads: expected at most" in outcome.err


@pytest.mark.parametrize("device", ["hpu", "meta", "xla", "nonsense"])
def test_devices_that_are_not_there(binary, command, tmp_path, device):
    outcome = command("train", binary, "--device", device, "--run", tmp_path / "run")
    assert outcome.status == 2 and "device: expected an available device" in outcome.err


@pytest.mark.parametrize(
    "text",
    ["seed = " + "9" * 5000, "training = 3", "[training]\nepochs = 'x'"],
    ids=["digits", "table", "text"],
)
def test_hostile_configurations(text, command, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    outcome = command("train", "--config", tmp_path / "c.toml")
    assert outcome.status == 2 and len(outcome.err) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("text", ["training = 3", "data = []", "[training]\nepochs = '<script>alert(1)</script>'"])
def test_edited_configurations(trained, command, text):
    Run(trained).config_path.write_text(text)
    for name in ("info", "resume", "report", "evaluate"):
        outcome = command(name, trained)
        assert outcome.status in (0, 2) and "Traceback" not in outcome.err


@pytest.mark.slow
def test_infinite_seconds(trained, command):
    path = Run(trained).metrics_path
    lines = path.read_text().splitlines()
    at = lines[0].split(",").index("seconds")
    cells = lines[-1].split(",")
    cells[at] = "inf"
    path.write_text("\n".join([*lines[:-1], ",".join(cells)]) + "\n")
    assert command("info", trained).status == 0
    assert command("resume", trained, "--epochs", 5, "--no-report").status == 0


@pytest.mark.slow
def test_values_on_the_page_are_escaped(trained, command):
    """Whatever is written into the configuration is shown as text; a policy forbids scripts in any case."""
    config = Run(trained).read_config()
    config["training"]["schedule"] = "<img src=x onerror=alert(1)>"
    config["data"]["source"] = '"><script>alert(2)</script>'
    config["training"]["epochs"] = "<script>alert(3)</script>"
    from harmonium import report

    Run(trained).write_config(config)
    rows = np.load(trained.parent / "binary.npy")
    text = report.write(trained, data=torch.tensor(rows).float(), test_name="<b>test").read_text()
    assert "alert(3)" in text and "<script" not in text and "<img src=x" not in text and "<b>test" not in text
    assert "Content-Security-Policy" in text and "default-src &#x27;none&#x27;" in text.replace("'", "&#x27;")


def test_control_characters_do_not_reach_the_terminal(command, tmp_path):
    """A name in a file of a stranger could move the cursor, change the title of the window or hide text."""
    names = "a\x1b[31mRED,b\x1b]0;owned\x07"
    rows = "".join(f"{k / 7},x\x9b2J{k % 2}\n" for k in range(40))
    (tmp_path / "rows.csv").write_text(f"{names}\n{rows}", encoding="utf-8")
    words = ("train", tmp_path / "rows.csv", "--hidden", 2, "--epochs", 2, "--run", tmp_path / "run", "--no-report")
    shown = [command(*words), command("info", tmp_path / "run"), command("train", "no\x1b[31mdata")]
    assert [outcome.status for outcome in shown] == [0, 0, 2]
    assert "a\\x1b[31mRED" in shown[0].out and "no\\x1b[31mdata" in shown[2].err
    for text in (part for outcome in shown for part in (outcome.out, outcome.err)):
        assert not set("\x07\x1b\x9b") & set(text)


@pytest.mark.slow
def test_one_process_of_a_host_reports_a_common_error(command, monkeypatch):
    """Under ``torchrun`` every process finds a mistake in the options; only the first one prints it."""
    assert "did you mean 'digits'" in command("train", "digitz").err
    monkeypatch.setenv("LOCAL_RANK", "1")
    again = command("train", "digitz")
    assert (again.status, again.err) == (2, "")


@pytest.mark.slow
def test_leftovers_of_figures_are_removed(trained, command):
    left = [trained / ".spectrum.png.abc.tmp", trained / ".report.html.x.tmp"]
    for path in left:
        path.write_text("half")
    assert command("resume", trained, "--epochs", 5, "-q", "--no-report").status == 0
    assert not any(path.exists() for path in left)


# -- long commands ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reproduce_continues_after_a_kill(monkeypatch, tmp_path):
    """A killed training of mnist/500 is resumed by the same command, not refused or repeated."""
    import experiments.mnist_500 as module
    from experiments.record import Record

    called = []
    monkeypatch.setattr(module.runs, "train", lambda setup, run, **options: called.append(options["resume"]) or 1 / 0)
    monkeypatch.setattr(module.setup, "prepare", _digits_as_mnist(module))
    record = Record("mnist/500", "quick", tmp_path)
    (tmp_path / "stochastic").mkdir()
    for expected in (False, True):
        with pytest.raises(ZeroDivisionError):
            module.run(record, "quick", epochs=1, binarize="stochastic")
        assert called.pop() is expected
        Run(tmp_path / "stochastic").write_config({})


def _digits_as_mnist(module):
    plain = module.setup.prepare

    def prepare(config):
        config.data.source, config.machine.hidden = "digits", "bernoulli:2"
        ready = plain(config)
        ready.rows.train.rows = lambda index, machine: machine.sample(10, sweeps=1, seed=0)
        return ready

    return prepare

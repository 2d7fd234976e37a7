"""Deep machines and stacks on the command line: train, resume, evaluate, sample, describe and report."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import files
from harmonium.report.configuration import command as words_of
from harmonium.training import Run
from harmonium.training.loop import Training

LAYERS = ("--hidden", 4, "--hidden", "spin:3")
SHORT = ("--batch-size", 20, "--validation", 0.2, "--quiet", "--no-report")
#: options of each way to train a deep machine
KINDS = {
    "dbm": ("--epochs", 2, "--pretrain", 1),
    "greedy": ("--machine", "dbn", "--pretrain", 2),
    "joint": ("--machine", "dbn", "--epochs", 2, "--inputs", "means"),
}


@pytest.fixture
def deep(binary: Path, tmp_path: Path, command):
    """Train a deep machine of a kind on the binary rows and return its folder."""

    def run(kind: str, name: str = "deep", *options: object) -> Path:
        outcome = command("train", binary, *LAYERS, *SHORT, *KINDS[kind], *options, "--run", tmp_path / name)
        assert outcome.status == 0, outcome.err
        return tmp_path / name

    return run


def contents(folder: Path) -> dict[str, bytes]:
    """All checkpoints of a run and of the runs in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.safetensors")}


def watched(folder: Path) -> list[dict[str, float]]:
    """The metrics except times."""
    rows = Run(folder).read_metrics()
    return [{k: v for k, v in row.items() if k not in ("seconds", "samples_per_second")} for row in rows]


@pytest.mark.slow
def test_configuration_of_a_deep_machine(deep, command, tmp_path):
    folder = deep("dbm")
    config = Run(folder).read_config()
    assert config["machine"]["machine"] == "dbm"
    assert config["machine"]["hidden"] == ["bernoulli:4", "spin:3"]
    assert (config["training"]["negative"]["name"], config["training"]["pretrain"]) == ("deep-pcd", 1)
    machine = hm.load(folder)
    assert isinstance(machine, hm.DeepBoltzmannMachine)
    assert [unit.name() for unit in machine.layers] == ["bernoulli", "bernoulli", "spin"]
    # the configuration and the command in the report repeat the run
    for name, words in {
        "file": ["train", "--config", folder / "config.toml"],
        "words": shlex.split(words_of(config))[1:],
    }.items():
        assert command(*words, "--run", tmp_path / name, "-q", "--no-report").status == 0
        assert contents(tmp_path / name) == contents(folder)
        assert Run(tmp_path / name).read_config() == config


def test_a_file_may_list_numbers_of_units(command, binary, tmp_path):
    (tmp_path / "own.toml").write_text("[machine]\nhidden = [4, 3]\n[training]\nepochs = 1\npretrain = 0\n")
    run = tmp_path / "run"
    assert command("train", binary, "--config", tmp_path / "own.toml", "--run", run, "-q", "--no-report").status == 0
    assert Run(run).read_config()["machine"]["hidden"] == ["bernoulli:4", "bernoulli:3"]
    assert not list(run.glob("machine-*"))


@pytest.mark.slow
def test_the_first_stage_is_the_training_of_an_rbm(deep, binary, tmp_path, command):
    """Pretraining continues from what `harmonium train` of the first two layers gives."""
    folder, one = deep("dbm"), tmp_path / "one"
    options = ("--batch-size", 20, "--validation", 0.2, "--optimizer", "sgd", "-q", "--no-report")
    assert command("train", binary, "--hidden", 4, "--epochs", 1, *options, "--run", one).status == 0
    ours, theirs = hm.load(folder / "machine-1"), hm.load(one)
    assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.hidden.bias, theirs.hidden.bias)
    start = Run(folder).machines()[0.0]
    assert torch.equal(start.couplings[0].weight, theirs.weight)
    assert torch.equal(start.couplings[1].weight, hm.load(folder / "machine-2").weight)


@pytest.mark.slow
def test_greedy_training_gathers_its_machines(deep):
    folder = deep("greedy")
    network = hm.load(folder)
    assert isinstance(network, hm.DeepBeliefNetwork) and network.inputs == "samples"
    for k, machine in enumerate(network.machines):
        expected = hm.load(folder / f"machine-{k + 1}").state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in machine.state_dict().items())
    first = Run(folder / "machine-1").machines()
    assert sorted(Run(folder).machines()) == sorted(first) == [0.0, 1.0, 2.0]
    assert torch.equal(Run(folder).machines()[1.0].couplings[0].weight, first[1.0].weight)
    last = watched(folder)[-1]
    assert last["reconstruction_1"] == watched(folder / "machine-1")[-1]["reconstruction"]
    assert last["reconstruction_2"] == watched(folder / "machine-2")[-1]["reconstruction"]


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["dbm", "dbn"])
def test_layers_of_feature_maps(machine, command, tmp_path):
    layers = ("--hidden", "bernoulli:3,kernel=3,stride=1", "--hidden", "bernoulli:2,kernel=2,stride=2", "--hidden", 5)
    words = ("train", "digits", "--machine", machine, *layers, "--epochs", 1, "--quiet", "--no-report")
    outcome = command(*words, "--run", tmp_path / "run")
    assert outcome.status == 0, outcome.err
    assert [tuple(unit.shape) for unit in hm.load(tmp_path / "run").layers] == [(1, 8, 8), (3, 6, 6), (2, 3, 3), (5,)]
    assert command("resume", tmp_path / "run").status == 0
    assert command("sample", tmp_path / "run", "-n", 3, "--sweeps", 2).status == 0
    assert np.load(tmp_path / "run" / "samples.npy").shape == (3, 1, 8, 8)
    table = command("evaluate", tmp_path / "run", "--betas", 0)
    assert table.status == 0 and "reconstruction error" in table.out


@pytest.mark.slow
def test_pooled_layers_in_a_stack(command, tmp_path):
    words = ("train", "digits", "--machine", "dbn", "--hidden", "bernoulli:2,kernel=3,pool=2", "--hidden", 5)
    run = tmp_path / "run"
    assert command(*words, "--epochs", 1, "--quiet", "--no-report", "--run", run).status == 0
    assert hm.load(run).machines[1].visible.shape == (2, 3, 3)
    table = command("evaluate", run, "--betas", 0)
    assert table.status == 0 and "log-likelihood bound" in table.out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_resumes_after_an_interrupt_in_any_epoch(kind, deep, binary, command, tmp_path, monkeypatch):
    """Every epoch of every stage is interrupted once; each run then ends as the uninterrupted one."""
    whole = deep(kind, "whole")
    one_epoch, options = Training.one_epoch, ("--quiet", "--no-report")
    epochs = 0
    while True:
        run, left = tmp_path / f"run-{epochs}", iter(range(epochs))

        def interrupted(self, bar=None, stopping=None, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            one_epoch(self, bar, stopping)

        monkeypatch.setattr(Training, "one_epoch", interrupted)
        outcome = command("train", binary, *LAYERS, *SHORT, *KINDS[kind], "--run", run)
        monkeypatch.setattr(Training, "one_epoch", one_epoch)
        if outcome.status == 0:
            break
        assert outcome.status == 130 and "resume" in outcome.err
        assert command("info", run).status == 0
        resumed = command("resume", run, *options)
        assert resumed.status == 0, resumed.err
        assert contents(run) == contents(whole)
        assert watched(run) == watched(whole)
        epochs += 1
    assert epochs == {"dbm": 4, "greedy": 4, "joint": 2}[kind]


@pytest.mark.slow
def test_resume_extends_joint_training_only(deep, command):
    folder = deep("dbm")
    assert command("resume", folder, "--epochs", 3, "-q", "--no-report").status == 0
    assert len(watched(folder)) == 3
    greedy = deep("greedy", "greedy")
    outcome = command("resume", greedy, "--epochs", 3)
    assert outcome.status == 2 and "cannot be extended" in outcome.err and len(outcome.err.splitlines()) == 1
    assert "nothing to resume" in command("resume", greedy).out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_commands_on_a_deep_machine(kind, deep, command, tmp_path):
    folder = deep(kind)
    shown = command("info", folder).out
    name = "DeepBoltzmannMachine" if kind == "dbm" else "DeepBeliefNetwork"
    assert f"{name} bernoulli:6 – bernoulli:4 – spin:3" in shown and "epochs done: 2 of 2 (finished)" in shown
    assert ("machine-2, epochs done" in shown) == (kind != "joint")
    assert "machine.hidden: bernoulli:4 – spin:3" in shown
    out = tmp_path / "samples.npy"
    assert command("sample", folder, "-n", 5, "--sweeps", 10, "--out", out).status == 0
    assert np.load(out).shape == (5, 6)
    assert command("sample", folder, "-n", 5, "--sweeps", 1, "--start", "data", "--out", out).status == 0
    table = command("evaluate", folder, "--betas", 20).out
    if kind == "dbm":  # few hidden states
        assert "log-likelihood, exact" in table
    else:
        assert "log-likelihood bound, exact ln Z" in table and "log-likelihood bound, annealed" in table
    assert "pseudo" not in table
    assert command("spectrum", folder, "--layer", 1).status == 0
    outcome = command("spectrum", folder, "--layer", 2)
    assert outcome.status == 2 and "layer: expected 0 to 1, found 2" in outcome.err
    outcome = command("interactions", folder)
    assert outcome.status == 2 and "expected an RBM" in outcome.err and len(outcome.err.splitlines()) == 1


@pytest.mark.slow
def test_mean_field_commands_expect_a_boltzmann_machine(deep, command):
    machine, network = deep("dbm", "dbm"), deep("joint", "dbn")
    for words in (("landscape", "-n", 5), ("denoise", "-n", 5, "--levels", 0.1)):
        name, *options = words
        assert command(name, machine, *options).status == 0
        outcome = command(name, network, *options)
        assert outcome.status == 2 and "expected a Boltzmann machine, found DeepBeliefNetwork" in outcome.err
        assert len(outcome.err.splitlines()) == 1


# -- wrong input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--machine", "rbm", *LAYERS), "machine: rbm expects one hidden layer, found 2"),
        (("--machine", "dbm", "--hidden", 4), "machine: dbm expects two or more hidden layers, found 1"),
        (("--machine", "dbn", "--hidden", 4), "machine: dbn expects two or more hidden layers, found 1"),
        (("--machine", "dnb", *LAYERS), "unknown machine 'dnb': did you mean 'dbn'"),
        ((*LAYERS, "--hidden", "bernouli:3"), "unknown unit 'bernouli'"),
        ((*LAYERS, "--hidden", "bernoulli"), "expected a number of units"),
        (("--hidden", 4, "--pretrain", 2), "pretrain: expected 0 for a machine with one hidden layer, found 2"),
        ((*LAYERS, "--pretrain", -1), "pretrain: expected at least 0, found -1"),
        (("--hidden", 9, "--hidden", "bernoulli:8,kernel=3"), "layer 2 (bernoulli:8,kernel=3): conv2d: expected"),
        (
            ("--hidden", 4, "--hidden", "multinary:3,levels=5,scale=0.3,form=integral"),
            "layer 2: multinary: exact draws in form='integral' expect a sigmoid and an integer levels/scale",
        ),
        ((*LAYERS, "--inputs", "means"), "inputs: expected --machine dbn, found dbm"),
        ((*LAYERS, "--negative", "pcd:1"), "PCD expects an RBM (two layers), found DeepBoltzmannMachine"),
        ((*LAYERS, "--negative", "deep-pcd:1,iteration=3"), "did you mean 'iterations'"),
        (("--hidden", "gaussian:3", "--hidden", "poisson:3"), "no finite partition function"),
    ],
)
def test_wrong_input_gives_one_sentence(command, binary, tmp_path, options, words):
    run = tmp_path / "run"
    outcome = command("train", binary, "--epochs", 1, "--batch-size", 20, *options, "--run", run)
    assert outcome.status == 2 and words in outcome.err, outcome.err
    assert len(outcome.err.strip().splitlines()) == 1 and "Traceback" not in outcome.err
    assert not run.exists()


@pytest.mark.parametrize("value", ["[]", "[1.5]", "true", '[["a"]]'])
def test_wrong_lists_in_a_file(command, binary, tmp_path, value):
    (tmp_path / "own.toml").write_text(f"[machine]\nhidden = {value}\n")
    outcome = command("train", binary, "--config", tmp_path / "own.toml", "--run", tmp_path / "run")
    assert outcome.status == 2 and "[machine]: hidden" in outcome.err and len(outcome.err.splitlines()) == 1


@pytest.mark.slow
def test_a_finished_pretraining_is_kept_if_the_joint_training_fails(command, binary, tmp_path, monkeypatch):
    one_epoch = Training.one_epoch

    def broken(self, bar=None, stopping=None):
        if not isinstance(self.machine, hm.RBM):
            raise hm.errors.Diverged("not this time")
        one_epoch(self, bar, stopping)

    monkeypatch.setattr(Training, "one_epoch", broken)
    run = tmp_path / "run"
    outcome = command("train", binary, *LAYERS, *SHORT, *KINDS["dbm"], "--run", run)
    assert outcome.status == 2 and "not this time" in outcome.err
    assert files.load(run / "machine-2").visible.size == 4

"""Convolutional hidden layers on the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import files
from harmonium.errors import InvalidOption
from harmonium.machines import layout as specs
from harmonium.runs import machine_of, reopen, rows
from harmonium.runs.config import Config, DataOptions, MachineOptions
from harmonium.training import Run
from harmonium.units import Bernoulli, Multinary


def train(command, run: Path, *options: object, data: object = "digits", epochs: int = 1) -> None:
    done = command(
        "train", data, "--run", run, "--epochs", epochs, "--batch-size", 500, "--threads", 1, "--quiet", "--no-report",
        *options,
    )  # fmt: skip
    assert done.status == 0, done.err


@pytest.mark.parametrize("hidden", ["bernoulli:4,kernel=3", "bernoulli:4,kernel=3,pool=2,biases=position"])
@pytest.mark.slow
def test_a_run_from_start_to_end(command, tmp_path: Path, hidden: str) -> None:
    run, rows = tmp_path / "run", tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(0).integers(0, 2, (60, 36)))
    # the default schedule depends on the number of epochs
    options = ("--hidden", hidden, "--schedule", "constant", "--image", "6x6")
    train(command, run, *options, data=rows, epochs=2)
    written = tomllib.loads((run / "config.toml").read_text())["machine"]
    assert (written["visible"], written["hidden"]) == ("bernoulli:1x6x6", [hidden])
    assert command("evaluate", run, "--betas", 50).status == 0
    assert command("sample", run, "-n", 3, "--sweeps", 5).status == 0
    assert np.load(run / "samples.npy").shape == (3, 1, 6, 6)
    assert command("report", run).status == 0
    assert "Kernels" in (run / "report.html").read_text()
    # two epochs and one more are the same as three
    assert command("resume", run, "--epochs", 3, "--quiet", "--no-report").status == 0
    train(command, tmp_path / "whole", *options, data=rows, epochs=3)
    one, two = (files.read_tensors(Run(folder).last)[0] for folder in (run, tmp_path / "whole"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_rows_of_a_file_take_the_shape_of_the_image(command, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2, (40, 30))
    np.save(tmp_path / "rows.npy", values)
    run = tmp_path / "run"
    train(command, run, "--image", "5x6", "--hidden", "bernoulli:2,kernel=2", data=tmp_path / "rows.npy")
    setup = reopen(run)
    assert setup.machine.visible.shape == (1, 5, 6)
    torch.testing.assert_close(
        setup.rows.train.rows(torch.arange(2), setup.machine), torch.tensor(values[:2]).float().view(2, 1, 5, 6)
    )
    failed = command("train", tmp_path / "rows.npy", "--hidden", "bernoulli:2,kernel=2", "--run", tmp_path / "no")
    assert failed.status == 2
    assert "expects rows that are images; give their shape, as in --image 1x28x28" in failed.err


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        (
            "bernoulli:4,kernel=3,stride=2",
            "layer 1 (bernoulli:4,kernel=3,stride=2): conv2d: expected kernels that cover",
        ),
        ("bernoulli:4,stride=2", "expected the size of the kernels, as in kernel=5, with stride"),
        ("bernoulli:4x4,kernel=3", "expected a number of feature maps"),
        ("bernoulli:4,kernel=three", "kernel: expected a whole number, found 'three'"),
        ("bernoulli:4,kernel=3,biases=all", "unknown kind of biases 'all'"),
        ("spin:4,kernel=3,pool=2", "expected bernoulli units for pool=2, found Spin"),
        ("bernoulli:4,kernel=3+spin:2", "expected one type of units with a kernel"),
        ("bernoulli:4,shared=a", "shared: expected dimensions such as 1/2, found 'a'"),
    ],
)
def test_errors(command, tmp_path: Path, hidden: str, words: str) -> None:
    failed = command("train", "digits", "--hidden", hidden, "--run", tmp_path / "run")
    assert failed.status == 2
    assert words in " ".join(failed.err.split())


def test_visible_units_have_no_kernel() -> None:
    with pytest.raises(InvalidOption, match="only hidden layers have feature maps"):
        specs.layer(specs.parse_layer("bernoulli:4,kernel=3"))


def test_stage() -> None:
    text = "multinary:3,levels=4,scale=0.5,kernel=2,stride=2,padding=1"
    parts = specs.parse_hidden(text)
    assert str(parts[0]) == text
    unit, coupling = specs.stage(parts, Bernoulli((2, 6, 4)))
    assert isinstance(unit, Multinary)
    assert unit.shape == (3, 4, 3) == coupling.upper
    assert specs.stage(specs.parse_hidden("7"), Bernoulli(3))[1] is None
    shared = specs.layer(specs.parse_layer("bernoulli:2x3,shared=1"))
    assert shared.bias.shape == (2, 1)


@pytest.mark.parametrize(
    ("preset", "image", "shapes"),
    [
        (
            "multinary-faces",
            (3, 64, 64),
            [(64, 32, 32), (128, 16, 16), (256, 8, 8), (256, 4, 4), (1000,), (500,), (200,), (100,)],
        ),
        ("multinary-mnist", (1, 28, 28), [(64, 14, 14), (128, 7, 7), (512, 3, 3)]),
        ("multinary-cifar10", (3, 32, 32), [(64, 16, 16), (128, 8, 8), (256, 4, 4)]),
        ("multinary-silhouettes", (1, 28, 28), [(32, 14, 14), (64, 7, 7), (128, 3, 3)]),
    ],
)
def test_the_networks_of_presets(preset: str, image: tuple[int, ...], shapes: list[tuple[int, ...]]) -> None:
    network = machine_of(preset, image)
    assert isinstance(network, hm.DeepBeliefNetwork)
    assert [tuple(layer.shape) for layer in network.layers] == [image, *shapes]
    assert {layer.levels for layer in network.layers} == {255} and network.inputs == "means"


def test_presets_without_a_machine_or_with_other_images() -> None:
    with pytest.raises(InvalidOption, match="expected one with visible units, found 'best'"):
        machine_of("best", (1, 28, 28))
    with pytest.raises(InvalidOption, match=r"multinary-face: expected a file, found no file.*multinary-faces"):
        machine_of("multinary-face", (3, 64, 64))
    with pytest.raises(InvalidOption, match=r"^layer 4 \(multinary:256.*does not fit into \(256, 1, 1\)"):
        machine_of("multinary-faces", (3, 8, 8))
    with pytest.raises(InvalidOption, match=r"^layer 1 \(multinary:64.*expected a lower layer \(channels"):
        machine_of("multinary-mnist", (784,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_a_preset_trains_in_python() -> None:
    network = machine_of("multinary-silhouettes", (1, 8, 8))
    data = (hm.data.load("digits", flatten=False)[:100].reshape(100, 1, 8, 8) * 255).round()
    result = hm.fit(network, data, plan="multinary-silhouettes", epochs=2, seed=0, progress=False)
    assert result.history[-1]["reconstruction_1"] < result.history[0]["reconstruction_1"]


@pytest.mark.slow
def test_gray_values_are_scaled_to_the_levels() -> None:
    for visible, largest in (("multinary,levels=255,form=integral", 255), ("binomial,trials=16", 16), ("gaussian", 1)):
        config = Config(
            data=DataOptions(source="digits"), machine=MachineOptions(visible=visible), training=hm.Plan(seed=0)
        )
        found = rows.load(config)
        values = found.train.rows(torch.arange(100), hm.RBM(specs.layer(found.visible), 2))
        gray = hm.data.load("digits")[:100]
        assert torch.equal(values.flatten(1), gray if largest == 1 else (gray * largest).round())


@pytest.mark.slow
def test_a_preset_with_levels_learns(command, tmp_path: Path) -> None:
    units = "levels=255,form=integral"
    layers = ("--hidden", f"multinary:4,{units},kernel=4,stride=2,padding=1", "--hidden", f"multinary:6,{units}")
    run = tmp_path / "run"
    train(command, run, "--config", "multinary-silhouettes", *layers, epochs=60)
    for column in ("reconstruction_1", "reconstruction_2"):
        values = [row[column] for row in Run(run).read_metrics()]
        assert values[-1] < 0.9 * values[0]

"""The experiments with multinary units on small settings, and their parts."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from experiments import Record
from experiments.differentiable import faces, fig1, fig2, figA1, greedy_joint, table1, table2, trained
from experiments.differentiable.contrast import normalized
from experiments.differentiable.networks import (
    Architecture,
    Sparse,
    Window,
    build,
    equalized,
    groups,
    initialize,
    rewindowed,
)
from experiments.differentiable.svm import Standardized, train
from experiments.judging import Measured
from harmonium.training import Reconstruction, fit
from harmonium.training.negative import Batch

SMALL = Architecture((4, 6), (5,))


def network(levels: int, seed: int = 0):
    made = build((1, 8, 8), SMALL, levels)
    initialize(made, trained.states(pictures(20), levels), 2.0, activity=0.2, seed=seed)
    return made


def pictures(n: int, channels: int = 1, size: int = 8) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, channels, size, size), generator=draw, dtype=torch.uint8)


def test_levels_only_rescale_a_network_of_means():
    """With means, N = 255 and N = 1 are one model: the same features, gradients and learning rates."""
    images, found = pictures(40), {}
    for levels in (1, 255):
        made, phase, data = network(levels).double(), Reconstruction(1), trained.states(images, levels).double()
        for machine in made.machines:  # the initial visible biases depend on N through a pseudocount
            machine.visible.bias.data.zero_()
        with torch.no_grad():
            first, source = made.machines[0], torch.Generator()
            phase.step(first, Batch(data), phase.init(first, data, source), source)[0].write()
            rate = groups(made, 0.01)[0]["lr"]
            weight = made.couplings[0].weight
            found[levels] = made.features(data) / levels, weight.grad / levels**2, weight * levels, rate * levels
    for one, many in zip(found[1], found[255], strict=True):
        torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-6)  # the initial values are float32


def test_sparse_units_reach_the_target():
    made = build((1, 8, 8), Architecture((4,)), 255)
    images = pictures(64)
    initialize(made, trained.states(images, 255), 2.0, seed=0)
    options = {"penalties": [Sparse(target=0.1)], "centered": False, "initialize": "keep", "progress": False}
    before = made.features(trained.states(images, 255)).mean() / 255
    adam = torch.optim.Adam(groups(made, 0.1))
    fit(made, images, negative=Reconstruction(1), epochs=100, batch_size=64, optimizer=adam, **options)
    after = made.features(trained.states(images, 255)).mean() / 255
    assert abs(after - 0.1) < 0.05 < abs(before - 0.1)


def test_the_support_vector_machine_is_the_minimum():
    """The gradient is zero, and the classes are separated where they can be."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 3
    x = torch.nn.functional.one_hot(y, 3).double() + 0.3 * torch.randn(60, 3, generator=draw, dtype=torch.float64)
    found = train(x, y, 50.0, classes=3, iterations=500)
    assert (found.predict(x) == y).double().mean() > 0.9
    scale = 1 / (x.std(0) * 3**0.5)
    weight = (found.weight / scale[:, None]).requires_grad_()
    offset = found.offset + x.mean(0) @ found.weight
    sign = 2 * torch.nn.functional.one_hot(y, 3).double() - 1
    hinge = (1 - sign * (((x - x.mean(0)) * scale) @ weight + offset)).clamp(min=0)
    (weight.square().sum() / 2 + 50 * hinge.square().sum() / 60).backward()
    assert weight.grad.abs().max() < 1e-2 * weight.abs().max()


def test_verdicts_of_classification():
    few, many = np.zeros(1000), np.zeros(1000)
    few[:10], many[:40] = 1, 1
    assert table1.judge_lower(few, many) is True
    assert table1.judge_lower(many, few) is False
    assert table1.judge_lower(few, few) is None or table1.judge_lower(few, few) is False
    assert table1.judge_reached(few, 10.0) is True
    assert table1.judge_reached(many, 1.0) is False
    assert table1.judge_reached(few, 1.0) is None


def test_verdicts_of_faces():
    draw = np.random.default_rng(0)
    near, far = 10 + draw.normal(size=50), 20 + draw.normal(size=50)
    assert fig1.judge_variety(far, far, far, far) is True
    assert fig1.judge_variety(near / 2, far, far, far) is False  # all the same
    assert fig1.judge_variety(far, far, near / 2, far) is False  # copies
    assert fig2.judge_less(near, far) is True
    assert fig2.judge_less(far, near) is False
    assert figA1.judge_blurred(far, near) is True
    assert figA1.judge_blurred(near, far) is False
    assert table2.judge_nearer(Measured(1.0, 0.1), Measured(3.0, 0.1)) is True
    assert greedy_joint.judge_every([far, -far]) is False


def test_windows_and_blocks_of_features():
    """Kernels of other sizes, and features that are means over blocks of a map."""
    made = build((1, 8, 8), Architecture((4, 6), windows=(Window(3, 1, 1),)), 255)
    assert [tuple(machine.hidden.shape) for machine in made.machines] == [(4, 8, 8), (6, 4, 4)]
    images = pictures(20)
    initialize(made, trained.states(images, 255), 2.0, seed=0)
    every = trained.features(made, images, 255).reshape(20, 6, 2, 2, 2, 2)
    torch.testing.assert_close(trained.features(made, images, 255, pool=2), every.mean((3, 5)).flatten(1))


def test_equal_inputs_leave_only_the_directions_of_kernels():
    """Factors of the weights and shifts of the biases do not change the features, and all inputs have one size."""
    images, window = pictures(50), Window(4, 1, 2)
    made = build((1, 8, 8), Architecture((5,)), 255)
    initialize(made, trained.states(images, 255), 2.0, seed=0)
    other = copy.deepcopy(made)
    with torch.no_grad():
        other.top.coupling.weight.mul_(torch.tensor([0.1, 1.0, 3.0, 7.0, 20.0])[:, None, None, None])
        other.top.hidden.bias.add_(1.5)
    data, found = trained.states(images, 255), []
    for network in (made, other):
        encoder = equalized(rewindowed(network, window), data, 2.5, 0.2)
        assert encoder.top.hidden.shape == (5, 9, 9)
        inputs = encoder.top.coupling.up(data) + encoder.top.hidden.bias
        for part in inputs.transpose(0, 1).flatten(1):
            assert part.std().item() == pytest.approx(2.5, rel=1e-3)
            assert part.mean().sigmoid().item() == pytest.approx(0.2, rel=1e-3)
        found.append(encoder.features(data))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-3)
    kernels = rewindowed(made, window).top.coupling.weight
    assert torch.equal(kernels, made.top.coupling.weight)  # the network itself is not changed


def test_local_contrast_does_not_depend_on_brightness_and_contrast():
    images = pictures(4, channels=3, size=16).float()
    a = normalized((60 + images / 4).round().to(torch.uint8)).float()
    b = normalized((100 + images / 2).round().to(torch.uint8)).float()
    inside = (..., slice(5, 11), slice(5, 11))
    assert np.corrcoef(a[inside].flatten(), b[inside].flatten())[0, 1] > 0.99
    assert abs(a[inside].mean() - 128) < 5 and a[inside].std() > 20


def test_reduced_images():
    images = pictures(3, channels=3, size=8)
    small = trained.reduced(images, 4)
    blocks = images.float().reshape(3, 3, 4, 2, 4, 2).mean((3, 5))
    assert small.dtype == torch.uint8 and (small.float() - blocks).abs().max() <= 0.5
    assert trained.reduced(images, 0) is images


def test_costs_share_the_moments():
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 4, generator=draw), torch.arange(50) % 2
    shared = Standardized(x)
    for cost in (1.0, 100.0):
        torch.testing.assert_close(train(shared, y, cost, classes=2).weight, train(x, y, cost, classes=2).weight)


@pytest.mark.parametrize("best", [1e2, 1e4, 1e5, 1e7])
def test_the_cost_is_not_limited_to_a_grid(best):
    """Errors that fall towards the best cost from both sides: small data sets need smaller costs than large ones."""
    asked = []

    def score(cost):
        asked.append(cost)
        return abs(math.log10(cost / best))

    assert table1.best_cost(score) == (best, 0.0)
    assert len(asked) == len(set(asked)) <= 5


def test_images_of_figure_2():
    images = pictures(2, channels=3, size=64)
    assert torch.equal(fig2.color(fig2.gray(images)), torch.zeros(2, 3, 64, 64))
    assert (fig2.occluded(images) != images).any() and torch.equal(fig2.occluded(images)[:, :, :20], images[:, :, :20])
    assert figA1.edges(images).min() > figA1.edges(torch.full((1, 3, 64, 64), 7.0)).max() == 0


def test_the_distance_grows_with_noise():
    images = pictures(200, channels=3, size=16).float() * 0.2 + 100
    real = faces.describe(images)
    near, far = (faces.frechet(faces.describe(images + shift), real) for shift in (2.0, 40.0))
    assert 0 <= near < far


def test_samples_from_the_features_resemble_the_data_of_the_features():
    made = network(255)
    drawn = faces.sample_from_features(made, pictures(40), 30)
    assert drawn.shape == (30, 1, 8, 8) and drawn.min() >= 0 and drawn.max() <= 255
    line = faces.interpolate(made, *pictures(2), steps=5)
    top = faces.top_states(made, pictures(2))
    torch.testing.assert_close(line[[0, -1]], faces.descend(made, top))


def test_a_binary_machine_generates_states_in_place_of_the_top_machine(tmp_path, monkeypatch):
    """It is trained on shares of N of the layer below the top one, kept, and its draws go down as means."""
    small = trained.Settings(
        Architecture((3,), (6, 5)), 1, gain=1.0, top=trained.BinaryTop(hidden=4, epochs=2, batch=16)
    )
    monkeypatch.setitem(trained.SETTINGS["quick"], "lfw", small)
    monkeypatch.setattr(trained, "pixels", lambda _, split: (pictures(80, size=16), torch.arange(80) % 3))
    machines = trained.Machines(Record("differentiable/fig1", "quick", tmp_path / "out"), "quick")
    made = machines.untrained("lfw", 255)
    top = machines.binary_top("lfw", made)
    assert (top.visible.size, top.hidden.size) == (6, 4)
    drawn = faces.sample_from_binary(made, top, 7)
    assert drawn.shape == (7, 1, 16, 16) and drawn.min() >= 0 and drawn.max() <= 255
    again = machines.binary_top("lfw", made)  # from its folder
    torch.testing.assert_close(again.coupling.weight, top.coupling.weight)
    ones = torch.full((2, 6), 255.0)
    down = made.machines[0].visible_mean(made.machines[1].visible_mean(ones).reshape(2, 3, 8, 8))
    torch.testing.assert_close(faces.descend(made, ones, 2), down)


@pytest.mark.slow
def test_greedy_and_joint_training_of_four_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(greedy_joint, "STACK", Architecture((3, 4), (6, 5)))
    monkeypatch.setattr(greedy_joint, "QUICK", (2, 60))
    monkeypatch.setattr(trained, "pixels", lambda _, split: (pictures(80, size=16), torch.arange(80) % 3))
    record = Record("differentiable/greedy_joint", "quick", tmp_path / "out")
    greedy_joint.run(record, "quick", n=40)
    rows = (tmp_path / "out" / "reconstruction.csv").read_text().splitlines()
    assert len(rows) == 5 and len(record.claims) == 2
    assert set(record.numbers["cpu_seconds"]) == {"joint", "greedy"}


@pytest.mark.slow
def test_table_1_runs_and_continues(tmp_path, monkeypatch):
    """A small run; a second run uses the kept machines and errors."""
    small = trained.Settings(Architecture((4, 8)), 1, rows=100)
    monkeypatch.setitem(trained.SETTINGS, "quick", {"mnist": small})
    monkeypatch.setattr(trained, "pixels", lambda _, split: (pictures(120, size=8), torch.arange(120) % 3))
    said = []
    for name in ("one", "two"):
        record = Record("differentiable/table1", "quick", tmp_path / name)
        monkeypatch.setattr(record, "say", said.append)
        table1.run(record, "quick", data="mnist", machines=str(tmp_path / "machines"))
        assert [claim.holds for claim in record.claims][:2] == [None, None]
        assert (tmp_path / name / "table1.csv").exists()
    assert sum(line.startswith("training") for line in said) == 2

"""The penalty on differences of the weights of neighboring pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.training import Clock
from harmonium.training.gradient import CouplingGradient, Gradient

SHAPES = {"flat": ((6,), (2, 3)), "image": ((2, 3), None), "channels": ((2, 2, 3), None), "one-row": ((5,), (1, 5))}


def machine_of(layer: tuple[int, ...], hidden: int = 2) -> hm.RBM:
    rbm = hm.RBM(hm.units.Bernoulli(layer), hm.units.Bernoulli(hidden)).double()
    rbm.initialize(weights="normal", scale=1.0, seed=0)
    return rbm


def slope(penalty: hm.Smooth, rbm: hm.RBM, step: int = 0) -> torch.Tensor:
    """The gradient of the penalty in a step."""
    link = CouplingGradient.of_matrix(rbm.coupling, torch.zeros_like(rbm.weight))
    with torch.no_grad():
        penalty.add(rbm, Gradient({}, {0: link}, []), None, Clock(1, 1, 0.0, step), lambda weight: None)
    return link.dense()


@pytest.mark.parametrize("name", SHAPES)
def test_the_gradient_is_the_slope_of_the_value(name: str) -> None:
    layer, shape = SHAPES[name]
    rbm, penalty = machine_of(layer), hm.Smooth(0.7, shape, every=1)
    found, weight, step = slope(penalty, rbm), rbm.coupling.weight.data.view(-1), 1e-5
    for k in range(weight.numel()):
        kept, values = weight[k].item(), []
        for change in (step, -step):
            weight[k] = kept + change
            values.append(penalty.loss(rbm))
        weight[k] = kept
        assert found.flatten()[k].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-8, abs=1e-8)


def test_the_value_counts_every_pair_of_neighbors_once() -> None:
    rbm = machine_of((3, 3), 4)
    weight = rbm.coupling.weight.detach().view(3, 3, 4)
    pairs = [((i, j), (i + 1, j)) for i in range(2) for j in range(3)]
    pairs += [((i, j), (i, j + 1)) for i in range(3) for j in range(2)]
    expected = sum((weight[a] - weight[b]).square().sum().item() for a, b in pairs)
    assert hm.Smooth(3.0).loss(rbm) == pytest.approx(1.5 * expected)


def test_channels_are_no_neighbors() -> None:
    rbm = machine_of((2, 1, 1))
    assert hm.Smooth(1.0).loss(rbm) == 0.0


def test_a_common_value_of_all_pixels_is_free() -> None:
    rbm = machine_of((2, 3))
    rbm.coupling.weight.data.copy_(torch.tensor([1.0, -2.0]).expand(6, 2))
    assert hm.Smooth(1.0).loss(rbm) == 0.0
    assert not slope(hm.Smooth(1.0, every=1), rbm).any()


def test_rare_applications_have_the_same_mean_gradient() -> None:
    rbm = machine_of((2, 3))
    each, rare = hm.Smooth(0.3, every=1), hm.Smooth(0.3, every=3)
    total = sum(slope(rare, rbm, number) for number in range(1, 7))
    torch.testing.assert_close(total, 6 * slope(each, rbm))
    assert not slope(rare, rbm, 7).any()


ROWS = torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]]).repeat(4, 1).double()


def test_training_ends_at_an_optimum_of_the_penalized_likelihood() -> None:
    rbm, penalty = machine_of((2, 2)), hm.Smooth(0.02, every=1)
    rows = ROWS.view(-1, 2, 2)
    options: dict[str, Any] = {"negative": "exact", "batch_size": 20, "initialize": "keep", "progress": False}
    hm.fit(rbm, rows, epochs=2500, learning_rate=0.3, penalties=[penalty], **options)  # fmt: skip
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 4).view(-1, 2, 2)
    loss = rbm.free_energy(rows).mean() + torch.logsumexp(-rbm.free_energy(states), 0)
    weight = rbm.coupling.weight
    gradient, *biases = torch.autograd.grad(loss, [weight, rbm.visible.bias, rbm.hidden.bias])
    assert max(bias.abs().max() for bias in biases) < 1e-3
    assert (gradient + slope(penalty, rbm)).abs().max() < 1e-3
    assert penalty.loss(rbm) > 1e-4  # the optimum is not the one without weights


def test_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    """With 2 steps per epoch and every third step penalized, the phase of the count matters."""

    def train(rbm: hm.RBM, run: Path, epochs: int) -> hm.RBM:
        hm.fit(rbm, ROWS, epochs=epochs, batch_size=10, learning_rate=0.1, seed=3, run=run, resume=True, progress=False,
               penalties=[hm.Smooth(0.3, (2, 2), every=3)])  # fmt: skip
        return rbm

    whole = train(machine_of((4,)), tmp_path / "whole", 5)
    train(machine_of((4,)), tmp_path / "parts", 2)
    parts = train(machine_of((4,)), tmp_path / "parts", 5)
    assert torch.equal(whole.coupling.weight, parts.coupling.weight)


def test_a_penalty_can_be_used_again() -> None:
    """The count of the steps begins anew."""

    def train() -> torch.Tensor:
        rbm = machine_of((4,))
        hm.fit(
            rbm,
            ROWS,
            epochs=2,
            batch_size=10,
            learning_rate=0.1,
            seed=3,
            penalties=[penalty],
            centered=False,
            progress=False,
        )
        return rbm.coupling.weight

    penalty = hm.Smooth(0.3, (2, 2), every=3)
    assert torch.equal(train(), train())


WRONG = {
    "flat": (hm.units.Bernoulli(4), None, r"expects one unit for each pixel of images \(height, width\)"),
    "size": (hm.units.Bernoulli(4), (2, 3), r"images \(2, 3\), found Bernoulli units of shape \(4,\)"),
    "one-hot": (hm.units.Potts((2, 3)), None, r"one unit for each pixel .* found Potts units of shape \(2, 3\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_layers_that_are_no_images_are_refused(name: str) -> None:
    unit, shape, message = WRONG[name]
    rbm = hm.RBM(unit, hm.units.Bernoulli(2))
    data = torch.zeros(4, *unit.shape)
    if isinstance(unit, hm.units.Potts):
        data[..., 0] = 1.0
    with pytest.raises(InvalidOption, match=message):
        hm.fit(rbm, data, epochs=1, penalties=[hm.Smooth(0.1, shape)], centered=False, progress=False)


def test_wrong_options() -> None:
    with pytest.raises(InvalidOption, match=r"shape: expected \(height, width\) or \(channels, height, width\)"):
        hm.Smooth(0.1, (6,))
    with pytest.raises(InvalidOption, match="every: expected at least 1, found 0"):
        hm.Smooth(0.1, (2, 3), every=0)
    with pytest.raises(InvalidOption, match="strength: expected a non-negative number"):
        hm.Smooth(-0.1)


def test_large_steps_are_divided_or_refused() -> None:
    def train(every: int, rate: float) -> hm.RBM:
        rbm = machine_of((4,))
        hm.fit(rbm, ROWS, epochs=20, learning_rate=rate, penalties=[hm.Smooth(0.1, (2, 2), every=every)],
               centered=False, batch_size=10, progress=False, seed=0)  # fmt: skip
        return rbm

    assert torch.equal(train(1000, 0.5).coupling.weight, train(2, 0.5).coupling.weight)  # 8 · 0.5 · 0.1 · 2 < 1
    assert not torch.equal(train(1000, 0.5).coupling.weight, train(1, 0.5).coupling.weight)
    with pytest.raises(InvalidOption, match=r"strength below 0\.0625 with the learning rate 2, found 0\.1"):
        train(1, 2.0)


def test_other_layers_of_a_stack_are_not_penalized() -> None:
    network = hm.DeepBeliefNetwork([hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(4)),
                                    hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))])  # fmt: skip
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(4), hm.units.Bernoulli(3), hm.units.Bernoulli(2)])
    for machine in (network, deep):
        hm.fit(machine, ROWS, epochs=1, penalties=[hm.Smooth(0.1, (2, 2), every=1)], centered=False, progress=False)
    before = hm.Smooth(1.0, (2, 2)).loss(deep)
    with torch.no_grad():
        deep.couplings[1].weight.mul_(3.0)
    assert hm.Smooth(1.0, (2, 2)).loss(deep) == before

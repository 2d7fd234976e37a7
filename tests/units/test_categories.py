"""A ragged one-hot layer is the mixed layer of its sites."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import noise, units

F64 = torch.float64
STATES = (2, 5, 3)


def pair():
    bias = torch.randn(sum(STATES), generator=torch.Generator().manual_seed(0), dtype=F64)
    layer = units.Categories(STATES, bias=bias)
    pieces = zip(STATES, bias.split(STATES), strict=True)
    return layer, units.Mixed(*(units.Potts((1, q), bias=piece[None]) for q, piece in pieces))


@pytest.mark.parametrize("size", [1.0, 300.0], ids=["ordinary", "large"])
@pytest.mark.parametrize("lead", [(), (4,), (2, 3)], ids=str)
def test_equals_a_mixed_layer(size, lead):
    layer, mixed = pair()
    generator = torch.Generator().manual_seed(1)
    B = size * torch.randn(*lead, sum(STATES), generator=generator, dtype=F64)
    A = torch.rand(*lead, sum(STATES), generator=generator, dtype=F64)
    for name in ("log_partition", "mean", "variance"):
        for quadratic in (None, A):
            found, expected = (getattr(unit, name)(B, quadratic) for unit in (layer, mixed))
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer.mode(B), mixed.mode(B))
    x = mixed.sample(B)
    torch.testing.assert_close(layer.log_weight(x), mixed.log_weight(x))


def test_gradients_are_finite_and_equal_in_large_fields():
    layer, mixed = pair()
    B = 200 * torch.randn(3, sum(STATES), generator=torch.Generator().manual_seed(1), dtype=F64)
    slopes = []
    for unit in (layer, mixed):
        field = B.clone().requires_grad_()
        unit.log_partition(field).sum().backward()
        slopes.append(field.grad)
    torch.testing.assert_close(*slopes)


def test_parts_share_the_memory_of_the_bias():
    layer, _ = pair()
    with torch.no_grad():
        layer.bias[2] = 7.0
    assert layer.parts[1].bias[0, 0] == 7.0
    layer.initialize_from(torch.tensor([[1.0, 0, 1, 0, 0, 0, 0, 0, 0, 1]], dtype=F64))
    assert layer.bias[0] > layer.bias[1] and layer.bias[9] > layer.bias[8]


def test_draws_of_unlikely_and_impossible_states():
    p = torch.tensor([0.0, 1.0, 0.999, 0.0, 0.001]).expand(200_000, 5).contiguous()
    drawn = noise.ragged_categorical(p, torch.tensor([1, 4]), torch.Generator().manual_seed(0))
    assert (drawn[:, :2].sum(1) == 1).all() and (drawn[:, 2:].sum(1) == 1).all()
    assert drawn[:, 0].sum() == 0 and drawn[:, 3].sum() == 0
    assert 140 < drawn[:, 4].sum() < 260  # 200 ± 4 standard deviations


def test_files_and_specs(tmp_path):
    from harmonium.machines import layout as specs

    rbm = hm.RBM(units.Categories(STATES), 2)
    rbm.initialize(seed=0)
    hm.save(rbm, tmp_path / "m.safetensors")
    loaded = hm.load(tmp_path / "m.safetensors")
    assert loaded.visible.states == STATES and torch.equal(loaded.weight, rbm.weight)
    spec = specs.UnitSpec.parse("categories:2x5x3")
    assert spec.build().states == STATES and str(spec) == "categories:2x5x3"
    many = specs.UnitSpec.parse("categories:" + "x".join(["4"] * 60))  # the product of the sizes is no size
    assert many.build().size == 240


def test_errors():
    with pytest.raises(hm.errors.InvalidOption, match="two or more states of each site, found \\(3, 1\\)"):
        units.Categories([3, 1])
    with pytest.raises(hm.errors.InvalidData, match="part 1 \\(potts\\): expected one-hot vectors of 5 states"):
        units.Categories(STATES).check(torch.tensor([[1.0, 0, 1, 1, 0, 0, 0, 0, 0, 1]]))


def test_default_learning_rates_know_the_single_bias():
    rbm = hm.RBM(units.Mixed(units.Bernoulli(2), units.Categories([2, 3])), 3)
    data = rbm.sample(50, sweeps=1, seed=0, check_mixing=False)
    groups = hm.training.default_groups(rbm, data)
    assert len(groups) == len(list(rbm.parameters())) == 4
    assert all(0 < group["lr"] <= 0.5 for group in groups)


def test_learning_equals_that_of_a_mixed_layer():
    data = pair()[1].sample(torch.randn(60, sum(STATES), generator=torch.Generator().manual_seed(2), dtype=F64))
    machines = [hm.RBM(unit, 2).double() for unit in pair()]
    for rbm in machines:
        rbm.initialize(data, seed=0)
        hm.fit(
            rbm,
            data,
            negative="exact",
            epochs=3,
            batch_size=20,
            learning_rate=0.1,
            initialize="keep",
            seed=0,
            progress=False,
        )
    torch.testing.assert_close(machines[0].weight, machines[1].weight)
    torch.testing.assert_close(machines[0].visible.bias, machines[1].visible.bias)


def test_a_field_for_each_row_is_differentiable_in_the_bias():
    for unit in (pair()[0], units.Mixed(units.Bernoulli(1).double(), pair()[0])):
        B = torch.randn(4, *unit.shape, generator=torch.Generator().manual_seed(0), dtype=F64)
        moved = unit.in_field(B)
        torch.testing.assert_close(moved.log_partition(torch.zeros_like(B)), unit.log_partition(B))
        moved.log_partition(torch.zeros_like(B)).sum().backward()
        slope = torch.cat([bias.grad.flatten() for bias in unit.biases()])
        torch.testing.assert_close(slope, unit.mean(B).sum(0).detach())

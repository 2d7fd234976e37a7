"""Parameters that several units of a layer share."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.testing import check_unit
from harmonium.training.coordinates import Coordinates
from harmonium.training.gradient import Gradient
from harmonium.training.negative import Batch
from harmonium.units import Unit

F64 = torch.float64

PRECISE: dict[str, Any] = {"learn": ("bias", "precision")}
KINDS: dict[str, tuple[type[Unit], tuple[int, ...], dict[str, Any]]] = {
    "bernoulli": (units.Bernoulli, (), {}),
    "spin": (units.Spin, (), {}),
    "binomial": (units.Binomial, (), {"trials": 3}),
    "gaussian": (units.Gaussian, (), PRECISE),
    "relu": (units.ReLU, (), PRECISE),
    "double-relu": (units.DoubleReLU, (), {"learn": units.DoubleReLU.naturals}),
    "poisson": (units.Poisson, (), {}),
    "potts": (units.Potts, (3,), {}),
    "multinomial": (units.Multinomial, (3,), {"total": 2}),
    "truncated-gaussian": (units.TruncatedGaussian, (), PRECISE),
    "truncated-gauss-bernoulli": (
        units.TruncatedGaussBernoulli,
        (),
        {"learn": units.TruncatedGaussBernoulli.naturals},
    ),
    "multinary": (units.Multinary, (), {"levels": 3}),
}


def layer(name: str, shape: tuple[int, ...] = (2, 2), shared: tuple[int, ...] = (1,)) -> Unit:
    kind, event, options = KINDS[name]
    unit = kind((*shape, *event), shared=shared, **options).double()
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.add_(0.4 * torch.rand(parameter.shape, generator=source, dtype=F64) - 0.3)
    return unit


def expanded(unit: Unit) -> Unit:
    """The same units with separate parameters."""
    kind, _, options = KINDS[unit.name()]
    other = kind(tuple(unit.shape), **options).double()
    with torch.no_grad():
        for (_, mine), (_, theirs) in zip(unit.named_parameters(), other.named_parameters(), strict=True):
            theirs.copy_(mine)
    return other


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.fast_cases(2)
def test_conformance(name: str) -> None:
    check_unit(layer(name))


@pytest.mark.parametrize("name", KINDS)
def test_equal_to_separate_parameters(name: str) -> None:
    unit = layer(name, (2, 3, 2), (1, 2))
    other = expanded(unit)
    assert unit.bias.shape == (2, 1, 1, *unit.event_shape)
    B = 0.3 * torch.randn(5, *unit.shape, generator=torch.Generator().manual_seed(2), dtype=F64)
    torch.testing.assert_close(unit.log_partition(B), other.log_partition(B), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(unit.mean(B), other.mean(B), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(unit.cumulant(2), other.cumulant(2), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(unit.tail().precision, other.tail().precision)
    draws = [u.sample(B, generator=torch.Generator().manual_seed(3)) for u in (unit, other)]
    torch.testing.assert_close(*draws)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_summed(name: str) -> None:
    unit = layer(name)
    other = expanded(unit)
    gradients = {k: torch.randn(unit.shape, dtype=F64) for k in unit.natural()}
    found, expected = unit.gradients(gradients), other.gradients(gradients)
    for (key, mine), (_, theirs) in zip(unit.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(found[mine], expected[theirs].sum(1, keepdim=True), msg=key)


def test_initialization_takes_the_units_together() -> None:
    unit = units.Bernoulli((1, 2), shared=(1,)).double()
    unit.initialize_from(torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]], dtype=F64), pseudocount=0.0)
    torch.testing.assert_close(unit.bias.detach(), torch.tensor([[3.0]], dtype=F64).log())


def test_a_shared_bias_takes_the_mean_of_a_shift() -> None:
    unit = units.Mixed(units.Bernoulli(2, shared=(0,)), units.Spin(2))
    unit.shift_bias(torch.tensor([1.0, 3.0, 5.0, 7.0]))
    assert unit.bias.tolist() == [2.0, 2.0, 5.0, 7.0]
    unit.shift_bias(-unit.bias.detach())
    assert not unit.bias.any()


def test_by_bias_and_from_biases_are_transposes() -> None:
    unit = units.Mixed(units.Gaussian((2, 3), shared=(1,)), units.Potts((2, 3), shared=(0,)), units.Spin(2)).double()
    field = torch.randn(unit.shape, dtype=F64)
    values = [torch.randn(bias.shape, dtype=F64) for bias in unit.biases()]
    ours = sum((a * b).sum() for a, b in zip(unit.by_bias(field), values, strict=True))
    torch.testing.assert_close(ours, (field * unit.from_biases(values)).sum())


def machine(seed: int = 0) -> hm.RBM:
    rbm = hm.RBM(units.Bernoulli((2, 3), shared=(1,)), units.Bernoulli((2, 2), shared=(0, 1))).double()
    rbm.initialize(scale=0.7, seed=seed)
    return rbm


def test_gradient_by_finite_differences() -> None:
    rbm = machine()
    data = torch.randint(2, (6, 2, 3), generator=torch.Generator().manual_seed(1)).double()
    phase = hm.Exact()
    with torch.no_grad():
        phase.step(rbm, Batch(data), phase.init(rbm, data, None), None)[0].write()
        for name, parameter in rbm.named_parameters():
            assert parameter.grad is not None
            for index in range(parameter.numel()):
                values = []
                for step in (1e-5, -2e-5):
                    parameter.view(-1)[index] += step
                    values.append(-rbm.log_probability(data).mean())
                parameter.view(-1)[index] += 1e-5
                slope = (values[0] - values[1]) / 2e-5
                torch.testing.assert_close(parameter.grad.view(-1)[index], slope, rtol=1e-6, atol=1e-9, msg=name)


@torch.no_grad()
def centered(rbm: hm.RBM, data: Tensor) -> tuple[Gradient, Coordinates]:
    phase, coordinates = hm.Exact(), Coordinates(rbm, data.mean(0), 0.01)
    gradient, _ = phase.step(rbm, Batch(data), phase.init(rbm, data, None), None)
    coordinates.follow(gradient)
    coordinates.center(gradient, at_mean=False)
    gradient.write()
    return gradient, coordinates


@torch.no_grad()
def test_centering_changes_only_the_coordinates() -> None:
    data = torch.randint(2, (6, 2, 3), generator=torch.Generator().manual_seed(1)).double()
    there = machine()
    before = there.distribution()[1]
    gradient, coordinates = centered(there, data)
    optimizer = torch.optim.SGD(there.parameters(), lr=0.1)
    with coordinates.within(gradient, optimizer):
        assert (there.distribution()[1] - before).abs().max() > 0.1  # the biases have moved
    torch.testing.assert_close(there.distribution()[1], before, rtol=1e-12, atol=1e-12)
    # a step in the centered coordinates equals a plain step with the mapped gradient
    with coordinates.within(gradient, optimizer):
        optimizer.step()
    mapped = machine()
    gradient, coordinates = centered(mapped, data)
    coordinates.pull_back(gradient, lambda parameter: 0.1)
    gradient.write()
    torch.optim.SGD(mapped.parameters(), lr=0.1).step()
    for (name, a), (_, b) in zip(there.named_parameters(), mapped.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)


def test_files(tmp_path: Any) -> None:
    rbm = machine()
    hm.save(rbm, tmp_path / "machine.safetensors")
    again = hm.load(tmp_path / "machine.safetensors")
    assert again.visible.shared == (1,)
    assert again.hidden.bias.shape == (1, 1)
    assert again.log_partition() == rbm.log_partition()
    assert "shared" not in units.Bernoulli(3).config()


def test_annealing_agrees_with_enumeration() -> None:
    rbm = machine()
    exact = rbm.log_partition()
    for base in (None, rbm.sample(50, sweeps=20, seed=1, check_mixing=False)):
        found = hm.likelihood.ais(rbm, runs=200, betas=200, base=base, seed=0)
        assert abs(found.value - exact) < 6 * found.standard_error + 1e-3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: units.Bernoulli((2, 3), shared=(2,)), r"shared: expected dimensions from 0 to 1 of \(2, 3\)"),
        (lambda: units.Potts((2, 3), shared=(1,)), r"shared: expected dimensions from 0 to 0 of \(2, 3\)"),
        (lambda: units.Bernoulli((2, 3), shared=(1,), bias=torch.zeros(2, 3)), r"tensor of shape \(2, 1\)"),
    ],
)
def test_errors(build: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        build()


def test_zero_sum_is_refused() -> None:
    rbm = hm.RBM(units.Potts((2, 3), shared=(0,)), units.Bernoulli(2))
    with pytest.raises(InvalidOption, match="shared biases in layer 0"):
        hm.ZeroSum().check(rbm)


@pytest.mark.slow
def test_training_learns() -> None:
    teacher = machine(seed=3)
    data = teacher.sample(300, sweeps=200, seed=1, check_mixing=False)
    student = copy.deepcopy(teacher)
    student.initialize(data, seed=2)
    before = student.log_probability(data).mean().item()
    hm.fit(student, data, negative=hm.Exact(), epochs=20, batch_size=100, initialize="keep", progress=False)
    assert student.log_probability(data).mean().item() > before + 0.01

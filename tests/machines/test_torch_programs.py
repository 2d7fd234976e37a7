"""Machines inside torch programs: calls, compilation, vmap, and gradients through draws and data."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units

LAYERS = {
    "bernoulli": lambda: units.Bernoulli(4),
    "spin": lambda: units.Spin(4),
    "potts": lambda: units.Potts((2, 3)),
    "gaussian": lambda: units.Gaussian(4),
}


def machine(name: str, hidden: int = 3) -> hm.RBM:
    rbm = hm.RBM(LAYERS[name](), hidden)
    rbm.initialize(scale=0.7, seed=0)
    return rbm


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("method", ["free_energy", "hidden_mean"])
def test_compiled_in_one_graph_and_mapped_over_rows(name: str, method: str) -> None:
    rbm = machine(name)
    v = rbm.sample(5, sweeps=2, seed=0, check_mixing=False)
    function = getattr(rbm, method)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="eager")(v), function(v))
    torch.testing.assert_close(torch.vmap(lambda row: function(row[None])[0])(v), function(v))


def test_called_like_any_module() -> None:
    rbm, v = machine("bernoulli"), torch.eye(4)
    torch.testing.assert_close(rbm(v), rbm.hidden_mean(v))
    torch.testing.assert_close(torch.nn.Sequential(rbm, torch.nn.Linear(3, 2))(v).shape, torch.Size([4, 2]))
    network = hm.DeepBeliefNetwork.of([4, 3, 2])
    network.initialize(seed=0)
    torch.testing.assert_close(network(v), network.features(v))


def test_straight_through_draws_are_draws_with_the_gradient_of_the_mean() -> None:
    rbm, v = machine("bernoulli"), torch.rand(6, 4).requires_grad_()
    drawn = rbm.sample_hidden(v, seed=1, gradient="straight-through")
    torch.testing.assert_close(drawn.detach(), rbm.sample_hidden(v.detach(), seed=1))
    weights = torch.randn(6, 3)
    (through,) = torch.autograd.grad((weights * drawn).sum(), v)
    (exact,) = torch.autograd.grad((weights * rbm.hidden_mean(v)).sum(), v)
    torch.testing.assert_close(through, exact)


@pytest.mark.parametrize("name", LAYERS)
def test_relaxed_draws_round_to_exact_draws(name: str) -> None:
    """Rounding a relaxed value gives a draw: its mean is that of the unit, within five standard errors."""
    rbm, n = machine(name), 40_000
    h = torch.tensor([[1.0, 0.0, 1.0]]).expand(n, 3)
    values = rbm.sample_visible(h, seed=0, gradient="relaxed")
    assert values.requires_grad
    values = values.detach()
    drawn = {
        "bernoulli": lambda: (values > 0.5).float(),
        "spin": lambda: values.sign(),
        "potts": lambda: torch.nn.functional.one_hot(values.argmax(-1), 3).float(),
        "gaussian": lambda: values,
    }[name]()
    field = rbm.coupling.down(h[:1])
    mean, variance = rbm.visible.mean(field)[0].detach(), rbm.visible.variance(field)[0].detach()
    assert ((drawn.mean(0) - mean).abs() < 5 * (variance / n).sqrt()).all()
    assert (values.std(0) > 0).all()


def test_relaxed_draws_have_the_gradient_of_their_values() -> None:
    rbm = machine("bernoulli").double()

    def loss(v: Tensor) -> Tensor:
        return rbm.sample_hidden(v, seed=3, gradient="relaxed").square().sum()

    assert torch.autograd.gradcheck(loss, (torch.rand(2, 4, dtype=torch.float64, requires_grad=True),))


def test_unknown_gradients_and_units_without_one_are_refused() -> None:
    with pytest.raises(hm.errors.InvalidOption, match="did you mean 'relaxed'"):
        machine("bernoulli").sample_hidden(torch.eye(4), gradient="relax")
    rbm = hm.RBM(4, units.Poisson(2))
    with pytest.raises(hm.errors.InvalidOption, match='expected "straight-through" for poisson units'):
        rbm.sample_hidden(torch.eye(4), gradient="relaxed")


def test_the_joint_loss_passes_the_gradient_of_the_lowest_machine_to_its_data() -> None:
    network = hm.DeepBeliefNetwork.of([4, 3, 2])
    network.initialize(scale=0.5, seed=0)
    v = torch.rand(5, 4).requires_grad_()
    (joint,) = torch.autograd.grad(hm.losses.joint(network, v, seed=0), v)
    (alone,) = torch.autograd.grad(network.machines[0].free_energy(v, check=False).mean(), v)
    torch.testing.assert_close(joint, alone)


def test_a_generator_is_a_seed() -> None:
    rbm = machine("bernoulli")
    number = rbm.sample(5, sweeps=3, seed=7, check_mixing=False)
    generator = torch.Generator().manual_seed(7)
    torch.testing.assert_close(rbm.sample(5, sweeps=3, seed=generator, check_mixing=False), number)
    again = rbm.sample(5, sweeps=3, seed=generator, check_mixing=False)  # the generator has moved on
    assert not torch.equal(again, number)
    states = [hm.fit(hm.RBM(4, 2), torch.eye(4), epochs=1, seed=g, progress=False) for g in (_at(3), _at(3), _at(4))]
    assert states[0].plan.seed == states[1].plan.seed != states[2].plan.seed


def _at(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)

"""Transforms change the path of learning, but not the model or the optimum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_helpers import (
    F64,
    assert_same,
    binary,
    draw,
    generator,
    gradients,
    log_likelihood,
    parameters,
    randomize,
    rbm,
    sgd,
    step,
)

import harmonium as hm
from harmonium import couplings, units
from harmonium.errors import InvalidOption
from harmonium.machines import RBM, BoltzmannMachine
from harmonium.training.constraints import Constraint
from harmonium.training.coordinates import Coordinates
from harmonium.training.gradient import CouplingGradient, Gradient
from harmonium.training.schedules import Clock

# -- centering ------------------------------------------------------------------------------------------------


def conv_machine(lower_shared: tuple[int, ...] = (), upper_shared: tuple[int, ...] = ()) -> RBM:
    lower, kernel = (2, 5, 5), {"kernel": 3, "stride": 2}
    upper = couplings.Conv2d.output_shape(lower, 3, **kernel)
    coupling = couplings.Conv2d(lower, upper, **kernel)
    layers = units.Bernoulli(lower, shared=lower_shared), units.Gaussian(upper, shared=upper_shared)
    return rbm(*layers, 1, weight=0.2, coupling=coupling)


def mixed_shared() -> RBM:
    return rbm(units.Mixed(units.Bernoulli(3, shared=(0,)), units.Potts((2, 3), shared=(0,))), units.Bernoulli(2), 1)


CENTERED = {
    "bernoulli": lambda: binary(5, 3, 1),
    "spin-relu": lambda: rbm(units.Spin(5), units.ReLU(3), 1, weight=0.3),
    "gaussian": lambda: rbm(units.Gaussian(5, learn=("bias", "precision")), units.Spin(3), 1, weight=0.3),
    "potts": lambda: rbm(units.Potts((3, 3)), units.Bernoulli(2), 1),
    "potts-hidden": lambda: rbm(units.Bernoulli(4), units.Potts((2, 3)), 1),
    "mixed": lambda: rbm(units.Mixed(units.Bernoulli(3), units.Potts((1, 3))), units.Bernoulli(2), 1),
    "mixed-hidden": lambda: rbm(units.Bernoulli(3), units.Mixed(units.Spin(2), units.Gaussian(2)), 1, weight=0.3),
    "masked": lambda: rbm(units.Bernoulli(5), units.Bernoulli(3), 1, coupling=couplings.Masked(5, 3, degree=2, seed=1)),
    "conv2d": conv_machine,
    "shared": lambda: rbm(units.Bernoulli((2, 3), shared=(1,)), units.Spin(3, shared=(0,)), 1),
    "conv2d-shared": lambda: conv_machine((1, 2), (1, 2)),
    "conv2d-shared-visible": lambda: conv_machine((1,)),
    "mixed-shared": mixed_shared,
}


class FreeEnergy(nn.Module):
    def __init__(self, machine: RBM) -> None:
        super().__init__()
        self.machine = machine

    def forward(self, v: Tensor) -> Tensor:
        return self.machine.free_energy(v)


def bias_names(machine: RBM, layer: int) -> list[str]:
    wanted = {id(bias) for bias in machine.layers[layer].biases()}
    return [name for name, p in machine.named_parameters() if id(p) in wanted]


def split_bias(machine: RBM, layer: int, value: Tensor) -> dict[str, Tensor]:
    """A field (*shape) as changes of the stored biases: the mean over the units that share a bias."""
    unit, split = machine.layers[layer], {}
    pieces = value.flatten().split([part.size for part in unit.parts])
    for name, part, piece in zip(bias_names(machine, layer), unit.parts, pieces, strict=True):
        dims = [k for k, (n, full) in enumerate(zip(part.bias.shape, part.shape, strict=True)) if n < full]
        split[name] = piece.view(part.shape).mean(dims, keepdim=True) if dims else piece.view(part.shape)
    return split


def centered_by_autograd(machine: RBM, data: Tensor, model: Tensor, mu: Tensor, lam: Tensor) -> dict[str, Tensor]:
    """Autograd through E = -(v-μ)W(h-λ) - b'v - c'h - …, and the step in (W, b', c') written in (W, b, c)."""
    coupling = machine.coupling
    weight = coupling.weight.detach().clone().requires_grad_()

    def fields(here: couplings.Coupling) -> dict[str, Tensor]:
        below, above = here.down(lam.unsqueeze(0))[0], here.up(mu.unsqueeze(0))[0]
        return {**split_bias(machine, 0, below), **split_bias(machine, 1, above)}

    stored = dict(machine.named_parameters())
    centered = {name: (stored[name] + x).detach().requires_grad_() for name, x in fields(coupling).items()}
    values = {name: centered[name] - x for name, x in fields(coupling.with_weight(weight)).items()}
    values = {f"machine.{name}": value for name, value in {"coupling.weight": weight, **values}.items()}
    module = FreeEnergy(machine)
    loss = (
        torch.func.functional_call(module, values, (data,)).mean()
        - torch.func.functional_call(module, values, (model,)).mean()
    )
    g_weight, *g_biases = torch.autograd.grad(loss, (weight, *centered.values()))
    step = fields(coupling.with_weight(g_weight))
    biases = {name: (g - step[name]).detach() for name, g in zip(centered, g_biases, strict=True)}
    return {"coupling.weight": g_weight, **biases}


@pytest.mark.parametrize("kind", CENTERED)
def test_centered_is_the_gradient_of_the_centered_machine(kind: str) -> None:
    machine = CENTERED[kind]()
    data = machine.visible.sample(torch.zeros(20, *machine.visible.shape, dtype=F64), generator=generator(1))
    coordinates = Coordinates(machine, data.mean(0), 0.3)
    gradient, _ = step(hm.PCD(1, chains=7), machine, data, generator(3))
    before = gradients(machine)
    with torch.no_grad():
        gradient, _ = step(hm.PCD(1, chains=7), machine, data, generator(3))
        coordinates.follow(gradient)
        coordinates.center(gradient, at_mean=False)
        coordinates.pull_back(gradient, lambda parameter: 1.0)
        gradient.write()
    found = gradients(machine)
    mu, lam = coordinates.state()["offsets"]
    assert torch.equal(mu, data.mean(0))
    model = gradient.loss.__self__.model.clone()  # type: ignore[union-attr]
    expected = centered_by_autograd(machine, data, model, mu, lam)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)
        assert not torch.allclose(found[name], before[name], atol=1e-6)
    for name in found.keys() - expected.keys():  # precisions are the same in both machines
        assert torch.equal(found[name], before[name])


def test_hidden_offsets_follow_the_batches() -> None:
    machine = binary(5, 3, 1)
    data = draw(machine, 20)
    with torch.no_grad():
        coordinates = Coordinates(machine, data.mean(0), 0.25)
        start = machine.hidden_mean(data.mean(0, keepdim=True))[0]
        torch.testing.assert_close(coordinates.state()["offsets"][1], start)
        coordinates.follow(step(hm.Exact(), machine, data)[0])
        mean = machine.hidden_mean(data).mean(0)
    torch.testing.assert_close(coordinates.state()["offsets"][1], 0.75 * start + 0.25 * mean)


@pytest.mark.slow
def test_centering_does_not_move_the_end_of_learning() -> None:
    """The change of coordinates is invertible, so both kinds of training end at the same machine."""
    teacher = binary(4, 2, seed=2, weight=0.8)
    states, log_p = teacher.distribution()
    data = states.repeat_interleave((log_p.exp() * 2000).round().long(), 0)
    ends = []
    for centered in (False, True):
        machine = RBM(units.Bernoulli(4), units.Bernoulli(2)).double()
        machine.load_state_dict(teacher.state_dict())
        with torch.no_grad():
            machine.coupling.weight.add_(0.1)
        hm.fit(
            machine,
            data,
            negative=hm.Exact(),
            epochs=600,
            batch_size=len(data),
            optimizer=sgd(0.7, momentum=0.9),
            centered=centered,
            initialize="keep",
        )
        step(hm.Exact(), machine, data)
        assert max(g.abs().max().item() for g in gradients(machine).values()) < 1e-4
        ends.append((log_likelihood(machine, data), machine.distribution()[1].exp()))
    assert ends[0][0] == pytest.approx(ends[1][0], abs=1e-5)
    torch.testing.assert_close(ends[0][1], ends[1][1], rtol=0, atol=1e-3)


def flipped(machine: RBM) -> RBM:
    """The same model for 1 - v: b → -b, W → -W, c → c + Wᵀ1."""
    other = RBM(units.Bernoulli(5), units.Bernoulli(3)).double()
    with torch.no_grad():
        other.visible.bias.copy_(-machine.visible.bias)
        other.coupling.weight.copy_(-machine.coupling.weight)
        other.hidden.bias.copy_(machine.hidden.bias + machine.coupling.weight.sum(0))
    return other


@pytest.mark.slow
@pytest.mark.parametrize("centered", [True, False])
def test_centered_learning_does_not_see_a_flip_of_the_data(centered: bool) -> None:
    data = draw(binary(5, 3, seed=3), 200)
    machine = binary(5, 3, seed=4, weight=0.3)
    mirror = flipped(machine)
    for each, rows in ((machine, data), (mirror, 1 - data)):
        hm.fit(
            each,
            rows,
            negative=hm.Exact(),
            epochs=10,
            batch_size=50,
            optimizer=sgd(0.2),
            centered=centered,
            initialize="keep",
            seed=5,
        )
    expected = parameters(flipped(machine))
    difference = max((value - expected[name]).abs().max().item() for name, value in parameters(mirror).items())
    if centered:
        assert difference < 1e-12
    else:
        assert difference > 1e-2  # without centering, learning depends on the labels 0 and 1


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("kind", CENTERED)
def test_centered_learning_for_every_layer_and_coupling(kind: str) -> None:
    machine = CENTERED[kind]()
    data = machine.visible.sample(torch.zeros(60, *machine.visible.shape, dtype=F64), generator=generator(1))
    before = parameters(machine)
    hm.fit(machine, data, negative=hm.PCD(1), epochs=2, batch_size=20, optimizer=sgd(0.01))
    after = parameters(machine)
    assert all(torch.isfinite(value).all() for value in after.values())
    assert not torch.equal(after["coupling.weight"], before["coupling.weight"])
    mask = getattr(machine.coupling, "mask", None)
    if mask is not None:
        assert not bool(after["coupling.weight"][mask == 0].any())


def test_centering_needs_the_biases() -> None:
    machine = rbm(units.Bernoulli(4), units.Bernoulli(2, learn=()), 1)
    with pytest.raises(InvalidOption, match="bias to be learned, found a fixed bias in layer 1"):
        hm.fit(machine, draw(machine, 20), batch_size=10)
    hm.fit(machine, draw(machine, 20), batch_size=10, epochs=1, centered=False)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan")])
def test_centering_rate(rate: float) -> None:
    with pytest.raises(InvalidOption, match=r"centered: expected a number in \(0, 1\]"):
        hm.Plan(centered=rate)


# -- penalties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bernoulli", "potts", "masked", "conv2d"])
@pytest.mark.parametrize("penalty", [hm.L1(0.3), hm.L2(0.7), hm.L1Squared(0.4)], ids=["l1", "l2", "l1-squared"])
def test_a_penalty_adds_the_slope_of_its_value(penalty: Any, kind: str) -> None:
    machine = CENTERED[kind]()
    weight = machine.coupling.weight
    link = CouplingGradient.of_matrix(machine.coupling, torch.full_like(weight, 0.5))
    with torch.no_grad():
        penalty.add(machine, Gradient({}, {0: link}, []), None, Clock(1, 1, 0.0), lambda weight: None)
    flat, slope = weight.data.view(-1), (link.dense() - 0.5).flatten()
    for k in range(flat.numel()):
        kept, values = flat[k].item(), []
        if kept == 0.0:
            assert slope[k] == 0.0  # outside the mask
            continue
        step = 1e-6 * abs(kept)
        for change in (step, -step):
            flat[k] = kept + change
            values.append(penalty.loss(machine))
        flat[k] = kept
        assert slope[k].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6, abs=1e-8)


def test_values_of_the_penalties() -> None:
    machine = RBM(units.Bernoulli(2), units.Bernoulli(2))
    machine.coupling.weight.data.copy_(torch.tensor([[1.0, -2.0], [3.0, 0.0]]))
    assert hm.L1(0.5).loss(machine) == pytest.approx(3.0)
    assert hm.L2(0.5).loss(machine) == pytest.approx(3.5)
    assert hm.L1Squared(0.5).loss(machine) == pytest.approx(0.5 / 4 * (16 + 4))


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [hm.L1(0.02), hm.L2(0.05), hm.L1Squared(0.02)], ids=["l1", "l2", "l1-squared"])
def test_penalties_shrink_the_weights(penalty: Any) -> None:
    data = draw(binary(5, 3, seed=3, weight=2.0), 200)
    norms = []
    for penalties in ([], [penalty]):
        machine = binary(5, 3, seed=4, weight=0.3)
        hm.fit(machine, data, negative=hm.Exact(), epochs=40, batch_size=200, optimizer=sgd(0.5), penalties=penalties)
        norms.append(penalty.loss(machine))
    assert norms[1] < norms[0]


@pytest.mark.parametrize("kind", [hm.L1, hm.L2, hm.L1Squared])
def test_negative_strengths_are_refused(kind: type) -> None:
    for strength in (-1.0, float("nan")):
        with pytest.raises(InvalidOption, match="strength: expected a non-negative number"):
            kind(strength)


# -- the zero-sum gauge ---------------------------------------------------------------------------------------

POTTS = {
    "visible": lambda: (units.Potts((3, 3)), units.Bernoulli(2)),
    "hidden": lambda: (units.Bernoulli(4), units.Potts((2, 3))),
    "both": lambda: (units.Potts((2, 3)), units.Potts((2, 4))),
    "gaussian-hidden": lambda: (units.Potts((3, 3)), units.Gaussian(2)),
    "categories": lambda: (units.Categories([2, 3]), units.Categories([3, 2])),
    "mixed": lambda: (units.Mixed(units.Bernoulli(2), units.Potts((2, 3))), units.Bernoulli(2)),
}


@pytest.mark.parametrize("kind", POTTS)
def test_zero_sum_leaves_the_distribution_alone(kind: str) -> None:
    machine = rbm(*POTTS[kind](), 3)
    before = machine.distribution()[1]
    with torch.no_grad():
        hm.ZeroSum().after_step(machine, {}, Clock(1, 1, 0.0))
    torch.testing.assert_close(machine.distribution()[1], before, rtol=0, atol=1e-12)
    matrix = machine.coupling.matrix().detach()
    for unit, weight in ((machine.visible, matrix.T), (machine.hidden, matrix)):
        for part, block in zip(unit.parts, unit.split(weight.reshape(-1, *unit.shape)), strict=True):
            if part.softmax:
                assert block.sum(-1).abs().max() < 1e-12
                assert part.bias.sum(-1).abs().max() < 1e-12


def test_zero_sum_in_a_deep_machine() -> None:
    machine = BoltzmannMachine([units.Potts((2, 3)), units.Potts((1, 4)), units.Bernoulli(2)]).double()
    randomize(machine, 4)
    x, y, z = (unit.enumerate() for unit in machine.layers)
    index = torch.cartesian_prod(*(torch.arange(len(part)) for part in (x, y, z)))
    states = [part[index[:, k]] for k, part in enumerate((x, y, z))]
    before = torch.log_softmax(-machine.energy(*states), 0)
    with torch.no_grad():
        hm.ZeroSum().after_step(machine, {}, Clock(1, 1, 0.0))
    torch.testing.assert_close(torch.log_softmax(-machine.energy(*states), 0), before, rtol=0, atol=1e-12)
    assert machine.couplings[0].weight.view(2, 3, 4).sum(1).abs().max() < 1e-12
    assert machine.couplings[0].weight.view(2, 3, 4).sum(2).abs().max() < 1e-12
    assert machine.couplings[1].weight.view(4, 2).sum(0).abs().max() < 1e-12


def test_zero_sum_during_training() -> None:
    machine = rbm(units.Potts((3, 3)), units.Bernoulli(2), 3)
    hm.fit(machine, draw(machine, 100), epochs=3, batch_size=20, constraints=[hm.ZeroSum()])
    assert machine.coupling.weight.view(3, 3, 2).sum(1).abs().max() < 1e-12
    assert machine.visible.bias.sum(-1).abs().max() < 1e-12


def test_zero_sum_is_refused_where_it_has_no_meaning() -> None:
    machine = binary(4, 2)
    with pytest.raises(InvalidOption, match="one-hot"):
        hm.fit(machine, draw(machine, 20), batch_size=10, constraints=[hm.ZeroSum()], centered=False)
    # a mask keeps weights out, so a constant cannot be moved: the gauge would change the model
    masked = rbm(units.Potts((2, 3)), units.Bernoulli(2), 1, coupling=couplings.Masked((2, 3), 2, degree=2))
    with pytest.raises(InvalidOption, match="dense couplings, found Masked"):
        hm.fit(masked, draw(masked, 20), batch_size=10, constraints=[hm.ZeroSum()], centered=False)


# -- averaging ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorder(Constraint):
    """Record the parameters after every step."""

    seen: list[tuple[float, dict[str, Tensor]]] = field(default_factory=list)

    def after_step(self, machine: BoltzmannMachine, state: dict[str, Any], clock: Clock) -> dict[str, Any]:
        self.seen.append((clock.fraction, parameters(machine)))
        return state


@pytest.mark.slow
@pytest.mark.parametrize(("last", "every"), [(0.3, 1), (0.5, 3), (1.0, 2)])
def test_average_is_the_plain_mean(last: float, every: int) -> None:
    machine = binary(5, 3, seed=4)
    recorder, average = Recorder(), hm.Average(last, every)
    for _ in range(2):  # the second run starts over
        recorder.seen.clear()
        hm.fit(
            machine,
            draw(binary(5, 3, 1), 100),
            epochs=10,
            batch_size=20,
            constraints=[recorder, average],
            centered=False,
            seed=1,
        )
        window = [values for fraction, values in recorder.seen if fraction >= 1 - last][::every]
        assert len(recorder.seen) == 50
        assert len(window) == -(-round(50 * last) // every)
        for name, value in parameters(machine).items():
            mean = torch.stack([values[name] for values in window]).mean(0)
            torch.testing.assert_close(value, mean, rtol=1e-12, atol=1e-14)
            assert not torch.equal(value, recorder.seen[-1][1][name])


def test_an_average_over_nothing_changes_nothing() -> None:
    results = []
    for constraints in ([], [hm.Average(last=0.01, every=100)]):
        machine = binary(5, 3, seed=4)
        hm.fit(machine, draw(binary(5, 3, 1), 100), epochs=2, batch_size=20, constraints=constraints, seed=1)
        results.append(parameters(machine))
    assert_same(*results)


@pytest.mark.parametrize(("last", "every"), [(0.0, 1), (1.5, 1), (0.5, 0)])
def test_impossible_averages_are_refused(last: float, every: int) -> None:
    with pytest.raises(InvalidOption, match="expected a fraction"):
        hm.Average(last, every)


@pytest.mark.parametrize("read_between", [False, True], ids=["in factors", "written down"])
def test_a_decay_kept_as_a_number_is_the_gradient_of_the_penalty(read_between):
    from harmonium.couplings import Dense

    generator = torch.Generator().manual_seed(0)
    x, y, weight = (torch.randn(*shape, generator=generator).double() for shape in ((5, 4), (5, 3), (4, 3)))
    coupling = Dense((4,), (3,)).double()
    with torch.no_grad():
        coupling.weight.copy_(weight)
        link = CouplingGradient(coupling, x, y, 5)
        link.add_weights(0.7)
        gradient = x.T @ y + 0.7 * weight
        if read_between:
            assert torch.allclose(link.down(torch.ones(3).double()), gradient.sum(1))
            assert torch.allclose(link.dense(), gradient)
        link.descend(0.1)
        assert torch.allclose(coupling.weight, weight - 0.1 * gradient)


# -- penalties and centering -----------------------------------------------------------------------------------------


PENALTIES = {"l1": hm.L1(0.01), "l2": hm.L2(0.02), "l1-squared": hm.L1Squared(0.05)}
FEW = torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=torch.float64)


def _penalized(penalty: Any, epochs: int) -> hm.RBM:
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2)).double()
    rbm.initialize(FEW, seed=1, scale=0.5)
    hm.fit(rbm, FEW, negative=hm.Exact(), epochs=epochs, batch_size=5, penalties=[penalty], initialize="keep",
           progress=False, optimizer=lambda p: torch.optim.SGD(p, lr=0.3))  # fmt: skip
    return rbm


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.slow
def test_training_ends_at_an_optimum_of_the_penalized_likelihood(name):
    """Where ∂/∂b and ∂/∂c of the likelihood vanish, and ∂/∂W is that of the penalty."""
    rbm = _penalized(PENALTIES[name], 2500)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 4)
    loss = rbm.free_energy(FEW).mean() + torch.logsumexp(-rbm.free_energy(states), 0)
    weight, b, c = rbm.coupling.weight, rbm.visible.bias, rbm.hidden.bias
    slope, *others = torch.autograd.grad(loss, [weight, b, c])
    assert max(x.abs().max() for x in others) < 2e-3
    if name == "l2":
        assert (slope + PENALTIES[name].strength * weight).abs().max() < 2e-3


def test_a_decay_with_centering_keeps_its_factors():
    """The same result with the gradient as factors and as a dense matrix."""
    rows = torch.bernoulli(torch.full((50, 6), 0.3), generator=torch.Generator().manual_seed(0)).double()
    weights = []
    for momentum in (0.0, 1e-12):  # an optimizer with momentum needs the gradient itself
        rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(4)).double()
        hm.fit(rbm, rows, epochs=5, batch_size=10, penalties=[hm.L2(0.1)], progress=False, seed=3,
               optimizer=lambda p, momentum=momentum: torch.optim.SGD(p, lr=0.1, momentum=momentum))  # fmt: skip
        weights.append(torch.cat([p.detach().flatten() for p in rbm.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_a_decay_by_the_optimizer_with_centering_ends_at_the_same_optimum():
    """``weight_decay`` of W is then the penalty L2: the optimizer acts on W with the centered biases fixed."""
    ends = []
    for decay, penalties in ((0.05, []), (0.0, [hm.L2(0.05)])):
        rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2)).double()
        rbm.initialize(FEW, seed=1, scale=0.5)
        biases = [*rbm.visible.parameters(), *rbm.hidden.parameters()]
        groups = [{"params": [rbm.coupling.weight], "weight_decay": decay}, {"params": biases}]
        hm.fit(rbm, FEW, negative=hm.Exact(), epochs=1500, batch_size=5, penalties=penalties, initialize="keep",
               progress=False, optimizer=torch.optim.SGD(groups, lr=0.3))  # fmt: skip
        ends.append(parameters(rbm))
    for name, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][name], rtol=0, atol=1e-5)

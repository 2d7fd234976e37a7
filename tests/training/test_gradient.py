"""The gradient used in training, a difference of moments, is the derivative of ``losses.contrastive``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor
from training_helpers import F64, assert_close, generator, gradients, rbm, step

import harmonium as hm
from harmonium import couplings, units
from harmonium.machines import RBM
from harmonium.training.gradient import Gradient
from harmonium.training.negative import NegativePhase, Sampled
from harmonium.units import Unit

GOLDEN = json.loads((Path(__file__).parent / "contrastive_loss.json").read_text(encoding="utf-8"))

#: every unit, all of its natural parameters learned
UNITS = {
    "bernoulli": lambda n: units.Bernoulli(n),
    "spin": lambda n: units.Spin(n),
    "binomial": lambda n: units.Binomial(n, trials=5),
    "gaussian": lambda n: units.Gaussian(n, precision=1.5, learn=units.Gaussian.naturals),
    "relu": lambda n: units.ReLU(n, precision=1.5, learn=units.ReLU.naturals),
    "double-relu": lambda n: units.DoubleReLU(n, tilt=0.5, precision_minus=2.0, learn=units.DoubleReLU.naturals),
    "poisson": lambda n: units.Poisson(n, learn=units.Poisson.naturals),
    "potts": lambda n: units.Potts((n, 3)),
    "multinomial": lambda n: units.Multinomial(n, total=4),
    "truncated-gaussian": lambda n: units.TruncatedGaussian(
        n, low=-1.0, high=2.0, precision=1.2, learn=units.TruncatedGaussian.naturals
    ),
    "truncated-gauss-bernoulli": lambda n: units.TruncatedGaussBernoulli(
        n, low=-1.0, high=2.0, rho=0.6, learn=units.TruncatedGaussBernoulli.naturals
    ),
    "multinary": lambda n: units.Multinary(n, levels=4, scale=0.5),
    "multinary-integral": lambda n: units.Multinary(n, levels=4, scale=0.5, form="integral"),
    "mixed": lambda n: units.Mixed(
        units.Bernoulli(n - 1), units.Gaussian(2, learn=("bias", "precision")), units.Potts((1, 3))
    ),
}
PHASES = {
    "cd-1": lambda: hm.CD(1),
    "cd-3": lambda: hm.CD(3),
    "pcd-1": lambda: hm.PCD(1),
    "pcd-2": lambda: hm.PCD(2, chains=5),
}


def some_rows(unit: Unit, n: int, seed: int) -> Tensor:
    return unit.sample(torch.zeros(n, *unit.shape, dtype=F64), generator=generator(seed))


def check(machine: RBM, phase: NegativePhase, data: Tensor, steps: int = 2) -> None:
    """Two steps of a phase: its gradient against autograd of the contrastive loss at the states of its sample."""
    noise, state = generator(7), None
    for number in range(steps):
        batch = data[8 * number : 8 * number + 8]
        gradient, state = step(phase, machine, batch, noise, start=data[:3], state=state)
        found = gradients(machine)
        rows, chains = visible_states(gradient)
        assert torch.equal(rows, batch) and not torch.equal(chains, batch[: len(chains)])
        loss = hm.losses.contrastive(machine, rows, chains)
        names = [name for name, p in machine.named_parameters() if p.requires_grad]
        expected = torch.autograd.grad(loss, [p for p in machine.parameters() if p.requires_grad])
        assert max(g.abs().max().item() for g in expected) > 1e-3
        assert_close(found, dict(zip(names, expected, strict=True)), 1e-9)


def visible_states(gradient: Gradient) -> tuple[Tensor, Tensor]:
    """The rows of the data and of the model in the sample of a gradient."""
    sample = gradient.loss.__self__  # type: ignore[union-attr]
    return sample.data.clone(), sample.model.clone()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kind", UNITS)
def test_visible_units(kind: str, phase: str) -> None:
    machine = rbm(UNITS[kind](4), units.Bernoulli(3), 1, weight=0.3, bias=0.3)
    check(machine, PHASES[phase](), some_rows(machine.visible, 16, 2))


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kind", UNITS)
def test_hidden_units(kind: str, phase: str) -> None:
    machine = rbm(units.Bernoulli(5), UNITS[kind](3), 1, weight=0.3, bias=0.3)
    check(machine, PHASES[phase](), some_rows(machine.visible, 16, 2))


@pytest.mark.parametrize("phase", ["cd-1", "cd-3", "pcd-1"])
def test_documents_of_several_lengths(phase: str) -> None:
    machine = rbm(units.Multinomial(4), units.Bernoulli(3), 1, weight=0.3, bias=0.3)
    check(machine, PHASES[phase](), torch.randint(0, 5, (16, 4), generator=generator(3)).double())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("visible", "hidden"),
    [
        ("gaussian", "gaussian"),
        ("gaussian", "relu"),
        ("spin", "double-relu"),
        ("potts", "mixed"),
        ("mixed", "potts"),
        ("truncated-gaussian", "spin"),
    ],
)
def test_masked_couplings(visible: str, hidden: str, phase: str) -> None:
    lower, upper = UNITS[visible](3), UNITS[hidden](3)
    coupling = couplings.Masked(tuple(lower.shape), tuple(upper.shape), degree=2, seed=1)
    machine = rbm(lower, upper, 1, weight=0.3, bias=0.3, coupling=coupling)
    check(machine, PHASES[phase](), some_rows(machine.visible, 16, 2))
    assert not bool(machine.coupling.weight.grad[machine.coupling.mask == 0].any())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(
    ("visible", "hidden"), [("bernoulli", "bernoulli"), ("gaussian", "relu"), ("spin", "binomial")]
)
def test_convolutions(visible: str, hidden: str, padding: int, phase: str) -> None:
    lower = (2, 6, 6)  # the stride skips a row
    upper = couplings.Conv2d.output_shape(lower, 3, kernel=3, stride=2, padding=padding, skip_pixels=True)
    coupling = couplings.Conv2d(lower, upper, kernel=3, stride=2, padding=padding, skip_pixels=True)
    machine = rbm(UNITS[visible](lower), UNITS[hidden](upper), 1, weight=0.2, bias=0.3, coupling=coupling)
    check(machine, PHASES[phase](), some_rows(machine.visible, 16, 2))


def test_frozen_parameters_have_no_gradient() -> None:
    visible, hidden = units.Gaussian(4, learn=("precision",)), units.Bernoulli(3, learn=())
    machine = rbm(visible, hidden, 1, weight=0.3)
    check(machine, hm.PCD(1), some_rows(visible, 16, 2))
    assert set(gradients(machine)) == {"visible.log_precision", "coupling.weight"}
    machine.coupling.weight.requires_grad_(False)
    machine.zero_grad()
    check(machine, hm.CD(1), some_rows(visible, 16, 2))
    assert set(gradients(machine)) == {"visible.log_precision"}


@pytest.mark.parametrize("kind", [*UNITS, "gaussian-visible"])
def test_the_exact_phase_is_the_slope_of_the_likelihood(kind: str) -> None:
    if kind == "gaussian-visible":
        machine = rbm(UNITS["gaussian"](4), units.Bernoulli(3), 1, weight=0.3, bias=0.3)
    else:
        machine = rbm(units.Bernoulli(5), UNITS[kind](3), 1, weight=0.3, bias=0.3)
    data = some_rows(machine.visible, 8, 2)
    step(hm.Exact(), machine, data)
    found = gradients(machine)
    if kind == "gaussian-visible":  # the hidden side is the enumerable one
        states = machine.hidden.enumerate()
        log_z = torch.logsumexp(-machine.hidden_free_energy(states), 0)
    else:
        states = machine.visible.enumerate()
        log_z = torch.logsumexp(-machine.free_energy(states), 0)
    names = [name for name, p in machine.named_parameters() if p.requires_grad]
    loss = machine.free_energy(data).mean() + log_z
    expected = torch.autograd.grad(loss, [p for p in machine.parameters() if p.requires_grad])
    assert_close(found, dict(zip(names, expected, strict=True)), 1e-9)


@dataclass(frozen=True)
class Given(Sampled):
    """A phase with chains that stay at given states."""

    def move(self, rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
        return v


def golden_case(hidden: Unit) -> tuple[RBM, Tensor, Tensor]:
    tensors = {key: torch.tensor(GOLDEN[key], dtype=F64) for key in ("W", "a", "b", "v", "v_prime")}
    machine = RBM(units.Bernoulli(6, bias=tensors["a"]), hidden, couplings.Dense(6, 4, tensors["W"]))
    return machine, tensors["v"], tensors["v_prime"]


@pytest.mark.parametrize("equation", ["4", "6"])
def test_golden_loss_and_gradient(equation: str) -> None:
    """The published L = Σ F(v') - F(v) increases with the likelihood: minus three times the mean loss of three rows."""
    bias = torch.tensor(GOLDEN["b"], dtype=F64)
    if equation == "4":
        machine, v, model = golden_case(units.Bernoulli(4, bias=bias))
        value = GOLDEN["L_eq4"]
        slopes = {f"{name}.bias": GOLDEN["grad_L_eq4"][key] for name, key in (("visible", "a"), ("hidden", "b"))}
        slopes["coupling.weight"] = GOLDEN["grad_L_eq4"]["W"]
    else:
        case = GOLDEN["multinary"]
        hidden = units.Multinary(4, levels=case["N"], scale=case["k"], form="integral", bias=bias)
        machine, v, model = golden_case(hidden)
        value, slopes = case["L_eq6"], {"coupling.weight": case["grad_W"]}
    loss = hm.losses.contrastive(machine, v, model)
    assert -3 * loss.item() == pytest.approx(value, rel=1e-12)
    loss.backward()
    by_autograd = gradients(machine)
    step(Given(), machine, v, start=model)
    by_moments = gradients(machine)
    for name, slope in slopes.items():
        expected = -torch.tensor(slope, dtype=F64) / 3
        torch.testing.assert_close(by_autograd[name], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(by_moments[name], expected, rtol=1e-12, atol=1e-12)


def test_only_the_states_of_the_model_are_held_fixed() -> None:
    machine = rbm(units.Gaussian(3), units.Bernoulli(2), 1, weight=0.3)
    data = torch.randn(4, 3, dtype=F64, generator=generator(0)).requires_grad_()
    model = torch.randn(4, 3, dtype=F64, generator=generator(1)).requires_grad_()
    hm.losses.contrastive(machine, data, model).backward()
    assert model.grad is None
    (expected,) = torch.autograd.grad(machine.free_energy(data).mean(), data)
    assert torch.equal(data.grad, expected)


def test_only_two_layers_for_the_chains_of_an_rbm() -> None:
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(4), units.Bernoulli(3), units.Bernoulli(2)])
    for phase in (hm.CD(1), hm.PCD(1), hm.Exact()):
        with pytest.raises(hm.errors.InvalidOption, match="expects an RBM"):
            hm.fit(deep, torch.ones(10, 4), negative=phase, batch_size=5, centered=False)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1, "chains": 0}])
def test_impossible_phases_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(hm.errors.InvalidOption, match="expected at least 1"):
        hm.PCD(**options)


@pytest.mark.parametrize("centered", [False, True])
def test_a_plain_step_is_the_step_of_the_written_gradient(centered: bool) -> None:
    """The step W ← W - lr·g from the factors equals torch's step with the dense gradient."""
    data = (torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) < 0.4).double()
    ends = []
    for momentum in (0.0, 1e-300):  # a momentum that changes nothing, but needs the gradient in .grad
        machine = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(5)).double()
        hm.fit(
            machine,
            data,
            negative=hm.PCD(2),
            epochs=3,
            batch_size=10,
            centered=centered,
            optimizer=lambda p, momentum=momentum: torch.optim.SGD(p, lr=0.1, momentum=momentum),
            progress=False,
            seed=0,
        )
        ends.append(machine.coupling.weight.detach())
        assert (machine.coupling.weight.grad is None) == (momentum == 0.0)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-10, atol=1e-12)

"""The discriminative negative phase and weighted sums of phases: gradients, strings, checkpoints, transforms."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Generator, Tensor
from training_helpers import step

import harmonium as hm
from harmonium import units
from harmonium.couplings import Masked
from harmonium.errors import InvalidOption
from harmonium.tasks import label_rbm
from harmonium.testing import check_negative_phase
from harmonium.training import Discriminative, Labeled, WeightedSum


def random(machine: hm.RBM, scale: float = 0.5, seed: int = 0) -> hm.RBM:
    source = Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in machine.double().parameters():
            parameter.normal_(0.0, scale, generator=source)
    for coupling in machine.couplings:
        coupling.project()
    return machine


def labeled(features: Tensor, classes: int) -> Tensor:
    labels = torch.randint(classes, (len(features),), generator=Generator().manual_seed(9))
    return torch.cat([features, torch.eye(classes, dtype=torch.float64)[labels]], 1)


def gradient(machine: hm.RBM, phase: hm.training.NegativePhase, data: Tensor) -> dict[str, Tensor]:
    machine.zero_grad()
    state = phase.resolved(len(data)).init(machine, data, Generator().manual_seed(1))
    step(phase, machine, data, Generator().manual_seed(2), state=state)
    return {name: p.grad.clone() for name, p in machine.named_parameters() if p.grad is not None}


def loss(machine: hm.RBM, data: Tensor, classes: int) -> Tensor:
    """-ln p(label | features) from free energies of copies of the rows."""
    eye = torch.eye(classes, dtype=data.dtype)
    features = data[:, :-classes]
    every = [machine.free_energy(torch.cat([features, state.expand(len(data), classes)], 1)) for state in eye]
    return (machine.free_energy(data) + torch.logsumexp(-torch.stack(every), 0)).mean()


HIDDEN = {
    "bernoulli": units.Bernoulli(4),
    "shared": units.Bernoulli(4, shared=(0,)),
    "gaussian": units.Gaussian(4, learn=("bias", "precision")),
    "relu": units.ReLU(4, learn=("bias", "precision")),
    "potts": units.Potts((2, 3)),
    "binomial": units.Binomial(4, trials=3),
}
FEATURES = {
    "bernoulli": units.Bernoulli(3),
    "gaussian": units.Gaussian(3, learn=("bias", "precision")),
    "mixed": units.Mixed(units.Spin(2), units.Potts((1, 3))),
}


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("features", FEATURES)
def test_moments_are_the_gradient_of_the_loss(features, hidden):
    machine = random(label_rbm(copy.deepcopy(FEATURES[features]), 4, copy.deepcopy(HIDDEN[hidden])), 0.3)
    layer = machine.visible.parts[0] if features != "mixed" else FEATURES["mixed"].double()
    x = layer.sample(torch.zeros(7, *layer.shape, dtype=torch.float64), generator=Generator().manual_seed(3)).detach()
    data = labeled(x.flatten(1), 4)
    found = gradient(machine, Discriminative(), data)
    machine.zero_grad()
    value = loss(machine, data, 4)
    value.backward()
    assert set(found) == {name for name, _ in machine.named_parameters()}
    for name, parameter in machine.named_parameters():
        torch.testing.assert_close(
            found[name], parameter.grad, rtol=1e-9, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
        )
    torch.testing.assert_close(hm.losses.discriminative(machine, data), value, rtol=1e-12, atol=1e-12)


def test_finite_differences():
    machine = random(label_rbm(units.Bernoulli(3), 3, 2))
    data = labeled(torch.tensor([[1.0, 0, 1], [0, 0, 1], [1, 1, 1]], dtype=torch.float64), 3)
    found = gradient(machine, Discriminative(), data)
    step = 1e-5
    for name, parameter in machine.named_parameters():
        numeric = torch.empty_like(parameter)
        for k in range(parameter.numel()):
            flat = parameter.data.view(-1)
            before = flat[k].item()
            values = []
            for sign in (1, -1):
                flat[k] = before + sign * step
                values.append(loss(machine, data, 3).item())
            flat[k] = before
            numeric.view(-1)[k] = (values[0] - values[1]) / (2 * step)
        torch.testing.assert_close(found[name], numeric.detach(), rtol=1e-6, atol=1e-9)


def test_a_masked_coupling_and_another_part():
    layer = units.Mixed(units.Binomial(1, trials=2), units.Bernoulli(4))
    mask = torch.rand(5, 3, generator=Generator().manual_seed(0)) < 0.7
    machine = random(hm.RBM(layer, 3, Masked(5, 3, mask=mask)))
    data = machine.visible.enumerate()[:20]
    for phase in (Discriminative(part=0), WeightedSum([(1, Discriminative(part=0)), (0.3, hm.Exact())])):
        found = gradient(machine, phase, data)
        machine.zero_grad()
        value = hm.losses.discriminative(machine, data, part=0)
        if isinstance(phase, WeightedSum):
            value = value - 0.3 * (
                -machine.free_energy(data).mean()
                - torch.logsumexp(-machine.free_energy(machine.visible.enumerate()), 0)
            )
        value.backward()
        for name, parameter in machine.named_parameters():
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            torch.testing.assert_close(found[name], expected, rtol=1e-9, atol=1e-12)
        machine.zero_grad()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["discriminative", "0.5*discriminative+2*pcd:1", "exact+cd:1"])
def test_conformance(text):
    check_negative_phase(hm.Plan(negative=text).negative, random(label_rbm(units.Bernoulli(3), 3, 3), 1.0, seed=1))


@torch.no_grad()
def test_the_sum_is_the_sum():
    machine = random(label_rbm(units.Bernoulli(3), 3, 2))
    data = labeled(torch.ones(6, 3, dtype=torch.float64), 3)
    terms = [(0.7, Discriminative()), (0.2, hm.CD(2)), (1.5, hm.Exact())]
    expected = {name: torch.zeros_like(p) for name, p in machine.named_parameters()}
    source = Generator().manual_seed(2)
    for weight, phase in terms:
        machine.zero_grad()
        step(phase, machine, data, source)
        for name, parameter in machine.named_parameters():
            expected[name] += weight * parameter.grad
    found = gradient(machine, WeightedSum(terms), data)
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name].detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"optimizer": "adam"}, {"penalties": [hm.L2(1e-3)], "centered": False}],
    ids=["sgd", "adam", "transforms"],
)
def test_resume_is_bitwise(options, tmp_path):
    data = Labeled(*hm.data.load("digits", binarize="threshold", labels=True))

    def train(epochs: int, run: str, **more: bool) -> dict[str, Tensor]:
        machine = label_rbm(units.Bernoulli(64), 10, 6)
        hm.fit(
            machine, data, negative="discriminative+0.1*pcd:1", epochs=epochs, schedule="constant", run=tmp_path / run,
            progress=False, seed=0, **options, **more,
        )  # fmt: skip
        return machine.state_dict()

    whole = train(4, "whole")
    train(2, "part")
    again = train(4, "part", resume=True)
    assert all(torch.equal(value, again[name]) for name, value in whole.items())


def test_the_features_keep_their_biases_without_centering():
    """p(label | features) does not depend on them."""
    x, y = hm.data.load("digits", binarize="threshold", labels=True)
    machine = label_rbm(units.Bernoulli(64), 10, 4)
    machine.initialize(Labeled(x, y).rows(torch.arange(len(x)), machine), seed=0)
    before = machine.visible.parts[0].bias.detach().clone()
    hm.fit(machine, Labeled(x, y), negative="discriminative", epochs=1, centered=False, progress=False)
    assert torch.equal(before, machine.visible.parts[0].bias)


def test_a_machine_that_only_classifies_is_not_judged_as_a_model_of_the_data(recwarn):
    x, y = hm.data.load("digits", binarize="threshold", labels=True)
    hm.fit(label_rbm(units.Bernoulli(64), 10, 4), Labeled(x, y), negative="discriminative", epochs=1, progress=False)
    assert not [w for w in recwarn if issubclass(w.category, hm.errors.NotLearned)]


def test_strings():
    phase = hm.Plan(negative="discriminative + 0.01*pcd:2,chains=7").negative
    assert phase == WeightedSum([(1.0, Discriminative()), (0.01, hm.PCD(2, chains=7))])
    assert hm.Plan(negative="hybrid:0.01").negative == WeightedSum([(1.0, Discriminative()), (0.01, hm.CD(1))])
    for text, message in [
        ("discriminative+x*cd:1", r"expected terms such as 0.01\*cd:1, found 'x\*cd:1'"),
        ("discriminative+-1*cd:1", "terms: expected positive weights, found -1"),
        ("discriminative+cd:1+", "unknown negative phase ''"),
        ("discriminative:x", "part: expected a whole number, found 'x'"),
    ]:
        with pytest.raises(InvalidOption, match=message):
            hm.Plan(negative=text)
    with pytest.raises(InvalidOption, match=r"terms: expected pairs such as \(0.1, harmonium.CD\(1\)\), found \[\]"):
        WeightedSum([])
    with pytest.raises(InvalidOption, match="expects an RBM"):
        hm.fit(hm.DeepBoltzmannMachine([4, 3, 2]), torch.ones(4, 4), negative="discriminative", epochs=1)


def test_schedules_set_k_of_every_term():
    phase = WeightedSum([(1, hm.CD(1)), (1, hm.PCD(3)), (1, Discriminative())])
    assert phase.with_sweeps(5) == WeightedSum([(1, hm.CD(5)), (1, hm.PCD(5)), (1, Discriminative())])

"""The classification RBM: exact probabilities of the label, training, class-conditional samples, errors."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.machines import Label
from harmonium.tasks import LabelClassifier, fit_classifier, label_rbm

DATA, LABELS = hm.data.load("digits", binarize="threshold", labels=True)


def random(machine: hm.RBM, scale: float = 0.8, seed: int = 0) -> hm.RBM:
    source = Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in machine.double().parameters():
            parameter.normal_(0.0, scale, generator=source)
    return machine


FEATURES = {
    "bernoulli": lambda: units.Bernoulli(3),
    "spin": lambda: units.Spin(3),
    "gaussian": lambda: units.Gaussian(3),
    "potts": lambda: units.Potts((2, 3)),
    "multinomial": lambda: units.Multinomial(3),
    "poisson": lambda: units.Poisson(3),
    "mixed": lambda: units.Mixed(units.Gaussian(2), units.Potts((1, 2)), units.Bernoulli(1)),
}
HIDDEN = {
    "bernoulli": lambda: units.Bernoulli(4),
    "spin": lambda: units.Spin(4),
    "relu": lambda: units.ReLU(4),
    "gaussian": lambda: units.Gaussian(4),
    "potts": lambda: units.Potts((2, 3)),
    "binomial": lambda: units.Binomial(4, trials=3),
}


def rows_of(features: str, n: int) -> Tensor:
    source = Generator().manual_seed(5)
    layer = FEATURES[features]().double()
    if features == "multinomial":
        return torch.randint(4, (n, 3), generator=source).double()
    return layer.sample(torch.zeros(n, *layer.shape, dtype=torch.float64), generator=source).detach().flatten(1)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("features", FEATURES)
def test_probabilities_are_those_of_the_free_energy(features, hidden):
    """p(y | x) is e^{-F(x, y)} divided by its sum over y."""
    machine = random(label_rbm(FEATURES[features](), 5, HIDDEN[hidden]()), 0.4)
    x = rows_of(features, 6)
    found = LabelClassifier(machine).predict_proba(x)
    eye = torch.eye(5, dtype=torch.float64)
    energies = torch.stack([machine.free_energy(torch.cat([x, eye[y].expand(6, 5)], 1)) for y in range(5)], 1)
    torch.testing.assert_close(found, torch.softmax(-energies, 1).detach(), rtol=1e-9, atol=1e-12)


def test_probabilities_equal_enumeration():
    """p(y | x) from the joint distribution of all states of both layers."""
    machine = random(label_rbm(units.Bernoulli(3), 4, 2))
    v, h = machine.visible.enumerate(), machine.hidden.enumerate()
    energy = torch.stack([machine.energy(v, state.expand(len(v), 2)) for state in h], 1)
    joint = torch.softmax(-energy.flatten(), 0).view_as(energy).sum(1).detach()
    table = {tuple(state.tolist()): p for state, p in zip(v, joint, strict=True)}
    x = units.Bernoulli(3).double().enumerate()
    found = LabelClassifier(machine).predict_proba(x)
    for row, probabilities in zip(x, found, strict=True):
        exact = torch.stack([table[(*row.tolist(), *label.tolist())] for label in torch.eye(4)])
        torch.testing.assert_close(probabilities, exact / exact.sum(), rtol=1e-12, atol=1e-12)


def test_any_part_with_few_states_can_be_the_label():
    layer = units.Mixed(units.Binomial(1, trials=2), units.Bernoulli(3), units.Potts((1, 4)))
    machine = random(hm.RBM(layer, 3))
    found = LabelClassifier(machine, part=0)
    v = layer.double().enumerate()
    p = found.label.log_probability(machine, v).exp()
    assert found.label.states.flatten().tolist() == [0, 1, 2] and p.shape == (len(v), 3)
    energies = torch.stack(
        [machine.free_energy(torch.cat([torch.full_like(v[:, :1], k), v[:, 1:]], 1)) for k in range(3)], 1
    )
    torch.testing.assert_close(p, torch.softmax(-energies, 1))
    assert torch.equal(found.label.index(v), v[:, 0].long())
    assert found.predict_proba(v[:, 1:]).shape == (len(v), 3)  # the features are the other parts


@pytest.mark.slow
def test_class_conditional_samples_have_the_exact_distribution():
    machine = random(label_rbm(units.Bernoulli(3), 3, 2), 1.0)
    n = 20_000
    v, log_p = machine.distribution()
    for label in range(3):
        drawn = LabelClassifier(machine).sample([label] * n, sweeps=30, seed=label, check_mixing=False)
        own = v[:, 3 + label] == 1
        p = torch.softmax(log_p[own], 0)
        same = (drawn.unsqueeze(1) == v[own, :3]).all(2)
        assert bool(same.any(1).all())
        error = (p * (1 - p) / n).sqrt()
        assert bool(((same.double().mean(0) - p).abs() < 4.5 * error).all())


# -- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        "hybrid",
        pytest.param("discriminative", marks=pytest.mark.slow),
        pytest.param("generative", marks=pytest.mark.slow),
    ],
)
def test_training(objective):
    machine = label_rbm(units.Bernoulli(64), 10, 20)
    found = fit_classifier(
        machine, DATA[:400], LABELS[:400], objective=objective, epochs=12, batch_size=20, learning_rate=0.02,
        progress=False, )  # fmt: skip
    assert found.error(DATA[400:], LABELS[400:]) < 0.35  # 90 % of rows would be wrong by chance
    assert found.error(DATA[:400], LABELS[:400]) < 0.12
    table = found.confusion(DATA[400:], LABELS[400:])
    assert table.sum() == len(DATA) - 400 and torch.equal(table.sum(1), LABELS[400:].bincount(minlength=10))
    wrong = 1 - table.diagonal().sum() / table.sum()
    assert found.error(DATA[400:], LABELS[400:]) == pytest.approx(wrong.item())
    assert len(found.history) == 12


@pytest.mark.slow
def test_validation_chooses_the_epoch():
    machine = label_rbm(units.Bernoulli(64), 10, 10)
    held_out = (DATA[1000:], LABELS[1000:])
    found = fit_classifier(
        machine, DATA[:200], LABELS[:200], objective="discriminative", epochs=60, batch_size=20, validation=held_out,
        patience=3, optimizer="sgd", learning_rate=2.0, schedule="constant", progress=False, seed=0,
    )  # fmt: skip
    errors = [row["validation_error"] for row in found.history]
    assert found.error(*held_out) == min(errors) < errors[-1]
    assert len(errors) < 60 and len(errors) - 1 - errors.index(min(errors)) == 3


def test_gray_values_are_redrawn_in_training_and_used_as_they_are_in_predictions():
    gray = hm.data.load("digits")
    machine = label_rbm(units.Bernoulli(64), 10, 20)
    found = fit_classifier(
        machine, hm.Redrawn(gray[:300]), LABELS[:300], epochs=8, batch_size=20, learning_rate=0.02, progress=False
    )
    assert found.error(gray[:300], LABELS[:300]) < 0.2


def test_a_label_needs_no_training_code_of_its_own(tmp_path):
    """The label is an ordinary part of the layer: saved and loaded with the machine."""
    machine = random(label_rbm(units.Bernoulli(4), 3, 2))
    hm.save(machine, tmp_path / "machine.safetensors")
    again = LabelClassifier(hm.load(tmp_path / "machine.safetensors"))
    x = torch.ones(2, 4, dtype=torch.float64)
    assert torch.equal(again.predict_proba(x), LabelClassifier(machine).predict_proba(x))


# -- errors -------------------------------------------------------------------------------------------------------


def test_errors():
    machine, x = label_rbm(units.Bernoulli(4), 3, 2), torch.zeros(5, 4)
    found = LabelClassifier(machine)
    good = [0, 1, 2, 0, 1]
    for wrong, labels, message in [
        (InvalidData, [0, 1, 3, 0, 1], "labels: expected whole numbers from 0 to 2, found 3 in row 2"),
        (InvalidData, [0, -1, 2, 0, 1], "labels: expected whole numbers from 0 to 2, found -1 in row 1"),
        (InvalidData, [0, 1], r"labels: expected shape \(5,\), one label for each row, found \(2,\)"),
        (InvalidData, [0.5] * 5, "labels: expected whole numbers, found fractions"),
    ]:
        with pytest.raises(wrong, match=message):
            fit_classifier(machine, x, labels, epochs=1)
    with pytest.raises(
        InvalidOption, match=r"expected a visible layer with features and a label.*found Bernoulli\(\(4,\)"
    ):
        fit_classifier(hm.RBM(4, 2), x, good)
    with pytest.raises(InvalidOption, match="expected a visible layer with features and a label"):
        Label(hm.RBM(units.Potts((1, 4)), 2))
    with pytest.raises(InvalidOption, match="expected an RBM with a label, found DeepBoltzmannMachine"):
        Label(hm.DeepBoltzmannMachine([4, 3, 2]))  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="part: expected a number from 0 to 1 of two or more parts, found 2"):
        Label(machine, 2)
    with pytest.raises(InvalidOption, match="part: expected a part with at most 10000 states"):
        Label(label_rbm(units.Gaussian(2), 3, 2), 0)
    with pytest.raises(InvalidData, match=r"data: expected rows of 4 features, found 5 of shape \(3,\)"):
        found.predict(torch.zeros(5, 3))
    with pytest.raises(InvalidData, match="labels: expected one for each of 5 rows, found 4"):
        found.error(x, [0, 1, 2, 0])
    with pytest.raises(InvalidData, match=r"labels: expected one of \[0, 1, 2\], found 7"):
        found.confusion(x, [7] * 5)
    with pytest.raises(InvalidData, match=r"expected one of the 3 states of the label, found .* in row 0"):
        hm.losses.discriminative(machine, torch.zeros(1, 7))
    with pytest.raises(InvalidOption, match="unknown objective 'hybird': did you mean 'hybrid'"):
        fit_classifier(machine, x, good, objective="hybird")
    with pytest.raises(InvalidOption, match="alpha: expected a positive number, found 0"):
        fit_classifier(machine, x, good, alpha=0.0)
    with pytest.raises(InvalidOption, match=r"patience: expected at least 1 and validation=\(rows, labels\), found 3"):
        fit_classifier(machine, x, good, patience=3)
    with pytest.raises(InvalidData, match="labels: expected whole numbers from 0 to 2, found 5 in row 0"):
        found.sample([5])

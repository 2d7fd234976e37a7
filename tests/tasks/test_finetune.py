"""Machines as feedforward networks, and their fine-tuning with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import harmonium as hm
from harmonium import units
from harmonium.couplings import Conv2d, Dense, Masked
from harmonium.tasks import finetune, to_sequential


def random(machine: Any, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in machine.double().parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
        for coupling in machine.couplings:
            coupling.project()
    return machine


def convolutional() -> hm.DeepBeliefNetwork:
    lower = hm.RBM(units.Bernoulli((1, 6, 6)), units.Bernoulli((4, 4, 4)), Conv2d((1, 6, 6), (4, 4, 4), kernel=3))
    return hm.DeepBeliefNetwork([lower, hm.RBM(64, 5)])


MACHINES = {
    "rbm": lambda: hm.RBM(6, 4),
    "stack": lambda: hm.DeepBeliefNetwork.of([6, units.Spin(5), 4]),
    "convolution": convolutional,
    "dense below convolution": lambda: hm.DeepBeliefNetwork(
        [hm.RBM(6, 16), hm.RBM(units.Bernoulli((1, 4, 4)), (2, 3, 3), Conv2d((1, 4, 4), (2, 3, 3), kernel=2))]
    ),
    "mask": lambda: hm.RBM(6, 4, Masked(6, 4, degree=2)),
    "images": lambda: hm.RBM((2, 3), (2, 2), Dense((2, 3), (2, 2))),
    "relu": lambda: hm.RBM(6, units.ReLU(4)),
    "gaussian": lambda: hm.RBM(6, units.Gaussian(4)),
    "potts": lambda: hm.RBM(6, units.Potts((2, 3))),
    "multinary": lambda: hm.RBM(6, units.Multinary(4, levels=5)),
    "mixed": lambda: hm.RBM(6, units.Mixed(units.Bernoulli(3), units.Potts((1, 3)))),
}


@pytest.mark.parametrize("name", MACHINES)
def test_the_network_computes_the_features(name):
    machine = random(MACHINES[name]())
    network = to_sequential(machine)
    x = torch.rand(7, *machine.visible.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = machine.features(x) if isinstance(machine, hm.DeepBeliefNetwork) else machine.hidden_mean(x)
    with torch.no_grad():
        torch.testing.assert_close(network(x), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(to_sequential(machine, 3)(x), torch.zeros(7, 3, dtype=torch.float64))
    loss = network(x).square().mean()
    loss.backward()
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)
    assert all(p.grad is None for p in machine.parameters())  # the network has its own parameters


def test_the_modules_are_those_of_torch():
    kinds = [type(module) for module in to_sequential(convolutional(), 10, dropout=(0.2, 0.5, 0.0))]
    assert kinds == [
        nn.Dropout, nn.Conv2d, nn.Sigmoid, nn.Dropout, nn.Flatten, nn.Linear, nn.Sigmoid, nn.Linear,
    ]  # fmt: skip
    unequal = [type(module).__name__ for module in to_sequential(random(convolutional()))]
    assert unequal[:2] == ["Conv2d", "Shift"]  # a bias for each position


DATA, LABELS = hm.data.load("digits", binarize="threshold", labels=True)


def pretrained() -> hm.DeepBeliefNetwork:
    network = hm.DeepBeliefNetwork.of([64, 32, 16], inputs="means")
    hm.pretrain(network, DATA[:1000], epochs=10, learning_rate=0.1, batch_size=10, progress=False)
    return network


@pytest.mark.slow
def test_fine_tuning():
    network = pretrained()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    found = finetune(network, DATA[:1000], LABELS[:1000], epochs=20, batch_size=20, learning_rate=0.01, seed=1)
    assert found.error(DATA[1000:], LABELS[1000:]) < 0.22  # 90 % of rows would be wrong by chance
    assert found.error(DATA[:1000], LABELS[:1000]) < 0.02
    assert found.history[-1]["loss"] < 0.5 * found.history[0]["loss"]
    probabilities = found.predict_proba(DATA[:5])
    assert probabilities.shape == (5, 10)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(5))
    assert torch.equal(found.predict(DATA[:5]), found.classes[probabilities.argmax(1)])
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_the_same_seed_gives_the_same_network():
    state = torch.get_rng_state()
    options = {"epochs": 2, "dropout": 0.5}
    a, b, c = (finetune(random(hm.RBM(64, 8)), DATA[:200], LABELS[:200], seed=seed, **options) for seed in (1, 1, 2))
    assert torch.equal(a.network[0].weight, b.network[0].weight)
    assert not torch.equal(a.network[0].weight, c.network[0].weight)
    assert torch.equal(state, torch.get_rng_state())  # dropout does not touch the state of torch's generator


@pytest.mark.slow
def test_validation_chooses_the_epoch():
    held_out = (DATA[1000:], LABELS[1000:])
    found = finetune(
        random(hm.RBM(64, 8)), DATA[:200], LABELS[:200], epochs=40, optimizer=lambda p: torch.optim.SGD(p, 5.0),
        schedule="constant", validation=held_out, patience=3,
    )  # fmt: skip
    errors = [row["validation_error"] for row in found.history]
    assert found.error(*held_out) == min(errors) < errors[-1]
    assert len(errors) < 40 and len(errors) - 1 - errors.index(min(errors)) == 3


def test_rows_are_read_in_batches(monkeypatch):
    seen: list[int] = []

    class Rows:
        """A torch data set that is never asked for all rows at once."""

        def __len__(self) -> int:
            return 300

        def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
            seen.append(index)
            return DATA[index].numpy(), int(LABELS[index])

    found = finetune(hm.RBM(64, 8), Rows(), LABELS[:300].numpy().astype(np.uint8), epochs=2, batch_size=50)
    assert len(seen) == 1 + 2 * 300 and sorted(seen[1:301]) == list(range(300))
    assert found.predict(DATA[:3]).dtype == torch.int64


@pytest.mark.slow
def test_labels_need_not_count_from_zero():
    labels = torch.tensor([7, -2]).repeat(50)
    data = torch.tensor([[1.0, 0], [0, 1]]).repeat(50, 1)
    found = finetune(hm.RBM(2, 3), data, labels, epochs=30, learning_rate=0.1, batch_size=10)
    assert found.classes.tolist() == [-2, 7] and found.error(data, labels) == 0
    assert finetune(hm.RBM(2, 3), data, labels.float(), epochs=1).classes.tolist() == [-2, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": LABELS[:5]}, r"labels: expected shape \(10,\)"),
        ({"labels": LABELS[:10] + 0.5}, "whole numbers, found fractions"),
        ({"epochs": 0}, "epochs, batch_size, patience: expected at least 1"),
        ({"validation": DATA}, r"validation: expected a pair \(rows, labels\), found Tensor"),
        ({"dropout": 1.0}, r"dropout: expected a probability in \[0, 1\)"),
        ({"dropout": (0.1, 0.2, 0.3)}, "one for each of 2 layers"),
        ({"learning_rate": 0.1, "optimizer": torch.optim.Adam}, "learning_rate: expected None"),
        ({"data": DATA[:10, :5]}, "data: expected rows of shape"),
        ({"machine": hm.DeepBoltzmannMachine([64, 4, 3])}, "expected an RBM or a deep belief network"),
    ],
)
def test_errors(options, message):
    given = {"machine": hm.RBM(64, 4), "data": DATA[:10], "labels": LABELS[:10], "epochs": 1, **options}
    with pytest.raises((hm.errors.InvalidOption, hm.errors.InvalidData), match=message):
        finetune(**given)


def test_divergence_is_reported():
    with pytest.raises(hm.errors.Diverged, match="smaller learning rate"):
        finetune(
            random(hm.RBM(64, units.Gaussian(8))).float(), DATA[:100], LABELS[:100], optimizer="sgd", learning_rate=1e30
        )

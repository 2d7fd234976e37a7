"""Any optimizer in centered coordinates: with exact gradients and a small learning rate the likelihood increases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_helpers import binary, draw, log_likelihood, parameters

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.training.batches import as_source
from harmonium.training.callbacks import Callback, Progress
from harmonium.training.loop import Training
from harmonium.training.penalties import Penalty

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.002, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.002, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.002),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.002, weight_decay=0.0),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.001),
    "two-rates": lambda p: torch.optim.SGD([{"params": [x], "lr": 0.02 / (1 + k)} for k, x in enumerate(p)]),
}


class Likelihoods(Callback):
    """The exact log-likelihood after every epoch."""

    def __init__(self, data: Tensor) -> None:
        self.data, self.values = data, []

    def on_start(self, progress: Progress) -> None:
        self.values.append(log_likelihood(progress.machine, self.data))

    def on_epoch(self, progress: Progress) -> None:
        self.values.append(log_likelihood(progress.machine, self.data))


def likelihoods(machine: hm.RBM, data: Tensor, epochs: int, make: Make, centered: float | bool) -> list[float]:
    """The likelihood after every step of full-batch training with the exact gradient."""
    seen = Likelihoods(data)
    hm.fit(machine, data, negative=hm.Exact(), epochs=epochs, batch_size=len(data), optimizer=make, callbacks=[seen],
           centered=centered, initialize="keep", progress=False)  # fmt: skip
    return seen.values


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "momentum"])
@pytest.mark.slow
def test_long_training_does_not_fall_from_its_maximum(optimizer: str) -> None:
    """With centering applied to the gradient only, Adam lost 0.02 nats here."""
    make = {
        "adam": lambda p: torch.optim.Adam(p, lr=0.02),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.002),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    }[optimizer]
    data = draw(binary(6, 3, seed=1, weight=2.0), 500)
    machine = hm.RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
    machine.initialize(data, scale=0.5, seed=1)
    values = likelihoods(machine, data, 200, make, True)
    assert values[-1] > values[0] + 0.05
    assert max(values) - values[-1] < 1e-4


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_centered_steps_are_those_of_the_optimizer_on_centered_parameters(optimizer: str) -> None:
    """Against the same optimizer on (W, b̃, c̃) by automatic differentiation, with fixed offsets."""
    data = draw(binary(5, 3, seed=1), 60)
    machine = binary(5, 3, seed=2)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 5)
    weight, b, c = (p.detach().clone() for p in (machine.coupling.weight, machine.visible.bias, machine.hidden.bias))
    mu = data.mean(0)
    lam = torch.sigmoid(mu @ weight + c)
    order = [name for name, _ in machine.named_parameters()]
    values = {
        "visible.bias": (b + weight @ lam).requires_grad_(),
        "hidden.bias": (c + mu @ weight).requires_grad_(),
        "coupling.weight": weight.requires_grad_(),
    }
    assert set(order) == set(values)
    stepped = OPTIMIZERS[optimizer]([values[name] for name in order])

    def plain() -> tuple[Tensor, Tensor, Tensor]:
        w = values["coupling.weight"]
        return w, values["visible.bias"] - w @ lam, values["hidden.bias"] - mu @ w

    def free_energy(v: Tensor) -> Tensor:
        w, b, c = plain()
        return -v @ b - torch.nn.functional.softplus(v @ w + c).sum(1)

    for _ in range(20):
        stepped.zero_grad()
        (free_energy(data).mean() + torch.logsumexp(-free_energy(states), 0)).backward()
        stepped.step()
    likelihoods(machine, data, 20, OPTIMIZERS[optimizer], 1e-300)  # offsets that do not change
    found = parameters(machine)
    for name, value in zip(("coupling.weight", "visible.bias", "hidden.bias"), plain(), strict=True):
        torch.testing.assert_close(found[name], value.detach(), rtol=1e-9, atol=1e-11)


def test_momentum_moves_with_the_offsets() -> None:
    """The momentum after a move of the offsets is the average of the past gradients at the new offsets."""
    machine = hm.RBM(units.Mixed(units.Bernoulli(3), units.Spin(2)), units.Bernoulli(3)).double()
    machine.initialize(scale=0.7, seed=3)
    data = torch.cat([torch.ones(4, 3), 2 * torch.eye(4)[:, :2] - 1], 1).double()
    optimizer = torch.optim.SGD(machine.parameters(), lr=0.01, momentum=0.9)
    plain, mapped = [], None

    @dataclass(frozen=True)
    class Plain(Penalty):
        """Record the gradient before it is centered."""

        strength: float = 0.0

        def add(self, machine: Any, gradient: Any, *rest: Any) -> None:
            values = {**gradient.units, machine.weight: gradient.couplings[0].dense()}
            plain.append([values[p].clone() for p in machine.parameters()])

    source = as_source(data, machine)
    plan = hm.Plan(negative="exact", epochs=6, batch_size=4, optimizer=optimizer, penalties=[Plain()], centered=0.5)
    training = Training(machine, source, plan.resolved(machine, source), initialize=False, progress=False)
    training.train()
    mu, lam = training.learners[0].coordinates.state()["used"]
    for gradient in plain:
        b, spin_b, c, weight = gradient
        b = torch.cat([b, spin_b])
        weight = weight - torch.outer(mu, c) - torch.outer(b, lam)
        mapped = weight if mapped is None else 0.9 * mapped + weight
    torch.testing.assert_close(optimizer.state[machine.coupling.weight]["momentum_buffer"], mapped)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_centered_momentum_resumes_bit_for_bit(optimizer: str, tmp_path: Path) -> None:
    data = draw(binary(5, 3, seed=1), 60)

    class Stop(Callback):
        def on_epoch(self, progress: Progress) -> None:
            progress.stop = progress.epoch == 2

    def train(folder: str, **options: Any) -> dict[str, Tensor]:
        machine = binary(5, 3, seed=2)
        hm.fit(machine, data, epochs=5, batch_size=20, optimizer=OPTIMIZERS[optimizer], run=tmp_path / folder,
               progress=False, seed=0, **options)  # fmt: skip
        return parameters(machine)

    whole = train("whole")
    train("parts", callbacks=[Stop()])
    resumed = train("parts", resume=True)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_centering_expects_the_biases_among_the_parameters_of_the_optimizer() -> None:
    machine = binary(5, 3, seed=2)
    optimizer = torch.optim.Adam([machine.coupling.weight], lr=0.01)
    with pytest.raises(InvalidOption, match="every bias to be learned, found a fixed bias in layer 0"):
        hm.fit(machine, draw(machine, 20), optimizer=optimizer, progress=False)
    hm.fit(machine, draw(machine, 20), optimizer=optimizer, centered=False, epochs=1, progress=False)

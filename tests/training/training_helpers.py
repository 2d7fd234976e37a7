"""Small machines, data drawn from them exactly, and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium.machines import RBM, BoltzmannMachine
from harmonium.training.gradient import Gradient
from harmonium.training.negative import Batch, NegativePhase
from harmonium.units import Unit

F64 = torch.float64


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randomize(
    machine: BoltzmannMachine, seed: int, weight: float = 1.0, bias: float = 0.5, others: float = 0.1
) -> None:
    """Normal weights and biases; other natural parameters are changed slightly."""
    noise = generator(seed)
    with torch.no_grad():
        for name, parameter in machine.named_parameters():
            change = torch.empty_like(parameter).normal_(generator=noise)
            if "weight" in name:
                parameter.copy_(weight * change)
            elif name.endswith("bias"):
                parameter.copy_(bias * change)
            else:
                parameter.add_(others * change)
    for coupling in machine.couplings:
        coupling.project()


def rbm(visible: Unit, hidden: Unit, seed: int = 0, *, weight: float = 1.0, bias: float = 0.5, **kwargs: Any) -> RBM:
    """A machine in float64 with random parameters."""
    machine = RBM(visible, hidden, **kwargs).double()
    randomize(machine, seed, weight, bias)
    return machine


def binary(visible: int = 6, hidden: int = 3, seed: int = 0, **kwargs: Any) -> RBM:
    return rbm(hm.units.Bernoulli(visible), hm.units.Bernoulli(hidden), seed, **kwargs)


def draw(machine: RBM, n: int, seed: int = 0) -> Tensor:
    """Exact draws of the visible layer, by enumeration."""
    states, log_p = machine.distribution()
    return states[torch.multinomial(log_p.exp(), n, replacement=True, generator=generator(seed))]


def log_likelihood(machine: RBM, data: Tensor) -> float:
    return hm.likelihood.exact(machine).log_likelihood(data).value


def sgd(lr: float, **options: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, **options)


def adam(lr: float) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adam(parameters, lr=lr)


def parameters(machine: BoltzmannMachine) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in machine.named_parameters()}


def gradients(machine: BoltzmannMachine) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in machine.named_parameters() if p.grad is not None}


def step(
    phase: NegativePhase,
    machine: BoltzmannMachine,
    data: Tensor,
    noise: torch.Generator | None = None,
    *,
    start: Tensor | None = None,
    state: dict[str, Any] | None = None,
    context: Tensor | None = None,
) -> tuple[Gradient, dict[str, Any]]:
    """One step of a phase; the gradient is also written to ``.grad``. Returns the gradient and the next state."""
    phase = phase.resolved(len(data))
    with torch.no_grad():
        state = phase.init(machine, data if start is None else start, noise) if state is None else state
        gradient, state = phase.step(machine, Batch(data, context), state, noise)
    slope = gradient.loss  # of the states of this step
    gradient.write()
    gradient.loss = slope
    return gradient, state


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Assert bit-for-bit equality."""
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def assert_close(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")

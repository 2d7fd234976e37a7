"""Conformance checks of a coupling: up, down, correlate and squared belong to the same matrix."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path

import torch
from torch import Generator, Tensor

from ..couplings import Coupling
from ..files import load, save
from ..machines import RBM
from ..units import Bernoulli
from .report import Subject

F64 = torch.float64


def check_coupling(coupling: Coupling, *, seed: int = 0) -> None:
    """Check that an instance of :class:`~harmonium.couplings.Coupling` fulfills the contract.

    With random weights in float64: ``up`` and ``down`` are products with :meth:`~Coupling.matrix` and its transpose,
    ``correlate`` is the gradient of x·W·y, ``squared`` has the elementwise square of the matrix, the in-place forms
    equal the plain ones, and configuration and files restore the coupling. The coupling itself is not changed.

    Raises:
        AssertionError: with the name of the check, the expected and the actual value.

    >>> from harmonium.couplings import Conv2d
    >>> check_coupling(Conv2d((1, 4, 4), (2, 3, 3), kernel=2))
    """
    generator = Generator().manual_seed(seed)
    trial = copy.deepcopy(coupling).double()
    trial.initialize(1.0, generator=generator)
    x, y = (torch.randn(5, *shape, generator=generator, dtype=F64) for shape in (coupling.lower, coupling.upper))
    subject = Subject("check_coupling", type(coupling).__name__)
    for check in (transposes, gradient, squares, weights, in_place):
        check(subject, trial, x, y)
    _initialization(subject, trial)
    _files(subject, trial, x)


def transposes(subject: Subject, coupling: Coupling, x: Tensor, y: Tensor) -> None:
    """``up`` and ``down`` are products with the same matrix."""
    matrix = coupling.matrix()
    subject.equal("shape of matrix", tuple(matrix.shape), (coupling.lower.numel(), coupling.upper.numel()))
    subject.equal("shape of up", tuple(coupling.up(x).shape), tuple(y.shape))
    subject.equal("shape of down", tuple(coupling.down(y).shape), tuple(x.shape))
    subject.close("up is the product with the matrix", coupling.up(x).flatten(1), x.flatten(1) @ matrix, 1e-7)
    subject.close("down is the product with the transpose", coupling.down(y).flatten(1), y.flatten(1) @ matrix.T, 1e-7)
    subject.close("up and down are adjoint", (coupling.up(x) * y).sum(), (x * coupling.down(y)).sum(), 1e-7)
    nothing = coupling.up(x[:0]), coupling.down(y[:0])
    subject.equal("shape of up and down of no rows", tuple(map(len, nothing)), (0, 0))


def gradient(subject: Subject, coupling: Coupling, x: Tensor, y: Tensor) -> None:
    """``correlate`` is the derivative of Σ x·W·y with respect to ``weight``, computed through ``up`` or ``down``."""
    (expected,) = torch.autograd.grad((coupling.up(x) * y).sum(), coupling.weight)
    (through_down,) = torch.autograd.grad((coupling.down(y) * x).sum(), coupling.weight)
    subject.close("down is differentiable in weight", through_down, expected, 1e-7)
    with torch.no_grad():
        subject.close("correlate is the gradient", coupling.correlate(x, y), expected, 1e-7)
        subject.close("correlate with scale", coupling.correlate(x, y, scale=-0.5), -0.5 * expected, 1e-7)
        out = torch.full_like(expected, 1e3)
        subject.expect(coupling.correlate(x, y, out=out) is out, "correlate returns out", True, False)
        subject.close("correlate into out", out, expected, 1e-7)
        coupling.correlate(x, y, out=out, add=True, scale=2.0)
        subject.close("correlate added to out", out, 3 * expected, 1e-7)


def squares(subject: Subject, coupling: Coupling, x: Tensor, y: Tensor) -> None:
    """``squared`` is the coupling with the elementwise square of the matrix, and differentiable."""
    squared, matrix = coupling.squared(), coupling.matrix().square()
    subject.close("matrix of squared()", squared.matrix(), matrix, 1e-7)
    subject.close("down of squared()", squared.down(y).flatten(1), y.flatten(1) @ matrix.T, 1e-7)
    (found,) = torch.autograd.grad((squared.up(x) * y).sum(), coupling.weight)
    (expected,) = torch.autograd.grad((x.flatten(1) @ matrix * y.flatten(1)).sum(), coupling.weight)
    subject.close("gradient through squared()", found, expected, 1e-7)


def weights(subject: Subject, coupling: Coupling, x: Tensor, y: Tensor) -> None:
    """``with_weight`` keeps the connections, and gradients reach the given tensor."""
    other = coupling.with_weight(2 * coupling.weight)
    subject.close("matrix of with_weight(2 W)", other.matrix(), 2 * coupling.matrix(), 1e-7)
    (found,) = torch.autograd.grad((other.up(x) * y).sum(), coupling.weight)
    subject.close("gradient through with_weight(2 W)", found, 2 * coupling.correlate(x, y), 1e-7)
    subject.equal("names of parameters", [name for name, _ in coupling.named_parameters()], ["weight"])
    subject.equal("parameters of with_weight", list(other.parameters()), [])


@torch.no_grad()
def in_place(subject: Subject, coupling: Coupling, x: Tensor, y: Tensor) -> None:
    """``up_`` and ``down_`` write into slices of larger buffers, as the training loop does."""
    upper, lower = (torch.zeros(9, *shape, dtype=F64) for shape in (coupling.upper, coupling.lower))
    coupling.up_(x, upper[4:])
    coupling.down_(y, lower[:5])
    subject.close("up_ is up", upper[4:], coupling.up(x), 1e-9)
    subject.close("down_ is down", lower[:5], coupling.down(y), 1e-9)
    subject.expect(not upper[:4].any() and not lower[5:].any(), "up_ and down_ write", "into the slice", "beyond it")


@torch.no_grad()
def _initialization(subject: Subject, coupling: Coupling) -> None:
    outside = coupling.matrix() == 0
    first = []
    for kind in ("normal", "sign"):
        for _ in range(2):
            coupling.initialize(0.25, kind, Generator().manual_seed(1))
            first.append(coupling.weight.clone())
        subject.expect(torch.equal(*first[-2:]), f"initialize({kind!r}) with the same generator", "equal", "different")
        subject.expect(bool(first[-1].any()), f"initialize({kind!r})", "nonzero weights", "only zeros")
        subject.expect(
            not coupling.matrix()[outside].any(), "zeros of the matrix after initialize", "zeros", "nonzero values"
        )
    subject.expect(coupling.fan_in > 0, "fan_in", "a positive number", coupling.fan_in)


@torch.no_grad()
def _files(subject: Subject, coupling: Coupling, x: Tensor) -> None:
    again = Coupling.from_config(json.loads(json.dumps(coupling.config()))).double()
    subject.equal("type after from_config(config())", type(again).__name__, type(coupling).__name__)
    subject.equal("config after from_config(config())", again.config(), coupling.config())
    subject.expect(not again.weight.any(), "weights after from_config", "zeros", "nonzero values")
    again.load_state_dict(coupling.state_dict())
    rbm = RBM(Bernoulli(tuple(coupling.lower)), Bernoulli(tuple(coupling.upper)), copy.deepcopy(coupling)).double()
    with tempfile.TemporaryDirectory() as folder:
        save(rbm, Path(folder) / "machine.safetensors")
        loaded = load(Path(folder) / "machine.safetensors").couplings[0]
    for how, other in {"load_state_dict": again, "save and load": loaded, "deepcopy": rbm.coupling}.items():
        subject.expect(torch.equal(other.up(x), coupling.up(x)), f"up after {how}", "bitwise equal", "different")

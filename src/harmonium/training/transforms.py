"""Transforms of gradients and parameters; they can be combined with every negative phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from ..units import Unit
from ..units.support import OneHot
from .negative import NegativePhase
from .schedules import Clock

Rates = Callable[[Tensor], float]


def same_rate(parameter: Tensor) -> float:
    """Return 1: all parameters have the same learning rate."""
    return 1.0


class Transform:
    """Base class of transforms: change the gradient before the optimizer's step and the parameters after it.

    A transform may also change the coordinates of the optimizer: :meth:`enter` converts the parameters to them just
    before the optimizer's step and :meth:`leave` converts back just after it. A plain step W ← W - ηg is linear, so
    :meth:`pull_back` maps the gradient instead, which is faster.
    """

    #: whether it is a term of the loss; such terms are applied first, so other transforms get the full gradient
    of_loss: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """The name that must not change when a run is resumed."""
        return type(self).__name__

    def applies(self, machine: BoltzmannMachine) -> bool:
        """Return whether the transform has an effect on the machine; in a stack it is left out where it has none."""
        return True

    def check(self, machine: BoltzmannMachine, optimizer: torch.optim.Optimizer) -> None:
        """Raise :class:`InvalidOption` if the transform cannot be used with this machine and optimizer."""

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        """Called before training; ``data_mean`` (*visible) is the mean of the data.

        For a machine with a context it is a pair, with the mean of the context.
        """

    def measured(self, scaling: Scaling) -> None:
        """Called before training if the visible layer has units with a scale, such as Gaussian units."""

    @property
    def linear(self) -> bool:
        """Whether :meth:`pull_back` is equivalent to :meth:`enter` and :meth:`leave` for plain steps."""
        return True

    def prepare(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Called before the negative phase computes a gradient."""

    def follow(self, data_mean: Tensor) -> None:
        """Called in each step with the mean (*visible) of the batch, if the distribution of the rows changes."""

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Change ``.grad`` of the machine's parameters in place."""

    def enter(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: torch.optim.Optimizer) -> None:
        """Convert the parameters to the optimizer's coordinates, before its step."""

    def leave(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Convert the parameters back to the usual coordinates, after the optimizer's step."""

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = same_rate) -> None:
        """Map the gradient so that a plain step with it equals a plain step in the transform's coordinates.

        ``learning_rate_of`` returns the learning rate of a parameter.
        """

    def parameters(self, machine: BoltzmannMachine, clock: Clock) -> None:
        """Change the parameters in place."""

    def end(self, machine: BoltzmannMachine) -> None:
        """Called after the last step."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state returned by :meth:`state_dict`."""

    def config(self) -> dict[str, Any]:
        """Return the name and options of the transform, for the run's configuration."""
        options = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {"transform": type(self).__name__, **options}


class Penalty(Transform):
    """Base class of penalties on the weights, also those of a context.

    Their gradients are added before other transforms are applied.
    """

    of_loss = True

    def __init__(self, strength: float) -> None:
        if not strength >= 0:
            raise InvalidOption(f"strength: expected a non-negative number, found {strength}")
        self.strength = strength

    def loss(self, machine: BoltzmannMachine) -> float:
        """Return the penalty that is added to the loss."""
        return sum(self._value(coupling).item() for coupling in _all_couplings(machine))

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.all_gradients:
            self._add_gradient(link.coupling, link.coupling.weight.detach(), link.dense())

    def _value(self, coupling: Coupling) -> Tensor:
        raise NotImplementedError

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        raise NotImplementedError


class L1(Penalty):
    """L1 penalty, strength · Σ|W|."""

    def _value(self, coupling: Coupling) -> Tensor:
        return self.strength * coupling.weight.detach().abs().sum()

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        gradient.add_(weight.sign(), alpha=self.strength)


class L2(Penalty):
    """L2 penalty, strength/2 · ΣW²."""

    def _value(self, coupling: Coupling) -> Tensor:
        return self.strength / 2 * coupling.weight.detach().square().sum()

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.all_gradients:
            link.add_weights(self.strength)


class L2ToMean(Penalty):
    """L2 penalty on what distinguishes the sites of a layer: strength/2 · Σ_i (W_i - W̄)², with W̄ the mean over sites i.

    For dense couplings; the sites are the first dimension of the lower layer, such as the items of
    :class:`harmonium.units.Ratings`. What all sites have in common, such as the generosity of a user, is learned
    without a penalty, and a site with few data gets the mean weights of the others. An L2 penalty gives it none.
    """

    def check(self, machine: BoltzmannMachine, optimizer: torch.optim.Optimizer) -> None:
        for coupling in _all_couplings(machine):
            if type(coupling) is not Dense:
                raise InvalidOption(f"L2ToMean expects dense couplings, found {type(coupling).__name__}")

    def _value(self, coupling: Coupling) -> Tensor:
        return self.strength / 2 * _without_mean(coupling, coupling.weight.detach()).square().sum()

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        gradient.add_(_without_mean(coupling, weight), alpha=self.strength)


def _without_mean(coupling: Coupling, weight: Tensor) -> Tensor:
    by_site = weight.view(coupling.lower[0], -1)
    return (by_site - by_site.mean(0)).view_as(weight)


class L1Squared(Penalty):
    """L1² penalty, strength/(2N) · Σ_j (Σ_i |W_ij|)² with N lower units (Tubiana et al. 2019).

    It makes the weights sparse without removing all weights of a hidden unit.
    """

    def _value(self, coupling: Coupling) -> Tensor:
        rows = coupling.lower.numel()
        return self.strength / (2 * rows) * self._by_upper(coupling).square().sum()

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        gradient.add_(weight.sign() * self._by_upper(coupling), alpha=self.strength / coupling.lower.numel())

    def _by_upper(self, coupling: Coupling) -> Tensor:
        return coupling.weight.detach().abs().sum(coupling.incoming_dims, keepdim=True)


class Clip(Transform):
    """Scale the gradient to the norm ``max_norm`` if its norm is larger."""

    def __init__(self, max_norm: float) -> None:
        if not max_norm > 0:
            raise InvalidOption(f"max_norm: expected a positive number, found {max_norm}")
        self.max_norm = max_norm

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.all_gradients:
            link.dense()
        torch.nn.utils.clip_grad_norm_(machine.parameters(), self.max_norm)


class ZeroSum(Transform):
    """Zero-sum gauge of one-hot units: the weights and biases of a site sum to zero over its states.

    The subtracted constants are added to the biases of the other layer, so the model does not change.
    """

    def applies(self, machine: BoltzmannMachine) -> bool:
        return any(_one_hot_parts(unit) for unit in machine.layers)

    def check(self, machine: BoltzmannMachine, optimizer: torch.optim.Optimizer) -> None:
        if not self.applies(machine):
            raise InvalidOption("ZeroSum expects a layer of one-hot (Potts) units, found none")
        for coupling in _all_couplings(machine):
            if type(coupling) is not Dense:  # with a mask or a kernel the constant cannot be subtracted
                raise InvalidOption(f"ZeroSum expects dense couplings, found {type(coupling).__name__}")
        for k, unit in enumerate(machine.layers):
            if any(part.shared for part in unit.parts):  # the subtracted constants differ between the units
                raise InvalidOption(f"ZeroSum expects a bias for each unit, found shared biases in layer {k}")

    @torch.no_grad()
    def parameters(self, machine: BoltzmannMachine, clock: Clock | None = None) -> None:
        units = machine.layers
        for k, coupling in enumerate(machine.couplings):
            weight = coupling.weight.data.view(coupling.lower.numel(), coupling.upper.numel())
            for part, entries in _one_hot_parts(units[k]):
                block = weight[entries].unflatten(0, (part.sites, -1))
                excess = block.mean(1, keepdim=True)
                block -= excess
                units[k + 1].shift_bias(excess.sum((0, 1)).view(coupling.upper))
            for part, entries in _one_hot_parts(units[k + 1]):
                block = weight[:, entries].unflatten(1, (part.sites, -1))
                excess = block.mean(2, keepdim=True)
                block -= excess
                units[k].shift_bias(excess.sum((1, 2)).view(coupling.lower))
        for k, coupling in machine.context_couplings.items():
            weight = coupling.weight.data.view(coupling.lower.numel(), coupling.upper.numel())
            for part, entries in _one_hot_parts(units[k]):  # a constant for a site, which changes no probability
                block = weight[:, entries].unflatten(1, (part.sites, -1))
                block -= block.mean(2, keepdim=True)
        for unit in units:
            for part, _ in _one_hot_parts(unit):
                part.bias.data.sub_(part.bias.data.mean(-1, keepdim=True))


def _one_hot_parts(unit: Unit) -> list[tuple[Unit, slice]]:
    """Return the parts of a layer with one-hot units, and the entries of each in a state."""
    found, start = [], 0
    for part in unit.parts:
        if isinstance(part.support, OneHot):
            found.append((part, slice(start, start + part.size)))
        start += part.size
    return found


class Average(Transform):
    """At the end, replace the parameters by their average over the last fraction of the run (Polyak & Juditsky 1992).

    Args:
        last: fraction of the run to average over.
        every: number of steps between the averaged parameters.
    """

    def __init__(self, last: float = 0.3, every: int = 10) -> None:
        if not 0 < last <= 1 or every < 1:
            raise InvalidOption(f"last, every: expected a fraction 0 < last ≤ 1, every ≥ 1, found {last} and {every}")
        self.last, self.every = last, every
        self._mean: list[Tensor] = []
        self._count = self._seen = 0

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        self._mean, self._count, self._seen, self._device = [], 0, 0, machine.device

    @torch.no_grad()
    def parameters(self, machine: BoltzmannMachine, clock: Clock) -> None:
        if clock.fraction < 1 - self.last:
            return
        self._seen += 1
        if (self._seen - 1) % self.every:
            return
        self._count += 1
        if not self._mean:
            self._mean = [p.detach().clone() for p in machine.parameters()]
        for mean, parameter in zip(self._mean, machine.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 1 / self._count)

    @torch.no_grad()
    def end(self, machine: BoltzmannMachine) -> None:
        for mean, parameter in zip(self._mean, machine.parameters(), strict=False):
            parameter.copy_(mean)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": list(self._mean), "count": self._count, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._mean = [mean.to(self._device) for mean in state["mean"]]
        self._count, self._seen = state["count"], state["seen"]


def _all_couplings(machine: BoltzmannMachine) -> list[Coupling]:
    """Return the couplings of the layers and of the context."""
    return [*machine.couplings, *machine.context_couplings.values()]

"""Transforms of the gradient or of the parameters; each composes with every negative phase."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..units import Unit
from . import distributed
from .negative import NegativePhase
from .schedules import Clock


class Transform:
    """Called twice a step: on the gradient before the optimiser, on the parameters after it."""

    #: whether it is a term of the loss: those come first, so that what maps the gradient maps all of it
    of_loss: ClassVar[bool] = False
    #: whether it maps the gradient from one parameter to another, so that a decay by the optimiser would come too late
    maps: ClassVar[bool] = False

    def begin(self, machine: BoltzmannMachine, data_mean: Tensor) -> None:
        """Before training; ``data_mean`` (*visible) is the mean of the data."""

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Change ``.grad`` of the machine's parameters in place."""

    def parameters(self, machine: BoltzmannMachine, clock: Clock) -> None:
        """Change the parameters in place."""

    def end(self, machine: BoltzmannMachine) -> None:
        """After the last step."""

    def state_dict(self) -> dict[str, Any]:
        """What an exact resume needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""

    def config(self) -> dict[str, Any]:
        """The transform in plain words, for the run's configuration."""
        options = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {"transform": type(self).__name__, **options}


class Centred(Transform):
    """The gradient of the centred machine, E = -(x-μ)·W·(y-λ) - …, mapped back to the plain parameters.

    The map is linear: gW' = gW - μ gcᵀ - gb λᵀ, gb' = gb - gW'λ, gc' = gc - gW'ᵀμ, for any offsets; the model and the
    fixed points of learning stay the same, only the path between is better conditioned. μ of the visible layer is the
    mean of the data, offsets of hidden layers follow the batch means with the ``rate``.
    """

    maps = True

    def __init__(self, rate: float = 0.01) -> None:
        if not 0 < rate <= 1:
            raise InvalidOption(f"rate: expected a number in (0, 1], found {rate}")
        self.rate = rate
        self._offsets: list[Tensor] = []

    def begin(self, machine: BoltzmannMachine, data_mean: Tensor) -> None:
        for k, unit in enumerate(machine.units):
            if not all(bias.requires_grad for bias in unit.biases()):
                raise InvalidOption(
                    f"Centred expects every bias to be learnt; that of layer {k} is not: train with transforms=()"
                )
        offsets = [data_mean.to(machine.links[0].weight.detach()).clone()]
        for coupling, unit in zip(machine.links, machine.units[1:], strict=True):
            offsets.append(unit.mean(coupling.up(offsets[-1].unsqueeze(0))).detach()[0].clone())
        self._offsets = offsets

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        means = phase.hidden_means(machine)
        distributed.average_(means)  # the same offsets, and so the same step, in every process
        for offset, mean in zip(self._offsets[1:], means, strict=True):
            offset.lerp_(mean, self.rate)
        units, offsets = machine.units, self._offsets
        plain = [_bias_gradient(unit) for unit in units]
        for k, link in phase.links.items():
            link.subtract((offsets[k], plain[k + 1]), (plain[k], offsets[k + 1]))
            _subtract_from_bias_gradient(units[k], link.down(offsets[k + 1]))
            _subtract_from_bias_gradient(units[k + 1], link.up(offsets[k]))

    def state_dict(self) -> dict[str, Any]:
        return {"offsets": list(self._offsets)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._offsets = [kept.to(offset.device) for kept, offset in zip(state["offsets"], self._offsets, strict=True)]


class Penalty(Transform):
    """A penalty on the weights: adds its gradient.

    Before centring, whatever the order in which the two are given: a decay of W alone, behind the map to centred
    parameters, would move the mean fields Wλ and Wᵀμ, which learning then has to bring back. For pixels that are rarely
    on it cannot, and their weights grow without bound. The ``weight_decay`` of a torch optimiser is such a decay, and
    is refused together with centring.
    """

    of_loss = True

    def __init__(self, strength: float) -> None:
        if not strength >= 0:
            raise InvalidOption(f"strength: expected a non-negative number, found {strength}")
        self.strength = strength

    def value(self, machine: BoltzmannMachine) -> float:
        """The penalty that is added to the loss."""
        return sum(self._value(coupling).item() for coupling in machine.links)

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.links.values():
            self._add_gradient(link.coupling, link.coupling.weight.detach(), link.dense())

    def _value(self, coupling: Coupling) -> Tensor:
        raise NotImplementedError

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        raise NotImplementedError


class L1(Penalty):
    """strength · Σ|W|."""

    def _value(self, coupling: Coupling) -> Tensor:
        return self.strength * coupling.weight.detach().abs().sum()

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        gradient.add_(weight.sign(), alpha=self.strength)


class L2(Penalty):
    """strength/2 · ΣW²."""

    def _value(self, coupling: Coupling) -> Tensor:
        return self.strength / 2 * coupling.weight.detach().square().sum()

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.links.values():
            link.add_weights(self.strength)


class L1Squared(Penalty):
    """strength/(2N) · Σ_j (Σ_i |W_ij|)² over the N lower units: sparse weights, but no hidden unit left empty."""

    def _value(self, coupling: Coupling) -> Tensor:
        rows = coupling.lower.numel()
        return self.strength / (2 * rows) * self._by_upper(coupling).square().sum()

    def _add_gradient(self, coupling: Coupling, weight: Tensor, gradient: Tensor) -> None:
        gradient.add_(weight.sign() * self._by_upper(coupling), alpha=self.strength / coupling.lower.numel())

    def _by_upper(self, coupling: Coupling) -> Tensor:
        return coupling.weight.detach().abs().sum(coupling.incoming_dims, keepdim=True)


class Clip(Transform):
    """Scale the whole gradient down to the norm ``max_norm`` where it is larger."""

    def __init__(self, max_norm: float) -> None:
        if not max_norm > 0:
            raise InvalidOption(f"max_norm: expected a positive number, found {max_norm}")
        self.max_norm = max_norm

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.links.values():
            link.dense()
        torch.nn.utils.clip_grad_norm_(machine.parameters(), self.max_norm)


class ZeroSum(Transform):
    """The zero-sum gauge of one-hot units: weights and biases of a site sum to zero over its states.

    A constant added to all states of a site moves into the bias of the other side, so the model is unchanged.
    """

    def begin(self, machine: BoltzmannMachine, data_mean: Tensor) -> None:
        if not any(unit.one_hot for unit in machine.units):
            raise InvalidOption("ZeroSum expects a layer of one-hot (Potts) units, found none")
        for coupling in machine.links:
            if type(coupling) is not Dense:  # a mask or a kernel would not let a constant through
                raise InvalidOption(f"ZeroSum expects dense couplings, found {type(coupling).__name__}")

    @torch.no_grad()
    def parameters(self, machine: BoltzmannMachine, clock: Clock | None = None) -> None:
        units = machine.units
        for k, coupling in enumerate(machine.links):
            weight = coupling.weight.data.view(*coupling.lower, *coupling.upper)
            if units[k].one_hot:
                axis = len(coupling.lower) - 1
                excess = weight.mean(axis, keepdim=True)
                weight -= excess
                units[k + 1].shift_bias(excess.sum(tuple(range(len(coupling.lower)))))
            if units[k + 1].one_hot:
                excess = weight.mean(-1, keepdim=True)
                weight -= excess
                above = tuple(range(len(coupling.lower), weight.ndim))
                units[k].shift_bias(excess.sum(above))
        for unit in units:
            if unit.one_hot:
                unit.shift_bias(-unit.bias.mean(-1, keepdim=True).expand(unit.shape))


class Average(Transform):
    """At the end, replace the parameters by their average over the last share of the run (Polyak's average)."""

    def __init__(self, last: float = 0.3, every: int = 10) -> None:
        if not 0 < last <= 1 or every < 1:
            raise InvalidOption(f"expected a share 0 < last ≤ 1 and every ≥ 1, found {last} and {every}")
        self.last, self.every = last, every
        self._mean: list[Tensor] = []
        self._count = self._seen = 0

    def begin(self, machine: BoltzmannMachine, data_mean: Tensor) -> None:
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


def _bias_gradient(unit: Unit) -> Tensor:
    """A copy of the gradient of a layer's bias: (*shape)."""
    gradients = [bias.grad for bias in unit.biases() if bias.grad is not None]
    return gradients[0].clone() if len(gradients) == 1 else torch.cat([g.flatten() for g in gradients]).view(unit.shape)


def _subtract_from_bias_gradient(unit: Unit, change: Tensor) -> None:
    pieces = change.flatten().split([bias.numel() for bias in unit.biases()])
    for bias, piece in zip(unit.biases(), pieces, strict=True):
        assert bias.grad is not None
        bias.grad -= piece.view(bias.shape)

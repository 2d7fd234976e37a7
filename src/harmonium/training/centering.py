"""Centered gradients (Montavon & Müller 2012; Melchior et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from ..units import Unit
from . import distributed
from .descent import AnyOptimizer
from .gradient import unrounded
from .negative import NegativePhase
from .state import restored
from .transforms import Rates, Transform, same_rate

#: names of the averages of past gradients in the state of optimizers
_AVERAGES = ("momentum_buffer", "exp_avg")


class Centered(Transform):
    """Apply the optimizer to the centered machine, E = -(x-μ)·W·(y-λ) - b̃·x - c̃·y + U(x) + U(y).

    See Montavon & Müller (2012) and Melchior et al. (2016). The coordinates are W, b̃ = b + Wλ and c̃ = c + Wᵀμ, in
    which the gradient is g̃W = gW - μ gcᵀ - gb λᵀ, with the gradients of the biases unchanged. The model and the
    optimum do not depend on the offsets; only the conditioning does. Any optimizer may be used; ``weight_decay`` acts
    on W, b̃ and c̃. For plain SGD with one learning rate, the step equals a plain step with the mapped gradient g̃W,
    gb - g̃Wλ, gc - g̃Wᵀμ.

    For a bias that several units share, Wλ and Wᵀμ are averaged over these units, and its gradient in g̃W is divided
    equally among them. This is again a linear change of coordinates.

    The offset μ of the visible layer is the mean of the data; the offsets of hidden layers are exponential averages of
    the batch means with weight ``smoothing``, and so is μ in the upper machines of a stack, whose input changes. When
    they change, the optimizer's momentum is converted to the new coordinates.

    Gaussian visible units are also standardized: with the mean m and the standard deviation s of each unit in the
    data, the optimizer acts on the machine of z = (x - m)/s, whose parameters are sW, s(b̃ - γm) and γs². Training
    then does not depend on the units of measurement, and the machine always describes the data as they were given.
    The logarithm of γ is the stored parameter, which γs² only shifts, so it is not converted.

    A context u with couplings u·A·x and u·B·y is replaced by u - κ, where κ is its mean over the data: the coordinates
    are b̃ = b + Wλ + Aᵀκ and c̃ = c + Wᵀμ + Bᵀκ, with g̃A = gA - κ gbᵀ and g̃B = gB - κ gcᵀ. The states x and y need no
    offset here, because u·A·μ does not depend on the states.
    """

    def __init__(self, smoothing: float = 0.01) -> None:
        if not 0 < smoothing <= 1:
            raise InvalidOption(f"smoothing: expected a number in (0, 1], found {smoothing}")
        self.smoothing = smoothing
        self._scaling: Scaling | None = None
        self._offsets: list[Tensor] = []
        self._used: list[Tensor] = []  # offsets of the optimizer's last step, to which its momentum refers

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
        given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for k, unit in enumerate(machine.layers):
            if not all(id(bias) in given for bias in unit.biases()):
                raise InvalidOption(
                    f"Centered expects every bias to be learned, found a fixed bias in layer {k}; use transforms=()"
                )

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        if machine.context is not None:
            data_mean, context_mean = data_mean
            self._context = context_mean.to(machine.couplings[0].weight.detach())
        offsets = [data_mean.to(machine.couplings[0].weight.detach()).clone()]
        for coupling, unit in zip(machine.couplings, machine.layers[1:], strict=True):
            offsets.append(unit.mean(coupling.up(offsets[-1].unsqueeze(0))).detach()[0].clone())
        self._offsets, self._used = offsets, [offset.clone() for offset in offsets]

    def measured(self, scaling: Scaling) -> None:
        self._scaling = scaling

    @property
    def linear(self) -> bool:
        return self._scaling is None

    def prepare(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        if phase.by_statistics:
            for part, location, _ in self._scaled(machine):
                part.origin = location

    def _scaled(self, machine: BoltzmannMachine) -> list[tuple[Any, Tensor, Tensor]]:
        """Return the standardized parts of the visible layer with location and scale."""
        if self._scaling is None:
            return []
        return [found for found in self._scaling.of_parts(machine.visible) if found[0].affine]

    def follow(self, data_mean: Tensor) -> None:
        means = [data_mean]
        distributed.average_(means)
        self._offsets[0].lerp_(means[0], self.smoothing)

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        means = phase.hidden_means(machine)
        distributed.average_(means)  # gives every process the same offsets and thus the same step
        for offset, mean in zip(self._offsets[1:], means, strict=True):
            offset.lerp_(mean, self.smoothing)
        biases = [_joined(unit, _gradient_of) for unit in machine.layers]
        for k, link in phase.coupling_gradients.items():
            link.subtract((self._offsets[k], biases[k + 1]), (biases[k], self._offsets[k + 1]))
        for k, link in phase.context_gradients.items():
            link.subtract((self._context, biases[k]))
        self._standardize_gradient(machine, phase)

    def _standardize_gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """gW ← gW/s and gb ← gb/s; the gradient of ln γ at fixed b - γm is g + γm gb."""
        for part, location, scale in self._scaled(machine):
            bias, precision = part.bias.grad, part.log_precision.grad
            if part.origin is None and bias is not None and precision is not None:
                precision.addcmul_(part.precision.detach() * location, bias)  # else the statistics refer to m already
            part.origin = None
            if bias is not None:
                bias.div_(scale)
        if self._scaling is not None and 0 in phase.coupling_gradients:
            link = phase.coupling_gradients[0]
            link.dense().div_(link.coupling.lower_factors(self._scaling.scale))

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = same_rate) -> None:
        units, offsets = machine.layers, self._offsets
        for k, link in phase.coupling_gradients.items():
            rate = learning_rate_of(link.coupling.weight)
            _subtract_field(units[k], link.down(offsets[k + 1]), rate, learning_rate_of)
            _subtract_field(units[k + 1], link.up(offsets[k]), rate, learning_rate_of)
        for k, link in phase.context_gradients.items():
            rate = learning_rate_of(link.coupling.weight)
            _subtract_field(units[k], link.up(self._context), rate, learning_rate_of)

    def enter(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: AnyOptimizer) -> None:
        self._move_momentum(machine, phase, optimizer)
        self._shift_biases(machine, phase, 1.0)
        for part, location, scale in self._scaled(machine):
            part.bias.sub_(part.precision * location).mul_(scale)
        if self._scaling is not None:
            machine.couplings[0].weight.mul_(machine.couplings[0].lower_factors(self._scaling.scale))

    def leave(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for part, location, scale in self._scaled(machine):
            part.bias.div_(scale).add_(part.precision * location)
        if self._scaling is not None:
            machine.couplings[0].weight.div_(machine.couplings[0].lower_factors(self._scaling.scale))
        self._shift_biases(machine, phase, -1.0)

    def _shift_biases(self, machine: BoltzmannMachine, phase: NegativePhase, sign: float) -> None:
        """b ← b ± Wλ and c ← c ± Wᵀμ for every coupling that is learned."""
        for k, link in phase.coupling_gradients.items():
            lower, upper = self._offsets[k].unsqueeze(0), self._offsets[k + 1].unsqueeze(0)
            with unrounded(lower):  # the two calls of a step must cancel
                machine.layers[k].shift_bias(link.coupling.down(upper)[0] * sign)
                machine.layers[k + 1].shift_bias(link.coupling.up(lower)[0] * sign)
        for k, link in phase.context_gradients.items():
            machine.layers[k].shift_bias(link.coupling.up(self._context.unsqueeze(0))[0] * sign)

    def _move_momentum(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: AnyOptimizer) -> None:
        """Convert averages of past gradients to the current offsets; they depend on the offsets linearly, like g̃W."""
        changes = [now - before for now, before in zip(self._offsets, self._used, strict=True)]
        for kept, offset in zip(self._used, self._offsets, strict=True):
            kept.copy_(offset)
        for k, link in phase.coupling_gradients.items():
            for name in _AVERAGES:
                average = _state_of(optimizer, name)
                weight, *biases = (
                    average(parameter)
                    for parameter in (
                        link.coupling.weight,
                        *machine.layers[k].biases(),
                        *machine.layers[k + 1].biases(),
                    )
                )
                if weight is None or any(bias is None for bias in biases):
                    continue
                lower, upper = (_joined(unit, average) for unit in machine.layers[k : k + 2])
                x, y = torch.stack([changes[k], lower]), torch.stack([upper, changes[k + 1]])
                link.coupling.correlate(x, y, out=weight, add=True, scale=-1.0)

    def state_dict(self) -> dict[str, Any]:
        scaling = {} if self._scaling is None else {"location": self._scaling.location, "scale": self._scaling.scale}
        return {"offsets": list(self._offsets), "used": list(self._used), **scaling}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._offsets, self._used = (
            [restored(kept, own).to(own.device) for own, kept in zip(self._offsets, values, strict=True)]
            for values in (state["offsets"], state["used"])
        )
        if self._scaling is not None:
            like = self._offsets[0]
            location, scale = (restored(state[name], like).to(like.device) for name in ("location", "scale"))
            self._scaling = Scaling(location, scale)


def _state_of(optimizer: AnyOptimizer, name: str) -> Callable[[Tensor], Tensor | None]:
    """Return a function from a parameter to its optimizer state ``name``; None for averages of rescaled gradients."""

    def find(parameter: Tensor) -> Tensor | None:
        state = optimizer.state.get(parameter, {})
        return None if "square_avg" in state else state.get(name)  # RMSprop averages rescaled gradients

    return find


def _gradient_of(parameter: Tensor) -> Tensor | None:
    return parameter.grad


def _joined(unit: Unit, value_of: Callable[[Tensor], Tensor | None]) -> Tensor:
    """Return the values of a layer's biases, such as their gradients, as one tensor (*shape).

    That of a shared bias is divided equally among its units.
    """
    return unit.from_biases([value for value in map(value_of, unit.biases()) if value is not None])


def _subtract_field(unit: Unit, change: Tensor, rate: float, learning_rate_of: Rates) -> None:
    """Change the bias gradient so that a plain step cancels the change of the mean field by the weights, (*shape)."""
    for bias, piece in zip(unit.biases(), unit.by_bias(change), strict=True):
        assert bias.grad is not None
        bias.grad.sub_(piece, alpha=rate / learning_rate_of(bias))

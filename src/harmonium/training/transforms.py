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
from . import distributed
from .gradient import unrounded
from .negative import NegativePhase
from .schedules import Clock
from .state import restored, restored_number

Rates = Callable[[Tensor], float]


def _same(parameter: Tensor) -> float:
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

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = _same) -> None:
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

    def check(self, machine: BoltzmannMachine, optimizer: torch.optim.Optimizer) -> None:
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

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = _same) -> None:
        units, offsets = machine.layers, self._offsets
        for k, link in phase.coupling_gradients.items():
            rate = learning_rate_of(link.coupling.weight)
            _subtract_field(units[k], link.down(offsets[k + 1]), rate, learning_rate_of)
            _subtract_field(units[k + 1], link.up(offsets[k]), rate, learning_rate_of)
        for k, link in phase.context_gradients.items():
            rate = learning_rate_of(link.coupling.weight)
            _subtract_field(units[k], link.up(self._context), rate, learning_rate_of)

    def enter(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: torch.optim.Optimizer) -> None:
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

    def _move_momentum(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: torch.optim.Optimizer) -> None:
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
            [restored(kept, own.shape).to(own.device) for own, kept in zip(self._offsets, values, strict=True)]
            for values in (state["offsets"], state.get("used", state["offsets"]))
        )
        # earlier versions did not standardize; their runs continue without
        device = self._offsets[0].device
        kept = [state[name].to(device, copy=True) for name in ("location", "scale") if name in state]
        self._scaling = Scaling(*kept) if kept else None


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
        self._shapes = [parameter.shape for parameter in machine.parameters()]

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
        shapes = self._shapes if state["mean"] else []
        self._mean = [restored(x, shape).to(self._device) for x, shape in zip(state["mean"], shapes, strict=True)]
        self._count, self._seen = restored_number(state["count"]), restored_number(state["seen"])


def _all_couplings(machine: BoltzmannMachine) -> list[Coupling]:
    """Return the couplings of the layers and of the context."""
    return [*machine.couplings, *machine.context_couplings.values()]


#: names of the averages of past gradients in the state of optimizers
_AVERAGES = ("momentum_buffer", "exp_avg")


def _state_of(optimizer: torch.optim.Optimizer, name: str) -> Callable[[Tensor], Tensor | None]:
    """Return a function from a parameter to its optimizer state ``name``; None for averages of rescaled gradients."""

    def find(parameter: Tensor) -> Tensor | None:
        state = optimizer.state.get(parameter, {})
        return None if "square_avg" in state else state.get(name)  # RMSprop averages rescaled gradients

    return find


def _gradient_of(parameter: Tensor) -> Tensor | None:
    return parameter.grad


def _joined(unit: Unit, value_of: Callable[[Tensor], Tensor | None]) -> Tensor:
    """Return the values of a layer's biases, such as their gradients, in a new tensor (*shape).

    That of a shared bias is divided equally among its units.
    """
    return unit.from_biases([value for value in map(value_of, unit.biases()) if value is not None])


def _subtract_field(unit: Unit, change: Tensor, rate: float, learning_rate_of: Rates) -> None:
    """Change the bias gradient so that a plain step cancels the change of the mean field by the weights, (*shape)."""
    for bias, piece in zip(unit.biases(), unit.by_bias(change), strict=True):
        assert bias.grad is not None
        bias.grad.sub_(piece, alpha=rate / learning_rate_of(bias))

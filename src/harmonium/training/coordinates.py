"""The coordinates in which the optimizer acts: centered (Montavon & Müller 2012; Melchior et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from ..units import Unit
from .descent import AnyOptimizer
from .gradient import Gradient, unrounded

#: names of the averages of past gradients in the state of optimizers
_AVERAGES = ("momentum_buffer", "exp_avg")


class Coordinates:
    """The optimizer acts on the centered machine, E = -(x-μ)·W·(y-λ) - b̃·x - c̃·y + U(x) + U(y).

    See Montavon & Müller (2012) and Melchior et al. (2016). The coordinates are W, b̃ = b + Wλ and c̃ = c + Wᵀμ, in
    which the gradient is g̃W = gW - μ gcᵀ - gb λᵀ, with the gradients of the biases unchanged. The model and the
    optimum do not depend on the offsets; only the conditioning does. Any optimizer may be used; its weight decay acts
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

    Args:
        machine: the machine.
        mean: mean (*visible) of the data; a pair with the mean of the context if there is one.
        smoothing: weight of a batch in the offsets of the hidden layers.
        scaling: location and scale of the visible units, if some have a scale.
    """

    def __init__(self, machine: BoltzmannMachine, mean: Any, smoothing: float, scaling: Scaling | None = None) -> None:
        like = machine.couplings[0].weight.detach()
        self._smoothing, self._scaling = smoothing, scaling
        self._layers, self._first = list(machine.layers), machine.couplings[0]
        self._context: Tensor | None = None
        if machine.context is not None:
            mean, context = mean
            self._context = context.to(like)
        self._offsets = [mean.to(like).clone()]
        for coupling, unit in zip(machine.couplings, machine.layers[1:], strict=True):
            self._offsets.append(unit.mean(coupling.up(self._offsets[-1].unsqueeze(0))).detach()[0].clone())
        self._used = [offset.clone() for offset in self._offsets]  # of the last step, to which momentum refers

    def check(self, optimizer: AnyOptimizer) -> None:
        """Raise unless the optimizer changes every bias and has no weight decay."""
        given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for k, unit in enumerate(self._layers):
            if not all(id(bias) in given for bias in unit.biases()):
                raise InvalidOption(
                    f"centered: expected every bias to be learned, found a fixed bias in layer {k}; use centered=False"
                )

    @property
    def linear(self) -> bool:
        """Whether :meth:`pull_back` is a plain step in these coordinates."""
        return self._scaling is None

    def _scaled(self) -> list[tuple[Any, Tensor, Tensor]]:
        """Return the standardized parts of the visible layer with location and scale."""
        if self._scaling is None:
            return []
        return [found for found in self._scaling.of_parts(self._layers[0]) if found[0].affine]

    def statistics_at_mean(self) -> AbstractContextManager[None]:
        """Let the statistics of Gaussian units refer to their mean in the data, which avoids a loss of precision."""
        return nullcontext() if self._scaling is None else self._at_mean()

    @contextmanager
    def _at_mean(self) -> Iterator[None]:
        scaled = self._scaled()
        try:
            for part, location, _ in scaled:
                part.origin = location
            yield
        finally:
            for part, _, _ in scaled:
                part.origin = None

    # -- the gradient ---------------------------------------------------------------------------------------------

    def follow(self, gradient: Gradient, mean: Tensor | None = None) -> None:
        """Move the offsets toward the means of a batch; ``mean`` (*visible) is given if the input changes."""
        if mean is not None:
            self._offsets[0].lerp_(mean, self._smoothing)
        for offset, hidden in zip(self._offsets[1:], gradient.hidden, strict=True):
            offset.lerp_(hidden, self._smoothing)

    def center(self, gradient: Gradient, *, at_mean: bool) -> None:
        """Convert a gradient, g̃W = gW - μ gcᵀ - gb λᵀ; ``at_mean`` tells whether its statistics refer to the mean."""
        biases = [_joined(unit, gradient.units.get) for unit in self._layers]
        for k, link in gradient.couplings.items():
            link.subtract((self._offsets[k], biases[k + 1]), (biases[k], self._offsets[k + 1]))
        for k, link in gradient.context.items():
            assert self._context is not None
            link.subtract((self._context, biases[k]))
        # gW ← gW/s and gb ← gb/s; the gradient of ln γ at fixed b - γm is g + γm gb
        for part, location, scale in self._scaled():
            bias, precision = gradient.units.get(part.bias), gradient.units.get(part.log_precision)
            if not at_mean and bias is not None and precision is not None:
                precision.addcmul_(part.precision.detach() * location, bias)
            if bias is not None:
                bias.div_(scale)
        if self._scaling is not None and 0 in gradient.couplings:
            link = gradient.couplings[0]
            link.dense().div_(link.coupling.lower_factors(self._scaling.scale))

    def pull_back(self, gradient: Gradient, rate_of: Callable[[Tensor], float]) -> None:
        """Map the gradient so that a plain step with it equals a plain step in these coordinates."""
        units, offsets = self._layers, self._offsets
        for k, link in gradient.couplings.items():
            rate = rate_of(link.coupling.weight)
            _subtract_field(gradient, units[k], link.down(offsets[k + 1]), rate, rate_of)
            _subtract_field(gradient, units[k + 1], link.up(offsets[k]), rate, rate_of)
        for k, link in gradient.context.items():
            assert self._context is not None
            rate = rate_of(link.coupling.weight)
            _subtract_field(gradient, units[k], link.up(self._context), rate, rate_of)

    # -- the parameters -------------------------------------------------------------------------------------------

    @contextmanager
    def within(self, gradient: Gradient, optimizer: AnyOptimizer) -> Iterator[None]:
        """Convert the parameters and the averages of past gradients to these coordinates, in the block."""
        self._move_momentum(gradient, optimizer)
        self._shift_biases(gradient, 1.0)
        scaled, coupling = self._scaled(), self._first
        for part, location, scale in scaled:
            part.bias.sub_(part.precision * location).mul_(scale)
        if self._scaling is not None:
            coupling.weight.mul_(coupling.lower_factors(self._scaling.scale))
        try:
            yield
        finally:
            for part, location, scale in scaled:
                part.bias.div_(scale).add_(part.precision * location)
            if self._scaling is not None:
                coupling.weight.div_(coupling.lower_factors(self._scaling.scale))
            self._shift_biases(gradient, -1.0)

    def _shift_biases(self, gradient: Gradient, sign: float) -> None:
        """b ← b ± Wλ and c ← c ± Wᵀμ for every coupling that is learned."""
        layers = self._layers
        for k, link in gradient.couplings.items():
            lower, upper = self._offsets[k].unsqueeze(0), self._offsets[k + 1].unsqueeze(0)
            with unrounded(lower):  # the two calls of a step must cancel
                layers[k].shift_bias(link.coupling.down(upper)[0] * sign)
                layers[k + 1].shift_bias(link.coupling.up(lower)[0] * sign)
        for k, link in gradient.context.items():
            assert self._context is not None
            layers[k].shift_bias(link.coupling.up(self._context.unsqueeze(0))[0] * sign)

    def _move_momentum(self, gradient: Gradient, optimizer: AnyOptimizer) -> None:
        """Convert averages of past gradients to the current offsets; they depend on the offsets linearly, like g̃W."""
        changes = [now - before for now, before in zip(self._offsets, self._used, strict=True)]
        for kept, offset in zip(self._used, self._offsets, strict=True):
            kept.copy_(offset)
        for k, link in gradient.couplings.items():
            layers = self._layers[k : k + 2]
            for name in _AVERAGES:
                average = _state_of(optimizer, name)
                weight = average(link.coupling.weight)
                biases = [average(bias) for unit in layers for bias in unit.biases()]
                if weight is None or any(bias is None for bias in biases):
                    continue
                lower, upper = (_joined(unit, average) for unit in layers)
                x, y = torch.stack([changes[k], lower]), torch.stack([upper, changes[k + 1]])
                link.coupling.correlate(x, y, out=weight, add=True, scale=-1.0)

    def state(self) -> dict[str, Any]:
        """Return what must be saved."""
        scaling = {} if self._scaling is None else {"location": self._scaling.location, "scale": self._scaling.scale}
        return {"offsets": self._offsets, "used": self._used, **scaling}

    def load(self, state: dict[str, Any]) -> None:
        """Continue with a saved state."""
        self._offsets, self._used = list(state["offsets"]), list(state["used"])
        if self._scaling is not None:
            self._scaling = Scaling(state["location"], state["scale"])


def _state_of(optimizer: AnyOptimizer, name: str) -> Callable[[Tensor], Tensor | None]:
    """Return a function from a parameter to its optimizer state ``name``; None for averages of rescaled gradients."""

    def find(parameter: Tensor) -> Tensor | None:
        state = optimizer.state.get(parameter, {})
        return None if "square_avg" in state else state.get(name)  # RMSprop averages rescaled gradients

    return find


def _joined(unit: Unit, value_of: Callable[[Tensor], Tensor | None]) -> Tensor:
    """Return the values of a layer's biases, such as their gradients, as one tensor (*shape).

    That of a shared bias is divided equally among its units.
    """
    return unit.from_biases([value for value in map(value_of, unit.biases()) if value is not None])


def _subtract_field(
    gradient: Gradient, unit: Unit, change: Tensor, rate: float, rate_of: Callable[[Tensor], float]
) -> None:
    """Change the bias gradient so that a plain step cancels the change of the mean field by the weights, (*shape)."""
    for bias, piece in zip(unit.biases(), unit.by_bias(change), strict=True):
        gradient.units[bias].sub_(piece, alpha=rate / rate_of(bias))

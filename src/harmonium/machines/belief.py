"""Deep belief networks: stacks of machines, each trained on the hidden states of the one below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Unpack

import torch
from torch import Generator, Tensor, nn

from .. import noise
from ..couplings import Coupling
from ..errors import InvalidOption, unknown
from ..noise import Seed
from ..shown import Shown
from ..signatures import forwards
from ..units import Unit
from .chain import ArrayLike, Initialization, as_layer, check_coupling, described
from .rbm import RBM

INPUTS = ("samples", "means")


class DeepBeliefNetwork(Shown, nn.Module):
    """Deep belief network (Hinton et al. 2006): p(x_0, …, x_L) = p_1(x_0|x_1) … p_L(x_{L-1}, x_L).

    Machine k, an RBM with any units and coupling, has the layers k-1 and k. The top machine L is the undirected part of
    the model; the other machines generate downward with p_k(x_{k-1}|x_k). Upward, they recognize: their conditional
    distributions q(x_k|x_{k-1}) approximate the posterior. The hidden units of machine k and the visible units of
    machine k+1 are two layers with their own biases. Their states must agree: the same number of entries, possibly in
    another shape, and values that the upper units can take.

    Args:
        machines: the RBMs, from the bottom up.
        inputs: what a machine learns from and measures of the machine below: "samples" of its hidden units, which is
            exact for the variational bound, or "means", as in Hinton & Salakhutdinov (2006), with less noise.
            :meth:`features` and :meth:`reconstruct` always use means, :meth:`sample` always samples.

    >>> network = DeepBeliefNetwork([RBM(6, 4), RBM(4, 3)])
    >>> network.features(torch.zeros(2, 6)).shape, network.sample(5, sweeps=10, seed=0, check_mixing=False).shape
    (torch.Size([2, 3]), torch.Size([5, 6]))
    """

    #: the machines, from the bottom up (a module list)
    machines: Sequence[RBM]

    #: a network has no context
    context: torch.Size | None = None

    def __init__(self, machines: Sequence[RBM], *, inputs: str = "samples") -> None:
        super().__init__()
        if not machines or not all(isinstance(machine, RBM) for machine in machines):
            raise InvalidOption(
                f"machines: expected one or more RBMs, found {machines!r}. For units or their numbers, "
                "use DeepBeliefNetwork.of([784, 500, 500])"
            )
        if len({id(part) for machine in machines for part in machine.modules()}) < sum(
            len(list(machine.modules())) for machine in machines
        ):
            raise InvalidOption("machines: expected distinct machines without common parts, found the same part twice")
        if inputs not in INPUTS:
            raise unknown("inputs", str(inputs), INPUTS)
        for k, (lower, upper) in enumerate(pairwise(machines), 1):
            _check_chained(k, lower.hidden, upper.visible)
        self.machines = nn.ModuleList(machines)  # type: ignore[assignment]
        self.inputs = inputs

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The kind of the machine, its layers and the number of parameters."""
        return type(self).__name__, {**described(self), "inputs": self.inputs}

    @classmethod
    def of(
        cls,
        layers: Sequence[Unit | int | tuple[int, ...]],
        couplings: Sequence[Coupling] | None = None,
        *,
        inputs: str = "samples",
    ) -> DeepBeliefNetwork:
        """A network with the given layers, from the visible layer up; a number means Bernoulli units.

        Every inner layer is the hidden layer of one machine, and a copy of it the visible layer of the next; for a
        pooled layer, Bernoulli units with the pooled states. ``couplings`` are dense by default. The arguments are
        those of ``DeepBoltzmannMachine``.

        >>> [machine.hidden.size for machine in DeepBeliefNetwork.of([784, 500, 500, 2000]).machines]
        [500, 500, 2000]
        """
        units = [as_layer(layer) for layer in layers]
        if len(units) < 2:
            raise InvalidOption(f"layers: expected two or more layers, found {len(units)}")
        if couplings is not None and len(couplings) != len(units) - 1:
            raise InvalidOption(f"couplings: expected {len(units) - 1} for {len(units)} layers, found {len(couplings)}")
        lower = [units[0], *(unit.pooled_layer() for unit in units[1:-1])]
        for k, coupling in enumerate(couplings or ()):
            check_coupling(k + 1, coupling, lower[k], units[k + 1])
        links = couplings if couplings is not None else [None] * len(lower)
        return cls([RBM(*parts) for parts in zip(lower, units[1:], links, strict=True)], inputs=inputs)

    # -- the parts ------------------------------------------------------------------------------------------

    @property
    def visible(self) -> Unit:
        """The visible layer of the lowest machine, which holds the data."""
        return self.machines[0].visible

    @property
    def top(self) -> RBM:
        """The top machine, the undirected part of the model."""
        return self.machines[-1]

    @property
    def layers(self) -> list[Unit]:
        """The visible layer, and the hidden layer of every machine."""
        return [self.visible, *(machine.hidden for machine in self.machines)]

    @property
    def couplings(self) -> list[Coupling]:
        """The coupling of every machine."""
        return [machine.coupling for machine in self.machines]

    @property
    def depth(self) -> int:
        """The number of layers, one more than machines."""
        return len(self.machines) + 1

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters."""
        return self.machines[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.machines[0].device

    def config(self) -> dict[str, Any]:
        """Everything needed to rebuild the network except its parameters."""
        return {
            "machine": type(self).__name__,
            "inputs": self.inputs,
            "machines": [machine.config() for machine in self.machines],
        }

    def as_states(self, x: ArrayLike, layer: int = 0, *, missing: bool = False) -> Tensor:
        """Convert an array or tensor (n, *shape) to states of a layer, with the network's dtype and device."""
        machine, own = (self.machines[0], 0) if layer == 0 else (self.machines[layer - 1], 1)
        return machine.as_states(x, own, missing=missing)

    def checked_states(self, x: ArrayLike, what: str = "data", n: int | None = None) -> Tensor:
        """Convert and validate visible states (m, *shape); if ``n`` is given, repeat or cut them to ``n`` rows."""
        return self.machines[0].checked_states(x, what, n)

    def check_normalizable(self) -> None:
        """Raise :class:`NotNormalizable` unless the partition function of every machine is finite."""
        for machine in self.machines:
            machine.check_normalizable()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if hasattr(RBM, name):
                raise AttributeError(
                    f"{type(self).__name__} has no attribute '{name}'; use network.machines[k].{name}"
                ) from None
            raise

    # -- up and down ----------------------------------------------------------------------------------------

    def stacked(
        self, v: Tensor, *, generator: Generator | None = None, inputs: str | None = None
    ) -> Iterator[tuple[RBM, Tensor]]:
        """Yield every machine with its input, from the bottom up: ``v``, then hidden states given the input below.

        A machine may be changed before the next one is asked for. ``inputs`` replaces that of the network.
        """
        for k, machine in enumerate(self.machines):
            yield machine, v
            if k + 1 < len(self.machines):
                v = self.pass_up(k, v, generator=generator, inputs=inputs)

    def pass_up(self, k: int, v: Tensor, *, generator: Generator | None = None, inputs: str | None = None) -> Tensor:
        """The input of machine k+1 (from 0) given that of machine k: a sample or the mean of its hidden layer.

        ``inputs`` is "samples" or "means"; by default that of the network. Means are differentiable.
        """
        machine = self.machines[k]
        if (inputs or self.inputs) == "means":
            return self.upward(k, machine.hidden_mean(v))
        return self.upward(k, machine.sample_hidden(v, seed=generator))

    def upward(self, k: int, h: Tensor) -> Tensor:
        """States of the hidden layer of machine k, pooled, as states of the visible layer of machine k+1."""
        return self.machines[k].hidden.pool(h).reshape(-1, *self.machines[k + 1].visible.shape)

    def downward(self, k: int, v: Tensor, generator: Generator | None) -> Tensor:
        """States of the visible layer of machine k+1 as states of the hidden layer of machine k."""
        hidden = self.machines[k].hidden
        return hidden.unpool(v.reshape(-1, *hidden.pooled_shape), generator=generator)

    def features(self, v: ArrayLike, layer: int | None = None) -> Tensor:
        """The mean activations of a layer (default: the top one), layer by layer: (n, *visible) -> (n, *shape).

        Those of a pooled layer are pooled.
        """
        layer = self._checked_layer(layer)
        x = self._means(self.as_states(v), layer)
        return x if layer == 0 else self.machines[layer - 1].hidden.pool(x)

    def forward(self, v: ArrayLike) -> Tensor:
        """``network(v)``: the features of the top layer."""
        return self.features(v)

    def _means(self, v: Tensor, layer: int) -> Tensor:
        for k, machine in enumerate(self.machines[:layer]):
            v = machine.hidden_mean(v if k == 0 else self.upward(k - 1, v))
        return v

    def reconstruct(self, v: ArrayLike, layer: int | None = None) -> Tensor:
        """The means going up to a layer (default: the top one) and down again: (n, *visible) -> (n, *visible)."""
        layer = self._checked_layer(layer)
        v = self.as_states(v)
        if layer == 0:
            return v
        x, generator = self._means(v, layer), noise.generator(0, self.device)  # random only for pooled layers
        for k in reversed(range(1, layer)):
            x = self.downward(k - 1, self.machines[k].visible_mean(x), generator)
        bottom = self.machines[0]
        return bottom.visible.conserving(v).mean(bottom.coupling.down(x))

    def _checked_layer(self, layer: int | None) -> int:
        if layer is None:
            return len(self.machines)
        if not 0 <= layer <= len(self.machines):
            raise InvalidOption(f"layer: expected a number from 0 to {len(self.machines)}, found {layer}")
        return layer

    # -- sampling -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self,
        n: int | None = None,
        *,
        sweeps: int = 1000,
        start: ArrayLike | None = None,
        means: bool = False,
        seed: Seed = None,
        check_mixing: bool = True,
    ) -> Tensor:
        """Draw visible states: Gibbs sampling in the top machine, then one pass down: (n, *visible).

        Args:
            n: number of chains; by default the number of rows of ``start``, or 1.
            sweeps: number of Gibbs sweeps of the top machine.
            start: initial visible states (m, *visible), passed up by sampling; by default draws of the lower layer of
                the top machine without couplings.
            means: whether to return the means of the visible units given the layer above, such as gray values,
                instead of a sample of them.
            seed: seed of the random generator.
            check_mixing: whether to warn :class:`NotMixed` about chains of the top machine that have not mixed.
        """
        generator = noise.generator(seed, self.device)
        if start is not None:
            *_, (_, start) = self.stacked(self.checked_states(start, "start", n), generator=generator, inputs="samples")
        x = self.top.sample(n, sweeps=sweeps, start=start, seed=generator, check_mixing=check_mixing)
        if len(self.machines) == 1 and means:
            return self.top.visible_mean(self.top.sample_hidden(x, seed=generator))
        for k in reversed(range(len(self.machines) - 1)):
            machine, h = self.machines[k], self.downward(k, x, generator)
            x = machine.visible_mean(h) if means and k == 0 else machine.sample_visible(h, seed=generator)
        return x

    # -- learning -------------------------------------------------------------------------------------------

    @forwards(RBM.initialize)
    def initialize(
        self,
        data: ArrayLike | None = None,
        *,
        seed: Seed = None,
        **options: Unpack[Initialization],
    ) -> None:
        """Initialize every machine (:meth:`BoltzmannMachine.initialize`), with ``data`` passed up the stack."""
        generator = noise.generator(seed, self.device)
        if data is None:
            for machine in self.machines:
                machine.initialize(seed=generator, **options)
            return
        for machine, rows in self.stacked(self.as_states(data), generator=generator):
            machine.initialize(rows, seed=generator, **options)


def _check_chained(k: int, hidden: Unit, visible: Unit) -> None:
    """Raise unless states of the ``hidden`` layer of machine k are states of the ``visible`` layer of machine k+1."""
    size, shape = hidden.pooled_shape.numel(), hidden.pooled_shape
    if size != visible.size:
        raise InvalidOption(
            f"layer {k}: expected {size} units in the visible layer of machine {k + 1}, as in the hidden layer "
            f"{tuple(shape)} of machine {k}, found {visible.size} {tuple(visible.shape)}"
        )
    for (start, stop), lower in _spans(hidden):
        for (first, last), upper in _spans(visible):
            if stop <= first or last <= start:
                continue
            entries = upper.event_shape.numel()
            torn = entries > 1 and ((start - first) % entries or (stop - first) % entries)
            if torn or not upper.support.includes(lower.support):
                raise InvalidOption(
                    f"layer {k}: expected {upper.support.description} for the {upper.name()} units in the visible "
                    f"layer of machine {k + 1}, found {lower.support.description} of the {lower.name()} units in the "
                    f"hidden layer of machine {k}"
                )


def _spans(layer: Unit) -> Iterator[tuple[tuple[int, int], Unit]]:
    """Yield the parts of a layer with the first entry of each and the one after its last."""
    if layer.pooled_shape != layer.shape:
        yield (0, layer.pooled_shape.numel()), layer
        return
    start = 0
    for part in layer.parts:
        yield (start, start + part.size), part
        start += part.size

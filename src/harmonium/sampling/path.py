"""Paths between two machines, along which all natural parameters are linear in β."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral

import numpy as np
import torch
from torch import Generator, Tensor

from .. import noise
from ..allocation import check_memory
from ..checks import count
from ..errors import InvalidData, InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..units import Unit
from ..units.base import per_row

_CHAINS = 500  # number of short chains whose single-site statistics define a base
_SWEEPS = 20


@dataclass(frozen=True)
class Responses:
    """The fields (batch, *shape) on a layer at the two ends of a path; ``None`` at an end without couplings."""

    low: Tensor | None
    high: Tensor | None

    def map(self, function: Callable[[Tensor], Tensor]) -> Responses:
        """Apply ``function`` to each field."""
        return Responses(*(None if x is None else function(x) for x in (self.low, self.high)))


class Path:
    """The path p_β ∝ p_0^{1-β} p_1^β between two machines on the same units; every p_β is again such a machine.

    Odd layers are summed out and even layers are kept (for an RBM: the visible one), so the weight of a state is
    w_β(x) = Π_even e^{-U_β(x)} · Π_odd Z_β(field). The default base is :func:`free`, for which β is the inverse
    temperature of bounded units.
    """

    def __init__(self, target: BoltzmannMachine, base: BoltzmannMachine | None = None) -> None:
        self.target, self.base = target, free(target) if base is None else base
        if [u.config() for u in self.base.layers] != [u.config() for u in target.layers]:
            raise InvalidOption("base: expected a machine on the same units as the target, found different units")
        # read once: a step of the annealing of a small machine takes as long as ten look-ups of a module
        self._layers, self._dims = list(target.layers), [len(unit.shape) for unit in target.layers]
        self.even = range(0, len(self._layers), 2)
        self.odd = range(1, len(self._layers), 2)
        self._flat = [not bool(c.weight.any()) for c in self.base.couplings]
        self._flat_target = [False for _ in target.couplings]  # may change during training, so it is treated as coupled
        self.refresh()

    def refresh(self) -> None:
        """Read the parameters of both ends again after training has changed them."""
        self._ends = [
            ({k: v.detach() for k, v in a.natural().items()}, {k: v.detach() for k, v in b.natural().items()})
            for a, b in zip(self.base.layers, self.target.layers, strict=True)
        ]
        self._same = [all(torch.equal(a[name], b[name]) for name in a) for a, b in self._ends]
        self._slopes: dict[int, Tensor] = {}  # ∂_β of the biases, flat

    def reversed(self) -> Path:
        """The same path from the target back to the base."""
        back = Path(self.base, self.target)
        back._flat_target = self._flat
        return back

    def length(self) -> float:
        """The norm of the difference between the couplings at the two ends."""
        pairs = zip(self.base.couplings, self.target.couplings, strict=True)
        return math.sqrt(sum((b.weight - a.weight).double().square().sum().item() for a, b in pairs))

    def unit(self, layer: int, beta: float | Tensor) -> Unit:
        """The units of a layer at β; a tensor β of shape (K, 1, …) gives parameters with that leading shape."""
        unit = self._layers[layer]
        if self._same[layer]:
            return unit
        start, end = self._ends[layer]
        mixed = {name: _mix(start[name], end[name], _beside(beta, start[name].ndim)) for name in start}
        return unit.with_natural(mixed)

    def at(self, beta: float | Tensor, seen: Mapping[int, Responses] | None = None) -> Point:
        """The path at β, as a chain of layers; ``seen`` are responses that are already known, by layer index."""
        return Point(self, beta, seen)

    def responses(self, layer: int, state: Sequence[Tensor | None]) -> Responses:
        """The fields on a layer at the two ends of the path, for :meth:`mixed`."""
        neighbor = layer - 1 if layer else 1
        x = state[neighbor]
        assert x is not None
        batch = x.shape[: x.ndim - self._dims[neighbor]]
        if len(batch) > 1:  # couplings accept only one batch dimension
            flat = [None if x is None else x.flatten(0, len(batch) - 1) for x in state]
            return self.responses(layer, flat).map(lambda x: x.view(*batch, *x.shape[1:]))
        near = slice(max(layer - 1, 0), layer + 1)
        low = None if all(self._flat[near]) else self.base.field(layer, state)
        apart = low is not None and all(self._flat_target[near])
        return Responses(low, None if apart else self.target.field(layer, state))

    def seen(self, state: Sequence[Tensor | None]) -> dict[int, Responses]:
        """The responses of all odd layers, which give their fields at any β without further matrix products."""
        return {layer: self.responses(layer, state) for layer in self.odd}

    def mixed(self, layer: int, responses: Responses, beta: float | Tensor, *, last: bool = False) -> Tensor:
        """The field on a layer at β from the responses at the ends, which may be overwritten if ``last``."""
        low, high = responses.low, responses.high
        beta = _beside(beta, self._dims[layer])
        if low is not None and high is not None:
            return _mix(low, high, beta)
        part, share = (high, beta) if low is None else (low, 1 - beta)
        assert part is not None
        return part.mul_(share) if last else part * share

    def tilt(self, state: Sequence[Tensor | None]) -> Tensor:
        """∂_β of the kept layers' log-weight, which is linear in β: (batch,)."""
        total = None
        for layer in self.even:
            x = state[layer]
            assert x is not None
            if self._same[layer]:
                continue
            if self._ends[layer][0].keys() == {"bias"}:
                slope = self._slope(layer)
                part = x.flatten(1) @ slope if slope.ndim == 1 else (x.flatten(1) * slope).sum(1)
            else:
                part = per_row(self._layers[layer].log_weight(x) - self.base.layers[layer].log_weight(x))
            total = part if total is None else total + part
        first = state[0]
        assert first is not None
        return torch.zeros(len(first), dtype=first.dtype, device=first.device) if total is None else total

    def _slope(self, layer: int) -> Tensor:
        """∂_β of the biases of a layer, (size,), or (batch, size) if rows have biases of their own."""
        if layer not in self._slopes:
            start, end = self._ends[layer]
            slope = self._layers[layer].full(end["bias"] - start["bias"])
            self._slopes[layer] = slope.reshape(*slope.shape[: slope.ndim - self._dims[layer]], -1)
        return self._slopes[layer]

    def machine(self, beta: float) -> BoltzmannMachine:
        """A new machine with the parameters at β."""
        machine = copy.deepcopy(self.target)
        with torch.no_grad():
            for layer, unit in enumerate(machine.layers):
                mixed = self.unit(layer, beta)
                for name, parameter in unit.named_parameters():
                    parameter.copy_(_get(mixed, name))
            for coupling, low, high in zip(machine.couplings, self.base.couplings, self.target.couplings, strict=True):
                coupling.weight.copy_(torch.lerp(low.weight, high.weight, beta))
        return machine


class Point:
    """The machine at β of a path as a chain of layers (:class:`harmonium.machines.kernel.Layers`), without a copy.

    A β of shape (K, 1) represents K machines at once, with states (K, chains, *shape). Fields of layers in ``seen`` are
    computed from the known responses, not from the state, so such a point is valid for log-weights but not for sweeps.
    """

    def __init__(self, path: Path, beta: float | Tensor, seen: Mapping[int, Responses] | None = None) -> None:
        self.path, self.beta, self._seen = path, beta, seen or {}
        self._units: dict[int, Unit] = {}

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.path._layers)

    def layer(self, layer: int) -> Unit:
        """The units of a layer, with their parameters at β."""
        if layer not in self._units:
            self._units[layer] = self.path.unit(layer, self.beta)
        return self._units[layer]

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a layer from its neighbors in ``state``."""
        if layer in self._seen:
            return self.path.mixed(layer, self._seen[layer], self.beta)
        return self.path.mixed(layer, self.path.responses(layer, state), self.beta, last=True)


_BETA_BYTES = 64  # of one value in a list


def beta_grid(betas: int | Sequence[float] | Tensor) -> list[float]:
    """Inverse temperatures from 0 to 1, from the number of steps or the values themselves.

    >>> beta_grid(4)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if isinstance(betas, int | Integral):
        betas = int(betas)
        if count("betas", betas) < 1:
            raise InvalidOption(f"betas: expected at least one step, found {betas}")
        check_memory(f"betas: {betas:.3g} steps", betas * _BETA_BYTES, "use fewer")
        return [k / betas for k in range(betas + 1)]
    try:
        values = [float(beta) for beta in betas]
    except (TypeError, ValueError):
        raise InvalidOption(f"betas: expected a number of steps, or values from 0 to 1, found {betas!r}") from None
    if len(values) < 2 or values[0] != 0 or values[-1] != 1 or any(b <= a for a, b in pairwise(values)):
        raise InvalidOption("betas: expected increasing values from 0 to 1")
    return values


def even_steps(betas: Sequence[float], cost: Tensor, steps: int) -> list[float]:
    """``steps`` + 1 values from 0 to 1 between which the ``cost`` of the intervals of ``betas`` is divided equally.

    >>> [round(beta, 2) for beta in even_steps([0.0, 0.5, 1.0], torch.tensor([3.0, 1.0]), 4)]
    [0.0, 0.17, 0.33, 0.5, 1.0]
    """
    reached = np.concatenate([[0.0], cost.double().cpu().cumsum(0).numpy()])
    values = np.interp(np.linspace(0.0, reached[-1], steps + 1), reached, betas).tolist()
    return [0.0, *values[1:-1], 1.0]


def draws(machine: BoltzmannMachine, n: int, generator: Generator | None = None) -> list[Tensor]:
    """Exact draws (n, *shape) of every layer of a machine without couplings."""
    machine.check_rows(n)
    fields = [torch.zeros(n, *unit.shape, dtype=machine.dtype, device=machine.device) for unit in machine.layers]
    return [unit.sample(field, generator=generator) for unit, field in zip(machine.layers, fields, strict=True)]


def uncoupled(machine: BoltzmannMachine) -> BoltzmannMachine:
    """A copy without couplings, whose ln Z is a sum over units."""
    apart = copy.deepcopy(machine)
    with torch.no_grad():
        for coupling in apart.couplings:
            coupling.weight.zero_()
    return apart


def free(machine: BoltzmannMachine) -> BoltzmannMachine:
    """A copy without couplings and biases."""
    empty = uncoupled(machine)
    for unit in empty.layers:
        unit.shift_bias(-unit.bias)
    return empty


def in_fields(machine: BoltzmannMachine, fields: Sequence[Tensor]) -> BoltzmannMachine:
    """An uncoupled copy with units in given fields, one for each row: (n, *shape) for every layer."""
    apart = uncoupled(machine)
    return BoltzmannMachine([unit.in_field(B) for unit, B in zip(apart.layers, fields, strict=True)], apart.couplings)


def independent(machine: BoltzmannMachine, data: ArrayLike) -> BoltzmannMachine:
    """An uncoupled copy whose visible units have the single-site statistics of ``data`` (n, *visible)."""
    apart = uncoupled(machine)
    apart.visible.initialize_from(_rows(machine, data))
    return apart


@torch.no_grad()
def matched(machine: BoltzmannMachine, data: ArrayLike, generator: Generator | None = None) -> BoltzmannMachine:
    """An uncoupled copy with the single-site statistics of ``data`` (n, *visible) and of hidden states given ``data``.

    Unlike :func:`independent`, it also changes the hidden biases. The hidden biases of a trained machine compensate for
    large fields from the visible units; without couplings they would put hidden units far from their typical activity.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(1))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 10.0), torch.nn.init.constant_(rbm.hidden.bias, -20.0)
    >>> base = matched(rbm, torch.ones(1000, 2), torch.Generator().manual_seed(0))
    >>> bool(base.hidden.bias.abs() < 0.5)
    True
    """
    rows, own = _rows(machine, data), _own(machine, generator)
    return _with_statistics(machine, machine.initial_state(rows, own))


@torch.no_grad()
def fitted(machine: BoltzmannMachine, generator: Generator | None = None) -> BoltzmannMachine:
    """An uncoupled copy whose units have the single-site statistics of short Gibbs chains of the machine.

    Runs 500 chains of 20 sweeps from independent visible units. They need not be in equilibrium: annealing is unbiased
    for any base that does not depend on its random numbers, and a base close to the machine only reduces the variance.

    The chains use a separate generator, seeded with one number from ``generator``.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> rbm.visible.shift_bias(torch.tensor([-3.0, -1.0, 1.0, 3.0]))
    >>> base = fitted(rbm, torch.Generator().manual_seed(0))
    >>> bool((base.visible.bias - rbm.visible.bias).abs().max() < 0.5)
    True
    """
    own = _own(machine, generator)
    state = machine.initial_state(machine.independent(_CHAINS, own), own)
    for _ in range(_SWEEPS):
        state = machine.sweep(state, own)
    return _with_statistics(machine, state)


def _rows(machine: BoltzmannMachine, data: ArrayLike) -> Tensor:
    rows = machine.as_states(data)
    if len(rows) == 0:
        raise InvalidData("base: expected at least one row of data, found none")
    return rows


def _own(machine: BoltzmannMachine, generator: Generator | None) -> Generator | None:
    """A separate generator, so that the base does not depend on the random numbers of the annealing."""
    seed = int(torch.randint(2**62, (1,), generator=generator, device=machine.device))
    return noise.generator(seed, machine.device)


def _with_statistics(machine: BoltzmannMachine, state: Sequence[Tensor]) -> BoltzmannMachine:
    """An uncoupled copy whose units have the single-site statistics of the states (n, *shape) of every layer."""
    apart = uncoupled(machine)
    for unit, x in zip(apart.layers, state, strict=True):
        unit.initialize_from(x)
    return apart


@torch.no_grad()
def uncoupled_log_partition(machine: BoltzmannMachine) -> float:
    """ln Z of a machine without couplings."""
    total = 0.0
    for unit in machine.layers:
        zero = torch.zeros(1, *unit.shape, dtype=machine.dtype, device=machine.device)
        total += unit.log_partition(zero).double().sum().item()
    return total


def _beside(beta: float | Tensor, dims: int) -> float | Tensor:
    """β with ``dims`` trailing dimensions of size 1 appended."""
    return beta.view(*beta.shape, *(1,) * dims) if isinstance(beta, Tensor) else beta


def _mix(low: Tensor, high: Tensor, beta: float | Tensor) -> Tensor:
    return torch.lerp(low, high, beta)


def _get(unit: Unit, name: str) -> Tensor:
    value: object = unit
    for part in name.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)  # type: ignore[index]
    assert isinstance(value, Tensor)
    return value

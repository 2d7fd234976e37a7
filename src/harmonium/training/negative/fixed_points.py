"""Deterministic negative phase: F_model at mean-field fixed points, Tramel et al. (2018), Alg. 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from ... import meanfield
from ...checks import count
from ...errors import Diverged, InvalidOption, unknown
from ...machines import RBM, BoltzmannMachine
from ...meanfield import Solutions
from ...meanfield.chain import Chain, free_energy
from ...meanfield.iteration import Rule, iterate
from ...meanfield.layers import MeanFieldLayer
from ...meanfield.starts import check, scattered, upward
from ..gradient import CouplingGradient, Gradient, unit_gradient
from ..state import continued
from .base import Batch, NegativePhase, State, cycled

_CHAINS = {"naive": False, "tap": True}  # whether the method is of second order
_OTHERS: dict[str, Callable[..., Solutions]] = {
    "adatap": meanfield.adatap,
    "bp": meanfield.bp,
    "bp-exact": partial(meanfield.bp, messages="exact"),
}
_SHALLOW, _DEEP = 3, 10  # iterations per step of RBMs and of deep machines, whose persistent points need more


@dataclass(frozen=True)
class MeanField(NegativePhase):
    """F_model is the mean free energy of mean-field fixed points; gradient: Tramel et al. (2018), eqs. (39)-(41).

    The phase uses random numbers only for ``noise``. The hidden layers of a deep machine given the batch are summed out
    by clamped mean field, eqs. (E5)-(E8): naive for ``method="naive"``, otherwise TAP.

    Args:
        k: number of iterations per step; 3 for RBMs and 10 for deep machines if None.
        method: "tap", "naive", "adatap", "bp" (relaxed) or "bp-exact" (for units with finitely many values).
        starts: number of starting points; the batch size if None.
        persistent: whether to start at the fixed points of the previous step; otherwise each step starts at the rows of
            its batch, eqs. (36)-(37). None: at the fixed points for deep machines without ``noise``, otherwise at the
            rows. Persistent starts of an RBM leave the data; the error of the approximation grows with the distance.
        tolerance: stop before ``k`` iterations if the residual is at most this, as in :func:`harmonium.meanfield.tap`.
        damping: damping of the iterations, in [0, 1).
        noise: corrupt the rows at which a step starts: in each one, a fraction of the visible units, drawn uniformly
            from [0, noise], is set to random values. This unlearns solutions that are reached only from noisy data.

    >>> MeanField(3, starts=50).starts
    50
    """

    k: int | None = None
    _: KW_ONLY
    method: str = "tap"
    starts: int | None = None
    persistent: bool | None = None
    tolerance: float | None = None
    damping: float = 0.5
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        method, starts, persistent, noise = self.method, self.starts, self.persistent, self.noise
        if method not in (*_CHAINS, *_OTHERS):
            raise unknown("mean-field method", str(method), (*_CHAINS, *_OTHERS))
        if starts is not None and count("starts", starts) < 1:
            raise InvalidOption(f"starts: expected at least 1, found {starts}")
        if not 0 <= noise <= 1 or (noise and persistent):
            raise InvalidOption(
                f"noise: expected a fraction from 0 to 1 without persistent=True, "
                f"found noise={noise}, persistent={persistent}"
            )
        self._rule(_SHALLOW)

    def _rule(self, k: int) -> Rule:
        """Return the rule of the iterations; ``k`` is the default of their number."""
        if self.tolerance is None:
            return Rule(self.damping, iterations=self.k or k)
        return Rule(self.damping, self.tolerance, max_iterations=self.k or k)

    def resolved(self, batch_size: int) -> MeanField:
        return replace(self, starts=batch_size) if self.starts is None else self

    def check(self, machine: BoltzmannMachine) -> None:
        check(machine, self.method not in ("naive", "bp-exact"), clamped=False)

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        if machine.visible.conserving(rows) is not machine.visible:
            raise InvalidOption(
                f"MeanField expects a fixed document length: pass total=… to the visible {machine.visible.name()} units"
            )
        self.check(machine)
        if self.noise:
            scattered(machine.visible, rows[:1], 0.0, None)  # raises for units without a finite set of values
        visible = cycled(rows, self.starts or len(rows))
        a, c = upward(machine, visible, torch.zeros_like(visible))
        return {"a": a, "c": c, "solutions": None}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        deep = machine.depth > 2
        rule = self._rule(_DEEP if deep else _SHALLOW)
        continues = deep and not self.noise if self.persistent is None else self.persistent
        if not continues:
            everywhere = torch.arange(len(state["a"][0]), device=machine.device)
            state = self._restarted(machine, batch.visible, state, everywhere, generator)
        clamped = _Clamped(self, rule, machine, batch.visible)
        compute = self._by_moments if self.method in _CHAINS else self._by_differentiation
        gradient, state, good = compute(machine, rule, clamped, state)
        if not bool(good.any()):
            raise Diverged(f"no start of the {self.method} mean field has a finite fixed point")
        if not bool(good.all()):  # diverged points start at the data again
            state = self._restarted(machine, batch.visible, state, torch.nonzero(~good).flatten(), generator)
        return gradient, state

    def check_state(self, machine: BoltzmannMachine, state: State) -> None:
        if state["solutions"] is not None:
            like = _OTHERS[self.method](machine, state["a"][0], damping=self.damping, iterations=1)
            continued(state["solutions"], _tree(like))

    def by_statistics(self, batch: Batch) -> bool:
        """Return whether the method has a gradient in closed form."""
        return self.method in _CHAINS

    def chain(self, machine: BoltzmannMachine, a: list[Tensor], c: list[Tensor], *, clamped: bool = False) -> Chain:
        """Return the iteration from means and variances of every layer."""
        layers = [MeanFieldLayer(unit) for unit in machine.layers]
        second_order = _CHAINS.get(self.method, True)
        return Chain(machine, layers, a, c, second_order=second_order, damping=self.damping, clamped=clamped)

    def _restarted(
        self, machine: BoltzmannMachine, batch: Tensor, state: State, rows: Tensor, generator: Generator | None
    ) -> State:
        """Return the state with the starting points ``rows`` at rows of the batch."""
        visible = batch[rows % len(batch)]
        if self.noise:
            visible = scattered(machine.visible, visible, self.noise, generator)
        fresh = upward(machine, visible, torch.zeros_like(visible))
        a, c = (
            [x.index_copy(0, rows, y) for x, y in zip(state[name], values, strict=True)]
            for name, values in zip("ac", fresh, strict=True)
        )
        return {"a": a, "c": c, "solutions": None}

    def _by_moments(
        self, machine: BoltzmannMachine, rule: Rule, clamped: _Clamped, state: State
    ) -> tuple[Gradient, State, Tensor]:
        """Compute the gradient of naive and TAP mean field in closed form."""
        data, correlations = clamped.moments()
        chain = self.chain(machine, [x.clone() for x in state["a"]], [x.clone() for x in state["c"]])
        chain.refresh()
        run(chain, rule)
        good = ~chain.lost
        model = _Moments(chain, good)
        units: dict[Tensor, Tensor] = {}
        links: dict[int, CouplingGradient] = {}
        if bool(good.any()):
            for k, unit in enumerate(machine.layers):
                values = model.statistics(k)
                units |= unit_gradient(unit, {n: values[n].mean(0) - value for n, value in data[k].items()})
            for k, coupling in enumerate(machine.couplings):
                if coupling.weight.requires_grad:
                    change = torch.zeros_like(coupling.weight)
                    model.correlate(k, change)
                    correlations(k, change)
                    links[k] = CouplingGradient.of_matrix(coupling, change)
        after = {"a": chain.a, "c": chain.c, "solutions": None}
        points = [[x[good] for x in part] for part in (chain.a, chain.c, chain.B, chain.A)]

        def loss() -> Tensor:
            value = free_energy(machine, *points, second_order=chain.second_order, clamped=False)
            return clamped.free_energy(chain.second_order) - value.mean()

        return Gradient(units, links, [hidden.mean(0) for hidden in clamped.hidden], loss=loss), after, good

    def _by_differentiation(
        self, machine: BoltzmannMachine, rule: Rule, clamped: _Clamped, state: State
    ) -> tuple[Gradient, State, Tensor]:
        """Compute the gradient of other free energies by automatic differentiation at detached fixed points."""
        options: dict[str, Any] = {"damping": rule.damping, "max_iterations": rule.max_iterations}
        options |= {"iterations": rule.iterations} if rule.iterations is not None else {"tolerance": rule.tolerance}
        kept = state["solutions"]
        start: Any = state["a"][0] if kept is None else _solutions(kept, self.damping)
        solutions = _OTHERS[self.method](machine, start, **options)
        learned: list[Tensor] = [parameter for parameter in machine.parameters() if parameter.requires_grad]
        good = torch.isfinite(meanfield.free_energy(machine, solutions))

        def loss() -> Tensor:
            return clamped.free_energy() - meanfield.free_energy(machine, solutions)[good].mean()

        with torch.enable_grad():
            slopes = torch.autograd.grad(loss(), learned, materialize_grads=True)
        found = dict(zip(learned, slopes, strict=True))
        links = {
            k: CouplingGradient.of_matrix(one, found.pop(one.weight))
            for k, one in enumerate(machine.couplings)
            if one.weight.requires_grad
        }
        gradient = Gradient(found, links, [hidden.mean(0) for hidden in clamped.hidden], loss=loss)
        return gradient, {**state, "solutions": _tree(solutions) if bool(good.all()) else None}, good


class _Clamped:
    """The hidden layers given the rows of a batch: exactly for an RBM, otherwise by clamped mean field."""

    def __init__(self, phase: MeanField, rule: Rule, machine: BoltzmannMachine, batch: Tensor) -> None:
        self._machine, self._batch = machine, batch
        if isinstance(machine, RBM):
            self._field = machine.coupling.up(batch)
            self.hidden = [machine.hidden.mean(self._field)]
            return
        self._chain = phase.chain(machine, *upward(machine, batch, torch.zeros_like(batch)), clamped=True)
        run(self._chain, rule)
        if bool(self._chain.lost.any()):
            lost = int(self._chain.lost.sum())
            raise Diverged(f"the clamped mean field of {lost} rows of the batch is not finite")
        self.hidden = self._chain.a[1:]

    def moments(self) -> tuple[list[dict[str, Tensor]], Callable[[int, Tensor], Any]]:
        """Return the mean statistics of every layer over the batch, and a function that subtracts the correlations."""
        machine, batch = self._machine, self._batch
        if isinstance(machine, RBM):
            (hidden,) = self.hidden
            values = [machine.visible.statistics(batch), machine.hidden.moments(self._field, mean=hidden)]

            def subtract(k: int, out: Tensor) -> Tensor:
                return machine.couplings[k].correlate(batch, hidden, out=out, add=True, scale=-1 / len(batch))

        else:
            moments = _Moments(self._chain)
            values = [moments.statistics(k) for k in range(len(machine.layers))]

            def subtract(k: int, out: Tensor) -> Tensor:
                return out.sub_(moments.correlate(k, torch.empty_like(out)))

        return [{name: value.mean(0) for name, value in part.items()} for part in values], subtract

    def free_energy(self, second_order: bool = True) -> Tensor:
        """Return ⟨F⟩ over the batch, differentiable."""
        if isinstance(self._machine, RBM):
            return self._machine.free_energy(self._batch, check=False).mean()
        chain = self._chain
        points = chain.a, chain.c, chain.B, chain.A
        return free_energy(self._machine, *points, second_order=second_order, clamped=True).mean()


def run(chain: Chain, rule: Rule) -> None:
    """Iterate in place; rows that are not finite are ``lost``."""
    if rule.iterations is None:
        outcome = iterate(chain, rule)
        chain.restore(outcome.state, outcome.failed)
        return
    for _ in range(rule.iterations):
        chain.step(measure=False)
    chain.lost |= ~torch.isfinite(chain.a[-1].flatten(1).sum(1))


def _tree(s: Solutions) -> dict[str, Any]:
    """Return solutions as a tree of tensors."""
    lists = [s.magnetizations, s.variances, s.B, s.A, s.messages]
    return {"method": s.method, "lists": lists, "tensors": [s.free_energy, s.iterations, s.converged]}


def _solutions(tree: dict[str, Any], damping: float) -> Solutions:
    """Undo :func:`_tree`."""
    a, c, B, A, messages = tree["lists"]
    value, iterations, converged = tree["tensors"]
    return Solutions(tree["method"], a, c, B, A, value, iterations, converged, messages=messages, damping=damping)


class _Moments:
    """Expected statistics and correlations at the state of a chain, over the rows that are ``good`` (default: all)."""

    def __init__(self, chain: Chain, good: Tensor | None = None) -> None:
        self._chain = chain
        whole_batch = good is None or bool(good.all())
        self._a, self._c, self._B, self._A = (
            part if whole_batch else [x[good] for x in part] for part in (chain.a, chain.c, chain.B, chain.A)
        )

    def statistics(self, k: int) -> dict[str, Tensor]:
        """Return the expected statistics of layer k, ∂ ln Z(B, A)/∂θ, with one row per solution."""
        unit = self._chain.units[k]
        if self._chain.clamped and k == 0:
            return unit.statistics(self._a[0])
        if not self._chain.second_order:
            return unit.moments(self._B[k])
        return unit.moments(*self._chain.layers[k].seen(self._B[k], self._A[k]))

    def correlate(self, k: int, out: Tensor) -> Tensor:
        """Write the derivative with respect to the weights of coupling k, eq. (39), into ``out``."""
        c = self._c[k : k + 2] if self._chain.second_order else None
        return self._chain.links[k].gradient_(self._a[k : k + 2], c, out)

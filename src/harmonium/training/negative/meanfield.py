"""Deterministic negative phase: F_model at mean-field fixed points, Tramel et al. (2018), Alg. 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from ... import meanfield
from ...checks import count, whole
from ...errors import Diverged, InvalidOption, unknown
from ...machines import RBM, BoltzmannMachine
from ...meanfield import Solutions
from ...meanfield.chain import Chain, free_energy
from ...meanfield.iteration import Rule, iterate
from ...meanfield.layers import MeanFieldLayer
from ...meanfield.starts import check, scattered, upward
from ..state import restored
from .base import NegativePhase, learned_couplings, write_unit_gradient

_CHAINS = {"naive": False, "tap": True}  # whether the method is of second order
_OTHERS: dict[str, Callable[..., Solutions]] = {
    "adatap": meanfield.adatap,
    "bp": meanfield.bp,
    "bp-exact": partial(meanfield.bp, messages="exact"),
}
_SHALLOW, _DEEP = 3, 10  # iterations per step of RBMs and of deep machines, whose persistent points need more


@dataclass
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

    k: int | None = None  # type: ignore[assignment]
    _: KW_ONLY
    method: str = "tap"
    starts: int | None = None
    persistent: bool | None = None
    tolerance: float | None = None
    damping: float = 0.5
    noise: float = 0.0

    def __post_init__(self) -> None:
        k, method, starts, persistent, noise = self.k, self.method, self.starts, self.persistent, self.noise
        if method not in (*_CHAINS, *_OTHERS):
            raise unknown("mean-field method", str(method), (*_CHAINS, *_OTHERS))
        if (k is not None and count("k", k) < 1) or (starts is not None and count("starts", starts) < 1):
            raise InvalidOption(f"k, starts: expected at least 1, found k={k}, starts={starts}")
        if not 0 <= noise <= 1 or (noise and persistent):
            raise InvalidOption(
                f"noise: expected a fraction from 0 to 1 without persistent=True, "
                f"found noise={noise}, persistent={persistent}"
            )
        self._given_k = k if k is None else whole("k", k)
        self._rule()
        self._model: Chain
        self._solutions: Solutions | None
        self._hidden: list[Tensor]
        self._continues: bool  # whether the points of the previous step are kept

    @property
    def by_statistics(self) -> bool:  # type: ignore[override]
        """Whether the method has a gradient in closed form."""
        return self.method in _CHAINS

    def _rule(self) -> Rule:
        if self.tolerance is None:
            return Rule(self.damping, iterations=self.k or _SHALLOW)
        return Rule(self.damping, self.tolerance, max_iterations=self.k or _SHALLOW)

    # -- preparation ----------------------------------------------------------------------------------------

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        if machine.visible.conserving(start) is not machine.visible:
            raise InvalidOption(
                f"MeanField expects a fixed document length: pass total=… to the visible {machine.visible.name()} units"
            )
        check(machine, self.method not in ("naive", "bp-exact"), clamped=False)
        if self.noise:
            scattered(machine.visible, start[:1], 0.0, None)  # raises for units without a finite set of values
        self._solutions = None
        deep = machine.depth > 2
        self._continues = deep and not self.noise if self.persistent is None else self.persistent
        if self._given_k is None:
            self.k = _DEEP if deep else _SHALLOW
        self._allocate(machine, batch_size)
        rows = torch.arange(self._n_starts(batch_size), device=machine.device) % len(start)
        self._begin_at(machine, start[rows])

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        before = self._model
        self._allocate(machine, batch_size)
        n = self._n_starts(batch_size)
        if n != len(before.lost):
            rows = torch.arange(n, device=machine.device) % len(before.lost)
            self._model = self._chain(machine, [x[rows] for x in before.a], [x[rows] for x in before.c])
            self._solutions = None if self._solutions is None else self._solutions.select(rows)

    def _n_starts(self, batch_size: int) -> int:
        return batch_size if self.starts is None else self.starts

    def _allocate(self, machine: BoltzmannMachine, batch: int) -> None:
        self.data_slot = torch.zeros(batch, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
        self.use(batch)
        self.coupling_gradients = learned_couplings(machine)
        self._change = {k: torch.zeros_like(link.coupling.weight) for k, link in self.coupling_gradients.items()}

    def _chain(self, machine: BoltzmannMachine, a: list[Tensor], c: list[Tensor], *, clamped: bool = False) -> Chain:
        layers = [MeanFieldLayer(unit) for unit in machine.layers]
        second_order = _CHAINS.get(self.method, True)
        return Chain(machine, layers, a, c, second_order=second_order, damping=self.damping, clamped=clamped)

    def _begin_at(self, machine: BoltzmannMachine, visible: Tensor) -> None:
        self._model = self._chain(machine, *upward(machine, visible, torch.zeros_like(visible)))

    def _restart(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> None:
        """Reset the starting points ``rows`` to rows of the batch."""
        visible = self.batch[rows % len(self.batch)]
        if self.noise:
            visible = scattered(machine.visible, visible, self.noise, generator)
        fresh = upward(machine, visible, torch.zeros_like(visible))
        for state, values in zip((self._model.a, self._model.c), fresh, strict=True):
            for x, y in zip(state, values, strict=True):
                x[rows] = y
        self._model.lost[rows] = False
        self._solutions = None

    # -- the two phases ---------------------------------------------------------------------------------------

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        if not self._continues:
            self._restart(machine, torch.arange(len(self._model.lost), device=machine.device), generator)
        if self.method in _CHAINS:
            self._by_moments(machine, generator)
        else:
            self._by_differentiation(machine, generator)

    def _by_moments(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient of naive and TAP mean field in closed form."""
        data, correlations = self._data(machine)
        self._model.refresh()
        self._run(self._model)
        good = self._good(self._model.lost)
        model = _Moments(self._model, good)
        for k, unit in enumerate(machine.layers):
            values = model.statistics(k)
            write_unit_gradient(unit, {name: values[name].mean(0) - value for name, value in data[k].items()})
        for k, link in self.coupling_gradients.items():
            change = self._change[k]
            model.correlate(k, change)
            correlations(k, change)
            link.set_dense(change)
        if not bool(good.all()):  # restart diverged points at the data
            self._restart(machine, torch.nonzero(~good).flatten(), generator)

    def _by_differentiation(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient of other free energies by automatic differentiation at detached fixed points."""
        rule = self._rule()
        options: dict[str, Any] = {"damping": rule.damping, "max_iterations": rule.max_iterations}
        options |= {"iterations": rule.iterations} if rule.iterations is not None else {"tolerance": rule.tolerance}
        start: Any = self._model.a[0] if self._solutions is None else self._solutions
        self._solutions = _OTHERS[self.method](machine, start, **options)
        for parameter in machine.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.zero_()
        with torch.enable_grad():
            model = meanfield.free_energy(machine, self._solutions)
            good = self._good(~torch.isfinite(model.detach()))
            (self._data_free_energy(machine) - model[good].mean()).backward()
        for link in self.coupling_gradients.values():
            assert link.coupling.weight.grad is not None
            link.set_dense(link.coupling.weight.grad)
        if not bool(good.all()):
            self._restart(machine, torch.arange(len(good), device=machine.device), generator)

    def _run(self, chain: Chain) -> None:
        rule = self._rule()
        if rule.iterations is not None:
            for _ in range(rule.iterations):
                chain.step(measure=False)
            chain.lost |= ~torch.isfinite(chain.a[-1].flatten(1).sum(1))
            return
        outcome = iterate(chain, rule)
        chain.restore(outcome.state, outcome.failed)

    def _good(self, lost: Tensor) -> Tensor:
        if bool(lost.all()):
            raise Diverged(f"no start of the {self.method} mean field has a finite fixed point")
        return ~lost

    def _data(self, machine: BoltzmannMachine) -> tuple[list[dict[str, Tensor]], Callable[[int, Tensor], Any]]:
        """Return the mean statistics of every layer over the batch, and a function that subtracts the correlations."""
        batch = self.batch
        if isinstance(machine, RBM):
            field = machine.coupling.up(batch)
            hidden = machine.hidden.mean(field)
            values = [machine.visible.statistics(batch), machine.hidden.moments(field, mean=hidden)]
            self._hidden = [hidden]

            def subtract(k: int, out: Tensor) -> Tensor:
                return machine.couplings[k].correlate(batch, hidden, out=out, add=True, scale=-1 / len(batch))

        else:
            moments = _Moments(self._clamped(machine))
            values = [moments.statistics(k) for k in range(len(machine.layers))]

            def subtract(k: int, out: Tensor) -> Tensor:
                return out.sub_(moments.correlate(k, torch.empty_like(out)))

        return [{name: value.mean(0) for name, value in part.items()} for part in values], subtract

    def _data_free_energy(self, machine: BoltzmannMachine) -> Tensor:
        """Return ⟨F⟩ over the batch, differentiable."""
        if isinstance(machine, RBM):
            self._hidden = [machine.hidden_mean(self.batch).detach()]
            return machine.free_energy(self.batch, check=False).mean()
        with torch.no_grad():
            chain = self._clamped(machine)
        return free_energy(machine, chain.a, chain.c, chain.B, chain.A, second_order=True, clamped=True).mean()

    def _clamped(self, machine: BoltzmannMachine) -> Chain:
        """Return the mean field of the hidden layers of a deep machine with the visible layer clamped to the batch."""
        batch = self.batch
        chain = self._chain(machine, *upward(machine, batch, torch.zeros_like(batch)), clamped=True)
        self._run(chain)
        if bool(chain.lost.any()):
            raise Diverged(f"the clamped mean field of {int(chain.lost.sum())} rows of the batch is not finite")
        self._hidden = chain.a[1:]
        return chain

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [hidden.mean(0) for hidden in self._hidden]

    # -- state ----------------------------------------------------------------------------------------------

    def solutions(self, machine: BoltzmannMachine) -> Solutions:
        """Return the points at which the last gradient was computed."""
        if self._solutions is not None:
            return self._solutions
        n = len(self._model.lost)
        parts = self._model.a, self._model.c, self._model.B, self._model.A
        a, c, B, A = ([x.clone() for x in part] for part in parts)
        unknown_value = torch.full((n,), torch.nan, dtype=machine.dtype, device=machine.device)
        done = torch.full((n,), self.k or _SHALLOW, device=machine.device)
        converged = torch.zeros(n, dtype=torch.bool, device=machine.device)
        return Solutions(self.method, a, c, B, A, unknown_value, done, converged, damping=self.damping)

    def state_dict(self) -> dict[str, Any]:
        kept: dict[str, Any] = {"a": list(self._model.a), "c": list(self._model.c)}
        if self._solutions is not None:
            s = self._solutions
            kept["solutions"] = {"lists": _lists(s), "tensors": _tensors(s), "method": s.method}
        return kept

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        a, c = (
            [restored(kept, x) for x, kept in zip(own, state[name], strict=True)]
            for name, own in (("a", self._model.a), ("c", self._model.c))
        )
        self._model = self._chain(machine, a, c)
        kept = state.get("solutions")
        self._solutions = None
        if kept is not None:
            own = _OTHERS[self.method](machine, self._model.a[0], damping=self.damping, iterations=1)
            a, c, B, A, messages = (
                [restored(x, like) for x, like in zip(part, likes, strict=True)]
                for part, likes in zip(kept["lists"], _lists(own), strict=True)
            )
            pairs = zip(kept["tensors"], _tensors(own), strict=True)
            value, iterations, converged = (restored(x, like) for x, like in pairs)
            self._solutions = Solutions(
                own.method, a, c, B, A, value, iterations, converged, messages=messages, damping=self.damping
            )


def _lists(s: Solutions) -> list[list[Tensor]]:
    return [s.magnetizations, s.variances, s.B, s.A, s.messages]


def _tensors(s: Solutions) -> list[Tensor]:
    return [s.free_energy, s.iterations, s.converged]


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

"""Conformance checks of a negative phase: its chains sample p, its gradient is that of its loss, and it learns."""

from __future__ import annotations

import copy
import json
import math
import warnings
from itertools import count
from typing import Any

import torch
from torch import Generator, Tensor

from ..couplings import Dense
from ..errors import NotLearned
from ..machines import RBM
from ..sampling.path import independent
from ..training import NegativePhase, fit
from ..training.gradient import Gradient
from ..training.negative import Batch
from ..training.state import continued, flatten, unflatten
from ..units import Bernoulli
from .report import Subject

F64 = torch.float64
_CHAINS = 4000
_STEPS = 20
_SIGMAS = 5.0
_NULL_SIGMAS = 20.0  # by which draws of independent units have to fail
_MOST_DOUBLINGS = 12  # of the squared weights


def check_negative_phase(phase: NegativePhase, machine: RBM | None = None, *, seed: int = 0) -> None:
    """Check that an instance of :class:`~harmonium.training.NegativePhase` fulfills the contract.

    Uses a small machine whose distribution p is known exactly. Checks that

    * if the phase has chains, chains that start from p are distributed as p after 20 steps; also with weights so
      large that draws of independent units would fail this check by 20 standard errors;
    * the gradient is that of its ``loss``, if it has one: the loss at the states that the phase has used;
    * every learned parameter gets a finite gradient, for batches of different sizes;
    * a step changes neither the batch nor the state that it gets;
    * a phase with a saved state continues bit-for-bit;
    * training increases :meth:`~harmonium.training.NegativePhase.objective`, by default the exact log-likelihood of
      the data.

    Args:
        phase: the phase, as for ``fit``.
        machine: a small RBM with a finite visible layer; by default 5 visible and 3 hidden Bernoulli units.
        seed: seed of the random generators.

    Raises:
        AssertionError: with the name of the check, the expected and the actual value.

    >>> import harmonium as hm
    >>> check_negative_phase(hm.PCD(1))
    """
    rbm = _machine() if machine is None else copy.deepcopy(machine).double()
    subject = Subject("check_negative_phase", type(phase).__name__)
    subject.equal("a copy with the same options", copy.deepcopy(phase), phase)
    source = Generator().manual_seed(seed)
    states, log_p = rbm.distribution()
    with torch.no_grad():
        _gradient(subject, phase, rbm, _draw(states, log_p, 12, source))
        _resume(subject, phase, rbm, _draw(states, log_p, 12, source))
        if _stationarity(subject, phase, rbm, source):
            _stationarity(subject, phase, _coupled(subject, rbm), source)
    _training(subject, phase, rbm, _two_clusters(rbm, states, source))


def _machine() -> RBM:
    """Return a machine with weights small enough to mix in a few sweeps and large enough to be worth learning."""
    source = Generator().manual_seed(0)
    weight = 1.2 * torch.randn(5, 3, generator=source, dtype=F64)
    lower, upper = (0.5 * torch.randn(n, generator=source, dtype=F64) for n in (5, 3))
    return RBM(Bernoulli(5, bias=lower), Bernoulli(3, bias=upper), Dense(5, 3, weight))


def _draw(states: Tensor, log_p: Tensor, n: int, source: Generator) -> Tensor:
    return states[torch.multinomial(log_p.exp(), n, replacement=True, generator=source)]


def _two_clusters(rbm: RBM, states: Tensor, source: Generator, n: int = 400) -> Tensor:
    """Return strongly correlated data: the first or the last state, with one unit in five drawn at random."""
    unit = rbm.visible
    ends = states[-torch.randint(2, (n,), generator=source)]
    others = states[torch.randint(len(states), (n,), generator=source)]
    pieces = []
    for part, end, other in zip(unit.parts, unit.split(ends), unit.split(others), strict=True):
        event = part.event_shape
        taken = torch.rand(end.shape[: end.ndim - len(event)], generator=source) < 0.2
        pieces.append(torch.where(taken.unsqueeze(-1) if event else taken, other, end))
    return unit.join(pieces)


def _values(gradient: Gradient, rbm: RBM) -> dict[str, Tensor]:
    """Return the gradient by the name of the parameter."""
    found = {id(parameter): value for parameter, value in gradient.units.items()}
    found |= {id(link.coupling.weight): link.dense() for link in gradient.links}
    return {name: found[id(p)].clone() for name, p in rbm.named_parameters() if id(p) in found}


def _gradient(subject: Subject, phase: NegativePhase, rbm: RBM, data: Tensor) -> None:
    rbm, source = copy.deepcopy(rbm), Generator().manual_seed(1)
    names = {name for name, p in rbm.named_parameters() if p.requires_grad}
    phase = phase.resolved(len(data))
    state = phase.init(rbm, data, source)
    for rows in (len(data), len(data) - 5, 2 * len(data)):
        batch = data.repeat(2, *(1 for _ in rbm.visible.shape))[:rows]
        what = f"gradient for {rows} rows after init with {len(data)}"
        before, kept = batch.clone(), flatten(state, "state")
        gradient, after = phase.step(rbm, Batch(batch), state, source)
        subject.expect(torch.equal(batch, before), "the batch after a step", "the batch before it", "changed")
        same = all(torch.equal(x, kept[1][name]) for name, x in flatten(state, "state")[1].items())
        subject.expect(same, "the state that a step gets", "unchanged", "changed")
        state = after
        expected = {}
        if gradient.loss is not None:
            rbm.zero_grad()
            with torch.enable_grad():
                gradient.loss().backward()
            expected = {name: p.grad for name, p in rbm.named_parameters() if p.requires_grad}
            rbm.zero_grad()
        found = _values(gradient, rbm)
        subject.equal(f"parameters with a {what}", set(found), names)
        for name, value in found.items():
            subject.finite(f"{what}: {name}", value)
        means = gradient.hidden
        shapes = [tuple(unit.shape) for unit in rbm.layers[1:]]
        subject.equal(f"shapes of the hidden means, {rows} rows", [tuple(mean.shape) for mean in means], shapes)
        subject.close("hidden means are those of the batch", means[0], rbm.hidden_mean(batch).mean(0), 1e-6)
        chains = phase.visible_chains(rbm, state, source)
        if chains is not None:
            rbm.visible.check(chains, "visible_chains")
        for name, slope in expected.items():
            wanted = torch.zeros_like(found[name]) if slope is None else slope
            subject.close(f"gradient of the loss: {name}", found[name], wanted, 1e-8 * (1 + wanted.abs()))


def _resume(subject: Subject, phase: NegativePhase, rbm: RBM, data: Tensor) -> None:
    phase, source = phase.resolved(len(data)), Generator().manual_seed(2)

    def steps(state: dict[str, Any], n: int) -> tuple[list[dict[str, Tensor]], dict[str, Any]]:
        found = []
        for _ in range(n):
            gradient, state = phase.step(rbm, Batch(data), state, source)
            found.append(_values(gradient, rbm))
        return found, state

    _, state = steps(phase.init(rbm, data, source), 3)
    plain, tensors = flatten(state, "phase")
    kept = source.get_state()
    expected, _ = steps(state, 2)
    fresh = phase.init(rbm, data, Generator().manual_seed(3))
    source.set_state(kept)
    again, _ = steps(continued(unflatten(json.loads(json.dumps(plain)), tensors), fresh, phase.grows), 2)
    for number, (gradients, others) in enumerate(zip(expected, again, strict=True), 1):
        for name, value in gradients.items():
            check = f"gradient of {name}, {number} steps after a saved state"
            subject.expect(torch.equal(value, others[name]), check, "bitwise equal", "different")


def _tolerance(p: Tensor, n: int) -> Tensor:
    """The largest accepted difference of the frequencies of all states in n draws from their probabilities p."""
    return _SIGMAS * (p * (1 - p) / n).sqrt() + 10 / n


def _coupled(subject: Subject, rbm: RBM) -> RBM:
    """A copy with weights so large that draws of independent units with the means of p fail the check of its chains."""
    strong = copy.deepcopy(rbm)
    for _ in range(_MOST_DOUBLINGS):
        states, log_p = strong.distribution()
        apart = independent(strong, states[_systematic(log_p.exp())])
        p, q = log_p.exp(), apart.distribution()[1].exp()
        if bool(((p - q).abs() > _NULL_SIGMAS / _SIGMAS * _tolerance(p, _CHAINS)).any()):
            return strong
        strong.coupling.weight.mul_(2**0.5)
    words = "a difference from p of 20 standard errors for a state"
    subject.expect(False, "draws of independent units", words, "less, whatever the scale of the weights")
    return strong


def _systematic(p: Tensor) -> Tensor:
    """Indices of states with frequencies proportional to p, as closely as 4000 draws can have."""
    ends = p.cumsum(0)
    places = (torch.arange(_CHAINS, dtype=F64) + 0.5) / _CHAINS * ends[-1]
    return torch.searchsorted(ends, places).clamp_max(len(p) - 1)


def _stationarity(subject: Subject, phase: NegativePhase, rbm: RBM, source: Generator) -> bool:
    """Check that chains that start from p keep this distribution, repeated if they are few; False without chains."""
    states, log_p = rbm.distribution()
    found: list[Tensor] = []
    for start in count():
        data = _draw(states, log_p, _CHAINS, source)
        trial = phase.resolved(_CHAINS)
        state = trial.init(rbm, data, source)
        if trial.visible_chains(rbm, state, source) is None:
            return False
        for _ in range(_STEPS):
            _, state = trial.step(rbm, Batch(data[: _CHAINS if start == 0 else 1]), state, source)
        chains = trial.visible_chains(rbm, state, source)
        assert chains is not None
        found.append(chains.clone())
        if sum(map(len, found)) >= _CHAINS or start >= 50:
            break
    drawn = torch.cat(found)
    p = log_p.exp()
    same = (drawn.flatten(1).unsqueeze(1) == states.flatten(1)).all(-1)
    subject.expect(bool(same.any(1).all()), "states of the chains", "states of the visible layer", "other values")
    check = f"frequency of every visible state, {len(drawn)} chains {_STEPS} steps after a start at p"
    subject.close(check, same.double().mean(0), p, _tolerance(p, len(drawn)))
    flat, exact = drawn.flatten(1), states.flatten(1)
    mean = p @ exact
    error = (p @ exact.square() - mean.square()).clamp_min(0.0).sqrt() / math.sqrt(len(drawn))
    check = f"means of the visible units, {len(drawn)} chains {_STEPS} steps after a start at p"
    subject.close(check, flat.mean(0), mean, _SIGMAS * error + 1e-9)
    return True


def _training(subject: Subject, phase: NegativePhase, rbm: RBM, data: Tensor) -> None:
    student = copy.deepcopy(rbm)
    student.initialize(data, seed=0)
    before = phase.objective(student, data).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)
        fit(student, data, negative=phase, epochs=40, batch_size=50, seed=0, progress=False)
    after = phase.objective(student, data).item()
    subject.expect(after > before, "exact objective after training", f"above {before:.6g}", f"{after:.6g}")

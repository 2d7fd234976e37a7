"""One machine with all that changes while it learns; a stack has a learner for each of its machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.normalizable import SpectralBound, may_diverge
from ..machines.scaling import Scaling
from . import descent, distributed
from .batches import visible_part
from .constraints import Constraint
from .coordinates import Coordinates
from .descent import AnyOptimizer
from .gradient import Gradient
from .negative import Batch, NegativePhase
from .penalties import Penalty, RateOf
from .plan import Plan
from .schedules import Clock


@dataclass
class Learner:
    """A machine, its negative phase with its state, and what is added to its loss and its parameters."""

    machine: BoltzmannMachine
    phase: NegativePhase
    state: dict[str, Any]
    coordinates: Coordinates | None
    scale: Tensor | None  # standard deviations (*visible) of the data, if units are standardized
    penalties: list[Penalty]
    constraints: list[Constraint]
    kept: list[dict[str, Any]]  # the states of the constraints
    bound: SpectralBound | None
    follows: bool  # whether the distribution of its input changes

    def gradient(self, batch: Batch, clock: Clock, rate_of: RateOf, generator: Generator) -> Gradient:
        """Return the gradient for a batch, with penalties, in the coordinates of the optimizer."""
        coordinates = self.coordinates
        at_mean = coordinates is not None and self.phase.by_statistics(batch)
        with coordinates.statistics_at_mean() if coordinates is not None and at_mean else nullcontext():
            gradient, self.state = self.phase.step(self.machine, batch, self.state, generator)
        distributed.average_gradient(gradient)
        for penalty in self.penalties:
            penalty.add(self.machine, gradient, self.scale, clock, rate_of)
        if coordinates is not None:
            coordinates.follow(gradient, distributed.average(batch.visible.mean(0)) if self.follows else None)
            coordinates.center(gradient, at_mean=at_mean)
        return gradient

    def __post_init__(self) -> None:
        self._couplings = [*self.machine.couplings, *self.machine.context_couplings.values()]

    def constrain(self, clock: Clock) -> None:
        """Apply the constraints after a step."""
        for coupling in self._couplings:
            coupling.project()
        if self.bound is not None:
            self.bound.hold()
        pairs = zip(self.constraints, self.kept, strict=True)
        self.kept = [constraint.after_step(self.machine, state, clock) for constraint, state in pairs]

    def finish(self) -> None:
        """Apply the constraints after the last step."""
        for constraint, state in zip(self.constraints, self.kept, strict=True):
            constraint.finish(self.machine, state)

    def tree(self) -> dict[str, Any]:
        """Return what must be saved and is the same in all processes."""
        coordinates = None if self.coordinates is None else self.coordinates.state()
        return {"coordinates": coordinates, "scale": self.scale, "constraints": self.kept}

    def load(self, tree: dict[str, Any]) -> None:
        """Continue with what :meth:`tree` has returned."""
        if self.coordinates is not None:
            self.coordinates.load(tree["coordinates"])
        self.scale, self.kept = tree["scale"], tree["constraints"]


def learners(
    machine: Any, plan: Plan, start: Any, mean: Any, scaling: Scaling | None, optimizer: AnyOptimizer, generator: Any
) -> list[Learner]:
    """Return the learners of a machine or of the machines of a stack.

    Args:
        machine: the machine or the stack.
        plan: the complete plan.
        start: some rows of the data, at which chains start; a pair with their contexts if there are any.
        mean: the mean of the data, or a pair.
        scaling: location and scale of the visible units, if some have a scale.
        optimizer: the optimizer of all parameters.
        generator: random generator of the chains.
    """
    stack = machine.machines[0] is not machine
    phase = plan.negative.resolved(plan.batch_size)
    rates = plain_rates(optimizer)
    means: Iterable[Any] = [mean]
    if stack:
        row = mean.to(machine.dtype).unsqueeze(0)
        means = [mean, *(rows[0] for _, rows in list(machine.stacked(row, inputs="means"))[1:])]
    made = []
    inputs = machine.stacked(visible_part(start), generator=generator)
    for number, ((one, rows), own_mean) in enumerate(zip(inputs, means, strict=True), 1):
        own_scaling = scaling if number == 1 else None  # the inputs of the other machines are hidden states
        state = phase.init(one, rows, generator)
        coordinates = Coordinates(one, own_mean, plan.centered, own_scaling) if plan.centered else None
        where = number if stack else None
        if coordinates is not None:
            _named(where, coordinates.check, optimizer)
        penalties = _applicable(plan.penalties, one, where, rates.get)
        constraints = _applicable(plan.constraints, one, where)
        made.append(
            Learner(
                one,
                phase,
                state,
                coordinates,
                scale=None if own_scaling is None else own_scaling.scale,
                penalties=penalties,
                constraints=constraints,
                kept=[constraint.init(one) for constraint in constraints],
                bound=SpectralBound(one, visible_part(own_mean) if number == 1 else None) if may_diverge(one) else None,
                follows=number > 1,
            )
        )
    for part in (*plan.penalties, *plan.constraints):
        if not any(part in (*one.penalties, *one.constraints) for one in made):
            part.check(made[0].machine)  # raises: it concerns no machine
    return made


def _applicable(parts: Iterable[Any], machine: Any, number: int | None, *given: Any) -> list[Any]:
    """Return the parts that concern a machine, after their check; in a stack, others are left out."""
    chosen = [part for part in parts if number is None or part.applies(machine)]
    for part in chosen:
        _named(number, part.check, machine, *given)
    return chosen


def _named(number: int | None, check: Callable[..., None], *given: Any) -> None:
    """Name the machine of a stack in the error of a check."""
    try:
        check(*given)
    except InvalidOption as error:
        raise InvalidOption(f"machine {number}: {error}" if number else str(error)) from None


# -- the step -----------------------------------------------------------------------------------------------------


def plain_rates(optimizer: AnyOptimizer) -> dict[Tensor, float]:
    """Return the learning rates of the parameters for which a step is exactly W ← W - lr·g."""
    if type(optimizer) not in (descent.SGD, torch.optim.SGD):
        return {}
    rates = {}
    for group in optimizer.param_groups:
        if not (group.get("momentum") or group.get("weight_decay") or group.get("maximize")):
            rates.update(dict.fromkeys(group["params"], group["lr"]))
    return rates


def take_step(
    pairs: list[tuple[Learner, Gradient]], optimizer: AnyOptimizer, rates: dict[Tensor, float], rate: float
) -> None:
    """Take a step with ``rate`` times the current learning rates of the optimizer; ``rates`` are the plain ones."""
    if not rate:
        return
    plain = len(rates) == sum(len(group["params"]) for group in optimizer.param_groups)
    if plain and not any(rates.values()):
        return
    linear = all(learner.coordinates is None or learner.coordinates.linear for learner, _ in pairs)
    if plain and linear and all(rates.values()):
        for learner, gradient in pairs:
            _descend(learner, gradient, rates, rate)
        return
    with _scaled(optimizer, rate), ExitStack() as entered:
        for learner, gradient in pairs:
            gradient.write()
            if learner.coordinates is not None:
                entered.enter_context(learner.coordinates.within(gradient, optimizer))
        optimizer.step()


def _descend(learner: Learner, gradient: Gradient, rates: dict[Tensor, float], factor: float) -> None:
    """Take a plain step, W ← W - factor·lr·g, without the gradient of the weights as a matrix."""
    if learner.coordinates is not None:
        learner.coordinates.pull_back(gradient, rates.__getitem__)
    for link in gradient.links:
        if lr := rates.get(link.coupling.weight):
            link.descend(factor * lr)
    for parameter, value in gradient.units.items():
        if lr := rates.get(parameter):
            parameter.sub_(value, alpha=factor * lr)


@contextmanager
def _scaled(optimizer: AnyOptimizer, rate: float) -> Iterator[None]:
    """Multiply the learning rates, in the block."""
    own = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * rate
    try:
        yield
    finally:
        for group, lr in zip(optimizer.param_groups, own, strict=True):
            group["lr"] = lr

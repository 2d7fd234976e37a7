"""Transforms of gradients and parameters; they can be combined with every negative phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from ..couplings import Coupling
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from .descent import AnyOptimizer
from .negative import NegativePhase
from .schedules import Clock

Rates = Callable[[Tensor], float]


def same_rate(parameter: Tensor) -> float:
    """Return 1: all parameters have the same learning rate."""
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

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
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

    def enter(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: AnyOptimizer) -> None:
        """Convert the parameters to the optimizer's coordinates, before its step."""

    def leave(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Convert the parameters back to the usual coordinates, after the optimizer's step."""

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = same_rate) -> None:
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


def all_couplings(machine: BoltzmannMachine) -> list[Coupling]:
    """Return the couplings of the layers and of the context."""
    return [*machine.couplings, *machine.context_couplings.values()]

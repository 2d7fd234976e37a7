"""Negative phases: where the moments of the model come from."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor

from ...checks import kebab
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ...units import Unit
from ..gradient import CouplingGradient


class NegativePhase:
    """Computes the gradient of ⟨F⟩_data - F_model for one batch.

    ``begin`` is called once with the number of rows of a batch. For every step the loop sets the number of rows of
    the batch with ``use``, writes them into ``batch`` and calls ``evaluate``, which leaves the gradient of the units in
    ``.grad`` of their parameters, that of the couplings in ``links``, and the batch's mean hidden states in
    ``hidden_means``.
    """

    #: Gibbs sweeps a step; schedules may change it. Phases that do not sample ignore it.
    k: int = 1
    #: whether its products may be rounded to bfloat16 (see ``precision`` of ``fit``)
    supports_bfloat16: ClassVar[bool] = False
    #: room for a full batch
    data_slot: Tensor
    #: the rows of ``data_slot`` that are the batch: all of them, or fewer for the last batch of an epoch
    batch: Tensor
    #: the gradient of every coupling whose weights are learned, by the number of the coupling
    coupling_gradients: dict[int, CouplingGradient]

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        """Prepare for batches of ``batch_size`` rows; ``start`` (n, *visible) are some rows of the data."""
        raise NotImplementedError

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        """Go on with batches of another size, keeping the chains."""
        raise NotImplementedError

    def use(self, rows: int) -> None:
        """Let the batch be the first ``rows`` rows of ``data_slot``."""
        self.batch = self.data_slot[:rows]

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient for the rows in ``batch``."""
        raise NotImplementedError

    def gradient(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient for the rows in ``batch``, all of it into ``.grad``."""
        self.evaluate(machine, generator)
        for link in self.coupling_gradients.values():
            link.dense()

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        """The mean state of every hidden layer over the batch of the last step."""
        raise NotImplementedError

    def chain_states(self) -> Tensor | None:
        """The visible states (chains, *visible) that stand for the model, where the phase has such."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """What has to be kept for the run to go on as if it had never stopped."""
        return {}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        """Take back what :meth:`state_dict` gave."""

    def config(self) -> dict[str, Any]:
        """The phase in plain words, for the run's configuration."""
        return {"method": kebab(type(self).__name__)}


def learned_couplings(machine: BoltzmannMachine) -> dict[int, CouplingGradient]:
    """Where the gradients of the couplings go; none for weights that are held fixed."""
    return {
        k: CouplingGradient(coupling) for k, coupling in enumerate(machine.couplings) if coupling.weight.requires_grad
    }


def as_rbm(machine: BoltzmannMachine, what: str) -> RBM:
    """The machine, which has to have two layers."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"{what} expects an RBM (two layers), found {type(machine).__name__}")
    return machine


def write_unit_gradient(unit: Unit, gradients: dict[str, Tensor]) -> None:
    """Write the gradient with respect to a unit's natural parameters, through how they are stored."""
    for parameter in unit.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    unit.accumulate_gradient(gradients)


def only_bias(unit: Unit) -> bool:
    """Whether all that the unit learns is one bias, the plain case with a shortcut."""
    names = [name for name, parameter in unit.named_parameters() if parameter.requires_grad]
    return names in ([], ["bias"])

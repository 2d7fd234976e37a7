"""Supervised fine-tuning of a machine as a feedforward classifier."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .. import noise
from ..checks import whole
from ..errors import Diverged, InvalidOption
from ..machines import RBM, DeepBeliefNetwork
from ..shown import brief
from ..training.batches import Source, as_labels, as_source
from ..training.optimizers import Optimizer
from ..training.plan import Plan
from ..training.schedules import Clock, Schedule
from .classifiers import Classifier, check_pair
from .networks import to_sequential

_RATE = 0.1  # of an optimizer that has no usual one


@brief
@dataclass
class FeedforwardClassifier(Classifier):
    """A feedforward network with a softmax over classes, made from a machine.

    Attributes:
        network: the network, from visible states to one score for each class (logits).
        classes: the labels (classes,), in the order of the scores.
        history: for each epoch, ``loss`` on training batches and, with validation data, ``validation_error``.
        machine: the machine it was made from, which is unchanged.
    """

    network: nn.Sequential
    classes: Tensor
    history: list[dict[str, float]] = field(repr=False)
    machine: Any = field(repr=False)

    def _source(self, data: Any) -> Source:
        return as_source(data, self.machine, validate=False)

    def _log_probability(self, rows: Tensor) -> Tensor:
        self.network.eval()
        return torch.log_softmax(self.network(rows), 1)


def finetune(
    machine: RBM | DeepBeliefNetwork,
    data: Any,
    labels: Any,
    *,
    epochs: int = 30,
    batch_size: int = 100,
    learning_rate: float | None = None,
    optimizer: str | Callable[[Any], torch.optim.Optimizer] = "adam",
    schedule: str | Schedule = "linear:0.3",
    dropout: float | Sequence[float] = 0.0,
    validation: tuple[Any, Any] | None = None,
    patience: int | None = None,
    seed: int = 0,
) -> FeedforwardClassifier:
    """Train the feedforward network of a machine (:func:`to_sequential`) with labels by cross entropy.

    This is the fine-tuning of Hinton & Salakhutdinov (2006): pretrained weights are the start of a classifier. The
    machine is not changed. With ``validation`` the parameters of the epoch with the smallest validation error are used.

    Args:
        machine: RBM or deep belief network.
        data: training rows (n, *visible), as in :func:`harmonium.fit`. Any numbers are accepted, such as gray values
            for binary units, because the network computes with means.
        labels: the label of each row (n,), whole numbers.
        epochs: number of epochs.
        batch_size: number of rows of a gradient step.
        learning_rate: learning rate of a named optimizer; by default its own.
        optimizer: "sgd", "adam", "adamw" or "rmsprop", or a function from parameters to an optimizer.
        schedule: schedule of the learning rate, as in :func:`harmonium.fit`.
        dropout: probability of dropping values of hidden layers, or one for each layer from the visible layer up.
        validation: rows and labels that are used to choose the epoch; never test data.
        patience: with ``validation``, stop after this number of epochs without a smaller error; by default never.
        seed: seed of the order of the rows and of dropout.

    Returns:
        a :class:`Classifier` with ``predict``, ``predict_proba`` and ``error``.

    >>> import harmonium as hm
    >>> data, labels = hm.data.load("digits", binarize="threshold", labels=True)
    >>> rbm = hm.RBM(64, 32)
    >>> _ = hm.fit(rbm, data, epochs=10, progress=False)
    >>> finetune(rbm, data[:1000], labels[:1000], learning_rate=0.01).error(data[1000:], labels[1000:]) < 0.2
    True
    """
    source, truth = _checked(machine, data, labels, "data")
    if min(whole("epochs", epochs), whole("batch_size", batch_size), 1 if patience is None else patience) < 1:
        raise InvalidOption(
            f"epochs, batch_size, patience: expected at least 1, found {epochs}, {batch_size}, {patience}"
        )
    classes, target = truth.unique(return_inverse=True)
    held_out = None if validation is None else _checked(machine, *check_pair(validation), "validation")
    network = to_sequential(machine, len(classes), dropout=dropout)
    classifier = FeedforwardClassifier(network, classes.to(machine.device), [], machine)
    steps = _Steps(network, source, target.to(machine.device), machine, _maker(optimizer, learning_rate), seed)
    rule = Plan(schedule=schedule).schedule
    best = _Best(patience)
    for epoch in range(1, epochs + 1):
        if best.over:
            break
        row: dict[str, float] = {"epoch": epoch, "loss": steps.one_epoch(epoch, epochs, batch_size, rule)}
        classifier.history.append(row)
        if not math.isfinite(row["loss"]):
            raise Diverged(f"fine-tuning diverged in epoch {epoch}; try a smaller learning rate")
        if held_out is not None:
            row["validation_error"] = classifier.error(*held_out)
            best.compare(row["validation_error"], network)
    if best.parameters is not None:
        network.load_state_dict(best.parameters)
    network.eval()
    return classifier


class _Best:
    """The parameters with the smallest validation error, and the number of epochs since."""

    def __init__(self, patience: int | None) -> None:
        self.patience, self.error, self.waited = patience, math.inf, 0
        self.parameters: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        return self.patience is not None and self.waited >= self.patience

    def compare(self, error: float, network: nn.Module) -> None:
        self.waited += 1
        if error < self.error:
            self.error, self.parameters, self.waited = error, copy.deepcopy(network.state_dict()), 0


class _Steps:
    """The gradient steps on batches of the rows, which are read when they are needed."""

    def __init__(
        self, network: nn.Module, source: Source, target: Tensor, machine: Any, optimizer: Any, seed: int
    ) -> None:
        self.network, self.source, self.target, self.machine = network, source, target, machine
        self.optimizer = optimizer([p for p in network.parameters() if p.requires_grad])
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.order = noise.generator(seed)
        self.rows = noise.generator(seed, machine.device)

    def one_epoch(self, epoch: int, epochs: int, batch_size: int, schedule: Schedule) -> float:
        """Return the mean loss of the epoch."""
        order = torch.randperm(len(self.source), generator=self.order)
        total, batches = 0.0, order.split(batch_size)
        self.network.train()
        with torch.random.fork_rng(devices=[self.machine.device] if self.machine.device.type == "cuda" else []):
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=self.order)))  # dropout has no generator
            for step, index in enumerate(batches):
                clock = Clock(epoch, epochs, (epoch - 1 + step / len(batches)) / epochs)
                for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                    group["lr"] = rate * schedule(clock).rate
                x = torch.empty(len(index), *self.source.shape, dtype=self.machine.dtype, device=self.machine.device)
                x = self.source.take(index, x, self.rows)
                loss = cross_entropy(self.network(x), self.target[index.to(self.target.device)])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item() * len(index)
        return total / len(self.source)


def _maker(
    optimizer: str | Optimizer | Callable[[Any], torch.optim.Optimizer], learning_rate: float | None
) -> Callable[[Any], Any]:
    made = Plan(optimizer=optimizer, learning_rate=learning_rate).optimizer
    if isinstance(made, Optimizer):
        rate = learning_rate or made.rate or _RATE
        return lambda parameters: made.make([{"params": parameters, "lr": rate}])
    if learning_rate is not None:
        raise InvalidOption(
            f"learning_rate: expected None with an optimizer object, found {learning_rate:g}. "
            "Set the learning rate in the optimizer."
        )
    return made


def _checked(machine: Any, data: Any, labels: Any, what: str) -> tuple[Source, Tensor]:
    source = as_source(data, machine, what=what, validate=False)
    return source, as_labels(labels, len(source))

"""A deep belief network of 784–500–500–2000 units on MNIST, fine-tuned with labels: the test error.

The permutation-invariant task: no augmentation, and no use of the positions of the pixels. The network is pretrained
without labels on all training images. Settings are chosen on 10 000 training images that the fine-tuning does not use
(``choose=true``); the test images are used once, after fine-tuning on all 60 000 with the chosen settings. Published
errors are of the same 10 000 test images, so the error of a comparison comes from the seeds, and the sampling of the
images only matters for the comparison with random initial weights, which is paired image by image.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

import harmonium as hm
from harmonium import noise
from harmonium.errors import unknown
from harmonium.tasks import Classifier, finetune
from harmonium.training import HiddenStates

from .. import judging
from ..machines import MachineOptions, Machines, kept_errors, name_by_settings
from ..options import override, with_options_of
from ..record import Record


@dataclass(frozen=True)
class Settings:
    """The size of the network and of the training."""

    layers: tuple[int, ...]
    rows: int  # training images
    held_out: int  # of these, used to choose settings
    tried: int  # of the others, used to train with each choice
    pretraining: tuple[int, ...]  # epochs of each machine
    epochs: int  # of fine-tuning
    seeds: int  # of fine-tuning


SETTINGS = {
    "quick": Settings((784, 500, 500, 2000), 60_000, 10_000, 20_000, (6, 4, 3), 50, 1),
    "full": Settings((784, 500, 500, 2000), 60_000, 10_000, 50_000, (20, 20, 20), 200, 3),
}
#: dropout of the visible layer and of the hidden layers
DROPOUT = {"none": (0.0, 0.0), "weak": (0.1, 0.2), "strong": (0.2, 0.4)}
CHOSEN = "strong"
#: test errors in the same task
PUBLISHED = 0.012
GOAL = 0.0095
_BY_GRADIENTS = "Hinton & Salakhutdinov 2006, these layers, fine-tuned with conjugate gradients"
_BY_MEAN_FIELD = "Salakhutdinov & Hinton 2009, a deep Boltzmann machine"
_RATE = 2e-3
_SCHEDULE = "linear:0.1"
_BATCH = 100
_BIAS = -2.0  # of hidden units at the start
_FIRST = 10_000  # rows that set the visible biases


class Networks(Machines):
    """The images, the pretrained network and the errors of classifiers, kept in the folder ``machines``.

    Args:
        seeds: number of seeds of fine-tuning instead of that of the scale.
        tried: number of rows for each choice instead of that of the scale.
        options: as in :class:`experiments.machines.Machines`; ``epochs`` are those of fine-tuning.
    """

    def __init__(
        self, record: Record, scale: str, seeds: int = 0, tried: int = 0, **options: Unpack[MachineOptions]
    ) -> None:
        super().__init__(record, scale, "mnist", **options)
        given = {"epochs": self.given_epochs, "rows": self.given_rows, "seeds": seeds, "tried": tried}
        self.settings = override(SETTINGS[scale], **given)

    def load(self) -> tuple[Tensor, Tensor]:
        """Training images and labels, in random order."""
        images, labels = hm.data.load(self.data, labels=True)
        order = torch.randperm(len(images), generator=noise.generator(self.seed))[: self.settings.rows]
        return images[order], labels[order]

    def network(self, images: Tensor) -> hm.DeepBeliefNetwork:
        """The pretrained network: trained greedily on binary images, redrawn in every epoch from the gray values.

        Hidden biases start at -2, without centering: features that are active less often are easier to classify.
        """
        network = hm.DeepBeliefNetwork.of(self.settings.layers, inputs="means")
        rows = hm.Redrawn(images)
        for k, machine in enumerate(network.machines):
            source = rows if k == 0 else HiddenStates(network, rows, k)
            self._pretrain(machine, source, k, len(images))
        return network

    def _pretrain(self, machine: hm.RBM, source: Any, k: int, rows: int) -> None:
        layers, epochs = self.settings.layers[: k + 2], self.settings.pretraining[k]
        name = name_by_settings("machine", k + 1, *layers, rows=rows, epochs=epochs, seed=self.seed)

        def prepare() -> None:
            machine.initialize(source.rows(torch.arange(min(rows, _FIRST)), machine), seed=self.seed + k)
            with torch.no_grad():
                machine.hidden.bias.fill_(_BIAS)

        result = self.train(
            name,
            machine,
            source,
            words=f"machine {k + 1}, {epochs} epochs of {rows} images",
            prepare=prepare,
            seed=self.seed + k,
            epochs=epochs,
            negative="cd:1",
            batch_size=_BATCH,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.5),
            penalties=[hm.L2(2e-4)],
            centered=False,
            schedule="linear:0.5",
            initialize="keep",
            progress=False,
        )
        last = result.history[-1]
        self.record.say(f"reconstruction error {last['reconstruction']:.4f}, {last['seconds']:.0f} s")

    def errors(self, name: str, dropout: str, make: Callable[[], Classifier]) -> np.ndarray:
        """Which test images a classifier misclassifies: (n,) of 0 and 1."""
        kind, settings = name.replace(" ", "-"), self.settings
        file = name_by_settings(kind, dropout, rows=settings.rows, epochs=settings.epochs, seed=self.seed)

        def classify() -> np.ndarray:
            began = time.process_time()
            classifier = make()
            test, truth = hm.data.load(self.data, split="test", labels=True)
            wrong = (classifier.predict(test) != truth).double().numpy()
            seconds = time.process_time() - began
            self.record.say(f"{name}: test error {100 * wrong.mean():.2f} %, {seconds:.0f} CPU seconds since the start")
            return wrong

        return kept_errors(self.folder / f"{file}-errors.txt", classify)


@with_options_of(Networks)
def run(record: Record, trained: Networks, dropout: str = CHOSEN, choose: str = "", compare: bool = True) -> None:
    """Pretrain, choose among the ``choose`` of ``DROPOUT`` if any, fine-tune and test; compare with random weights."""
    settings, seed = trained.settings, trained.seed
    for name in (dropout, *choose.split(",")) if choose else (dropout,):
        if name not in DROPOUT:
            raise unknown("dropout", name, DROPOUT)
    images, labels = trained.load()
    network = trained.network(images)
    if choose:
        dropout = chosen(record, settings, network, images, labels, choose.split(","), seed)
    wrong = [
        trained.errors(f"seed {k}", dropout, partial(tuned, network, images, labels, settings, dropout, k))
        for k in range(seed, seed + settings.seeds)
    ]
    other = None
    if compare:
        start = untrained(settings, seed)
        make = partial(tuned, start, images, labels, settings, dropout, seed)
        other = trained.errors("random initial weights", dropout, make)
    claims(record, wrong, other, scale=trained.scale)


def untrained(settings: Settings, seed: int) -> hm.DeepBeliefNetwork:
    """The same network with random weights of the usual size, 1/√(number of inputs)."""
    network = hm.DeepBeliefNetwork.of(settings.layers)
    for k, machine in enumerate(network.machines):
        machine.initialize(scale=1 / math.sqrt(machine.visible.size), seed=seed + k)
    return network


def chosen(
    record: Record,
    settings: Settings,
    network: hm.DeepBeliefNetwork,
    images: Tensor,
    labels: Tensor,
    names: list[str],
    seed: int,
) -> str:
    """Return the dropout with the smallest error on the held-out training images, at the end of the training."""
    rest, part = slice(0, settings.held_out), slice(settings.held_out, settings.held_out + settings.tried)
    errors = {}
    for name in names:
        classifier = tuned(network, images[part], labels[part], settings, name, seed)
        errors[name] = classifier.error(images[rest], labels[rest])
        record.say(f"dropout {name}: validation error {100 * errors[name]:.2f} %")
    record.table("validation", [{"dropout": name, "error": error} for name, error in errors.items()])
    return min(errors, key=lambda name: errors[name])


def tuned(
    network: hm.DeepBeliefNetwork,
    images: Tensor,
    labels: Tensor,
    settings: Settings,
    dropout: str,
    seed: int,
) -> Classifier:
    """Fine-tune on gray values."""
    visible, hidden = DROPOUT[dropout]
    rates = (visible, *[hidden] * (len(settings.layers) - 1))
    return finetune(
        network,
        images,
        labels,
        epochs=settings.epochs,
        batch_size=_BATCH,
        learning_rate=_RATE,
        schedule=_SCHEDULE,
        dropout=rates,
        seed=seed,
    )


def claims(record: Record, wrong: list[np.ndarray], other: np.ndarray | None, scale: str) -> None:
    """Write the verdicts: against published errors, and against random weights image by image.

    A published error is that of one network on these test images; so is the first claim, which has no sampling error.
    The second is about the mean over seeds, and open with one seed.
    """
    errors = [float(part.mean()) for part in wrong]
    record.table("errors", [{"seed": k, "error": error} for k, error in enumerate(errors)])
    record.numbers["test_errors"] = errors
    found = judging.mean(errors)
    words = f"{100 * found.value:.2f} % of the test images ({len(errors)} seeds: {_percent(errors)})"
    for goal, where in ((PUBLISHED, _BY_GRADIENTS), (GOAL, _BY_MEAN_FIELD)):
        limit = f"at most {100 * goal:.2f} % of the test images are misclassified"
        record.claim(f"{limit}, as published ({where}): every network of this run", words, max(errors) <= goal)
        if scale == "full":
            record.claim(f"{limit}, on average over seeds", words, found.below(goal))
    if other is not None:
        gain = judging.mean(other - wrong[0])
        record.numbers["random_weights"] = float(other.mean())
        record.claim(
            "pretraining lowers the error of the same network with random initial weights",
            f"by {100 * gain.value:.2f} ± {100 * gain.error:.2f} percentage points",
            gain.above(0.0),
        )


def _percent(errors: list[float]) -> str:
    return ", ".join(f"{100 * error:.2f} %" for error in errors)

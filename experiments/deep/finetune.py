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
from dataclasses import dataclass

import torch
from torch import Tensor

import harmonium as hm
from harmonium.errors import unknown
from harmonium.tasks import Classifier, finetune
from harmonium.training import HiddenStates

from .. import judging
from ..judging import Measured
from ..options import override
from ..record import Record


@dataclass(frozen=True)
class Settings:
    """The size of the network and of the training."""

    layers: tuple[int, ...]
    rows: int  # training images
    held_out: int  # of these, used to choose settings
    pretraining: tuple[int, ...]  # epochs of each machine
    epochs: int  # of fine-tuning
    seeds: int  # of fine-tuning


SETTINGS = {
    "quick": Settings((784, 500, 500), 60_000, 10_000, (4, 3), 10, 1),
    "full": Settings((784, 500, 500, 2000), 60_000, 10_000, (12, 12, 8), 30, 2),
}
#: dropout of the visible layer and of the hidden layers
DROPOUT = {"none": (0.0, 0.0), "weak": (0.1, 0.2), "strong": (0.2, 0.4)}
CHOSEN = "strong"
#: test errors in the same task
PUBLISHED = 0.012
GOAL = 0.0095
_RATE = 1e-3
_BATCH = 100
_BIAS = -2.0  # of hidden units at the start
_FIRST = 10_000  # rows that set the visible biases


def run(
    record: Record,
    scale: str,
    dropout: str = CHOSEN,
    choose: bool = False,
    compare: bool = True,
    epochs: int = 0,
    seeds: int = 0,
    seed: int = 0,
) -> None:
    """Pretrain, choose settings if ``choose``, fine-tune and test; ``compare`` adds random initial weights."""
    if dropout not in DROPOUT:
        raise unknown("dropout", dropout, DROPOUT)
    settings = override(SETTINGS[scale], epochs=epochs, seeds=seeds)
    images, labels = hm.data.load("mnist", labels=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: settings.rows]
    images, labels = images[order], labels[order]
    network = pretrained(record, settings, images, seed)
    if choose:
        dropout = chosen(record, settings, network, images, labels, seed)
    test, truth = hm.data.load("mnist", split="test", labels=True)
    wrong = [
        _tested(record, tuned(network, images, labels, settings, dropout, seed + k), test, truth, f"seed {seed + k}")
        for k in range(settings.seeds)
    ]
    other = None
    if compare:
        classifier = tuned(untrained(settings, seed), images, labels, settings, dropout, seed)
        other = _tested(record, classifier, test, truth, "random initial weights")
    claims(record, wrong, other, scale)


def pretrained(record: Record, settings: Settings, images: Tensor, seed: int) -> hm.DeepBeliefNetwork:
    """Train the network greedily on binary images, redrawn in every epoch with the gray values as probabilities.

    Hidden biases start at -2, without centering: features that are active less often are easier to classify.
    """
    network = hm.DeepBeliefNetwork.of(settings.layers, inputs="means")
    began, rows = time.perf_counter(), hm.Redrawn(images)
    found = []
    for k, machine in enumerate(network.machines):
        source = rows if k == 0 else HiddenStates(network, rows, k)
        machine.initialize(source.rows(torch.arange(min(len(images), _FIRST)), machine), seed=seed + k)
        with torch.no_grad():
            machine.hidden.bias.fill_(_BIAS)
        result = hm.fit(
            machine,
            source,
            epochs=settings.pretraining[k],
            negative="cd:1",
            batch_size=_BATCH,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.5),
            transforms=[hm.L2(2e-4)],
            schedule="linear:0.5",
            seed=seed + k,
            progress=False,
        )
        found.append(result.history[-1]["reconstruction"])
        record.say(f"machine {k + 1}: reconstruction error {found[-1]:.4f}")
    record.numbers["pretraining"] = {"minutes": (time.perf_counter() - began) / 60, "reconstruction": found}
    hm.save(network, record.folder / "network.safetensors")
    return network


def untrained(settings: Settings, seed: int) -> hm.DeepBeliefNetwork:
    """The same network with random weights of the usual size, 1/√(number of inputs)."""
    network = hm.DeepBeliefNetwork.of(settings.layers)
    for k, machine in enumerate(network.machines):
        machine.initialize(scale=1 / math.sqrt(machine.visible.size), seed=seed + k)
    return network


def chosen(
    record: Record, settings: Settings, network: hm.DeepBeliefNetwork, images: Tensor, labels: Tensor, seed: int
) -> str:
    """Return the dropout with the smallest error on the held-out training images, at the end of the training."""
    part, rest = slice(settings.held_out, None), slice(0, settings.held_out)
    errors = {}
    for name in DROPOUT:
        classifier = tuned(network, images[part], labels[part], settings, name, seed)
        errors[name] = classifier.error(images[rest], labels[rest])
        record.say(f"dropout {name}: validation error {100 * errors[name]:.2f} %")
    record.table("validation", [{"dropout": name, "error": error} for name, error in errors.items()])
    return min(errors, key=lambda name: errors[name])


def tuned(
    network: hm.DeepBeliefNetwork, images: Tensor, labels: Tensor, settings: Settings, dropout: str, seed: int
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
        dropout=rates,
        seed=seed,
    )


def _tested(record: Record, classifier: Classifier, test: Tensor, truth: Tensor, name: str) -> Tensor:
    """Return which test images are classified wrongly."""
    wrong = classifier.predict(test) != truth
    record.say(f"{name}: test error {100 * wrong.double().mean():.2f} %")
    return wrong


def claims(record: Record, wrong: list[Tensor], other: Tensor | None, scale: str) -> None:
    """Write the verdicts: against published errors over seeds, and against random weights image by image."""
    errors = [part.double().mean().item() for part in wrong]
    record.table("errors", [{"seed": k, "error": error} for k, error in enumerate(errors)])
    record.numbers["test_errors"] = errors
    found = judging.mean(errors)
    words = f"{100 * found.value:.2f} % of the test images ({len(errors)} seeds: {_percent(errors)})"
    if scale == "full":
        record.claim(
            f"at most {100 * PUBLISHED:.1f} %, the error of these layers after fine-tuning with conjugate gradients "
            "(Hinton & Salakhutdinov 2006)",
            words,
            found.below(PUBLISHED),
        )
        record.claim(f"at most {100 * GOAL:.2f} %", words, found.below(GOAL))
    if other is not None:
        gain = paired(other, wrong[0])
        record.numbers["random_weights"] = other.double().mean().item()
        record.claim(
            "pretraining lowers the error of the same network with random initial weights",
            f"by {100 * gain.value:.2f} ± {100 * gain.error:.2f} percentage points",
            gain.above(0.0),
        )


def paired(other: Tensor, ours: Tensor) -> Measured:
    """The difference of two error rates on the same images, with its standard error."""
    difference = other.double() - ours.double()
    return Measured(difference.mean().item(), (difference.std() / math.sqrt(len(difference))).item())


def _percent(errors: list[float]) -> str:
    return ", ".join(f"{100 * error:.2f} %" for error in errors)

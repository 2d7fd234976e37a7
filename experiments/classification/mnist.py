"""Test error of a classification RBM on MNIST, and class-conditional samples.

The pixels are binary and redrawn in every epoch with the gray values as probabilities; test images are classified by
their gray values. The weight alpha of the generative part is chosen on the last 10 000 training images
(``choosing=yes``); the test images are used once, after training on all 60 000. Samples come from a second machine,
which is trained generatively: with a small alpha and short chains, the hybrid machine is no good model of the pixels.
"""

from __future__ import annotations

import harmonium as hm
from harmonium import plots
from harmonium.tasks import fit_classifier, label_rbm

from ..options import override
from ..record import Record
from .trained import Settings, Task, claims, class_samples, tested, with_alpha

SETTINGS = {
    "quick": Settings(500, 60_000, 10_000, epochs=5, rate=0.005, alpha=0.01),
    "full": Settings(1000, 60_000, 10_000, epochs=16, rate=0.005, alpha=0.01),
}
GOALS = {"quick": 0.03, "full": 0.018}
#: test errors and numbers of hidden units
PUBLISHED = {"discriminative": (0.0181, 500), "hybrid": (0.0128, 1500)}
#: hidden units and epochs of the machine that draws samples
SAMPLED = {"quick": (200, 10), "full": (500, 20)}
_EACH = 12


def run(
    record: Record,
    scale: str,
    alpha: float = -1.0,
    choosing: str = "no",
    hidden: int = 0,
    epochs: int = 0,
    rows: int = 0,
    rate: float = 0.0,
    seed: int = 0,
) -> None:
    """Choose alpha if ``choosing=yes``, train on all images and test; ``alpha=0`` is discriminative training."""
    settings = override(SETTINGS[scale], hidden=hidden, epochs=epochs, rows=rows, rate=rate)
    task = Task(hm.data.load("mnist", labels=True), hm.data.load("mnist", split="test", labels=True), 10, hm.Redrawn)
    settings = with_alpha(record, task, settings, alpha, choosing, seed)
    _, error = tested(record, task, settings, seed)
    claims(record, error, GOALS[scale], PUBLISHED, settings.hidden)
    draw(record, task, *SAMPLED[scale], seed)


def draw(record: Record, task: Task, hidden: int, epochs: int, seed: int) -> None:
    """Train a generative machine with persistent chains, and draw samples of every class."""
    images, labels = task.train
    classifier = fit_classifier(
        label_rbm(hm.units.Bernoulli(784), 10, hidden),
        task.wrap(images),
        labels,
        objective="generative",
        negative="pcd:1",
        optimizer="sgd",
        learning_rate=0.05,
        epochs=epochs,
        seed=seed,
        progress=False,
    )
    record.numbers["generative_test_error"] = classifier.error(*task.test)
    drawn = class_samples(classifier, _EACH, 1000, seed)
    pixels = hm.RBM(hm.units.Bernoulli(784), 1)
    figure = plots.samples(pixels, drawn, image=(1, 28, 28), columns=_EACH, title="samples given the label")
    record.figure("samples", figure)

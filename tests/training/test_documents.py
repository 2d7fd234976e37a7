"""Training on documents of very different lengths: the default is contrastive divergence, and it learns."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.training.batches import as_rows

WORDS = 12


def corpus(n: int, seed: int = 0) -> torch.Tensor:
    """Documents of 2 to 400 words, each with the words of one of two themes and some others."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (2 * 200 ** torch.rand(n, generator=generator)).round()
    themes = torch.full((2, WORDS), 0.02)
    themes[0, :6], themes[1, 6:] = 1.0, 1.0
    which = torch.randint(2, (n,), generator=generator)
    unit = hm.units.Multinomial(WORDS)
    unit.total = lengths.unsqueeze(1)
    return unit.sample(themes[which].log(), generator=generator)


@pytest.mark.parametrize(
    "layer", [hm.units.Multinomial(WORDS), hm.units.Mixed(hm.units.Multinomial(WORDS), hm.units.Bernoulli(2))]
)
def test_documents_are_trained_by_contrastive_divergence(layer):
    machine = hm.RBM(layer, 2)
    assert layer.conserves
    rows = torch.ones(2, layer.size)
    assert hm.Plan().resolved(machine, as_rows(rows)).negative == hm.CD(1)


@pytest.mark.parametrize(
    ("options", "name", "schedule"),
    [
        ({}, "adam", "linear:0.5"),
        ({"learning_rate": 0.1}, "sgd", "constant"),
        ({"optimizer": "sgd"}, "sgd", "linear:0.5"),  # with rates chosen from the data
        ({"optimizer": "adam"}, "adam", "constant"),
    ],
)
def test_the_optimizer_of_documents(options, name, schedule):
    machine = hm.RBM(hm.units.Multinomial(WORDS), 2)
    plan = hm.Plan(**options).resolved(machine, as_rows(torch.ones(2, WORDS)))
    assert plan == hm.Plan(**{**plan.given(), "optimizer": name, "schedule": schedule})


def test_documents_of_one_length_are_trained_as_other_data():
    machine = hm.RBM(hm.units.Multinomial(WORDS, total=4), 2)
    assert not machine.visible.conserves
    assert hm.Plan().resolved(machine, as_rows(torch.ones(2, WORDS))).negative == hm.Exact()


@pytest.mark.parametrize(
    ("epochs", "options"),
    [
        pytest.param(None, {}, marks=pytest.mark.slow),
        pytest.param(None, {"optimizer": "sgd"}, marks=pytest.mark.slow),
        (40, {"optimizer": "adam", "learning_rate": 0.01}),
    ],
)
def test_the_exact_perplexity_falls_and_no_unit_is_always_on(epochs, options):
    train, test = corpus(400), corpus(200, seed=1)
    machine = hm.RBM(hm.units.Multinomial(WORDS), hm.units.Bernoulli(4))
    machine.initialize(train, seed=0)
    before = hm.likelihood.exact(machine, test).perplexity(test.sum(1)).value
    hm.fit(machine, train, epochs=epochs, initialize="keep", seed=0, progress=False, **options)
    after = hm.likelihood.exact(machine, test).perplexity(test.sum(1)).value
    assert before == pytest.approx(WORDS, rel=0.05)
    assert after < 0.65 * before  # the two themes have 6 words each
    activity = machine.hidden_mean(test).mean(0)
    assert ((activity > 0.02) & (activity < 0.98)).all()

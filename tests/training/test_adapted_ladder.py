"""Parallel tempering with temperatures that follow the machine."""

from __future__ import annotations

from typing import Any

import torch

import harmonium as hm
from harmonium.testing import check_negative_phase
from harmonium.training.batches import as_source
from harmonium.training.loop import Training


def two_modes() -> torch.Tensor:
    source = torch.Generator().manual_seed(0)
    rows = torch.randint(2, (500, 1), generator=source).float().expand(500, 20)
    return (rows - (torch.rand(500, 20, generator=source) < 0.05).float()).abs()


def fitted(phase: hm.ParallelTempering) -> dict[str, Any]:
    """The state of the phase after a training."""
    rbm = hm.RBM(20, 5)
    source = as_source(two_modes(), rbm)
    plan = hm.Plan(negative=phase, epochs=60, batch_size=50, learning_rate=0.2, seed=0).resolved(rbm, source)
    training = Training(rbm, source, plan, progress=False)
    training.train()
    return training.learners[0].state


def test_contract():
    check_negative_phase(hm.ParallelTempering(1, rungs=4, adapt=True))
    text = "parallel-tempering:1,rungs=4,adapt=true"
    assert hm.Plan(negative=text).negative == hm.ParallelTempering(1, rungs=4, adapt=True)


def test_exchanges_are_rejected_equally_often():
    """Two modes: with equal distances, exchanges are rarest where the modes separate."""
    fixed, adapted = (fitted(hm.ParallelTempering(1, rungs=6, adapt=adapt)) for adapt in (False, True))
    spread = [float((1 - state["acceptance"]).std()) for state in (fixed, adapted)]
    assert spread[1] < 0.5 * spread[0]
    assert torch.equal(fixed["betas"], torch.linspace(0, 1, 6).double())
    betas = adapted["betas"]
    assert float(betas[0]) == 0 and float(betas[-1]) == 1 and bool((betas.diff() > 0).all())


def test_chains_of_the_gradient_are_those_of_the_machine():
    """The machine has two modes, all on and all off; the first rung, independent units, has states between them."""
    rows = fitted(hm.ParallelTempering(1, rungs=4))["v"].mean(1)
    assert ((rows < 0.25) | (rows > 0.75)).float().mean() > 0.9


def test_resume_to_the_bit(tmp_path):
    """The temperatures are part of the checkpoint."""

    def train(epochs: int, folder: str, resume: bool = False) -> torch.Tensor:
        rbm = hm.RBM(20, 5)
        options = {"batch_size": 50, "schedule": "constant", "seed": 0, "progress": False, "resume": resume}
        phase = hm.ParallelTempering(1, rungs=4, adapt=True)
        hm.fit(rbm, two_modes(), negative=phase, epochs=epochs, run=tmp_path / folder, **options)
        return rbm.coupling.weight.detach().clone()

    train(13, "a")
    assert torch.equal(train(24, "a", resume=True), train(24, "b"))

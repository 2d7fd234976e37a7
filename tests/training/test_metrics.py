"""The metrics of training: they change only with the machine, and are the numbers of the public functions."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.report import Subject, evaluate
from harmonium.training import Setting

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")


def patterns(n: int = 200) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return ((torch.rand(n, 1, generator=generator) < 0.5) ^ (torch.rand(n, 12, generator=generator) < 0.2)).float()


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("kind", ["rbm", "dbm", "dbn"])
def test_a_machine_that_does_not_change_has_the_same_metrics_in_every_epoch(kind) -> None:
    layers = [hm.units.Bernoulli(n) for n in (12, 5, 3)]
    machines = {"rbm": hm.RBM(12, 5), "dbm": hm.DeepBoltzmannMachine(layers), "dbn": hm.DeepBeliefNetwork.of(layers)}
    machine, rows = machines[kind], patterns()
    hm.fit(machine, rows, epochs=3, progress=False)
    frozen = hm.fit(machine, rows, epochs=4, schedule=lambda clock: Setting(rate=0.0), progress=False, validation=rows)
    measured = [name for name in frozen.history[0] if name not in ("epoch", "seconds", "samples_per_second")]
    assert any(name.startswith("reconstruction") for name in measured)
    for name in measured:
        assert len({row[name] for row in frozen.history}) == 1, name


def test_the_pseudo_likelihood_is_close_to_the_exact_one() -> None:
    machine, rows = hm.RBM(12, 5), patterns(1000)
    found = hm.fit(machine, rows, epochs=5, seed=0, progress=False).history[-1]["pseudo_likelihood"]
    exact = hm.likelihood.pseudo(machine, rows).mean().item() / 12
    assert abs(found - exact) < 0.005  # one random site of each row has a standard error of 0.02


def test_reconstruction_errors_agree() -> None:
    """The metric of training, the function and the evaluation are one number."""
    machine, rows = hm.RBM(12, 5), patterns()
    metric = hm.fit(machine, rows, epochs=3, progress=False).history[-1]["reconstruction"]
    by_hand = (machine.reconstruct(rows) - rows).square().mean().item()
    (row,) = [row for row in evaluate(Subject(machine, rows)) if row.name == "reconstruction error"]
    assert metric == pytest.approx(by_hand, rel=1e-6) and row.train == pytest.approx(by_hand, rel=1e-6)


def test_shared_weights_have_the_same_pseudo_likelihood_as_their_dense_matrix() -> None:
    hidden, coupling = hm.machines.feature_maps((1, 4, 4), channels=2, kernel=3)
    shared = hm.RBM(hm.units.Bernoulli((1, 4, 4)), hidden, coupling).to(dtype=torch.float64)
    shared.initialize(scale=1.0, seed=0)
    dense = hm.RBM(16, hidden.size).to(dtype=torch.float64)
    dense.weight.data.copy_(coupling.matrix().detach())
    rows = (torch.rand(5, 16, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    found = hm.likelihood.pseudo(shared, rows.reshape(5, 1, 4, 4))
    torch.testing.assert_close(found, hm.likelihood.pseudo(dense, rows))

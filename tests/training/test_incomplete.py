"""Training on rows with missing values: the gradient is that of the log-likelihood of the observed values."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.machines import partial
from harmonium.machines.partial import PartialRows
from harmonium.training.negative import Batch
from harmonium.training.negative.base import complete

F64 = torch.float64
NAN = torch.nan


def machine(seed=0, scale=0.5, hidden=3):
    generator = torch.Generator().manual_seed(seed)
    layer = units.Mixed(units.Bernoulli(2), units.Categories([3, 2]), units.Gaussian(1, learn=("bias", "precision")))
    rbm = hm.RBM(layer, hidden).double()
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=F64))
    return rbm


def rows_with_gaps(rbm, n, share=0.3, seed=1):
    rows = rbm.sample(n, sweeps=20, seed=seed, check_mixing=False)
    generator = torch.Generator().manual_seed(seed)
    for columns in ([0], [1], [2, 3, 4], [5, 6], [7]):
        gone = torch.rand(n, generator=generator) < share
        for column in columns:
            rows[gone, column] = NAN
    return rows


def log_likelihood(rbm, rows):
    return (partial.log_marginal(rbm, PartialRows.of(rows, rbm.visible)).mean() - _log_partition(rbm)).detach()


def _log_partition(rbm):
    """ln Z as the marginal of a row in which everything is missing."""
    nothing = torch.full((1, 8), NAN, dtype=F64)
    return partial.log_marginal(rbm, PartialRows.of(nothing, rbm.visible))[0]


@torch.no_grad()
def gradient(rbm, rows, phase, sweeps=1, seed=0):
    """The gradient that a training step computes."""
    source = hm.Incomplete(rows, sweeps=sweeps)
    generator = torch.Generator().manual_seed(seed)
    state = phase.resolved(len(rows)).init(rbm, source.rows(torch.arange(len(rows)), rbm), generator)
    batch, missing = source.rows(torch.arange(len(rows)), rbm), source.missing(torch.arange(len(rows)))
    if not phase.sums_missing:
        complete(rbm, batch, missing, source.sweeps, generator)
        missing = None
    phase.step(rbm, Batch(batch, None, missing), state, generator)[0].write()
    return {name: parameter.grad.clone() for name, parameter in rbm.named_parameters()}


@pytest.mark.slow
def test_exact_gradient_equals_finite_differences():
    rbm = machine()
    rows = rows_with_gaps(rbm, 20)
    found = gradient(rbm, rows, hm.Exact())
    step = 1e-5
    for name, parameter in rbm.named_parameters():
        for k in range(parameter.numel()):
            flat = parameter.data.view(-1)
            values = []
            for sign in (1, -1):
                flat[k] += sign * step
                values.append(log_likelihood(rbm, rows))
                flat[k] -= sign * step
            slope = (values[0] - values[1]) / (2 * step)
            assert found[name].view(-1)[k].item() == pytest.approx(-slope.item(), abs=1e-8), name


@pytest.mark.slow
def test_sampled_gradient_is_unbiased_in_equilibrium():
    """With chains in equilibrium, the mean over many copies of the rows is the exact gradient."""
    rbm, copies = machine(), 1000
    rows = rows_with_gaps(rbm, 20)
    exact = gradient(rbm, rows, hm.Exact())
    many = rows.repeat(copies, 1)
    sampled = gradient(rbm, many, hm.PCD(100, chains=len(many)), sweeps=50, seed=3)
    for name, value in exact.items():
        assert (sampled[name] - value).abs().max() < 0.03, name
    biased = gradient(rbm, many, hm.PCD(1, chains=10), sweeps=1)  # values of other rows, one sweep
    assert max((biased[name] - exact[name]).abs().max() for name in exact) > 0.03  # the tolerance can fail


def clusters(n, share=0.3, seed=0):
    """Rows of two clusters, with missing values; the clusters differ in all units."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.tensor([[1.0, 1, 1, 0, 0, 1, 0, 1.0], [0.0, 0, 0, 0, 1, 0, 1, -1.0]], dtype=F64)
    rows = centers[torch.randint(2, (n,), generator=generator)]
    rows[:, 7] += 0.3 * torch.randn(n, generator=generator, dtype=F64)
    for columns in ([0], [1], [2, 3, 4], [5, 6], [7]):
        gone = torch.rand(n, generator=generator) < share
        rows[gone, columns[0] : columns[-1] + 1] = NAN
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("negative", ["exact", "pcd:5"])
def test_likelihood_of_observed_values_rises(negative):
    rows = clusters(400)
    rbm = machine(scale=0.0)
    options = {"negative": negative, "batch_size": 100, "seed": 0, "progress": False}
    independent = machine(scale=0.0)
    independent.initialize(hm.Incomplete(rows).rows(torch.arange(400), independent), scale=1e-9)
    hm.fit(rbm, hm.Incomplete(rows), epochs=15, learning_rate=0.3, initialize="normal:0.3", **options)
    middle = log_likelihood(rbm, rows)
    hm.fit(rbm, hm.Incomplete(rows), epochs=15, learning_rate=0.3, **options)
    assert log_likelihood(independent, rows) + 0.2 < middle < log_likelihood(rbm, rows)


@pytest.mark.slow
def test_without_missing_values_nothing_changes():
    rows = rows_with_gaps(machine(), 50, share=0.0)
    states = []
    for data in (rows, hm.Incomplete(rows)):
        rbm = machine(seed=7)
        hm.fit(rbm, data, epochs=3, batch_size=10, seed=0, progress=False)
        states.append(rbm.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_run_resumes_bit_for_bit(tmp_path):
    rows = rows_with_gaps(machine(), 60)
    results = []
    for stops in ((6,), (3, 6)):
        folder = tmp_path / str(len(stops))
        for epochs in stops:
            rbm = machine(seed=7)
            hm.fit(
                rbm,
                hm.Incomplete(rows[10:]),
                validation=hm.Incomplete(rows[:10]),
                epochs=epochs,
                batch_size=20,
                schedule="constant",
                learning_rate=0.05,
                seed=0,
                progress=False,
                run=folder,
                resume=epochs != stops[0],
            )
        results.append((rbm.state_dict(), hm.Run(folder).read_metrics()[-1]["free_energy_gap"]))
    assert all(torch.equal(results[0][0][name], results[1][0][name]) for name in results[0][0])
    assert results[0][1] == results[1][1]


def test_initial_values_come_from_the_same_units():
    rows = torch.tensor([[1.0, 0, 0, 5], [NAN, NAN, NAN, 6], [0, 1, 0, NAN], [NAN, NAN, NAN, 7]])
    filled = hm.Incomplete(rows).take(torch.arange(4), torch.empty(4, 4))
    units.Mixed(units.Categories([3]), units.Gaussian(1)).check(filled)
    assert filled[2, 3] in (5, 6, 7)


def test_errors():
    with pytest.raises(hm.errors.InvalidData, match="expected an observed value of every unit, found none in column 1"):
        hm.Incomplete(torch.tensor([[0.0, NAN], [1.0, NAN]]))
    with pytest.raises(hm.errors.InvalidOption, match="all components of a unit or none"):
        hm.fit(
            hm.RBM(units.Potts((1, 2)), 2), hm.Incomplete(torch.tensor([[[NAN, 1.0]], [[1.0, 0.0]]])), progress=False
        )
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(2), units.Bernoulli(2), units.Bernoulli(2)])
    with pytest.raises(hm.errors.InvalidOption, match="missing values expects an RBM"):
        hm.fit(deep, hm.Incomplete(torch.tensor([[NAN, 1.0], [1.0, 0.0]])), progress=False)
    with pytest.raises(hm.errors.InvalidData, match="expected finite numbers"):
        hm.fit(hm.RBM(2, 2), torch.tensor([[NAN, 1.0], [1.0, 0.0]]), progress=False)

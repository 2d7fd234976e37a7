"""The experiments of Decelle, Fissore & Furtlehner (2017) run end to end on small settings; their parts are correct."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from experiments import Record
from experiments.judging import Measured
from experiments.spectral import fig1, fig2, fig3, fig4, trained
from harmonium import spectra

SMALL = {"data": "digits", "hidden": 12, "epochs": 4, "rows": 300}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


@pytest.mark.parametrize("module", [fig2, fig3, fig4])
@pytest.mark.slow
def test_runs(module, shared, tmp_path):
    name = module.__name__.rpartition(".")[2]
    record = Record(f"spectral/{name}", "quick", tmp_path)
    module.run(record, "quick", **SMALL, machines=str(shared))
    record.close()
    check_left_behind(record, name)


@pytest.mark.slow
def test_the_linear_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(fig1, "ROWS", 400)
    record = Record("spectral/fig1", "quick", tmp_path)
    fig1.run(record, "quick", epochs=3, seeds=2)
    record.close()
    check_left_behind(record, "fig1")


def test_machines_start_as_the_paper_says(tmp_path):
    machines = trained.Machines(Record("spectral", "quick", tmp_path), "quick", **(SMALL | {"epochs": 1}))
    histories = {field: machines.history(field) for field in ("mean", "zero")}
    assert set(machines.rows.unique().tolist()) == {-1.0, 1.0}
    start = histories["mean"].spectra[0]
    torch.testing.assert_close(start.values, histories["zero"].spectra[0].values)
    assert spectra.MarchenkoPastur.of(start.values, 64, 12).std == pytest.approx(0.01, rel=0.2)
    kept = sorted(machines.folder.glob("*/checkpoints/epoch-000000.safetensors"))
    mean, zero = (hm.load(path) for path in kept)
    assert (zero.visible.bias == 0).all() and (zero.hidden.bias == 0).all() and (mean.hidden.bias == 0).all()
    rows = machines.rows.double()
    expected = (rows.sum(0) / (len(rows) + 2)).clamp(-1, 1)  # approximately, because of the pseudocount
    torch.testing.assert_close(torch.tanh(mean.visible.bias.double()), expected, rtol=0, atol=0.02)
    assert machines.history("mean").epochs == histories["mean"].epochs  # kept, not trained again
    names = {f"digits-12-rows-300-epochs-1-{field}-seed-0" for field in ("mean", "zero")}  # as in earlier versions
    assert {path.name for path in machines.folder.iterdir()} == names


def history(*values: list[float]) -> spectra.SpectralHistory:
    size = len(values[0])
    eye = torch.eye(size, dtype=torch.float64)
    kept = [spectra.Spectrum(torch.tensor(row, dtype=torch.float64), eye, eye) for row in values]
    return spectra.SpectralHistory([float(k) for k in range(len(values))], kept)


def test_when_modes_appear():
    found = fig1.appearance(history([0.1, 0.1], [0.5, 0.1], [1.0, 1.6]), 2)
    assert found == pytest.approx([1.0, 1.75])  # 0.1, 0.2, 0.4, 0.8, 1.6 in four equal parts of the last epoch
    assert fig1.appearance(history([1.0, 1.0], [1.0, 1.0]), 2) == [0.0, 0.0]


def test_which_modes_grew():
    change = fig4.Change.of(np.array([1.0, 1.0, 1.0, 1.0]), np.array([2.0, 1.07, 1.0, 0.5]))
    assert (change.amplified, change.range, change.damped, change.modes) == (2, (1, 2), 1, 4)


def test_how_far_from_noise():
    noise = spectra.MarchenkoPastur(300, 200, 0.1)
    drawn = 0.1 * torch.randn(300, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, w, vt = torch.linalg.svd(drawn, full_matrices=False)
    found = spectra.Spectrum(w, u.T, vt)
    assert fig2.distance(found, noise) < 0.02
    assert fig2.distance(found, spectra.MarchenkoPastur(300, 200, 0.12)) > 0.1
    assert fig2.first_outliers(spectra.SpectralHistory([0.0, 1.0], [found, found])) == 1


def test_the_likelihood_is_that_of_the_machine():
    """A linear machine is a Gaussian of precision 1 - WWᵀ; weights off the axes of the data contribute too."""
    rbm = hm.RBM(hm.units.Gaussian(4, learn=()), hm.units.Gaussian(3, learn=())).double()
    rbm.initialize(weights="normal", scale=0.3, seed=1)
    weight = rbm.coupling.matrix().detach()
    rows = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = torch.distributions.MultivariateNormal(
        torch.zeros(4, dtype=torch.float64), precision_matrix=torch.eye(4, dtype=torch.float64) - weight @ weight.T
    )
    torch.testing.assert_close(fig1.log_probability(rbm, rows), exact.log_prob(rows))
    rbm.coupling.weight.data.mul_(10)
    assert fig1.log_probability(rbm, rows).isnan().all()


def test_what_is_left_of_the_weak_components():
    eye = torch.eye(2, dtype=torch.float64)
    first, last = (spectra.Spectrum(torch.tensor(v, dtype=torch.float64), eye, eye) for v in ([0.1, 0.2], [0.9, 0.05]))
    assert fig1.remaining(spectra.SpectralHistory([0.0, 1.0], [first, last]), eye[:1]) == pytest.approx(0.25)


def test_gains_about_the_time_that_modes_appear():
    epochs, likelihood = [0.0, 1.0, 4.0, 9.0, 16.0], [0.0, 1.0, 1.0, 3.0, 3.5]
    assert fig1.gains(epochs, likelihood, [1.0, 16.0]) == [1.0, 2.5]
    assert fig1.gains(epochs, likelihood, [4.0, 9.0]) == pytest.approx([1.8, 1.7])  # the middle is at epoch 6


# -- verdicts: data for which each has to come out true, false and open ----------------------------------------------

SEEDS = 0.01 * np.array([[-1.0], [0.0], [1.0], [0.5], [-0.5]])  # a little noise over five seeds


def around(*values: float) -> np.ndarray:
    return np.array(values) + SEEDS


@pytest.mark.parametrize(
    ("epochs", "holds"),
    [
        ([20.0, 40.0, 80.0], True),
        ([20.0, 40.0, 40.0], False),  # two at once
        ([40.0, 20.0, 80.0], False),  # the strongest is not the first
    ],
)
def test_order_of_the_modes(epochs, holds):
    values = np.array(epochs) * (1 + SEEDS)
    assert fig1.judge_order(values + np.array([0.0, 0.1, 0.2]) * SEEDS) is holds
    assert fig1.judge_order(values[:1]) is None  # one seed has no error


def test_equilibrium_alignment_and_likelihood():
    end = np.array([[0.9, 0.5]]).repeat(5, 0)
    assert fig1.judge_equilibrium(end * (1 + SEEDS), end) is True
    assert fig1.judge_equilibrium(end * around(1.0, 1.2), end) is False
    assert fig1.judge_equilibrium(end * around(1.0, 1.05), end) is None
    assert fig1.judge_aligned(0.98 + SEEDS / 10 + np.zeros((5, 2))) is True
    assert fig1.judge_aligned(around(0.98, 0.7)) is False
    expected = np.array([[1.0, 0.1]]).repeat(5, 0)
    assert fig1.judge_likelihood(expected * (1 + SEEDS), expected) is True
    assert fig1.judge_likelihood(expected * around(1.0, 0.0), expected) is False  # no step for the second mode
    assert fig1.judge_likelihood(expected * around(1.0, 0.5), expected) is None


@pytest.mark.parametrize(
    ("left", "others", "holds"), [(0.0, 0.1, True), (1.0, 0.1, False), (0.0, 0.8, False), (0.5, 0.1, None)]
)
def test_weak_components_are_damped(left, others, holds):
    assert fig1.judge_damped(left + SEEDS[:, 0], others + SEEDS[:, 0]) is holds


def test_noise_at_the_start():
    drawn = np.linspace(0.005, 0.01, 99)
    assert fig2.judge_noise(0.006, drawn) is True
    assert fig2.judge_noise(0.02, drawn) is False  # near, but no noise is as far away
    assert fig2.judge_noise(0.1, 20 * drawn) is None  # a small matrix
    noise = spectra.MarchenkoPastur(30, 20, 0.1)
    assert fig2.drawn_distances(noise).shape == (99,)


def test_modes_above_the_bulk():
    assert fig2.judge_overcome(0, 8, 400) is True
    assert fig2.judge_overcome(0, 2, 400) is False
    assert fig2.judge_overcome(0, 300, 400) is False
    assert fig2.judge_overcome(4, 8, 400) is None
    values = np.concatenate([np.linspace(5.0, 1.5, 30), np.full(370, 0.5)])
    assert fig2.judge_spread(values, 1.0) is True
    assert fig2.judge_spread(values[10:], 1.9) is False
    assert fig2.judge_spread(np.minimum(values, 1.5), 1.0) is False


@pytest.mark.parametrize(("share", "holds"), [(0.4, True), (0.03, False), (0.15, None), (0.1, None)])
def test_a_spike_near_zero(share, holds):
    values = np.where(np.arange(400) < 400 * share, 0.05, 1.0)
    assert fig2.judge_spike(values, 0.1) is holds


def test_modes_and_components():
    assert [fig3.judge_same(Measured(x, 0.01, 9), 1.0) for x in (0.97, 0.7, 0.91)] == [True, False, None]
    assert fig3.judge_same(Measured(0.85, 0.005, 9), 0.9) is True  # noise leaves no more
    assert fig3.judge_same(Measured(0.3, 0.005, 9), 0.3) is None
    assert fig3.judge_components([6, 5, 7], 10) is True
    assert fig3.judge_components([2, 2, 3], 10) is False
    assert fig3.judge_components([5, 4, 6], 10) is None
    assert [fig3.judge_deformed(Measured(x, 0.01, 9)) for x in (0.3, 0.0, 0.06)] == [True, False, None]


def test_what_noise_leaves_of_a_mode():
    generator = torch.Generator().manual_seed(0)
    rows, columns, std = 600, 300, 0.1
    u, v = (torch.nn.functional.normalize(torch.randn(n, generator=generator, dtype=torch.float64), dim=0)
            for n in (rows, columns))  # fmt: skip
    matrix = std * torch.randn(rows, columns, generator=generator, dtype=torch.float64) + 5.0 * torch.outer(u, v)
    left, w, right = torch.linalg.svd(matrix, full_matrices=False)
    found = spectra.Spectrum(w, left.T, right)
    most = fig3.visible_through_noise(found, std)
    assert most[0] == pytest.approx((left[:, 0] @ u).abs().item(), abs=0.03) and most[0] < 0.95
    assert (most[5:] == 0).all()
    axes = spectra.DataModes(torch.zeros(rows), torch.ones(1), u[None])
    assert fig3.components(found, axes, most[:1]) == 1
    assert fig3.components(found, spectra.DataModes(axes.mean, axes.variances, found.left[5:6]), most[:1]) == 0


def test_checkpoints_of_figure_3():
    flat = [1.0, *np.linspace(0.9, 0.5, 11).tolist()]
    strong = [9.0] * 10 + [0.6, 0.5]
    found = history(flat, flat, strong, strong)
    assert fig3.when(found, 1, printed=False) == (2, -1)
    assert fig3.when(found, 600, printed=True) == (1, 3)
    assert fig3.emerged(found) == 2
    assert fig3.emerged(history(flat, flat)) is None


def changes(amplified: int, damped: int, slack: int = 0) -> fig4.Change:
    return fig4.Change(amplified, (amplified - slack, amplified + slack), damped, 400)


def test_cut_offs():
    assert fig4.judge_cut_off(changes(90, 250)) is True
    assert fig4.judge_cut_off(changes(400, 0)) is False  # all grow: there is no cut-off
    assert fig4.judge_cut_off(changes(0, 400)) is False
    assert fig4.judge_cut_offs(changes(50, 300), changes(250, 100)) is True
    assert fig4.judge_cut_offs(changes(50, 300), changes(400, 0)) is None  # more modes at the end, but no cut-off
    assert fig4.judge_cut_offs(changes(100, 300), changes(60, 200)) is False
    assert fig4.judge_cut_offs(changes(100, 300), changes(110, 200)) is None
    assert fig4.judge_cut_offs(changes(50, 300, 20), changes(90, 200, 20)) is None
    assert fig4.judge_cut_offs(changes(0, 400), changes(90, 200)) is None


def test_growth_by_the_linear_theory():
    """Two equal pixels and one independent pixel: one mode grows, one shrinks, one stays."""
    rows = torch.tensor([[1.0, 1, 1], [1, 1, -1], [-1, -1, 1], [-1, -1, -1]])
    expected = [math.exp(0.5), 1.0, math.exp(-0.5)]
    assert fig4.linear_growth(rows, 2.0, 0.25).tolist() == pytest.approx(expected)
    # the gradient of the exact log-likelihood of ±1 units with small weights
    rows = rows.double()
    weight = 1e-4 * torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight.requires_grad_()
    log_partition = torch.logsumexp(torch.cosh(every(3) @ weight).log().sum(1), 0)
    likelihood = torch.cosh(rows @ weight).log().sum(1).mean() - log_partition
    (drift,) = torch.autograd.grad(likelihood, weight)
    expected = (rows.T @ rows / 4 - torch.eye(3)) @ weight
    torch.testing.assert_close(drift, expected, rtol=1e-3, atol=1e-10)


def every(spins: int) -> torch.Tensor:
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * spins)


def test_the_top_of_the_spectrum():
    there = Measured(2.0, 0.01, 9)
    assert fig4.judge_flattened(1.2, there, 50) is True
    assert fig4.judge_flattened(2.5, there, 50) is False
    assert fig4.judge_flattened(1.6, there, 50) is None
    assert fig4.judge_flattened(1.05, there, 0) is None  # noise is flat by itself


def test_which_settings_are_the_printed_ones(tmp_path):
    def machines(**given):
        return trained.Machines(Record("spectral", "quick", tmp_path), "quick", **given)

    assert "instead of 0.1" in machines(data="digits").difference
    assert "images of digits" in machines(data="digits", units="bernoulli").difference
    found = machines(data="digits", units="bernoulli", rows=100, epochs=12_000, hidden=400)
    found.data = "mnist"
    assert found.difference == "" and set(found.rows.unique().tolist()) == {0.0, 1.0}
    assert math.isclose(found.reading.std**2, 0.01)
    with pytest.raises(hm.errors.InvalidOption, match="did you mean 'spin'"):
        machines(data="digits", units="spins")


@pytest.mark.slow
def test_the_reading_with_units_0_and_1(tmp_path):
    record = Record("spectral/fig3", "quick", tmp_path)
    fig3.run(record, "quick", **(SMALL | {"epochs": 2}), units="bernoulli")
    record.close()
    check_left_behind(record, "fig3")
    assert all(claim.holds is not False for claim in record.claims)  # other settings than the printed ones

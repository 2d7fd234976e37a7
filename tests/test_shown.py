"""Objects are shown in one line, and as a table in notebooks; progress follows the output."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import harmonium as hm
from harmonium.training import progress

ROWS = torch.eye(4).repeat(10, 1)


def objects(folder: Any) -> list[Any]:
    rbm = hm.RBM(4, 2)
    result = hm.fit(rbm, ROWS, epochs=2, batch_size=10, run=folder, progress=False)
    hidden, coupling = hm.machines.feature_maps((1, 3, 3), channels=2, kernel=2)
    return [
        rbm,
        hm.RBM(hm.units.Bernoulli((1, 3, 3)), hidden, coupling),
        hm.DeepBeliefNetwork.of([4, 3, 2]),
        result,
        hm.Run(folder),
        hm.Run(folder / "none"),
        hm.likelihood.exact(rbm),
        hm.likelihood.ais(rbm, runs=4, betas=4, seed=0),
        hm.likelihood.estimate(rbm, ROWS, runs=4, betas=4, seed=0),
        hm.likelihood.tap(rbm, ROWS),
        hm.meanfield.tap(rbm, ROWS),
        hm.landscape.find_solutions(rbm, ROWS),
        hm.landscape.growth(hm.Run(folder).machines(), ROWS),
        hm.spectra.spectral_history(hm.Run(folder).machines()),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_objects_are_shown_in_one_line_and_as_a_table(tmp_path) -> None:
    for shown in objects(tmp_path / "<run>"):
        line = repr(shown)
        assert "\n" not in line and len(line) < 400 and line.startswith(type(shown).__name__)
        page = shown._repr_html_()
        assert page.startswith("<table>") and "<run>" not in page
    assert repr(hm.RBM(4, 2)) == (
        "RBM(layers Bernoulli((4,)) – Bernoulli((2,)), parameters 14 (float32, cpu))"
    )  # fmt: skip


def test_a_result_is_shown_by_its_epochs_and_main_metrics() -> None:
    history = [{"epoch": 3, "seconds": 1.0, "weight_norm": 2.0, "pseudo_likelihood": -0.33333, "reconstruction": 0.1}]
    result = hm.training.Result(hm.RBM(4, 2), history, hm.Plan())
    assert repr(result) == "Result(3 epochs, pseudo likelihood -0.333, reconstruction 0.1)"
    assert "weight norm" in result._repr_html_() and "RBM" in result._repr_html_()
    assert repr(hm.training.Result(hm.RBM(4, 2), [], hm.Plan())) == "Result(0 epochs)"


@pytest.mark.slow
def test_results_with_large_tensors_are_shown_in_one_line() -> None:
    rbm, rows = hm.RBM(4, 2), torch.eye(4).repeat(20, 1)
    shown = [
        hm.sampling.parallel_tempering(rbm, 10, sweeps=2, betas=4, seed=0),
        hm.sampling.temperature_sweep(rbm, n=4, sweeps=2, seed=0),
        hm.landscape.find_solutions(rbm, rows[:5]),
        hm.meanfield.tap(rbm, rows[:5]),
        hm.likelihood.tap(rbm, rows[:5]),
        hm.spectra.spectrum(rbm),
        hm.spectra.data_modes(rows),
        hm.quality.correlations(rows, rows),
        hm.quality.principal(rows, rows),
        hm.interactions.strength(rbm, n_tuples=10),
    ]
    for result in shown:
        line = repr(result)
        assert line.startswith(type(result).__name__) and "\n" not in line and "tensor(" not in line
        assert len(line) < 300
    assert "samples 10×4, acceptance 3 values" in repr(shown[0])


def test_lines_from_time_to_time_without_a_terminal(monkeypatch, capsys) -> None:
    now = iter(range(0, 1000, 4))  # four seconds from one look at the clock to the next
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    lines = progress.ProgressBar(100, 0, True)
    for epoch in range(1, 7):
        lines.update(epoch, {"reconstruction": 0.1})
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.splitlines() == [
        "epoch 3.0/100, 12 s  recon 0.1",
        "epoch 6.0/100, 24 s  recon 0.1",
    ]


@pytest.mark.slow
def test_thirty_rows_are_enough_for_the_defaults() -> None:
    """The default batch of 100 rows is limited to the rows there are, and the number of epochs grows."""
    rows = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(15, 1)
    rbm = hm.RBM(6, 2)
    result = hm.fit(rbm, rows, progress=False)
    assert len(result.history) == 4000
    independent = -6 * torch.tensor(2.0).log().item()
    assert hm.likelihood.exact(rbm).log_likelihood(rows).value > independent + 2

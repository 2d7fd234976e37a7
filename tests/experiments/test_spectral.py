"""The experiments of the spectral paper run end to end on small settings, and their parts are right."""

from __future__ import annotations

import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from harmonium import analysis
from harmonium.experiments import Record
from harmonium.experiments.spectral import fig1, fig2, fig3, fig4, trained

SMALL = {"data": "digits", "hidden": 12, "epochs": 4, "rows": 300}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


@pytest.mark.parametrize("module", [fig2, fig3, fig4])
def test_runs(module, shared, tmp_path):
    name = module.__name__.rpartition(".")[2]
    record = Record(f"spectral/{name}", "quick", tmp_path)
    module.run(record, "quick", **SMALL, machines=str(shared))
    record.close()
    check_left_behind(record, name)


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
    assert analysis.MarchenkoPastur.of(start.values, 64, 12).std == pytest.approx(0.01, rel=0.2)
    kept = sorted(machines.folder.glob("*/checkpoints/epoch-000000.safetensors"))
    mean, zero = (hm.load(path) for path in kept)
    assert (zero.visible.bias == 0).all() and (zero.hidden.bias == 0).all() and (mean.hidden.bias == 0).all()
    rows = machines.rows.double()
    expected = (rows.sum(0) / (len(rows) + 2)).clamp(-1, 1)  # about: with a pseudocount
    torch.testing.assert_close(torch.tanh(mean.visible.bias.double()), expected, rtol=0, atol=0.02)
    assert machines.history("mean").epochs == histories["mean"].epochs  # kept, not trained again


def history(*values: list[float]) -> analysis.SpectralHistory:
    size = len(values[0])
    eye = torch.eye(size, dtype=torch.float64)
    spectra = [analysis.Spectrum(torch.tensor(row, dtype=torch.float64), eye, eye) for row in values]
    return analysis.SpectralHistory([float(k) for k in range(len(values))], spectra)


def test_when_modes_appear():
    assert fig1.appearance(history([0.1, 0.1], [0.8, 0.1], [1.0, 0.7]), 2) == [1.0, 2.0]


def test_which_modes_grew():
    assert fig4.amplified(history([1.0, 0.9, 0.5], [2.0, 0.9, 0.4], [3.0, 1.2, 0.1])) == [0, 1, 2]


def test_how_far_from_noise():
    noise = analysis.MarchenkoPastur(300, 200, 0.1)
    drawn = 0.1 * torch.randn(300, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, w, vt = torch.linalg.svd(drawn, full_matrices=False)
    found = analysis.Spectrum(w, u.T, vt)
    assert fig2.distance(found, noise) < 0.02
    assert fig2.distance(found, analysis.MarchenkoPastur(300, 200, 0.12)) > 0.1
    assert fig2.first_outliers(analysis.SpectralHistory([0.0, 1.0], [found, found])) == 1

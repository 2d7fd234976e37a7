"""Comparison of denoisers, from Python and from a run folder."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import harmonium as hm
from harmonium import runs, tasks
from harmonium.cli import tasks as command
from harmonium.errors import InvalidOption, RunError
from harmonium.runs import config as schema
from harmonium.tasks import AdditiveGaussian, BinarySymmetric, compare_denoisers


@pytest.fixture(scope="module")
def digits():
    """A machine trained briefly on the digits, its training rows and held-out rows."""
    train = hm.data.load("digits", binarize="threshold")
    test = hm.data.load("digits", split="test", binarize="threshold")
    machine = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(32))
    machine.initialize(train, seed=0)
    optimizer = partial(torch.optim.SGD, lr=0.1)
    hm.fit(machine, train, negative=hm.PCD(1), epochs=100, batch_size=50, optimizer=optimizer, seed=0, progress=False)
    return machine, train, test[:120]


@pytest.fixture(scope="module")
def curves(digits):
    machine, train, test = digits
    return compare_denoisers(machine, test, train, [BinarySymmetric(p) for p in (0.0, 0.1, 0.2, 0.5)], shown=3, seed=0)


@pytest.mark.slow
def test_a_trained_machine_beats_its_single_sites(curves):
    """Tramel et al. (2018), section VII.4.1: the machine is better than the pointwise estimator."""
    machine, pointwise, neighbor = curves.scores.values()
    assert machine[0].estimate == 1
    for level in (1, 2):
        assert machine[level].minus(pointwise[level]).low > 0 and machine[level].minus(neighbor[level]).low > 0
    assert min(curves.converged) > 0.9


def test_what_is_kept(curves, digits):
    machine, train, test = digits
    assert list(curves.scores) == ["machine", "OPE", "1-NN"] and curves.symbol == "p"
    assert torch.equal(curves.signals, test[:3])
    assert {name: tuple(x.shape) for name, x in curves.estimates.items()} == {
        name: (4, 3, 64) for name in ("noisy", "machine", "OPE", "1-NN")
    }
    noisy = BinarySymmetric(0.2).corrupt(test, seed=2)
    assert torch.equal(curves.estimates["noisy"][2], noisy[:3])
    estimator = tasks.Pointwise.from_data(machine.visible, train)
    found = tasks.denoise(machine, noisy, BinarySymmetric(0.2), start=estimator)
    assert curves.scores["machine"][2] == tasks.mcc(test, found.rounded)
    assert len(curves.table()) == 4 and curves.table()[1][0] == "0.1"


def test_real_units_are_scored_by_their_squared_error():
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 5, generator=source)
    machine = hm.RBM(hm.units.Gaussian(5), hm.units.Bernoulli(2))
    found = compare_denoisers(machine, x[:20], x[20:], [AdditiveGaussian(0.0), AdditiveGaussian(0.5)], neighbors=3)
    assert list(found.scores) == ["machine", "OPE", "3-NN"]
    assert found.scores["machine"][0].estimate == 0 and found.scores["machine"][1].name == "MSE"
    with pytest.raises(InvalidOption, match="at least one"):
        compare_denoisers(machine, x, x, [])


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    folder = tmp_path / "run"
    chosen = schema.merge(schema.Config(), {"data": {"source": "digits"}, "machine": {"hidden": "bernoulli:8"}})
    chosen.training = hm.Plan(epochs=1)
    runs.train(runs.prepare(chosen), folder, progress=False)
    command.denoise_run(folder, levels="0.0,0.1", n=20)
    printed = capsys.readouterr().out
    assert "MCC of 20 test rows" in printed and "1.0000 [1.0000, 1.0000]" in printed and "OPE" in printed
    for name in ("denoise.png", "denoised.png"):
        assert (folder / name).read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InvalidOption, match="did you mean 'naive'"):
        command.denoise_run(folder, method="naiv")
    with pytest.raises(RunError):
        command.denoise_run(tmp_path / "nowhere")

"""Initial weights along the principal modes of the data."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.couplings import Masked
from harmonium.errors import InvalidOption
from harmonium.machines.modes import weights_along


def rows(n: int = 400, columns: int = 6) -> torch.Tensor:
    """Two groups of columns, each with a common cause, and noise."""
    source = torch.Generator().manual_seed(0)
    cause = torch.rand(n, 2, generator=source).round().repeat_interleave(columns // 2, 1)
    return (cause + (torch.rand(n, columns, generator=source) < 0.1)) % 2


@pytest.mark.parametrize("hidden", [1, 2, 9])
@pytest.mark.parametrize("n", [400, 4])  # more and fewer rows than columns
def test_weights_project_on_the_modes(hidden, n):
    x = rows(n).double()
    W = weights_along(x, hidden, 3.0, torch.Generator().manual_seed(0))
    centered = x - x.mean(0)
    assert (centered @ W).square().mean().sqrt().item() == pytest.approx(3.0)
    _, deviations, modes = torch.linalg.svd(centered, full_matrices=False)
    number = min(hidden, len(deviations))
    strengths = (modes @ W).norm(dim=1)  # of the weights along each mode: proportional to its deviation
    expected = deviations * (strengths[0] / deviations[0])
    expected[number:] = 0
    torch.testing.assert_close(strengths, expected, atol=1e-6 * strengths[0].item(), rtol=1e-6)


def test_equal_rows_have_no_modes():
    assert not weights_along(torch.ones(5, 3), 2, 4.0).any()


def test_biases_cancel_the_mean_fields():
    x, rbm = rows(), hm.RBM(6, 3)
    rbm.initialize(x, weights="modes", seed=0)
    inputs = rbm.coupling.up(x) + rbm.hidden.bias
    assert inputs.mean(0).abs().max() < 1e-5 and inputs.square().mean().sqrt().item() == pytest.approx(4.0, rel=1e-4)
    typical = rbm.hidden_mean(x.mean(0, keepdim=True))
    torch.testing.assert_close(rbm.visible_mean(typical)[0], (x.sum(0) + 1) / (len(x) + 2))  # one pseudocount


def test_units_of_measurement_do_not_matter():
    x, scale = rows() + torch.randn(400, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([1000.0])
    plain, scaled = hm.RBM(hm.units.Gaussian(6), 2), hm.RBM(hm.units.Gaussian(6), 2)
    plain.initialize(x, weights="modes", seed=0)
    scaled.initialize(x * scale, weights="modes", seed=0)
    torch.testing.assert_close(scaled.coupling.weight * scale, plain.coupling.weight, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_learning_begins_with_the_modes():
    """After a few epochs the likelihood exceeds that of a machine which started with small weights."""
    data = hm.data.load("digits", binarize="threshold")
    found = {}
    for weights in ("normal", "modes"):
        rbm = hm.RBM(64, 8)
        hm.fit(rbm, data, initialize=weights, epochs=5, learning_rate=0.05, batch_size=100, progress=False)
        found[weights] = hm.likelihood.exact(rbm).log_likelihood(data).value
    assert found["modes"] > found["normal"] + 1.0


def test_the_other_couplings_of_a_deep_machine():
    deep = hm.DeepBoltzmannMachine([6, 3, 2])
    deep.initialize(rows(), weights="modes", seed=0)
    assert deep.couplings[0].weight.abs().max() > 0.5 and 0 < deep.couplings[1].weight.abs().max() < 0.1


@pytest.mark.parametrize(
    ("machine", "data", "message"),
    [
        (lambda: hm.RBM(6, 2), None, "expects data of a machine without a context, found none"),
        (lambda: hm.RBM(6, hm.units.ReLU(2)), rows(), "bounded hidden units, found relu units"),
        (lambda: hm.RBM(6, 2, Masked((6,), (2,), mask=torch.ones(6, 2))), rows(), "dense coupling.*found Masked"),
    ],
)
def test_where_it_is_not_possible(machine, data, message):
    with pytest.raises(InvalidOption, match=message):
        machine().initialize(data, weights="modes")


def test_unknown_weights():
    with pytest.raises(InvalidOption, match="did you mean 'modes'"):
        hm.RBM(6, 2).initialize(rows(), weights="mode")

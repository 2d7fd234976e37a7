"""Imputation: known values are unchanged, the others have their conditional distribution."""

from __future__ import annotations

import math

import pytest
import torch
from cases import F64, UNITS, generator, rbm
from oracle import joint
from task_helpers import binary, conditional, deep, summed, tensor

import harmonium as hm
from harmonium import tasks, units
from harmonium.couplings import Dense
from harmonium.errors import InvalidData
from harmonium.tasks import Erasure, impute
from harmonium.tasks.denoising import evidence_of

NAN = math.nan


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(5)
def test_every_unit_has_its_conditional_mean(name):
    case = rbm(name, "bernoulli", (3, 2) if UNITS[name].tail == "bounded" else (2, 2))
    machine = case.build()
    nodes = case.nodes(machine) if UNITS[name].tail == "bounded" else None
    drawn = joint(machine, nodes).draw(1, generator(name))[0] if nodes else machine.sample(1, sweeps=5, seed=0)
    site = UNITS[name].site[0][0].numel()
    known = torch.zeros(machine.visible.size, dtype=torch.bool)
    known[:site] = True
    known = known.view(machine.visible.shape)
    x = drawn.masked_fill(~known, NAN)
    exact = conditional(machine, [name, "bernoulli"], drawn[0], known)
    evidence = evidence_of(machine, x, Erasure(0.5))
    found = summed(machine, evidence, UNITS["bernoulli"].nodes(machine.hidden))[0]
    torch.testing.assert_close(found, exact, rtol=1e-7, atol=1e-7)
    summed_out = impute(machine, x, method="exact", chains=3, seed=0)
    torch.testing.assert_close(summed_out.means[0], exact, rtol=1e-7, atol=1e-7)
    assert torch.equal(summed_out.draws[0, :, known], drawn[0][known].expand(3, -1))
    machine.visible.check(summed_out.draws[0])
    sampled = impute(machine, x, method="gibbs", chains=64, sweeps=60, warm_up=20, seed=1)
    assert ((sampled.means[0] - exact).abs() < 4.5 * sampled.standard_error[0] + 1e-7).all()
    assert torch.equal(sampled.means[0][known], drawn[0][known])
    assert torch.equal(sampled.draws[0, :, known], drawn[0][known].expand(64, -1))
    machine.visible.check(sampled.draws[0])


@pytest.mark.parametrize("name", [name for name in UNITS if name not in ("poisson", "multinomial", "at-most-one")])
@pytest.mark.parametrize("method", ["tap", "naive"])
def test_mean_field_keeps_what_is_known(name, method):
    machine = rbm(name, "bernoulli", (3, 2)).build()
    x = machine.sample(4, sweeps=5, seed=0)
    site = UNITS[name].site[0][0].numel()
    flat = x.flatten(1).clone()
    flat[:, site : 2 * site] = NAN
    found = impute(machine, flat.view(x.shape), method=method)
    assert bool(found.converged.all())
    kept = ~torch.isnan(flat)
    assert torch.equal(found.means.flatten(1)[kept], x.flatten(1)[kept])
    assert torch.equal(found.rounded.flatten(1)[kept], x.flatten(1)[kept])
    assert (found.variances.flatten(1)[kept] == 0).all() and (found.variances.flatten(1)[~kept] > 0).all()
    machine.visible.check(found.rounded)


def test_tap_given_all_but_one_is_near_the_exact_conditional():
    machine = binary()
    x = tensor([[0.0, 1.0, 1.0, NAN, 0.0, 1.0, 1.0]])
    pair = torch.stack([x[0].nan_to_num(value) for value in (0.0, 1.0)])
    exact = torch.softmax(-machine.free_energy(pair), 0)[1].item()
    found = impute(machine, x, tolerance=1e-20).means[0, 3].item()
    alone = torch.sigmoid(machine.visible.bias[3]).item()
    assert abs(found - exact) < abs(alone - exact) / 10 and abs(found - exact) < 0.01


def test_everything_known_and_nothing_known():
    machine = deep()
    x = tensor([[1.0, 0.0, 1.0, 1.0], [NAN] * 4])
    found = impute(machine, x, tolerance=1e-24)
    assert torch.equal(found.means[0], x[0])
    free = hm.meanfield.tap(machine, start=machine.visible.mean(torch.zeros(1, 4, dtype=F64)).detach(), tolerance=1e-24)
    torch.testing.assert_close(found.means[1:], free.magnetizations[0], rtol=0, atol=1e-10)
    clamped = hm.meanfield.tap(machine, clamped=x[:1], tolerance=1e-24)
    torch.testing.assert_close(found.free_energy[:1], clamped.free_energy, rtol=1e-10, atol=0)


def test_a_label_from_its_pixels():
    """P(label | pixels) by sampling is the softmax of minus the free energies, the usual classifier."""
    source = torch.Generator().manual_seed(1)
    visible = units.Mixed(units.Bernoulli(4, bias=torch.randn(4, generator=source, dtype=F64)),
                          units.Potts((1, 3), bias=torch.randn(1, 3, generator=source, dtype=F64)))  # fmt: skip
    hidden = units.Bernoulli(3, bias=torch.zeros(3, dtype=F64))
    machine = hm.RBM(visible, hidden, Dense(7, 3, torch.randn(7, 3, generator=source, dtype=F64)))
    pixels = tensor([[1.0, 0.0, 0.0, 1.0]])
    labels = torch.cat([pixels.expand(3, -1), torch.eye(3, dtype=F64)], 1)
    exact = torch.softmax(-machine.free_energy(labels), 0).detach()
    x = torch.cat([pixels, torch.full((1, 3), NAN, dtype=F64)], 1)
    sampled = impute(machine, x, method="gibbs", chains=64, sweeps=200, seed=0)
    assert ((sampled.means[0, 4:] - exact).abs() < 4.5 * sampled.standard_error[0, 4:]).all()
    tap = impute(machine, x)
    assert (tap.means[0, 4:] - exact).abs().max() < 0.05
    assert torch.equal(tap.rounded[0, 4:], torch.eye(3, dtype=F64)[exact.argmax()])


def test_a_vector_with_a_missing_component_is_missing():
    machine = hm.RBM(units.Potts((2, 3)), units.Bernoulli(2))
    x = torch.tensor([[[0.0, NAN, 1.0], [0.0, 1.0, 0.0]]])
    means = impute(machine, x).means
    torch.testing.assert_close(means[0, 0], torch.full((3,), 1 / 3))
    assert torch.equal(means[0, 1], x[0, 1])


@pytest.mark.parametrize("method", ["tap", "naive", "gibbs"])
def test_a_start_says_nothing_of_what_is_known(method):
    machine, x = binary(), tensor([[0.0, 1.0, 1.0, NAN, NAN, 1.0, 1.0]])
    found = impute(machine, x, method=method, start=torch.full((1, 7), 0.5), seed=0, sweeps=10)
    known = ~torch.isnan(x)
    assert torch.equal(found.means[known], x[known]) and (found.variances[known] == 0).all()


def test_masks():
    machine = binary()
    x = tensor([[0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]] * 2)
    region = torch.tensor([False] * 4 + [True] * 3)
    expected = impute(machine, x.masked_fill(region, NAN)).means
    assert torch.equal(impute(machine, x, region).means, expected)
    assert torch.equal(impute(machine, x, region.expand(2, -1).numpy()).means, expected)
    assert torch.equal(impute(machine, x.masked_fill(region, NAN), region).means, expected)
    with pytest.raises(InvalidData, match="every NaN to be in the mask"):
        impute(machine, x.masked_fill(~region, NAN), region)
    with pytest.raises(InvalidData, match=r"boolean mask of shape \(2, 7\) or \(7,\), found torch.bool \(3,\)"):
        impute(machine, x, region[:3])
    with pytest.raises(InvalidData, match="boolean mask"):
        impute(machine, x, region.float())
    with pytest.raises(InvalidData, match="expected binary values"):
        impute(machine, x * 2, region)


def test_lengths_of_documents_have_to_be_known():
    machine = hm.RBM(units.Multinomial(3), units.Bernoulli(2))
    with pytest.raises(InvalidData, match="total="):
        impute(machine, [[NAN, NAN, NAN]], method="gibbs")


def test_inpainting_of_pictures_with_a_convolution():
    machine = hm.RBM(
        units.Bernoulli((1, 4, 4)), units.Spin((2, 3, 3)), hm.couplings.Conv2d((1, 4, 4), (2, 3, 3), kernel=2)
    )
    machine.initialize(scale=0.5, seed=0)
    region = torch.zeros(1, 4, 4, dtype=torch.bool)
    region[:, 1:3, 1:3] = True
    x = torch.ones(3, 1, 4, 4)
    found = tasks.impute(machine, x, region)
    assert found.means.shape == x.shape and bool(found.converged.all())
    assert torch.equal(found.means[..., ~region[0]], x[..., ~region[0]]) and (found.means[..., region[0]] < 1).all()

"""Prediction of contacts: norms, gauge, average product correction, and scores of a ranking."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.interactions import ContactRanking, average_product_correction, contacts, coupling_norms, n_body


def machine(sites=7, letters=4, hidden=None, seed=0):
    rbm = hm.RBM(hm.units.Potts((sites, letters)), hidden or hm.units.Gaussian(3)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (rbm.coupling.weight, rbm.visible.bias, rbm.hidden.bias):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return rbm


def regauged(rbm, seed=5):
    """Add a constant to the weights of each site and hidden unit, and subtract it from the hidden biases."""
    sites, letters = rbm.visible.shape
    constant = torch.randn(sites, 1, rbm.hidden.size, generator=torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        rbm.coupling.weight += constant.expand(-1, letters, -1).reshape(rbm.coupling.weight.shape)
        rbm.hidden.shift_bias(-constant.sum((0, 1)))
    return rbm


@pytest.mark.parametrize("unit", [hm.units.Gaussian, hm.units.Bernoulli, hm.units.ReLU])
def test_a_gauge_change_keeps_the_distribution_the_contacts_and_the_mutations(unit):
    rbm = machine(4, 3, unit(2))
    before = rbm.distribution()[1]
    scores = contacts(rbm, letters="AB-", separation=1).scores
    wild = torch.eye(3)[[0, 2, 1, 1]]
    table = hm.tasks.mutations(rbm, wild)
    weights = rbm.coupling.weight.clone()
    regauged(rbm)
    assert (rbm.coupling.weight - weights).abs().max() > 0.5
    assert (rbm.distribution()[1] - before).abs().max() < 1e-6
    torch.testing.assert_close(contacts(rbm, letters="AB-", separation=1).scores, scores, rtol=0, atol=1e-6)
    torch.testing.assert_close(hm.tasks.mutations(rbm, wild), table, rtol=0, atol=1e-6)


def test_gaussian_couplings_are_exact():
    rbm = machine(4, 3)
    small, exact = (contacts(rbm, letters="AB-", separation=1, method=method) for method in ("small", "exact"))
    assert torch.equal(small.pairs, exact.pairs)
    torch.testing.assert_close(small.scores, exact.scores, rtol=0, atol=1e-10)


def test_average_product_correction_is_the_formula():
    scores = torch.rand(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = scores + scores.T
    found = average_product_correction(scores)
    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    total = sum(scores[i, j].item() for i, j in pairs) / 30
    for i, j in pairs:
        first, second = (sum(scores[a, k].item() for k in range(6) if k != a) / 5 for a in (i, j))
        assert found[i, j].item() == pytest.approx(scores[i, j].item() - first * second / total, abs=1e-12)
    assert not found.diagonal().any()


def test_correction_leaves_what_is_between_two_sites():
    score = torch.full((6, 6), 2.0, dtype=torch.float64)
    assert average_product_correction(score).abs().max() < 1e-12
    score[1, 4] = score[4, 1] = 3.0
    assert divmod(int(average_product_correction(score).fill_diagonal_(-1).argmax()), 6) == (1, 4)
    assert not average_product_correction(torch.zeros(3, 3)).any()


def test_norms_leave_out_the_gap():
    couplings = torch.zeros(2, 2, 4, 4, dtype=torch.float64)
    couplings[0, 1, 0, 3], couplings[0, 1, 2, 0], couplings[0, 1, 1, 2] = 3.0, -4.0, 100.0
    assert coupling_norms(couplings, "A-CD")[0, 1].item() == pytest.approx(5.0)
    assert coupling_norms(couplings)[0, 1].item() == pytest.approx(math.sqrt(10025))
    assert coupling_norms(torch.tensor([[0.0, -2.0], [-2.0, 0.0]]))[0, 1] == 2
    with pytest.raises(InvalidOption, match="letters: expected one for each of 4 states, found 'AB'"):
        coupling_norms(couplings, "AB")
    with pytest.raises(InvalidData, match="couplings: expected shape"):
        coupling_norms(torch.zeros(2, 3))


def test_a_planted_coupling_is_found_first():
    rbm = hm.RBM(hm.units.Potts((9, 5)), hm.units.Gaussian(1)).double()
    with torch.no_grad():
        rbm.coupling.weight.zero_()
        weight = rbm.coupling.weight.view(9, 5, 1)
        weight[1, 2], weight[7, 3] = 2.0, 2.0
    found = contacts(rbm, letters="ABCD-")
    assert found.pairs[0].tolist() == [1, 7] and found.hits is None
    assert bool((found.pairs[:, 1] - found.pairs[:, 0] >= 5).all()) and len(found.pairs) == 4 + 3 + 2 + 1
    assert n_body(rbm, 2, method="small").shape == (9, 9, 5, 5)


def ranking(scores, hits):
    pairs = torch.stack([torch.zeros(len(scores)), torch.arange(len(scores)) + 1.0], 1).long()
    return ContactRanking(pairs, torch.tensor(scores), torch.tensor(hits))


def test_numbers_of_a_ranking():
    found = ranking([5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 0.0, 1.0, 1.0, 0.0])
    assert found.precision(1) == 1 and found.precision(2) == 0.5 and found.chance == pytest.approx(0.6)
    assert found.average_precision() == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert found.auc() == pytest.approx(4 / 6)  # of six pairs of a contact and another, four are in order
    assert ranking([1.0, 1.0], [1.0, 0.0]).auc() == 0.5
    assert math.isnan(ranking([2.0, 1.0], [1.0, 1.0]).auc())


def test_unknown_pairs_are_not_counted():
    nan = math.nan
    some = ranking([9.0, 5.0, 4.0, 3.5, 3.0, 2.0, 1.0], [nan, 1.0, 0.0, nan, 1.0, 1.0, 0.0])
    known = ranking([5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 0.0, 1.0, 1.0, 0.0])
    for name in ("average_precision", "auc"):
        assert getattr(some, name)() == getattr(known, name)()
    assert some.precision(3) == known.precision(3) and some.chance == known.chance


def test_contact_maps_are_used_in_the_order_of_the_ranking():
    rbm, near = machine(), torch.zeros(7, 7)
    plain = contacts(rbm, separation=2)
    for i, j in plain.pairs[:3].tolist():
        near[i, j] = near[j, i] = 1
    found = contacts(rbm, contact_map=near, separation=2)
    assert found.hits.tolist() == [1.0] * 3 + [0.0] * (len(found.pairs) - 3)
    assert found.precision(3) == found.average_precision() == found.auc() == 1
    assert torch.equal(contacts(rbm, contact_map=near.bool(), separation=2).hits, found.hits)


def test_errors():
    rbm = machine()
    with pytest.raises(InvalidOption, match="separation: expected 1 to 6 for 7 sites, found 7"):
        contacts(rbm, separation=7)
    with pytest.raises(InvalidData, match=r"contact_map: expected the shape \(7, 7\) for 7 sites, found \(6, 6\)"):
        contacts(rbm, contact_map=torch.zeros(6, 6))
    with pytest.raises(InvalidData, match="contact_map: expected 1 for contacts, 0 or nan"):
        contacts(rbm, contact_map=torch.full((7, 7), 8.0))
    with pytest.raises(InvalidOption, match="contact_map: expected known contacts"):
        contacts(rbm).precision(3)

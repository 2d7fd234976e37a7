"""Strength, scaling, agreement and reliability of interactions, and selection of the order."""

from __future__ import annotations

import math

import pytest
import torch
from golden_interactions import F64, random_rbm, rbm

import harmonium as hm
from harmonium import interactions, units
from harmonium.interactions import InteractionComparison, InteractionModel, Strength, all_tuples, n_body


def pair(scale: float = 0.3, seed: int = 0) -> tuple[hm.RBM, hm.RBM]:
    """Two machines with linear units; the weights of the second are √2 times larger, so its couplings are doubled."""
    W = scale * torch.randn(12, 8, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return rbm(units.Bernoulli(12), units.Gaussian(8), W), rbm(units.Bernoulli(12), units.Gaussian(8), math.sqrt(2) * W)


def test_a_comparison_by_hand():
    found = InteractionComparison.of(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 1.0, 2.0]))
    assert found.slope == pytest.approx(9 / 6) and found.relative_error == pytest.approx(math.sqrt(2 / 6))
    assert found.pearson == pytest.approx(math.sqrt(3) / 2) and found.number == 3
    assert math.isnan(InteractionComparison.of(torch.ones(3), torch.zeros(3)).slope)
    with pytest.raises(hm.errors.InvalidData, match="equal shapes"):
        InteractionComparison.of(torch.ones(3), torch.ones(2))


def test_strength_is_the_root_mean_square_of_all():
    machine = random_rbm(units.Bernoulli(8), units.Bernoulli(5))
    found = interactions.strength(machine, (1, 2, 3), n_tuples=None)
    for order, value, number in zip(found.orders, found.values, found.numbers, strict=True):
        every = n_body(machine, order, all_tuples(8, order), bias=False)
        assert number == math.comb(8, order) and value == pytest.approx(every.square().mean().sqrt().item())


def test_strength_from_a_sample_is_near_that_of_all():
    machine = random_rbm(units.Bernoulli(30), units.Bernoulli(10), scale=0.3)
    some, every = (interactions.strength(machine, (3,), n_tuples=count).values[0] for count in (2000, None))
    assert some != every and some == pytest.approx(every, rel=0.1)


def test_decay_follows_the_size_of_the_weights():
    """One exponential unit with weights ± w: every interaction of order s is about w^s in magnitude."""
    signs = torch.randn(10, 1, generator=torch.Generator().manual_seed(0), dtype=F64).sign()
    machine = rbm(units.Bernoulli(10), units.Poisson(1), 0.02 * signs)
    decay = interactions.strength(machine, (1, 2, 3, 4)).decay()
    assert decay.factor == pytest.approx(0.02, rel=0.01)
    assert decay.at(2) == pytest.approx(0.02**2, rel=0.02)


def test_linear_units_leave_orders_out_of_the_decay():
    found = interactions.strength(pair()[0], (1, 2, 3, 4))
    assert found.values[2:] == (0.0, 0.0) and found.values[1] > 0
    assert found.decay().factor == pytest.approx(found.values[1] / found.values[0])
    with pytest.raises(hm.errors.InvalidData, match="two or more orders"):
        Strength((2, 3), (0.1, 0.0), (5, 5)).decay()


def test_scaling_between_machines():
    small, large = pair()
    found = interactions.scaling({50: small, 100: large}, reference=100)
    assert found[100] == pytest.approx(1.0) and found[50] == pytest.approx(0.5)
    with pytest.raises(hm.errors.InvalidOption, match="the key of a machine"):
        interactions.scaling({50: small}, reference=7)


def test_agreement_is_of_every_pair_of_machines():
    small, large = pair()
    found = interactions.agreement({"a": small, "b": large})
    assert set(found) == {("a", "b"), ("b", "a")}
    assert found["b", "a"].slope == pytest.approx(2.0) and found["a", "b"].pearson == pytest.approx(1.0)
    with pytest.raises(hm.errors.InvalidOption, match="equal visible layers"):
        interactions.compare(small, random_rbm(units.Bernoulli(3), units.Bernoulli(2)))


def test_exact_against_small():
    strong, weak = (random_rbm(units.Bernoulli(10), units.Bernoulli(6), scale) for scale in (1.0, 0.01))
    assert (
        interactions.exact_versus_small(strong).relative_error
        > 10 * interactions.exact_versus_small(weak).relative_error
    )
    J, small = (n_body(strong, 2, all_tuples(10, 2), method=method) for method in ("exact", "small"))
    expected = ((J - small).square().sum() / J.square().sum()).sqrt().item()
    assert interactions.exact_versus_small(strong).relative_error == pytest.approx(expected)


# -- reliability --------------------------------------------------------------------------------------------------


def test_errors_grow_with_the_order():
    assert interactions.relative_error(0.1, 1) == pytest.approx(0.1)
    assert interactions.relative_error(0.1, 3) == pytest.approx(1.1**3 - 1)
    assert interactions.largest_order(0.1) == pytest.approx(7.27, abs=0.01)  # Bulso & Roudi (2021): about 7
    assert interactions.largest_order(0.01) == pytest.approx(0.7 / 0.01, rel=0.02)
    assert interactions.relative_error(0.2, interactions.largest_order(0.2)) == pytest.approx(1.0)
    with pytest.raises(hm.errors.InvalidOption, match="positive"):
        interactions.largest_order(0.0)


@pytest.mark.slow
def test_split_halves_agree_less_at_higher_orders():
    data = hm.data.load("digits", binarize="threshold")

    def build() -> hm.RBM:
        return hm.RBM(units.Bernoulli(64), units.Bernoulli(16))

    found = interactions.split_half(build, data, (1, 2, 3), epochs=20, batch_size=10, seed=1)
    reliability = [found.orders[order].reliability for order in (1, 2, 3)]
    error = [found.orders[order].error for order in (1, 2, 3)]
    assert reliability[0] > reliability[1] > reliability[2] and error[0] < error[1] < error[2]
    assert found.orders[2].weight_error == pytest.approx(math.sqrt(1 + error[1]) - 1)
    assert found.largest_order == pytest.approx(math.log(2) / math.log1p(found.orders[2].weight_error))
    x, y = (n_body(machine, 2)[tuple(all_tuples(64, 2).T)] for machine in found.machines)
    assert reliability[1] == pytest.approx(torch.corrcoef(torch.stack([x, y]))[0, 1].item())


def test_split_halves_need_two_rows():
    with pytest.raises(hm.errors.InvalidData, match="two or more rows"):
        interactions.split_half(lambda: hm.RBM(units.Bernoulli(3), units.Bernoulli(2)), torch.zeros(1, 3))


# -- machines of limited order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("visible", [units.Bernoulli(6), units.Potts((6, 3))])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_more_units_interact_than_one_hidden_unit_sees(visible, order):
    machine = interactions.degree_limited(visible, units.Bernoulli(40), order, seed=0).double()
    machine.initialize(weights="normal", scale=1.0, seed=0)
    assert interactions.maximal_order(machine) == order
    present = n_body(machine, order, all_tuples(6, order), gauge="lattice-gas", bias=False)
    assert present.abs().max() > 1e-3
    higher = n_body(machine, order + 1, all_tuples(6, order + 1), gauge="lattice-gas", bias=False)
    assert bool((higher == 0).all())


def test_hidden_units_see_different_sets_as_long_as_there_are_some():
    masks = interactions.degree_limited(units.Bernoulli(5), units.Bernoulli(10), 2).coupling.mask
    assert len(masks.T.unique(dim=0)) == 10
    more = interactions.degree_limited(units.Bernoulli(5), units.Bernoulli(23), 2).coupling.mask
    assert len(more.T.unique(dim=0)) == 10 and bool((more.sum(0) == 2).all())
    assert interactions.maximal_order(random_rbm(units.Bernoulli(7), units.Bernoulli(2))) == 7


def settings() -> dict:
    return {
        "negative": hm.Exact(),
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=0.05),
        "epochs": 40,
        "batch_size": 250,
        "initialize": "normal:0.7",
    }


@pytest.mark.slow
def test_data_of_three_bodies_ask_for_order_three():
    triples = InteractionModel(4, {3: ([[0, 1, 2], [1, 2, 3]], [1.5, -1.5])}, variables="spin")
    data = triples.sample(1500, sweeps=50, seed=0)
    found = interactions.order_selection((data + 1) / 2, (2, 3), **settings())
    assert found.best == found.selected == 3
    gain, (low, high) = found.gain(3, 2)
    assert 0 < low < gain < high
    result = found.results[3]
    assert result.exact and result.trustworthy and result.interval[0] < result.log_likelihood < result.interval[1]
    assert interactions.maximal_order(found.results[2].machine) == 2


@pytest.mark.slow
def test_data_of_pairs_are_content_with_order_two():
    pairs = InteractionModel(4, {2: ([[0, 1], [1, 2], [2, 3]], [1.0, -1.0, 1.0])}, variables="spin")
    data = pairs.sample(1500, sweeps=50, seed=1)
    assert interactions.order_selection((data + 1) / 2, (2, 3), **settings()).selected == 2


def test_held_out_likelihoods_are_those_of_rows_not_seen():
    data = (torch.rand(400, 5, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    found = interactions.order_selection(data, (2,), validation=0.1, epochs=1)
    assert len(found.results[2].rows) == 40 and found.selected == 2
    _, log_p = found.results[2].machine.distribution()
    distance = (found.results[2].rows.unsqueeze(1) - log_p).abs().amin(1)
    assert distance.max() < 1e-5 < found.results[2].rows.std(), "each row has the probability of its state"


@pytest.mark.slow
def test_large_machines_are_estimated():
    data = (torch.rand(200, 30, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    options = {"runs": 20, "betas": 100, "sampling_sweeps": 20}
    found = interactions.order_selection(data, (2,), units=30, epochs=1, estimation=options)
    result = found.results[2]
    assert not result.exact and result.interval[0] < result.log_likelihood < result.interval[1]
    assert result.log_likelihood == pytest.approx(-30 * math.log(2), abs=1.0)


def test_order_selection_refuses():
    rows = torch.zeros(20, 3)
    with pytest.raises(hm.errors.InvalidOption, match="between 0 and 1"):
        interactions.order_selection(rows, validation=1.0)
    with pytest.raises(hm.errors.InvalidOption, match="expected 1 to 3"):
        interactions.order_selection(rows, (4,), epochs=1)
    with pytest.raises(hm.errors.InvalidOption, match="at least one order"):
        interactions.order_selection(rows, ())
    with pytest.raises(hm.errors.InvalidData, match="two or more rows"):
        interactions.order_selection(rows[:3], (2,))

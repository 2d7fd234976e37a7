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


def adam(parameters):
    return torch.optim.Adam(list(parameters), lr=0.05)


def rows_of(order, n=5000):
    """Rows of five binary units with interactions of one order."""
    tuples = {2: [[0, 1], [1, 2]], 3: [[0, 1, 2], [2, 3, 4]], 4: [[0, 1, 2, 3]]}[order]
    model = InteractionModel(5, {order: (tuples, [0.35, -0.35][: len(tuples)])}, variables="spin")
    spins = model.sample(n, sweeps=100, seed=order)
    return (spins + 1) / 2


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3, 4])
def test_two_optimizers_select_the_planted_order(order):
    for options in ({}, {"optimizer": adam}):
        found = interactions.order_selection(rows_of(order), min(order + 1, 4), splits=2, seed=0, **options)
        assert found.selected == order
        gain, (low, high) = found.gain(order, order - 1)
        assert 0 < low < gain < high


@pytest.mark.slow
def test_a_larger_order_contains_the_smaller_one():
    found = interactions.order_selection(rows_of(3, 1000), largest=3, splits=2)
    for split in found.splits:
        for order, machine in split.machines.items():
            assert interactions.maximal_order(machine) <= order
        small, large = (split.machines[order].coupling.mask for order in (2, 3))
        assert torch.equal(large[:, : small.shape[1]], small)
        assert torch.logsumexp(split.log_p[3], 0).item() == pytest.approx(0.0, abs=1e-12)
        log_p = split.machines[3].log_probability(split.machines[3].visible.enumerate())
        assert torch.allclose(log_p, split.log_p[3])
        assert split.test.sum() == 250


def test_a_selection_depends_on_its_seed_alone():
    before = torch.get_rng_state()
    interactions.order_selection(rows_of(3, 100), largest=2, splits=2, rounds=1, draws=1, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_training_that_learns_nothing_is_no_reason_for_an_order():
    nothing = interactions.order_selection(
        rows_of(3, 200), largest=3, optimizer=lambda p: torch.optim.SGD(list(p), lr=0.0), draws=1
    )
    assert nothing.selected == 1 and nothing.gain(3, 1) == (0.0, (0.0, 0.0))


def test_the_interval_of_a_gain_contains_differences_between_splits():
    def split(gain):
        control = torch.tensor([-1.0, -2.0], dtype=torch.float64)
        machines, counts = {1: hm.RBM(1, 1), 2: hm.RBM(1, 1)}, torch.tensor([6.0, 4.0], dtype=torch.float64)
        log_p = {1: control, 2: control + gain}
        return interactions.NestedMachines(machines, log_p, {1: control, 2: control}, counts)

    same, unlike = (interactions.OrderSelection([split(0.2), split(gain)]) for gain in (0.2, 0.4))
    assert same.gain(2, 1)[1] == pytest.approx((0.2, 0.2), abs=1e-6) and same.selected == 2
    assert unlike.gain(2, 1)[0] == pytest.approx(0.3)
    assert unlike.gain(2, 1)[1] == pytest.approx((0.3 - 3 * 0.1, 0.3 + 3 * 0.1)), (
        "the error of two values is half their difference"
    )
    assert same.log_likelihood(1) == pytest.approx(-1.4)


def test_order_selection_refuses():
    rows = torch.zeros(20, 3)
    with pytest.raises(hm.errors.InvalidOption, match="splits: expected at least 2"):
        interactions.order_selection(rows, 2, splits=1)
    with pytest.raises(hm.errors.InvalidOption, match="expected 1 to 3"):
        interactions.order_selection(rows, 4)
    with pytest.raises(hm.errors.InvalidOption, match="rounds ≥ 1"):
        interactions.order_selection(rows, 2, rounds=0)
    with pytest.raises(hm.errors.InvalidData, match="eight or more rows"):
        interactions.order_selection(rows[:3], 2)
    with pytest.raises(hm.errors.InvalidData, match="expected binary values"):
        interactions.order_selection(2 * torch.ones(20, 3), 2)
    with pytest.raises(hm.errors.NotEnumerable, match="at most 2\\^20 states"):
        interactions.order_selection(torch.zeros(20, 30), 2)
    with pytest.raises(hm.errors.NotEnumerable, match="at most 2\\^20 states"):
        interactions.order_selection(rows, 2, visible=units.Gaussian)

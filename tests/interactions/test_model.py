"""Models of interacting variables: probabilities, samples, other forms, and construction of RBMs."""

from __future__ import annotations

import math

import pytest
import torch
from golden_interactions import F64, GOLDEN, golden, random_rbm, tensor

import harmonium as hm
from harmonium import units
from harmonium.interactions import InteractionModel, all_tuples, n_body


def random_model(
    n: int, max_order: int, variables: str = "binary", seed: int = 0, scale: float = 1.0
) -> InteractionModel:
    generator = torch.Generator().manual_seed(seed)
    terms = {}
    for order in range(1, max_order + 1):
        tuples = all_tuples(n, order)
        terms[order] = (tuples, scale * torch.randn(len(tuples), generator=generator, dtype=F64))
    return InteractionModel(n, terms, variables=variables)


def same(a: InteractionModel, b: InteractionModel, tolerance: float = 1e-12) -> bool:
    return torch.allclose(a.distribution()[1], b.distribution()[1], rtol=0, atol=tolerance)


# -- probabilities ------------------------------------------------------------------------------------------------


def test_the_energy_by_hand():
    model = InteractionModel(3, {1: [1.0, 2.0, 4.0], 2: ([[2, 0]], [10.0]), 3: ([[0, 1, 2]], [100.0])})
    states = [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]
    assert model.energy(states).tolist() == [0.0, -1.0, -15.0, -117.0]
    spins = InteractionModel(3, {1: [1.0, 2.0, 4.0], 2: ([[2, 0]], [10.0])}, variables="spin")
    assert spins.energy([[1, -1, -1]]).tolist() == [-(1 - 2 - 4 - 10)]


def test_the_distribution_is_normalized():
    model = random_model(6, 4)
    states, log_p = model.distribution()
    assert log_p.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    assert torch.allclose(model.log_probability(states), log_p, atol=1e-12)
    assert model.log_partition() == pytest.approx(torch.logsumexp(-model.energy(states), 0).item())
    assert model.log_probability(states[:2], log_partition=0.0).tolist() == (-model.energy(states[:2])).tolist()


@pytest.mark.parametrize("variables", ["binary", "spin"])
@pytest.mark.slow
def test_gibbs_samples_have_the_model_s_frequencies(variables):
    model = random_model(4, 3, variables, scale=0.3)
    draws = model.sample(20_000, sweeps=30, seed=0)
    states, log_p = model.distribution()
    frequency = (draws.unsqueeze(1) == states).all(2).double().mean(0)
    error = (log_p.exp() * (1 - log_p.exp()) / len(draws)).sqrt()
    assert bool(((frequency - log_p.exp()).abs() < 5 * error).all())
    assert torch.equal(draws[:50], model.sample(20_000, sweeps=30, seed=0)[:50])


def test_a_variable_without_interactions_is_free():
    draws = InteractionModel(3, {2: ([[0, 1]], [2.0])}, variables="spin").sample(4000, sweeps=20, seed=0)
    assert draws[:, 2].mean().abs() < 5 / math.sqrt(4000) and (draws[:, 0] * draws[:, 1]).mean() > 0.9


def test_chains_start_where_they_are_told():
    start = torch.eye(3)
    assert torch.equal(InteractionModel(3, {}).sample(4, sweeps=0, start=start), start[[0, 1, 2, 0]].double())


# -- from machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visible", [units.Bernoulli, units.Spin])
@pytest.mark.parametrize("hidden", [units.Bernoulli, units.ReLU, units.Poisson, units.Gaussian])
def test_all_orders_of_a_machine_are_its_distribution(visible, hidden):
    machine = random_rbm(visible(5), hidden(4), scale=0.6)
    model = InteractionModel.from_rbm(machine, 5)
    assert model.variables == ("binary" if visible is units.Bernoulli else "spin")
    states, log_p = machine.distribution()
    assert torch.equal(states.double(), model.enumerate())
    assert torch.allclose(model.distribution()[1], log_p, rtol=0, atol=1e-10)


def test_figure_2():
    for case in GOLDEN["fig2"]:
        machine = golden(case, "exponential", case["b"])
        pure = InteractionModel(3, {3: ([[0, 1, 2]], [case["I"]["0,1,2"]])})
        assert torch.allclose(machine.distribution()[1], pure.distribution()[1], rtol=0, atol=1e-12)


def test_truncation_leaves_out_higher_orders():
    machine = random_rbm(units.Bernoulli(5), units.Bernoulli(4))
    model = InteractionModel.from_rbm(machine, 2)
    assert model.max_order == 2
    assert torch.allclose(model.dense(2), n_body(machine, 2))
    assert bool((model.dense(3) == 0).all())


# -- other forms --------------------------------------------------------------------------------------------------


def test_binary_and_spin_forms_are_the_same_distribution():
    model = random_model(5, 5)
    spins = model.to_spin()
    assert spins.variables == "spin" and same(model, spins)
    back = spins.to_binary()
    for order in range(1, 6):
        assert torch.allclose(back.dense(order), model.dense(order), rtol=0, atol=1e-12)
    other = random_model(4, 3, "spin", seed=1)
    assert same(other, other.to_binary()) and other.to_spin() is other


def test_the_forms_of_a_pair_by_hand():
    """J x y = J/4 (1 + σ + τ + σ τ)."""
    spins = InteractionModel(2, {2: ([[0, 1]], [4.0])}).to_spin()
    assert spins.dense(1).tolist() == [1.0, 1.0] and spins.dense(2)[0, 1] == 1.0
    binary = InteractionModel(2, {2: ([[0, 1]], [1.0])}, variables="spin").to_binary()
    assert binary.dense(1).tolist() == [-2.0, -2.0] and binary.dense(2)[0, 1] == 4.0


@pytest.mark.parametrize("visible", [units.Bernoulli, units.Spin])
def test_conversion_agrees_with_the_other_gauge_of_the_machine(visible):
    machine = random_rbm(visible(5), units.ReLU(3), scale=0.5)
    binary = InteractionModel.from_rbm(machine, 5, gauge="lattice-gas")
    spin = InteractionModel.from_rbm(machine, 5, gauge="zero-sum")
    for order, comparison in binary.to_spin().compare(spin).items():
        assert comparison.relative_error < 1e-9, order
    for order, comparison in spin.to_binary().compare(binary).items():
        assert comparison.relative_error < 1e-9, order


# -- construction of RBMs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["bernoulli", "poisson"])
@pytest.mark.parametrize("variables", ["binary", "spin"])
@pytest.mark.fast_cases(2)
def test_any_model_has_a_machine(hidden, variables):
    model = random_model(5, 5, variables)
    machine = model.to_rbm(hidden)
    assert torch.allclose(machine.distribution()[1], model.distribution()[1], rtol=0, atol=1e-9)
    back = InteractionModel.from_rbm(machine, 5)
    for order, comparison in back.compare(model.to_binary()).items():
        assert comparison.relative_error < 1e-9, order


@pytest.mark.parametrize("hidden", ["bernoulli", "poisson"])
@pytest.mark.parametrize("value", [1e-6, 0.3, -0.3, 12.0, -12.0])
@pytest.mark.fast_cases(3)
def test_a_single_term_of_any_size(hidden, value):
    model = InteractionModel(4, {4: ([[0, 1, 2, 3]], [value])})
    machine = model.to_rbm(hidden)
    assert torch.allclose(machine.distribution()[1], model.distribution()[1], rtol=0, atol=1e-9)


def test_a_machine_for_a_few_terms_has_few_units():
    model = InteractionModel(6, {2: ([[0, 1], [4, 5]], [1.0, -1.0]), 1: torch.ones(6)})
    assert model.to_rbm("bernoulli").hidden.size == 2
    alone = InteractionModel(3, {1: torch.ones(3)}).to_rbm("poisson")
    assert torch.allclose(n_body(alone, 1), tensor([1.0, 1.0, 1.0])) and not alone.coupling.weight.any()


@pytest.mark.parametrize("units_", [None, 5, 9])
def test_linear_units_carry_every_pairwise_model(units_):
    model = random_model(6, 2)
    machine = model.to_rbm("gaussian", units_)
    assert machine.hidden.size == (units_ or 5)
    assert torch.allclose(machine.distribution()[1], model.distribution()[1], rtol=0, atol=1e-10)
    smallest = torch.linalg.eigvalsh(model.dense(2))[0].item()
    assert torch.allclose(machine.visible.bias, model.dense(1) + smallest / 2, atol=1e-10)  # b = h - λ₀/2


def test_spins_too():
    model = random_model(5, 2, "spin")
    machine = model.to_rbm()
    assert torch.allclose(machine.distribution()[1], model.distribution()[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.fast_cases(1)
def test_few_linear_units_carry_the_nearest_couplings(rank):
    """The fit is better than the largest eigenvalues, which also fit the diagonal, and it is a local minimum."""
    model = random_model(6, 2, seed=2)
    couplings = model.dense(2)
    machine = model.to_rbm(units=rank)

    def error(weights: torch.Tensor) -> torch.Tensor:
        return (weights @ weights.T - couplings).fill_diagonal_(0.0).square().sum()

    W = machine.coupling.weight.detach()
    values, vectors = torch.linalg.eigh(couplings)
    truncated = (vectors * (values - values[0]).sqrt())[:, -rank:]
    assert error(W) < 0.95 * error(truncated)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        change = torch.randn(W.shape, generator=generator, dtype=F64)
        assert error(W + 1e-3 * change) >= error(W) - 1e-9
    assert torch.allclose(n_body(machine, 1), model.dense(1), atol=1e-10), "fields stay as they are"


# -- comparisons --------------------------------------------------------------------------------------------------


def test_comparison_order_by_order():
    model = random_model(5, 3)
    double = InteractionModel(5, {order: (rows, 2 * values) for order, (rows, values) in model.terms.items()})
    for comparison in double.compare(model).values():
        assert comparison.pearson == pytest.approx(1.0)
        assert comparison.slope == pytest.approx(2.0) and comparison.relative_error == pytest.approx(1.0)
    sparse = InteractionModel(5, {2: ([[3, 4]], [1.0])})
    other = InteractionModel(5, {2: ([[0, 1]], [2.0])})
    found = sparse.compare(other)[2]
    assert found.number == 2 and found.slope == 0.0 and found.pearson == pytest.approx(-1.0)
    assert found.relative_error == pytest.approx(math.sqrt(5 / 4))


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({4: ([[0, 1, 2, 3]], [1.0])}, "expected 1 to 3"),
        ({2: ([[0, 3]], [1.0])}, "expected 0 to 2, found 3"),
        ({2: ([[1, 1]], [1.0])}, "different units"),
        ({2: ([[0, 1], [1, 0]], [1.0, 2.0])}, "different tuples"),
        ({2: ([[0, 1]], [1.0, 2.0])}, "expected 1 values"),
        ({2: torch.zeros(2, 2)}, r"expected shape \(3, 3\)"),
        ({2: torch.arange(9.0).reshape(3, 3)}, "symmetric"),
        ({1: [1.0, math.inf, 0.0]}, "finite"),
    ],
)
def test_refused_terms(terms, message):
    with pytest.raises(hm.errors.HarmoniumError, match=message):
        InteractionModel(3, terms)


def test_refusals():
    model = random_model(3, 3)
    with pytest.raises(hm.errors.InvalidOption, match="unknown kind of variables"):
        InteractionModel(3, {}, variables="potts")
    with pytest.raises(hm.errors.InvalidOption, match="order 2 at most"):
        model.to_rbm("gaussian")
    with pytest.raises(hm.errors.InvalidOption, match="unknown hidden unit"):
        model.to_rbm("relu")
    with pytest.raises(hm.errors.InvalidOption, match="units: expected None"):
        model.to_rbm("poisson", 4)
    with pytest.raises(hm.errors.InvalidOption, match="at least one hidden unit"):
        random_model(3, 2).to_rbm(units=0)
    with pytest.raises(hm.errors.InvalidData, match=r"expected shape \(batch, 3\)"):
        model.energy(torch.zeros(2, 4))
    with pytest.raises(hm.errors.InvalidData, match="0 or 1"):
        model.energy(torch.full((2, 3), -1.0))
    with pytest.raises(hm.errors.InvalidOption, match="3 binary variables, found 3 spin"):
        model.compare(model.to_spin())
    with pytest.raises(hm.errors.InvalidOption, match="n ≥ 1"):
        model.sample(0)
    with pytest.raises(hm.errors.InvalidOption, match="two states"):
        InteractionModel.from_rbm(hm.RBM(units.Potts((3, 4)), units.Bernoulli(2)), 2)
    with pytest.raises(hm.errors.NotEnumerable, match="at most 24"):
        InteractionModel(30, {}).log_partition()

"""Interactions of all orders reproduce the distribution of the machine and the reference values."""

from __future__ import annotations

import math

import pytest
import torch
from golden_interactions import (
    ACTIVATIONS,
    CASES,
    CGF,
    F64,
    GOLDEN,
    IDS,
    golden,
    moebius,
    random_rbm,
    rbm,
    tensor,
    walsh,
)

import harmonium as hm
from harmonium import units
from harmonium.interactions import all_tuples, n_body, random_tuples, strongest
from harmonium.interactions.differences import Bound, difference, pairs
from harmonium.interactions.ranking import _Best, _Search
from harmonium.interactions.sites import Sites

HIDDEN = {
    "bernoulli": lambda: units.Bernoulli(4),
    "spin": lambda: units.Spin(4),
    "binomial": lambda: units.Binomial(4, trials=3),
    "gaussian": lambda: units.Gaussian(4, precision=2.0),
    "relu": lambda: units.ReLU(4),
    "double-relu": lambda: units.DoubleReLU(4),
    "poisson": lambda: units.Poisson(4),
    "truncated-gaussian": lambda: units.TruncatedGaussian(4),
    "potts": lambda: units.Potts((2, 3)),
    "mixed": lambda: units.Mixed(units.Bernoulli(2), units.Potts((1, 3))),
}


def rebuilt(machine: hm.RBM, gauge: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """ln p of every state from the interactions of all orders, and computed directly."""
    states, log_p = machine.distribution()
    unit = machine.visible
    one_hot = states if unit.softmax else states.unsqueeze(-1) == unit.support.states()
    number = one_hot.to(F64).argmax(-1).flatten(1)
    total = torch.zeros_like(log_p)
    binary = unit.cardinality == 2**unit.sites
    spins = Sites.of(machine).gauge(gauge) == "zero-sum"
    for order in range(1, unit.sites + 1):
        tuples = all_tuples(unit.sites, order)
        values = n_body(machine, order, tuples, gauge=gauge)
        if binary:
            x = 2 * number.to(F64) - 1 if spins else number.to(F64)
            total += x[:, tuples].prod(2) @ values
            continue
        for row, value in zip(tuples, values, strict=True):
            total += value[tuple(number[:, row].T)]
    return torch.log_softmax(total, 0), log_p


# -- golden -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "activation"), CASES, ids=IDS)
@pytest.mark.fast_cases(4)
def test_golden_machines_at_every_order(case, activation):
    expected = case["act"][activation]
    machine = golden(case, activation, expected["b"])
    n = len(case["W"])
    from_distribution = moebius(machine.distribution()[1], n)
    for order in range(1, n + 1):
        tuples = all_tuples(n, order)
        found = n_body(machine, order, tuples)
        known = tensor([expected["I"][",".join(map(str, row))] for row in tuples.tolist()])
        inverted = tensor([from_distribution[tuple(row)] for row in tuples.tolist()])
        assert torch.allclose(found, known, rtol=0, atol=1e-9)
        assert torch.allclose(found, inverted, rtol=0, atol=1e-9)
    sums, log_p = rebuilt(machine)
    assert torch.allclose(sums, log_p, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("case", "activation"), CASES, ids=IDS)
def test_golden_small_parameter_couplings(case, activation):
    expected = case["act"][activation]["J_eq19"]
    found = n_body(golden(case, activation, [0.0] * len(case["W"])), 2, method="small")
    for pair, value in expected.items():
        i, j = map(int, pair.split(","))
        assert found[i, j].item() == pytest.approx(value, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.slow
def test_golden_generating_functions_and_cumulants(activation):
    for entry in CGF[activation]:
        bias = -tensor([entry["c"]])
        for q, value, *_ in entry["rows"]:
            machine = rbm(units.Bernoulli(1), ACTIVATIONS[activation](1, bias=bias), [[q]])
            assert n_body(machine, 1).item() == pytest.approx(value, rel=1e-10, abs=1e-12)
        machine = rbm(units.Bernoulli(6), ACTIVATIONS[activation](1, bias=bias), torch.ones(6, 1, dtype=F64))
        for order, kappa in enumerate(entry["kappa"], 1):
            found = n_body(machine, order, [list(range(order))], method="small", bias=False).item()
            assert found == pytest.approx(kappa, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("case", GOLDEN["fig2"], ids=["pairs", "tetrahedron"])
def test_three_bodies_and_nothing_else(case):
    machine = golden(case, "exponential", case["b"])
    assert n_body(machine, 1).abs().max() < 1e-12
    assert n_body(machine, 2).abs().max() < 1e-12
    assert n_body(machine, 3, [[2, 0, 1]]).item() == pytest.approx(case["I"]["0,1,2"], abs=1e-12)


# -- every unit, every gauge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gauge", ["lattice-gas", "zero-sum"])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("visible", ["bernoulli", "spin", "potts", "binomial"])
@pytest.mark.fast_cases(16)
def test_all_orders_together_are_the_distribution(visible, hidden, gauge):
    layer = {
        "bernoulli": lambda: units.Bernoulli(5),
        "spin": lambda: units.Spin((1, 4)),
        "potts": lambda: units.Potts((3, 4)),
        "binomial": lambda: units.Binomial(3, trials=2),
    }[visible]()
    sums, log_p = rebuilt(random_rbm(layer, HIDDEN[hidden](), scale=0.7), gauge)
    assert torch.allclose(sums, log_p, rtol=0, atol=1e-10)


def test_spins_have_the_interactions_of_the_walsh_transform():
    machine = random_rbm(units.Spin(5), units.Bernoulli(3))
    for part, value in walsh(machine.distribution()[1], 5).items():
        assert n_body(machine, len(part), [part]).item() == pytest.approx(value, abs=1e-12)


def test_gauges_of_sites_with_many_states():
    machine = random_rbm(units.Potts((4, 3)), units.Bernoulli(5))
    tuples = all_tuples(4, 3)
    zero_sum = n_body(machine, 3, tuples)
    assert zero_sum.shape == (4, 3, 3, 3)
    for axis in (1, 2, 3):
        assert zero_sum.sum(axis).abs().max() < 1e-13 < zero_sum.abs().max()
    lattice_gas = n_body(machine, 3, tuples, gauge="lattice-gas")
    for axis in (1, 2, 3):
        assert bool((lattice_gas.select(axis, 0) == 0).all()) and lattice_gas.abs().max() > 1e-3


def test_the_bias_is_in_order_one_unless_left_out():
    for unit in (units.Bernoulli(4), units.Spin(4)):
        machine = random_rbm(unit, units.ReLU(3))
        difference = n_body(machine, 1) - n_body(machine, 1, bias=False)
        assert torch.allclose(difference, unit.bias.detach(), atol=1e-13)
    potts = random_rbm(units.Potts((3, 4)), units.ReLU(3))
    centered = potts.visible.bias.detach() - potts.visible.bias.detach().mean(1, keepdim=True)
    assert torch.allclose(n_body(potts, 1) - n_body(potts, 1, bias=False), centered, atol=1e-13)


def test_random_backgrounds_approach_the_zero_sum_gauge():
    machine = random_rbm(units.Spin(8), units.Bernoulli(5), scale=0.5)
    tuples = all_tuples(8, 2)
    exact = n_body(machine, 2, tuples)
    errors = [
        (n_body(machine, 2, tuples, n_samples=n, seed=1) - exact).square().mean().sqrt().item() for n in (50, 5000)
    ]
    assert errors[1] < errors[0] / 4 and errors[1] < 0.05 * exact.square().mean().sqrt().item()
    again = n_body(machine, 2, tuples, n_samples=50, seed=1)
    assert torch.equal(again, n_body(machine, 2, tuples, n_samples=50, seed=1))
    assert not torch.equal(again, n_body(machine, 2, tuples, n_samples=50, seed=2))


@pytest.mark.parametrize("visible", [units.Spin(70), units.Bernoulli(70)])
def test_all_sampled_couplings_at_once_are_those_one_by_one(visible):
    machine = random_rbm(visible, units.Bernoulli(3), scale=0.3)
    rows = random_tuples(70, 2, 40, seed=0)
    full = n_body(machine, 2, gauge="zero-sum", n_samples=5, seed=2)
    single = n_body(machine, 2, rows, gauge="zero-sum", n_samples=5, seed=2)
    assert torch.allclose(full[tuple(rows.T)], single, rtol=0, atol=1e-12)


def test_one_background_is_enough_for_linear_units():
    machine = random_rbm(units.Spin(30), units.Gaussian(6))
    found = n_body(machine, 2, n_samples=1)
    W = machine.coupling.matrix().detach()
    expected = (W @ W.T).fill_diagonal_(0.0)
    assert torch.allclose(found, expected, atol=1e-10)


# -- the small-parameter limit --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gauge", "fall", "orders"),
    [("lattice-gas", 2.0, (1, 2, 3, 4)), ("zero-sum", 4.0, (1, 2, 3))],
    ids=lambda x: str(x),
)
@pytest.mark.parametrize("activation", ["relu", "step", "exponential"])
def test_the_order_at_which_the_small_limit_is_approached(activation, gauge, fall, orders):
    """Eq. (21) is the leading order in the weights, so its error is of first order and halves with the weights.
    In the zero-sum gauge the first order vanishes by symmetry, and the error falls to a quarter."""
    bias = tensor([0.3, -0.8, 1.1])
    weights = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    for order in orders:
        errors = []
        for scale in (0.01, 0.005):
            machine = rbm(units.Bernoulli(5), ACTIVATIONS[activation](3, bias=bias), scale * weights)
            exact, small = (
                n_body(machine, order, all_tuples(5, order), method=method, gauge=gauge, bias=False)
                for method in ("exact", "small")
            )
            errors.append(((exact - small).norm() / exact.norm()).item())
        assert errors[1] < 0.1
        assert errors[0] / errors[1] == pytest.approx(fall, rel=0.06)


def test_the_small_limit_is_exact_for_linear_units():
    machine = random_rbm(units.Bernoulli(6), units.Gaussian(3, precision=2.0))
    exact, small = (n_body(machine, 2, method=method) for method in ("exact", "small"))
    assert torch.allclose(exact, small, atol=1e-12)
    assert bool((n_body(machine, 3, all_tuples(6, 3)) == 0).all())
    assert bool((n_body(machine, 3, method="small") == 0).all())


# -- all of an order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "small"])
@pytest.mark.parametrize("gauge", ["lattice-gas", "zero-sum"])
@pytest.mark.parametrize("visible", ["bernoulli", "potts"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_dense_form_holds_every_tuple_in_every_order(order, visible, gauge, method):
    layer = units.Bernoulli(5) if visible == "bernoulli" else units.Potts((4, 3))
    machine = random_rbm(layer, units.Bernoulli(3))
    full = n_body(machine, order, gauge=gauge, method=method)
    n = layer.sites
    assert full.shape == ((n,) * order if visible == "bernoulli" else (n,) * order + (3,) * order)
    tuples = all_tuples(n, order)
    shuffled = tuples[:, torch.randperm(order, generator=torch.Generator().manual_seed(0))]
    for rows in (tuples, tuples.flip(1), shuffled):
        assert torch.allclose(full[tuple(rows.T)], n_body(machine, order, rows, gauge=gauge, method=method))
    different = torch.tensor(
        [len(set(row)) == order for row in torch.cartesian_prod(*[torch.arange(n)] * order).reshape(-1, order).tolist()]
    )
    assert bool((full.reshape(n**order, -1)[~different] == 0).all())


@pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("hidden", [name for name in HIDDEN if name not in ("potts", "mixed")])
@pytest.mark.fast_cases(6)
def test_all_pairs_at_once_are_the_pairs_one_by_one(hidden, scale):
    """Small weights need polynomials of low degree; large weights need a high degree or the direct sum."""
    if hidden == "poisson" and scale > 1:
        scale = 1.5  # e^w overflows easily
    machine = random_rbm(units.Bernoulli(90), HIDDEN[hidden](), scale)
    rows = random_tuples(90, 2, 500, seed=1)
    fast, slow = n_body(machine, 2), n_body(machine, 2, rows)
    tolerance = 1e-12 * max(1.0, slow.abs().max().item())
    assert torch.allclose(fast[tuple(rows.T)], slow, rtol=0, atol=tolerance)
    assert torch.equal(fast, fast.T)


def test_functions_that_no_polynomial_follows_are_summed_directly():
    steps = torch.randn(70, 2, dtype=F64, generator=torch.Generator().manual_seed(0))

    def kinked(field: torch.Tensor) -> torch.Tensor:
        return field.abs()

    base = torch.zeros(2, dtype=F64)
    expected = difference(kinked, base, torch.stack([steps[:1].expand(70, 2), steps], 1)).sum(1)
    assert torch.allclose(pairs(kinked, base, steps)[0], expected, rtol=0, atol=1e-13)


def test_units_without_weights_do_nothing():
    machine = random_rbm(units.Bernoulli(70), units.Bernoulli(3))
    with torch.no_grad():
        machine.coupling.weight[:, 1] = 0
        machine.coupling.weight[5] = 0
    full = n_body(machine, 2)
    assert bool(torch.isfinite(full).all())
    assert full[5].abs().max() < 1e-13 < full.abs().max()


def test_other_couplings_and_shapes():
    visible, hidden = units.Bernoulli((1, 4, 4)), units.Bernoulli((2, 2, 2))
    coupling = hm.couplings.Conv2d((1, 4, 4), (2, 2, 2), kernel=3)
    machine = hm.RBM(visible, hidden, coupling).double()
    machine.initialize(weights="normal", scale=1.0, seed=0)
    flat = rbm(units.Bernoulli(16), units.Bernoulli(8), coupling.matrix().detach())
    assert torch.allclose(n_body(machine, 2), n_body(flat, 2), atol=1e-12)
    assert n_body(machine, 2).shape == (16, 16)


def test_single_precision_machines_are_expanded_in_double():
    machine = random_rbm(units.Bernoulli(6), units.Bernoulli(4)).float()
    found = n_body(machine, 3, all_tuples(6, 3))
    assert found.dtype == F64 and machine.dtype == torch.float32
    known = moebius(machine.double().distribution()[1], 6)
    assert torch.allclose(found, tensor([known[tuple(row)] for row in all_tuples(6, 3).tolist()]), rtol=0, atol=1e-12)


def test_a_strong_interaction_does_not_drown_a_weak_one():
    """Rounding errors are relative to each tuple: the last digit of e^20 would be large for other tuples."""
    machine = rbm(units.Bernoulli(4), units.Poisson(1), [[10.0], [11.0], [1e-4], [2e-4]])
    strong, weak = n_body(machine, 2, [[0, 1], [2, 3]])
    assert strong.item() == pytest.approx(math.expm1(10) * math.expm1(11), rel=1e-12)
    assert weak.item() == pytest.approx(math.expm1(1e-4) * math.expm1(2e-4), abs=1e-14)


def test_the_chunk_changes_nothing():
    machine = random_rbm(units.Bernoulli(8), units.ReLU(4))
    rows = all_tuples(8, 3)
    assert torch.equal(n_body(machine, 3, rows), n_body(machine, 3, rows, chunk=1))
    assert n_body(machine, 3, torch.empty(0, 3, dtype=torch.int64)).shape == (0,)


# -- the strongest --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("hidden", ["bernoulli", "relu", "poisson", "spin", "potts"])
@pytest.mark.fast_cases(4)
def test_the_strongest_are_the_strongest(hidden, order):
    machine = random_rbm(units.Bernoulli(12), HIDDEN[hidden]())
    tuples, values = strongest(machine, order, 7)
    every = all_tuples(12, order)
    known = n_body(machine, order, every)
    best = known.abs().sort(descending=True).indices[:7]
    assert torch.equal(tuples, every[best])
    assert torch.allclose(values, known[best], rtol=1e-9)


@pytest.mark.slow
def test_the_strongest_are_found_without_a_look_at_all():
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(40, 10, generator=generator, dtype=F64) * torch.rand(40, 1, generator=generator, dtype=F64) ** 2
    sites = Sites.of(rbm(units.Bernoulli(40), units.Bernoulli(10), 0.5 * W))
    search = _Search(sites, 3, _Best(10))
    search.run()
    assert search.visited < math.comb(40, 3) / 2


@pytest.mark.parametrize("hidden", ["bernoulli", "relu", "poisson", "spin"])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_bound_bounds(hidden, order):
    sites = Sites.of(random_rbm(units.Bernoulli(9), HIDDEN[hidden]()))
    base, steps = sites.reference("lattice-gas")
    steps = steps[:, 0]
    bound = Bound.of(sites.log_partition, base, steps, order).largest
    chosen = steps[all_tuples(9, order)]
    values = difference(sites.log_partition, base, chosen).abs()
    limits = bound * chosen.abs().prod(1)
    assert bool((values <= limits * (1 + 1e-9) + 1e-13).all())
    assert bool((values > 0.2 * limits).any()), "a bound that is never near says nothing"


def test_the_strongest_spins():
    machine = random_rbm(units.Spin(7), units.Bernoulli(3))
    tuples, values = strongest(machine, 2, 3)
    full = n_body(machine, 2)
    assert values[0].abs() == full.abs().max() and full[tuple(tuples[0])] == values[0]


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 0}, "expected 1 to 4, the number of visible units, found 0"),
        ({"order": 5}, "expected 1 to 4, the number of visible units, found 5"),
        ({"order": 2.0}, "expected a whole number"),
        ({"order": 2, "indices": [[0, 1, 2]]}, r"expected shape \(n, 2\)"),
        ({"order": 2, "indices": [0, 1]}, r"expected shape \(n, 2\)"),
        ({"order": 2, "indices": [[0, 4]]}, "expected 0 to 3, found 4"),
        ({"order": 2, "indices": [[-1, 2]]}, "expected 0 to 3, found -1"),
        ({"order": 2, "indices": [[0, 1], [2, 2]]}, r"different units in each tuple, found \[2, 2\]"),
        ({"order": 2, "indices": [[0.0, 1.0]]}, "expected whole numbers"),
        ({"order": 2, "method": "tiny"}, "unknown method 'tiny'"),
        ({"order": 2, "gauge": "ising"}, "unknown gauge 'ising'"),
        ({"order": 2, "chunk": 0}, "expected at least one tuple"),
        ({"order": 2, "gauge": "zero-sum", "n_samples": 0}, "expected at least 1"),
    ],
)
def test_refused_arguments(arguments, message):
    with pytest.raises(hm.errors.InvalidOption, match=message):
        n_body(random_rbm(units.Bernoulli(4), units.Bernoulli(2)), **arguments)


def test_refused_machines():
    for visible in (units.Gaussian(4), units.Poisson(4), units.Mixed(units.Bernoulli(3), units.Bernoulli(1))):
        with pytest.raises(hm.errors.InvalidOption, match="finitely many states"):
            n_body(hm.RBM(visible, units.Bernoulli(2)), 2)
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(3), units.Bernoulli(2), units.Bernoulli(2)])
    with pytest.raises(hm.errors.InvalidOption, match="expected an RBM"):
        n_body(deep, 2)
    with pytest.raises(hm.errors.InvalidOption, match="scalar hidden units"):
        n_body(hm.RBM(units.Bernoulli(3), units.Potts((2, 3))), 2, method="small")
    with pytest.raises(hm.errors.InvalidOption, match="at most 6"):
        n_body(hm.RBM(units.Bernoulli(8), units.Bernoulli(3)), 7, [list(range(7))], method="small")
    with pytest.raises(hm.errors.InvalidOption, match="two states"):
        strongest(hm.RBM(units.Potts((3, 4)), units.Bernoulli(3)), 2, 1)
    with pytest.raises(hm.errors.InvalidOption, match="at least one interaction"):
        strongest(hm.RBM(units.Bernoulli(3), units.Bernoulli(3)), 2, 0)


def test_what_is_too_much_is_said_to_be():
    large = hm.RBM(units.Bernoulli(784), units.Bernoulli(2))
    with pytest.raises(hm.errors.NotEnumerable, match=r"a sum of 2\^30 terms"):
        n_body(large, 30, [list(range(30))])
    with pytest.raises(hm.errors.NotEnumerable, match="too many for one tensor"):
        n_body(large, 4)
    with pytest.raises(hm.errors.NotEnumerable, match=r"samples=1000"):
        n_body(large, 2, [[0, 1]], gauge="zero-sum")

"""Pseudo-likelihood: against known values, brute force, and the estimate against the sum."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from golden_machines import BINARY, BINARY_IDS, F64, binary, rbm, tensor
from torch import Generator, Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, NotEnumerable
from harmonium.likelihood import pseudo


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=F64)


VISIBLE: dict[str, Callable[[], units.Unit]] = {
    "bernoulli": lambda: units.Bernoulli(4, bias=random(4, seed=0)),
    "bernoulli-image": lambda: units.Bernoulli((2, 2), bias=random(2, 2, seed=0)),
    "spin": lambda: units.Spin(4, bias=random(4, seed=0)),
    "potts": lambda: units.Potts((3, 4), bias=random(3, 4, seed=0)),
    "binomial": lambda: units.Binomial(3, trials=4, bias=random(3, seed=0)),
    "multinary": lambda: units.Multinary(3, levels=3, bias=random(3, seed=0)),
    "multinary-integral": lambda: units.Multinary(3, levels=1, scale=0.1, form="integral", bias=random(3, seed=0)),
    "categories": lambda: units.Categories([2, 3, 2], bias=random(7, seed=0)),
    "mixed": lambda: units.Mixed(
        units.Spin(2, bias=random(2, seed=0)), units.Categories([2, 3], bias=random(5, seed=5)), units.Bernoulli(1)
    ),
    "multinomial": lambda: units.Multinomial((2, 3), total=2, bias=random(2, 3, seed=0)),
}
#: entries of the sites of layers whose sites differ in size
SITES = {"categories": [[0, 1], [2, 3, 4], [5, 6]], "mixed": [[0], [1], [2, 3], [4, 5, 6], [7]]}
every_unit = pytest.mark.parametrize("name", VISIBLE)


def machine(name: str) -> hm.RBM:
    visible = VISIBLE[name]()
    return rbm(visible, units.ReLU(2, bias=random(2, seed=1)), (0.4 * random(visible.size, 2, seed=2)).tolist())


def rows(name: str, n: int) -> Tensor:
    states = VISIBLE[name]().enumerate()
    return states[torch.randint(len(states), (n,), generator=Generator().manual_seed(3))]


def brute_force(model: hm.RBM, v: Tensor, states: Tensor) -> list[float]:
    """Σ_i ln p(v_i | v_-i) from the table of all probabilities."""
    entries = SITES.get(model.visible.name()) or torch.arange(model.visible.size).view(model.visible.sites, -1).tolist()
    flat, log_p = states.flatten(1), model.log_probability(states)
    values = []
    for row in v.flatten(1):
        same = torch.stack([(flat[:, site] == row[site]).all(-1) for site in entries], 1)  # (states, sites)
        total = 0.0
        for site in range(model.visible.sites):
            others = torch.cat([same[:, :site], same[:, site + 1 :]], 1).all(1)
            total += (log_p[same.all(1)].squeeze() - torch.logsumexp(log_p[others], 0)).item()
        values.append(total)
    return values


@pytest.mark.parametrize("case", [c for c in BINARY if "test_v" in c], ids=[i for i in BINARY_IDS if i[:2] == "01"])
def test_known_values(case):
    found = pseudo(binary(case), tensor(case["test_v"]))
    torch.testing.assert_close(found, tensor(case["pseudo_loglik_sum"]), rtol=0, atol=1e-12)


@every_unit
def test_brute_force(name):
    model, v = machine(name), rows(name, 6)
    found = pseudo(model, v)
    assert found.shape == (6,)
    assert not found.requires_grad
    torch.testing.assert_close(found, tensor(brute_force(model, v, model.visible.enumerate())), rtol=1e-10, atol=1e-10)


@every_unit
def test_single_precision(name):
    expected = pseudo(machine(name), rows(name, 6))
    found = pseudo(machine(name).float(), rows(name, 6).float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@every_unit
def test_uncoupled(name):
    """With zero weights the sites are independent, and the sum is the likelihood."""
    model = machine(name)
    torch.nn.init.zeros_(model.coupling.weight)
    v = rows(name, 5)
    torch.testing.assert_close(pseudo(model, v), model.log_probability(v).detach())


@pytest.mark.fast_cases(8)
@every_unit
def test_the_estimate_is_unbiased(name):
    model, n = machine(name), 20_000
    row = rows(name, 1)
    exact = pseudo(model, row).item()
    source = Generator().manual_seed(4)
    found = pseudo(model, row.expand(n, *row.shape[1:]), sites=1, seed=source)
    assert found.shape == (n,)
    error = found.std().item() / n**0.5
    assert model.visible.sites == 1 or error > 0  # it visits different sites
    assert abs(found.mean().item() - exact) < 4.5 * error + 1e-12
    assert len(found.unique()) <= model.visible.sites


def test_the_estimate_follows_its_generator():
    model, v = machine("potts"), rows("potts", 50)
    first, same, other = (pseudo(model, v, sites=1, seed=Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("sites", [None, 1])
def test_data_off_the_support_is_refused(sites):
    model = machine("bernoulli")
    for bad in (torch.full((2, 4), 0.5), torch.full((2, 4), torch.nan), torch.zeros(2, 5)):
        with pytest.raises(InvalidData):
            pseudo(model, bad, sites=sites)


@pytest.mark.parametrize("visible", [units.Gaussian(2), units.Poisson(2), units.Multinomial(3)], ids=lambda u: u.name())
def test_infinite_supports_are_refused(visible):
    with pytest.raises(NotEnumerable, match=visible.name()):
        pseudo(hm.RBM(visible, units.Bernoulli(2)), torch.ones(1, *visible.shape))


def test_too_many_states_are_refused_without_listing_them():
    model = hm.RBM(units.Multinomial(40, total=20), units.Bernoulli(2))
    v = torch.zeros(1, 40)
    v[0, 0] = 20
    with pytest.raises(NotEnumerable, match=r"at most 4096 states per unit, found about 10\^15"):
        pseudo(model, v)


def test_a_unit_with_as_many_states_as_are_visited():
    largest = hm.RBM(units.Binomial(1, trials=4095), units.Bernoulli(1))
    assert pseudo(largest, torch.zeros(1, 1)).isfinite().all()
    with pytest.raises(NotEnumerable, match="at most 4096"):
        pseudo(hm.RBM(units.Binomial(1, trials=4096), units.Bernoulli(1)), torch.zeros(1, 1))


def test_mixed_layers_with_infinitely_many_states_are_refused_with_the_reason():
    infinite = units.Mixed(units.Bernoulli(2), units.Gaussian(1))
    with pytest.raises(NotEnumerable, match=r"finitely many states, not gaussian \(.*real numbers"):
        pseudo(hm.RBM(infinite, units.Bernoulli(2)), torch.ones(1, 3))


@pytest.mark.parametrize("elements", [2**17, 20])
def test_rows_with_contexts_and_units_of_two_kinds(elements: int, monkeypatch: pytest.MonkeyPatch):
    """Each row has its own machine, also if the rows are evaluated in parts: against the machines of single rows."""
    monkeypatch.setattr("harmonium.likelihood.pseudolikelihood._ELEMENTS", elements)
    conditional = hm.ConditionalRBM(units.Mixed(units.Bernoulli(2), units.Spin(2)), 2, 3).double()
    for k, parameter in enumerate(conditional.parameters()):
        parameter.data.copy_(random(*parameter.shape, seed=k))
    given = conditional.given(random(9, 3, seed=8))
    states = given.visible.enumerate().to(F64)
    v = states[torch.randint(len(states), (9,), generator=Generator().manual_seed(3))]
    expected = torch.cat([pseudo(given.row(k), v[k : k + 1]) for k in range(9)])
    torch.testing.assert_close(pseudo(given, v), expected)
    found = pseudo(given, v, sites=4, seed=Generator().manual_seed(0))
    torch.testing.assert_close(found, expected)

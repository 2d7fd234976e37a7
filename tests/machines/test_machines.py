"""Machines: construction, dtypes, sampling, exact sums, and identities for every machine."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from golden_machines import F64, rbm
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense
from harmonium.errors import InvalidData, InvalidOption, NotEnumerable, NotNormalizable
from harmonium.machines import enumeration

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)
exact = settings(max_examples=30, deadline=None)


def random(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=F64)


def machine(n: int = 5, m: int = 3, seed: int = 0, kind: type[units.Unit] = units.Bernoulli) -> hm.RBM:
    visible, hidden = kind(n, bias=random(n, seed=seed + 1)), kind(m, bias=random(m, seed=seed + 2))
    return rbm(visible, hidden, random(n, m, seed=seed).tolist())


def binary(n: int, size: int, seed: int) -> Tensor:
    return torch.randint(2, (n, size), generator=Generator().manual_seed(seed)).to(F64)


# -- construction -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.RBM("784", 500), "expected units such as"),
        (lambda: hm.BoltzmannMachine([units.Bernoulli(2)] * 2), "the same one twice"),
        (lambda: hm.BoltzmannMachine([units.Bernoulli(2)]), "two or more layers, found 1"),
        (lambda: hm.DeepBoltzmannMachine([units.Bernoulli(2), units.Bernoulli(2)]), "three or more layers, found 2"),
        (
            lambda: hm.BoltzmannMachine([units.Bernoulli(2) for _ in range(3)], [Dense(2, 2)]),
            "expected 2 for 3 layers, found 1",
        ),
        (
            lambda: hm.RBM(units.Bernoulli(2), units.Bernoulli(3), Dense(3, 2)),
            r"layer 1: expected a coupling of the shapes \(\(2,\), \(3,\)\), found \(\(3,\), \(2,\)\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InvalidOption, match=message):
        make()


def test_a_new_machine_is_uncoupled():
    new = hm.RBM(units.Bernoulli((2, 3)), units.Potts((2, 4)))
    assert new.log_partition() == pytest.approx(6 * np.log(2) + 2 * np.log(4), rel=1e-12)
    assert new.coupling.weight.shape == (6, 8)


def test_parts_of_different_types_become_one():
    mixed = hm.RBM(units.Bernoulli(3, bias=torch.zeros(3, dtype=F64)), units.Gaussian(2))
    assert {p.dtype for p in mixed.parameters()} == {F64}
    assert mixed.sample(4, sweeps=2, seed=0).dtype == F64
    hm.fit(mixed, torch.ones(4, 3), epochs=1, batch_size=2, progress=False)


def test_all_layers_are_in_the_state():
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(2), units.Gaussian(3), units.Potts((1, 2))])
    assert list(deep.state_dict()) == [
        "layers.0.bias",
        "layers.1.bias",
        "layers.1.log_precision",
        "layers.2.bias",
        "couplings.0.weight",
        "couplings.1.weight",
    ]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (torch.zeros(2, 4), r"layer 0: expected shape \(n, 5\), found \(2, 4\)"),
        (torch.zeros(5), r"expected shape \(n, 5\), found \(5,\)"),
        ([["a"] * 5], "expected rows of numbers"),
        ([[1, 0], [1]], "expected rows of numbers"),
        (None, "layer 0"),
    ],
)
def test_states_of_the_wrong_form(states, message):
    for question in (machine().free_energy, machine().hidden_mean, machine().reconstruct, machine().log_probability):
        with pytest.raises(InvalidData, match=message):
            question(states)


def test_states_of_any_kind():
    rows = [[1, 0, 1, 1, 0], [0, 0, 1, 0, 0]]
    expected = machine().free_energy(torch.tensor(rows, dtype=F64))
    for states in (rows, np.array(rows), np.array(rows, dtype=bool), torch.tensor(rows, dtype=torch.uint8)):
        assert torch.equal(machine().free_energy(states), expected)


def test_no_rows():
    assert machine().free_energy(torch.zeros(0, 5)).shape == (0,)
    assert machine().hidden_mean(torch.zeros(0, 5)).shape == (0, 3)


def test_energy_of_the_wrong_number_of_states():
    with pytest.raises(InvalidData, match="each of the 2 layers, found 1"):
        machine().energy(torch.zeros(1, 5))
    with pytest.raises(InvalidData, match=r"equal numbers of states, found \[4, 2\]"):
        machine().energy(torch.zeros(4, 5), torch.zeros(2, 3))
    one_for_all = machine().energy(torch.zeros(1, 5), binary(4, 3, 0))
    torch.testing.assert_close(one_for_all, machine().energy(torch.zeros(4, 5), binary(4, 3, 0)))


# -- identities -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@exact
@given(n=sizes, m=sizes, seed=seeds)
def test_the_order_of_hidden_units_does_not_matter(n, m, seed):
    first = machine(n, m, seed)
    order = torch.randperm(m, generator=Generator().manual_seed(seed))
    second = rbm(
        first.visible,
        units.Bernoulli(m, bias=first.hidden.bias.detach()[order]),
        first.coupling.weight.detach()[:, order].tolist(),
    )
    v = binary(4, n, seed)
    torch.testing.assert_close(first.free_energy(v), second.free_energy(v), rtol=1e-12, atol=1e-12)
    assert first.log_partition() == pytest.approx(second.log_partition(), abs=1e-10)


@pytest.mark.slow
@exact
@given(n=sizes, m=sizes, seed=seeds)
def test_upside_down(n, m, seed):
    first = machine(n, m, seed)
    second = rbm(first.hidden, first.visible, first.coupling.weight.T.tolist())
    h = binary(4, m, seed)
    assert first.log_partition() == pytest.approx(second.log_partition(), abs=1e-10)
    torch.testing.assert_close(first.hidden_free_energy(h), second.free_energy(h), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@exact
@given(n=sizes, m=sizes, seed=seeds, flipped=st.lists(st.booleans(), min_size=6, max_size=6))
def test_hidden_units_can_be_flipped(n, m, seed, flipped):
    """h → 1 - h changes the signs of weights and bias, and adds their old values to the visible biases."""
    first = machine(n, m, seed)
    which = torch.tensor(flipped[:m])
    W, b, c = (p.detach() for p in (first.coupling.weight, first.visible.bias, first.hidden.bias))
    second = rbm(
        units.Bernoulli(n, bias=b + (W * which).sum(1)),
        units.Bernoulli(m, bias=torch.where(which, -c, c)),
        torch.where(which, -W, W).tolist(),
    )
    v = binary(4, n, seed)
    constant = (c * which).sum()
    torch.testing.assert_close(first.free_energy(v), second.free_energy(v) - constant, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(first.distribution()[1], second.distribution()[1], rtol=0, atol=1e-10)


@pytest.mark.slow
@exact
@given(n=sizes, m=sizes, seed=seeds)
def test_spins_and_bits(n, m, seed):
    """s = 2v - 1 and t = 2h - 1 give the same distribution with mapped parameters."""
    bits = machine(n, m, seed)
    W, b, c = (p.detach() for p in (bits.coupling.weight, bits.visible.bias, bits.hidden.bias))
    spins = rbm(units.Spin(n, bias=b / 2 + W.sum(1) / 4), units.Spin(m, bias=c / 2 + W.sum(0) / 4), (W / 4).tolist())
    constant = (b.sum() / 2 + c.sum() / 2 + W.sum() / 4).item()
    assert bits.log_partition() == pytest.approx(spins.log_partition() + constant, abs=1e-10)
    v = binary(4, n, seed)
    torch.testing.assert_close(bits.log_probability(v), spins.log_probability(2 * v - 1), rtol=0, atol=1e-10)


@pytest.mark.slow
@exact
@given(sites=st.integers(1, 3), q=st.integers(2, 4), m=st.integers(1, 4), seed=seeds)
def test_gauge_of_one_hot_units(sites, q, m, seed):
    """A constant added to all states of a site is equivalent to a change of the biases of the other layer."""
    W, b, c = random(sites, q, m, seed=seed), random(sites, q, seed=seed + 1), random(m, seed=seed + 2)
    shift = random(sites, 1, m, seed=seed + 3)
    first = rbm(units.Potts((sites, q), bias=b), units.Bernoulli(m, bias=c), W.reshape(-1, m).tolist())
    second = rbm(
        units.Potts((sites, q), bias=b),
        units.Bernoulli(m, bias=c - shift.sum((0, 1))),
        (W + shift).reshape(-1, m).tolist(),
    )
    torch.testing.assert_close(first.distribution()[1], second.distribution()[1], rtol=0, atol=1e-10)
    assert first.log_partition() == pytest.approx(second.log_partition(), abs=1e-10)


@exact
@given(n=st.integers(1, 4), seed=seeds)
def test_equivalent_units(n, seed):
    """Units equivalent to Bernoulli: Potts with two states, and one trial, one word or one level."""
    b, W, c = random(n, seed=seed), random(n, 2, seed=seed + 1), random(2, seed=seed + 2)
    hidden = units.Spin(2, bias=c)
    bits = rbm(units.Bernoulli(n, bias=b), hidden, W.tolist()).log_partition()
    pairs = torch.stack([torch.zeros_like(W), W], 1).reshape(-1, 2)
    two = torch.stack([torch.zeros_like(b), b], 1)
    others = {
        "potts": rbm(units.Potts((n, 2), bias=two), hidden, pairs.tolist()),
        "multinomial": rbm(units.Multinomial((n, 2), total=1, bias=two), hidden, pairs.tolist()),
        "binomial": rbm(units.Binomial(n, trials=1, bias=b), hidden, W.tolist()),
        "multinary": rbm(units.Multinary(n, levels=1, offsets=[0.0], bias=b), hidden, W.tolist()),
        "mixed": rbm(units.Mixed(*(units.Bernoulli(1, bias=x) for x in b)), hidden, W.tolist()),
    }
    for name, other in others.items():
        assert other.log_partition() == pytest.approx(bits, abs=1e-10), name


def test_gaussian_pair_in_closed_form():
    """Two Gaussian layers: the marginal of v is Gaussian with precision Γ - W W^T/γ."""
    W, b = random(3, 2, seed=0, scale=0.2), random(3, seed=1)
    below, above = torch.tensor(1.5, dtype=F64), torch.tensor(2.0, dtype=F64)
    pair = rbm(units.Gaussian(3, bias=b, precision=below), units.Gaussian(2, precision=above), W.tolist())
    pair.check_normalizable()
    v = random(6, 3, seed=2)
    form = 1.5 * torch.eye(3, dtype=F64) - W @ W.T / 2.0
    expected = torch.einsum("bi,ij,bj->b", v, form, v) / 2 - v @ b
    found = pair.free_energy(v)
    torch.testing.assert_close(found - found[0], expected - expected[0], rtol=1e-10, atol=1e-10)


# -- exact sums -------------------------------------------------------------------------------------------------


def test_distribution_sums_to_one():
    pair = rbm(units.Potts((2, 3), bias=random(2, 3, seed=0)), units.Spin(2), random(6, 2, seed=1).tolist())
    states, log_p = pair.distribution()
    assert states.shape == (9, 2, 3)
    pair.visible.check(states)
    assert len(states.unique(dim=0)) == 9
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-13)
    torch.testing.assert_close(pair.log_probability(states), log_p, rtol=0, atol=1e-12)


def test_what_cannot_be_enumerated():
    with pytest.raises(NotEnumerable, match="finitely many"):
        rbm(units.Gaussian(2), units.ReLU(2), torch.zeros(2, 2).tolist()).log_partition()
    with pytest.raises(NotEnumerable, match=r"at most 2\^26 .* found 2\^30\.0"):
        hm.RBM(units.Bernoulli(40), units.Bernoulli(30)).log_partition()
    with pytest.raises(NotEnumerable, match="finitely many"):
        hm.RBM(units.Gaussian(2), units.Bernoulli(3)).distribution()
    with pytest.raises(NotEnumerable, match="two layers"):
        enumeration.distribution(hm.DeepBoltzmannMachine([units.Bernoulli(2) for _ in range(3)]))
    with pytest.raises(NotEnumerable, match="infinitely many"):
        units.Gaussian(2).enumerate()


def test_chunks_join(monkeypatch):
    whole = machine(6, 5).log_partition()
    (visible, hidden), links = enumeration.moments(machine(6, 5))
    monkeypatch.setattr(enumeration, "_CHUNK_ELEMENTS", 42)  # seven states at a time
    assert machine(6, 5).log_partition() == pytest.approx(whole, abs=1e-12)
    (below, above), parts = enumeration.moments(machine(6, 5))
    torch.testing.assert_close(below["bias"], visible["bias"])
    torch.testing.assert_close(above["bias"], hidden["bias"])
    torch.testing.assert_close(parts[0], links[0])


@pytest.mark.slow
def test_a_million_states_in_little_memory():
    """2²⁰ x 128 fields would be a gigabyte at once. With equal weights only the number of ones matters."""
    code = """
        import math, resource, torch, harmonium as hm
        torch.set_num_threads(1)
        rbm = hm.RBM(hm.units.Bernoulli(20), hm.units.Bernoulli(128)).double()
        torch.nn.init.constant_(rbm.coupling.weight, 0.05)
        hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(128)).log_partition()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        value = rbm.log_partition()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        closed = math.fsum(math.comb(20, k) * (1 + math.exp(0.05 * k)) ** 128 for k in range(21))
        print((after - before) / 1024, value, math.log(closed))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    megabytes, value, closed = map(float, run.stdout.split())
    assert megabytes < 300
    assert value == pytest.approx(closed, rel=1e-12)


# -- sampling ---------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_samples():
    first, same, other = (machine().sample(6, sweeps=5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    drawn = machine().sample(6, sweeps=5, seed=Generator().manual_seed(1))
    assert torch.equal(first, drawn)


def test_the_default_generator_is_left_alone_by_a_seed():
    before = torch.get_rng_state()
    machine().sample(3, sweeps=3, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_chains_start_where_they_are_told():
    start = binary(3, 5, 0)
    assert torch.equal(machine().sample(start=start, sweeps=0), start)
    assert torch.equal(machine().sample(7, start=start, sweeps=0), start[[0, 1, 2, 0, 1, 2, 0]])
    assert torch.equal(machine().sample(2, start=start.numpy(), sweeps=0), start[:2])
    assert machine().sample(sweeps=1).shape == (1, 5)


def test_callback_sees_every_sweep():
    seen: list[tuple[int, list[Tensor]]] = []
    v = machine().sample(4, sweeps=3, seed=0, callback=lambda step, state: seen.append((step, list(state))))
    assert [step for step, _ in seen] == [0, 1, 2]
    assert all([tuple(x.shape) for x in state] == [(4, 5), (4, 3)] for _, state in seen)
    assert torch.equal(seen[-1][1][0], v)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n": 0}, InvalidOption, "n ≥ 1"),
        ({"n": 2, "sweeps": -1}, InvalidOption, "sweeps ≥ 0"),
        ({"start": torch.zeros(2, 4)}, InvalidData, r"expected shape \(n, 5\)"),
        ({"start": torch.full((2, 5), 0.5)}, InvalidData, "start: expected binary"),
        ({"start": torch.full((2, 5), torch.nan)}, InvalidData, "start: expected finite"),
        ({"start": torch.zeros(0, 5), "n": 2}, InvalidData, "start: expected at least one"),
    ],
)
def test_sampling_that_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        machine().sample(**options)


def test_sampling_needs_a_partition_function():
    pair = rbm(units.Gaussian(1), units.Gaussian(1), [[1.5]])
    with pytest.raises(NotNormalizable, match=r"eigenvalue -0\.5"):
        pair.sample(1, sweeps=1)


def test_document_lengths_are_kept():
    documents = torch.tensor([[1, 0, 4], [0, 0, 2], [10, 3, 7]])
    topics = rbm(units.Multinomial(3), units.Bernoulli(2), random(3, 2, seed=0).tolist())
    drawn = topics.sample(start=documents, sweeps=10, seed=0)
    assert drawn.sum(1).tolist() == [5.0, 2.0, 20.0]
    assert not torch.equal(drawn, documents.to(F64))
    torch.testing.assert_close(topics.reconstruct(documents).sum(1), torch.tensor([5.0, 2.0, 20.0], dtype=F64))
    with pytest.raises(InvalidData, match="number of counts is not known"):
        topics.sample(2, sweeps=1)


def test_hidden_layers_start_from_below():
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(3), units.Bernoulli(2), units.Spin(4)])
    state = deep.initial_state(torch.zeros(6, 3), Generator().manual_seed(0))
    assert [tuple(x.shape) for x in state] == [(6, 3), (6, 2), (6, 4)]
    for unit, x in zip(deep.layers, state, strict=True):
        unit.check(x)


def test_field_of_every_layer():
    deep = hm.DeepBoltzmannMachine(
        [units.Bernoulli(3), units.Bernoulli(2), units.Spin(4)],
        [Dense(3, 2, random(3, 2, seed=0)), Dense(2, 4, random(2, 4, seed=1))],
    )
    state = [binary(5, 3, 0), binary(5, 2, 1), 2 * binary(5, 4, 2) - 1]
    W, V = (link.weight for link in deep.couplings)
    for k, expected in enumerate((state[1] @ W.T, state[0] @ W + state[2] @ V.T, state[1] @ V)):
        torch.testing.assert_close(deep.field(k, state), expected)


# -- initialization ---------------------------------------------------------------------------------------------


def test_initialize():
    data = binary(200, 5, 0)
    pair = hm.RBM(units.Bernoulli(5), units.Bernoulli(400)).double()
    pair.initialize(data, seed=0)
    assert pair.coupling.weight.std().item() == pytest.approx(0.01, rel=0.1)
    smoothed = (data.sum(0) + 1) / (len(data) + 2)
    torch.testing.assert_close(pair.visible.mean(torch.zeros(1, 5, dtype=F64))[0], smoothed)
    inputs = pair.coupling.up(data.mean(0, keepdim=True))[0] + pair.hidden.bias
    torch.testing.assert_close(inputs, torch.zeros(400, dtype=F64), rtol=0, atol=1e-14)


def test_initialize_with_signs():
    data = binary(200, 5, 0)
    pair = hm.RBM(units.Bernoulli(5), units.Bernoulli(40)).double()
    pair.initialize(data, weights="sign", seed=0)
    torch.testing.assert_close(pair.coupling.weight.abs(), torch.full((5, 40), (0.1 / 5) ** 0.5, dtype=F64))
    inputs = pair.coupling.up(data.mean(0, keepdim=True))[0] + pair.hidden.bias
    torch.testing.assert_close(inputs, torch.zeros(40, dtype=F64), rtol=0, atol=1e-14)
    with pytest.raises(InvalidOption, match="unknown weight initialization"):
        pair.initialize(data, weights="uniform")

"""Effects of mutations are differences of exact log-probabilities."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import mutational_scan, mutations

HIDDEN = {
    "bernoulli": lambda: hm.units.Bernoulli(3),
    "gaussian": lambda: hm.units.Gaussian(2),
    "double-relu": lambda: hm.units.DoubleReLU(2),
    "potts": lambda: hm.units.Potts((2, 3)),
}


def machine(visible, hidden, dtype=torch.float64):
    rbm = hm.RBM(visible, hidden).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (rbm.coupling.weight, rbm.visible.bias):
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return rbm


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_mutations_equal_enumeration(hidden, dtype):
    rbm = machine(hm.units.Potts((4, 3)), HIDDEN[hidden](), dtype)
    states, log_probability = rbm.distribution()
    codes = states.argmax(-1)
    log_p = {tuple(row): value for row, value in zip(codes.tolist(), log_probability.tolist(), strict=True)}
    wild = (2, 0, 1, 1)
    table = mutations(rbm, torch.eye(3)[list(wild)])
    assert table.shape == (4, 3) and table.dtype == torch.float64
    for site in range(4):
        for letter in range(3):
            mutant = (*wild[:site], letter, *wild[site + 1 :])
            expected = log_p[mutant] - log_p[wild]
            assert table[site, letter].item() == pytest.approx(expected, abs=1e-9 if dtype is torch.float64 else 1e-4)
    assert all(table[site, letter] == 0 for site, letter in enumerate(wild))


def test_several_sequences_and_chunks(monkeypatch):
    rbm = machine(hm.units.Potts((5, 4)), hm.units.Bernoulli(3))
    rows = torch.nn.functional.one_hot(torch.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 2]]), 4)
    every = mutations(rbm, rows)
    assert every.shape == (2, 5, 4)
    assert all(torch.equal(part, mutations(rbm, row)) for part, row in zip(every, rows, strict=True))
    monkeypatch.setattr(mutational_scan, "_MOST_ELEMENTS", 12)
    torch.testing.assert_close(mutations(rbm, rows), every, rtol=0, atol=1e-12)


@pytest.mark.parametrize("unit", [hm.units.Bernoulli, hm.units.Spin])
def test_flips_of_binary_units(unit):
    rbm = machine(unit(5), hm.units.Bernoulli(3))
    low, high = rbm.visible.support.states().tolist()
    wild = torch.tensor([low, high, high, low, high], dtype=torch.float64)
    table = mutations(rbm, wild)
    for site in range(5):
        for k, value in enumerate((low, high)):
            mutant = wild.clone()
            mutant[site] = value
            change = rbm.free_energy(wild[None]) - rbm.free_energy(mutant[None])
            assert table[site, k].item() == pytest.approx(change.item(), abs=1e-10)


def test_errors():
    rbm = machine(hm.units.Potts((4, 3)), hm.units.Bernoulli(2))
    with pytest.raises(InvalidData, match=r"expected shape \(n, 4, 3\)"):
        mutations(rbm, torch.eye(3))
    with pytest.raises(InvalidData, match="sequence: expected one-hot"):
        mutations(rbm, torch.ones(4, 3))
    real = hm.RBM(hm.units.Gaussian(4), hm.units.Bernoulli(2))
    with pytest.raises(InvalidOption, match="finitely many states"):
        mutations(real, torch.zeros(4))

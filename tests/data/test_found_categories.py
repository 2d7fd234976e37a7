"""Categories in binary columns."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.data import find_categories

DENSITY = Path(os.environ.get("HARMONIUM_DATA", "")) / "density"
#: first and last column of the one-hot codes in the original order
ADULT = [(0, 4), (5, 12), (13, 17), (18, 33), (34, 38), (39, 45), (46, 59), (60, 65), (66, 70), (71, 72), (73, 74)]
ADULT += [(75, 76), (77, 81), (82, 122)]


def one_hot(states, n=500, seed=0, missing=()):
    """Independent categories as one-hot columns; those in ``missing`` are all zero in a fifth of the rows."""
    generator = np.random.default_rng(seed)
    parts = []
    for k, q in enumerate(states):
        part = np.eye(q, dtype=np.uint8)[generator.choice(q, n, p=generator.dirichlet(np.full(q, 3.0)))]
        if k in missing:
            part[generator.random(n) < 0.2] = 0
        parts.append(part)
    return np.concatenate(parts, 1)


def groups_of(states):
    ends = np.cumsum([0, *states])
    return tuple(tuple(range(a, b)) for a, b in pairwise(ends))


def test_neighboring_columns():
    states = (3, 5, 4)
    noise = (np.random.default_rng(1).random((500, 2)) < 0.4).astype(np.uint8)
    rows = np.concatenate([one_hot(states, missing=(1,)), noise], 1)
    found = find_categories(rows)
    assert found.groups == groups_of(states)
    assert found.none == (False, True, False) and found.others == (12, 13)
    layer = found.layer()
    assert [part.shape[-1] for part in layer.parts] == [3, 6, 4, 2]
    states = found.encode(rows)
    layer.check(states)
    assert torch.equal(found.decode(states), torch.from_numpy(rows).float())


def test_columns_in_any_order():
    states = (4, 3, 6, 5)
    rows = one_hot(states, missing=(2,))
    order = np.random.default_rng(3).permutation(rows.shape[1])
    found = find_categories(rows[:, order])
    assert {frozenset(order[list(group)].tolist()) for group in found.groups} == set(map(frozenset, groups_of(states)))
    assert torch.equal(found.decode(found.encode(rows[:, order])), torch.from_numpy(rows[:, order]).float())


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_independent_columns_have_no_categories(share):
    rows = (np.random.default_rng(0).random((300, 60)) < share).astype(np.uint8)
    assert find_categories(rows).groups == ()


def test_an_empty_column_belongs_to_its_neighbors():
    rows = np.insert(one_hot((3, 4)), 2, 0, axis=1)
    found = find_categories(rows)
    assert found.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    rows[0, :4] = (0, 0, 1, 0)  # a state that was not seen
    found.layer().check(found.encode(rows))


def test_log_likelihoods_are_comparable():
    """Encoding is a bijection of the rows with at most one 1 per group, so their probabilities sum to one."""
    found = find_categories(one_hot((2, 3), missing=(1,)))
    rbm = hm.RBM(found.layer(), 2)
    rbm.initialize(seed=0, scale=1.0)
    every = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    allowed = every[(every[:, :2].sum(1) == 1) & (every[:, 2:].sum(1) <= 1)]
    assert rbm.log_probability(found.encode(allowed)).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_errors():
    found = find_categories(one_hot((3, 4)))
    with pytest.raises(
        hm.errors.InvalidData, match="expected exactly one value 1 in the columns 0, 1, 2, found 2 in row 1"
    ):
        found.encode([[1, 0, 0, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0]])
    with pytest.raises(hm.errors.InvalidData, match="expected 7 columns, found 2"):
        found.encode([[0, 1]])
    with pytest.raises(hm.errors.InvalidData, match="expected 0 or 1, found 2 at row 0, column 1"):
        find_categories([[0, 2]])
    with pytest.raises(hm.errors.InvalidData, match="expected rows"):
        find_categories([0, 1])


@pytest.mark.skipif(not DENSITY.is_dir(), reason="needs the binary density sets in $HARMONIUM_DATA/density")
@pytest.mark.parametrize("name", ["adult", "mushrooms", "dna", "nltcs"])
def test_density_sets(name):
    with np.load(DENSITY / f"{name}.npz") as packed:
        columns = int(packed["variables"])
        rows = {split: np.unpackbits(packed[split], axis=1)[:, :columns] for split in ("train", "test")}
    found = find_categories(rows["train"])
    ends = [(group[0], group[-1]) for group in found.groups]
    expected = {"adult": ADULT, "dna": [(3 * k, 3 * k + 2) for k in range(60)], "nltcs": []}
    if name == "mushrooms":
        assert len(ends) == 20 and found.others == (77,)  # column 77 is always 1
        assert (rows["test"].sum(1) == 21).all()
    else:
        assert ends == expected[name]
    assert torch.equal(found.decode(found.encode(rows["test"])), torch.from_numpy(rows["test"]).float())

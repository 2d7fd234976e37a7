"""The random numbers of the samplers: exact marginals, and independence between units and between steps."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, kstest

from harmonium import noise
from harmonium.errors import InvalidOption
from harmonium.training import loop
from harmonium.training.state import derived_seed

N = 2**24


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 1e-6, 1e-5, 2.0**-16, 0.1, 0.5, 1 - 1e-5, 1.0])
@pytest.mark.fast_cases(2)
def test_marginal(p: float, dtype: torch.dtype) -> None:
    """The number of ones agrees with p rounded to the dtype; p = 0 and p = 1 hold without exception."""
    n = N if dtype == torch.float32 else N // 4
    value = torch.full((n,), p, dtype=dtype)
    ones = int(noise.bernoulli(value, torch.Generator().manual_seed(1)).sum(dtype=torch.float64))
    stored = value[0].double().item()
    if p in (0.0, 1.0):
        assert ones == n * p
    else:
        assert binomtest(ones, n, stored).pvalue > 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.0, 1e-3, 0.1, 0.7, 0.99, 1.0])
@pytest.mark.fast_cases(4)
def test_marginal_of_narrow_types(p: float, dtype: torch.dtype) -> None:
    """The draw is not rounded to a narrow dtype: the number of ones agrees with p rounded to the dtype."""
    value = torch.full((N // 4,), p, dtype=dtype)
    x = noise.bernoulli(value, torch.Generator().manual_seed(6))
    assert x.dtype == dtype
    ones, stored = int(x.sum(dtype=torch.float64)), value[0].double().item()
    if p in (0.0, 1.0):
        assert ones == len(value) * p
    else:
        assert binomtest(ones, len(value), stored).pvalue > 1e-4


def test_types_and_shapes() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((0,), (1,), (3,), (5, 7), (2, 3, 4)):
        p = torch.full(shape, 0.5)
        out = torch.empty_like(p)
        assert noise.bernoulli_(p, out, generator) is out
        assert bool(((out == 0) | (out == 1)).all())


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
def test_independent_units_and_steps(p: float) -> None:
    """Correlations between any two of 16 neighboring units, and of each unit with every unit a step later."""
    generator = torch.Generator().manual_seed(2)
    steps = 200_000
    x = torch.stack([noise.bernoulli(torch.full((steps // 10, 16), p), generator) for _ in range(10)]).reshape(-1, 16)
    later = torch.roll(x, 1, 0)
    both = torch.corrcoef(torch.cat([x, later], 1).T.double())
    off = both[~torch.eye(32, dtype=torch.bool)]
    assert off.abs().max() < 5 / math.sqrt(steps)


@pytest.mark.slow
def test_rare_events_do_not_pair() -> None:
    """Rare draws share bits with a neighbor: p near 2⁻¹⁶ must not correlate neighbors."""
    p = torch.full((N,), 3e-3)
    x = noise.bernoulli(p, torch.Generator().manual_seed(3))
    pairs = int((x[1:] * x[:-1]).sum(dtype=torch.float64))
    assert binomtest(pairs, N - 1, p[0].double().item() ** 2).pvalue > 1e-4


def test_continuous_noise() -> None:
    like = torch.empty(200_000)
    for function, law in ((noise.normal, "norm"), (noise.uniform, "uniform"), (noise.exponential, "expon")):
        x = function(like, torch.Generator().manual_seed(4))
        assert kstest(x.double().numpy(), law).pvalue > 1e-4


def test_categorical() -> None:
    p = torch.tensor([0.5, 0.3, 0.2, 0.0]).expand(400_000, 4)
    x = noise.categorical(p, torch.Generator().manual_seed(5))
    assert bool((x.sum(1) == 1).all()) and x[:, 3].sum() == 0
    for k in range(3):
        assert binomtest(int(x[:, k].sum()), len(p), p[0, k].double().item()).pvalue > 1e-4


def test_generator() -> None:
    assert noise.generator(None) is None
    one, two = (torch.rand(3, generator=noise.generator(7)) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(5), np.uint8(7)])
def test_seeds(seed: int) -> None:
    made = noise.generator(seed)
    assert made is not None and made.initial_seed() == int(seed)


@pytest.mark.parametrize("seed", [-1, 2**63, 10**20, 1.0, "1", np.float64(2.0)])
def test_seeds_that_are_refused(seed: object) -> None:
    with pytest.raises(InvalidOption, match="seed: expected a whole number from 0"):
        noise.generator(seed)  # type: ignore[arg-type]


def test_every_purpose_has_a_stream_of_its_own() -> None:
    """The numbers are distinct, agree with the training loop, and are defined nowhere else."""
    purposes = noise.Purpose
    assert len({purpose.value for purpose in purposes}) == len(purposes.__members__)
    names = {"_ORDER": "ORDER", "_INITIALIZE": "INITIALIZE", "_CHAINS": "CHAINS"}
    names["_METRICS"] = "METRICS"
    for name, purpose in names.items():
        if hasattr(loop, name):
            assert getattr(loop, name) == purposes[purpose].value
    assert (purposes.HELD_OUT, purposes.BINARIZE) == (101, 102)  # results of existing seeds depend on them
    assert derived_seed(7, purposes.SHOW) != derived_seed(7, purposes.HELD_OUT)
    firsts = []
    for path in (Path(noise.__file__).parent).rglob("*.py"):
        firsts += re.findall(r"\bstream\([^,()]*seed, ([^,)]+)", path.read_text(encoding="utf-8"))
    assert len(firsts) >= 6
    assert all(first.startswith("Purpose.") or first in names for first in firsts), firsts

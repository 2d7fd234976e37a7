"""Learning rates chosen from the data, and their limit for unbounded hidden units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import harmonium as hm
from harmonium.couplings import Conv2d, Coupling, Dense
from harmonium.machines.scaling import Scaling
from harmonium.training.rates import RateLimit, default_groups

F64 = torch.float64
NATS = 0.1  # largest change of the log-probability of a row by itself


def rare_mode(n: int = 400, size: int = 12, share: float = 0.02) -> Tensor:
    """Binary rows around a common mode, a small share of them around its opposite."""
    source = Generator().manual_seed(0)
    mode = (torch.rand(size, generator=source) < 0.5).double()
    rare = (torch.rand(n, 1, generator=source) < share).double()
    flips = (torch.rand(n, size, generator=source) < 0.02).double()
    return (mode + rare + flips) % 2


def machine(size: int, hidden: hm.units.Unit, coupling: Coupling | None = None, scale: float = 0.8) -> hm.RBM:
    rbm = hm.RBM(hm.units.Bernoulli(size), hidden, coupling).double()
    source = Generator().manual_seed(1)
    with torch.no_grad():
        rbm.coupling.weight.copy_(scale * torch.randn(rbm.coupling.weight.shape, generator=source, dtype=F64))
    return rbm


def optimizer(rbm: hm.RBM, rows: Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(default_groups(rbm, rows))


def rate(chosen: torch.optim.Optimizer, parameter: Tensor) -> float:
    return next(group["lr"] for group in chosen.param_groups if group["params"][0] is parameter)


def distance(products: Tensor) -> float:
    """⟨p⁴⟩/⟨p²⟩ of the first principal component of rows (n, m), by a singular value decomposition."""
    left, values, _ = torch.linalg.svd(products - products.mean(0), full_matrices=False)
    p = left[:, 0] * values[0]
    return (p.pow(4).mean() / p.pow(2).mean()).item()


@pytest.mark.parametrize("n", [400, 60], ids=["more rows than weights", "more weights than rows"])
@pytest.mark.parametrize("kind", [hm.units.Gaussian, hm.units.ReLU, hm.units.Poisson], ids=lambda kind: kind.__name__)
def test_a_row_changes_its_own_probability_by_a_tenth_of_a_nat(kind: type[hm.units.Unit], n: int) -> None:
    rows, rbm = rare_mode(n, share=0.05), machine(12, kind(8))
    chosen = optimizer(rbm, rows)
    before = rate(chosen, rbm.coupling.weight)
    RateLimit(rbm, rows).lower(chosen, batch_size=20)
    after = rate(chosen, rbm.coupling.weight)
    with torch.no_grad():
        y = rbm.hidden.mean(rbm.coupling.up(rows))
        products = ((rows - rows.mean(0))[:, :, None] * (y - y.mean(0))[:, None, :]).flatten(1)
    assert after < before
    assert after == pytest.approx(NATS * 20 / distance(products), rel=0.03)  # of 20 power iterations


def test_shared_weights() -> None:
    """The sufficient statistics of a kernel are sums over its positions."""
    coupling = Conv2d((1, 4, 4), (2, 2, 2), kernel=3).double()
    rbm = hm.RBM(hm.units.Bernoulli((1, 4, 4)), hm.units.Gaussian((2, 2, 2)), coupling).double()
    torch.nn.init.normal_(coupling.weight, std=2.0, generator=Generator().manual_seed(0))
    rows = rare_mode(150, 16).view(-1, 1, 4, 4)
    chosen = optimizer(rbm, rows)
    RateLimit(rbm, rows).lower(chosen, batch_size=10)
    with torch.no_grad():
        x, y = rows - rows.mean(0), coupling.up(rows) - coupling.up(rows).mean(0)  # precision 1
        products = torch.stack([coupling.correlate(a[None], b[None]).flatten() for a, b in zip(x, y, strict=True)])
    assert rate(chosen, coupling.weight) == pytest.approx(NATS * 10 / distance(products), rel=1e-3)


def test_rates_in_standardized_coordinates_do_not_depend_on_the_scale_of_the_data() -> None:
    rows = rare_mode(200, 6) + 0.1 * torch.randn(200, 6, generator=Generator().manual_seed(2), dtype=F64)
    found = []
    for scale in (1.0, 1000.0):
        rbm = hm.RBM(hm.units.Gaussian(6), hm.units.Gaussian(3)).double()
        data = scale * rows
        rbm.initialize(data, seed=0)
        scaling = Scaling.of(rbm.visible, data)
        torch.nn.init.constant_(rbm.coupling.weight, 0.5 / scale)
        chosen = torch.optim.SGD(default_groups(rbm, data, scaling))
        RateLimit(rbm, data, scaling).lower(chosen, batch_size=1)
        found.append(rate(chosen, rbm.coupling.weight))
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_rates_of_bounded_units_stay() -> None:
    rows, rbm = rare_mode(), machine(12, hm.units.Bernoulli(8))
    chosen = optimizer(rbm, rows)
    before = [group["lr"] for group in chosen.param_groups]
    RateLimit(rbm, rows).lower(chosen, 10)
    assert [group["lr"] for group in chosen.param_groups] == before


def test_rates_are_never_raised() -> None:
    rows, rbm = rare_mode(), machine(12, hm.units.Gaussian(8), Dense((12,), (8,)))
    chosen, limit = optimizer(rbm, rows), RateLimit(rbm, rows)
    limit.lower(chosen, 10)
    lowest = rate(chosen, rbm.coupling.weight)
    torch.nn.init.zeros_(rbm.coupling.weight)
    limit.lower(chosen, 10)
    assert rate(chosen, rbm.coupling.weight) == lowest


def test_infinite_curvature_does_not_stop_the_training() -> None:
    rows, rbm = rare_mode(), machine(12, hm.units.Poisson(2))
    torch.nn.init.constant_(rbm.coupling.weight, 1e4)
    chosen = optimizer(rbm, rows)
    RateLimit(rbm, rows).lower(chosen, 10)
    assert rate(chosen, rbm.coupling.weight) > 0


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_rates_of_the_user_are_not_changed() -> None:
    rows, rbm = rare_mode(), machine(12, hm.units.Gaussian(2), scale=2.0)
    own = torch.optim.SGD(rbm.parameters(), lr=0.01)
    hm.fit(rbm, rows, optimizer=own, epochs=1, progress=False)
    assert own.param_groups[0]["lr"] == 0.01


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
@pytest.mark.slow
def test_runs_resume_exactly(tmp_path: Path) -> None:
    """The lowered rates are part of a checkpoint."""
    rows = rare_mode(400)

    def trained(folder: str, epochs: int = 40, **options: Any) -> hm.RBM:
        rbm = hm.RBM(hm.units.Bernoulli(12), hm.units.Gaussian(2))
        run = tmp_path / folder
        hm.fit(rbm, rows, epochs=epochs, batch_size=5, schedule="constant", run=run, progress=False, seed=0, **options)
        return rbm

    whole = trained("whole").coupling.weight
    trained("parts", 25)
    assert torch.equal(trained("parts", resume=True).coupling.weight, whole)

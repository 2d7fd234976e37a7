"""The next frame and free-running continuations of a conditional machine."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import forecast, next_frame

F64 = torch.float64


def machine(visible: units.Unit, hidden: int = 3, order: int = 2) -> hm.ConditionalRBM:
    made = hm.ConditionalRBM(visible, hidden, (order, *visible.shape)).double()
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.normal_(0.0, 0.5, generator=noise)
    return made


@pytest.mark.slow
def test_predict_is_the_exact_mean_of_binary_units() -> None:
    made = machine(units.Bernoulli(3))
    context = torch.bernoulli(torch.full((4, 2, 3), 0.5, dtype=F64), generator=torch.Generator().manual_seed(1))
    states, log_p = made.given(context).distribution()
    exact = log_p.exp() @ states
    found = next_frame(made, context.repeat(50, 1, 1), sweeps=400, seed=0).view(50, 4, 3)
    error = found.std(0) / 50**0.5
    assert bool(((found.mean(0) - exact).abs() < 4.5 * error).all())
    assert error.max() < 0.005


@pytest.mark.slow
def test_predict_is_the_exact_mean_of_gaussian_units() -> None:
    made = machine(units.Gaussian(2))
    context = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    given = made.given(context)
    h = made.hidden.enumerate().to(F64)
    exact = []
    for k in range(3):
        alone = given.row(k)
        p = torch.softmax(-alone.hidden_free_energy(h), 0)
        exact.append(p @ alone.visible_mean(h))
    found = next_frame(made, context.repeat(50, 1, 1), sweeps=300, seed=0).view(50, 3, 2)
    error = found.std(0) / 50**0.5
    assert bool(((found.mean(0) - torch.stack(exact)).abs() < 4.5 * error).all())


def test_a_forecast_follows_the_dynamics() -> None:
    """Without hidden units and noise, x_t = x_{t-1} + (x_{t-1} - x_{t-2}): a straight line goes on."""
    made = hm.ConditionalRBM(units.Gaussian(1, precision=torch.tensor(1e8, dtype=F64)), 1, (2, 1)).double()
    with torch.no_grad():
        assert made.to_visible is not None
        made.to_visible.weight.copy_(1e8 * torch.tensor([[-1.0], [2.0]]))
    start = torch.tensor([[[0.0], [1.0]], [[0.0], [-2.0]]], dtype=F64)
    found = forecast(made, start, 3, n=2, sweeps=1, seed=0)
    assert found.shape == (2, 2, 3, 1)
    line = torch.tensor([[2.0, 3.0, 4.0], [-4.0, -6.0, -8.0]], dtype=F64).view(2, 1, 3, 1).expand(2, 2, 3, 1)
    torch.testing.assert_close(found, line, rtol=0, atol=5e-3)
    assert not torch.equal(found[:, 0], found[:, 1])
    single = forecast(made, start[0], 3, n=2, means=True, seed=0)
    torch.testing.assert_close(single, line[0], rtol=0, atol=1e-8)


def test_frames_of_a_forecast_have_the_conditional_distribution() -> None:
    """The first frame, after enough sweeps, has the distribution given the first window."""
    made = machine(units.Bernoulli(2))
    start = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=F64)
    states, log_p = made.given(start[None]).distribution()
    found = forecast(made, start, 1, n=20_000, sweeps=20, seed=0)[:, 0]
    for state, p in zip(states, log_p[0].exp(), strict=True):
        share = (found == state).all(1).double().mean()
        assert (share - p).abs() < 4.5 * (p * (1 - p) / 20_000).sqrt()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_continuation() -> None:
    made = machine(units.Gaussian(2))
    start = torch.zeros(2, 2)
    assert torch.equal(forecast(made, start, 5, seed=3), forecast(made, start, 5, seed=3))
    assert not torch.equal(forecast(made, start, 5, seed=3), forecast(made, start, 5, seed=4))


def test_standardized_channels_are_restored() -> None:
    sequence = torch.randn(30, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e3, 1e-3]) + 5
    sequence[:, 2] = 7.0  # a constant channel
    rows = hm.Windows(sequence, 2, standardize=True)
    v, context = rows[:]
    assert rows.standardized(sequence).mean(0).abs().max() < 1e-4
    torch.testing.assert_close(rows.standardized(sequence).std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(rows.restored(v), sequence[2:])
    torch.testing.assert_close(rows.restored(context)[0], sequence[:2])
    other = hm.Windows(sequence[:10], 2, standardize=rows)
    torch.testing.assert_close(other[:][0], v[:8])


def test_errors() -> None:
    made = machine(units.Bernoulli(2))
    with pytest.raises(InvalidOption, match="machine: expected a ConditionalRBM, found RBM"):
        next_frame(hm.RBM(2, 2), torch.zeros(1, 2))  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"expected a ConditionalRBM with a context of frames, \(order, 2\)"):
        forecast(hm.ConditionalRBM(2, 2, 3), torch.zeros(3), 1)
    with pytest.raises(InvalidData, match=r"context: expected shape \(n, 2, 2\), found \(3, 2\)"):
        forecast(made, torch.zeros(3, 2), 1)
    with pytest.raises(InvalidData, match="start: expected binary values"):
        forecast(made, torch.full((2, 2), 0.5), 1)
    with pytest.raises(InvalidData, match="expected at least one row"):
        next_frame(made, torch.zeros(0, 2, 2))
    with pytest.raises(InvalidOption, match="frames=0"):
        forecast(made, torch.zeros(2, 2), 0)
    with pytest.raises(InvalidOption, match="sweeps, warm_up"):
        next_frame(made, torch.zeros(1, 2, 2), sweeps=0)

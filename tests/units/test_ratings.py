"""Units of ratings: a user's machine contains the rated items and nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.testing.oracle import joint
from harmonium.training.negative import Batch
from harmonium.units import Potts, Ratings

ITEMS, VALUES = 5, 3
SEEN = [0, 2, 3]


def machine(unit=None, hidden=None):
    """A machine of all items with strong weights, in float64."""
    rbm = hm.RBM(unit or Ratings((ITEMS, VALUES)), hidden or hm.units.Bernoulli(3)).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return rbm


def reduced(rbm):
    """The machine of a user who has rated the items SEEN, built from Potts units of these items alone."""
    small = hm.RBM(Potts((len(SEEN), VALUES)), hm.units.Bernoulli(3)).double()
    with torch.no_grad():
        small.visible.bias.copy_(rbm.visible.bias[SEEN])
        small.hidden.bias.copy_(rbm.hidden.bias)
        small.weight.copy_(rbm.weight.view(ITEMS, VALUES, -1)[SEEN].flatten(0, 1))
    return small


def widened(x):
    """States of the items SEEN as states of all items."""
    out = torch.zeros(*x.shape[:-2], ITEMS, VALUES, dtype=x.dtype)
    out[..., SEEN, :] = x
    return out


def test_a_users_machine_is_that_of_the_rated_items():
    rbm = machine()
    small = reduced(rbm)
    states, log_p = small.distribution()
    rows = widened(states)
    torch.testing.assert_close(rbm.free_energy(rows), small.free_energy(states))
    torch.testing.assert_close(rbm.log_probability(rows), log_p)
    assert rbm.conserving(rows[:1]).log_partition() == pytest.approx(small.log_partition(), abs=1e-12)
    h = torch.randn(4, 3, dtype=torch.float64)
    bound = rbm.conserving(rows[:4])
    torch.testing.assert_close(bound.hidden_free_energy(h), small.hidden_free_energy(h))
    torch.testing.assert_close(bound.visible_mean(h), widened(small.visible_mean(h)))


def test_items_without_rating_have_no_influence():
    rbm = machine()
    states, _ = reduced(rbm).distribution()
    rows = widened(states[::5])
    field = torch.randn(len(rows), ITEMS, VALUES, dtype=torch.float64)
    before = [rbm.visible.conserving(rows).log_partition(field).sum(), rbm.free_energy(rows), rbm.log_probability(rows)]
    other = field.clone()
    with torch.no_grad():
        absent = [k for k in range(ITEMS) if k not in SEEN]
        rbm.weight.view(ITEMS, VALUES, -1)[absent] += 7.0
        rbm.visible.bias[absent] -= 3.0
        other[:, absent] = 50.0
    after = [rbm.visible.conserving(rows).log_partition(other).sum(), rbm.free_energy(rows), rbm.log_probability(rows)]
    for one, two in zip(before, after, strict=True):
        assert torch.equal(one, two)


def test_rows_with_different_rated_items():
    rbm = machine()
    rows = torch.zeros(3, ITEMS, VALUES, dtype=torch.float64)
    rows[0, 1, 2] = rows[1, 0, 0] = rows[1, 4, 1] = 1  # the last user has rated nothing
    log_p = rbm.log_probability(rows)
    for row, found in zip(rows, log_p, strict=True):
        seen = row.sum(-1) > 0
        total = []
        for choice in itertools.product(range(VALUES), repeat=int(seen.sum())):
            v = torch.zeros_like(row)
            v[seen] = torch.eye(VALUES, dtype=torch.float64)[list(choice)].reshape(-1, VALUES)
            total.append(-rbm.free_energy(v[None]))
        expected = -rbm.free_energy(row[None]) - torch.logsumexp(torch.cat(total), 0)
        torch.testing.assert_close(found, expected[0])
    assert log_p[2].item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("chains", [hm.CD(2), hm.PCD(2)], ids=["cd", "pcd"])
@pytest.mark.slow
def test_stationarity_given_the_rated_items(chains):
    """Chains that start from exact samples of the user's machine keep its distribution and its rated items."""
    rbm, source = machine(), torch.Generator().manual_seed(1)
    small = reduced(rbm)
    points = [small.visible.enumerate(), small.hidden.enumerate()]
    exact = joint(small, [(x, torch.zeros(len(x), dtype=torch.float64)) for x in points])
    v = widened(exact.draw(20_000, source)[0])
    phase = chains.resolved(len(v))
    with torch.no_grad():
        gradient, _ = phase.step(rbm, Batch(v), phase.init(rbm, v, source), source)
    found = gradient.loss.__self__.model.clone()
    assert torch.equal(found.sum(-1), v.sum(-1))
    states, log_p = small.distribution()
    codes = (found[:, SEEN].argmax(-1) * torch.tensor([1, 3, 9])).sum(1)
    order = (states.argmax(-1) * torch.tensor([1, 3, 9])).sum(1)
    p = torch.zeros(27, dtype=torch.float64).index_put_((order,), log_p.exp())
    share = torch.bincount(codes, minlength=27) / len(codes)
    assert ((share - p).abs() < 4.5 * (p * (1 - p) / len(codes)).sqrt() + 1e-4).all()


def test_samples_keep_the_rated_items():
    rbm = machine()
    rows = torch.zeros(2, ITEMS, VALUES)
    rows[0, 1, 2] = rows[1, 0, 0] = rows[1, 4, 1] = 1
    for found in (
        rbm.sample(start=rows, n=6, sweeps=3, seed=0, check_mixing=False),
        rbm.conserving(rows[:1]).sample(6, sweeps=3, seed=0, check_mixing=False),
        rbm.reconstruct(rows),
    ):
        expected = rows.sum(-1)[torch.arange(len(found)) % 2] if found[1, 4].sum() else rows[:1].sum(-1)
        torch.testing.assert_close(found.sum(-1).float(), expected.expand(len(found), -1))


@pytest.mark.parametrize("name", ["visible.bias", "hidden.bias", "coupling.weight"])
def test_gradient_of_the_likelihood_equals_finite_differences(name):
    """∂ ln p of rows with different rated items, from moments of each user's machine."""
    rbm = machine()
    rows = torch.zeros(2, ITEMS, VALUES, dtype=torch.float64)
    rows[0, 1, 2] = rows[1, 0, 0] = rows[1, 4, 1] = 1
    parameter = rbm.get_parameter(name)
    gradient = torch.zeros_like(parameter)
    for row in rows:
        bound = rbm.conserving(row[None])
        phase = hm.Exact()
        with torch.no_grad():
            phase.step(bound, Batch(row[None]), phase.init(bound, row[None], None), None)[0].write()
        gradient -= parameter.grad.view_as(parameter) / len(rows)
    with torch.no_grad():
        for place in torch.randperm(parameter.numel(), generator=torch.Generator().manual_seed(0))[:12].tolist():
            flat, step = parameter.view(-1), 1e-5
            values = []
            for sign in (1, -1):
                flat[place] += sign * step
                values.append(rbm.log_probability(rows).mean().item())
                flat[place] -= sign * step
            assert gradient.view(-1)[place].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)


@pytest.mark.slow
def test_training_raises_the_exact_likelihood():
    """Half of the users like everything, half nothing: independent items lose ln 2 for each rating but the first."""
    source = torch.Generator().manual_seed(0)
    taste = torch.randint(2, (300, 1), generator=source).expand(300, ITEMS)
    rows = torch.eye(2, dtype=torch.float64)[taste] * (torch.rand(300, ITEMS, 1, generator=source) < 0.7)
    rbm = hm.RBM(Ratings((ITEMS, 2)), hm.units.Bernoulli(2)).double()
    rbm.initialize(rows, seed=0)
    rated = rows.sum((1, 2))
    independent, best = (-0.6931 * x.mean().item() for x in (rated, rated.clamp_max(1)))
    assert rbm.log_probability(rows).mean().item() == pytest.approx(independent, abs=0.02)
    hm.fit(rbm, rows, negative=hm.CD(2), epochs=40, batch_size=20, learning_rate=0.2, seed=0, progress=False)
    found = rbm.log_probability(rows).mean().item()
    assert independent + 0.8 * (best - independent) < found < best + 0.01


def test_initialization_from_few_ratings():
    """An item that nobody has rated begins with the frequencies of all; one with many ratings with its own."""
    rows = torch.zeros(1000, 3, 2)
    rows[:, 0, 0] = 1
    rows[0, 1, 0] = 1
    unit = Ratings((3, 2))
    unit.initialize_from(rows)
    p = unit.conserving(torch.ones(1, 3, 2) / 2).mean(torch.zeros(1, 3, 2))[0, :, 0]
    assert p[0] > 0.99 and p[2] > 0.99
    unit.initialize_from(rows, pseudocount=0.0)
    assert torch.isfinite(unit.bias[2]).all()


def test_what_depends_on_the_rated_items_is_refused_without_them():
    rbm = machine()
    for question in (
        rbm.log_partition,
        lambda: rbm.sample(2),
        lambda: hm.likelihood.exact(rbm),
        lambda: hm.likelihood.ais(rbm),
    ):
        with pytest.raises(InvalidData, match="rated items are not known"):
            question()
    row = torch.zeros(1, ITEMS, VALUES, dtype=torch.float64)
    row[0, 1, 1] = row[0, 3, 0] = 1
    user = rbm.conserving(row)
    estimate = hm.likelihood.ais(user, runs=200, betas=100, seed=0)
    assert estimate.value == pytest.approx(user.log_partition(), abs=0.2)


def test_values_are_checked():
    with pytest.raises(InvalidOption, match="two or more states"):
        Ratings((4,))
    rows = torch.zeros(2, ITEMS, VALUES)
    rows[1, 3] = torch.tensor([1.0, 1.0, 0.0])
    with pytest.raises(
        InvalidData, match=r"one-hot vectors of 3 values, or zero vectors .* found \[1, 1, 0\] at row 1"
    ):
        hm.fit(machine(), rows, progress=False)

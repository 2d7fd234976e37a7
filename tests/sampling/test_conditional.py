"""Conditional sampling of visible units, against p(free | given) by enumeration."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from cases import MACHINES, MachineCase, generator, rbm
from oracle import joint

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, InvalidOption, NotMixed
from harmonium.machines.kernel import sweep
from harmonium.tasks.observed import Evidence, posterior_machine

CHAINS = 60_000
FLOORS = 4.0
CASES: dict[str, MachineCase] = {
    "bernoulli": rbm("bernoulli", "bernoulli", (4, 3)),
    "spin-gaussian": rbm("spin", "gaussian", (3, 1)),
    "potts": rbm("potts", "bernoulli", (3, 2)),
    "binomial": rbm("binomial", "spin", (3, 2)),
    "multinomial": rbm("multinomial", "bernoulli", (2, 2)),
    "mixed": rbm("mixed", "spin", (2, 2)),
    "masked": MACHINES["rbm-masked"],
    "three layers": MACHINES["deep"],
    "three layers, potts": MachineCase(hm.DeepBoltzmannMachine, (("potts", (3,)), ("bernoulli", (2,)), ("spin", (2,)))),
    "four layers": MACHINES["deep-four"],
}


def strong(case):
    """A machine with weights large enough to correlate units and small enough for chains to mix."""
    machine = case.build()
    with torch.no_grad():
        for coupling in machine.couplings:
            coupling.weight.mul_(2.0 if case.layers[1][0] == "gaussian" else 3.5)
    return machine


def first_unit(layer):
    """A mask of the first unit."""
    leaf = layer.parts[0]
    mask = torch.zeros(layer.size, dtype=torch.bool)
    mask[: leaf.size // leaf.sites] = True
    return mask.view(layer.shape)


def conditional(machine, case, given, mask):
    """Every visible state (states, *visible) and its exact probability given one row of values."""
    exact = joint(machine, case.nodes(machine))
    points, p = exact.points[0], exact.marginal(0)
    agrees = ((points == given) | ~mask).flatten(1).all(1)
    return points, p * agrees / p[agrees].sum()


def unaware(machine, case, given, mask):
    """The probabilities if the free units ignored the given values, in the same order."""
    exact = joint(machine, case.nodes(machine))
    points, p = exact.points[0], exact.marginal(0)
    filled = torch.where(mask, given, points)
    same = (filled[:, None] == points[None]).flatten(2).all(2).double()
    return p @ same


def floor(p, n=CHAINS):
    """The expected total variation between p and the frequencies of n exact draws."""
    return (2 * p * (1 - p) / (math.pi * n)).sqrt().sum().item() / 2


def distance(samples, points, p):
    """The total variation between samples and p."""
    counts = torch.stack([(samples == point).flatten(1).all(1).sum() for point in points]).double()
    return (counts / len(samples) - p).abs().sum().item() / 2


def sample(machine, *args, **options):
    return machine.sample(*args, sweeps=60, check_mixing=False, **options)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_samples_are_draws_of_the_conditional(name):
    case = CASES[name]
    machine = strong(case)
    mask, rows = first_unit(machine.visible), machine.visible.enumerate()

    def told(given):  # how strongly the given values determine the other units
        p = conditional(machine, case, given, mask)[1]
        return (p - unaware(machine, case, given, mask)).abs().sum().item() / 2 / floor(p)

    given = max(rows[torch.linspace(0, len(rows) - 1, 8).long()], key=told)
    assert told(given) > 2 * FLOORS  # otherwise the test would have no power
    points, p = conditional(machine, case, given, mask)
    found = sample(machine, CHAINS, given=given[None], mask=mask, seed=generator("given", name))
    assert torch.equal(found[:, mask], given[mask].expand(CHAINS, -1))
    assert distance(found, points, p) < FLOORS * floor(p)


@pytest.mark.slow
def test_rows_with_masks_of_their_own():
    case = CASES["potts"]
    machine = strong(case)
    given = machine.visible.enumerate()[[0, 5, 20]]
    mask = torch.zeros(3, 3, 3, dtype=torch.bool)
    mask[0, 0] = mask[1, 1:] = True  # one unit, two units, none
    found = sample(machine, CHAINS, given=given, mask=mask, seed=generator("rows"))
    for row in range(3):
        points, p = conditional(machine, case, given[row], mask[row])
        assert distance(found[row::3], points, p) < FLOORS * floor(p, CHAINS // 3)


def test_what_is_not_given_may_be_nan():
    machine = strong(CASES["potts"])
    given = machine.visible.enumerate()[[4, 7]]
    mask = torch.tensor([[True] * 3, [False] * 3, [True] * 3])
    gaps = given.masked_fill(~mask, torch.nan)
    options = [{"given": given, "mask": mask}, {"given": gaps, "mask": mask}, {"given": gaps}, {"given": gaps.numpy()}]
    first, *others = (sample(machine, 6, seed=0, **some) for some in options)
    assert all(torch.equal(first, other) for other in others)
    assert torch.equal(first[:, mask], given[:, mask].repeat(3, 1))


def test_all_and_nothing_given():
    machine = strong(CASES["three layers"])
    given = machine.visible.enumerate()
    everything, nothing = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    assert torch.equal(sample(machine, given=given, mask=everything, seed=0), given)
    assert torch.equal(sample(machine, given=given, mask=nothing, seed=0), sample(machine, len(given), seed=0))


def test_the_number_of_samples_and_the_start():
    machine = strong(CASES["bernoulli"])
    given, mask = torch.ones(3, 4), torch.tensor([True, False, False, False])
    assert sample(machine, given=given, mask=mask, seed=0).shape == (3, 4)
    assert sample(machine, 7, given=given, mask=mask, seed=0).shape == (7, 4)
    started = machine.sample(given=given, mask=mask, start=torch.zeros(1, 4), sweeps=0, check_mixing=False)
    assert torch.equal(started, mask.double().expand(3, 4))


@pytest.mark.parametrize("name", ["bernoulli", "spin-gaussian", "potts", "three layers"])
def test_imputation_moves_alike(name):
    """The machine used by the tasks, with the known values in its visible layer, agrees with held units."""
    machine = strong(CASES[name])
    source = generator("imputation")
    state = machine.initial_state(machine.independent(30, source), source)
    mask = first_unit(machine.visible).expand(30, *machine.visible.shape)
    view = posterior_machine(machine, Evidence(state[0], known=mask))
    ours = sweep(machine, state, generator("alike"), held={0: mask})
    theirs = sweep(view, state, generator("alike"))
    for x, y in zip(ours, theirs, strict=True):
        assert torch.allclose(x, y)


@pytest.mark.slow
def test_mixing_is_judged_within_a_row():
    """Different rows do not count as unmixed chains, but unmixed chains of one row are detected."""
    machine = hm.RBM(units.Bernoulli(12), units.Bernoulli(2))
    torch.nn.init.constant_(machine.coupling.weight, 0.3)
    given = torch.cat([torch.zeros(1, 12), torch.ones(1, 12)])
    mask = torch.arange(12) < 6
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotMixed)
        machine.sample(200, given=given, mask=mask, sweeps=200, seed=0)
    torch.nn.init.constant_(machine.coupling.weight, 8.0)
    machine.visible.shift_bias(torch.full((12,), -8.0))
    machine.hidden.shift_bias(torch.full((2,), -48.0))  # two wells: all off, all on
    with pytest.warns(NotMixed, match="not mixed"):
        start = torch.cat([torch.zeros(2, 12), torch.ones(2, 12)])  # both wells for the chains of each row
        machine.sample(200, given=given, mask=torch.arange(12) < 0, sweeps=200, seed=0, start=start)
    with pytest.warns(NotMixed, match="could not be judged"):
        machine.sample(given=given, mask=mask, sweeps=200, seed=0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mask": torch.ones(3, 3, dtype=torch.bool)}, InvalidOption, "mask: expected the values"),
        ({"given": torch.zeros(0, 3, 3)}, InvalidData, "given: expected at least one row"),
        ({"given": torch.zeros(2, 3)}, InvalidData, "expected shape"),
        ({"given": torch.zeros(2, 3, 3), "mask": torch.ones(3, 3)}, InvalidOption, "mask: expected booleans"),
        ({"given": torch.eye(3)[None], "mask": torch.ones(2, 3, 3) > 0}, InvalidOption, "mask: expected booleans"),
        (
            {"given": torch.eye(3)[None], "mask": torch.eye(3) > 0},
            InvalidOption,
            "found 1 of 3 of unit 0 in row 0",
        ),
        ({"given": torch.zeros(1, 3, 3), "mask": torch.ones(3, 3) > 0}, InvalidData, "given"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        sample(CASES["potts"].build(), 2, seed=0, **options)

"""Initial parameters: biases from the data, small random weights."""

from __future__ import annotations

import math

import pytest
import torch
from training_helpers import F64, binary, draw, generator, parameters

import harmonium as hm
from harmonium import couplings, units
from harmonium.errors import InvalidOption
from harmonium.machines import RBM


def data(n: int = 50, sites: int = 6) -> torch.Tensor:
    rows = (torch.rand(n, sites, generator=generator(0)) < torch.linspace(0.1, 0.9, sites)).to(F64)
    rows[:, 0] = 0.0  # a pixel that is always 0
    return rows


@pytest.mark.parametrize("pseudocount", [None, 1.0, 0.5])
def test_visible_biases_are_log_odds(pseudocount: float | None) -> None:
    rows = data()
    machine = RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
    machine.initialize(rows, pseudocount=pseudocount, seed=0)
    extra = 1.0 if pseudocount is None else pseudocount
    for i in range(6):
        ones = rows[:, i].sum().item()
        expected = math.log((ones + extra) / (50 - ones + extra))
        assert machine.visible.bias[i].item() == pytest.approx(expected, abs=1e-12)
    inputs = machine.coupling.up(rows) + machine.hidden.bias  # centered for all weights
    torch.testing.assert_close(inputs.mean(0).detach(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_free_visible_layer_has_the_statistics_of_the_data() -> None:
    noise = generator(1)
    cases = {
        "bernoulli": (units.Bernoulli(4), torch.randint(0, 2, (500, 4), generator=noise)),
        "spin": (units.Spin(4), 2 * torch.randint(0, 2, (500, 4), generator=noise) - 1),
        "binomial": (units.Binomial(4, trials=5), torch.randint(0, 6, (500, 4), generator=noise)),
        "gaussian": (units.Gaussian(4, precision=2.0), torch.randn(500, 4, generator=noise) + 3),
        "poisson": (units.Poisson(4), torch.randint(0, 7, (500, 4), generator=noise)),
        "potts": (units.Potts((4, 3)), torch.eye(3)[torch.randint(0, 3, (500, 4), generator=noise)]),
        "multinary": (units.Multinary(4, levels=5), torch.randint(0, 6, (500, 4), generator=noise)),
        "relu": (units.ReLU(4), torch.rand(500, 4, generator=noise)),
        "truncated": (units.TruncatedGaussian(4), torch.rand(500, 4, generator=noise)),
    }
    for name, (unit, rows) in cases.items():
        machine = RBM(unit, units.Bernoulli(2)).double()
        machine.initialize(rows.to(F64), pseudocount=1e-9, seed=0)
        zero = torch.zeros(unit.shape, dtype=F64)
        torch.testing.assert_close(
            unit.mean(zero).detach(), rows.to(F64).mean(0), rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(("visible", "hidden"), [(64, 50), (200, 40)])
def test_weights_of_the_interaction_models_paper(visible: int, hidden: int) -> None:
    rows = data(sites=visible)
    machine = RBM(units.Bernoulli(visible), units.Bernoulli(hidden, bias=0.7)).double()
    machine.initialize(rows, weights="sign", seed=3)
    weight = machine.coupling.weight.detach()
    size = math.sqrt(0.1 / visible)
    torch.testing.assert_close(weight.abs(), torch.full_like(weight, size), rtol=1e-12, atol=0)
    share = (weight > 0).double().mean().item()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(weight.numel())
    # hidden biases -Wᵀ⟨v⟩: the mean input to every hidden unit is zero
    inputs = machine.coupling.up(rows) + machine.hidden.bias
    assert inputs.mean(0).abs().max() < 1e-12
    torch.testing.assert_close(machine.hidden.bias.detach(), -(rows.mean(0) @ weight), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("options", "scale"), [({}, 0.01), ({"scale": 0.3}, 0.3)])
def test_normal_weights(options: dict[str, float], scale: float) -> None:
    machine = RBM(units.Bernoulli(100), units.Bernoulli(80))
    machine.initialize(seed=1, **options)
    weight = machine.coupling.weight.detach().double()
    n = weight.numel()
    assert abs(weight.mean().item()) < 4 * scale / math.sqrt(n)
    assert abs(weight.std().item() / scale - 1) < 4 / math.sqrt(2 * n)
    z = weight / scale
    assert abs((z**4).mean().item() - 3) < 4 * math.sqrt(96 / n)  # a Gaussian, not only its variance


def test_a_mask_stays() -> None:
    for weights in ("normal", "sign"):
        machine = RBM(units.Bernoulli(8), units.Bernoulli(5), couplings.Masked(8, 5, degree=3, seed=2))
        machine.initialize(weights=weights, seed=1)
        assert torch.equal(machine.coupling.weight != 0, machine.coupling.mask != 0)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(InvalidOption, match="did you mean 'normal'"):
        RBM(units.Bernoulli(8), units.Bernoulli(5)).initialize(weights="norml")


def test_fit_initializes_new_machines_only() -> None:
    rows = draw(binary(5, 3, seed=1), 40)
    trained = binary(5, 3, seed=4)
    before = parameters(trained)
    frozen = {"epochs": 1, "batch_size": 20, "optimizer": lambda p: torch.optim.SGD(p, lr=0.0), "seed": 3}
    hm.fit(trained, rows, **frozen)
    assert all(torch.equal(value, before[name]) for name, value in parameters(trained).items())
    new = RBM(units.Bernoulli(5), units.Bernoulli(3)).double()
    hm.fit(new, rows, **frozen)
    torch.testing.assert_close(new.visible.bias.detach(), torch.logit((rows.sum(0) + 1) / 42))
    assert 0 < new.coupling.weight.abs().max() < 0.05
    again = binary(5, 3, seed=4)
    hm.fit(again, rows, initialize="sign", **frozen)
    assert again.coupling.weight.detach().abs().unique().numel() == 1
    zero = RBM(units.Bernoulli(5), units.Bernoulli(3)).double()
    hm.fit(zero, rows, initialize="keep", **frozen)
    assert not any(bool(value.any()) for value in parameters(zero).values())


def test_the_preset_starts_at_the_modes():
    """With this preset, fit starts as with initialize="modes", and an own value replaces it."""
    rows = hm.data.load("digits", binarize="threshold")[:200]
    found = {}
    for name, options in (("preset", {}), ("same", {"initialize": "modes"}), ("other", {"initialize": "normal"})):
        rbm = hm.RBM(64, 8)
        hm.fit(rbm, rows, plan="modes", epochs=1, batch_size=200, learning_rate=1e-9, seed=0, progress=False, **options)
        found[name] = rbm.coupling.weight.detach().norm().item()
    assert found["preset"] == found["same"] > 5 * found["other"]

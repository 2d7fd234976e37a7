"""Greedy and joint training of deep belief networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from training_helpers import (
    F64,
    adam,
    assert_close,
    assert_same,
    generator,
    gradients,
    log_likelihood,
    parameters,
    sgd,
    step,
)

import harmonium as hm
from harmonium import units
from harmonium.training import HiddenStates, joint
from harmonium.training.batches import as_source
from harmonium.training.loop import Training

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")

PATTERNS = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]], dtype=F64)


def rows(n: int = 90, flips: float = 0.05) -> torch.Tensor:
    noise = torch.rand(n, 6, generator=generator(5), dtype=F64) < flips
    return (PATTERNS.repeat(n // 3, 1) - noise.to(F64)).abs()


DATA = rows()


def stack(inputs: str = "samples", layers: Any = (6, 4, 3, 2)) -> hm.DeepBeliefNetwork:
    network = hm.DeepBeliefNetwork.of(layers, inputs=inputs).double()
    network.initialize(DATA, scale=0.5, seed=1)
    return network


def options(**more: Any) -> dict[str, Any]:
    return {"epochs": 3, "batch_size": 30, "seed": 0, "progress": False, **more}


# -- joint training ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["samples", "means"])
@pytest.mark.parametrize(
    "optimizer", [None, sgd(0.1, momentum=0.9), adam(0.01)], ids=["default", "momentum", "adam"]
)  # fmt: skip
def test_the_lowest_machine_learns_as_it_does_alone(inputs, optimizer):
    """Its gradient does not depend on the machines above; with exact gradients there is no randomness."""
    network, alone = stack(inputs), stack().machines[0]
    parts = {"penalties": [hm.L2(0.01)], "constraints": [hm.Average(0.5, every=1)]}
    hm.fit(network, DATA, negative=hm.Exact(), optimizer=optimizer, **parts, **options())
    hm.fit(alone, DATA, negative=hm.Exact(), optimizer=optimizer, **parts, **options())
    assert_same(parameters(network.machines[0]), parameters(alone))


@pytest.mark.parametrize("phase", [hm.CD(2), hm.PCD(1), hm.ParallelTempering(1, rungs=2)], ids=repr)
def test_a_stack_of_one_machine_is_that_machine(phase):
    network, alone = stack(layers=(6, 3)), stack(layers=(6, 3)).machines[0]
    first = hm.fit(network, DATA, negative=phase, **options())
    second = hm.fit(alone, DATA, negative=phase, **options())
    assert_same(parameters(network.machines[0]), parameters(alone))
    assert first.history[-1]["reconstruction_1"] == second.history[-1]["reconstruction"]


@pytest.mark.parametrize("inputs", ["samples", "means"])
def test_the_gradient_is_that_of_the_sum_of_the_losses(inputs):
    """The moments of the phase against automatic differentiation, machine by machine, on the same states."""
    network = stack(inputs)
    source = as_source(DATA[:30], network)
    plan = hm.Plan(negative="cd:1", epochs=1, centered=False, optimizer="sgd", learning_rate=0.0625, seed=0)
    plan = plan.resolved(network, source)
    training, before = Training(network, source, plan, initialize=False), parameters(network)
    losses = []
    for learner, (rbm, rows) in zip(training.learners, network.stacked(DATA[:30], generator=generator(7)), strict=True):
        gradient, _ = step(hm.CD(1), rbm, rows, generator(7), state=learner.state)
        found = gradients(rbm)
        rbm.zero_grad()
        gradient.loss().backward()
        assert_close(found, gradients(rbm), 1e-12)
        losses.append(gradient)
    assert len(losses) == 3
    training.one_epoch()
    assert all(not torch.equal(value, before[name]) for name, value in parameters(network).items())


@pytest.mark.parametrize("inputs", ["samples", "means"])
@pytest.mark.slow
def test_every_machine_improves_on_its_own_input(inputs):
    """Exact likelihoods of all three machines on their inputs, compared with independent units."""
    network = stack(inputs)
    network.initialize(DATA, scale=0.1, seed=1)
    hm.fit(network, DATA, negative=hm.CD(5), optimizer=adam(0.03), **options(epochs=150))
    sampled = network.stacked(DATA.repeat(20, 1), generator=generator(3), inputs="samples")
    for (rbm, x), least in zip(sampled, (1.0, 0.1, 0.01), strict=True):
        apart = hm.RBM(rbm.visible.size, rbm.hidden.size).double()
        apart.visible.initialize_from(x)
        assert log_likelihood(rbm, x) > log_likelihood(apart, x) + least


@pytest.mark.slow
def test_joint_training_raises_the_variational_bound():
    network = stack(layers=(6, 4, 4))
    network.initialize(DATA, scale=0.1, seed=1)

    def estimate() -> float:
        return hm.likelihood.estimate(network, DATA, runs=5, betas=5, sampling_sweeps=5, seed=0).value

    before = estimate()
    hm.fit(network, DATA, negative=hm.CD(5), optimizer=adam(0.03), **options(epochs=100))
    assert estimate() > before + 1.0


def test_the_offset_of_an_upper_machine_follows_its_input():
    """With a moved lower machine, μ of the upper one becomes the new mean of its input."""
    network = stack()
    source = as_source(DATA, network)
    plan = hm.Plan(negative="cd:1", epochs=1, batch_size=30, centered=0.5, optimizer=sgd(0.0), seed=0)
    training = Training(network, source, plan.resolved(network, source), initialize=False)
    with torch.no_grad():
        network.machines[0].hidden.bias.fill_(3.0)
    for _ in range(20):
        training.one_epoch()
    offsets = [learner.coordinates.state() for learner in training.learners]
    mean = network.machines[0].hidden_mean(DATA).mean(0)
    assert (offsets[1]["offsets"][0] - mean).abs().max() < 0.1
    assert torch.equal(offsets[0]["offsets"][0], DATA.mean(0))  # the data do not move


class Stop(hm.Callback):
    """Stop after the second epoch."""

    def on_epoch(self, progress: Any) -> None:
        progress.stop = progress.epoch == 2


@pytest.mark.slow
@pytest.mark.parametrize("phase", [hm.CD(1), hm.PCD(2, chains=7)], ids=["cd", "pcd"])
@pytest.mark.parametrize("inputs", ["samples", "means"])
def test_a_run_resumes_bit_for_bit(phase, inputs, tmp_path):
    def train(folder: str, negative: Any = phase, **more: Any) -> hm.DeepBeliefNetwork:
        network, parts = stack(inputs), {"penalties": [hm.L2(0.01)], "constraints": [hm.Average(0.5)]}
        run = {"run": tmp_path / folder, "optimizer": adam(0.01), "validation": DATA[:30], **parts}
        hm.fit(network, DATA, negative=negative, **run, **options(epochs=4), **more)
        return network

    whole = train("whole")
    train("halves", callbacks=[Stop()])
    assert_same(parameters(whole), parameters(train("halves", resume=True)))
    files = [(tmp_path / folder / "checkpoints" / "last.safetensors").read_bytes() for folder in ("whole", "halves")]
    assert files[0] == files[1]
    loaded = hm.load(tmp_path / "whole")
    assert isinstance(loaded, hm.DeepBeliefNetwork) and loaded.inputs == inputs
    assert_same(parameters(loaded), parameters(whole))
    with pytest.raises(hm.errors.RunError, match=r"training\.negative {'name': 'exact'}"):
        train("whole", negative=hm.Exact(), resume=True)


@pytest.mark.slow
def test_metrics_and_rates_of_every_machine():
    network = stack()
    history = hm.fit(network, DATA, validation=DATA[:30], **options()).history
    for name in ("reconstruction", "pseudo_likelihood", "free_energy_gap"):
        assert {f"{name}_{k}" for k in (1, 2, 3)} <= history[-1].keys()
    assert {"weight_norm", "epoch"} <= history[-1].keys() and "reconstruction" not in history[-1]
    groups = hm.training.default_groups(network, DATA)
    assert len(groups) == 9 and all(0 < group["lr"] <= 0.5 for group in groups)
    means = hm.fit(stack("means"), DATA, **options()).history[-1]
    assert "pseudo_likelihood_1" in means and "pseudo_likelihood_2" not in means  # means are not in the support


def test_only_machines_with_zero_weights_are_initialized():
    network = hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    network.machines[0].initialize(DATA, scale=0.5, seed=1)
    kept = parameters(network.machines[0])
    hm.fit(network, DATA, optimizer=sgd(0.0), **options(epochs=1))
    assert_same(parameters(network.machines[0]), kept)
    assert network.machines[1].weight.any()


@pytest.mark.slow
def test_transforms_where_they_apply():
    network = hm.DeepBeliefNetwork([hm.RBM(units.Potts((2, 3)), 4), hm.RBM(4, 2)]).double()
    data = torch.eye(3, dtype=F64)[torch.randint(3, (60, 2), generator=generator(0))]
    hm.fit(network, data, penalties=[hm.L1(0.01)], constraints=[hm.ZeroSum()], **options())
    assert network.machines[0].weight.view(2, 3, 4).sum(1).abs().max() < 1e-12
    with pytest.raises(hm.errors.InvalidOption, match="ZeroSum expects a layer of one-hot"):
        hm.fit(stack(), DATA, constraints=[hm.ZeroSum()], centered=False, **options())
    fixed = hm.DeepBeliefNetwork([hm.RBM(6, 4), hm.RBM(4, units.Bernoulli(2, learn=()))])
    with pytest.raises(hm.errors.InvalidOption, match="machine 2: centered: expected every bias"):
        hm.fit(fixed, DATA, **options())


@pytest.mark.slow
def test_a_growing_number_of_sweeps_and_other_batches():
    phase = hm.CD(1)
    hm.fit(stack(), DATA[:70], negative=phase, schedule=hm.Growing(1), **options())  # last batch: 10 rows
    assert phase.k == 1
    schedule = lambda clock: hm.training.Setting(batch_size=10 * clock.epoch)  # noqa: E731
    hm.fit(stack(), DATA, negative=hm.PCD(1), schedule=schedule, **options())


def test_rounded_products():
    network = hm.DeepBeliefNetwork.of([6, 4, 3])
    hm.fit(network, DATA, precision="bfloat16", **options())
    assert network.dtype == torch.float32 and network.machines[1].weight.any()


def test_mixing_time_expects_one_machine():
    with pytest.raises(hm.errors.InvalidOption, match=r"a stack of 3; use it with hm.pretrain"):
        hm.fit(stack(), DATA, callbacks=[hm.MixingTime()], **options())


# -- the loss for automatic differentiation ----------------------------------------------------------------------------


def test_the_loss_separates_unless_gradients_go_through():
    network = stack("means")
    joint(network, DATA, seed=0).backward()
    apart = gradients(network)
    network.zero_grad()
    joint(network, DATA, through=True, seed=0).backward()
    through = gradients(network)
    differ = {name for name in apart if not torch.allclose(apart[name], through[name])}
    lower = [f"machines.{k}.{part}" for k in (0, 1) for part in ("coupling.weight", "hidden.bias")]
    assert differ == set(lower)  # not the visible biases, on which the features do not depend


def test_the_gradient_through_the_means_by_finite_differences():
    network = stack("means")

    def positive(part: hm.DeepBeliefNetwork) -> torch.Tensor:  # the part of the loss that depends on the features
        return sum(rbm.free_energy(x, check=False).mean() for rbm, x in part.stacked(DATA[:5]))  # type: ignore[return-value]

    weight = network.machines[0].weight
    (slope,) = torch.autograd.grad(positive(network), weight)
    step = 1e-6
    with torch.no_grad():
        values = []
        for sign in (1, -1):
            weight[2, 1] += sign * step
            values.append(positive(network).item())
            weight[2, 1] -= sign * step
    assert slope[2, 1].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)


def test_errors_of_the_loss():
    with pytest.raises(hm.errors.InvalidOption, match='through: expected a network with inputs="means"'):
        joint(stack(), DATA, through=True)
    with pytest.raises(hm.errors.InvalidOption, match="k: expected at least 1"):
        joint(stack(), DATA, k=0)


# -- greedy training ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_greedy_training_is_fit_on_hidden_states():
    network = hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    results = hm.pretrain(network, DATA, **options(epochs=(2, 3)))
    assert [len(result.history) for result in results] == [2, 3]
    again = hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    hm.fit(again.machines[0], DATA, **options(epochs=2))
    hm.fit(again.machines[1], HiddenStates(again, DATA, 1), **options(epochs=3, seed=1))
    assert_same(parameters(network), parameters(again))


def test_a_deep_boltzmann_machine_gets_the_parameters_of_the_stack():
    deep, network = hm.DeepBoltzmannMachine([6, 4, 3]).double(), hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    for machine in (deep, network):
        hm.pretrain(machine, DATA, **options())
    assert torch.equal(deep.couplings[1].weight, network.machines[1].weight)
    assert torch.equal(deep.layers[2].bias, network.machines[1].hidden.bias)
    assert torch.equal(deep.layers[1].bias, network.machines[0].hidden.bias)
    assert torch.equal(deep.layers[0].bias, network.visible.bias)


@pytest.mark.slow
def test_greedy_runs_resume(tmp_path):
    whole = hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    hm.pretrain(whole, DATA, run=tmp_path / "whole", validation=DATA[:30], **options(epochs=2))
    assert "free_energy_gap" in hm.Run(tmp_path / "whole" / "machine-2").read_metrics()[-1]

    class Stop(hm.Callback):
        def on_epoch(self, progress: Any) -> None:
            if progress.machine.visible.size == 4:
                raise KeyboardInterrupt

    run = {"run": tmp_path / "halves", "validation": DATA[:30]}
    with pytest.raises(KeyboardInterrupt):
        hm.pretrain(hm.DeepBeliefNetwork.of([6, 4, 3]).double(), DATA, callbacks=[Stop()], **run, **options(epochs=2))
    again = hm.DeepBeliefNetwork.of([6, 4, 3]).double()
    hm.pretrain(again, DATA, resume=True, **run, **options(epochs=2))
    assert_same(parameters(whole), parameters(again))


@pytest.mark.slow
def test_greedy_training_raises_the_variational_bound():
    """A second machine that starts as the transpose of the first can only improve the bound (Hinton et al. 2006)."""
    network = stack(layers=(6, 4, 6))
    network.machines[0].initialize(scale=2.0, seed=1)
    hm.pretrain(network, DATA, transposed=True, optimizer=sgd(0.0), **options(epochs=1))
    first = log_likelihood(network.machines[0], DATA)
    states = HiddenStates(network, DATA, 1)
    hm.fit(network.machines[1], states, negative=hm.Exact(), optimizer=adam(0.02), **options(epochs=30))
    found = hm.likelihood.exact(network).log_likelihood(DATA, runs=50, seed=0)
    assert log_likelihood(network.machines[0], DATA) == first
    assert found.interval[0] > first + 0.05


@pytest.mark.slow
def test_hidden_states_stream(monkeypatch):
    """No call passes more than a chunk of rows up, and training only batches, first rows and metric rows."""
    network = stack()
    states = HiddenStates(network, DATA, 2)
    monkeypatch.setattr("harmonium.training.batches.hidden.CHECK_ELEMENTS", 60)  # 10 rows of 6
    seen: list[int] = []
    sample = type(network.machines[0]).sample_hidden
    monkeypatch.setattr(
        hm.RBM, "sample_hidden", lambda self, v, **more: (seen.append(len(v)), sample(self, v, **more))[1]
    )
    assert states.rows(torch.arange(90), network).shape == (90, 3)
    assert max(seen) == 10 and len(seen) == 18
    seen.clear()
    hm.pretrain(network, DATA, **options(batch_size=7))
    assert max(seen) <= 10


def test_hidden_states_are_those_of_the_network():
    network = stack()
    states = HiddenStates(network, DATA[:1].repeat(3000, 1), 1)
    mean = network.machines[0].hidden_mean(DATA[:1])[0]
    index = torch.arange(3000)
    drawn = [
        states.take(index, torch.empty(3000, 4, dtype=F64), noise) for noise in (generator(1), generator(2), None, None)
    ]
    for x in drawn:
        assert ((x.mean(0) - mean).abs() < 4.5 * (mean * (1 - mean) / 3000).sqrt()).all()
    assert not torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[2], drawn[3])
    network.inputs = "means"
    torch.testing.assert_close(states.take(index, torch.empty(3000, 4, dtype=F64))[0], mean)
    weighted = hm.Weighted(states, torch.ones(3000))  # sources combine
    assert weighted.shape == (4,)


def test_errors_of_greedy_training():
    with pytest.raises(hm.errors.InvalidOption, match="epochs: expected one number for each of 3 machines"):
        hm.pretrain(stack(), DATA, epochs=(1, 2))
    with pytest.raises(hm.errors.InvalidData, match="binary values"):
        hm.pretrain(stack(), DATA + 1)
    with pytest.raises(hm.errors.InvalidData, match="layer: expected a number from 1 to 2, found 3"):
        HiddenStates(stack(), DATA, 3)

"""Every negative phase reaches the same maximum of the exact likelihood."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor
from training_helpers import binary, draw, generator, gradients, log_likelihood, parameters, randomize, rbm, sgd, step

import harmonium as hm
from harmonium import units
from harmonium.machines import RBM
from harmonium.training.callbacks import Callback, Progress
from harmonium.training.negative import NegativePhase
from harmonium.training.schedules import Clock, Growing, Linear, Setting


def exact_gradient(machine: RBM, data: Tensor) -> dict[str, Tensor]:
    """The gradient of the mean negative log-likelihood over all the rows."""
    step(hm.Exact(), machine, data)
    return gradients(machine)


def optimum(machine: RBM, data: Tensor, starts: int = 3) -> float:
    """The largest mean log-likelihood found by a quasi-Newton method, as a reference for the other methods."""
    free = [p for p in machine.parameters() if p.requires_grad]

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(x), free)
        slope = exact_gradient(machine, data)
        return -log_likelihood(machine, data), torch.cat([g.flatten() for g in slope.values()]).numpy()

    size = sum(p.numel() for p in free)
    noise = np.random.default_rng(0)
    found = [minimize(function, noise.normal(0, 0.3, size), jac=True, method="L-BFGS-B") for _ in range(starts)]
    return -min(result.fun for result in found)


def growing_and_decaying(clock: Clock) -> Setting:
    """The sweeps of Growing, the rate falling to zero at the end so that the noise of the chains does not stay."""
    return Setting(rate=Linear(0.3)(clock).rate, k=Growing(10)(clock).k)


@pytest.fixture(scope="module")
def problem() -> tuple[Tensor, float]:
    data = draw(binary(6, 3, seed=0, weight=2.0), 2000, seed=1)
    return data, optimum(binary(6, 3), data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("negative", "schedule"),
    [
        (hm.Exact(), Linear(0.3)),
        (hm.PCD(1, chains=500), Linear(0.3)),
        (hm.PCD(5), Linear(0.3)),
        (hm.CD(20), Linear(0.3)),
        (hm.CD(1), growing_and_decaying),
        (hm.PCD(1), growing_and_decaying),
    ],
    ids=["exact", "pcd-1", "pcd-5", "cd-20", "cd-growing", "pcd-growing"],
)
def test_reaches_the_maximum_of_the_likelihood(
    negative: NegativePhase, schedule: hm.training.Schedule, problem: tuple[Tensor, float]
) -> None:
    data, best = problem
    machine = RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
    hm.fit(
        machine,
        data,
        negative=negative,
        epochs=100,
        batch_size=200,
        optimizer=sgd(1.0, momentum=0.5),
        schedule=schedule,
        seed=1,
        initialize="normal:0.3",
    )
    found = log_likelihood(machine, data)
    assert best - 0.02 < found <= best + 1e-6
    independent = RBM(units.Bernoulli(6), units.Bernoulli(1)).double()
    independent.visible.initialize_from(data)
    assert found - log_likelihood(independent, data) > 0.2  # the weights matter


KINDS = {
    "bernoulli": lambda: RBM(units.Bernoulli(5), units.Bernoulli(2)),
    "spin": lambda: RBM(units.Spin(5), units.Spin(2)),
    "spin-bernoulli": lambda: RBM(units.Spin(5), units.Bernoulli(2)),
    "potts": lambda: RBM(units.Potts((3, 3)), units.Bernoulli(2)),
    "potts-hidden": lambda: RBM(units.Bernoulli(5), units.Potts((1, 3))),
    "binomial": lambda: RBM(units.Binomial(3, trials=3), units.Bernoulli(2)),
    "binomial-hidden": lambda: RBM(units.Bernoulli(5), units.Binomial(2, trials=3)),
    "multinomial": lambda: RBM(units.Multinomial(3, total=4), units.Bernoulli(2)),
    "multinary-hidden": lambda: RBM(units.Bernoulli(5), units.Multinary(2, levels=3)),
    "gaussian-hidden": lambda: RBM(units.Bernoulli(5), units.Gaussian(2, precision=2.0)),
    "relu-hidden": lambda: RBM(units.Bernoulli(5), units.ReLU(2, precision=2.0)),
    "double-relu-hidden": lambda: RBM(units.Bernoulli(5), units.DoubleReLU(2)),
    "truncated-gaussian-hidden": lambda: RBM(units.Spin(5), units.TruncatedGaussian(2, low=-1.0, high=1.0)),
    "spike-and-slab-hidden": lambda: RBM(units.Spin(5), units.TruncatedGaussBernoulli(2, low=-1.0, high=1.0)),
    "mixed": lambda: RBM(units.Mixed(units.Bernoulli(3), units.Potts((1, 3))), units.Bernoulli(2)),
}


class Likelihoods(Callback):
    def __init__(self, data: Tensor) -> None:
        self.data, self.values = data, []

    def on_start(self, progress: Progress) -> None:
        self.on_epoch(progress)

    def on_epoch(self, progress: Progress) -> None:
        self.values.append(log_likelihood(progress.machine, self.data))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_exact_training_climbs_for_every_unit(kind: str) -> None:
    """With all rows in one batch, Exact() is gradient ascent of the likelihood: it never decreases at a small rate."""
    teacher = KINDS[kind]().double()
    randomize(teacher, 1, weight=1.0, bias=0.2, others=0.0)
    data = draw(teacher, 300, seed=2)
    machine = KINDS[kind]().double()
    watched = Likelihoods(data)
    hm.fit(
        machine,
        data,
        negative=hm.Exact(),
        epochs=40,
        batch_size=300,
        optimizer=sgd(0.05),
        seed=0,
        initialize="normal:0.7",
        callbacks=[watched],
    )
    steps = np.diff(watched.values)
    assert (steps > -1e-10).all()
    assert watched.values[-1] > watched.values[0] + 0.01
    # the gradient is the slope of the likelihood: it predicts the gain of a small step
    slope = exact_gradient(machine, data)
    before = log_likelihood(machine, data)
    for name, parameter in machine.named_parameters():
        if name in slope:
            parameter.data.sub_(slope[name], alpha=1e-6)
    gain = sum(g.square().sum().item() for g in slope.values()) * 1e-6
    assert log_likelihood(machine, data) - before == pytest.approx(gain, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bernoulli", "spin", "potts", "gaussian-hidden", "relu-hidden", "binomial"])
def test_exact_training_ends_where_the_gradient_vanishes(kind: str) -> None:
    """Data with the exact probabilities of a machine: training from nearby ends at zero gradient and divergence."""
    teacher = KINDS[kind]().double()
    randomize(teacher, 2, weight=0.8, bias=0.3, others=0.0)
    states, log_p = teacher.distribution()
    counts = (log_p.exp() * 5_000).round().long().clamp_min(1)
    data = states.repeat_interleave(counts, 0)
    machine = KINDS[kind]().double()
    machine.load_state_dict(teacher.state_dict())
    for seed, parameter in enumerate(machine.parameters()):
        if parameter.requires_grad:
            parameter.data.add_(torch.empty_like(parameter).normal_(0.0, 0.1, generator=generator(seed + 10)))
    start = max(g.abs().max().item() for g in exact_gradient(machine, data).values())
    hm.fit(
        machine,
        data,
        negative=hm.Exact(),
        epochs=500,
        batch_size=len(data),
        optimizer=sgd(0.3, momentum=0.9),
        seed=0,
        initialize="keep",
    )
    end = max(g.abs().max().item() for g in exact_gradient(machine, data).values())
    assert start > 1e-2
    assert end < 1e-4
    entropy = -(counts / counts.sum() * (counts / counts.sum()).log()).sum().item()
    assert -entropy - log_likelihood(machine, data) < 1e-4  # only the rounding of the counts remains


def test_a_gradient_of_zero_stays() -> None:
    """At the maximum itself the moments of data and model agree to rounding."""
    teacher = rbm(units.Bernoulli(4), units.Bernoulli(2), seed=5)
    states, log_p = teacher.distribution()
    free_energy = teacher.free_energy(states)
    model = torch.autograd.grad((log_p.exp() * free_energy).sum(), list(teacher.parameters()))
    step(hm.Exact(), teacher, states)
    uniform = torch.autograd.grad(teacher.free_energy(states).mean(), list(teacher.parameters()))
    for parameter, a, b in zip(teacher.parameters(), uniform, model, strict=True):
        torch.testing.assert_close(parameter.grad, a - b, rtol=1e-12, atol=1e-12)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("negative", [hm.CD(1), hm.CD(3), hm.PCD(1), hm.PCD(2, chains=70)])
def test_documents_keep_their_lengths(negative: NegativePhase) -> None:
    noise = generator(0)
    lengths = torch.randint(1, 12, (300,), generator=noise)
    data = torch.zeros(300, 6, dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        topic = torch.tensor([0, 1, 2]) if row % 2 else torch.tensor([3, 4, 5])
        words = topic[torch.randint(3, (length,), generator=noise)]
        data[row] = torch.bincount(words, minlength=6)
    machine = RBM(units.Multinomial(6), units.Bernoulli(2)).double()

    class Lengths(Callback):
        seen = 0

        def on_epoch(self, progress: Progress) -> None:
            type(self).seen += 1

    result = hm.fit(
        machine, data, negative=negative, epochs=30, batch_size=50, optimizer=sgd(0.05), seed=0, callbacks=[Lengths()]
    )
    assert Lengths.seen == 30
    gradient, _ = step(negative, machine, data[:50], generator(1))
    chains, batch = gradient.loss.__self__.model, data[:50].sum(-1)  # type: ignore[union-attr]
    assert torch.equal(chains, chains.floor()) and bool((chains >= 0).all())
    assert len(batch.unique()) > 3  # the chains have the document lengths of the batch
    assert torch.equal(chains.sum(-1), batch[torch.arange(len(chains)) % len(batch)])
    # it has learned that the topics exclude each other: words of one raise words of the same topic
    one, other = torch.zeros(1, 6, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.float64)
    one[0, 0], other[0, 3] = 5, 5
    assert machine.reconstruct(one)[0, :3].sum() > 4
    assert machine.reconstruct(other)[0, 3:].sum() > 4
    assert result.history[-1]["reconstruction"] < 0.7 * result.history[0]["reconstruction"]
    assert all(torch.isfinite(p).all() for p in parameters(machine).values())

"""Invalid arguments of ``fit``, and checks during training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.errors import Diverged, InvalidOption, NotNormalizable, RunError
from harmonium.training import Constant, Growing

DATA = (torch.rand(60, 6, generator=torch.Generator().manual_seed(0)) < 0.4).float()


def binary() -> hm.RBM:
    return hm.RBM(units.Bernoulli(6), units.Bernoulli(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negative": "pdc"}, "unknown negative phase 'pdc': did you mean 'pcd'"),
        ({"negative": hm.PCD}, "negative: expected a phase"),
        ({"optimizer": "adan"}, "unknown optimizer 'adan': did you mean 'adam'"),
        ({"optimizer": 3}, "optimizer: expected a torch.optim"),
        ({"schedule": 0.5}, "schedule: expected a function"),
        ({"penalties": [hm.Average()]}, r'penalties: expected a list such as \["l2:0\.001"\]'),
        ({"epochs": 1.5}, "epochs: expected a whole number"),
        ({"seed": "a"}, "seed: expected a whole number"),
        (
            {"optimizer": torch.optim.SGD(binary().parameters(), lr=0.1)},
            "expected only parameters of the trained machine",
        ),
    ],
)
def test_wrong_objects(options, message) -> None:
    with pytest.raises(InvalidOption, match=message):
        hm.fit(binary(), DATA, **{"epochs": 1, "batch_size": 20, **options})


def test_numpy_integers_are_integers() -> None:
    machine = hm.RBM(units.Bernoulli(np.int64(6)), units.Bernoulli((np.int32(3),)))
    hm.fit(machine, DATA, epochs=np.int64(1), batch_size=np.int64(20), seed=np.int64(3))


@pytest.mark.parametrize("shape", [5.0, "5", (2.0,), None])
def test_a_shape_is_made_of_integers(shape) -> None:
    with pytest.raises(InvalidOption, match="bernoulli: expected a number of units"):
        units.Bernoulli(shape)


def test_pairs_without_a_partition_function_are_not_trained() -> None:
    counts = torch.poisson(torch.full((60, 4), 2.0), generator=torch.Generator().manual_seed(0))
    for hidden in (units.Gaussian(3), units.Poisson(3), units.ReLU(3)):
        with pytest.raises(NotNormalizable, match="no finite partition function"):
            hm.fit(hm.RBM(units.Poisson(4), hidden), counts, epochs=1, batch_size=20)


@pytest.mark.slow
def test_training_does_not_leave_the_normalizable_machines() -> None:
    """The best weights are at 0.9965 of the spectral bound, where single steps pass it."""
    x = 3 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0)) @ torch.ones(4, 4)
    machine = hm.RBM(units.Gaussian(4), units.Gaussian(3))
    hm.fit(machine, x, epochs=20, batch_size=20, progress=False, optimizer=lambda p: torch.optim.SGD(p, lr=0.05))
    machine.check_normalizable()
    assert torch.linalg.matrix_norm(machine.weight, 2).item() > 0.9


def test_absurd_parameters_are_divergence() -> None:
    with pytest.raises(Diverged, match=r"reaches .*e\+"):
        hm.fit(binary(), DATA, epochs=2, batch_size=20, optimizer=lambda p: torch.optim.SGD(p, lr=1e30))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"training.seed 1 \(was 0\)"),
        ({"negative": hm.CD(1)}, r"training.negative {'name': 'cd', 'k': 1} \(was {'name': 'pcd', 'k': 1}\)"),
        ({"optimizer": lambda p: torch.optim.Adam(p)}, r"training.optimizer custom \(was {'name': 'sgd'"),
        ({"penalties": [hm.L2(0.1)], "centered": False}, "training.centered False"),
        ({"data": DATA[:40]}, "rows: expected 60, as in the run, found 40"),
    ],
)
def test_a_run_is_resumed_with_what_it_was_made_with(tmp_path, change, message) -> None:
    def train(epochs: int, resume: bool, data=DATA, **options) -> None:
        options = {"negative": "pcd:1", "seed": 0, **options}
        hm.fit(binary(), data, epochs=epochs, batch_size=20, run=tmp_path / "run", resume=resume, **options)

    train(1, False)
    with pytest.raises(RunError, match=message):
        train(2, True, **change)
    train(2, True)


@pytest.mark.slow
def test_parallel_tempering_resumes_to_the_bit(tmp_path) -> None:
    def train(folder: str, epochs: int, resume: bool) -> torch.Tensor:
        machine = binary()
        hm.fit(
            machine,
            DATA,
            negative=hm.ParallelTempering(1, rungs=3),
            epochs=epochs,
            batch_size=20,
            initialize="sign",
            seed=0,
            schedule="constant",  # a schedule that ends at zero depends on the number of epochs
            run=tmp_path / folder,
            resume=resume,
        )
        return machine.coupling.weight.detach()

    whole = train("whole", 4, False)
    train("broken", 2, False)
    assert torch.equal(train("broken", 4, True), whole)


def test_equal_runs_make_equal_files(tmp_path) -> None:
    for name in ("a", "b"):
        hm.fit(binary(), DATA, epochs=2, batch_size=20, seed=0, run=tmp_path / name)
    files = [(tmp_path / name / "checkpoints" / "last.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]


def test_a_schedule_leaves_the_phase_as_it_was() -> None:
    phase = hm.PCD(1)
    hm.fit(binary(), DATA, negative=phase, epochs=4, batch_size=20, schedule=Growing(1))
    assert phase.k == 1
    assert math.isclose(Constant()(None).rate, 1.0)  # type: ignore[arg-type]


def test_an_average_is_applied_when_training_is_stopped() -> None:
    class Stop(hm.Callback):
        def on_epoch(self, progress) -> None:
            self.before = progress.machine.coupling.weight.detach().clone()
            progress.stop = progress.epoch == 3

    machine, stop = binary(), Stop()
    hm.fit(
        machine, DATA, epochs=4, batch_size=20, constraints=[hm.Average(1.0, every=1)], centered=False, callbacks=[stop]
    )
    assert not torch.equal(machine.coupling.weight, stop.before)


class Ternary(units.Unit):
    """A user-defined unit with three methods and a support."""

    support = units.support.Values("-1, 0 or 1", (-1.0, 0.0, 1.0))

    def log_weight(self, x):
        return self.bias * x

    def log_partition(self, B, A=None):
        field = self.bias + B
        return torch.logsumexp(torch.stack([field, -field, torch.zeros_like(field)]), 0)

    def sample(self, B, *, generator=None, A=None):
        field = (self.bias + B).detach()
        p = torch.softmax(torch.stack([-field, torch.zeros_like(field), field], -1), -1)
        u = torch.rand(field.shape, generator=generator, dtype=field.dtype).unsqueeze(-1)
        return (u > p.cumsum(-1)).sum(-1).clamp(max=2).to(field.dtype) - 1


@pytest.mark.parametrize("phase", [hm.CD(1), hm.PCD(1), hm.Exact()])
@pytest.mark.slow
def test_a_unit_of_ones_own_trains(phase, tmp_path) -> None:
    data = torch.randint(-1, 2, (90, 4), generator=torch.Generator().manual_seed(0)).double()
    data[:, 1] = data[:, 0]
    machine = hm.RBM(Ternary(4), Ternary(2)).double()
    machine.initialize(data, seed=0)
    torch.testing.assert_close(
        machine.visible.mean(torch.zeros(4, dtype=torch.float64)).detach(), data.mean(0), rtol=1e-6, atol=1e-9
    )
    before = hm.likelihood.exact(machine).log_likelihood(data).value
    hm.fit(
        machine,
        data,
        negative=phase,
        epochs=150,
        batch_size=30,
        initialize="keep",
        optimizer=lambda p: torch.optim.SGD(p, lr=0.5),
        seed=0,
    )
    assert hm.likelihood.exact(machine).log_likelihood(data).value > before + 0.1
    hm.save(machine, tmp_path / "machine.safetensors")
    assert torch.equal(hm.load(tmp_path / "machine.safetensors").free_energy(data), machine.free_energy(data))


def test_names_of_units_are_not_taken_twice() -> None:
    with pytest.raises(InvalidOption, match="choose another name"):
        type("Bernoulli", (units.Unit,), {"__module__": "elsewhere"})


def test_an_unbounded_unit_has_to_say_how_it_falls() -> None:
    unit = type("Wild", (Ternary,), {"support": units.support.real, "__module__": "elsewhere"})(2)
    with pytest.raises(InvalidOption, match=r"override tail\(\)"):
        hm.RBM(units.Bernoulli(3), unit).check_normalizable()


@pytest.mark.parametrize("unit", [units.Potts((2, 3)), units.Multinomial(3, total=4)], ids=["potts", "multinomial"])
def test_cumulants_of_vector_units(unit) -> None:
    torch.nn.init.normal_(unit.bias, generator=torch.Generator().manual_seed(1))
    unit.double()
    zero = torch.zeros(unit.shape, dtype=torch.float64)
    torch.testing.assert_close(unit.cumulant(1), unit.mean(zero).detach())
    torch.testing.assert_close(unit.cumulant(2), unit.variance(zero).detach())
    p = torch.softmax(unit.bias.detach(), -1)
    copies = unit.options.get("total", 1)
    torch.testing.assert_close(unit.cumulant(3), copies * p * (1 - p) * (1 - 2 * p))

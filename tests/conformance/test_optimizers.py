"""Every optimizer, with and without centering, for pairs of units: exact training never lowers the likelihood."""

from __future__ import annotations

import cases
import pytest
import torch

import harmonium as hm
from harmonium.training import outcome
from harmonium.training.callbacks import Callback, Progress

STEPS = 6
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.0),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-5),
}


class Likelihoods(Callback):
    def __init__(self, data: torch.Tensor) -> None:
        self.data, self.values = data, []

    def on_start(self, progress: Progress) -> None:
        self.on_epoch(progress)

    def on_epoch(self, progress: Progress) -> None:
        self.values.append(hm.likelihood.exact(progress.machine).log_likelihood(self.data).value)


@pytest.fixture(autouse=True)
def without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the check for learning after ``fit``, because so few steps learn little."""
    monkeypatch.setattr(outcome, "problems", lambda *_: [])


@pytest.mark.fast_cases(9)
@pytest.mark.parametrize("centered", [True, False], ids=["centered", "plain"])
@pytest.mark.parametrize("pair", cases.PHASES["exact"].pairs(), ids=cases.id_of)
def test_the_likelihood_never_falls(pair: tuple[str, str], centered: bool) -> None:
    case = cases.rbm(*pair)
    machine = case.build()
    source = cases.generator("data", pair)
    data = machine.visible.sample(torch.zeros(40, *machine.visible.shape, dtype=cases.F64), generator=source)
    start = {name: value.clone() for name, value in machine.state_dict().items()}
    for name, make in OPTIMIZERS.items():
        machine.load_state_dict(start)
        seen = Likelihoods(data)
        hm.fit(machine, data, negative=hm.Exact(), epochs=STEPS, batch_size=40, optimizer=make, callbacks=[seen],
               centered=centered, initialize="keep", progress=False)  # fmt: skip
        rises = torch.tensor(seen.values).diff()
        assert rises.min() > -1e-10, (name, seen.values)
        assert rises.sum() > 0, (name, seen.values)

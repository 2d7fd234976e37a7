"""A conditional RBM of human motion: the error of the next frame, free-running generation, and an animation.

The machine has Gaussian visible units, given the three frames before (Taylor, Hinton and Roweis 2006). It is compared
with repeating the last frame and with a linear autoregression of the same order and a quadratic penalty. All settings
are chosen on the last fifth of each training sequence; the test part, the last fifth of each sequence, is used once,
for the machine and the autoregression that are fitted to the whole training part. Errors are mean squares per
channel, in units of the standard deviations over the training part.

A tenth of the training frames moves in another way than the rest and dominates the squared errors. Rows with large
residuals of a linear autoregression are therefore drawn less often (``Windows.robust_weights``). To separate what the
hidden units contribute from what the weights do, the linear autoregression with the same weights and a machine without
weights are measured too. *Default settings* are those of ``hm.fit``, with robust weights and nothing else.

*Horizon* of a free-running forecast: the number of frames until its error exceeds that of the mean posture, at most 60.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import harmonium as hm
from harmonium.tasks import LinearAutoregression, forecast, next_frame

from .. import judging
from ..judging import Measured
from ..options import override
from ..record import Record
from . import skeleton

ORDER = 3
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
LENGTH = 60  # frames of a forecast
SPACING = 20  # frames between the starts of forecasts, and frames in a block of errors
CONTINUATIONS = 20


@dataclass(frozen=True)
class Settings:
    """The machine and its training."""

    hidden: int = 100
    power: float = 1.5
    epochs: int = 100
    learning_rate: float = 3e-3
    seeds: int = 3


SETTINGS = {"quick": Settings(epochs=30, seeds=1), "full": Settings()}
GRID = [(hidden, power) for power in (0.0, 1.0, 1.5) for hidden in (100, 200)]


def run(
    record: Record,
    scale: str,
    choose: bool = False,
    test: bool = True,
    hidden: int = 0,
    epochs: int = 0,
    seeds: int = 0,
    seed: int = 0,
) -> None:
    """Choose settings on validation frames if ``choose``; then train on all training frames and test, if ``test``."""
    settings = override(SETTINGS[scale], hidden=hidden, epochs=epochs, seeds=seeds)
    train = sequences("train")
    inner = [part[: len(part) * 4 // 5] for part in train]
    rows = hm.Windows(inner, ORDER, standardize=True)
    held_out = hm.Windows([part[len(part) * 4 // 5 :] for part in train], ORDER, standardize=rows)
    penalty = min(PENALTIES, key=lambda one: _error(held_out, LinearAutoregression.fitted(*rows[:], one)))
    record.say(f"linear autoregression: penalty {penalty:g}, validation error of the next frame "
               f"{_error(held_out, LinearAutoregression.fitted(*rows[:], penalty)):.5f}")  # fmt: skip
    if choose:
        settings = chosen(record, rows, held_out, settings, seed)
    if test:
        rows = hm.Windows(train, ORDER, standardize=True)
        tested(record, rows, hm.Windows(sequences("test"), ORDER, standardize=rows), settings, penalty, seed)


def sequences(split: str) -> list[Tensor]:
    """The three sequences of a part of the data, (frames, 49) each."""
    frames, sequence = hm.data.load("mocap", split=split, labels=True)
    frames, sequence = torch.as_tensor(frames).float(), torch.as_tensor(sequence)
    return [frames[sequence == k] for k in range(int(sequence.max()) + 1)]


def chosen(record: Record, rows: hm.Windows, held_out: hm.Windows, settings: Settings, seed: int) -> Settings:
    """The settings of the grid with the smallest error of the next validation frame."""
    found = []
    for hidden, power in GRID:
        machine = trained(rows, replace(settings, hidden=hidden, power=power), seed)
        error = ((_predicted(machine, held_out[:][1]) - held_out[:][0]) ** 2).mean().item()
        linear = _error(held_out, LinearAutoregression.fitted(*rows[:], 1.0, rows.robust_weights(power)))
        found.append({"hidden": hidden, "power": power, "error": error, "linear_error": linear})
        record.say(f"{hidden} hidden units, power {power:g}: validation error {error:.5f}, linear {linear:.5f}")
    record.table("validation", found)
    best = min(found, key=lambda row: row["error"])
    return replace(settings, hidden=int(best["hidden"]), power=best["power"])


def trained(rows: hm.Windows, settings: Settings, seed: int) -> hm.ConditionalRBM:
    """A machine, trained by contrastive divergence from the linear autoregression."""
    machine = _machine(rows, settings.hidden)
    hm.fit(
        machine,
        hm.Weighted(rows, rows.robust_weights(settings.power)),
        negative="cd:5",
        optimizer="adam",
        learning_rate=settings.learning_rate,
        schedule="linear:0.3",
        epochs=settings.epochs,
        seed=seed,
        progress=False,
    )
    return machine


def trained_by_default(rows: hm.Windows, hidden: int, seed: int, robust: bool = True) -> hm.ConditionalRBM:
    """A machine trained by ``hm.fit`` without other settings, with robust weights or with equal ones."""
    machine = _machine(rows, hidden)
    data = hm.Weighted(rows, rows.robust_weights()) if robust else rows
    hm.fit(machine, data, seed=seed, progress=False)
    return machine


def _machine(rows: hm.Windows, hidden: int) -> hm.ConditionalRBM:
    return hm.ConditionalRBM(hm.units.Gaussian(rows.shape), hidden, rows.context)


def tested(record: Record, rows: hm.Windows, test: hm.Windows, settings: Settings, penalty: float, seed: int) -> None:
    """Train on all training frames, and compare on the test frames."""
    v, context = test[:]
    linear = LinearAutoregression.fitted(*rows[:], penalty)
    weighted = LinearAutoregression.fitted(*rows[:], 1.0, rows.robust_weights(settings.power))
    seeds = range(seed, seed + settings.seeds)
    machines = [trained(rows, settings, k) for k in seeds]
    hm.save(machines[0], record.folder / "machine.safetensors")
    errors = {
        "repeat": _squares(v, context[:, -1]),
        "linear": _squares(v, linear(context)),
        "linear, weighted rows": _squares(v, weighted(context)),
        **{f"machine, seed {k}": _squares(v, _predicted(one, context)) for k, one in zip(seeds, machines, strict=True)},
    }
    for k in seeds:
        for name, robust in (("default settings", True), ("default settings and equal weights", False)):
            one = trained_by_default(rows, settings.hidden, k, robust)
            errors[f"{name}, seed {k}"] = _squares(v, _predicted(one, context))
    plain = trained(rows, replace(settings, power=0.0), seed)
    errors["machine, equal weights"] = _squares(v, _predicted(plain, context))
    record.table(
        "next_frame", [{"model": name, "error": (x := _blocks(test, e)).value, "standard_error": x.error}
                       for name, e in errors.items()])  # fmt: skip
    for kind, where in (("machine, seed", ""), ("default settings, seed", ", with default settings")):
        own = [error for name, error in errors.items() if name.startswith(kind)]
        for name, words in (
            ("repeat", "repeating the last frame"),
            ("linear", "a linear autoregression of the same order"),
            ("linear, weighted rows", "the linear autoregression with the same row weights"),
        ):
            _compared(record, test, f"error of the next frame below that of {words}{where}", own, errors[name])
    for kind, where in (("machine, equal weights", ""), ("default settings and equal", ", with default settings")):
        own = [error for name, error in errors.items() if name.startswith(kind)]
        words = "below that of the linear autoregression without row weights for either"
        _compared(record, test, f"error of the next frame {words}{where}", own, errors["linear"])
    horizons(record, test, {"linear": linear, "linear, weighted rows": weighted}, machines, seed)
    animation(record, rows, test, machines[0], seed)


def _compared(record: Record, test: hm.Windows, claimed: str, own: Sequence[Tensor], other: Tensor) -> None:
    """Judge that the errors of the trained machines are smaller, frame by frame."""
    gain = judging.averaged([_blocks(test, other - one) for one in own])
    ours, theirs = _blocks(test, torch.stack(list(own)).mean(0)), _blocks(test, other)
    record.claim(claimed, f"{ours:.5f} against {theirs:.5f}, a difference of {gain:.5f}", gain.above(0.0))


def horizons(
    record: Record,
    test: hm.Windows,
    linear: dict[str, LinearAutoregression],
    machines: list[hm.ConditionalRBM],
    seed: int,
) -> None:
    """Forecasts from windows all over the test part, judged by their mean over the continuations."""
    starts = [k for k in range(0, len(test) - LENGTH, SPACING) if test.sequence[k] == test.sequence[k + LENGTH - 1]]
    window = test[torch.tensor(starts)][1]
    truth = torch.stack([test[k : k + LENGTH][0] for k in starts])
    forecasts = {
        "repeat": window[:, -1:].expand_as(truth),
        **{name: one.continued(window, LENGTH) for name, one in linear.items()},
        **{
            f"machine, seed {seed + k}": forecast(one, window, LENGTH, n=CONTINUATIONS, means=True, seed=seed).mean(1)
            for k, one in enumerate(machines)
        },
    }
    bound = truth.square().mean(2)
    found, curves = [], []
    for name, x in forecasts.items():
        error = (x - truth).square().mean(2)
        beyond = torch.cat([error > bound, torch.ones(len(error), 1, dtype=torch.bool)], 1)
        horizon = judging.mean(beyond.int().argmax(1).tolist())
        found.append({"model": name, "horizon": horizon.value, "standard_error": horizon.error})
        curves += [{"model": name, "frame": k + 1, "error": e} for k, e in enumerate(error.mean(0).tolist())]
        record.say(f"{name}: a horizon of {horizon:.1f} frames")
    record.table("horizon", found)
    record.table("forecast_error", curves)
    record.numbers["forecasts"] = {"starts": len(starts), "mean_posture_error": bound.mean().item()}


def animation(
    record: Record, rows: hm.Windows, test: hm.Windows, machine: hm.ConditionalRBM, seed: int, frames: int = 90
) -> None:
    """Real motion of the test part beside continuations of its first window, with means and with draws as frames."""
    longest = int(test.sequence.bincount().argmax())
    first = int((test.sequence == longest).nonzero()[0])
    truth, window = test[first : first + frames][0], test[first : first + 1][1][0]
    made = {means: forecast(machine, window, frames, means=means, seed=seed)[0] for means in (True, False)}
    motions = {"real": truth, "generated, means": made[True], "generated, draws": made[False]}
    skeleton.animate(
        record.folder / "motion.gif", {title: rows.restored(x).numpy() for title, x in motions.items()}, every=2
    )


def _predicted(machine: hm.ConditionalRBM, context: Tensor) -> Tensor:
    return next_frame(machine, context, sweeps=200, warm_up=50, seed=0)


def _squares(v: Tensor, predicted: Tensor) -> Tensor:
    """The mean squared error of each frame."""
    return (v - predicted).double().square().mean(1)


def _error(rows: hm.Windows, model: LinearAutoregression) -> float:
    v, context = rows[:]
    return _squares(v, model(context)).mean().item()


def _blocks(rows: hm.Windows, values: Tensor) -> Measured:
    """The mean of a value of each frame; its error is that of independent blocks of neighboring frames."""
    blocks = [part.mean().item() for k in range(3) for part in values[rows.sequence == k].split(SPACING)]
    return replace(judging.mean(blocks), value=values.mean().item())

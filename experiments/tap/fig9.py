"""Figure 9: one digit after binary symmetric channels of increasing noise, and the estimates of each denoiser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from harmonium.machines import RBM
from harmonium.plots import denoising_levels, style
from harmonium.tasks import BinarySymmetric, DenoisingCurves, compare_denoisers, mcc

from ..judging import IF_TRUE, Verdict, claim, every, mean
from ..record import Record
from .denoisers import DATASET, INFERENCE, NOISY, label, trained_with
from .trained import Machines, on_machines

LEVELS = (0.0, 0.07, 0.12, 0.17, 0.22, 0.26, 0.31, 0.36, 0.41, 0.45, 0.5)
_NOISY = 0.2  # above this the noise hides the digit
_DIGIT = 0.05  # least gain of MCC with the most similar training digit
_NEARLY_EMPTY = 0.5  # of the pixels of the digit
_CAUGHT, _MORE_OFTEN = 0.5, 0.1  # of the estimates


@on_machines
def run(record: Record, trained: Machines, digit: int = 0, digits: int = 100) -> None:
    """The posterior means of the test digit with index ``digit`` for the figure, and of ``digits`` digits from there on
    for the numbers, with the same noise for every denoiser."""
    sizes = trained.sizes(DATASET)
    signal, train = trained.test(DATASET)[digit : digit + digits], trained.rows(DATASET)
    wide = sizes[-1]
    priors = {label(n): trained.machine(DATASET, n) for n in sizes}
    cured = f"{wide}, {NOISY}"
    priors[cured] = trained_with(trained, wide, NOISY)
    found = {name: _levels(rbm, name, signal, train, trained.seed) for name, rbm in priors.items()}
    curves = joined(list(found.values()))
    record.figure("fig9", denoising_levels(curves, image=trained.image(DATASET)))
    rounded = {name: (means > 0.5).to(signal) for name, means in curves.estimates.items()}  # (levels, digits, pixels)
    like = {name: np.stack([likeness(train, part) for part in x]) for name, x in rounded.items()}
    on = {name: style.as_array(x.sum(2) / signal.sum(1)) for name, x in rounded.items()}
    record.table(
        "levels",
        [
            {
                "denoiser": name.replace("$", ""),
                "p": p,
                "digits": len(signal),
                "mcc": mcc(signal, x[k], seed=0).estimate,
                "pixels_on_as_a_share": on[name][k].mean(),
                "mcc_with_most_similar_training_digit": like[name][k].mean(),
            }
            for name, x in rounded.items()
            for k, p in enumerate(LEVELS)
        ],
    )
    record.numbers["same_noise"] = all(
        torch.equal(x.estimates["noisy"], curves.estimates["noisy"]) for x in found.values()
    )
    _claims(record, trained, like, on, cured)


def _levels(rbm: RBM, name: str, signal: Tensor, train: Tensor, seed: int) -> DenoisingCurves:
    channels = [BinarySymmetric(p) for p in LEVELS]
    return compare_denoisers(rbm, signal, train, channels, name=name, shown=len(signal), seed=seed, **INFERENCE)


def joined(several: Sequence[DenoisingCurves]) -> DenoisingCurves:
    """Combine the curves of several machines: noisy images and baselines of the first, then each machine."""
    baselines = ("noisy", "1-NN", "OPE")
    estimates = {name: several[0].estimates[name] for name in baselines}
    for part in several:
        estimates |= {name: values for name, values in part.estimates.items() if name not in baselines}
    return replace(several[0], estimates=estimates)


def likeness(train: Tensor, pictures: Tensor) -> np.ndarray:
    """How similar each binary image (n, pixels) is to some digit: its largest MCC with a training row, (n,).

    Unlike the number of flips, it does not count an empty image as nearly a digit of few pixels.
    """
    a, b = train.double(), pictures.double()
    number, on, own = a.shape[1], a.sum(1)[:, None], b.sum(1)[None]
    margins = on * (number - on) * own * (number - own)
    found = (number * (a @ b.T) - on * own) / margins.clamp(min=1).sqrt()
    return style.as_array(torch.where(margins > 0, found, 0.0).amax(0))


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(
    record: Record, trained: Machines, like: dict[str, np.ndarray], on: dict[str, np.ndarray], cured: str
) -> None:
    sizes = trained.sizes(DATASET)
    noisy = [k for k, p in enumerate(LEVELS) if _NOISY < p < 0.5]
    words = f"mean over p = {LEVELS[noisy[0]]:g} to {LEVELS[noisy[-1]]:g} and {like['OPE'].shape[1]} digits"
    few = [n for n in sizes if n <= 100]
    gains = {n: (like[label(n)] - like["OPE"])[noisy].mean(0) for n in few}
    difference = trained.difference(DATASET, 25, 50, 100)
    claim(
        record,
        "estimates of up to 100 hidden units keep the structure of a digit as p increases: "
        "more like some training digit than those of the OPE",
        f"MCC with the most similar, {words}: OPE {like['OPE'][noisy].mean():.3f}, "
        + ", ".join(f"{n} hidden units {mean(gain):+.3f}" for n, gain in gains.items()),
        every(judge_digit(gain) for gain in gains.values()),
        difference,
        IF_TRUE,
    )
    wide, narrow = sizes[-1], max(few, default=sizes[0])
    caught = {name: (on[name][noisy] < _NEARLY_EMPTY).mean(0) for name in (label(wide), label(narrow), cured)}
    difference = trained.difference(DATASET, 100, 500)
    claim(  # the paper attributes it to over-training, which a short training does not reach
        record,
        "500 hidden units: caught in nearly empty or very local solutions as p increases "
        "(less than half of the pixels of the digit)",
        f"share of such estimates, {words}: {wide} hidden units {mean(caught[label(wide)]):.2f}, {narrow} hidden "
        f"units {mean(caught[label(narrow)]):.2f}; {wide} trained with {NOISY} {mean(caught[cured]):.2f}",
        judge_caught(caught[label(wide)], caught[label(narrow)]),
        difference,
    )


def judge_digit(gains: np.ndarray) -> Verdict:
    """From the gain of every digit in its similarity to a training digit, averaged over the noisy levels.

    Criterion: the mean gain exceeds DIGIT.
    """
    return mean(gains).above(_DIGIT)


def judge_caught(wide: np.ndarray, narrow: np.ndarray) -> Verdict:
    """From the share of the noisy levels at which the estimate of a digit is nearly empty, for each digit.

    Criterion: more than CAUGHT of the estimates of the wide machine are, and more than of the narrow one by MORE_OFTEN.
    """
    return every([mean(wide).above(_CAUGHT), mean(wide - narrow).above(_MORE_OFTEN)])

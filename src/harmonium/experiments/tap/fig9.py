"""Figure 9: one digit behind a binary symmetric channel of every strength, and what each denoiser makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...machines import RBM
from ...plots import denoising_levels
from ...tasks import BinarySymmetric, DenoisingCurves, compare_denoisers, mcc
from ..record import Record
from .fig8 import DATASET, INFERENCE, NOISY, label, trained_with
from .trained import Machines, on_machines

LEVELS = (0.0, 0.07, 0.12, 0.17, 0.22, 0.26, 0.31, 0.36, 0.41, 0.45, 0.5)
_NOISY = 0.2  # from here on the noise hides the digit


@on_machines
def run(record: Record, trained: Machines, digit: int = 0) -> None:
    """The posterior means of test digit number ``digit``, from the same noise for every denoiser."""
    sizes = trained.sizes(DATASET)
    signal, train = trained.test(DATASET)[digit : digit + 1], trained.rows(DATASET)
    wide = sizes[-1]
    priors = {label(n): trained.machine(DATASET, n) for n in sizes}
    cured = f"{wide}, {NOISY}"
    priors[cured] = trained_with(trained, wide, NOISY)
    found = {name: _levels(rbm, name, signal, train, trained.seed) for name, rbm in priors.items()}
    curves = joined(list(found.values()))
    record.figure("fig9", denoising_levels(curves, image=trained.image(DATASET)))
    rounded = {name: (means[:, 0] > 0.5).to(signal) for name, means in curves.estimates.items()}
    like = {name: likeness(train, x) for name, x in rounded.items()}
    record.table(
        "levels",
        [
            {
                "denoiser": name.replace("$", ""),
                "p": p,
                "mcc": mcc(signal, x[k : k + 1]).value,
                "pixels_on": int(x[k].sum()),
                "mcc_with_most_similar_training_digit": like[name][k],
            }
            for name, x in rounded.items()
            for k, p in enumerate(LEVELS)
        ],
    )
    record.numbers["pixels_on_signal"] = int(signal.sum())
    same = [bool(torch.equal(part.estimates["noisy"], curves.estimates["noisy"])) for part in found.values()]
    record.claim("the same noise for each method at each p", f"{sum(same)} of {len(same)} machines", all(same))
    _claims(record, rounded, like, sizes, signal, cured)


def _levels(rbm: RBM, name: str, signal: Tensor, train: Tensor, seed: int) -> DenoisingCurves:
    channels = [BinarySymmetric(p) for p in LEVELS]
    return compare_denoisers(rbm, signal, train, channels, name=name, shown=1, seed=seed, **INFERENCE)


def joined(several: Sequence[DenoisingCurves]) -> DenoisingCurves:
    """Machines side by side: what was seen and the baselines of the first, then each machine."""
    baselines = ("noisy", "1-NN", "OPE")
    estimates = {name: several[0].estimates[name] for name in baselines}
    for part in several:
        estimates |= {name: values for name, values in part.estimates.items() if name not in baselines}
    return replace(several[0], estimates=estimates)


def likeness(train: Tensor, pictures: Tensor) -> list[float]:
    """How much each binary picture (n, pixels) looks like some digit: the largest MCC it has with a training row.

    Unlike the number of flips, it does not take an empty picture for one that is nearly a digit of few pixels.
    """
    return [mcc(train, x.expand_as(train), resamples=1).images.max().item() for x in pictures]


def _claims(
    record: Record,
    rounded: dict[str, Tensor],
    like: dict[str, list[float]],
    sizes: Sequence[int],
    signal: Tensor,
    cured: str,
) -> None:
    noisy = [k for k, p in enumerate(LEVELS) if _NOISY < p < 0.5]
    words = f"mean over p = {LEVELS[noisy[0]]:g} to {LEVELS[noisy[-1]]:g}"

    def mean(values: Sequence[float]) -> float:
        return sum(values[k] for k in noisy) / len(noisy)

    few = [n for n in sizes if n <= 100]
    record.claim(
        "estimates of up to 100 hidden units keep the structure of a digit as p increases: "
        "more like some training digit than those of the OPE",
        f"MCC with the most similar, {words}: OPE {mean(like['OPE']):.3f}, "
        + ", ".join(f"{n} hidden units {mean(like[label(n)]):.3f}" for n in few),
        all(mean(like[label(n)]) > mean(like["OPE"]) for n in few) if few else None,
    )
    wide, size = sizes[-1], int(signal.sum())
    on = {name: [int(n) / size for n in x.sum(1)] for name, x in rounded.items()}
    shares = [on[label(wide)][k] for k in noisy]
    record.claim(
        "500 hidden units: caught in nearly empty or very local solutions as p increases "
        "(less than half of the pixels of the digit)",
        f"pixels on as a share of the {size} of the digit, {wide} hidden units: "
        + ", ".join(f"{share:.2f} (p = {LEVELS[k]:g})" for k, share in zip(noisy, shares, strict=True))
        + f"; trained with {NOISY}, {words}: {mean(on[cured]):.2f}",
        min(shares) < 0.5 if wide == 500 else None,
    )

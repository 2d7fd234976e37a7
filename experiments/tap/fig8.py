"""Figure 8: denoising of digits after a binary symmetric channel, with machines of several sizes as the prior."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.machines import RBM
from harmonium.plots import denoising_curves, style
from harmonium.tasks import BinarySymmetric, DenoisingCurves, Pointwise, Score, compare_denoisers, denoise, mcc

from .. import judging
from ..judging import IF_TRUE, Measured, Verdict, bootstrap, every, mean, some
from ..record import Record
from .denoisers import DATASET, INFERENCE, label, phases, trained_with
from .trained import Machines, on_machines

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
PROBED = {"quick": 50, "full": 1000}  # digits for the closer look at solutions of the widest machine
PROBED_AT = (0.25, 0.4)
_MIRRORS = 0.05  # largest difference of MCC
_FAILS = 0.02  # least deficit of MCC that counts as worse
_SPURIOUS = 0.02  # least gain of MCC by sampling
_RECOVERED = 0.1  # share of the digits
_MUCH_NOISE = 0.2


@on_machines
def run(record: Record, trained: Machines, digits: int = 1000) -> None:
    """The MCC of every machine on the same noisy test digits, including other trainings of the widest one."""
    sizes, seed = trained.sizes(DATASET), trained.seed
    signals, train = trained.test(DATASET)[:digits], trained.rows(DATASET)

    def measure(rbm: RBM, name: str) -> DenoisingCurves:
        record.say(f"denoising: {name}")
        channels = [BinarySymmetric(p) for p in LEVELS]
        return compare_denoisers(rbm, signals, train, channels, name=name, shown=1, seed=seed, **INFERENCE)

    by_size = {n: measure(trained.machine(DATASET, n), label(n)) for n in sizes}
    wide = sizes[-1]
    ways = {way: trained_with(trained, wide, way) for way in phases(trained)}
    by_way = {way: measure(rbm, f"{label(wide)}, {way}") for way, rbm in ways.items()}
    every = [*by_size.values(), *by_way.values()]
    record.table("scores", [row for k, found in enumerate(every) for row in _rows(found, baselines=k == 0)])
    record.figure("fig8", _figure(list(by_size.values()), [by_size[wide], *by_way.values()], wide))
    _published(record, by_size, sizes, trained.difference(DATASET, 25, 50, 100))
    difference = trained.difference(DATASET, 100, 500)
    _widest(record, by_size, by_way, sizes, difference)
    probed = signals[: PROBED[trained.scale]]
    record.say(f"the solutions with {wide} hidden units")
    estimator = Pointwise.from_data(trained.build(DATASET, wide).visible, train)
    priors = {"TAP": trained.machine(DATASET, wide), **ways}
    table = {way: {p: _probe(rbm, probed, estimator, p, seed) for p in PROBED_AT} for way, rbm in priors.items()}
    record.table(
        "solutions",
        [{"training": way, "p": p, **row} for way, part in table.items() for p, (row, _) in part.items()],
    )
    _spurious(record, table["TAP"], wide, difference)


# -- what is published ------------------------------------------------------------------------------------------------


def _published(record: Record, by_size: dict[int, DenoisingCurves], sizes: Sequence[int], difference: str) -> None:
    def claim(claimed: str, measured: str, verdict: Verdict) -> None:
        judging.claim(record, claimed, measured, verdict, difference, IF_TRUE)

    for n in sizes:
        if n <= 100:
            gaps = _gaps(by_size[n], by_size[n].scores["OPE"])
            claim(
                f"{n} hidden units: better than the OPE at every 0 < p < 1/2",
                f"gain in MCC {_all(gaps)}",
                judge_better(gaps),
            )
    exact = {n: _machine(found)[0].images for n, found in by_size.items()}
    record.claim(
        "at p = 0 the signal is returned exactly",
        "; ".join(f"{n} hidden units: {int((x == 1).sum())} of {len(x)} digits" for n, x in exact.items()),
        every(bool((x == 1).all()) if len(x) else None for x in exact.values()),
    )
    first = by_size[sizes[0]]
    ope, nearest = first.scores["OPE"], first.scores["1-NN"]
    recovered = style.as_array(nearest[0].images == 1)
    record.claim(
        "the nearest training digit is not the true signal at p = 0",
        f"MCC {nearest[0]}, {int(recovered.sum())} of {len(recovered)} digits recovered",
        judge_not_recovered(recovered),
    )
    over = {p: gap(a, b) for p, a, b in zip(LEVELS, nearest, ope, strict=True) if 0.2 < p < 0.5}
    claim("1-NN is better than the OPE for p > 0.2", _all(over), judge_better(over))
    last = LEVELS.index(0.45)
    apart = {n: gap(_machine(by_size[n])[last], nearest[last]) for n in sizes if n <= 100}
    claim(
        "as p → 1/2 the machines of up to 100 hidden units closely mirror 1-NN",
        f"MCC minus that of 1-NN at p = {LEVELS[last]:g}: "
        + ", ".join(f"{value:+.3f} ({n} hidden units)" for n, value in apart.items())
        + f", {gap(ope[last], nearest[last]):+.3f} (OPE)",
        judge_mirrors(apart.values()),
    )


def _widest(
    record: Record,
    by_size: dict[int, DenoisingCurves],
    by_way: dict[str, DenoisingCurves],
    sizes: Sequence[int],
    difference: str,
) -> None:
    """Whether the machine of 500 hidden units fails, and whether another training fixes it.

    The paper attributes the failure to over-training, so that a shorter training leaves all of it open.
    """
    wide, narrow = sizes[-1], max([n for n in sizes[:-1] if n <= 100], default=None)
    if narrow is None:
        return

    def claim(claimed: str, measured: str, verdict: Verdict) -> Verdict:
        return judging.claim(record, claimed, measured, verdict, difference)

    reference = _machine(by_size[narrow])
    low = {p: value for p, value in _gaps(by_size[wide], reference).items() if p <= 0.1}
    claim(
        "at low p, 500 hidden units recover the signal more accurately than 100",
        f"{wide} against {narrow}: " + _all(low),
        judge_better(low),
    )
    plain = by_size[wide]
    gaps, over = _gaps(plain, reference), _gaps(plain, plain.scores["OPE"])
    below = ", ".join(f"{p:g}" for p, value in over.items() if value.below(0))
    failed = claim(
        "500 hidden units trained by TAP fail as p increases: worse than 100",
        f"{wide} against {narrow}: {_all(gaps)}; worse than the OPE at p = {below or 'none'}",
        judge_fails(gaps),
    )
    for way, found in by_way.items():
        gaps, over = _gaps(found, reference), _gaps(found, found.scores["OPE"])
        claim(
            f"{way} in training fixes it: 500 hidden units better than the OPE and not worse than 100 at any p",
            f"against {narrow}: {_all(gaps)}; against the OPE: {_all(over)}",
            judge_cured(failed, gaps, over),
        )
        noisy = {p: value for p, value in _gaps(found, _machine(plain)).items() if p >= _MUCH_NOISE}
        claim(
            f"{way} in training: 500 hidden units better than trained by plain TAP at every p ≥ {_MUCH_NOISE:g}",
            f"{wide} hidden units: {_all(noisy)}",
            judge_better(noisy),
        )


# -- verdicts, from gaps in the MCC with their errors over the images ------------------------------------------------


def gap(ours: Score, theirs: Score) -> Measured:
    """The mean difference of two scores of the same images."""
    return mean(style.as_array(ours.images) - style.as_array(theirs.images))


def judge_better(gaps: dict[float, Measured]) -> Verdict:
    """Criterion: every gap is positive beyond its error."""
    return every(value.above(0) for value in gaps.values())


def judge_not_recovered(recovered: np.ndarray) -> Verdict:
    """Criterion: fewer than RECOVERED of the signals are recovered exactly."""
    return bootstrap(np.mean, recovered).below(_RECOVERED) if len(recovered) else None


def judge_mirrors(gaps: Iterable[Measured]) -> Verdict:
    """Criterion: no gap exceeds MIRRORS in absolute value."""
    return every(value.within(_MIRRORS) for value in gaps)


def judge_fails(gaps: dict[float, Measured]) -> Verdict:
    """Criterion: at two neighboring p the gap is below -FAILS."""
    worse = [value.below(-_FAILS) for _, value in sorted(gaps.items())]
    return some(every(pair) for pair in pairwise(worse))


def judge_cured(failed: Verdict, gaps: dict[float, Measured], over: dict[float, Measured]) -> Verdict:
    """Criterion: no gap to the smaller machine is below -FAILS, and every gain over the OPE is positive. Open if the
    plain training did not fail."""
    return every([*(value.above(-_FAILS) for value in gaps.values()), judge_better(over)]) if failed else None


def judge_spurious(gains: Iterable[Measured]) -> Verdict:
    """Criterion: at each level of noise the posterior mean by sampling is better than TAP by more than SPURIOUS."""
    return every(value.above(_SPURIOUS) for value in gains)


# -- the solutions of the widest machine ------------------------------------------------------------------------------


def _probe(rbm: RBM, signals: Tensor, estimator: Pointwise, p: float, seed: int) -> tuple[dict[str, float], Measured]:
    """The same posterior at one level of noise from other starts and methods, to see what goes wrong.

    Starts from the true signal, stops early, damps more, or samples. Returns the row of a table and the gain in MCC by
    sampling.
    """
    channel = BinarySymmetric(p)
    noisy = channel.corrupt(signals, seed=seed)
    found = denoise(rbm, noisy, channel, start=estimator, **INFERENCE)
    early = denoise(rbm, noisy, channel, method="tap", start=estimator, max_iterations=25)
    slow: dict[str, Any] = {"damping": 0.9, "max_iterations": 2000, "tolerance": 1e-8}
    careful = denoise(rbm, noisy, channel, method="tap", start=estimator, **slow)
    truth = denoise(rbm, noisy, channel, start=signals, **INFERENCE)
    sampled = denoise(rbm, noisy, channel, method="gibbs", start=estimator, sweeps=200, warm_up=100, seed=seed)
    assert found.free_energy is not None and truth.free_energy is not None
    both = found.converged & truth.converged
    lower = truth.free_energy[both] < found.free_energy[both] - 1e-2
    score, of_samples = mcc(signals, found.rounded, seed=0), mcc(signals, sampled.rounded, seed=0)
    row = {
        "mcc": score.estimate,
        "mcc_25_iterations": mcc(signals, early.rounded, seed=0).estimate,
        "mcc_more_damping": mcc(signals, careful.rounded, seed=0).estimate,
        "mcc_from_the_signal": mcc(signals, truth.rounded, seed=0).estimate,
        "mcc_gibbs": of_samples.estimate,
        "converged": found.converged.double().mean().item(),
        "converged_more_damping": careful.converged.double().mean().item(),
        "both_converged": int(both.sum()),
        "better_solution_at_the_signal": lower.double().mean().item(),
        "pixels_on": (found.rounded.sum() / signals.sum()).item(),
        "pixels_on_gibbs": (sampled.rounded.sum() / signals.sum()).item(),
    }
    return row, gap(of_samples, score)


def _spurious(
    record: Record, found: dict[float, tuple[dict[str, float], Measured]], wide: int, difference: str
) -> None:
    measured = f"{wide} hidden units, MCC of TAP / from the true signal / with more damping / by Gibbs sampling: "
    measured += ", ".join(
        f"{row['mcc']:.3f} / {row['mcc_from_the_signal']:.3f} / {row['mcc_more_damping']:.3f} / "
        f"{row['mcc_gibbs']:.3f} (p = {p:g}; {gain:+.3f} by sampling; {row['better_solution_at_the_signal']:.0%} of "
        f"{row['both_converged']} that converged have a lower free energy at the signal)"
        for p, (row, gain) in found.items()
    )
    judging.claim(
        record,
        "500 hidden units: inference is caught in spurious minima, the posterior itself is better",
        measured,
        judge_spurious(gain for _, gain in found.values()),
        difference,
    )


# -- helpers ----------------------------------------------------------------------------------------------------------


def _machine(curves: DenoisingCurves) -> list[Score]:
    return next(iter(curves.scores.values()))


def _gaps(curves: DenoisingCurves, reference: Sequence[Score]) -> dict[float, Measured]:
    """The MCC of the machine minus that of another denoiser, on the same digits, at every 0 < p < 1/2."""
    scores = zip(LEVELS, _machine(curves), reference, strict=True)
    return {p: gap(ours, theirs) for p, ours, theirs in scores if 0 < p < 0.5}


def _all(gaps: dict[float, Measured]) -> str:
    return ", ".join(f"{value:+.3f} (p = {p:g})" for p, value in gaps.items())


def _rows(curves: DenoisingCurves, *, baselines: bool) -> list[dict[str, float | str]]:
    names = list(curves.scores)
    return [
        {
            "denoiser": name.replace("$", ""),
            "p": p,
            "mcc": score.estimate,
            "low": score.low,
            "high": score.high,
            **({"converged": curves.converged[k]} if name == names[0] else {}),
        }
        for name in (names if baselines else names[:1])
        for k, (p, score) in enumerate(zip(curves.levels, curves.scores[name], strict=True))
    ]


def _figure(by_size: list[DenoisingCurves], by_way: list[DenoisingCurves], wide: int) -> Figure:
    with style.look():
        figure = Figure(figsize=(9.6, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        denoising_curves(by_size, title="TAP machines", ax=left)
        denoising_curves(by_way, title=f"{label(wide)}, by training", ax=right)
        right.set_ylabel("")
    return figure

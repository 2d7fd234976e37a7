"""Gibbs, parallel tempering, Langevin and Gibbs–Langevin chains as negative phases at equal CPU time.

Machines of the same size are trained on the same rows, each with another negative phase. The number of epochs is the
CPU time of the comparison divided by that of one epoch, so that all take about equally long; other settings are the
defaults. The log-likelihood of test rows is exact.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

import harmonium as hm

from ..judging import Measured
from ..options import override, parse_choice
from ..record import Record
from .rows import Rows, load

PHASES = {
    "gibbs": "pcd:1",
    "tempering": "parallel-tempering:1,rungs=5",
    "langevin": "langevin:5",
    "gibbs-langevin": "gibbs-langevin:1,steps=5",
}
_MARGIN = 1.0  # nats per row


@dataclass(frozen=True)
class Settings:
    """The size of the comparison."""

    seeds: int
    seconds: float  # of CPU time for each machine
    hidden: int


SETTINGS = {"quick": Settings(2, 3.0, 16), "full": Settings(5, 8.0, 16)}


def run(record: Record, scale: str, *, data: str = "", phases: str = "", seeds: int = 0, seconds: float = 0.0) -> None:
    """Train with every phase and compare the likelihoods.

    ``data`` is one data set instead of two, ``phases`` are some phases, separated by commas.
    """
    settings = override(SETTINGS[scale], seeds=seeds, seconds=seconds)
    chosen = phases.split(",") if phases else list(PHASES)
    for phase in chosen:
        parse_choice("phases", phase, tuple(PHASES))
    table: list[dict[str, object]] = []
    for name in [data] if data else ("olivetti", "patches"):
        rows, found = load(name), {}
        for phase in chosen:
            text = PHASES[phase]
            epochs = _epochs(rows, text, settings)
            values = []
            for seed in range(settings.seeds):
                machine, cpu = _trained(rows, text, epochs, settings.hidden, seed)
                values.append(machine.double().log_probability(rows.test).mean().item())
                table.append(
                    {
                        "data": name,
                        "phase": phase,
                        "seed": seed,
                        "epochs": epochs,
                        "cpu_seconds": round(cpu, 1),
                        "log_likelihood": values[-1],
                    }
                )
                record.table("seeds", table)
            found[phase] = torch.tensor(values, dtype=torch.float64)
            mean, spread = found[phase].mean().item(), found[phase].std().item()
            record.say(f"{name}, {phase}: {epochs} epochs, {mean:.1f} ± {spread:.1f} nats per row")
        for phase in chosen if "gibbs" in chosen else ():
            if phase == "gibbs":
                continue
            gain = found[phase] - found["gibbs"]
            measured = Measured(gain.mean().item(), (gain.std() / len(gain) ** 0.5).item(), max(len(gain) - 1, 1))
            record.claim(
                f"{name}: {phase} chains learn better than Gibbs chains in the same time",
                f"{measured} nats per row (Gibbs {found['gibbs'].mean():.1f})",
                measured.above(_MARGIN),
            )


def _machine(rows: Rows, hidden: int) -> hm.RBM:
    return hm.RBM(hm.units.Gaussian(rows.training.shape[1]), hidden)


def _epochs(rows: Rows, negative: str, settings: Settings) -> int:
    """The number of epochs that take ``settings.seconds`` of CPU time."""
    made = _machine(rows, settings.hidden)
    training = hm.Training(made, rows.training, hm.Plan(negative=negative, seed=0))
    began, done = time.process_time(), 0
    while done < 2 or time.process_time() - began < settings.seconds / 10:
        training.one_epoch()
        done += 1
    return max(1, round(settings.seconds * done / (time.process_time() - began)))


def _trained(rows: Rows, negative: str, epochs: int, hidden: int, seed: int) -> tuple[hm.RBM, float]:
    made, began = _machine(rows, hidden), time.process_time()
    hm.fit(made, rows.training, negative=negative, epochs=epochs, seed=seed, progress=False)
    return made, time.process_time() - began

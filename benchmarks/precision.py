"""Does training with products rounded to bfloat16 reach the same likelihood? Pairs of trainings with equal seeds.

    python benchmarks/precision.py [--seeds 3] [--updates 20000] [--hidden 500]     # needs binarized-mnist

Trains 784×500 binary units on the binarized MNIST images (50 000 training images) with the settings of the preset
"best-fixed", in float32 and in bfloat16, and estimates the log-likelihood of the validation images from both sides.
Criterion, fixed before the run: the likelihoods are equal if the 99 % interval of the mean difference, paired by seed,
lies within ±0.3 nats. CPU seconds are those of the training with one thread.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from typing import Any

import torch
from scipy import stats

import harmonium as hm
from common import write

_BATCH, _BETAS, _MARGIN = 100, 5000, 0.3


def measured(precision: str, seed: int, updates: int, hidden: int) -> dict[str, Any]:
    """Train once; the likelihood of the validation images from both sides, and the CPU time of the training."""
    train, validation = (hm.data.load("binarized-mnist", split=split) for split in ("train", "validation"))
    machine = hm.RBM(train.shape[1], hidden)
    epochs = max(1, round(updates * _BATCH / len(train)))
    options = {"preset": "best-fixed", "epochs": epochs, "batch_size": _BATCH, "metrics_every": epochs}
    began = time.process_time()
    hm.fit(machine, train, **options, precision=precision, initialize="modes", seed=seed, progress=False)
    seconds = time.process_time() - began
    found = hm.likelihood.estimate(machine, validation, betas=_BETAS, seed=seed)
    return {
        "precision": precision,
        "seed": seed,
        "seconds": seconds,
        "forward": found.from_forward,
        "reverse": found.from_reverse,
        "effective": found.effective,
        "problems": found.problems,
    }


def main() -> None:
    """Run all pairs, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seeds", 3), ("updates", 20_000), ("hidden", 500)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(args.seeds):
        for precision in ("float32", "bfloat16"):
            rows.append(measured(precision, seed, args.updates, args.hidden))
            print(rows[-1], flush=True)
    value = {(row["precision"], row["seed"]): (row["forward"] + row["reverse"]) / 2 for row in rows}
    gains = [value["bfloat16", seed] - value["float32", seed] for seed in range(args.seeds)]
    mean, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    half = float(stats.t.ppf(0.995, len(gains) - 1)) * error
    equal = abs(mean) + half < _MARGIN
    print(f"bfloat16 - float32: {mean:+.3f} ± {half:.3f} nats (99 %), {'equal' if equal else 'open'}")
    write(
        "precision", {"rows": rows, "mean_difference": mean, "half_width": half, "equal": equal, "options": vars(args)}
    )


if __name__ == "__main__":
    main()

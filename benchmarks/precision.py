"""Does training with products rounded to bfloat16 reach the same likelihood? Pairs of trainings with equal seeds.

    python benchmarks/precision.py [--seeds 3] [--updates 20000] [--hidden 500]     # needs binarized-mnist
    python benchmarks/precision.py --emulate     # on processors without products of bfloat16, which would be slow

Trains 784×500 binary units on the binarized MNIST images (50 000 training images) with the settings of the preset
"best-fixed", in float32 and in bfloat16, and estimates the log-likelihood of the validation images from both sides.
With at most 20 hidden units (``--hidden 16 --seeds 10``) it is exact, so that small differences show.
Criterion, fixed before the run: the likelihoods are equal if the 99 % interval of the mean difference, paired by seed,
lies within ±0.3 nats. CPU seconds are those of the training with one thread.

The emulation rounds the factors to bfloat16, multiplies them in float32 and rounds the product, as the processors with
such products do. It shows the effect on the likelihood, not that on the time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from typing import Any

import torch
from scipy import stats
from torch import Tensor

import harmonium as hm
from common import write
from harmonium.machines import enumeration

_BATCH, _BETAS, _MARGIN = 100, 5000, 0.3
FLOAT32, BFLOAT16, EMULATED = "float32", "bfloat16", "bfloat16, emulated"


class Rounded(hm.couplings.Dense):
    """Couplings whose products have the precision of bfloat16, computed in float32."""

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        return out.copy_(rounded(rounded(x) @ rounded(self.weight.detach())))

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        return out.copy_(rounded(rounded(y) @ rounded(self.weight.detach()).T))

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        product = rounded(rounded(x).T @ rounded(y))
        if out is None:
            return product.mul_(scale)
        return out.add_(product, alpha=scale) if add else out.copy_(product).mul_(scale)


def rounded(x: Tensor) -> Tensor:
    """The nearest values in bfloat16, as float32."""
    return x.bfloat16().float()


def measured(precision: str, seed: int, updates: int, hidden: int) -> dict[str, Any]:
    """Train once; the likelihood of the validation images from both sides, and the CPU time of the training."""
    train, validation = (hm.data.load("binarized-mnist", split=split) for split in ("train", "validation"))
    visible = train.shape[1]
    coupling = Rounded(visible, hidden) if precision == EMULATED else hm.couplings.Dense(visible, hidden)
    machine = hm.RBM(visible, hidden, coupling)
    epochs = max(1, round(updates * _BATCH / len(train)))
    options = {"plan": "best-fixed", "epochs": epochs, "batch_size": _BATCH}
    options |= {"precision": BFLOAT16 if precision == BFLOAT16 else FLOAT32, "initialize": "modes"}
    began = time.process_time()
    hm.fit(machine, train, **options, seed=seed, progress=False)
    seconds = time.process_time() - began
    exact = hm.RBM(visible, hidden)  # estimates are always in float32
    exact.load_state_dict(machine.state_dict())
    row = {"precision": precision, "seed": seed, "seconds": seconds}
    if enumeration.enumerable(exact):
        return row | {"log_likelihood": hm.likelihood.exact(exact).log_likelihood(validation).value}
    found = hm.likelihood.estimate(exact, validation, betas=_BETAS, seed=seed)
    row |= {"log_likelihood": found.value, "problems": found.problems, "effective": []}
    for name in ("forward", "reverse"):
        side = found.log_partition.details[name]
        row[name] = found.with_log_partition(side).value
        row["effective"].append(side.details["effective_runs"])
    return row


def main() -> None:
    """Run all pairs, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seeds", 3), ("updates", 20_000), ("hidden", 500)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--emulate", action="store_true", help="round to bfloat16, and multiply in float32")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows, other = [], EMULATED if args.emulate else BFLOAT16
    for seed in range(args.seeds):
        for precision in (FLOAT32, other):
            rows.append(measured(precision, seed, args.updates, args.hidden))
            print(rows[-1], flush=True)
    value = {(row["precision"], row["seed"]): row["log_likelihood"] for row in rows}
    gains = [value[other, seed] - value[FLOAT32, seed] for seed in range(args.seeds)]
    mean, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    half = float(stats.t.ppf(0.995, len(gains) - 1)) * error
    equal = abs(mean) + half < _MARGIN
    print(f"{other} - float32: {mean:+.3f} ± {half:.3f} nats (99 %), {'equal' if equal else 'open'}")
    write(
        "precision", {"rows": rows, "mean_difference": mean, "half_width": half, "equal": equal, "options": vars(args)}
    )


if __name__ == "__main__":
    main()

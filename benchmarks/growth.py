"""How the time and the memory of training grow with rows, units and chains: fitted exponents.

    python benchmarks/growth.py      # five minutes, no other load

Each point is one call of ``hm.fit`` in a process of its own, with one thread and binary rows. Time is the CPU time of
an epoch; memory is what the process uses at most beyond its use before the call. It is compared with the memory of four
sets of parameters and of the chains (visible and hidden states); the data are in memory before the call.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CENTER = {"rows": 20000, "visible": 784, "hidden": 500, "chains": 100}
SIZES = {
    "rows": (10000, 20000, 40000, 80000),
    "visible": (392, 784, 1568, 3136),
    "hidden": (250, 500, 1000, 2000),
    "chains": (100, 400, 1600, 6400),
}
MEGABYTE = 2**20


def used() -> int:
    """Bytes that the process uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def most_used() -> int:
    """Bytes that the process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def point(rows: int, visible: int, hidden: int, chains: int) -> dict[str, float]:
    """Measure one training of three epochs; the first one warms up."""
    import torch

    import harmonium as hm
    from common import binary_data

    torch.set_num_threads(1)
    few = binary_data(200, visible)
    hm.fit(hm.RBM(visible, 4), few, negative=hm.PCD(1), epochs=1, progress=False)  # imports what is imported once
    data = torch.empty(rows, visible)
    for k in range(0, rows, 1000):
        data[k : k + 1000] = binary_data(1000, visible, seed=k)
    Path("/proc/self/clear_refs").write_text("5")  # the largest use so far is forgotten
    times: list[float] = []

    class After(hm.Callback):
        def on_epoch(self, progress) -> None:
            times.append(time.process_time())

    before = used()
    machine = hm.RBM(visible, hidden)
    options = {"batch_size": 100, "progress": False, "seed": 0, "callbacks": [After()]}
    hm.fit(machine, data, negative=hm.PCD(1, chains=chains), epochs=3, learning_rate=0.01, **options)
    parameters = visible * hidden + visible + hidden
    return {
        "seconds": times[1] - times[0],
        "megabytes": (most_used() - before) / MEGABYTE,
        "bound": 4 * (4 * parameters + chains * (visible + hidden)) / MEGABYTE,
    }


def main() -> None:
    """Measure one point, or all points in processes of their own; print the exponents and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--point", type=int, nargs=4, metavar=tuple(CENTER), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.point:
        print(json.dumps(point(*args.point)))
        return
    from common import write

    found = {}
    print("| | seconds of an epoch | exponent | megabytes | bound | exponent |")
    print("|---|---|---|---|---|---|")
    for name, sizes in SIZES.items():
        points = []
        for size in sizes:
            values = map(str, {**CENTER, name: size}.values())
            command = [sys.executable, __file__, "--point", *values]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            points.append({name: size, **json.loads(done.stdout)})
        slopes = [
            np.polyfit(np.log(sizes), np.log([max(one[what], 1e-3) for one in points]), 1)[0]
            for what in ("seconds", "megabytes")
        ]
        columns = [", ".join(f"{one[what]:.3g}" for one in points) for what in ("seconds", "megabytes", "bound")]
        growing = f"{name} {', '.join(map(str, sizes))}"
        print(f"| {growing} | {columns[0]} | {slopes[0]:.2f} | {columns[1]} | {columns[2]} | {slopes[1]:.2f} |")
        found[name] = {"points": points, "exponents": slopes}
    write("growth", found)


if __name__ == "__main__":
    main()

"""Two processes on one computer: identical parameters, separate chains, one writer, exact resume."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from training_helpers import assert_same, binary, draw, parameters
from training_helpers import step as one_step

import harmonium as hm
from harmonium.errors import RunError
from harmonium.training import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_both(*words: object) -> None:
    """Run Python in two processes with the environment of ``torchrun``; both must succeed."""
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**os.environ, **common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start two processes once; each writes its results to files named by its rank."""
    folder = tmp_path_factory.mktemp("distributed")
    run_both(__file__, folder)
    return folder


# -- what each process does -------------------------------------------------------------------------------------

#: an odd number of rows: one process has one more than the other, of the 31 rows of "uneven" even a whole batch more
DATA = draw(binary(5, 3, seed=2), 61)
CASES: dict[str, dict[str, Any]] = {
    "pcd": {"negative": hm.PCD(1), "parts": {"centered": 0.1}},
    "cd-adam": {"negative": hm.CD(2), "parts": {"constraints": [hm.Average(0.5, 2)]}, "adam": True},
    "exact": {"negative": hm.Exact(), "parts": {"centered": False}},
    "uneven": {"negative": hm.PCD(1), "parts": {}, "data": DATA[:31], "batch": 8},
}


class StopFirst(hm.Callback):
    """Only one of the processes wants to stop: all have to."""

    def __init__(self, rank: int, epoch: int) -> None:
        self.rank, self.epoch = rank, epoch

    def on_epoch(self, progress: Any) -> None:
        progress.stop = self.rank == 1 and progress.epoch == self.epoch


def train(name: str, seed: int, **options: Any) -> tuple[Any, Any]:
    case = CASES[name]
    machine = binary(5, 3, seed=seed)
    optimizer = torch.optim.Adam if case.get("adam") else torch.optim.SGD
    result = hm.fit(
        machine,
        case.get("data", DATA),
        negative=case["negative"],
        epochs=6,
        batch_size=case.get("batch", 10),
        optimizer=optimizer(machine.parameters(), lr=0.05),
        **case["parts"],
        seed=3,
        **options,
    )
    return machine, result


def main(folder: Path) -> None:
    rank = int(os.environ["RANK"])  # fit joins the process group that the environment defines
    kept: dict[str, Any] = {}
    for name in CASES:
        run = folder / "runs" / name
        # the processes start with different parameters; those of the first are used
        machine, result = train(name, seed=rank, run=run)
        kept[name] = {
            "parameters": parameters(machine),
            "metrics": [row["reconstruction"] for row in result.history],
        }
        broken = folder / "runs" / f"{name}-broken"
        _, stopped = train(name, seed=rank, run=broken, callbacks=[StopFirst(rank, 3)])
        machine, result = train(name, seed=rank + 5, run=broken, resume=True)
        kept[f"{name}-resumed"] = {
            "parameters": parameters(machine),
            "metrics": [row["reconstruction"] for row in result.history],
            "stopped": len(stopped.history),
        }
    assert torch.distributed.get_world_size() == 2
    torch.save(kept, folder / f"rank{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


# -- results ---------------------------------------------------------------------------------------------------


def of_ranks(results: Path, name: str) -> list[dict[str, Any]]:
    return [torch.load(results / f"rank{rank}.pt", weights_only=True)[name] for rank in range(2)]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_the_same_parameters_and_metrics_in_both(name: str, results: Path) -> None:
    first, second = of_ranks(results, name)
    assert_same(first["parameters"], second["parameters"])
    assert first["metrics"] == second["metrics"]
    start = parameters(binary(5, 3, seed=0))
    assert all(not torch.equal(first["parameters"][key], start[key]) for key in start)


@pytest.mark.parametrize("name", ["pcd", "uneven"])
def test_chains_of_their_own(name: str, results: Path) -> None:
    first, second = (own["negative"][0]["h"] for own in Run(results / "runs" / name).read_state()[1]["processes"])
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", CASES)
def test_one_writer(name: str, results: Path) -> None:
    run = Run(results / "runs" / name)
    assert [row["epoch"] for row in run.read_metrics()] == [1, 2, 3, 4, 5, 6]
    assert_same(parameters(hm.load(run.folder)), of_ranks(results, name)[0]["parameters"])
    assert not list(run.folder.rglob("*.tmp"))


@pytest.mark.parametrize("name", CASES)
def test_resume_is_exact_in_both(name: str, results: Path) -> None:
    for whole, resumed in zip(of_ranks(results, name), of_ranks(results, f"{name}-resumed"), strict=True):
        assert resumed["stopped"] == 3
        assert_same(whole["parameters"], resumed["parameters"])
        assert whole["metrics"] == resumed["metrics"]


def test_the_exact_gradient_of_all_rows(results: Path) -> None:
    """Two processes with batches of 10 take the steps of one with the same rows in batches of 20."""
    rows: list[torch.Tensor] = []
    for rank in range(2):
        share = torch.arange(rank, 61, 2)
        order = [
            share[torch.randperm(len(share), generator=hm.training.state.stream(3, 0, epoch, rank))]
            for epoch in range(1, 7)
        ]
        rows.append(torch.stack([each[:30] for each in order]))
    machine = binary(5, 3, seed=0)
    optimizer = torch.optim.SGD(machine.parameters(), lr=0.05)
    for epoch in range(6):
        for step in range(3):
            index = torch.cat([part[epoch, 10 * step : 10 * step + 10] for part in rows])
            one_step(hm.Exact(), machine, DATA[index])
            optimizer.step()
    found = of_ranks(results, "exact")[0]["parameters"]
    for name, value in parameters(machine).items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


def test_another_number_of_processes_is_refused(results: Path) -> None:
    with pytest.raises(RunError, match="processes: expected 2, as in the run to resume, found 1"):
        train("pcd", seed=0, run=results / "runs" / "pcd", resume=True)


#: trains with one argument or row that depends on the rank, and writes the error
DIFFERENT = """
import os, sys, torch, harmonium as hm
rank, what = int(os.environ["RANK"]), sys.argv[2]
rows = torch.eye(6).repeat(20, 1)
if rank == 1 and what == "data":
    rows[7] = 1 - rows[7]
if rank == 1 and what == "rows":
    rows = rows[:60]

class Change(hm.Callback):
    def on_epoch(self, progress):
        if rank == 1 and what == "parameters" and progress.epoch == 2:
            progress.machine.weight.data[0, 0] += 1

options = {"seed": rank if what == "seed" else 0, "learning_rate": 0.1 * (1 + (rank if what == "learning_rate" else 0))}
try:
    hm.fit(hm.RBM(6, 2), rows, epochs=3, progress=False, run=sys.argv[1], callbacks=[Change()], **options)
except hm.errors.InvalidOption as error:
    print(error)
    assert str(error).startswith(f"{what}: expected the same in all processes"), error
else:
    raise AssertionError("accepted")
"""


@pytest.mark.parametrize("what", ["data", "rows", "seed", "learning_rate", "parameters"])
def test_processes_that_differ_are_refused(tmp_path: Path, what: str) -> None:
    run_both("-c", DIFFERENT, tmp_path / "run", what)
    epochs = [row["epoch"] for row in Run(tmp_path / "run").read_metrics()]
    assert epochs == ([1] if what == "parameters" else [])


#: trains, and writes the names of the threads that are left at the end of Python
LEAVE = """
import atexit, os, sys
from pathlib import Path
import torch
import harmonium as hm
names = lambda: [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
left = Path(sys.argv[1], os.environ["RANK"])
atexit.register(lambda: left.write_text(" ".join(names())))
hm.fit(hm.RBM(6, 2), torch.eye(6).repeat(4, 1), epochs=1, progress=False)
assert any("gloo" in name for name in names())
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed only by Linux")
def test_no_thread_of_the_group_outlives_python(tmp_path: Path) -> None:
    """A thread that asks for Python's lock after its end is stopped by force, and aborts the process."""
    run_both("-W", "ignore", "-c", LEAVE, tmp_path)
    for rank in ("0", "1"):
        assert "gloo" not in (tmp_path / rank).read_text()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

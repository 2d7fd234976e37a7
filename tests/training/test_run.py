"""The run folder, exact resume after any interruption, and the files after a failed write or divergence."""

from __future__ import annotations

import csv
import errno
import itertools
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_helpers import adam, assert_same, binary, draw, generator, parameters, rbm, sgd

import harmonium as hm
from harmonium import files, units
from harmonium.errors import CheckpointError, Diverged, HarmoniumError, InvalidOption, RunError
from harmonium.machines import RBM
from harmonium.training import Run
from harmonium.training.callbacks import Callback, Progress
from harmonium.training.run import log_spaced
from harmonium.training.schedules import Growing
from harmonium.training.state import flatten, unflatten

DATA = draw(binary(5, 3, seed=2), 60)


def machine() -> RBM:
    return RBM(units.Bernoulli(5), units.Bernoulli(3)).double()


# -- what is in the folder --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    trained = machine()
    result = hm.fit(trained, DATA, epochs=20, batch_size=20, run=tmp_path / "a" / "run", validation=DATA[:20], seed=7)
    run = Run(tmp_path / "a" / "run")
    kept = sorted(log_spaced(20))
    names = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    assert names == {
        "config.toml",
        "metrics.csv",
        "checkpoints/last.safetensors",
        "checkpoints/previous.safetensors",
        *(f"checkpoints/epoch-{epoch:06d}.safetensors" for epoch in kept),
    }
    assert [epoch for epoch, _ in run.trajectory()] == kept
    assert run.exists()
    assert not Run(tmp_path / "b").exists()

    with run.metrics_path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(1, 21))
    assert run.read_metrics() == result.history
    assert {"epoch", "seconds", "reconstruction", "pseudo_likelihood", "free_energy_gap"} <= rows[0].keys()

    config = tomllib.loads(run.config_path.read_text(encoding="utf-8"))
    assert config == run.read_config()
    assert config["training"] == {
        "negative": {"name": "exact"}, "epochs": 20, "batch_size": 20, "optimizer": {"name": "adam"},
        "learning_rate": "auto", "schedule": {"name": "linear", "constant": 0.5}, "penalties": [], "constraints": [],
        "centered": 0.01, "initialize": {"name": "normal"}, "precision": "float32", "seed": 7,
    }  # fmt: skip
    assert hm.Plan.from_table(config["training"]) == result.plan
    assert config["machine"]["threads"] == torch.get_num_threads() and config["machine"]["dtype"] == "float64"

    assert_same(parameters(hm.load(run.folder)), parameters(trained))
    last = dict(run.trajectory())[20]
    assert_same(parameters(hm.load(last)), parameters(trained))


def test_the_trajectory_is_log_spaced() -> None:
    kept = sorted(log_spaced(1000))
    assert kept[0] == 0
    assert kept[-1] == 1000
    gaps = [b - a for a, b in itertools.pairwise(kept)]
    assert len(kept) < 30
    assert max(gaps) < 300
    assert kept[:5] == [0, 1, 2, 3, 4]


def test_an_existing_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hm.fit(machine(), DATA, epochs=1, batch_size=20, run=run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match="already contains a run; resume it or choose another folder"):
        hm.fit(machine(), DATA, epochs=1, batch_size=20, run=run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "metrics.csv").write_text("my,precious\n")
    with pytest.raises(RunError, match=r"expected a new or empty folder for the run, found 'metrics\.csv' in it"):
        hm.fit(machine(), DATA, epochs=1, batch_size=20, run=tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
    assert (tmp_path / "metrics.csv").read_text() == "my,precious\n"


class During(Callback):
    """Call a function after the second epoch."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch == 2:
            self.action()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("then", ["moved", "deleted", "replaced", "linked"])
def test_a_folder_that_changes_its_place_during_training(then: str, tmp_path: Path) -> None:
    """Training stops; nothing is written in its place, and a moved folder can be resumed."""
    run, away, other = tmp_path / "run", tmp_path / "away", tmp_path / "other"
    hm.fit(machine(), DATA, epochs=1, batch_size=20, run=other)

    def change() -> None:
        if then == "deleted":
            shutil.rmtree(run)
        else:
            run.rename(away)
        if then == "replaced":
            shutil.copytree(other, run)
        if then == "linked":
            run.symlink_to(other)

    before = contents(other)
    with pytest.raises(RunError, match=r"expected the folder in which the run began.*which has stopped"):
        hm.fit(machine(), DATA, epochs=4, batch_size=20, run=run, callbacks=[During(change)])
    assert contents(other) == before
    assert contents(run) == before if then in ("replaced", "linked") else not run.exists()
    if then != "deleted":
        assert [row["epoch"] for row in Run(away).read_metrics()] == [1]
        result = hm.fit(machine(), DATA, epochs=4, batch_size=20, run=away, resume=True)
        assert len(result.history) == 4


@pytest.mark.parametrize("writing", ["write_metrics", "write_snapshot", "write_checkpoint"])
def test_a_folder_that_is_moved_between_two_files(
    writing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is not created again with a part of its files."""
    run, away, write = tmp_path / "run", tmp_path / "away", getattr(Run, writing)

    def moves_first(self: Run, *given: Any) -> None:
        if self.read_metrics() and run.exists():
            run.rename(away)
        write(self, *given)

    monkeypatch.setattr(Run, writing, moves_first)
    with pytest.raises(RunError, match="expected the folder in which the run began, found none"):
        hm.fit(machine(), DATA, epochs=4, batch_size=20, run=run)
    assert not run.exists()
    monkeypatch.undo()
    assert len(hm.fit(machine(), DATA, epochs=4, batch_size=20, run=away, resume=True).history) == 4


def test_other_options_on_resume_are_rejected(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hm.fit(machine(), DATA, epochs=1, batch_size=20, run=run)
    for changed in ({"batch_size": 10}, {"learning_rate": 0.5}, {"negative": "pcd:7"}):
        name = next(iter(changed))
        with pytest.raises(RunError, match=rf"expected those with which the run began, found .*{name}"):
            hm.fit(machine(), DATA, **{"epochs": 2, "batch_size": 20, "run": run, "resume": True, **changed})
    text = Run(run).config_path.read_text()
    Run(run).config_path.write_text(text.replace("batch_size = 20", "batch_size = 7"))
    with pytest.raises(RunError, match=r"found training\.batch_size 7 \(was 20\)"):
        hm.fit(machine(), DATA, epochs=2, batch_size=20, run=run, resume=True)


@pytest.mark.parametrize("how", ["emptied", "deleted", "linked", "edited"])
def test_metrics_that_change_during_training_are_written_anew(how: str, tmp_path: Path) -> None:
    path, victim = Run(tmp_path / "run").metrics_path, tmp_path / "victim"
    victim.write_text("precious\n")

    def change() -> None:
        path.unlink() if how in ("deleted", "linked") else path.write_text("" if how == "emptied" else "my,notes\n")
        if how == "linked":
            path.symlink_to(victim)

    result = hm.fit(machine(), DATA, epochs=4, batch_size=20, run=path.parent, callbacks=[During(change)])
    assert Run(path.parent).read_metrics() == result.history
    assert victim.read_text() == "precious\n"


@pytest.mark.parametrize("run", ["", 3])
def test_a_run_needs_a_name(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match=f"run: expected the name of a folder, found {run!r}"):
        hm.fit(machine(), DATA, epochs=1, batch_size=20, run=run)
    assert not list(tmp_path.iterdir())


def test_only_its_own_temporary_files_are_removed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "notes").mkdir()
    own = [run / ".metrics.csv.abc.tmp", run / "checkpoints" / ".last.safetensors.xyz.tmp"]
    foreign = [run / "notes" / ".last.tmp", run / "data.tmp"]
    for path in (*own, *foreign):
        path.write_text("x")
    Run(run).clean()
    assert not any(path.exists() for path in own)
    assert all(path.exists() for path in foreign)


def test_reading_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        Run(tmp_path).read_config()
    (tmp_path / "config.toml").write_text("seed = = 1")
    with pytest.raises(RunError, match="damaged"):
        Run(tmp_path).read_config()
    assert Run(tmp_path).read_metrics() == []
    assert Run(tmp_path).trajectory() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"epoch,seconds\n",
        b"epoch,seconds\n1,much\n",
        b"epoch,seconds\n1,0.5,3\n",
        b"epoch,seconds\n1,0.5\n2\n",
        b"epoch,seconds\ninf,0.5\n",
        b"seconds\n0.5\n",
        b"\xff\xfe\x00garbage",
    ],
)
def test_damaged_metrics(tmp_path: Path, content: bytes) -> None:
    hm.fit(machine(), DATA, epochs=1, batch_size=20, run=tmp_path, progress=False)
    Run(tmp_path).metrics_path.write_bytes(content)
    with pytest.raises(RunError, match=r"metrics\.csv: damaged"):
        Run(tmp_path).read_metrics()
    with pytest.raises(RunError, match=r"metrics\.csv: damaged"):
        hm.fit(machine(), DATA, epochs=2, batch_size=20, run=tmp_path, resume=True, progress=False)


def test_empty_cells_of_metrics_are_left_out(tmp_path: Path) -> None:
    history = [{"epoch": 1, "seconds": 0.5}, {"epoch": 2, "seconds": 1.0, "gap": 2.0}]
    Run(tmp_path).write_metrics(history)
    assert Run(tmp_path).read_metrics() == history


# -- resume -----------------------------------------------------------------------------------------------------


class Stop(Callback):
    """Stop training after an epoch, or interrupt it before the epoch is saved."""

    def __init__(self, epoch: int, how: str) -> None:
        self.epoch, self.how = epoch, how

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch == self.epoch:
            if self.how == "stop":
                progress.stop = True
            else:
                raise InterruptedError


class Broken(torch.utils.data.Dataset):
    """Rows that raise in the middle of an epoch."""

    def __init__(self, rows: Tensor, reads: int | None) -> None:
        self.rows, self.left = rows, reads

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: int) -> Tensor:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise InterruptedError
        return self.rows[k]


OPTIMIZERS = {
    "sgd": sgd(0.1),
    "momentum": sgd(0.1, momentum=0.9, nesterov=True),
    "adam": adam(0.02),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
}
PHASES = {
    "cd": lambda: hm.CD(2),
    "pcd": lambda: hm.PCD(1),
    "pcd-chains": lambda: hm.PCD(2, chains=7),
    "exact": hm.Exact,
}
PARTS: dict[str, dict[str, Any]] = {
    "none": {"centered": False},
    "centered": {},
    "many": {"penalties": [hm.L1(1e-3), hm.L2(1e-3)], "centered": 0.1, "constraints": [hm.Average(0.7, 2)]},
}
CASES = [
    *((optimizer, phase, "centered", False) for optimizer in OPTIMIZERS for phase in PHASES),
    *(("momentum", phase, "none", False) for phase in PHASES),
    *(("adam", phase, "many", True) for phase in PHASES),
]


class Trained:
    """All files of a run."""

    def __init__(self, case: tuple[str, str, str, bool], run: Path, data: Any = DATA, **options: Any) -> None:
        optimizer, phase, parts, growing = case
        self.machine = machine()
        self.optimizer = OPTIMIZERS[optimizer](self.machine.parameters())
        self.result = hm.fit(
            self.machine,
            data,
            negative=PHASES[phase](),
            epochs=7,
            batch_size=20,
            optimizer=self.optimizer,
            **PARTS[parts],
            schedule=Growing(2) if growing else None,
            run=run,
            seed=3,
            validation=DATA[:10],
            **options,
        )
        self.run = run

    def history(self) -> list[dict[str, float]]:
        return [
            {k: v for k, v in row.items() if k not in ("seconds", "samples_per_second")} for row in self.result.history
        ]

    def assert_same(self, other: Trained) -> None:
        assert_same(parameters(self.machine), parameters(other.machine))
        assert self.history() == other.history()
        a, b = (Run(each.run).read_checkpoint(machine()) for each in (self, other))
        (plain_a, tensors_a), (plain_b, tensors_b) = flatten(a, "x"), flatten(b, "x")
        assert plain_a == plain_b
        assert_same(tensors_a, tensors_b)
        for (epoch, mine), (other_epoch, theirs) in zip(
            Run(self.run).trajectory(), [t for t in Run(other.run).trajectory() if t[0] in log_spaced(7)], strict=True
        ):
            assert epoch == other_epoch
            assert_same(parameters(hm.load(mine)), parameters(hm.load(theirs)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.slow
def test_resume_is_exact(case: tuple[str, str, str, bool], tmp_path: Path) -> None:
    whole = Trained(case, tmp_path / "whole")
    Trained(case, tmp_path / "stopped", callbacks=[Stop(3, "stop")])
    Trained(case, tmp_path / "stopped", resume=True).assert_same(whole)
    with pytest.raises(InterruptedError):
        Trained(case, tmp_path / "broken", callbacks=[Stop(5, "raise")])
    Trained(case, tmp_path / "broken", resume=True).assert_same(whole)


@pytest.mark.slow
def test_resume_with_the_default_schedule_is_exact(tmp_path: Path) -> None:
    def trained(run: str, **options: Any) -> dict[str, Tensor]:
        learner = machine()
        hm.fit(learner, DATA, epochs=7, batch_size=20, run=tmp_path / run, seed=3, **options)
        return parameters(learner)

    whole = trained("whole")
    for epoch in (2, 5):
        trained("stopped", resume=epoch > 2, callbacks=[Stop(epoch, "stop")])
    assert_same(trained("stopped", resume=True), whole)


@pytest.mark.slow
def test_resume_after_several_stops_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    case = ("adam", "pcd", "many", True)
    whole = Trained(case, tmp_path / "whole")
    reads = 60 + 60 + 60 + 60  # the check, start of the chains, mean, initialization
    for left in (reads + 30, reads + 200, reads + 130):
        with pytest.raises(InterruptedError):
            Trained(case, tmp_path / "broken", Broken(DATA, left), resume=(tmp_path / "broken").exists())
    Trained(case, tmp_path / "broken", Broken(DATA, None), resume=True).assert_same(whole)


@pytest.mark.slow
def test_resume_before_the_first_checkpoint_begins_at_the_beginning(tmp_path: Path) -> None:
    case = ("momentum", "pcd", "centered", False)
    whole = Trained(case, tmp_path / "whole")
    with pytest.raises(InterruptedError):
        Trained(case, tmp_path / "broken", callbacks=[Stop(1, "raise")])
    assert not Run(tmp_path / "broken").last.exists()
    Trained(case, tmp_path / "broken", resume=True).assert_same(whole)
    Trained(case, tmp_path / "fresh", resume=True).assert_same(whole)


@pytest.mark.slow
def test_resume_of_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    case = ("adam", "pcd", "many", False)
    whole = Trained(case, tmp_path / "whole")
    before = {path: path.read_bytes() for path in (tmp_path / "whole").rglob("*") if path.is_file()}
    again = Trained(case, tmp_path / "whole", resume=True)
    assert_same(parameters(again.machine), parameters(whole.machine))
    assert again.history() == whole.history()
    assert {path: path.read_bytes() for path in (tmp_path / "whole").rglob("*") if path.is_file()} == before


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    options = {"batch_size": 20, "seed": 3, "optimizer": adam(0.01)}
    long, short = machine(), machine()
    hm.fit(long, DATA, epochs=6, **options)
    hm.fit(short, DATA, epochs=4, run=tmp_path / "run", **options)
    resumed = machine()
    result = hm.fit(resumed, DATA, epochs=6, run=tmp_path / "run", resume=True, **options)
    assert_same(parameters(resumed), parameters(long))
    assert [row["epoch"] for row in result.history] == [1, 2, 3, 4, 5, 6]


def test_documents_resume_with_their_lengths(tmp_path: Path) -> None:
    rows = torch.randint(0, 4, (40, 5), generator=generator(0)).double()

    def train(run: str, **options: Any) -> dict[str, Tensor]:
        documents = RBM(units.Multinomial(5), units.Bernoulli(2)).double()
        hm.fit(documents, rows, epochs=4, batch_size=10, run=tmp_path / run, seed=1, **options)
        return parameters(documents)

    whole = train("whole")
    train("broken", callbacks=[Stop(2, "stop")])
    assert_same(train("broken", resume=True), whole)


@pytest.mark.slow
def test_resume_in_another_precision_takes_that_of_the_file(tmp_path: Path) -> None:
    case = ("adam", "pcd", "centered", False)
    whole = Trained(case, tmp_path / "whole")
    Trained(case, tmp_path / "broken", callbacks=[Stop(3, "stop")])
    single = RBM(units.Bernoulli(5), units.Bernoulli(3))
    hm.fit(
        single,
        DATA,
        negative=hm.PCD(1),
        epochs=7,
        batch_size=20,
        optimizer=adam(0.02),
        run=tmp_path / "broken",
        seed=3,
        resume=True,
    )
    assert_same(parameters(single), parameters(whole.machine))


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options: dict[str, Any] = {"batch_size": 20, "run": run}
    with pytest.raises(InvalidOption, match="resume=True expects run="):
        hm.fit(machine(), DATA, batch_size=20, resume=True)
    hm.fit(machine(), DATA, epochs=2, **options)
    with pytest.raises(CheckpointError, match="a checkpoint of another machine"):
        hm.fit(RBM(units.Bernoulli(5), units.Bernoulli(4)), DATA, epochs=3, resume=True, **options)
    with pytest.raises(RunError, match=r"options: expected those.* found training\.centered False \(was 0\.01\)"):
        hm.fit(machine(), DATA, epochs=3, resume=True, centered=False, **options)
    whole = Run(run).last.read_bytes()
    for path in (Run(run).last, Run(run).previous):
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="expected a safetensors file"):
        hm.fit(machine(), DATA, epochs=3, resume=True, **options)
    hm.save(machine(), Run(run).last)
    with pytest.raises(CheckpointError, match="a machine without training state"):
        hm.fit(machine(), DATA, epochs=3, resume=True, **options)
    files.write_tensors(Run(run).last, {}, {"training": "{"}, machine())
    with pytest.raises(CheckpointError, match="the training state is damaged"):
        hm.fit(machine(), DATA, epochs=3, resume=True, **options)


def test_trees_of_tensors() -> None:
    tree = {"a": 1, "b": [torch.ones(2), {"c": torch.zeros(1, dtype=torch.int64)}], "d": None, "e": "text", "f": True}
    plain, tensors = flatten(tree, "t")
    assert set(tensors) == {"t.b.0", "t.b.1.c"}
    back = unflatten(plain, tensors)
    assert torch.equal(back["b"][0], tree["b"][0])
    assert torch.equal(back["b"][1]["c"], tree["b"][1]["c"])
    assert {k: back[k] for k in "adef"} == {k: tree[k] for k in "adef"}


# -- failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "failing"),
    [
        ("last.safetensors", "replace"),
        ("metrics.csv", "replace"),
        ("metrics.csv", "fsync"),
        ("last.safetensors", "write"),
        ("last.safetensors", "fsync"),
    ],
)
@pytest.mark.slow
def test_a_full_disk_leaves_the_last_checkpoint(
    where: str, failing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = ("adam", "pcd", "many", False)
    whole = Trained(case, tmp_path / "whole")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Fill(Callback):
        """After three epochs the disk is full."""

        def on_epoch(self, progress: Progress) -> None:
            if progress.epoch == 4:
                fail(progress)

    def fail(_: Progress) -> None:
        replace, write_bytes, write_text, fsync = Path.replace, Path.write_bytes, Path.write_text, os.fsync

        def broken(function: Any) -> Any:
            def call(self: Path, *args: Any, **kwargs: Any) -> Any:
                if where in self.name:
                    if function is not replace:
                        with self.open("wb") as file:
                            file.write(b"half")
                    raise full
                return function(self, *args, **kwargs)

            return call

        if failing == "replace":
            monkeypatch.setattr(Path, "replace", broken(replace))
        elif failing == "write":
            monkeypatch.setattr(Path, "write_bytes", broken(write_bytes))
            monkeypatch.setattr(Path, "write_text", broken(write_text))
        else:

            def broken_fsync(handle: int) -> None:
                name = os.readlink(f"/proc/self/fd/{handle}") if os.path.exists("/proc/self/fd") else where
                if where in name:
                    raise full
                fsync(handle)

            monkeypatch.setattr(os, "fsync", broken_fsync)

    with pytest.raises(HarmoniumError, match=f"{where}: cannot be written .No space left.*previous file is unchanged"):
        Trained(case, tmp_path / "broken", callbacks=[Fill()])
    monkeypatch.undo()
    run = Run(tmp_path / "broken")
    assert run.read_checkpoint(machine())["epoch"] == 3
    assert len(run.read_metrics()) in (3, 4)
    assert not list(run.folder.rglob("*.tmp"))
    Trained(case, run.folder, resume=True).assert_same(whole)


def diverging() -> dict[str, tuple[RBM, Tensor]]:
    rows = torch.randint(0, 2, (40, 4), generator=generator(0)).float()
    return {
        "gaussian-hidden": (RBM(units.Bernoulli(4), units.Gaussian(3)), rows),
        "relu-hidden": (RBM(units.Bernoulli(4), units.ReLU(3)), rows),
        "gaussian-gaussian": (RBM(units.Gaussian(4), units.Gaussian(3)), torch.randn(40, 4, generator=generator(1))),
        "poisson-hidden": (RBM(units.Bernoulli(4), units.Poisson(3)), rows),
    }


class Explode(Callback):
    """A normal learning rate for two epochs, then a huge one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch == 2:
            for group in self.optimizer.param_groups:
                group["lr"] = 1e12


@pytest.mark.parametrize("kind", diverging())
def test_diverging_training_stops_with_the_last_good_checkpoint(kind: str, tmp_path: Path) -> None:
    trained, rows = diverging()[kind]
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
    with pytest.raises(Diverged) as error:
        hm.fit(
            trained,
            rows,
            epochs=60,
            batch_size=10,
            optimizer=optimizer,
            run=tmp_path / "run",
            callbacks=[Explode(optimizer)],
        )
    message = str(error.value)
    run = Run(tmp_path / "run")
    epoch = run.read_checkpoint(diverging()[kind][0])["epoch"]
    assert epoch >= 2
    assert f"training diverged in epoch {epoch + 1}: " in message
    assert "smaller learning rate" in message
    assert f"the last good checkpoint is {run.last}" in message
    if kind != "poisson-hidden":
        assert any(f": {name} is no longer finite" in message for name, _ in trained.named_parameters())
    kept = hm.load(run.folder)
    assert all(torch.isfinite(p).all() for p in kept.parameters())


def test_divergence_within_a_long_epoch_is_seen_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1000 steps per epoch, divergence must be reported before the end of the epoch."""
    trained = RBM(units.Bernoulli(4), units.Gaussian(3))
    steps = []

    class Count(hm.PCD):
        def step(self, *given: Any) -> Any:
            steps.append(1)
            return super().step(*given)

    rows = torch.randint(0, 2, (1000, 4), generator=generator(0)).float()
    with pytest.raises(Diverged, match="epoch 1"):
        hm.fit(trained, rows, epochs=2, batch_size=1, optimizer=sgd(1e10), negative=Count(), centered=False)
    assert len(steps) <= 100


@pytest.mark.slow
def test_gaussian_machines_train_at_the_default_rate() -> None:
    noise = generator(0)
    rows = torch.randn(500, 6, generator=noise) @ torch.randn(6, 6, generator=noise)
    rows = (rows - rows.mean(0)) / rows.std(0)
    trained = rbm(units.Gaussian(6), units.Gaussian(3, precision=2.0), 1, weight=0.05)
    history = hm.fit(trained, rows.double(), epochs=20, batch_size=50, seed=0).history
    trained.check_normalizable()
    assert history[-1]["reconstruction"] < history[0]["reconstruction"]

"""The commands ``sample`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .. import files, noise
from ..data import info, names
from ..errors import InvalidOption, RunError, unknown
from ..machines import ConditionalRBM, Label
from ..quality.inputs import FEWEST_ROWS
from ..runs.rows import load_test
from ..runs.setup import Setup, reopen
from ..runs.tables import encoder_of
from ..training import Incomplete, Run
from ..training.batches import as_labels
from . import output, show
from .tables import observed_likelihood, write_table

if TYPE_CHECKING:
    from ..report import LikelihoodRow


def sample_run(
    folder: Path,
    *,
    n: int,
    sweeps: int,
    start: str,
    seed: int,
    out: Path | None,
    label: int | None = None,
    data: str | None = None,
) -> None:
    """Draw samples from the machine of a run folder or a file, of one class if ``label`` is given, and write them."""
    if start not in ("random", "data"):
        raise unknown("start", start, ("random", "data"))
    check_exists(folder)
    trained_on_letters, table = _has_alphabet(folder), encoder_of(folder)
    visible = _visible(folder)
    trained_on_ratings = visible.startswith("ratings")
    trained_on_words = visible.startswith("multinomial") and "total" not in visible
    by_row = trained_on_ratings or trained_on_words
    in_columns = trained_on_ratings or table is not None
    kinds = {".fasta": trained_on_letters, ".txt": trained_on_words, ".csv": in_columns, ".npy": True}
    standard = "samples" + next(suffix for suffix, fits in kinds.items() if fits)
    path = (folder if folder.is_dir() else folder.parent) / standard if out is None else out
    output.check(path)
    suffix = path.suffix.lower()
    letters = suffix in output.FASTA or (suffix == ".csv" and trained_on_letters)
    text = letters or suffix == output.TEXT
    if text and not folder.is_dir():
        what = "letters" if letters else "words"
        raise InvalidOption(f"{folder}: {suffix} needs a run folder, which records the {what}; found a file")
    if _has_window(folder):
        from .frames import sample_frames

        if start != "random" or label is not None:
            raise InvalidOption(f"start, label: expected neither for a run on sequences, {folder}")
        sample_frames(folder, n=n, sweeps=sweeps, seed=seed, path=path, source=data)
        print(f"{n} frames, each given a window of training frames, after {sweeps} sweeps: {path}")
        return
    machine, rows = _open(folder, data, need_rows=start == "data" or suffix == ".png" or text or by_row)
    begin = None
    if start == "data" or by_row:  # with the lengths of training documents, or the rated items of training users
        if rows is None:
            raise InvalidOption(f"{folder}: --start data needs a run folder, which records its data; found a file")
        from ..report import some_rows

        begin = some_rows(rows.train, machine, n, seed=seed)
        if start == "random":
            begin = machine.conserving(begin).independent(len(begin), noise.generator(seed))
    samples = machine.sample(n, sweeps=sweeps, start=begin, seed=seed, **_given(machine, label))
    if suffix == output.TEXT:
        output.write_documents(path, samples, rows)
    elif letters:
        output.write_sequences(path, samples, rows)
    elif trained_on_ratings and suffix == ".csv":
        output.write_ratings(path, samples, rows)
    elif trained_on_words and suffix == ".csv" and rows.words is not None:
        output.write_columns(path, samples, rows.words)
    elif table is not None and suffix == ".csv":
        write_table(path, table.decode(samples))
    else:
        output.write(path, samples, machine, None if rows is None else rows.image)
    print(f"{n} samples after {sweeps} sweeps: {path}")


def _given(machine: Any, label: int | None) -> dict[str, Any]:
    """Return the arguments of ``sample`` that hold the label of the machine at a class."""
    if label is None:
        return {}
    part = Label(machine)
    wanted = as_labels([label], classes=part.classes)
    return {"given": part.rows[wanted], "mask": part.mask}


def _has_alphabet(folder: Path) -> bool:
    """Return whether a run was trained on sequences of letters: a file of them, or a data set by name."""
    run = Run(folder)
    table = run.read_config().get("data", {}) if run.config_path.exists() else {}
    source = str(table.get("source", ""))
    return "alphabet" in table or (source in names() and info(source).alphabet is not None)


def _has_window(folder: Path) -> bool:
    """Return whether a run was trained on sequences of frames."""
    run = Run(folder)
    return run.config_path.exists() and "window" in run.read_config().get("data", {})


def _visible(folder: Path) -> str:
    """Return the visible units of a run, as text; empty for a file."""
    run = Run(folder)
    return str(run.read_config().get("machine", {}).get("visible", "")) if run.config_path.exists() else ""


def check_exists(path: Path) -> None:
    """Raise if there is neither a run folder nor a file."""
    if not path.exists():
        raise RunError(f"{path}: no such file or folder; expected a run folder or a .safetensors file")


def _open(folder: Path, source: str | None, need_rows: bool) -> tuple[Any, Any]:
    """Load the machine of a run folder or a file, and its rows if they are needed and known."""
    if need_rows and folder.is_dir():
        setup = reopen(folder, source)
        return setup.machine, setup.rows
    return files.load(folder), None


def evaluate_run(folder: Path, *, data: str | None, betas: int, samples: int, sweeps: int) -> None:
    """Evaluate the machine of a run on training and held-out rows, and compare ``samples`` samples with the data."""
    if 0 < samples < FEWEST_ROWS:
        raise InvalidOption(f"samples: expected 0 or at least {FEWEST_ROWS}, found {samples}")
    from ..report import evaluation as measures
    from ..report import some_rows

    setup = reopen(folder, data)
    if setup.machine.machines[0].context is not None:
        if samples:
            raise InvalidOption(f"samples: expected 0 for a run on sequences, found {samples}")
        _evaluate_frames(setup, folder)
        return
    name, test = load_test(setup.config, setup.rows)
    train_rows = some_rows(setup.rows.train, setup.machine, 20_000, seed=0)
    test_rows = None if test is None else some_rows(test, setup.machine, 20_000, seed=0)
    rows: list[measures.LikelihoodRow] = []
    if setup.rows.table is not None:
        rows += observed_likelihood(setup.machine, setup.rows.table, setup.rows.train, test, betas)
    if not any(isinstance(part, Incomplete) for part in (setup.rows.train, test)):
        rows += measures.evaluate(measures.Subject(setup.machine, train_rows, test_rows, betas=betas))
    seen = f"{len(train_rows):,} training rows" + ("" if test_rows is None else f", {len(test_rows):,} {name} rows")
    _print(f"{folder}: {setup.rows.title}, {seen}", name, rows)
    if samples:
        _compare(folder, setup.machine, train_rows, test_rows, samples, sweeps)


def _print(title: str, name: str, rows: Sequence[LikelihoodRow]) -> None:
    show.table(
        title,
        ["measure", "unit", "train", name, "better", "note"],
        [[r.name, r.unit, show.number(r.train, 5), show.number(r.test, 5), r.better, r.note] for r in rows],
        numbers=(2, 3),
    )


def _evaluate_frames(setup: Setup, folder: Path) -> None:
    """Print the errors of the next frame; those of standardized channels are in units of their variance."""
    from ..report import evaluate_frames
    from .frames import sequences_of

    name, frames = sequences_of(setup)
    seen = f"{len(frames.train[0]):,} training frames"
    seen += "" if frames.test is None else f", {len(frames.test[0]):,} {name} frames"
    _print(
        f"{folder}: {setup.rows.title}, {seen}", name, evaluate_frames(cast("ConditionalRBM", setup.machine), frames)
    )


def _compare(folder: Path, machine: Any, train: Any, test: Any, n: int, sweeps: int) -> None:
    """Compare samples with held-out rows, or with training rows if there are none; print a table and write a figure."""
    from .. import plots, quality

    drawn = machine.sample(n, sweeps=sweeps, start=train, seed=0)
    found = quality.compare(drawn, train if test is None else test, train=None if test is None else train, seed=0)
    show.table(
        f"{n:,} samples after {sweeps} sweeps from training rows",
        ["samples compared with data", "value", "error", "ideal"],
        [
            [r.name, show.number(r.estimate, 4), show.number(r.standard_error, 2), show.number(r.ideal, 4)]
            for r in found.table()
        ],
        numbers=(1, 2, 3),
    )
    print(found.verdict)
    path = folder / "quality.png"
    files.write_figure(path, plots.quality(found))
    print(path)

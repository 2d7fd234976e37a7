"""The commands ``sample`` and ``evaluate``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .. import files, noise, quality, sampling
from ..data import info, names
from ..errors import InvalidOption, NotMixed, RunError, unknown
from ..machines import ConditionalRBM, Label
from ..machines.chain import check_undirected
from ..quality import SampleComparison
from ..quality.inputs import FEWEST_ROWS
from ..runs.rows import load_test
from ..runs.rows.tables import encoder_of
from ..runs.setup import Setup, epochs_done, reopen
from ..training import Incomplete, Run
from ..training.batches import as_labels
from . import output, show
from .steps import step
from .tables import observed_likelihood, write_table

if TYPE_CHECKING:
    from ..report.saved import Evaluation


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
    tempering: bool = False,
    image: str | None = None,
) -> dict[str, Any]:
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
    as_picture = suffix == ".png" and image is None  # the rows have the shape of an image
    if text and not folder.is_dir():
        what = "letters" if letters else "words"
        raise InvalidOption(f"{folder}: {suffix} needs a run folder, which records the {what}; found a file")
    if _has_window(folder):
        from .frames import sample_frames

        if start != "random" or label is not None or tempering:
            raise InvalidOption(f"start, label, tempering: expected none of them for a run on sequences, {folder}")
        sample_frames(folder, n=n, sweeps=sweeps, seed=seed, path=path, source=data)
        print(f"{n} frames, each given a window of training frames, after {sweeps} sweeps: {path}")
        return {"n": n, "sweeps": sweeps, "tempering": False, "file": str(path)}
    machine, rows = _open(folder, data, need_rows=start == "data" or as_picture or text or by_row)
    begin = None
    if start == "data" or by_row:  # with the lengths of training documents, or the rated items of training users
        if rows is None:
            raise InvalidOption(f"{folder}: --start data needs a run folder, which records its data; found a file")
        from ..report import some_rows

        begin = some_rows(rows.train, machine, n, seed=seed)
        if start == "random":
            begin = machine.conserving(begin).independent(len(begin), noise.generator(seed))
    with step(f"{n} chains of {sweeps} sweeps"):
        if tempering:
            samples, note = _tempered(machine, n, sweeps, begin, seed, label)
        else:
            samples, note = machine.sample(n, sweeps=sweeps, start=begin, seed=seed, **_given(machine, label)), ""
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
        shape = output.picture_of(machine, image) or (None if rows is None else rows.image)
        output.write(path, samples, machine, shape)
    print(f"{n} samples after {sweeps} sweeps{note}: {path}")
    return {"n": n, "sweeps": sweeps, "tempering": tempering, "file": str(path)}


def _tempered(machine: Any, n: int, sweeps: int, start: Any, seed: int, label: int | None) -> tuple[Any, str]:
    """Draw samples by parallel tempering, and describe how well the chains exchanged their states; warn if not."""
    if label is not None:
        raise InvalidOption(f"tempering: expected no --label, found {label}; tempered samples have all labels")
    check_undirected(machine, "tempering")
    found = sampling.parallel_tempering(machine, n, sweeps=sweeps, start=start, seed=seed)
    if found.round_trips < n:
        warnings.warn(
            f"the tempered chains have not mixed: {found.round_trips} round trips between the lowest and the highest "
            f"temperature, expected at least {n}, one for each chain; make more sweeps",
            NotMixed,
            stacklevel=2,
        )
    rungs = 0 if found.betas is None else len(found.betas)
    return found.samples, f" of parallel tempering ({rungs} temperatures, {found.round_trips} round trips)"


def _given(machine: Any, label: int | None) -> dict[str, Any]:
    """Return the arguments of ``sample`` that hold the label of the machine at a class."""
    if label is None:
        return {}
    part = Label(machine)
    wanted = as_labels([label], classes=part.classes)
    return {"given": part.rows[wanted], "mask": part.mask}


def _has_alphabet(folder: Path) -> bool:
    """Return whether a run was trained on sequences of letters: a file of them, or a data set by name."""
    source = Run(folder).recorded("data", "source")
    named = source in names() and info(str(source)).alphabet is not None
    return named or Run(folder).recorded("data", "alphabet") is not None


def _has_window(folder: Path) -> bool:
    """Return whether a run was trained on sequences of frames."""
    return Run(folder).recorded("data", "window") is not None


def _visible(folder: Path) -> str:
    """Return the visible units of a run, as text; empty for a file."""
    return str(Run(folder).recorded("machine", "visible") or "")


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


def evaluate_run(folder: Path, *, data: str | None, betas: int, samples: int, sweeps: int) -> dict[str, Any]:
    """Evaluate the machine of a run on training and held-out rows, and compare ``samples`` samples with the data.

    The numbers are saved as ``evaluation.json`` in the run folder, and returned in that form.
    """
    if 0 < samples < FEWEST_ROWS:
        raise InvalidOption(f"samples: expected 0 or at least {FEWEST_ROWS}, found {samples}")
    from ..report import evaluation as measures
    from ..report import some_rows
    from ..report.saved import Evaluation, compared

    setup = reopen(folder, data)
    if setup.machine.machines[0].context is not None:
        if samples:
            raise InvalidOption(f"samples: expected 0 for a run on sequences, found {samples}")
        return _show_evaluation(_evaluate_frames(setup, folder), folder, setup.rows.title, "frames")
    name, test = load_test(setup.config, setup.rows)
    train_rows = some_rows(setup.rows.train, setup.machine, 20_000, seed=0)
    test_rows = None if test is None else some_rows(test, setup.machine, 20_000, seed=0)
    rows: list[measures.LikelihoodRow] = []
    with step("likelihoods"):
        if setup.rows.table is not None:
            rows += observed_likelihood(setup.machine, setup.rows.table, setup.rows.train, test, betas)
        if not any(isinstance(part, Incomplete) for part in (setup.rows.train, test)):
            rows += measures.evaluate(measures.Subject(setup.machine, train_rows, test_rows, betas=betas))
    found = None
    if samples:
        with step(f"{samples:,} samples"):
            found = _compare(setup.machine, train_rows, test_rows, samples, sweeps)
    done = Evaluation(
        epochs_done(folder),
        len(train_rows),
        0 if test_rows is None else len(test_rows),
        name,
        rows,
        None if found is None else compared(found, sweeps),
    )
    plain = _show_evaluation(done, folder, setup.rows.title, "rows")
    if setup.rows.weights is not None:
        print("These are means over rows of equal weight; the metrics of training weight the rows.")
    if found is not None:
        _show_comparison(folder, found, sweeps)
    return plain


def _show_evaluation(done: Evaluation, folder: Path, title: str, rows: str) -> dict[str, Any]:
    """Print the table of an evaluation, save it, and return it as plain values."""
    seen = f"{done.train:,} training {rows}" + (f", {done.test:,} {done.test_name} {rows}" if done.test else "")
    show.table(
        f"{folder}: {title}, {seen}",
        ["measure", "unit", "train", done.test_name, "better", "note"],
        [[r.name, r.unit, show.number(r.train, 5), show.number(r.test, 5), r.better, r.note] for r in done.measures],
        numbers=(2, 3),
    )
    print(done.save(folder))
    return done.to_dict()


def _evaluate_frames(setup: Setup, folder: Path) -> Evaluation:
    """Measure the errors of the next frame; those of standardized channels are in units of their variance."""
    from ..report import evaluate_frames
    from ..report.saved import Evaluation
    from .frames import sequences_of

    name, frames = sequences_of(setup)
    measures = evaluate_frames(cast("ConditionalRBM", setup.machine), frames)
    return Evaluation(epochs_done(folder), *frames.sizes, name, measures)


def _compare(machine: Any, train: Any, test: Any, n: int, sweeps: int) -> SampleComparison:
    """Compare samples with held-out rows, or with training rows if there are none."""
    drawn = machine.sample(n, sweeps=sweeps, start=train, seed=0)
    return quality.compare(drawn, train if test is None else test, train=None if test is None else train, seed=0)


def _show_comparison(folder: Path, found: SampleComparison, sweeps: int) -> None:
    """Print a table of a comparison and write a figure."""
    from .. import plots

    show.table(
        f"{found.sample_rows:,} samples after {sweeps} sweeps from training rows",
        ["samples compared with data", "value", "error", "ideal"],
        [
            [r.name, show.number(r.value, 4), show.number(r.standard_error, 2), show.number(r.ideal, 4)]
            for r in found.table()
        ],
        numbers=(1, 2, 3),
    )
    print(found.verdict)
    output.write_figure(folder / "quality.png", plots.quality(found))

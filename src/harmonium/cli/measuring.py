"""The commands ``sample`` and ``evaluate``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from .. import files, noise, quality, sampling
from ..errors import InvalidOption, NotMixed, RunError, unknown
from ..machines import Label
from ..machines.chain import check_undirected
from ..quality import SampleComparison
from ..quality.inputs import FEWEST_ROWS
from ..runs.rows import load_test
from ..runs.setup import epochs_done, reopen
from ..runs.tables import encoder_of
from ..training import Incomplete, Run
from ..training.batches import as_labels
from . import output, show
from .steps import step
from .tables import observed_likelihood, write_table


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
) -> dict[str, Any]:
    """Draw samples from the machine of a run folder or a file, of one class if ``label`` is given, and write them."""
    if start not in ("random", "data"):
        raise unknown("start", start, ("random", "data"))
    check_exists(folder)
    trained_on_letters, trained_on_words, table = _has_alphabet(folder), _has_words(folder), encoder_of(folder)
    kinds = {".fasta": trained_on_letters, ".txt": trained_on_words, ".csv": table is not None, ".npy": True}
    standard = "samples" + next(suffix for suffix, fits in kinds.items() if fits)
    path = (folder if folder.is_dir() else folder.parent) / standard if out is None else out
    output.check(path)
    suffix = path.suffix.lower()
    letters = suffix in output.FASTA or (suffix == ".csv" and trained_on_letters)
    text = letters or suffix == output.TEXT
    if text and not folder.is_dir():
        what = "letters" if letters else "words"
        raise InvalidOption(f"{folder}: {suffix} needs a run folder, which records the {what}; found a file")
    machine, rows = _open(folder, data, need_rows=start == "data" or suffix == ".png" or text or trained_on_words)
    begin = None
    if start == "data" or trained_on_words:  # samples of documents have the lengths of training documents
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
    elif table is not None and suffix == ".csv":
        write_table(path, table.decode(samples))
    else:
        output.write(path, samples, machine, None if rows is None else rows.image)
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
    """Return whether a run was trained on a file of sequences."""
    run = Run(folder)
    return run.config_path.exists() and "alphabet" in run.read_config().get("data", {})


def _has_words(folder: Path) -> bool:
    """Return whether a run was trained on documents, whose lengths the samples must have."""
    run = Run(folder)
    visible = run.read_config().get("machine", {}).get("visible", "") if run.config_path.exists() else ""
    return str(visible).startswith("multinomial") and "total" not in str(visible)


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
    path = done.save(folder)
    seen = f"{len(train_rows):,} training rows" + ("" if test_rows is None else f", {len(test_rows):,} {name} rows")
    show.table(
        f"{folder}: {setup.rows.title}, {seen}",
        ["measure", "unit", "train", name, "better", "note"],
        [[r.name, r.unit, show.number(r.train, 5), show.number(r.test, 5), r.better, r.note] for r in rows],
        numbers=(2, 3),
    )
    if found is not None:
        _show_comparison(folder, found, sweeps)
    print(path)
    return done.to_dict()


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
            [r.name, show.number(r.estimate, 4), show.number(r.standard_error, 2), show.number(r.ideal, 4)]
            for r in found.table()
        ],
        numbers=(1, 2, 3),
    )
    print(found.verdict)
    path = folder / "quality.png"
    files.write_figure(path, plots.quality(found))
    print(path)

"""The commands ``contacts``, ``mutants`` and ``logos``: machines trained on aligned sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .. import data as datasets
from .. import interactions, plots, tasks
from ..data.alignments import decode, encode
from ..errors import InvalidOption
from ..machines import RBM
from ..report import some_rows
from ..runs.setup import Setup, reopen
from . import output, show

_LISTED = 10  # mutations that are printed
_DRAWN = 2000  # rows and samples of a logo


def contacts_run(
    folder: Path,
    *,
    data: str | None = None,
    contact_map: Path | None = None,
    cutoff: float = 8.0,
    separation: int = 5,
    n: int = 20,
    out: Path | None = None,
    figures: str = "png",
) -> dict[str, Any]:
    """Print the pairs of sites with the strongest couplings; write all pairs (CSV) and ``contacts.png``."""
    suffix = output.figure_suffix(figures)
    setup, rbm, letters = _open(folder, data)
    sites = rbm.visible.sites
    known = None if contact_map is None else datasets.read_contacts(contact_map, sites, cutoff=cutoff)
    found = interactions.contacts(rbm, letters=letters, contact_map=known, separation=separation)
    hits = [""] * len(found.pairs) if found.hits is None else [_flag(hit) for hit in found.hits.tolist()]
    rows = [
        [k + 1, i + 1, j + 1, score, hit]
        for k, ((i, j), score, hit) in enumerate(zip(found.pairs.tolist(), found.scores.tolist(), hits, strict=True))
    ]
    columns = ["rank", "first", "second", "score", "contact"][: 4 if known is None else 5]
    show.table(
        f"{folder}: pairs at least {separation} sites apart with the strongest couplings (sites are counted from 1)",
        columns,
        [[*row[:3], f"{row[3]:.4g}", *row[4:]][: len(columns)] for row in rows[:n]],
        numbers=range(4),
    )
    if known is not None:
        _print_precision(found, sites)
    target = folder / "contacts.csv" if out is None else out
    output.write_table(target, columns, (row[: len(columns)] for row in rows))
    output.write_figure(target.with_suffix(suffix), plots.contact_map(found, sites, title=setup.rows.title))
    known_numbers = {} if known is None else {"average_precision": found.average_precision(), "auc": found.auc()}
    pairs = [dict(zip(columns, row, strict=False)) for row in rows[:n]]
    return {"separation": separation, "pairs": pairs, **known_numbers, "table": str(target)}


def mutants_run(
    folder: Path, *, sequence: str, data: str | None = None, out: Path | None = None, figures: str = "png"
) -> dict[str, Any]:
    """Compute all single mutations of a sequence; write a table (CSV) and a heat map ``mutants.png``."""
    suffix = output.figure_suffix(figures)
    setup, rbm, letters = _open(folder, data)
    name, wild = _sequence(setup, letters, sequence)
    table = tasks.mutations(rbm, wild)
    text = decode(wild[None], letters)[0]
    rows: list[list[Any]] = [
        [f"{text[i]}{i + 1}{letter}", i + 1, text[i], letter, table[i, k].item()]
        for i in range(len(text))
        for k, letter in enumerate(letters)
        if letter != text[i]
    ]
    best = sorted((row for row in rows if "-" not in row[2:4]), key=lambda row: -row[4])
    show.table(
        f"{folder}: {name}, mutations with the largest ln p(mutant) − ln p(wild type)",
        ["mutation", "change"],
        [[row[0], f"{row[4]:+.3f}"] for row in best[:_LISTED]],
        numbers=(1,),
    )
    changes = torch.tensor([row[4] for row in best])
    if len(changes):
        share = (changes > 0).double().mean().item()
        print(f"{len(changes)} mutations between letters: mean change {changes.mean():+.3f}, {share:.0%} favorable")
    target = folder / "mutants.csv" if out is None else out
    output.write_table(target, ["mutation", "site", "wild_type", "mutant", "change"], rows)
    output.write_figure(
        target.with_suffix(suffix), plots.mutation_map(table, letters, wild, title=f"Mutations of {name}")
    )
    return {"sequence": name, "changes": {row[0]: row[4] for row in rows}, "table": str(target)}


def logos_run(
    folder: Path, *, data: str | None = None, n: int = 6, sweeps: int = 200, seed: int = 0, figures: str = "png"
) -> None:
    """Draw logos of the training sequences, of samples, and of the hidden units with the largest weights."""
    suffix = output.figure_suffix(figures)
    setup, rbm, letters = _open(folder, data)
    rows = setup.rows
    start = some_rows(rows.train, rbm, _DRAWN, seed=seed)
    samples = rbm.sample(len(start), sweeps=sweeps, start=start, seed=seed)
    title = f"{len(rows.train):,} training sequences" + (", weighted" if rows.weights is not None else "")
    output.write_figure(
        folder / f"logo{suffix}", plots.logo(rows.one_hot(), letters, weights=rows.weights, title=title)
    )
    output.write_figure(
        folder / f"logo-samples{suffix}", plots.logo(samples, letters, title=f"{len(samples):,} samples")
    )
    output.write_figure(folder / f"logo-hidden{suffix}", plots.hidden_logos(rbm, letters, n=min(n, rbm.hidden.size)))


def _open(folder: Path, source: str | None) -> tuple[Setup, RBM, str]:
    setup = reopen(folder, source)
    if setup.rows.letters is None:
        raise InvalidOption(
            f"{folder}: expected a run on sequences (a FASTA file, for example), found data without letters, "
            f"{setup.rows.title}"
        )
    if not isinstance(setup.machine, RBM):
        raise InvalidOption(
            f"{folder}: expected a machine with one hidden layer, found a {type(setup.machine).__name__}"
        )
    return setup, setup.machine, setup.rows.letters


def _sequence(setup: Setup, letters: str, given: str) -> tuple[str, torch.Tensor]:
    """Return the name and the one-hot values of a sequence, given by its name or by its letters."""
    rows, sites = setup.rows, setup.machine.visible.sites
    numbers = {rows.name(k): k for k in reversed(range(len(rows.train)))}  # the first of equal names
    if given in numbers:
        return given, rows.train.rows(torch.tensor([numbers[given]]), setup.machine)[0]
    if len(given) == sites:
        return "the given sequence", encode(given, letters, sites)[0]
    raise InvalidOption(
        f"sequence: expected the name of a training sequence, such as '{rows.name(0)}', or {sites} letters, "
        f"found '{given}'"
    )


def _print_precision(found: interactions.ContactRanking, sites: int) -> None:
    counts = sorted({max(1, sites // 5), max(1, sites // 2), sites})
    shares = {f"precision of the first {count}": f"{found.precision(count):.2f}" for count in counts}
    show.facts(
        f"{int(found.known.sum())} contacts among {len(found.known)} pairs",
        {
            **shares,
            "precision of random pairs": f"{found.chance:.2f}",
            "average precision": f"{found.average_precision():.3f}",
            "area under the ROC curve": f"{found.auc():.3f}",
        },
    )


def _flag(hit: float) -> str:
    return {1.0: "yes", 0.0: "no"}.get(hit, "unknown")

"""The command ``select``: cross-validated choice of hidden units and penalty."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..errors import InvalidOption
from ..machines import RBM, layout
from ..runs import config as schema
from ..runs import rows
from ..runs.cross_validation import select
from ..training.plan import Plan
from . import output, show
from .tasks import numbers


def select_run(
    source: str,
    *,
    hidden: str,
    l1: str | None,
    l2: str | None,
    l1_squared: str | None,
    visible: str | None,
    out: Path,
    quiet: bool,
    **options: Any,
) -> dict[str, Any]:
    """Print the score of every candidate, and write a plot."""
    output.check_figure(out)
    penalty, strengths = parse_penalty(l1, l2, l1_squared)
    chosen = {name: options.pop(name) for name in ("binarize", "array", "transpose")}
    tables = {"data": {"source": source, "validation": "none", **chosen}, "machine": {"visible": visible}}
    config = schema.merge(schema.Config(training=Plan(seed=options["seed"])), tables)
    loaded = rows.load(config)
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    layer = layout.layer(loaded.visible)
    data = loaded.train.rows(torch.arange(len(loaded.train)), RBM(layer, 1))
    found = select(
        data,
        hidden=[part.strip() for part in hidden.split(",")],
        penalties=numbers(penalty, strengths),
        penalty=penalty,
        visible=layer,
        progress=not quiet,
        **{name: value for name, value in options.items() if value is not None},
    )
    from .. import plots

    files.write_figure(out, plots.selection(found))
    folds = len(found.best.validation)
    show.table(
        f"{source}: validation log-likelihood of {len(data):,} rows in {folds} folds, nats per row",
        ["hidden", penalty, "validation", "standard error", "train", ""],
        [
            [row["hidden"], f"{row[penalty]:g}", show.number(row["validation"], 5), f"{row['standard_error']:.2g}",
             show.number(row["train"], 5), f"chosen: {found.rule}" if row["chosen"] else ""]
            for row in found.table()
        ],
        numbers=(1, 2, 3, 4),
    )  # fmt: skip
    print(out)
    penalized = f" --penalties {penalty.replace('_', '-')}:{found.best.strength:g}" if found.best.strength else ""
    as_given = " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in chosen.items() if value
    )
    print(f"Next: harmonium train {source} --hidden {found.best.hidden}{penalized} {as_given}".rstrip())
    return {"penalty": penalty, "rule": found.rule, "candidates": found.table(), "plot": str(out)}


def parse_penalty(l1: str | None, l2: str | None, l1_squared: str | None) -> tuple[str, str]:
    """Return the name and the strengths of the only penalty that is given; by default no penalty.

    >>> parse_penalty(None, "0,0.01", None), parse_penalty(None, None, None)
    (('l2', '0,0.01'), ('l2', '0'))
    """
    given = {name: text for name, text in (("l1", l1), ("l2", l2), ("l1_squared", l1_squared)) if text is not None}
    if len(given) > 1:
        raise InvalidOption(f"penalty: expected one of --l1, --l2 and --l1-squared, found {len(given)}")
    return next(iter(given.items()), ("l2", "0"))

"""The examples of the documentation run, block after block, as a reader would paste them.

Pages whose examples take minutes are run on the first rows of their data sets and for one epoch: what they call has to
exist and to fit together, their numbers are those of the whole. A block whose data set is not at hand is left out.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import harmonium as hm

DOCS = Path(__file__).parents[1] / "docs"
LONG_PAGES = ["interactions"]
FILES_NEEDED = ["cli", "data"]  # their examples name files of the reader
SHOWN = ["quickstart"]  # run when the site is built, as are the pages in folders
PYTHON = {page.stem for page in DOCS.glob("*.md") if "```python" in page.read_text(encoding="utf-8")}
PAGES = sorted(PYTHON - {*LONG_PAGES, *FILES_NEEDED, *SHOWN})
ROWS = 600


def run(page: str) -> None:
    path = DOCS / f"{page}.md"
    if not path.exists():
        pytest.skip("the documentation is not beside the tests")
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    missing = []
    for block in blocks:
        try:
            exec(block, names)
        except hm.errors.DataNotFound as error:
            missing.append(str(error))
    if missing:
        pytest.skip(f"{len(missing)} of {len(blocks)} examples need data: {missing[0]}")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotMixed")
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG_PAGES)
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotMixed")
def test_examples_in_short(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load, fit = hm.data.load, hm.fit
    monkeypatch.setattr(hm.data, "load", lambda *names, **options: load(*names, **options)[:ROWS])
    monkeypatch.setattr(hm, "fit", lambda *given, **options: fit(*given, **{**options, "epochs": 1, "progress": False}))
    run(page)

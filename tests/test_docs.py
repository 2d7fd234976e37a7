"""The examples of the documentation run, block after block, as a reader would paste them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["likelihood"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotMixed")
def test_examples(page, tmp_path, monkeypatch):
    path = DOCS / f"{page}.md"
    if not path.exists():
        pytest.skip("the documentation is not beside the tests")
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)

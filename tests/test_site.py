"""The documentation site is built without warnings, and its reference has every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
from mkdocs.commands.build import build
from mkdocs.config import load_config
from site_pages import PACKAGES, public_names

REPOSITORY = Path(__file__).parents[1]


def test_every_page_is_in_the_navigation() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} | {f"reference/{name}.md" for name in PACKAGES}
    assert pages == set(re.findall(r": (\S+\.md)$", text, re.M))


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(REPOSITORY / "mkdocs.yml"), site_dir=str(tmp_path))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # strict: a warning is an error
    config.plugins.on_shutdown()
    for package in PACKAGES:
        page = (tmp_path / "reference" / f"{package}.html").read_text(encoding="utf-8")
        missing = [name for name in public_names(package) if f'id="harmonium.{package}.{name}"' not in page]
        assert not missing, f"harmonium.{package}: not in the reference: {missing}"

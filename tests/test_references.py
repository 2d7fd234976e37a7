"""Every paper that a docstring or a page cites is in docs/references.md, and what that page names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture import PACKAGE, REPOSITORY

PAGE = REPOSITORY / "docs" / "references.md"
NAME = r"(?:(?:de|van|von) )?[A-Z][^\W\d_]+(?:-[A-Z][^\W\d_]+)*"
#: the first author and the year: "Neal 2001", "Neal (2001)", "Kabashima, 2003", "Hukushima & Iba (2003)",
#: "de Almeida and Thouless (1978)", "Melchior et al. 2016", "Silverman's (1981)"
CITATION = re.compile(
    rf"({NAME})(?:(?:, {NAME})*,? (?:and|&) {NAME}| et al\.?)?(?:['’]s)?,? \(?((?:19|20)\d\d)\b(?! [a-z])\)?"
)
ENTRY = re.compile(r"^- \*\*(.+? \(\d{4}\))\*\*", re.MULTILINE)
#: pages whose citations are those of data sets
OTHER = {"data.md", "references.md"}


def citations(text: str) -> set[tuple[str, str]]:
    return {(match[1], match[2]) for match in CITATION.finditer(re.sub(r"\s+", " ", text))}


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def entries() -> set[tuple[str, str]]:
    return set().union(*(citations(entry) for entry in ENTRY.findall(PAGE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("annealed importance sampling (Neal 2001).", {("Neal", "2001")}),
        ("after Hukushima & Iba (2003) and Machta (2010); as", {("Hukushima", "2003"), ("Machta", "2010")}),
        ("the line of de Almeida and\n    Thouless (1978)", {("de Almeida", "1978")}),
        ("(Montavon & Müller 2012; Melchior et al. 2016.)", {("Montavon", "2012"), ("Melchior", "2016")}),
        ("Decelle, Fissore and Furtlehner (2017)", {("Decelle", "2017")}),
        ("(Kabashima, 2003, for belief propagation)", {("Kabashima", "2003")}),
        ("Benaych-Georges and Nadakuditi 2012", {("Benaych-Georges", "2012")}),
        ("Silverman's (1981) test", {("Silverman", "1981")}),
        ("Take 2000 rows of MNIST 1998 times; ⟨F⟩ of (2000, 784) values", set()),
    ],
)
def test_citations_are_found(text, expected):
    assert citations(text) == expected


def test_the_page_has_entries():
    assert {("Neal", "2001"), ("de Almeida", "1978"), ("Benaych-Georges", "2012"), ("Gabrié", "2015")} <= entries()


@pytest.mark.slow
def test_every_citation_of_the_code_has_an_entry():
    found = {(*citation, path.name) for path in PACKAGE.rglob("*.py") for text in docstrings(path)
             for citation in citations(text)}  # fmt: skip
    assert len(found) >= 8, "the search finds nothing"
    missing = sorted(f"{author} {year} ({file})" for author, year, file in found if (author, year) not in entries())
    assert not missing, f"not in docs/references.md: {', '.join(missing)}"


def test_every_citation_of_the_pages_has_an_entry():
    pages = [path for path in (REPOSITORY / "docs").glob("*.md") if path.name not in OTHER]
    found = {(*citation, path.name) for path in pages for citation in citations(path.read_text(encoding="utf-8"))}
    missing = sorted(f"{author} {year} ({file})" for author, year, file in found if (author, year) not in entries())
    assert not missing, f"not in docs/references.md: {', '.join(missing)}"

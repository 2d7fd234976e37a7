"""Write the lists of data sets of ``docs/data.md`` from their descriptions in the code.

    python tools/data_page.py

Everything after the heading "The data sets" is generated. A test checks that the page is up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harmonium import data
from harmonium.data.dataset import DatasetInfo

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"
HEADING = "## The data sets\n"


def page() -> str:
    """The page with its generated part as it should be."""
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    infos = sorted(map(data.info, data.names()), key=lambda info: (bool(info.files), info.name))
    return f"{written}{HEADING}\n" + "\n".join([*_overview(infos), "", *_obtaining(infos), "", *_details(infos)]) + "\n"


def _overview(infos: list[DatasetInfo]) -> Iterator[str]:
    yield "| name | kind | shape | splits | labels | visible unit |"
    yield "|---|---|---|---|---|---|"
    for info in infos:
        shape = " × ".join(map(str, info.shape))
        splits = ", ".join(f"{split} {size}" for split, size in info.splits.items())
        labels = "yes" if info.has_labels else "no"
        yield f"| `{info.name}` | {info.kind} | {shape} | {splits} | {labels} | {info.suggested_visible} |"


def _obtaining(infos: list[DatasetInfo]) -> Iterator[str]:
    yield "## How to obtain each data set"
    yield ""
    yield "| name | license | how to obtain | automatic download |"
    yield "|---|---|---|---|"
    for info in infos:
        download = "embedded" if not info.files else "yes" if all(file.url for file in info.files) else "no"
        yield f"| `{info.name}` | {info.license} | {info.obtain[0].upper()}{info.obtain[1:]} | {download} |"


def _details(infos: list[DatasetInfo]) -> Iterator[str]:
    yield "## Details of each data set"
    for info in infos:
        yield from ("", f"### `{info.name}`", "", f"{info.title}. {info.note}".strip(), "")
        yield f"- Split: {info.split_rule}."
        if info.has_labels:
            yield f"- Labels: {info.label_meaning}."
        yield f"- Source: {info.source}."
        yield f"- Citation: {info.citation}."
        if info.files:
            yield from ("", "| file | sha256 | of its | bytes |", "|---|---|---|---|")
        for file in info.files:
            of = {"file": "bytes", "decompressed": "decompressed bytes", "arrays": "arrays"}[file.of]
            yield f"| `{info.folder}/{file.name}` | `{file.sha256}` | {of} | {file.size} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

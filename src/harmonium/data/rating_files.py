"""Lines of files of ratings: a user, an item and a rating each, with the number of the line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harmonium.data.sequence_files import extension, text_lines
from harmonium.errors import InvalidData, unknown
from harmonium.paths import check_file

#: separators by file extension: MovieLens 100k, 1M and later ones, tab-separated tables, RecBole
SEPARATORS = {".data": "\t", ".dat": "::", ".csv": ",", ".tsv": "\t", ".inter": "\t"}
#: names of the three columns in a header, in lowercase and without _ and spaces
COLUMNS = {
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewerid"),
    "item": ("item", "itemid", "iid", "movie", "movieid", "book", "bookid", "isbn", "product", "productid", "asin"),
    "rating": ("rating", "ratings", "stars", "score", "overall", "bookrating"),
}


@dataclass(frozen=True)
class Line:
    """One rating as it is in the file."""

    number: int
    user: str
    item: str
    rating: str


def read_lines(path: Path) -> list[Line]:
    """Read the ratings of a file. Without a header, the first three columns are user, item and rating."""
    separator = SEPARATORS.get(extension(path))
    if separator is None:
        raise unknown("file extension", path.suffix or path.name, SEPARATORS)
    check_file(path)
    rows = [(number, _cells(line, separator)) for number, line in enumerate(text_lines(path), 1) if line.strip()]
    if not rows:
        raise InvalidData(f"{path} is empty: expected a user, an item and a rating in each line")
    found = _header(rows[0][1])
    user, item, rating = found or (0, 1, 2)
    width = len(rows[0][1])
    lines = []
    for number, cells in rows[1:] if found else rows:
        if len(cells) != width or width < 3 or not all((cells[user], cells[item], cells[rating])):
            words = "a user, an item and a rating" if width < 3 else f"{width} cells, as in line {rows[0][0]}"
            raise InvalidData(f"{path}, line {number}: expected {words}, found '{separator.join(cells)[:60]}'")
        lines.append(Line(number, cells[user], cells[item], cells[rating]))
    if not lines:
        raise InvalidData(f"{path} has a header but no ratings")
    return lines


def holds_ratings(path: Path) -> bool:
    """Whether a file contains ratings: by its extension, or for a table by the columns in its header.

    >>> holds_ratings(Path("u.data")), holds_ratings(Path("mine.npy"))
    (True, False)
    """
    kind = extension(path)
    if kind not in (".csv", ".tsv"):
        return kind in SEPARATORS
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return _header(_cells(file.readline(), SEPARATORS[kind])) is not None


def _cells(line: str, separator: str) -> list[str]:
    cells = next(csv.reader([line])) if separator == "," else line.split(separator)
    return [cell.strip() for cell in cells]


def _header(cells: Sequence[str]) -> tuple[int, int, int] | None:
    """The columns of users, items and ratings; None if the first line is no header."""
    names = [cell.lower().partition(":")[0].replace("_", "").replace(" ", "") for cell in cells]
    found = [next((names.index(word) for word in words if word in names), None) for words in COLUMNS.values()]
    user, item, rating = found
    return None if user is None or item is None or rating is None else (user, item, rating)

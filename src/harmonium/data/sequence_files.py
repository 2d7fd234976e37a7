"""Records of sequence files: FASTA, A2M, A3M, Stockholm, CSV and TSV, with the line of every piece of a sequence."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harmonium.errors import InvalidData, clipped, unknown
from harmonium.paths import check_file

#: names of the columns of sequences and of their names in a table, in lowercase
SEQUENCE_COLUMNS = ("sequence", "aligned_sequence", "seq", "sequences")
NAME_COLUMNS = ("name", "id", "identifier", "accession", "header", "names")


@dataclass
class Record:
    """A sequence as it is in the file: its name, the line where it begins, and its pieces (line, text)."""

    name: str
    line: int
    pieces: list[tuple[int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole sequence."""
        return "".join(text for _, text in self.pieces)


def read_records(path: Path) -> list[Record]:
    """Read the records of a file in the format of its extension; a file that begins with # STOCKHOLM is Stockholm."""
    parse = _PARSERS.get(extension(path))
    if parse is None:
        raise unknown("file extension", path.suffix or path.name, _PARSERS)
    check_file(path)
    lines = text_lines(path)
    if not any(line.strip() for line in lines):
        raise InvalidData(f"{path} is empty: expected aligned sequences")
    if parse is _fasta and lines[0].startswith("# STOCKHOLM"):
        parse = _stockholm
    return parse(path, lines)


def extension(path: Path) -> str:
    """The extension in lowercase, without that of a gzip file.

    >>> extension(Path("mine.FASTA.gz")), extension(Path("mine.a3m"))
    ('.fasta', '.a3m')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def holds_sequences(path: Path) -> bool:
    """Return whether a file contains sequences: by its extension, or for a CSV file by its first two lines.

    A CSV file contains sequences if it has a column with such a name, or a single column of text.
    """
    if extension(path) != ".csv":
        return extension(path) in _PARSERS
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            rows = [row for row, _ in zip(csv.reader(file), range(2), strict=False)]
        except csv.Error:  # a field that is too long
            return False
    first = [cell.strip().lower() for cell in rows[0]] if rows else []
    return any(cell in SEQUENCE_COLUMNS for cell in first) or (len(rows) == 2 and _aligned(*rows))


def _aligned(first: list[str], second: list[str]) -> bool:
    """Return whether two rows of a table are single sequences of one length; true, false and nan are numbers."""
    if not len(first) == len(second) == 1 or len(first[0].strip()) != len(second[0].strip()):
        return False
    letters = [cell[0].strip().replace("-", "").replace(".", "") for cell in (first, second)]
    return all(text.isalpha() and text.lower() not in ("true", "false", "nan", "inf") for text in letters)


def text_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, which may be compressed with gzip."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw).decode("utf-8-sig")
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidData(f"{path} is damaged or not a gzip file: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise InvalidData(f"{clipped(path)}: cannot be read ({error.strerror})") from error
    return text.splitlines()


def _fasta(path: Path, lines: list[str]) -> list[Record]:
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        text = "".join(line.split())
        if line.startswith(">"):
            records.append(Record((line.lstrip(">").split() or [str(len(records) + 1)])[0], number))
        elif not text or (line.startswith((";", "#")) and not records):
            continue
        elif not records:
            raise InvalidData(
                f"{path}, line {number}: expected a header that begins with '>', found '{clipped(line, 30)}'"
            )
        else:
            records[-1].pieces.append((number, text))
    if not records:
        raise InvalidData(f"{path}: expected sequences in FASTA, found none")
    return records


def _stockholm(path: Path, lines: list[str]) -> list[Record]:
    """Lines of a name and a piece of its sequence, in one or several blocks; lines with # are annotations."""
    records: dict[str, Record] = {}
    end = None
    for number, line in enumerate(lines, 1):
        words = line.split()
        if number == 1 and not line.startswith("# STOCKHOLM"):
            raise InvalidData(f"{path}, line 1: expected '# STOCKHOLM 1.0', found '{clipped(line, 30)}'")
        if not words or (line.startswith("#") and end is None):
            continue
        if end is not None:
            raise InvalidData(f"{path}, line {number}: expected one alignment, found more after its end in line {end}")
        if words == ["//"]:
            end = number
        elif len(words) != 2:
            raise InvalidData(f"{path}, line {number}: expected a name and a sequence, found '{clipped(line, 30)}'")
        else:
            records.setdefault(words[0], Record(words[0], number)).pieces.append((number, words[1]))
    if end is None:
        raise InvalidData(f"{path}, line {len(lines)}: expected '//' at the end of the alignment; the file is cut off")
    if not records:
        raise InvalidData(f"{path}: expected sequences in Stockholm format, found none")
    return list(records.values())


def _table(delimiter: str) -> Callable[[Path, list[str]], list[Record]]:
    def parse(path: Path, lines: list[str]) -> list[Record]:
        reader = csv.reader(lines, delimiter=delimiter)
        try:
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(c.strip() for c in row)]
        except csv.Error as error:
            raise InvalidData(f"{path}, line {reader.line_num}: expected a table ({error})") from None
        if not rows:
            raise InvalidData(f"{path}: expected aligned sequences, found only empty cells")
        name, sequence, header = _columns(path, rows[0][1])
        width = len(rows[0][1])
        records: list[Record] = []
        for line, row in rows[header:]:
            if len(row) != width:
                raise InvalidData(
                    f"{path}, line {line}: expected {width} columns as in the first line, found {len(row)}"
                )
            label = str(len(records) + 1) if name is None else row[name]
            records.append(Record(label, line, [(line, row[sequence])]))
        if not records:
            raise InvalidData(f"{path} has columns but no rows: expected aligned sequences")
        return records

    return parse


def _columns(path: Path, first: list[str]) -> tuple[int | None, int, bool]:
    """Return the columns of names and of sequences, and whether the first row is a header."""
    words = [cell.lower() for cell in first]
    sequence = next((words.index(word) for word in SEQUENCE_COLUMNS if word in words), None)
    name = next((words.index(word) for word in NAME_COLUMNS if word in words), None)
    if sequence is not None:
        return name, sequence, True
    if len(first) <= 2 and name is None:  # no header: sequences, or names and sequences
        return (None, 0, False) if len(first) == 1 else (0, 1, False)
    raise InvalidData(f"{path}, line 1: expected a column named 'sequence', found the columns {', '.join(first)}")


_PARSERS: dict[str, Callable[[Path, list[str]], list[Record]]] = {
    **dict.fromkeys((".fasta", ".fa", ".fas", ".faa", ".fna", ".afa", ".mfa", ".a2m", ".a3m"), _fasta),
    **dict.fromkeys((".sto", ".stk", ".stockholm"), _stockholm),
    ".csv": _table(","),
    ".tsv": _table("\t"),
}

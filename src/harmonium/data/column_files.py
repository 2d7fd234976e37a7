"""Files of columns with names and types: Parquet and Arrow (also called Feather)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harmonium.errors import InvalidData, clipped
from harmonium.extras import require

if TYPE_CHECKING:
    import pandas


def read_columns(path: Path) -> pandas.DataFrame:
    """Read a file of columns; its extension is one of :data:`EXTENSIONS`.

    >>> import tempfile, pyarrow.feather
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "mine.arrow")
    >>> pyarrow.feather.write_feather(pyarrow.table({"x": [1, 2]}), file)
    >>> read_columns(file)["x"].tolist()
    [1, 2]
    >>> folder.cleanup()
    """
    suffix = path.suffix.lower()
    _, pyarrow = (require(name, f"{suffix} files need") for name in ("pandas", "pyarrow"))
    try:
        return _READERS[suffix](path).to_pandas()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise InvalidData(f"{path} is damaged or not a {suffix} file: {clipped(error)}") from error


def _parquet(path: Path) -> Any:
    return require("pyarrow.parquet").read_table(path)


def _arrow(path: Path) -> Any:
    """Read the file format or the stream format."""
    ipc = require("pyarrow.ipc")
    with path.open("rb") as file:
        is_file = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        return (ipc.open_file if is_file else ipc.open_stream)(file).read_all()


_MAGIC = b"ARROW1"  # the beginning of the file format; streams have none
_READERS: dict[str, Callable[[Path], Any]] = {".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow}
EXTENSIONS = tuple(_READERS)

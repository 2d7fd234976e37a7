"""Optional packages: what is installed with ``pip install 'harmonium[EXTRA]'``, and errors that name the extra."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra

#: package: the extra that installs it, and what needs it
EXTRAS = {
    "typer": ("cli", "the command line needs"),
    "rich": ("cli", "the command line needs"),
    "matplotlib": ("plots", "plots need"),
    "pandas": ("data", "tables in files need"),
    "pyarrow": ("data", "parquet files need"),
    "h5py": ("data", "MATLAB 7.3 files need"),
    "PIL": ("data", "picture files need"),
    "sklearn": ("sklearn", "this needs"),
}
_NAMES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def require(module: str, what: str | None = None) -> Any:
    """The module of an optional package; where it is not installed, an error that says how to install it.

    Args:
        module: name for ``import``.
        what: what needs it, with the verb; by default that of :data:`EXTRAS`.

    >>> require("json.tool").__name__
    'json.tool'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise (explained(error, what) or error) from None


def explained(error: ModuleNotFoundError, what: str | None = None) -> MissingExtra | None:
    """The error in words that name the extra; ``None`` where the missing module belongs to no extra.

    >>> explained(ModuleNotFoundError(name="matplotlib.figure"))
    MissingExtra("plots need matplotlib: pip install 'harmonium[plots]'")
    """
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return None
    extra, needing = EXTRAS[package]
    return MissingExtra(f"{what or needing} {_NAMES.get(package, package)}: pip install 'harmonium[{extra}]'")

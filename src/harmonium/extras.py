"""Optional packages, installed with ``pip install 'harmonium[EXTRA]'``, and errors that name the missing extra."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra

#: for each package, the extra that installs it and the beginning of the error message
EXTRAS = {
    "typer": ("cli", "the command line needs"),
    "rich": ("cli", "the command line needs"),
    "matplotlib": ("plots", "plots need"),
    "pandas": ("data", "table files need"),
    "pyarrow": ("data", "parquet files need"),
    "h5py": ("data", "HDF5 and MATLAB 7.3 files need"),
    "PIL": ("data", "image files need"),
    "sklearn": ("sklearn", "this needs"),
    "onnx": ("onnx", "ONNX files need"),
    "onnxscript": ("onnx", "ONNX files need"),
    "tensorboard": ("tensorboard", "TensorBoard needs"),
    "wandb": ("wandb", "WeightsAndBiases needs"),
}
_NAMES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def require(module: str, what: str | None = None) -> Any:
    """Import a module of an optional package; raises :class:`MissingExtra` if the package is not installed.

    Args:
        module: name of the module.
        what: beginning of the error message, such as "plots need"; by default that of :data:`EXTRAS`.

    >>> require("json.tool").__name__
    'json.tool'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise (explained(error, what) or error) from None


def explained(error: ModuleNotFoundError, what: str | None = None) -> MissingExtra | None:
    """The error that names the missing extra; ``None`` if the missing module belongs to no extra.

    >>> explained(ModuleNotFoundError(name="matplotlib.figure"))
    MissingExtra("plots need matplotlib: pip install 'harmonium[plots]'")
    """
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return None
    extra, needing = EXTRAS[package]
    return MissingExtra(f"{what or needing} {_NAMES.get(package, package)}: pip install 'harmonium[{extra}]'")

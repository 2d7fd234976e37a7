"""Optional packages, and errors that say which one is missing and how to install it."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra

#: for each package, the beginning of the error message
NEEDING = {
    "typer": "the command line needs",
    "rich": "the command line needs",
    "matplotlib": "plots need",
    "pandas": "table files need",
    "pyarrow": "parquet files need",
    "pooch": "downloads need",
    "h5py": "HDF5 and MATLAB 7.3 files need",
    "PIL": "image files need",
    "sklearn": "this needs",
    "onnx": "ONNX files need",
    "onnxscript": "ONNX files need",
    "tensorboard": "TensorBoard needs",
    "wandb": "WeightsAndBiases needs",
}
_NAMES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def require(module: str, what: str | None = None) -> Any:
    """Import a module of an optional package; raises :class:`MissingExtra` if the package is not installed.

    Args:
        module: name of the module.
        what: beginning of the error message, such as "plots need"; by default that of :data:`NEEDING`.

    >>> require("json.tool").__name__
    'json.tool'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise (explained(error, what) or error) from None


def explained(error: ModuleNotFoundError, what: str | None = None) -> MissingExtra | None:
    """The error that names the missing package; ``None`` if the missing module belongs to no optional package.

    >>> explained(ModuleNotFoundError(name="matplotlib.figure"))
    MissingExtra('plots need matplotlib: pip install matplotlib')
    """
    package = (error.name or "").split(".")[0]
    if package not in NEEDING:
        return None
    name = _NAMES.get(package, package)
    return MissingExtra(f"{what or NEEDING[package]} {name}: pip install {name}")

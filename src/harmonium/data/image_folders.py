"""Folders of images: every image is a sample."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harmonium.allocation import check_memory
from harmonium.errors import InvalidData, clipped
from harmonium.extras import require

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
_GRAY, _BLACK_AND_WHITE = "L", "1"
_COLORS = {"RGB", "RGBA", "P", "PA", "LA", "CMYK", "YCbCr"}


def holds_images(path: Path) -> bool:
    """Return whether a path is a folder with images in it or in its subfolders."""
    return os.path.isdir(path) and any(file.suffix.lower() in EXTENSIONS for file in _files(path))


def read_images(path: Path) -> Tensor:
    """Read the images of a folder and of its subfolders, in the order of their names: (n, channels, height, width).

    Values are 0 to 255, in one channel if all images are gray and in three otherwise; they are 0 and 1 if all images
    are black and white. All images have the same size.

    >>> import tempfile, PIL.Image
    >>> folder = tempfile.TemporaryDirectory()
    >>> PIL.Image.new("L", (3, 2), 7).save(Path(folder.name, "a.png"))
    >>> read_images(Path(folder.name))
    tensor([[[[7, 7, 7],
              [7, 7, 7]]]], dtype=torch.uint8)
    >>> folder.cleanup()
    """
    files = sorted(file for file in _files(path) if file.suffix.lower() in EXTENSIONS and file.is_file())
    if not files:
        raise InvalidData(f"{path}: expected images ({', '.join(EXTENSIONS)}) in the folder, found none")
    sizes, modes = zip(*map(_header, files), strict=True)
    for file, size in zip(files, sizes, strict=True):
        if size != sizes[0]:
            expected, found = (f"{width}×{height} pixels" for width, height in (sizes[0], size))
            raise InvalidData(f"{file}: expected {expected} as in {files[0].name}, found {found}; resize the images")
    mode = modes[0] if set(modes) in ({_GRAY}, {_BLACK_AND_WHITE}) else _common(set(modes))
    channels, (width, height) = 3 if mode == "RGB" else 1, sizes[0]
    check_memory(f"{path}: {len(files)} images", len(files) * channels * width * height, "use smaller images")
    pixels = np.empty((len(files), channels, height, width), dtype=np.uint8)
    for rows, file in zip(pixels, files, strict=True):
        rows[:] = _pixels(file, mode).reshape(height, width, channels).transpose(2, 0, 1)
    return torch.from_numpy(pixels)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder."""
    try:
        yield from folder.rglob("*")
    except OSError as error:  # one has vanished in the meantime, or the user may not read it
        raise InvalidData(f"{folder}: cannot be listed ({clipped(error)})") from error


def _common(modes: set[str]) -> str:
    return _GRAY if modes <= {_GRAY, _BLACK_AND_WHITE} else "RGB"


def _header(file: Path) -> tuple[tuple[int, int], str]:
    """Return the size and the mode of an image; its pixels are not read."""
    with _opened(file) as image:
        if image.mode not in {*_COLORS, _GRAY, _BLACK_AND_WHITE}:
            raise InvalidData(f"{file}: expected an image with 8 bits per channel, found the mode {image.mode}")
        return image.size, image.mode


def _pixels(file: Path, mode: str) -> np.ndarray:
    with _opened(file) as image:
        try:
            return np.asarray(image.convert(mode)).astype(np.uint8)
        except (OSError, ValueError, SyntaxError) as error:
            raise InvalidData(f"{file} is damaged: expected an image ({clipped(error)})") from error


def _opened(file: Path) -> Any:
    module = require("PIL.Image", "image files need")
    try:
        return module.open(file)
    except (OSError, ValueError, SyntaxError, module.DecompressionBombError) as error:
        raise InvalidData(f"{file} is damaged or not an image: {clipped(error)}") from error

"""Data sets by name, and the user's own files.

Small digits are embedded; the others are looked for in ``$HARMONIUM_DATA`` and in the user's cache, and
downloaded with their checksum verified where a public address is known. The table is in ``docs/data.md``.

>>> load("digits").shape
torch.Size([1442, 64])
"""

from harmonium.data.dataset import DataFile, DatasetInfo
from harmonium.data.loading import info, load, names, status, vocabulary
from harmonium.data.reading import read
from harmonium.data.weights import similarity_weights

__all__ = ["DataFile", "DatasetInfo", "info", "load", "names", "read", "similarity_weights", "status", "vocabulary"]

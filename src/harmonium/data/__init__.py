"""Load public data sets by name, or your own files.

The ``digits`` are included with scikit-learn. The files of other data sets are searched in ``$HARMONIUM_DATA`` and in
the cache of the user. If a public URL is known, missing files are downloaded and their checksums verified.
``docs/data.md`` lists all data sets.

>>> load("digits").shape
torch.Size([1442, 64])
"""

from harmonium.data.alignments import Alignment, read_alignment, write_fasta
from harmonium.data.contact_maps import read_contacts
from harmonium.data.dataset import DataFile, DatasetInfo
from harmonium.data.documents import Documents, read_documents
from harmonium.data.found_categories import FoundCategories, find_categories
from harmonium.data.frames import Frames, load_frames, read_frames
from harmonium.data.identity import nearest_sequences
from harmonium.data.loading import info, load, names, status, vocabulary
from harmonium.data.ratings import RatingTable, read_ratings
from harmonium.data.reading import read
from harmonium.data.table import TableEncoder, read_table
from harmonium.data.weights import similarity_weights
from harmonium.guard import guard

__all__ = [
    "Alignment",
    "DataFile",
    "DatasetInfo",
    "Documents",
    "FoundCategories",
    "Frames",
    "RatingTable",
    "TableEncoder",
    "find_categories",
    "info",
    "load",
    "load_frames",
    "names",
    "nearest_sequences",
    "read",
    "read_alignment",
    "read_contacts",
    "read_documents",
    "read_frames",
    "read_ratings",
    "read_table",
    "similarity_weights",
    "status",
    "vocabulary",
    "write_fasta",
]

guard(globals())

"""Binary data sets with fixed splits, on which test log-likelihoods of density estimators are published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmonium.data.dataset import DataFile, DatasetInfo, Fetch, Loader, Samples

_LAROCHELLE = "H. Larochelle and I. Murray, The neural autoregressive distribution estimator, AISTATS (2011)"
_LOWD = "D. Lowd and J. Davis, Learning Markov network structure with decision trees, ICDM (2010)"
_VAN_HAAREN = (
    "J. Van Haaren and J. Davis, Markov network structure learning: a randomized feature generation approach, "
    "AAAI (2012)"
)
_MURRAY = "R. Salakhutdinov and I. Murray, On the quantitative analysis of deep belief networks, ICML (2008)"
_DEBD = "github.com/arranger1044/DEBD"
_MLPYTHON = "the data sets of H. Larochelle's MLPython"


@dataclass(frozen=True)
class _Row:
    """What distinguishes one of the sets: ``sizes`` are the numbers of rows for training, validation and test."""

    name: str
    title: str
    columns: int
    sizes: tuple[int, int, int]
    sha256: str
    citation: str
    source: str = _DEBD
    shape: tuple[int, ...] = ()
    note: str = ""


_PUT_TOGETHER = "The {} rows were put together again from the full set without the rows of the other two splits."
_ROWS = (
    _Row(
        "accidents",
        "Traffic accidents",
        111,
        (12758, 1700, 2551),
        "27baa38019ad0d6764009eb076df1a215e6d42af379e136260e0efb481873a51",
        _VAN_HAAREN,
    ),
    _Row(
        "adult",
        "Census income, one-hot columns",
        123,
        (5000, 1414, 26147),
        "4f4d156ae7fb40d552cc6898e89586e1fd2481287c4493ab29defdcc1596065b",
        _LAROCHELLE,
        _MLPYTHON,
        note=_PUT_TOGETHER.format("test"),
    ),
    _Row(
        "baudio",
        "Audioscrobbler, which artists a user listens to",
        100,
        (15000, 2000, 3000),
        "4d6c2af4372f4d0728c88c4d1f2104d3eec3eb3080310a06a0777afa025e4533",
        _LOWD,
    ),
    _Row(
        "binarized-mnist",
        "MNIST digits in a fixed binarization, 28 × 28",
        784,
        (50000, 10000, 10000),
        "6e714ce1619f9f699da509eb535d4adc421638470e38e2502948a44842d377c8",
        _MURRAY,
        _MLPYTHON,
        shape=(1, 28, 28),
        note="Every pixel was drawn once, with its gray value as the probability.",
    ),
    _Row(
        "bnetflix",
        "Netflix, which films a user rated",
        100,
        (15000, 2000, 3000),
        "0bf0cb5a37d2676ec0a1a646e74561ab7880df9af0de6429c3f7995361bd5765",
        _LOWD,
    ),
    _Row(
        "dna",
        "Splice junctions of DNA, one-hot columns",
        180,
        (1400, 600, 1186),
        "98dbe38f4fe5de28d921e5cfdc860839d668feedcdf60e9159490ef01b7a12e1",
        _LAROCHELLE,
        _MLPYTHON,
    ),
    _Row(
        "jester",
        "Jester, which jokes a user likes",
        100,
        (9000, 1000, 4116),
        "180d8442d73526ab6111ddbfc4f9a50a3e56eb62dd86775b270846940048d164",
        _LOWD,
    ),
    _Row(
        "mushrooms",
        "Mushrooms, one-hot columns",
        112,
        (2000, 500, 5624),
        "b0519b323b55bddd52c0dc2b2eaaa74e9dc7e2f50fce46d88ad73133be652d14",
        _LAROCHELLE,
        _MLPYTHON,
    ),
    _Row(
        "nips",
        "Words of articles of NIPS",
        500,
        (400, 100, 1240),
        "3f8399dbc2016cdcb2693bcc008466c8b26f2fbcc380e4a9b41ab8c46a33d3bd",
        _LAROCHELLE,
        _MLPYTHON,
    ),
    _Row(
        "nltcs",
        "National long-term care survey",
        16,
        (16181, 2157, 3236),
        "d57362a42bc920b45be4ee4a2e597e569e5f97c906b9b72f164ac23c621351a7",
        _LOWD,
    ),
    _Row(
        "ocr-letters",
        "Handwritten letters, 16 × 8",
        128,
        (32152, 10000, 10000),
        "42f88369e3ebb6bb48ef6cd31afd7cd1dede60ddb5ad788c5387a5d9bb4748c9",
        _LAROCHELLE,
        _MLPYTHON,
        shape=(1, 16, 8),
        note=_PUT_TOGETHER.format("training"),
    ),
    _Row(
        "plants",
        "In which regions a plant grows",
        69,
        (17412, 2321, 3482),
        "0021129d44804c6c3521bd7f07cc518b9d9b4dba6a4c57d850a7c70aab0795a7",
        _LOWD,
    ),
    _Row(
        "pumsb-star",
        "Census data without the most frequent items",
        163,
        (12262, 1635, 2452),
        "e2153b396a651075dd59dc7caa044ebd73f5daef9f8369855df88ac49b5377a6",
        _VAN_HAAREN,
    ),
)


def _info(row: _Row) -> DatasetInfo:
    stem = row.name.replace("-", "_")
    size = sum(row.sizes) * -(-row.columns // 8) + 8  # packed bits, and the number of columns
    return DatasetInfo(
        name=row.name,
        title=row.title,
        kind="binary",
        shape=row.shape or (row.columns,),
        splits=dict(zip(("train", "validation", "test"), row.sizes, strict=True)),
        split_rule="as published",
        suggested_visible="bernoulli",
        license="none stated; research use",
        citation=row.citation,
        source=row.source,
        obtain=f"write {stem}.npz with the rows of the three published files as train, valid and test, each packed "
        f"with numpy.packbits(rows, axis=1), and variables, the number of columns ({row.columns}).",
        folder="density",
        files=(DataFile(f"{stem}.npz", row.sha256, size, "arrays"),),
        note=row.note,
    )


def packed(info: DatasetInfo) -> Loader:
    """Loader of the rows of one set, eight columns to a byte."""

    def load(fetch: Fetch, split: str) -> Samples:
        arrays = fetch(info.files[0].name)
        rows = arrays[{"train": "train", "validation": "valid", "test": "test"}[split]]
        bits = np.unpackbits(rows, axis=1)[:, : int(arrays["variables"])]
        return Samples(bits.reshape(-1, *info.shape))

    return load


SETS = tuple(map(_info, _ROWS))

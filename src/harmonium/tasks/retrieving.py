"""Retrieval of similar rows by features, judged by labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..errors import InvalidData
from ..shown import brief

_QUERIES = 256  # queries that are ranked at once


@brief
@dataclass(frozen=True)
class Retrieval:
    """Precision and recall of retrieved rows, averaged over queries.

    Attributes:
        retrieved: numbers of retrieved rows, (m,): 1, 2, 4, … and all.
        precision: share of the retrieved rows that have the label of the query, (m,).
        recall: share of the rows with the label of the query that are retrieved, (m,).
        average_precision: mean over the queries of the average precision.
        standard_error: its standard error over the queries.
    """

    retrieved: Tensor
    precision: Tensor
    recall: Tensor
    average_precision: float
    standard_error: float


@torch.no_grad()
def retrieval(features: Any, labels: Any, queries: Any, query_labels: Any) -> Retrieval:
    """Rank rows by cosine similarity of their features with each query, and compare labels.

    Args:
        features: features (n, d) of the rows that are searched, such as ``rbm.hidden_mean(train)``.
        labels: their labels (n,).
        queries: features (m, d) of the queries, such as those of test rows.
        query_labels: their labels (m,).

    >>> found = retrieval([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1], [[1.0, 0.2]], [0])
    >>> found.precision.tolist(), found.average_precision
    ([1.0, 1.0, 0.6666666666666666], 1.0)
    """
    rows, wanted = _normalized(features, "features"), _normalized(queries, "queries")
    of_rows, of_queries = as_tensor(labels, "labels"), as_tensor(query_labels, "query_labels")
    for name, values, given in (("labels", rows, of_rows), ("query_labels", wanted, of_queries)):
        if given.shape != (len(values),):
            raise InvalidData(f"{name}: expected one for each of {len(values)} rows, found {tuple(given.shape)}")
    if rows.shape[1] != wanted.shape[1]:
        raise InvalidData(f"queries: expected {rows.shape[1]} features, found {wanted.shape[1]}")
    at = torch.tensor(sorted({*(2**k for k in range(math.ceil(math.log2(len(rows) + 1)))), len(rows)}))
    rank = torch.arange(1, len(rows) + 1, dtype=torch.float64)
    precision, recall, averages = torch.zeros(len(at)).double(), torch.zeros(len(at)).double(), []
    used = 0
    for part, truth in zip(wanted.split(_QUERIES), of_queries.split(_QUERIES), strict=True):
        order = (part @ rows.T).argsort(dim=1, descending=True, stable=True)
        hits = (of_rows[order] == truth.unsqueeze(1)).double()
        hits = hits[hits.sum(1) > 0]  # a label without rows has no precision
        found = hits.cumsum(1)
        precision += (found / rank)[:, at - 1].sum(0)
        recall += (found / found[:, -1:])[:, at - 1].sum(0)
        averages.append((hits * found / rank).sum(1) / found[:, -1])
        used += len(hits)
    if not used:
        raise InvalidData("query_labels: expected labels of the searched rows, found only others")
    average = torch.cat(averages)
    error = average.std().item() / math.sqrt(used) if used > 1 else math.inf
    return Retrieval(at, precision / used, recall / used, average.mean().item(), error)


def _normalized(features: Any, name: str) -> Tensor:
    values = as_tensor(features, name).float()
    if values.ndim != 2 or not len(values):
        raise InvalidData(f"{name}: expected the shape (n, features) with n ≥ 1, found {tuple(values.shape)}")
    return values / values.norm(dim=1, keepdim=True).clamp_min(1e-30)

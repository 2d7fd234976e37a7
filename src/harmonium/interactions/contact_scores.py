"""Prediction of contacts in a folded molecule: pairs of sites ranked by the corrected norms of their couplings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..machines import RBM
from ..shown import brief
from .n_body_formula import n_body


@torch.no_grad()
def contacts(
    rbm: RBM,
    *,
    letters: str | None = None,
    contact_map: Any = None,
    separation: int = 5,
    method: str = "small",
    **options: Any,
) -> ContactRanking:
    """Rank pairs of sites by the strength of their couplings, to predict contacts (Ekeberg et al. 2013).

    The score of a pair is the Frobenius norm of its couplings in the zero-sum gauge, without the gap, with the average
    product correction (:func:`coupling_norms`, :func:`average_product_correction`).

    Args:
        rbm: an RBM with one-hot visible units.
        letters: one letter for each state; the state "-" is left out of the norms. By default no state is left out.
        contact_map: known contacts (sites, sites) to compare with: 1 (or True) for a contact, 0 for none, nan if
            unknown; see :func:`harmonium.data.read_contacts`.
        separation: smallest distance |i - j| along the sequence; closer pairs are left out.
        method: method of :func:`n_body`. ``"small"`` is of second order in the weights, and exact for Gaussian hidden
            units; ``"exact"`` with ``n_samples`` averages over random sequences.
        options: further options of :func:`n_body`.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Potts((8, 4)), hm.units.Gaussian(3))
    >>> rbm.initialize(weights="normal", scale=1.0, seed=0)
    >>> found = contacts(rbm, letters="ABC-", separation=2)
    >>> found.pairs.shape, found.scores.shape
    (torch.Size([21, 2]), torch.Size([21]))
    """
    couplings = n_body(rbm, 2, method=method, gauge="zero-sum", **options)
    scores = average_product_correction(coupling_norms(couplings, letters))
    return ContactRanking.of(scores, contact_map, separation)


def coupling_norms(couplings: Any, letters: str | None = None) -> Tensor:
    """Frobenius norms of couplings (sites, sites, q, q) of all pairs of sites: (sites, sites).

    ‖J_ij‖ = √(Σ_ab J_ij(a, b)²), without the state "-" of ``letters`` (Ekeberg et al. 2013). The norm depends on the
    gauge; it is smallest in the zero-sum gauge. For units of two states, whose coupling is one number (sites, sites),
    it is the magnitude.

    >>> couplings = torch.zeros(2, 2, 3, 3)
    >>> couplings[0, 1, 0, 0], couplings[0, 1, 1, 0], couplings[0, 1, 2, 2] = 3.0, -4.0, 9.0
    >>> coupling_norms(couplings, "AC-")[0, 1].item()
    5.0
    """
    values = as_tensor(couplings, "couplings")
    if values.ndim not in (2, 4) or values.shape[0] != values.shape[1] or values.shape[-1] != values.shape[-2]:
        raise InvalidData(f"couplings: expected shape (sites, sites, q, q), found {tuple(values.shape)}")
    if values.ndim == 2:
        return values.abs()
    if letters is not None:
        if len(letters) != values.shape[-1]:
            raise InvalidOption(f"letters: expected one for each of {values.shape[-1]} states, found '{letters}'")
        kept = [k for k, letter in enumerate(letters) if letter != "-"]
        values = values[:, :, kept][:, :, :, kept]
    return values.square().sum((2, 3)).sqrt()


def average_product_correction(scores: Any) -> Tensor:
    """Average product correction of scores of pairs (sites, sites): Dunn et al. (2008).

    S_ij - S_i S_j / S, with the mean S_i of the scores of site i with all other sites, and the mean S over all pairs.
    It removes what a pair owes to its two sites alone, such as their variability. The diagonal of the result is 0.

    >>> scores = torch.tensor([[0.0, 2, 2], [2, 0, 5], [2, 5, 0]])
    >>> average_product_correction(scores)[0, 1].item()  # 2 - 2 · 3.5 / 3
    -0.3333333333333335
    """
    matrix = as_tensor(scores, "scores").double().clone()
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InvalidData(f"scores: expected a square matrix of at least two sites, found {tuple(matrix.shape)}")
    matrix.fill_diagonal_(0)
    mean = matrix.sum(1) / (len(matrix) - 1)
    total = mean.mean()
    return (matrix - torch.outer(mean, mean) / total).fill_diagonal_(0) if total != 0 else matrix


@brief
@dataclass(frozen=True)
class ContactRanking:
    """Pairs of sites from the highest score to the lowest.

    Attributes:
        pairs: sites of each pair (n, 2), counted from 0.
        scores: score of each pair (n,).
        hits: 1 for a contact, 0 for none, nan if unknown (n,); None without known contacts. Pairs that are unknown are
            not counted in any of the numbers below.
    """

    pairs: Tensor
    scores: Tensor
    hits: Tensor | None = None

    @classmethod
    def of(cls, scores: Any, contact_map: Any = None, separation: int = 5) -> Self:
        """Rank all pairs at least ``separation`` sites apart by ``scores`` (sites, sites); see :func:`contacts`."""
        matrix = as_tensor(scores, "scores")
        sites = len(matrix)
        if not 1 <= whole("separation", separation) < sites:
            raise InvalidOption(f"separation: expected 1 to {sites - 1} for {sites} sites, found {separation}")
        known = None if contact_map is None else as_tensor(contact_map, "contact_map").double()
        if known is not None and known.shape != matrix.shape:
            raise InvalidData(
                f"contact_map: expected the shape {tuple(matrix.shape)} for {sites} sites, found {tuple(known.shape)}"
            )
        if known is not None and not bool(((known == 0) | (known == 1) | known.isnan()).all()):
            raise InvalidData("contact_map: expected 1 for contacts, 0 or nan elsewhere, found other values")
        first, second = torch.triu_indices(sites, sites, separation)
        order = matrix[first, second].argsort(descending=True, stable=True)
        first, second = first[order], second[order]
        hits = None if known is None else known[first, second]
        return cls(torch.stack([first, second], 1), matrix[first, second], hits)

    @property
    def known(self) -> Tensor:
        """Which of the known pairs are contacts, in the order of the ranking, (m,)."""
        if self.hits is None:
            raise InvalidOption("contact_map: expected known contacts to compare with, found none")
        hits = self.hits.double()
        return hits[~hits.isnan()]

    @property
    def chance(self) -> float:
        """The share of contacts among all pairs: the expected precision of a random ranking."""
        return self.known.mean().item()

    def precision(self, n: int) -> float:
        """The share of contacts among the first ``n`` pairs."""
        return self.known[:n].mean().item()

    def average_precision(self) -> float:
        """The mean over all contacts of the precision up to each: 1 for a perfect ranking."""
        hits = self.known
        precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
        return ((precision * hits).sum() / hits.sum()).item()

    def auc(self) -> float:
        """Area under the ROC curve: the probability that a contact has a higher score than another pair.

        It is 0.5 for a random ranking and 1 for a perfect one. Equal scores count one half.
        """
        hits = self.known.bool().cpu()
        assert self.hits is not None
        scores = self.scores[~self.hits.double().isnan()]
        contacts, others = int(hits.sum()), int((~hits).sum())
        if not contacts or not others:
            return float("nan")
        import scipy.stats  # slow to import

        ranks = torch.from_numpy(scipy.stats.rankdata(scores.cpu().numpy()))
        return (ranks[hits].sum().item() - contacts * (contacts + 1) / 2) / (contacts * others)

"""Predicted ratings and recommended items, from a machine with units of type Ratings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..checks import whole
from ..data.ratings import RatingTable
from ..errors import InvalidData, InvalidOption, unknown
from ..machines import RBM, ConditionalRBM
from ..units import Unit

METHODS = ("exact", "mean-field")
_MOST_ELEMENTS = 2**22  # fields of hidden units computed at once


@torch.no_grad()
def rating_probabilities(
    machine: RBM, ratings: Any, pairs: Any = None, *, context: Any = None, method: str = "exact"
) -> Tensor:
    """Compute p(rating of item q | the user's other ratings) for all values of the scale.

    Adding item q with the value k to a user's machine changes the fields of the hidden units by W_q^k, so

        p(k | v) ∝ exp(b_q^k + Σ_j ln Z_j(B_j + W_qj^k)),   B = the field of the user's other ratings,

    which is exact and linear in the number of hidden units (Salakhutdinov, Mnih & Hinton 2007, section 2.3). A rating
    of item q that the user has given is left out of B.

    Args:
        machine: an RBM with :class:`harmonium.units.Ratings` as visible layer, or a conditional one.
        ratings: the known ratings: a :class:`harmonium.data.RatingTable`, or rows (n, items, values).
        pairs: positions (m, 2) of the users (rows) and items to predict; by default all items of all users.
        context: rows (n, *context) for a :class:`harmonium.ConditionalRBM`, such as which items each user has rated,
            including those whose rating is to be predicted.
        method: ``"exact"``, or ``"mean-field"``: p(k | v) ∝ exp(b_q^k + W_q^k · ⟨h⟩), which is cheaper.

    Returns:
        The probabilities, (m, values), or (n, items, values) without ``pairs``.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Ratings((3, 5)), hm.units.Bernoulli(2))
    >>> rating_probabilities(rbm, torch.zeros(1, 3, 5), [[0, 2]])
    tensor([[0.2000, 0.2000, 0.2000, 0.2000, 0.2000]])
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    unit, ratings = _unit(machine), _known(ratings)
    users = len(ratings)
    if pairs is None:
        every = torch.cartesian_prod(torch.arange(users), torch.arange(unit.shape[0]))
        found = rating_probabilities(machine, ratings, every, context=context, method=method)
        return found.view(users, *unit.shape)
    wanted = _checked_pairs(pairs, users, unit.shape[0]).to(machine.device)
    given = _given_fields(machine, context, users)
    weights = machine.coupling.matrix().view(*unit.shape, -1)
    bias = unit.full(unit.bias)
    out = torch.empty(len(wanted), unit.shape[1], dtype=machine.dtype, device=machine.device)
    if isinstance(ratings, Tensor):
        machine.converted(ratings)  # raises unless the rows have the shape of the visible layer
    for place, field in _fields(machine, ratings, wanted, weights):
        user, item = wanted[place].T
        own = bias[item] + given[0][user, item] if 0 in given else bias[item]
        field = field + given[1][user].flatten(1) if 1 in given else field
        out[place] = own + (_added if method == "exact" else _mean_field)(machine, field, weights[item])
    return torch.softmax(out, -1)


def predict(
    machine: RBM,
    ratings: Any,
    pairs: Any = None,
    *,
    context: Any = None,
    values: Sequence[float] | None = None,
    method: str = "exact",
) -> Tensor:
    """Compute expected ratings, which have the least mean squared error; arguments as of :func:`rating_probabilities`.

    ``values`` are those of the scale, by default of the table, or 1, 2, … for rows. Returns (m,), or (n, items).

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Ratings((3, 5)), hm.units.Bernoulli(2))
    >>> predict(rbm, torch.zeros(2, 3, 5)).round(decimals=4)
    tensor([[3., 3., 3.],
            [3., 3., 3.]])
    """
    p = rating_probabilities(machine, ratings, pairs, context=context, method=method)
    return p @ _values(ratings, values, p.shape[-1]).to(p)


@dataclass(frozen=True)
class Recommendation:
    """The best items for a user, best first: their names, and their expected ratings on the user's scale."""

    user: str
    items: tuple[str, ...]
    expected: tuple[float, ...]

    def __str__(self) -> str:
        listed = ", ".join(f"{item} ({value:.2f})" for item, value in zip(self.items, self.expected, strict=True))
        return f"{self.user}: {listed}"


def recommend(
    machine: RBM,
    ratings: Any,
    n: int = 10,
    *,
    users: Sequence[object] | None = None,
    context: Any = None,
    method: str = "exact",
) -> list[Recommendation]:
    """Recommend items that a user has not rated, those with the highest expected ratings.

    Args:
        machine: an RBM with :class:`harmonium.units.Ratings` as visible layer.
        ratings: the known ratings: a :class:`harmonium.data.RatingTable`, or rows (n, items, values) of users and items
            named by their position.
        n: number of items; fewer for a user who has rated almost all.
        users: names of users; by default all.
        context, method: as of :func:`rating_probabilities`.

    >>> import harmonium as hm
    >>> table = hm.data.RatingTable.of([("ann", "film", 4), ("bob", "film", 2), ("bob", "play", 3)])
    >>> rbm = hm.RBM(hm.units.Ratings(table.shape), hm.units.Bernoulli(2))
    >>> print(recommend(rbm, table, users=["ann"])[0])
    ann: play (3.00)
    """
    if whole("n", n) < 1:
        raise InvalidOption(f"n: expected at least 1, found {n}")
    _unit(machine)
    table = ratings if isinstance(ratings, RatingTable) else _table(machine, ratings)
    places = {name: k for k, name in enumerate(table.users)}
    chosen = list(table.users) if users is None else [str(user) for user in users]
    missing = [name for name in chosen if name not in places]
    if missing:
        raise unknown("user", missing[0], table.users)
    rated = table.rated
    found = []
    for name in chosen:
        free = (~rated[places[name]]).nonzero().squeeze(1)
        pairs = torch.stack([torch.full_like(free, places[name]), free], 1)
        expected = predict(machine, table, pairs, context=context, method=method).cpu()
        best = torch.sort(expected, descending=True, stable=True)
        items = tuple(table.items[int(free[k])] for k in best.indices[:n])
        found.append(Recommendation(name, items, tuple(best.values[:n].tolist())))
    return found


# -- fields of the hidden units ------------------------------------------------------------------------------------


def _fields(machine: RBM, ratings: Any, pairs: Tensor, weights: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield positions of pairs, and the fields (m, hidden) of the ratings of their users without the pair's own."""
    chunk = max(1, _MOST_ELEMENTS // (weights.shape[1] * weights.shape[2]))
    order = torch.argsort(pairs[:, 0], stable=True)
    for place in order.split(chunk):
        users, row = pairs[place, 0].unique(return_inverse=True)
        states = machine.checked_states(_rows(ratings, users), "ratings")
        item = pairs[place, 1]
        own = torch.einsum("mk,mkj->mj", states[row, item], weights[item])
        yield place, machine.coupling.up(states).flatten(1)[row] - own


def _given_fields(machine: RBM, context: Any, users: int) -> dict[int, Tensor]:
    """The fields of the context on the visible (0) and on the hidden layer (1): (users, *shape) each."""
    if isinstance(machine, ConditionalRBM):
        if context is None:
            raise InvalidOption(
                f"context: expected rows of shape ({users}, {', '.join(map(str, machine.context))}), found none"
            )
        rows = machine.as_context(context, users)
        return {k: coupling.up(rows) for k, coupling in machine.context_couplings.items()}
    if context is not None:
        raise InvalidOption("context: expected none for a machine without a context, found some")
    return {}


def _added(machine: RBM, field: Tensor, weights: Tensor) -> Tensor:
    """Σ_j ln Z_j with the item added with each value: (m, hidden) and (m, values, hidden) -> (m, values)."""
    hidden = machine.hidden
    fields = (field.unsqueeze(1) + weights).view(*weights.shape[:2], *hidden.shape)
    return hidden.log_partition(fields).flatten(2).sum(2)


def _mean_field(machine: RBM, field: Tensor, weights: Tensor) -> Tensor:
    hidden = machine.hidden
    mean = hidden.mean(field.view(-1, *hidden.shape)).flatten(1)
    return torch.einsum("mj,mkj->mk", mean, weights)


# -- arguments -----------------------------------------------------------------------------------------------------


def _unit(machine: RBM) -> Unit:
    what = machine.visible.name() if isinstance(machine, RBM) else type(machine).__name__
    if what != "ratings":
        raise InvalidOption(f"machine: expected an RBM with ratings as visible units, found {what}")
    return machine.visible


def _checked_pairs(pairs: Any, users: int, items: int) -> Tensor:
    found = as_tensor(pairs, "pairs")
    if found.ndim != 2 or found.shape[1] != 2 or found.is_floating_point():
        raise InvalidData(f"pairs: expected whole numbers of shape (m, 2), found {found.dtype} {tuple(found.shape)}")
    for column, (name, number) in enumerate((("user", users), ("item", items))):
        wrong = found[:, column][(found[:, column] < 0) | (found[:, column] >= number)]
        if len(wrong):
            raise InvalidData(f"pairs: expected positions of {name}s from 0 to {number - 1}, found {int(wrong[0])}")
    return found


def _known(ratings: Any) -> RatingTable | Tensor:
    """The table, or the rows (n, …) as a tensor."""
    if isinstance(ratings, RatingTable):
        return ratings
    rows = as_tensor(ratings, "ratings")
    if rows.ndim == 0:
        raise InvalidData("ratings: expected a RatingTable or rows (n, items, values), found one number")
    return rows


def _rows(ratings: RatingTable | Tensor, users: Tensor) -> Tensor:
    return ratings.one_hot(users) if isinstance(ratings, RatingTable) else ratings[users.to(ratings.device)]


def _values(ratings: Any, values: Sequence[float] | None, number: int) -> Tensor:
    if values is None:
        values = ratings.values if isinstance(ratings, RatingTable) else range(1, number + 1)
    if len(values) != number:
        raise InvalidOption(f"values: expected {number} values of the scale, found {len(values)}")
    return torch.tensor(list(values), dtype=torch.float64)


def _table(machine: RBM, rows: Any) -> RatingTable:
    states = machine.checked_states(rows, "ratings")
    user, item, level = states.nonzero().T.cpu()
    names = tuple(tuple(map(str, range(size))) for size in states.shape[:2])
    scale = tuple(_values(rows, None, states.shape[2]).tolist())
    return RatingTable(names[0], names[1], scale, user, item, level)

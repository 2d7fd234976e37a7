"""Topics of a machine trained on documents: the words that each hidden unit makes more probable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..machines import RBM, BoltzmannMachine
from ..machines.chain import ArrayLike


@dataclass(frozen=True)
class Topic:
    """Words of a hidden unit, strongest first.

    Attributes:
        unit: index of the hidden unit.
        words: words that become more probable when the unit is active.
        weights: their weights, relative to the mean weight of a word.
        lowered: words that become less probable.
        activity: mean state of the unit in the documents; None without documents.
    """

    unit: int
    words: tuple[str, ...]
    weights: tuple[float, ...]
    lowered: tuple[str, ...] = ()
    activity: float | None = None

    def __str__(self) -> str:
        return " ".join(self.words)


@torch.no_grad()
def topics(
    machine: BoltzmannMachine, vocabulary: Sequence[str], n: int = 10, *, documents: ArrayLike | None = None
) -> list[Topic]:
    """List the words of each hidden unit.

    Words are ranked by W_kj - Σ_k p_k W_kj, the change of ln p(word k) when the unit j becomes active, to first order.
    The frequencies p_k of the words are those of ``documents``, or equal without documents; they change the weights of
    a topic by a constant, and not the order. Topics are in order of the spread of these weights, Σ_k p_k (…)².

    Args:
        machine: an RBM whose visible units are words.
        vocabulary: the word of each visible unit.
        n: number of words of each topic.
        documents: word counts (n, words) of typical documents, such as the training data.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Multinomial(3), hm.units.Bernoulli(1))
    >>> _ = rbm.coupling.weight.data.copy_(torch.tensor([[0.0], [2.0], [-2.0]]))
    >>> print(*topics(rbm, ["apple", "pear", "plum"], n=1))
    pear
    """
    if not isinstance(machine, RBM):
        raise InvalidOption(f"machine: expected an RBM, found {type(machine).__name__}")
    words, size = list(vocabulary), machine.visible.size
    if len(words) != size:
        raise InvalidData(f"vocabulary: expected {size} words, one for each visible unit, found {len(words)}")
    if not 1 <= whole("n", n) <= size:
        raise InvalidOption(f"n: expected 1 to {size} words, found {n}")
    weight = machine.coupling.matrix().double()
    p = weight.new_full((size,), 1 / size)
    activity = None
    if documents is not None:
        rows = machine.checked_states(documents, "documents")
        p = _frequencies(rows)
        activity = machine.hidden_mean(rows).flatten(1).mean(0)
    change = weight - p @ weight
    return [
        _topic(j, words, change[:, j], n, None if activity is None else activity[j].item())
        for j in (p @ change.square()).argsort(descending=True).tolist()
    ]


def _frequencies(rows: Tensor) -> Tensor:
    total = rows.flatten(1).double().sum(0)
    return total / total.sum().clamp_min(1)


def _topic(unit: int, words: Sequence[str], change: Tensor, n: int, activity: float | None) -> Topic:
    order = change.argsort(descending=True).tolist()
    lowered = tuple(words[k] for k in reversed(order[-n:]) if change[k] < 0)
    return Topic(unit, tuple(words[k] for k in order[:n]), tuple(change[order[:n]].tolist()), lowered, activity)

"""Replicated softmax on documents: perplexity, completion, retrieval and topics, against latent Dirichlet allocation.

Both models have the same vocabulary, documents and number of topics. Settings are chosen on training documents that
are held out (``choose=true``), by the perplexity of the second half of their words given the first. The test documents
are used once. As in the paper (Salakhutdinov & Hinton 2009), counts c are replaced by ln(1 + c), rounded
(``counts=log``); ``counts=raw`` keeps them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import harmonium as hm
from harmonium import tasks
from harmonium.likelihood import LogLikelihood

from .. import judging
from ..judging import Measured
from ..options import override, parse_choice
from ..record import Record
from . import lda

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """The size of the experiment."""

    rows: int  # training documents, at most
    held_out: int  # of these, used to choose settings
    epochs: int
    iterations: int  # passes of latent Dirichlet allocation
    documents: int  # test documents whose perplexity is annealed
    runs: int
    betas: int


SETTINGS = {
    "quick": Settings(2000, 200, 8, 4, 40, 20, 300),
    "full": Settings(20_000, 500, 10, 3, 40, 20, 300),
}
#: settings of the replicated softmax and of latent Dirichlet allocation from which one is chosen
RATES = (0.003, 0.01)
PRIORS = (0.1, 0.5, 1.0)
CHOSEN_RATE = 0.01
CHOSEN_PRIORS = {"20newsgroups": 0.5, "kos": 0.1}
#: perplexity per word of 50 topics in the paper: latent Dirichlet allocation, replicated softmax
PUBLISHED = {"20newsgroups": (1091, 953)}
_FEWEST = 2  # words of a document that can be completed
_SWEEPS = 100  # before the reverse annealing
_EXACT_UNITS = 16  # hidden units of the machine whose annealing is compared with the exact value
_TESTED = 2000  # test documents that are completed, and queries of the retrieval
_L1 = 0.001  # penalty of the machine whose topics are listed


def run(
    record: Record,
    scale: str,
    data: str = "20newsgroups",
    topics: int = 50,
    counts: str = "log",
    choose: bool = False,
    epochs: int = 0,
    iterations: int = 0,
    documents: int = 0,
    runs: int = 0,
    betas: int = 0,
    seed: int = 0,
) -> None:
    """Train both models on the documents of a data set and compare them; other options replace those of the scale."""
    parse_choice("counts", counts, ("log", "raw"))
    settings = override(
        SETTINGS[scale], epochs=epochs, iterations=iterations, documents=documents, runs=runs, betas=betas
    )
    train, labels = _shuffled(*_load(data, "train", counts), seed)
    test, test_labels = _shuffled(*_load(data, "test", counts), seed)
    train, labels = train[: settings.rows], None if labels is None else labels[: settings.rows]
    record.say(f"{data}: {len(train)} training and {len(test)} test documents of {train.shape[1]} words")
    rate, prior = CHOSEN_RATE, CHOSEN_PRIORS.get(data, PRIORS[0])
    if choose:
        rate, prior = _choose(record, train, topics, settings, seed)
    machine = fit(train, topics, rate, settings.epochs, seed)
    hm.save(machine, record.folder / "machine.safetensors")
    other = lda.fit(train, topics, prior=prior, iterations=settings.iterations, seed=seed)
    record.numbers |= {"data": data, "topics": topics, "counts": counts, "learning_rate": rate, "prior": prior}
    sparse = fit(train, topics, rate, settings.epochs, seed, l1=_L1)
    hm.save(sparse, record.folder / "sparse.safetensors")
    _list_topics(record, data, sparse, other, train)
    _completion(record, machine, sparse, other, train, test[:_TESTED], seed)
    _perplexity(record, data, machine, other, train, test, settings, scale, seed)
    if labels is not None and test_labels is not None:
        _retrieval(record, machine, other, (train, labels), (test[:_TESTED], test_labels[:_TESTED]))
    if scale == "full":
        _against_exact(record, train, test, rate, settings, seed)


def fit(train: Tensor, topics: int, rate: float, epochs: int, seed: int, *, l1: float = 0.0) -> hm.RBM:
    """Train by contrastive divergence with Adam; the learning rate decreases to zero in the second half.

    Without a penalty a unit has words of several themes, and a theme has several units. A penalty ``l1`` of the weights
    makes them easier to read, at a higher perplexity.
    """
    machine = hm.RBM(hm.units.Multinomial(train.shape[1]), hm.units.Bernoulli(topics))
    hm.fit(
        machine,
        train,
        negative="cd:1",
        optimizer="adam",
        learning_rate=rate,
        schedule="linear:0.5",
        penalties=[*([hm.L1(l1)] if l1 else [])],
        epochs=epochs,
        seed=seed,
        progress=False,
    )
    return machine


def _load(data: str, split: str, counts: str) -> tuple[Tensor, Tensor | None]:
    """The documents of a split with two or more words, and their labels if there are any."""
    labeled = hm.data.info(data).has_labels
    loaded = hm.data.load(data, split=split, labels=labeled)
    rows, labels = loaded if isinstance(loaded, tuple) else (loaded, None)
    rows = rows.log1p().round() if counts == "log" else rows
    kept = rows.sum(1) >= _FEWEST
    return rows[kept], None if labels is None else labels[kept]


def _shuffled(rows: Tensor, labels: Tensor | None, seed: int) -> tuple[Tensor, Tensor | None]:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows[order], None if labels is None else labels[order]


# -- choosing settings ------------------------------------------------------------------------------------------------


def _choose(record: Record, train: Tensor, topics: int, settings: Settings, seed: int) -> tuple[float, float]:
    """The learning rate and the prior with the smallest completion perplexity of held-out training documents."""
    held, rest = train[: settings.held_out], train[settings.held_out :]
    first, second = tasks.halves(held, seed=seed)
    rows: list[dict[str, Any]] = []
    best: dict[str, dict[float, float]] = {"rate": {}, "prior": {}}
    for rate in RATES:
        machine = fit(rest, topics, rate, settings.epochs, seed)
        found = tasks.completion_perplexity(tasks.next_word(machine, first), second)
        rows.append({"model": "replicated softmax", "setting": f"learning rate {rate:g}", "perplexity": found})
        best["rate"][rate] = found
    for prior in PRIORS:
        model = lda.fit(rest, topics, prior=prior, iterations=settings.iterations, seed=seed)
        found = tasks.completion_perplexity(model.next_word(first), second)
        rows.append({"model": "latent Dirichlet allocation", "setting": f"prior {prior:g}", "perplexity": found})
        best["prior"][prior] = found
    for row in rows:
        record.say(f"validation: {row['model']}, {row['setting']}: {row['perplexity']:.1f}")
    record.table("validation", rows)
    rate, prior = (min(found, key=lambda value, found=found: found[value]) for found in best.values())  # type: ignore[misc]
    return rate, prior


# -- measuring --------------------------------------------------------------------------------------------------------


def _list_topics(record: Record, data: str, machine: hm.RBM, other: lda.Lda, train: Tensor) -> None:
    words = hm.data.vocabulary(data)
    found = tasks.topics(machine, words, documents=train)
    rows = [
        {"model": "replicated softmax", "topic": t.unit, "activity": t.activity, "words": " ".join(t.words)}
        for t in found
    ]
    for k, topic in enumerate(other.phi):
        best = " ".join(words[i] for i in np.argsort(-topic)[:10])
        rows.append({"model": "latent Dirichlet allocation", "topic": k, "activity": None, "words": best})
    record.table("topics", rows)


def _completion(
    record: Record, machine: hm.RBM, sparse: hm.RBM, other: lda.Lda, train: Tensor, test: Tensor, seed: int
) -> None:
    first, second = tasks.halves(test, seed=seed)
    used = second.sum(1) > 0
    first, second = first[used], second[used]
    frequency = (train.sum(0) + 1).log().log_softmax(0)
    scores = {
        "word frequencies": frequency.expand(len(first), -1),
        "latent Dirichlet allocation": other.next_word(first),
        "replicated softmax": tasks.next_word(machine, first),
        f"replicated softmax, L1 penalty {_L1:g}": tasks.next_word(sparse, first),
    }
    totals = {name: (second * values).sum(1).double() for name, values in scores.items()}
    lengths = second.sum(1).double()
    table = [{"model": name, "perplexity": math.exp(-values.sum() / lengths.sum())} for name, values in totals.items()]
    for row in table:
        record.say(f"completion: {row['model']} {row['perplexity']:.1f}")
    record.table("completion", table)
    gain = per_word(totals["replicated softmax"] - totals["latent Dirichlet allocation"], lengths)
    perplexities = [row["perplexity"] for row in table[1:]]
    record.claim(
        "given half of the words of a test document, the replicated softmax predicts the other half better than latent "
        "Dirichlet allocation",
        f"perplexity {perplexities[1]:.0f} against {perplexities[0]:.0f}; gain per word {gain} nats",
        gain.above(0.0),
    )


def _perplexity(
    record: Record,
    data: str,
    machine: hm.RBM,
    other: lda.Lda,
    train: Tensor,
    test: Tensor,
    settings: Settings,
    scale: str,
    seed: int,
) -> None:
    some = _some(test, settings.documents, seed)
    found = _annealed(machine, some, train, settings, seed)
    bound, sampled = other.bound(some), other.sampled(some, seed)
    lengths, forward, reverse = (found.details[name] for name in ("lengths", "forward", "reverse"))
    table = [
        _line("replicated softmax, annealing forward", forward, lengths),
        _line("replicated softmax, annealing reverse", reverse, lengths),
        _line("latent Dirichlet allocation, variational bound", bound, lengths),
        _line("latent Dirichlet allocation, importance sampling", sampled, lengths),
    ]
    for row in table:
        record.say(f"perplexity: {row['estimate']} {row['per word']:.1f} (per document {row['per document']:.1f})")
    record.table("perplexity", table)
    low, high = _perplexities(found)
    record.numbers["annealing"] = {"interval": [low, high], "problems": list(found.problems)}
    best_lda = torch.maximum(bound, sampled)
    gain = per_word(torch.minimum(forward, reverse) - best_lda, lengths)
    record.claim(
        "the perplexity of test documents is below that of latent Dirichlet allocation with the same number of topics",
        f"{found.perplexity(lengths).value:.0f} (annealing from {low:.0f} to {high:.0f}) against "
        f"{_per_word(best_lda, lengths):.0f}, {len(lengths)} documents; gain per word {gain} nats",
        gain.above(0.0) if found.trustworthy else None,
    )
    if data in PUBLISHED and scale == "full":
        there, here = PUBLISHED[data]
        record.numbers["published"] = {"latent Dirichlet allocation": there, "replicated softmax": here}


def _annealed(machine: hm.RBM, some: Tensor, train: Tensor, settings: Settings, seed: int) -> LogLikelihood:
    base = _some(train, 1000, seed)
    return hm.likelihood.estimate(
        machine, some, base=base, runs=settings.runs, betas=settings.betas, sampling_sweeps=_SWEEPS, seed=seed
    )


def _perplexities(found: LogLikelihood) -> tuple[float, float]:
    """The interval of the perplexity per word from both directions of the annealing."""
    lengths = found.details["lengths"]
    low, high = (math.exp(-(end / lengths.mean()).item()) for end in reversed(found.interval))
    return low, high


def _retrieval(
    record: Record,
    machine: hm.RBM,
    other: lda.Lda,
    searched: tuple[Tensor, Tensor],
    queries: tuple[Tensor, Tensor],
) -> None:
    """Average precision of documents of the same group, by cosine similarity."""
    (rows, labels), (wanted, truth) = searched, queries
    weight = torch.log(len(rows) / (rows > 0).sum(0).clamp_min(1))  # inverse document frequencies
    features = {
        "words (tf-idf)": (rows * weight, wanted * weight),
        "latent Dirichlet allocation": (other.features(rows), other.features(wanted)),
        "replicated softmax": (machine.hidden_mean(rows).detach(), machine.hidden_mean(wanted).detach()),
    }
    found = {name: tasks.retrieval(a, labels, b, truth) for name, (a, b) in features.items()}
    record.table(
        "retrieval",
        [
            {"features": name, "retrieved": int(n), "precision": float(p), "recall": float(r)}
            for name, one in found.items()
            for n, p, r in zip(one.retrieved, one.precision, one.recall, strict=True)
        ],
    )
    record.figure("retrieval", _curves(found))
    for name, one in found.items():
        record.say(f"retrieval: {name}: average precision {one.average_precision:.3f} ± {one.standard_error:.3f}")
    record.numbers["average_precision"] = {name: one.average_precision for name, one in found.items()}
    ours, theirs = found["replicated softmax"], found["latent Dirichlet allocation"]
    error = math.hypot(ours.standard_error, theirs.standard_error)  # an upper bound: the queries are the same
    gain = Measured(ours.average_precision - theirs.average_precision, error)
    record.claim(
        "documents of the same group are retrieved with a higher average precision than by topics of latent Dirichlet "
        "allocation",
        f"{ours.average_precision:.3f} against {theirs.average_precision:.3f} ({len(truth)} queries)",
        gain.above(0.0),
    )


def _curves(found: dict[str, tasks.Retrieval]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, one in found.items():
        axes.plot(one.recall, one.precision, label=name)
    axes.set(xscale="log", xlabel="recall", ylabel="precision", ylim=(0, 1))
    axes.legend(frameon=False)
    return figure


def _against_exact(record: Record, train: Tensor, test: Tensor, rate: float, settings: Settings, seed: int) -> None:
    """Anneal a machine of few hidden units, whose perplexity is known exactly, with the same settings."""
    machine = fit(train, _EXACT_UNITS, rate, settings.epochs, seed)
    some = _some(test, settings.documents // 4, seed)
    exact = hm.likelihood.exact(machine, some).perplexity(some.sum(1)).value
    low, high = _perplexities(_annealed(machine, some, train, settings, seed))
    record.claim(
        f"with {_EXACT_UNITS} hidden units, the interval of the annealing contains the exact perplexity",
        f"exact {exact:.2f}, annealing {low:.2f} to {high:.2f}",
        low <= exact <= high,
    )


def per_word(differences: Tensor, lengths: Tensor) -> Measured:
    """The sum of ``differences`` per word, with its standard error over the documents (jackknife)."""
    total, words = differences.sum(), lengths.sum()
    parts = (total - differences) / (words - lengths)
    return judging.jackknife((total / words).item(), parts.numpy())


def _line(name: str, log_p: Tensor, lengths: Tensor) -> dict[str, object]:
    per_document = math.exp(-(log_p / lengths).mean())
    return {"estimate": name, "per word": _per_word(log_p, lengths), "per document": per_document}


def _per_word(log_p: Tensor, lengths: Tensor) -> float:
    return math.exp(-(log_p.sum() / lengths.sum()).item())


def _some(rows: Tensor, n: int, seed: int) -> Tensor:
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed + 1))[:n]]

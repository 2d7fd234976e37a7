"""Random calls for ratings, texts, classes, conditional machines, tables and deep belief networks."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import torch
from arguments import NUMBERS, PATHS, SHAPES, WHOLE, any_data

import harmonium as hm
from harmonium import likelihood, quality, tasks

Call = Callable[[], Any]
CELLS: list[Any] = [0, 1, 2.5, -3, "a", "b", "", None, float("nan"), float("inf"), 10**30, True, "1e400", "ä\n", 1j, []]
KINDS = ["real", "binary", "category", "count", "count:3", "count:x", "count:-1", "ignore", "nothing", "", "real:2"]
TEXT = ["sun moon star", "", "ä ö ü", "a\0b", "sun " * 50, "the and of", "\ud800", "1 2 3"]
PATTERNS = [r"[a-z]+", "(", "", ".*", r"(a+)+b", "\\"]


@functools.cache
def _made() -> SimpleNamespace:
    """Small machines of every kind, with the data they belong to."""
    ratings = hm.data.RatingTable.of([(f"u{k % 7}", f"m{k % 5}", k % 3 + 1) for k in range(35)])
    frame = pandas.DataFrame({"age": [20.5, 30.0, 41.0, None], "job": list("abca"), "member": [1, 0, None, 1]})
    encoder = hm.data.TableEncoder.fit(frame)
    labels = tasks.label_rbm(hm.units.Bernoulli(6), 3, 2)
    made = SimpleNamespace(
        ratings=ratings,
        rated=hm.RBM(hm.units.Ratings(ratings.shape), 2),
        given_rated=hm.ConditionalRBM(hm.units.Ratings(ratings.shape), 2, len(ratings.items)),
        words=("sun", "moon", "star", "comet", "bread", "salt"),
        texts=hm.RBM(hm.units.Multinomial(6), 2),
        labels=labels,
        classifier=tasks.LabelClassifier(labels),
        conditional=hm.ConditionalRBM(6, 3, 2),
        windows=hm.ConditionalRBM(6, 3, (2, 6)),
        dbn=hm.DeepBeliefNetwork.of([6, 3, 2]),
        dbm=hm.DeepBoltzmannMachine([6, 3, 2]),
        frame=frame,
        encoder=encoder,
        table=hm.RBM(encoder.layer(), 2),
        potts=hm.RBM(hm.units.Potts((2, 3)), 2),
    )
    made.any = [found for name, found in vars(made).items() if isinstance(found, torch.nn.Module)]
    for machine in made.any:
        for parameter in machine.parameters():
            torch.nn.init.normal_(parameter.data, 0, 0.1, generator=torch.Generator().manual_seed(0))
    return made


def task_calls(choice: random.Random, folder: Path) -> dict[str, Callable[[], Any]]:
    """Calls for the applications, by name; files are written to ``folder``."""
    parts = (_ratings, _texts, _classes, _conditional, _tables, _stacks, _samples)
    return {name: call for part in parts for name, call in part(choice, folder).items()}


#: paths that are not folders with files of the computer
FILES = [path for path in PATHS if path not in (".", "/", "")]


def _one(choice: random.Random, usual: Any, others: list[Any]) -> Any:
    """The usual value in half of the cases."""
    return usual if choice.random() < 0.5 else choice.choice(others)


def _ratings(choice: random.Random, folder: Path) -> dict[str, Call]:
    made, few = _made(), choice.choice(WHOLE)
    given = choice.choice([made.ratings, torch.zeros(3, 5, 3), any_data(choice)])
    machine = _one(choice, made.rated, made.any)
    pairs = choice.choice([None, [[0, 1]], [[0, 9]], [[-1, 0]], [[0.5, 1]], any_data(choice)])
    triples = [tuple(choice.choice(CELLS) for _ in range(3)) for _ in range(choice.choice([0, 1, 3]))]
    values = _one(choice, None, [[1, 2, 3], [], [3, 1], [1.0, float("nan")]])
    users = _one(choice, None, [["u1"], ["nobody"], [], [None]])
    context = _one(choice, None, [torch.ones(7, 5), any_data(choice)])

    def written() -> Any:
        (folder / "ratings.csv").write_text("\n".join(",".join(map(str, row)) for row in triples), errors="replace")
        return hm.data.read_ratings(folder / "ratings.csv", values)

    return {
        "RatingTable.of": lambda: hm.data.RatingTable.of(triples, values=values, users=users),
        "RatingTable.of data": lambda: hm.data.RatingTable.of(any_data(choice)),
        "RatingTable.one_hot": lambda: made.ratings.one_hot(choice.choice([None, [0], [99], [-1], any_data(choice)])),
        "RatingTable.subset": lambda: made.ratings.subset(any_data(choice)),
        "RatingTable.decode": lambda: made.ratings.decode(any_data(choice)),
        "rating_probabilities": lambda: tasks.rating_probabilities(machine, given, pairs, context=context),
        "rating method": lambda: tasks.predict(
            machine, given, pairs, method=choice.choice(["exact", "mean-field", "x", "", None])
        ),
        "conditional ratings": lambda: tasks.predict(made.given_rated, given, pairs, context=context),
        "predict values": lambda: tasks.predict(made.rated, given, pairs, values=values),
        "recommend": lambda: tasks.recommend(machine, given, _one(choice, few, NUMBERS), users=users, context=context),
        "score_ratings": lambda: tasks.score_ratings(
            made.ratings, _one(choice, made.ratings.ratings, [any_data(choice)]), k=few, relevant=choice.choice(NUMBERS)
        ),
        "fit ratings": lambda: hm.fit(hm.RBM(hm.units.Ratings((5, 3)), 2), given, epochs=1, progress=False),
        "read_ratings": lambda: hm.data.read_ratings(choice.choice(PATHS)),
        "read_ratings text": written,
    }


def _texts(choice: random.Random, folder: Path) -> dict[str, Call]:
    made, few = _made(), choice.choice(WHOLE)
    machine = _one(choice, made.texts, made.any)
    words = _one(choice, made.words, [[], ["a"], "abcdef"])
    lines = choice.choices(TEXT, k=choice.choice([0, 1, 4]))
    vocabulary = _one(choice, None, [few, 10**9, [], ["sun", "sun"], ["nothing"], "sun"])

    def written() -> Any:
        (folder / "texts.txt").write_text("\n".join(lines), errors="replace")
        stop_words = choice.choice([(), "english", "german", ["sun"], "x"])
        return hm.data.read_documents(
            folder / "texts.txt",
            vocabulary=vocabulary,
            stop_words=stop_words,
            pattern=_one(choice, r"[^\W\d_]{3,}", PATTERNS),
        )

    documents = hm.data.Documents(("a", "b"), torch.ones(2, 6, dtype=torch.int32), made.words)
    return {
        "read_documents": lambda: hm.data.read_documents(choice.choice([*FILES, str(folder)])),
        "read_documents text": written,
        "Documents.encode": lambda: documents.encode(choice.choice([lines, *lines])),
        "Documents.decode": lambda: documents.decode(any_data(choice)),
        "next_word": lambda: tasks.next_word(machine, any_data(choice)),
        "halves": lambda: tasks.halves(any_data(choice), seed=few),
        "completion_perplexity": lambda: tasks.completion_perplexity(
            _one(choice, torch.zeros(5, 6), [any_data(choice)]), any_data(choice)
        ),
        "topics": lambda: tasks.topics(machine, words, few, documents=_one(choice, None, [any_data(choice)])),
        "likelihood of texts": lambda: likelihood.exact(machine, any_data(choice)),
        "estimate of texts": lambda: likelihood.estimate(
            machine, any_data(choice), runs=few, betas=choice.choice(WHOLE), sampling_sweeps=few
        ),
        "fit texts": lambda: hm.fit(hm.RBM(hm.units.Multinomial(6), 2), any_data(choice), epochs=1, progress=False),
        "sample texts": lambda: made.texts.sample(few, sweeps=1, start=any_data(choice), seed=0),
    }


def _classes(choice: random.Random, folder: Path) -> dict[str, Call]:
    made, few, number = _made(), choice.choice(WHOLE), choice.choice(NUMBERS)
    rows = _one(choice, torch.eye(6).repeat(3, 1), [any_data(choice)])
    labels = _one(choice, [0, 1, 2] * 6, [[0] * 18, [0.5] * 18, [-1] * 18, ["a"] * 18, [99] * 18, any_data(choice)])
    machine = _one(choice, made.labels, made.any)
    validation = _one(choice, None, [(rows, labels), (rows,), rows, "text", (None, None)])
    options: dict[str, Any] = {"epochs": 1, "progress": False}

    def fresh() -> Any:
        return tasks.label_rbm(hm.units.Bernoulli(6), 3, 2)

    def classifier() -> Any:
        return tasks.LabelClassifier(machine, part=_one(choice, None, WHOLE))

    return {
        "label_rbm": lambda: tasks.label_rbm(hm.units.Bernoulli(choice.choice(SHAPES)), few, choice.choice(SHAPES)),
        "LabelClassifier": classifier,
        "predict_proba": lambda: classifier().predict_proba(rows),
        "predict": lambda: made.classifier.predict(any_data(choice)),
        "classifier error": lambda: made.classifier.error(rows, labels),
        "confusion": lambda: made.classifier.confusion(rows, labels),
        "classifier sample": lambda: made.classifier.sample(labels, sweeps=few, seed=0, check_mixing=False),
        "Labeled": lambda: hm.Labeled(rows, labels, _one(choice, None, WHOLE)),
        "fit_classifier": lambda: tasks.fit_classifier(
            fresh(), rows, labels, validation=validation, patience=_one(choice, None, WHOLE), **options
        ),
        "fit_classifier options": lambda: tasks.fit_classifier(
            fresh(),
            torch.eye(6).repeat(3, 1),
            [0, 1, 2] * 6,
            objective=choice.choice(["hybrid", "generative", "discriminative", "x", ""]),
            alpha=number,
            negative=choice.choice(["cd:1", "pcd:0", "x", "exact", "mean-field:1"]),
            batch_size=few,
            **options,
        ),
        "fit_classifier machine": lambda: tasks.fit_classifier(choice.choice(made.any), rows, labels, **options),
        "finetune": lambda: tasks.finetune(
            choice.choice(made.any), rows, labels, epochs=1, validation=validation, batch_size=few
        ),
        "finetune options": lambda: tasks.finetune(
            made.dbn,
            torch.eye(6),
            [0, 1] * 3,
            epochs=few,
            learning_rate=number,
            dropout=choice.choice([*NUMBERS, [0.1], [0.1, 0.2, 0.3]]),
            schedule=choice.choice(["linear:0.3", "x", "constant"]),
            optimizer=choice.choice(["adam", "sgd", "x", ""]),
        ),
        "to_sequential": lambda: tasks.to_sequential(
            choice.choice(made.any), _one(choice, None, WHOLE), dropout=choice.choice(NUMBERS)
        ),
        "retrieval": lambda: tasks.retrieval(any_data(choice), any_data(choice), any_data(choice), any_data(choice)),
        "retrieval labels": lambda: tasks.retrieval(torch.eye(18, 6), labels, torch.eye(18, 6), labels),
        "Discriminative": lambda: hm.fit(
            choice.choice([fresh(), hm.RBM(6, 2)]), any_data(choice), negative="discriminative", **options
        ),
        "WeightedSum": lambda: hm.WeightedSum([(number, hm.CD(1)), (choice.choice(NUMBERS), hm.PCD(1))]),
    }


def _conditional(choice: random.Random, folder: Path) -> dict[str, Call]:
    made, few = _made(), choice.choice(WHOLE)
    context = _one(choice, torch.ones(45, 2), [torch.ones(45, 3), torch.ones(2), torch.ones(1, 2), any_data(choice)])
    rows = _one(choice, torch.eye(6).repeat(8, 1)[:45], [any_data(choice)])
    frames = _one(choice, torch.rand(20, 6).round(), [any_data(choice), [any_data(choice), any_data(choice)]])
    machine = _one(choice, made.conditional, made.any)
    start = _one(choice, torch.ones(2, 6), [torch.ones(3, 2, 6), any_data(choice)])
    options: dict[str, Any] = {"epochs": 1, "progress": False, "seed": 0}
    return {
        "ConditionalRBM": lambda: hm.ConditionalRBM(choice.choice(SHAPES), 2, choice.choice(SHAPES)),
        "ConditionalRBM couplings": lambda: hm.ConditionalRBM(
            3, 2, 2, to_visible=choice.choice([True, False]), to_hidden=choice.choice([True, False])
        ),
        "given": lambda: made.conditional.given(context),
        "given free_energy": lambda: made.conditional.given(context).free_energy(rows),
        "given log_probability": lambda: made.conditional.given(context).log_probability(rows),
        "given sample": lambda: made.conditional.given(context).sample(few, sweeps=1, seed=0, check_mixing=False),
        "given hidden_mean": lambda: made.conditional.given(context).hidden_mean(rows),
        "without a context": lambda: made.conditional.free_energy(rows),
        "sample without a context": lambda: made.conditional.sample(few, sweeps=1, seed=0),
        "Conditional": lambda: hm.Conditional(rows, context),
        "fit conditional": lambda: hm.fit(hm.ConditionalRBM(6, 2, 2), hm.Conditional(rows, context), **options),
        "fit conditional plain": lambda: hm.fit(machine, rows, negative=choice.choice(["cd:1", "exact"]), **options),
        "Windows": lambda: hm.Windows(frames, few, standardize=choice.choice([True, False])),
        "fit windows": lambda: hm.fit(hm.ConditionalRBM(6, 2, (2, 6)), hm.Windows(frames, 2), **options),
        "next_frame": lambda: tasks.next_frame(machine, context, sweeps=few, warm_up=choice.choice(WHOLE), seed=0),
        "forecast": lambda: tasks.forecast(
            _one(choice, made.windows, made.any), start, few, n=choice.choice(WHOLE), sweeps=1, seed=0
        ),
        "LinearAutoregression": lambda: tasks.LinearAutoregression.fitted(rows, context, choice.choice(NUMBERS)),
        "read_frames": lambda: hm.data.read_frames(choice.choice(FILES)),
    }


def _tables(choice: random.Random, folder: Path) -> dict[str, Call]:
    made = _made()
    names: list[Any] = choice.choices(["age", "job", "member", "other", 3, "", None, "ä"], k=choice.choice([0, 1, 3]))
    cells = {name: [choice.choice(CELLS) for _ in range(4)] for name in names}
    frame = _one(choice, made.frame, [any_data(choice)]) if choice.random() < 0.4 else pandas.DataFrame(cells)
    kinds = _one(choice, None, [{name: choice.choice(KINDS)} for name in names] or [{}])
    states = _one(choice, made.encoder.encode(made.frame), [any_data(choice)])
    column = {name: choice.choice(CELLS) for name in ("name", "values", "mean", "scale", "largest")}
    described = {"format": 1, "columns": [{"kind": choice.choice(KINDS), **column}]}

    def written() -> Any:
        rows = [names, *zip(*cells.values(), strict=True)]
        text = "\n".join(",".join(str(cell) for cell in row) for row in rows)
        (folder / "table.csv").write_text(text, errors="replace")
        return hm.data.TableEncoder.fit(folder / "table.csv", kinds=kinds)

    return {
        "TableEncoder.fit": lambda: hm.data.TableEncoder.fit(frame, kinds=kinds),
        "TableEncoder.fit rows": lambda: hm.data.TableEncoder.fit(
            made.frame, rows=_one(choice, [0, 1], [any_data(choice)])
        ),
        "TableEncoder.fit file": written,
        "TableEncoder.encode": lambda: made.encoder.encode(frame),
        "TableEncoder.decode": lambda: made.encoder.decode(states),
        "TableEncoder.complete": lambda: made.encoder.complete(frame, states),
        "TableEncoder.probabilities": lambda: made.encoder.probabilities(states),
        "TableEncoder.log_jacobian": lambda: made.encoder.log_jacobian(states),
        "TableEncoder.from_dict": lambda: hm.data.TableEncoder.from_dict(
            choice.choice([described, {}, {"format": 1}, {"format": 1, "columns": 3}])
        ),
        "TableEncoder.load": lambda: hm.data.TableEncoder.load(choice.choice([*PATHS, str(folder / "table.csv")])),
        "read_table": lambda: hm.data.read_table(choice.choice(PATHS)),
        "fit table": lambda: hm.fit(hm.RBM(made.encoder.layer(), 2), states, epochs=1, progress=False),
        "Incomplete": lambda: hm.Incomplete(any_data(choice), sweeps=choice.choice(WHOLE)),
        "fit incomplete": lambda: hm.fit(
            hm.RBM(6, 2), hm.Incomplete(any_data(choice)), epochs=1, batch_size=9, progress=False
        ),
        "find_categories": lambda: hm.data.find_categories(any_data(choice)).encode(any_data(choice)),
        "impute table": lambda: tasks.impute(made.table, states),
    }


def _stacks(choice: random.Random, folder: Path) -> dict[str, Call]:
    made, few, shape = _made(), choice.choice(WHOLE), choice.choice(SHAPES)
    stack = choice.choice([made.dbn, made.dbm])
    options: dict[str, Any] = {"seed": 0, "batch_size": 20, "progress": False}
    return {
        "DeepBeliefNetwork.of": lambda: hm.DeepBeliefNetwork.of(choice.choices(SHAPES, k=choice.choice([0, 1, 2, 3]))),
        "DeepBeliefNetwork": lambda: hm.DeepBeliefNetwork(
            choice.choice([[], [hm.RBM(6, 3), hm.RBM(3, 2)], [hm.RBM(6, 3), hm.RBM(4, 2)], None, [made.dbn]]),
            inputs=choice.choice(["samples", "means", "x"]),
        ),
        "DeepBoltzmannMachine": lambda: hm.DeepBoltzmannMachine([6, shape, 2]),
        "features": lambda: made.dbn.features(any_data(choice), _one(choice, None, WHOLE)),
        "stack reconstruct": lambda: made.dbn.reconstruct(any_data(choice)),
        "stack sample": lambda: stack.sample(few, sweeps=1, start=_one(choice, None, [any_data(choice)]), seed=0),
        "stack initialize": lambda: hm.DeepBeliefNetwork.of([6, 3, 2]).initialize(any_data(choice), seed=0),
        "deep initialize": lambda: hm.DeepBoltzmannMachine([6, 3, 2]).initialize(any_data(choice), seed=0),
        "pretrain": lambda: hm.pretrain(
            hm.DeepBeliefNetwork.of([6, 3, 2]),
            any_data(choice),
            epochs=_one(choice, 1, [few, [1], [1, 1], []]),
            **options,
        ),
        "fit stack": lambda: hm.fit(hm.DeepBeliefNetwork.of([6, 3, 2]), any_data(choice), epochs=1, **options),
        "fit deep": lambda: hm.fit(
            hm.DeepBoltzmannMachine([6, 3, 2]),
            any_data(choice),
            epochs=1,
            negative=choice.choice(["deep-pcd:1", "pcd:1", "cd:1", "exact", "mean-field:1"]),
            **options,
        ),
        "deepen": lambda: hm.deepen(choice.choice(made.any), shape, any_data(choice), scale=choice.choice(NUMBERS)),
    }


def _samples(choice: random.Random, folder: Path) -> dict[str, Call]:
    """Functions of samples and of sequences that the other calls do not reach."""
    made, few, number = _made(), choice.choice(WHOLE), choice.choice(NUMBERS)
    machine = choice.choice(made.any)
    return {
        "mutations": lambda: tasks.mutations(_one(choice, made.potts, made.any), any_data(choice)),
        "observed": lambda: likelihood.exact(machine, any_data(choice), mask=any_data(choice)),
        "deep likelihood": lambda: likelihood.exact(made.dbm).log_likelihood(
            any_data(choice), hidden=choice.choice(["naive", "tap", "annealing"]), runs=few, betas=2, seed=0
        ),
        "estimate": lambda: likelihood.estimate(made.potts, any_data(choice), runs=few, betas=2, seed=0),
        "any hidden_mean": lambda: choice.choice([made.rated, made.texts, made.labels]).hidden_mean(any_data(choice)),
        "deep sample given": lambda: made.dbm.sample(2, sweeps=1, given=any_data(choice), seed=0),
        "novelty": lambda: quality.novelty(any_data(choice), any_data(choice)),
        "nearest_neighbor_accuracy": lambda: quality.nearest_neighbor_accuracy(any_data(choice), any_data(choice)),
        "entropy": lambda: quality.entropy(machine, number, any_data(choice)),
        "nearest_neighbors": lambda: tasks.nearest_neighbors(any_data(choice), any_data(choice), k=few),
        "mcc": lambda: tasks.mcc(any_data(choice), any_data(choice), resamples=few),
        "mse": lambda: tasks.mse(any_data(choice), any_data(choice), level=number),
        "similarity_weights": lambda: hm.data.similarity_weights(any_data(choice), number),
        "nearest_sequences": lambda: hm.data.nearest_sequences(any_data(choice), any_data(choice)),
    }

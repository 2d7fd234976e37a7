"""The estimators of ``harmonium.sklearn``: scikit-learn's own checks, and scikit-learn's own results."""

from __future__ import annotations

import pickle
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import BernoulliRBM as Original
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import harmonium as hm
from harmonium.errors import InvalidOption, NotLearned
from harmonium.sklearn import RBM, BernoulliRBM, RBMClassifier

X, y = load_digits(return_X_y=True)
X = X / 16
#: scikit-learn's own class fails the same two, because which unit is flipped depends on the position of a row
RANDOM = dict.fromkeys(
    ("check_methods_subset_invariance", "check_methods_sample_order_invariance"), "score_samples is random"
)


def binary(rows: int = 300) -> np.ndarray:
    return (X[:rows] > 0.5).astype(float)


@pytest.mark.slow
def test_estimators_pass_the_checks_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(BernoulliRBM(n_components=4), expected_failed_checks=RANDOM)
        check_estimator(RBM(n_components=4, epochs=2))
        check_estimator(RBMClassifier(n_components=6, epochs=10, learning_rate=0.1))


@pytest.mark.slow
def test_scikit_learns_own_tests_pass_with_our_class(tmp_path, monkeypatch) -> None:
    """Runs scikit-learn's test module for ``BernoulliRBM`` with our class in its place."""
    import sklearn.neural_network

    spec = find_spec("sklearn.neural_network.tests.test_rbm")
    if spec is None or spec.origin is None:
        pytest.skip("this installation of scikit-learn has no tests")
    monkeypatch.setattr(sklearn.neural_network, "BernoulliRBM", BernoulliRBM)
    copy = tmp_path / "test_rbm_of_scikit_learn.py"
    copy.write_text(Path(spec.origin).read_text(encoding="utf-8"), encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "--rootdir", str(tmp_path)]
    assert pytest.main([*options, str(copy)]) == 0


# -- BernoulliRBM -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_parameters_equal_those_of_scikit_learn(dtype: type, container) -> None:
    rows = container(X[:97].astype(dtype))  # the last batch has 7 rows
    ours, theirs = (
        kind(n_components=12, batch_size=10, n_iter=3, random_state=3).fit(rows) for kind in (BernoulliRBM, Original)
    )
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "h_samples_"):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert found.dtype == expected.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == np.float64 else 1e-5)
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(ours.transform(rows), theirs.transform(rows), atol=tolerance)
    np.testing.assert_allclose(ours.score_samples(rows), theirs.score_samples(rows), rtol=tolerance)
    assert (ours.gibbs(rows) == theirs.gibbs(rows)).mean() > 0.999  # a draw may flip by rounding


def test_partial_fit_equals_that_of_scikit_learn() -> None:
    ours, theirs = (kind(n_components=5, batch_size=20, random_state=0) for kind in (BernoulliRBM, Original))
    for first in range(0, 100, 30):
        ours.partial_fit(X[first : first + 30])
        theirs.partial_fit(X[first : first + 30])
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-12)


def test_attributes_can_be_set() -> None:
    model = BernoulliRBM(n_components=2, n_iter=0, random_state=0).fit(X[:10])
    model.components_ = np.ones((2, 64))
    model.intercept_hidden_ = np.array([0.0, -1.0])
    np.testing.assert_allclose(model.transform(X[:3]), expit(X[:3].sum(1, keepdims=True) + np.array([0.0, -1.0])))


# -- RBM --------------------------------------------------------------------------------------------------------------


def trained(rows: np.ndarray, **options) -> RBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)
        return RBM(**{"n_components": 6, "epochs": 3, "random_state": 0, **options}).fit(rows)


def test_features_and_likelihood_are_those_of_the_machine() -> None:
    rows = binary()
    model = trained(rows, dtype="float64")
    machine = model.machine_
    states = torch.from_numpy(rows)
    np.testing.assert_allclose(model.transform(rows), machine.hidden_mean(states).detach().numpy())
    np.testing.assert_allclose(model.score_samples(rows), machine.log_probability(states).detach().numpy())
    assert model.score(rows) == pytest.approx(hm.likelihood.exact(machine).log_likelihood(states).value)
    assert model.components_.shape == (6, 64)
    h = model.transform(rows)
    np.testing.assert_allclose(model.inverse_transform(h), machine.reconstruct(states).detach().numpy())


@pytest.mark.slow
def test_visible_units_follow_the_data() -> None:
    assert trained(binary()).machine_.visible.name() == "bernoulli"
    gray = trained(X[:200])
    assert gray.machine_.visible.name() == "bernoulli"
    assert gray._redrawn
    real = trained(10 * X[:200] - 3)
    assert real.machine_.visible.name() == "gaussian"
    assert trained(4 * binary(), visible="binomial,trials=4").machine_.visible.name() == "binomial"
    pairs = np.stack([binary(), 1 - binary()], -1).reshape(300, -1)
    assert trained(pairs, visible=hm.units.Potts((64, 2))).machine_.visible.shape == (64, 2)


@pytest.mark.slow
def test_real_columns_are_standardized_and_restored() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) * [1e-3, 1.0, 1e6] + [5.0, 0.0, -1e7]
    model = trained(np.c_[rows, np.full(400, 7.0)], n_components=2, epochs=20)
    samples = model.sample(400, sweeps=50)
    assert np.isfinite(samples).all()
    np.testing.assert_allclose(samples.mean(0)[:3], rows.mean(0), atol=0.3 * rows.std(0).max(), rtol=0.3)
    np.testing.assert_allclose(samples.std(0)[:3], rows.std(0), rtol=0.5)
    np.testing.assert_allclose(samples[:, 3], 7.0, atol=0.5)
    gaussian = -0.5 * ((rows - rows.mean(0)) / rows.std(0)) ** 2 - np.log(rows.std(0) * np.sqrt(2 * np.pi))
    scaled = trained(rows, n_components=2, epochs=20)
    assert scaled.score(rows) == pytest.approx(gaussian.sum(1).mean(), abs=0.3)  # independent columns, known scales


@pytest.mark.slow
@pytest.mark.parametrize("values", ["binary", "gray", "real"])
def test_sparse_input_gives_the_same_machine(values: str) -> None:
    rows = {"binary": binary(150), "gray": X[:150], "real": 3 * X[:150]}[values]
    dense, thin = trained(rows), trained(sparse.csr_matrix(rows))
    np.testing.assert_allclose(dense.components_, thin.components_, atol=1e-5)
    np.testing.assert_allclose(dense.transform(rows), thin.transform(sparse.csr_matrix(rows)), atol=1e-4)


@pytest.mark.slow
def test_partial_fit_continues_the_chains_and_learns() -> None:
    rows = binary(1000)
    model = RBM(n_components=16, random_state=0, batch_size=50)
    model.partial_fit(rows[:500])
    before = model.score(rows)
    (chains,) = model._chains.values()
    for _ in range(20):
        model.partial_fit(rows[:500]).partial_fit(rows[500:])
    assert [chain.shape for chain in model._chains.values()] == [chains.shape]
    assert model.score(rows) > before + 0.5


@pytest.mark.slow
def test_fit_is_reproducible_and_estimators_can_be_cloned_and_pickled() -> None:
    rows = binary()
    model = trained(rows)
    np.testing.assert_array_equal(model.components_, trained(rows).components_)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(rows), model.transform(rows))
    assert clone(RBM(hidden=hm.units.ReLU(3))).get_params()["hidden"].shape == (3,)
    assert list(model.get_feature_names_out()[:2]) == ["rbm0", "rbm1"]
    assert model.set_output(transform="pandas").transform(rows).columns[0] == "rbm0"


@pytest.mark.slow
def test_searches_and_pipelines() -> None:
    search = GridSearchCV(
        make_pipeline(RBM(epochs=2, negative="pcd:1", random_state=0), LogisticRegression(max_iter=200)),
        {"rbm__n_components": [4, 16]},
        cv=2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(binary(), y[:300])
    assert search.best_params_ == {"rbm__n_components": 16}
    likelihoods = GridSearchCV(RBM(epochs=5, negative="pcd:1", random_state=0), {"n_components": [1, 12]}, cv=2).fit(
        binary()
    )
    assert likelihoods.best_params_ == {"n_components": 12}


@pytest.mark.slow
def test_wrong_parameters_are_named() -> None:
    with pytest.raises(InvalidOption, match="visible: expected 64 entries, as X has features, found"):
        RBM(visible=hm.units.Bernoulli(3)).fit(binary())
    with pytest.raises(InvalidOption, match="unknown unit 'bernouli': did you mean 'bernoulli'"):
        RBM(hidden="bernouli").fit(binary())
    with pytest.raises(ValueError, match="X has 3 features, but inverse_transform expects 6"):
        trained(binary()).inverse_transform(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X has 5 features, but RBM is expecting 64 features as input"):
        trained(binary()).transform(np.zeros((2, 5)))


@pytest.mark.slow
def test_twenty_thousand_sparse_columns_give_informative_features() -> None:
    """Rows of rare ones: hidden units must not saturate (scikit-learn issue 9694)."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 2, 400)
    columns = [rng.choice(10_000, 60, replace=False) + 10_000 * t for t in topic]
    rows = sparse.csr_matrix(
        (np.ones(400 * 60), (np.repeat(np.arange(400), 60), np.concatenate(columns))), shape=(400, 20_000)
    )
    model = trained(rows, n_components=4, epochs=15, batch_size=20)
    h = model.transform(rows)
    assert h.std(0).max() > 0.1, "all features are constant"
    accuracy = LogisticRegression().fit(h[:200], topic[:200]).score(h[200:], topic[200:])
    assert accuracy > 0.95


# -- RBMClassifier ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_classifier_has_the_probabilities_of_its_machine() -> None:
    names = np.array(["zero", "one", "two"])
    rows, classes = X[y < 3][:150], names[y[y < 3][:150]]
    model = RBMClassifier(n_components=8, epochs=5, batch_size=20, learning_rate=0.05, random_state=0)
    model.fit(rows, classes)
    assert model.classes_.tolist() == ["one", "two", "zero"] and model.score(rows, classes) > 0.95
    p = model.predict_proba(rows)
    found = hm.tasks.LabelClassifier(model.machine_.double()).predict_proba(torch.from_numpy(rows))
    np.testing.assert_allclose(p, found, rtol=1e-9)
    assert (model.predict(rows) == model.classes_[p.argmax(1)]).all()
    drawn = model.sample(["two", "zero"], sweeps=5)
    assert drawn.shape == (2, 64) and set(np.unique(drawn)) <= {0.0, 1.0}
    with pytest.raises(ValueError, match=r"y: expected classes of \['one', 'two', 'zero'\], found \['three'\]"):
        model.sample(["three"])


@pytest.mark.slow
def test_the_classifier_in_searches_and_pipelines() -> None:
    rows, classes = sparse.csr_matrix(binary(200)), y[:200]
    pipeline = make_pipeline(RBM(n_components=10, epochs=2, random_state=0), RBMClassifier(4, epochs=2, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)
        assert pipeline.fit(rows, classes).predict(rows).shape == (200,)
    search = GridSearchCV(
        RBMClassifier(6, epochs=6, batch_size=20, learning_rate=0.05, random_state=0),
        {"objective": ["discriminative", "hybrid"], "validation_fraction": [0.2]},
        cv=2,
    )
    search.fit(rows, classes)
    assert search.best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(rows), search.predict(rows))
    assert "validation_error" in search.best_estimator_.history_[-1]
    assert clone(again).get_params() == again.get_params()


@pytest.mark.slow
def test_standardized_features_of_the_classifier() -> None:
    rows = np.random.default_rng(0).normal(size=(120, 3)) * [1.0, 50.0, 0.01] + [0.0, 1000.0, 5.0]
    classes = (rows[:, 1] > 1000).astype(int)
    model = RBMClassifier(6, epochs=30, learning_rate=0.05, random_state=0).fit(rows, classes)
    assert model.score(rows, classes) > 0.9
    np.testing.assert_allclose(model.sample([0, 1], sweeps=5).mean(0)[1], 1000.0, atol=300.0)

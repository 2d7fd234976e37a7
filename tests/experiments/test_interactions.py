"""The experiments of the interaction-models paper run end to end on small settings, and their parts are right."""

from __future__ import annotations

import math

import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from harmonium import experiments
from harmonium.experiments.interactions import counting, fig2, fig3, fig4, trained

MNIST_FIGURES = [f"interactions/fig{k}" for k in range(5, 12)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


def options(name: str, shared) -> dict[str, object]:
    chosen = {"data": "digits", "hidden": "3,5,8", "epochs": 1, "rows": 300, "machines": str(shared)}
    return chosen | ({"temperatures": 20} if name.endswith("fig5") else {})


@pytest.mark.parametrize("name", MNIST_FIGURES)
def test_on_trained_machines(name, shared, tmp_path):
    record = experiments.reproduce(name, "quick", tmp_path, **options(name, shared))
    check_left_behind(record, name.removeprefix("interactions/"))


def test_claims_about_sizes_that_are_not_there_stay_open(shared, tmp_path):
    record = experiments.reproduce("interactions/fig8", "quick", tmp_path, **options("interactions/fig8", shared))
    assert record.claims[0].holds is None


@pytest.mark.parametrize("k", [2, 3, 4])
def test_counting_experiments(k, tmp_path):
    record = experiments.reproduce(f"interactions/fig{k}", "quick", tmp_path, size=400, steps=30)
    agreement = [claim for claim in record.claims if "match the probabilities" in claim.claimed]
    assert len(agreement) == {2: 2, 3: 4, 4: 3}[k]
    assert all(claim.holds for claim in agreement)
    assert (tmp_path / f"fig{k}.png").exists()


# -- the machines of figures 2 to 4 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("rbm", "strength"), [(fig2.drawn(), 1.0), (fig2.symmetric(0.5), 0.5)])
def test_pure_three_body_machines(rbm, strength):
    """By enumeration of the machine itself, without the interactions: all states but 111 are equally likely."""
    states, log_p = rbm.distribution()
    all_on = states.sum(1) == 3
    assert torch.allclose(log_p[~all_on], log_p[~all_on][0].expand(7), atol=1e-12)
    assert (log_p[all_on] - log_p[~all_on][0]).item() == pytest.approx(strength, abs=1e-12)


def test_fields_of_figure_4_vanish():
    rbm = fig4.machine("ReLU", 0, visible=4, hidden=3)
    assert hm.analysis.interactions(rbm, 1).abs().max() < 1e-12
    assert hm.analysis.interactions(rbm, 2).abs().max() > 1e-3


def test_wrong_probabilities_are_found():
    """χ² of frequencies against another machine's model is hopeless, against its own it is not."""
    rbm, other = (fig3.machine("Step", seed, visible=5, hidden=4) for seed in (0, 1))
    counted = counting.count(rbm, 2000, 20, seed=0, repeats=5)
    assert counted.chi_square()[2] > 0.001
    wrong = counting.Counted(
        counted.model, counting.count(other, 10, 1, seed=0).log_p, counted.frequencies, counted.size, ()
    )
    assert wrong.chi_square()[2] < 1e-6


def test_rare_states_are_one_cell():
    log_p = torch.tensor([0.5, 0.499, 0.0005, 0.0005], dtype=torch.float64).log()
    frequencies = torch.tensor([[0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    model = hm.analysis.InteractionModel(2, {})
    chi, freedom, _ = counting.Counted(model, log_p, frequencies, 1000, ()).chi_square()
    assert freedom == 1  # the two rare states expect one visit together, which joins the last cell
    assert chi == pytest.approx(0.0)


def test_distances_to_pairwise_models():
    """Pairwise: nothing is missed. Three bodies alone: all is missed without them, less by the nearest pairs."""
    pairs = hm.analysis.InteractionModel(3, {1: [0.3, -0.2, 0.1], 2: torch.full((3, 3), 0.7).fill_diagonal_(0)})
    log_p = pairs.distribution()[1]
    assert counting.best_pairwise(pairs, log_p) == pytest.approx(0, abs=1e-10)
    assert counting.truncated_distance(pairs, log_p, 2) == pytest.approx(0, abs=1e-12)
    assert counting.multi_information(pairs, log_p) > 0.01
    empty = {1: torch.zeros(3), 2: torch.zeros(3, 3)}
    triple = hm.analysis.InteractionModel(3, {**empty, 3: ([[0, 1, 2]], [2.0])})
    log_p = triple.distribution()[1]
    away = counting.truncated_distance(triple, log_p, 2)
    assert away == pytest.approx(math.log(8) + (log_p.exp() * log_p).sum().item())
    assert 1e-4 < counting.best_pairwise(triple, log_p) < counting.multi_information(triple, log_p) < away


# -- the trained machines -------------------------------------------------------------------------------------------


def machines(tmp_path, **given):
    chosen = {"data": "digits", "hidden": "4", "epochs": 2, "rows": 200} | given
    return trained.Machines(experiments.Record("x", "quick", tmp_path), "quick", **chosen)


def test_machines_are_trained_once(tmp_path, capsys):
    first, history = machines(tmp_path)("Step", 4)
    again, same = machines(tmp_path)("Step", 4)
    assert capsys.readouterr().out.count("training") == 1
    assert torch.equal(first.coupling.weight, again.coupling.weight)
    assert same == history
    assert [row["epoch"] for row in history] == [1, 2]
    assert all(math.isfinite(row["test_pseudo_likelihood"]) for row in history)


def test_sizes(tmp_path):
    some = machines(tmp_path, hidden="100, 50,400")
    assert some.sizes == (50, 100, 400)
    assert some.some(50, 380, 1200) == (50, 400)
    assert some.has(100) and not some.has(100, 1200)
    with pytest.raises(hm.errors.InvalidOption, match="'50,400'"):
        machines(tmp_path, hidden="many")
    with pytest.raises(hm.errors.InvalidOption, match="one unit"):
        machines(tmp_path, hidden="0,3")


def test_fields_are_compared_where_units_are_live(tmp_path):
    some = machines(tmp_path, hidden="4")
    mean = some.rows.mean(0)
    assert some.live.tolist() == [0.01 <= value <= 0.99 for value in mean.tolist()]
    found = some.compare(1, ("Step", 4), ("Step", 4))
    assert found.number == int(some.live.sum()) < some.rows.shape[1]
    assert found.pearson == pytest.approx(1)

"""The examples on proteins and spikes: their parts on known cases, and small runs if the data are available."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from experiments import Record
from experiments.interactions import protein_samples, proteins, replicates, spikes
from experiments.judging import Measured, averaged


def alignment(n: int, sites: int, letters: int, seed: int) -> torch.Tensor:
    codes = torch.randint(letters, (n, sites), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.one_hot(codes, letters)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        (proteins, "protein-ww", {"size": 3, "epochs": 1, "rows": 200, "seeds": 2}),
        (protein_samples, "protein-ww", {"size": 3, "epochs": 1, "rows": 200, "seeds": 2, "chains": 20}),
        (spikes, "spikes-15", {"data": "spikes-15", "epochs": 1, "rows": 300, "sweeps": 2, "seeds": 2}),
    ],
)
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotMixed")
def test_runs(module, name, options, tmp_path):
    try:
        hm.data.load(name, split="test")
    except hm.errors.DataNotFound as missing:
        pytest.skip(str(missing))
    record = Record(name, "quick", tmp_path)
    module.run(record, "quick", **options)
    record.close()
    check_left_behind(record, module.__name__.rpartition(".")[2])


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotMixed")
@pytest.mark.slow
def test_machines_are_trained_once(tmp_path, capsys):
    options = {"data": "spikes-15", "epochs": 1, "rows": 300, "sweeps": 2, "seeds": 2}
    try:
        hm.data.load("spikes-15", split="test")
    except hm.errors.DataNotFound as missing:
        pytest.skip(str(missing))
    found = []
    for name, trainings in (("first", 4), ("second", 0)):
        spikes.run(Record("x", "quick", tmp_path / name), "quick", **options, machines=str(tmp_path / "machines"))
        assert capsys.readouterr().out.count("training") == trainings
        found.append((tmp_path / name / "agreement.csv").read_text())
    assert found[0] == found[1]


# -- samples against data ------------------------------------------------------------------------------------------


def test_correlations_of_letters():
    rows, weights = alignment(50, 4, 3, seed=0), torch.rand(50, generator=torch.Generator().manual_seed(1))
    found = protein_samples.correlations(protein_samples.moments(rows, weights))
    x, share = rows.double(), weights.double() / weights.sum()
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for k, ((i, j), a, b) in enumerate(product(pairs, range(3), range(3))):
        first, second = x[:, i, a], x[:, j, b]
        exact = (share * first * second).sum() - (share * first).sum() * (share * second).sum()
        assert found[k].item() == pytest.approx(exact.item(), abs=1e-7)
    assert protein_samples.pearson(found, 2 * found + 1) == pytest.approx(1.0)


def test_two_halves_limit_the_agreement():
    """Sites that agree are estimated well from many rows; independent sites have no correlations to be found."""
    one = alignment(4000, 1, 3, seed=0)
    half, whole = protein_samples.limits(one.repeat(1, 3, 1), torch.ones(4000), seed=0)
    assert 0.99 < half < whole < 1
    assert protein_samples.limits(alignment(400, 3, 3, seed=1), torch.ones(400), seed=0)[0] < 0.7


def test_samples_of_the_right_machine_agree_and_others_do_not():
    rbm = hm.RBM(hm.units.Potts((4, 3)), hm.units.Gaussian(2))
    rbm.coupling.weight.data.normal_(0, 0.7, generator=torch.Generator().manual_seed(0))
    states, log_p = rbm.double().distribution()
    exact = protein_samples.correlations(protein_samples.moments(states, log_p.exp()))
    drawn = protein_samples.draws(rbm, 2000, seed=0, warm_up=50, times=5)
    found = protein_samples.agreement(drawn, exact)
    assert found.value > 0.99 and 0 < found.error < 0.01
    assert found.above(protein_samples.GOAL)
    other = protein_samples.correlations(protein_samples.moments(alignment(500, 4, 3, seed=2)))
    assert protein_samples.agreement(drawn, other).above(protein_samples.GOAL) is False


def test_hidden_units_have_to_be_known(tmp_path):
    with pytest.raises(hm.errors.InvalidOption, match="Gaussian, ReLU"):
        proteins.run(Record("x", "quick", tmp_path), "quick", hidden="relu")


# -- the structure -------------------------------------------------------------------------------------------------


def test_places_are_those_of_a_chain():
    """β carbons of neighbors in a chain are 4 to 7 Å apart, and no pair is closer than 4 Å."""
    places = torch.tensor(proteins.CARBONS, dtype=torch.float64)
    distance = torch.cdist(places, places)
    assert len(places) == len(proteins.PIN1)
    steps = distance.diagonal(1)
    assert steps.min() > 4 and steps.max() < 7
    assert distance.fill_diagonal_(99).min() > 3.5


def test_touching():
    near = proteins.touching()
    assert torch.equal(near, near.T) and not near.diagonal().any()
    assert not (proteins.touching(6.0) & ~near).any()
    assert proteins.touching(0.1).sum() == 0


# -- scores --------------------------------------------------------------------------------------------------------


def test_mutual_information_by_counting():
    rows = alignment(50, 3, 4, seed=1)
    rows[:, 2] = rows[:, 0]
    weight = torch.rand(50, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = proteins.mutual_information(rows, weight)
    share, codes = weight / weight.sum(), rows.argmax(-1)
    for i, j in product(range(3), repeat=2):
        expected = 0.0
        for a, b in product(range(4), repeat=2):
            first, second = codes[:, i] == a, codes[:, j] == b
            both = share[first & second].sum()
            if both > 0:
                expected += float(both * (both / (share[first].sum() * share[second].sum())).log())
        assert found[i, j].item() == pytest.approx(expected, abs=1e-12)
    assert found[0, 2].item() == pytest.approx(found[0, 0].item())  # all there is to know of a copy


def test_attraction_of_opposite_charges():
    couplings = torch.zeros(2, 2, 21, 21, dtype=torch.float64)
    charge = torch.zeros(21, dtype=torch.float64)
    for letters, value in (("KR", 1.0), ("DE", -1.0)):
        for letter in letters:
            charge[proteins.LETTERS.index(letter)] = value
    couplings[0, 1] = -0.3 * torch.outer(charge, charge)
    couplings[1, 0] = 0.7 * charge[:, None]  # equivalent to a field, so not a coupling
    pull = proteins.attraction(couplings)
    assert pull[0, 1].item() == pytest.approx(0.3)
    assert pull[1, 0].item() == pytest.approx(0.0)


def test_ranking():
    near = proteins.touching()
    size = len(near)
    perfect, worst = (proteins.Ranking.of(sign * near.double(), near) for sign in (1, -1))
    contacts = int(perfect.hits.sum())
    assert perfect.precision(contacts) == 1 and worst.precision(contacts) == 0
    assert perfect.chance == pytest.approx(contacts / len(perfect.hits))
    assert perfect.p_value(1) == pytest.approx(perfect.chance)
    assert worst.p_value(contacts) == pytest.approx(1)
    assert bool((perfect.pairs[:, 1] - perfect.pairs[:, 0] >= proteins.APART).all())
    score = torch.zeros(size, size)
    score[3, 21] = 1.0
    assert proteins.Ranking.of(score, near).words(1) == "4–22*"


def test_average_precision():
    """Compare with the definition; without one site, with the definition for the other sites."""
    pairs = torch.tensor([[0, 5], [1, 6], [0, 6], [2, 7], [1, 7]])
    hits = torch.tensor([True, False, True, True, False])
    found = proteins.Ranking(pairs, torch.arange(5.0, 0, -1), hits).replicated_precision()
    assert found[0].item() == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert found[1].item() == pytest.approx(1 / 2)  # without site 0: no, yes, no
    assert len(found) == 9


def test_gain_of_a_ranking():
    near = proteins.touching()
    noise = torch.rand(len(near), len(near), generator=torch.Generator().manual_seed(0))
    perfect, random = (proteins.Ranking.of(score, near) for score in (near.double(), noise))
    better = proteins.gain([perfect, perfect], [random])
    assert better.value > 0.5
    assert proteins.judge_better_ranking(better) is True
    assert proteins.judge_better_ranking(proteins.gain([random], [perfect])) is False
    assert proteins.judge_better_ranking(proteins.gain([random], [random])) is None


VERDICTS = {
    "alignment": (
        lambda x: proteins.judge_alignment(*x),
        (True, [(90, 100), (80, 100)]),
        [(False, [(90, 100)]), (True, [(90, 100), (10, 100)])],
        [(True, [(52, 100)])],
    ),
    "contacts": (
        proteins.judge_contacts,
        [(12, 15, 0.14)],
        [[(12, 15, 0.14), (1, 100, 0.14)]],
        [[], [(6, 15, 0.14)]],  # p < 0.01 would count this as far above chance
    ),
    "charges": (
        proteins.judge_charges,
        [(1e-4, 0.6, 0.14)],
        [[(1e-4, 0.6, 0.14), (0.8, 0.1, 0.14)]],
        [[], [(0.01, 0.4, 0.14)]],
    ),
    "equally": (
        lambda x: spikes.judge_equally(x, 1.0),
        Measured(0.05, 0.01),
        [Measured(0.5, 0.01), Measured(-0.5, 0.01)],
        [Measured(0.05, 0.2), Measured(0.24, 0.01)],  # an error this large used to count as agreement
    ),
    "better": (spikes.judge_better, Measured(1.0, 0.1), [Measured(-1.0, 0.1)], [Measured(0.2, 0.1)]),
    "at the floor": (spikes.judge_at_floor, Measured(-1.0, 0.1), [Measured(1.0, 0.1)], [Measured(0.2, 0.1)]),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name):
    judge, good, bad, unclear = VERDICTS[name]
    assert judge(good) is True
    assert [judge(case) for case in bad] == [False] * len(bad)
    assert [judge(case) for case in unclear] == [None] * len(unclear)


def test_the_spread_of_trainings_is_part_of_an_error():
    one, four = (averaged([Measured(2.0, 0.3)] * n) for n in (1, 4))
    assert (one.value, one.error) == (2.0, 0.3)
    assert (four.value, four.error) == pytest.approx((2.0, 0.3))  # the data are the same
    assert averaged([Measured(1.0, 0.0), Measured(3.0, 0.0)]).error == pytest.approx(1.0)


# -- spikes --------------------------------------------------------------------------------------------------------


def test_activity():
    rows = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0]]).float()
    assert list(spikes._shares(rows).values()) == [0.25, 0.25, 0, 0.25, 0.25]
    assert spikes._variation(rows, rows) == 0
    assert spikes._variation(rows[:1], rows[1:2]) == 1
    triplets = hm.interactions.all_tuples(4, 3)
    assert spikes._coincidences(rows, triplets).tolist() == [0.5, 0.25, 0.25, 0.25]


def test_synchrony_has_an_error():
    """Total variation of two laws, and its jackknife over blocks of bins against the spread over samples."""
    generator = torch.Generator().manual_seed(0)

    def draw(rate: float) -> torch.Tensor:
        return (torch.rand(2000, 6, generator=generator) < rate).float()

    found = [replicates.measured(spikes.variations(draw(0.3), draw(0.2))) for _ in range(30)]
    values = torch.tensor([x.value for x in found])
    assert found[0].value > 0.1
    typical = math.sqrt(sum(x.error**2 for x in found) / len(found))
    assert typical == pytest.approx(values.std().item(), rel=0.5)

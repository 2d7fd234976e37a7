"""Arguments of ``fit``: text and objects, configurations, types of data, and errors for unknown names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption, UnknownArgument
from harmonium.training.batches import as_source

DATA = (torch.rand(60, 6, generator=torch.Generator().manual_seed(0)) < 0.4).float()
QUIET = {"epochs": 2, "progress": False, "seed": 0}

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")


def trained(data=DATA, **options) -> torch.Tensor:
    machine = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    hm.fit(machine, data, **{**QUIET, "batch_size": 20, **options})
    return machine.coupling.weight.detach()


@pytest.mark.parametrize(
    ("short", "objects"),
    [
        (
            {},
            {"negative": "exact", "schedule": "linear:0.5", "optimizer": "adam"},
        ),
        ({"optimizer": "sgd"}, {"negative": hm.PCD(1, 888), "schedule": "linear:0.5"}),
        ({"negative": "cd:3"}, {"negative": hm.CD(3)}),
        ({"negative": "pcd:2,chains=7"}, {"negative": hm.PCD(2, chains=7)}),
        ({"negative": "parallel-tempering:1,rungs=3"}, {"negative": hm.ParallelTempering(1, rungs=3)}),
        ({"schedule": "linear:0.5"}, {"schedule": hm.Linear(0.5)}),
        ({"schedule": "growing:1"}, {"schedule": hm.Growing(1)}),
        ({"learning_rate": 0.1}, {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "schedule": hm.Constant()}),
        ({"learning_rate": 0.1, "optimizer": torch.optim.SGD}, {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}),
        ({"optimizer": "adam"}, {"optimizer": lambda p: torch.optim.Adam(p, lr=1e-3), "schedule": hm.Constant()}),
        (
            {"optimizer": "rmsprop", "learning_rate": 0.01},
            {"optimizer": lambda p: torch.optim.RMSprop(p, lr=0.01)},
        ),
        (
            {"plan": "best"},
            {
                "negative": hm.PCD(1),
                "optimizer": lambda p: torch.optim.SGD(p, lr=0.1),
                "schedule": hm.Linear(0.3),
                "penalties": [hm.L2(1.5e-4)],
                "constraints": [hm.Average(0.3)],
            },
        ),
        ({"plan": hm.Plan.of("best"), "learning_rate": 0.2}, {"plan": "best", "learning_rate": 0.2}),
        (
            {"plan": "plain", "optimizer": lambda p: torch.optim.SGD(p, lr=0.3)},
            {"plan": "plain", "learning_rate": 0.3},
        ),
    ],
)
def test_short_forms_mean_the_objects(short, objects):
    assert torch.equal(trained(**short), trained(**objects))


def test_rows_with_missing_values_have_sampled_gradients():
    for rows in DATA.clone(), DATA.clone().index_fill_(1, torch.tensor([2]), torch.nan):
        rows[0, 2] = 1.0
        given, machine = hm.Weighted(hm.Incomplete(rows), torch.ones(60)), hm.RBM(6, 3)
        chosen = hm.Plan().resolved(machine, as_source(given, machine)).negative
        assert type(chosen) is (hm.PCD if rows.isnan().any() else hm.Exact)


@pytest.mark.slow
def test_options_change_what_is_learned():
    plain = trained()
    for options in ({"learning_rate": 0.3}, {"optimizer": "adam"}, {"negative": "cd:1"}, {"plan": "plain"}):
        assert not torch.equal(trained(**options), plain), options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.1}, "unknown argument 'lr': use learning_rate=0.1"),
        ({"n_epochs": 5}, "unknown argument 'n_epochs': use epochs=5"),
        ({"n_iter": 5}, "use epochs=5"),
        ({"k": 5}, 'use negative="pcd:5"'),
        ({"weight_decay": 1e-4}, r'use penalties=\["l2:0.0001"\]'),
        ({"l2": 1e-4}, r'use penalties=\["l2:0.0001"\]'),
        ({"average": 0.3}, r'use constraints=\["average:0.3"\]'),
        ({"transforms": ()}, "use penalties="),
        ({"preset": "best"}, "use plan='best'"),
        ({"pretrain": 3}, r"use plan=harmonium.Plan\(pretrain=3\)"),
        ({"batchsize": 5}, "use batch_size=5"),
        ({"n_chains": 5}, 'use negative="pcd:1,chains=5"'),
        ({"momentum": 0.9}, 'use optimizer="sgd,momentum=0.9"'),
        ({"random_state": 5}, "use seed=5"),
        ({"verbose": True}, "use progress=True"),
        ({"n_components": 5}, r"harmonium.units.Bernoulli\(5\)"),
        ({"device": "cuda"}, r"use machine.to\('cuda'\) before the call"),
        ({"callback": []}, "unknown argument 'callback': did you mean 'callbacks'"),
        ({"batch_sise": 5}, "did you mean 'batch_size'"),
    ],
)
def test_unknown_names(options, message):
    with pytest.raises(UnknownArgument, match=message):
        trained(**options)
    with pytest.raises(TypeError):  # as for every function
        trained(**options)


def test_missing_data_and_too_many_arguments():
    machine = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    with pytest.raises(TypeError, match="data"):
        hm.fit(machine)
    with pytest.raises(TypeError, match="takes 2 positional arguments"):
        hm.fit(machine, DATA, 5)
    hm.fit(machine=machine, data=DATA, **QUIET)


def test_an_optimizer_has_its_own_learning_rate():
    machine = hm.RBM(6, 3)
    with pytest.raises(InvalidOption, match="learning_rate: expected None with an optimizer object"):
        hm.fit(machine, DATA, learning_rate=0.1, optimizer=torch.optim.SGD(machine.parameters(), lr=0.2))
    with pytest.raises(InvalidOption, match="learning_rate: expected None with an optimizer object"):
        trained(learning_rate=0.1, optimizer=lambda p: torch.optim.SGD(p, lr=0.2))


# -- data -------------------------------------------------------------------------------------------------------


def test_data_of_every_kind():
    pandas = pytest.importorskip("pandas")
    expected = trained()
    labels = torch.arange(60)
    for data in (
        DATA.numpy(),
        DATA.bool(),
        pandas.DataFrame(DATA.numpy()),
        pandas.DataFrame(DATA.numpy().astype(int), columns=list("abcdef")),
        TensorDataset(DATA),
        TensorDataset(DATA, labels),
        Subset(TensorDataset(DATA, labels), range(60)),
        DataLoader(TensorDataset(DATA, labels), batch_size=20, shuffle=True),
        DataLoader(Subset(TensorDataset(DATA), range(60)), batch_size=20),
    ):
        assert torch.equal(trained(data), expected), type(data)


def test_a_loader_gives_its_batch_size_unless_one_is_given():
    def size(loader: DataLoader, **options: object) -> int:
        machine = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
        return hm.Training(machine, loader, hm.Plan.split(options)[0]).batch_size

    rows = TensorDataset(DATA)
    assert size(DataLoader(rows, batch_size=15)) == 15
    assert size(DataLoader(rows, batch_size=15), plan="best") == 60  # that of the plan, at most all rows
    assert size(DataLoader(rows, batch_size=15), batch_size=30) == 30
    assert size(DataLoader(rows, batch_size=None)) == 60  # at most all rows


class Stream(IterableDataset):
    def __iter__(self):
        return iter(DATA)


class Tripled(torch.utils.data.Sampler):
    def __iter__(self):
        return iter([0, 0, 0])

    def __len__(self):
        return 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataLoader(Stream(), batch_size=5), "random access by index, found an iterable-only data set"),
        (Stream(), "found an iterable-only data set"),
        (DataLoader(TensorDataset(DATA), sampler=SubsetRandomSampler(range(10))), "SubsetRandomSampler"),
        (DataLoader(TensorDataset(DATA), sampler=WeightedRandomSampler(torch.ones(60), 60)), "harmonium.Weighted"),
        (DataLoader(TensorDataset(DATA), sampler=Tripled()), "Tripled"),
        (DataLoader(TensorDataset(DATA), collate_fn=lambda rows: rows), "without a collate_fn"),
        (TensorDataset(DATA[:, :5]), r"expected rows of shape \(6,\)"),
        (np.array([["a"] * 6]), "expected rows of numbers"),
    ],
)
def test_data_that_cannot_be_used(data, message):
    with pytest.raises(InvalidData, match=message):
        trained(data)

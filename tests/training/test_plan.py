"""Plans: text and objects, defaults with reasons, the table of a configuration, and the arguments of ``fit``."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch

import harmonium as hm
from harmonium.checks import SYNONYMS, as_table, as_text, parse
from harmonium.errors import InvalidData, InvalidOption
from harmonium.presets import configurations, read_configuration
from harmonium.training import optimizers, schedules
from harmonium.training.batches import as_source
from harmonium.training.constraints import CONSTRAINTS
from harmonium.training.initial import INITIAL, Keep, Normal, Sign
from harmonium.training.negative import PHASES
from harmonium.training.plan import FIELDS, Plan
from harmonium.training.train import _INSTEAD
from harmonium.training.values import phase_of, text_of

GENERATOR = torch.Generator().manual_seed(0)
DATA = (torch.rand(60, 6, generator=GENERATOR) < 0.4).float()

TEXTS = [
    *("cd:3", "pcd:2", "pcd:1,chains=7", "reconstruction:1", "exact", "parallel-tempering:1,rungs=5"),
    *("trajectory-tempering:1", "langevin:5", "gibbs-langevin:2", "mean-field:3,method=naive", "discriminative"),
    *("deep-pcd:2,iterations=3", "unbiased-cd:2,limit=50", "parallel-tempering:1,rungs=5,adapt=true"),
    *("discriminative+0.1*cd:1", "0.5*pcd:2,chains=9+2*exact"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_phase_survives_its_table_and_its_text(text):
    plan = Plan(negative=text)
    table = plan.table()
    assert Plan.from_table(table) == plan
    assert phase_of(plan.words()["negative"]) == plan.negative


def test_every_phase_is_tried():
    assert {term.split("*")[-1].split(":")[0].split(",")[0] for text in TEXTS for term in text.split("+")} == set(
        PHASES
    )


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("negative", "hybrid:0.1", phase_of("discriminative+0.1*cd:1")),
        ("optimizer", "sgd,momentum=0.9", optimizers.SGD(0.9)),
        ("optimizer", "adam", optimizers.Adam()),
        ("schedule", "linear:0.5", hm.Linear(0.5)),
        ("schedule", "growing:5", hm.Growing(5)),
        ("penalties", "l2:0.001", (hm.L2(0.001),)),
        ("penalties", ["l1:0.1", "smooth:0.5,shape=2x3"], (hm.L1(0.1), hm.Smooth(0.5, (2, 3)))),
        ("constraints", ["zero-sum", "average:0.2,every=3"], (hm.ZeroSum(), hm.Average(0.2, every=3))),
        ("initialize", "normal:0.5", Normal(0.5)),
        ("initialize", "sign", Sign()),
        ("centered", True, 0.01),
        ("centered", 0.3, 0.3),
        ("learning_rate", "auto", "auto"),
    ],
)
def test_text_is_the_object(field, text, value):
    plan = Plan(**{field: text})
    assert getattr(plan, field) == value
    assert plan == Plan(**{field: value}) == Plan.from_table(plan.table())


def test_text_of_all_values():
    for name, known in (
        ("schedule", schedules.SCHEDULES),
        ("optimizer", optimizers.OPTIMIZERS),
        ("initialize", INITIAL),
    ):
        for kind in known.values():
            plan = Plan(**{name: kind()})
            assert getattr(Plan(**{name: plan.words()[name]}), name) == kind()
    for kind in CONSTRAINTS.values():
        assert parse("constraint", CONSTRAINTS, as_text(CONSTRAINTS, as_table(CONSTRAINTS, kind()))) == kind()
    assert text_of("penalties", [{"name": "l2", "strength": 0.5}, {"name": "l1", "strength": 1.0}]) == "l2:0.5, l1:1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negative": "pdc:1"}, "unknown negative phase 'pdc': did you mean 'pcd'"),
        ({"negative": "pcd:x"}, "'pcd:x': k: expected a whole number, found 'x'"),
        ({"negative": "pcd:1,chain=3"}, "unknown option of pcd 'chain': did you mean 'chains'"),
        ({"negative": "pcd:1,k=2"}, "k is given twice"),
        ({"negative": "exact:3"}, "expected no value after exact"),
        ({"negative": "cd:1,"}, "expected key=value after a comma"),
        ({"negative": "x*cd:1"}, r"expected terms such as 0.01\*cd:1, found 'x\*cd:1'"),
        ({"negative": 3}, "negative: expected a phase such as harmonium.PCD"),
        ({"negative": {"k": 3}}, "expected a table with a name"),
        ({"schedule": "linear:2"}, "constant: expected a fraction of the run"),
        ({"schedule": 5}, "schedule: expected a function of the clock"),
        ({"optimizer": "adan"}, "unknown optimizer 'adan': did you mean 'adam'"),
        ({"optimizer": 3}, "optimizer: expected a torch.optim optimizer"),
        ({"penalties": "l3:1"}, "unknown penalty 'l3'"),
        ({"penalties": "l2"}, "'l2': expected a value of strength, as in l2:STRENGTH"),
        ({"penalties": [3]}, r"penalties: expected a list such as \[\"l2:0.001\"\], found 3"),
        ({"constraints": "zero"}, "unknown constraint 'zero': did you mean 'zero-sum'"),
        ({"initialize": True}, 'initialize: expected "normal:0.01"'),
        ({"initialize": "normal:-1"}, "scale: expected a finite number of at least 0"),
        ({"epochs": 0}, "epochs: expected at least 1, found 0"),
        ({"epochs": 2.5}, "epochs: expected a whole number, found 2.5"),
        ({"batch_size": -1}, "batch_size: expected at least 1, found -1"),
        ({"pretrain": -1}, "pretrain: expected at least 0, found -1"),
        ({"learning_rate": 0.0}, 'learning_rate: expected a positive number or "auto", found 0.0'),
        ({"learning_rate": float("nan")}, "learning_rate: expected a positive number"),
        ({"learning_rate": "fast"}, "learning_rate: expected a positive number or \"auto\", found 'fast'"),
        ({"learning_rate": True}, "learning_rate: expected a positive number"),
        ({"learning_rate": "auto", "optimizer": torch.optim.Adam}, "learning_rate: expected a number for Adam"),
        ({"centered": 2}, r"centered: expected a number in \(0, 1\]"),
        ({"precision": "float16"}, "unknown precision 'float16': did you mean 'bfloat16'"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
    ],
)
def test_wrong_values(options, message):
    with pytest.raises(InvalidOption, match=message):
        Plan(**options)
    if "pretrain" not in options:
        with pytest.raises(InvalidOption, match=message):
            hm.fit(hm.RBM(6, 2), DATA, **options)


def deep_machine() -> hm.DeepBoltzmannMachine:
    return hm.DeepBoltzmannMachine([hm.units.Bernoulli(size) for size in (6, 4, 3)])


# -- defaults ---------------------------------------------------------------------------------------------------


def resolved(machine, data, **options) -> Plan:
    return Plan(**options).resolved(machine, as_source(data, machine))


CASES = {
    "small": (hm.RBM(6, 3), {}, {"negative": "exact", "optimizer": "adam", "learning_rate": "auto"}),
    "sgd": (hm.RBM(6, 3), {"optimizer": "sgd"}, {"negative": "pcd:1,chains=888", "schedule": "linear:0.5"}),
    "rate": (hm.RBM(6, 3), {"learning_rate": 0.1}, {"optimizer": "sgd", "schedule": "constant"}),
    "momentum": (hm.RBM(6, 3), {"optimizer": "sgd,momentum=0.9"}, {"learning_rate": 0.05, "schedule": "constant"}),
    "adam": (hm.RBM(6, 3), {"optimizer": "adam"}, {"learning_rate": 0.001, "schedule": "constant"}),
    "exact adam": (hm.RBM(6, 3), {"optimizer": "adam", "negative": "exact"}, {"learning_rate": "auto"}),
    "bfloat16": (hm.RBM(6, 3), {"precision": "bfloat16"}, {"negative": "pcd:1,chains=888", "optimizer": "sgd"}),
    "chains": (hm.RBM(6, 90), {"learning_rate": 0.1}, {"negative": "pcd:1"}),
    "counts": (hm.RBM(6, hm.units.Poisson(20)), {"learning_rate": 0.1}, {"negative": "cd:5", "optimizer": "sgd"}),
    "documents": (
        hm.RBM(hm.units.Multinomial((1, 6)), hm.units.Poisson(3)),
        {},
        {"negative": "cd:1", "optimizer": "adam", "learning_rate": 0.001, "schedule": "linear:0.5"},
    ),
    "documents, rate": (hm.RBM(hm.units.Multinomial((1, 6)), 20), {"learning_rate": 0.1}, {"optimizer": "sgd"}),
}


@pytest.mark.parametrize("case", CASES)
def test_defaults_by_the_machine(case):
    machine, given, expected = CASES[case]
    data = DATA.unsqueeze(1) if "documents" in case else DATA
    data = torch.cat([data, data]) if case == "chains" else data
    plan = resolved(machine, data, **given)
    assert {name: getattr(plan, name) for name in expected} == {
        name: getattr(Plan(**{name: value}), name) for name, value in expected.items()
    }
    for name in FIELDS:
        assert getattr(plan, name) is not None or name == "pretrain", name
    assert set(plan.reasons) == set(plan.given()) - (set(given) - {"batch_size"})
    assert resolved(machine, data, **{name: getattr(plan, name) for name in plan.given()}) == plan


def test_defaults_by_the_kind_of_data():
    labeled = hm.Labeled(DATA, torch.arange(60) % 3)
    machine = hm.tasks.label_rbm(hm.units.Bernoulli(6), 3, 4)
    plan = resolved(machine, labeled)
    expected = Plan(
        negative="hybrid:0.01", optimizer="adam", learning_rate=0.005, schedule="linear:0.3", initialize=Normal(1 / 3)
    )
    for name, value in expected.given().items():
        assert getattr(plan, name) == value and "labels" in plan.reasons[name]
    weighted = resolved(machine, hm.Weighted(labeled, torch.ones(60)))
    assert dataclasses.replace(weighted, seed=plan.seed) == plan
    own = resolved(machine, labeled, learning_rate=0.1)
    assert (own.optimizer, own.learning_rate, own.schedule) == (optimizers.Adam(), 0.1, hm.Linear(0.3))
    own = resolved(machine, labeled, optimizer="sgd")
    assert (own.learning_rate, own.schedule) == ("auto", hm.Linear(0.5))


def test_a_trained_machine_keeps_its_parameters():
    machine = hm.RBM(6, 2)
    assert resolved(machine, DATA).initialize == Normal()
    torch.nn.init.ones_(machine.weight)
    assert resolved(machine, DATA).initialize == Keep()
    assert resolved(machine, DATA, initialize="sign").initialize == Sign()


def test_batches_have_at_most_all_rows():
    assert resolved(hm.RBM(6, 2), DATA, batch_size=10**9).batch_size == 60
    assert resolved(hm.RBM(6, 2), DATA, batch_size=10**9, optimizer="sgd").negative == hm.PCD(1, chains=1000)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(DATA), batch_size=15)
    assert resolved(hm.RBM(6, 2), loader).batch_size == 15
    assert resolved(hm.RBM(6, 2), loader, batch_size=30).batch_size == 30


def test_pretraining():
    deep, stack = deep_machine(), hm.DeepBeliefNetwork.of([6, 4, 3])
    plan = resolved(deep, DATA)
    assert plan.pretrain == plan.epochs == 4000 and plan.negative == hm.DeepPCD(1)
    assert resolved(deep, DATA, epochs=3).pretrain == 3
    assert (resolved(deep, DATA, pretrain=2).epochs, resolved(deep, DATA, pretrain=2).pretrain) == (4000, 2)
    assert (resolved(stack, DATA).epochs, resolved(stack, DATA).pretrain) == (0, 4000)
    assert (resolved(stack, DATA, epochs=3).epochs, resolved(stack, DATA, epochs=3).pretrain) == (3, 0)
    assert (resolved(stack, DATA, pretrain=2).epochs, resolved(stack, DATA, pretrain=2).pretrain) == (0, 2)
    for machine in (deep, stack):
        machine.initialize()
        assert resolved(machine, DATA).pretrain == 0 and resolved(machine, DATA).epochs == 4000
    with pytest.raises(InvalidOption, match="pretrain: expected 0 for a machine with one hidden layer, found 2"):
        resolved(hm.RBM(6, 2), DATA, pretrain=2)


def test_fit_pretrains_a_new_deep_machine():
    deep = deep_machine()
    found = hm.fit(deep, DATA, plan=Plan(epochs=1, pretrain=3, learning_rate=1e-9), seed=0, progress=False)
    by_hand = deep_machine()
    hm.pretrain(
        by_hand, DATA, epochs=3, learning_rate=1e-9, optimizer="sgd", schedule="constant", seed=0, progress=False
    )
    assert found.plan.pretrain == 3 and len(found.history) == 1
    torch.testing.assert_close(deep.couplings[0].weight, by_hand.couplings[0].weight, atol=1e-6, rtol=0)
    stack = hm.DeepBeliefNetwork.of([6, 4, 3])
    found = hm.fit(stack, DATA, plan=Plan(pretrain=2), seed=0, progress=False)
    assert [row["epoch"] for row in found.history] == [1, 2] and "reconstruction_2" in found.history[0]


def test_the_seed_is_a_number_of_the_generator_of_torch():
    machine = hm.RBM(6, 2)
    torch.manual_seed(3)
    seeds = [resolved(machine, DATA).seed for _ in range(2)]
    torch.manual_seed(3)
    assert [resolved(machine, DATA).seed for _ in range(2)] == seeds and seeds[0] != seeds[1]


def test_explain_says_value_and_reason():
    lines = resolved(hm.RBM(6, 3), DATA, epochs=7, penalties="l2:0.1").explain().splitlines()
    found = {line[:14].strip(): line[14:].split(maxsplit=1) for line in lines}
    assert found["negative"] == ["exact", "small machine: exact gradients cost little"]
    assert found["epochs"] == ["7", "given"] and found["penalties"] == ["l2:0.1", "given"]
    assert len(lines) == len(FIELDS) - 1  # no pretraining


# -- configurations, and the arguments of fit -------------------------------------------------------------------


@pytest.mark.parametrize("name", configurations())
def test_configurations_are_plans(name):
    plan = Plan.of(name)
    assert plan.given() and Plan.from_table(plan.table()) == plan
    assert set(read_configuration(name)) <= {"machine", "training"}


def test_a_plan_from_a_file_and_arguments_beside_it(tmp_path):
    (tmp_path / "own.toml").write_text('[training]\nepochs = 2\nnegative = "cd:1"\nlearning_rate = 0.1\n')
    found = hm.fit(hm.RBM(6, 2), DATA, plan=tmp_path / "own.toml", negative="cd:3", progress=False).plan
    assert (found.epochs, found.negative, found.learning_rate) == (2, hm.CD(3), 0.1)
    own = hm.fit(hm.RBM(6, 2), DATA, plan=found, optimizer=lambda p: torch.optim.SGD(p, lr=0.2), progress=False).plan
    assert own.learning_rate is None and own.table()["optimizer"] == "custom"
    with pytest.raises(InvalidOption, match=r"optimizer: .* found an own object; continue in Python with hm.fit"):
        Plan.from_table(own.table())
    for wrong in ("bset", tmp_path / "none.toml"):
        with pytest.raises(InvalidOption, match="found no file; give a configuration in TOML, or one of best,"):
            Plan.of(wrong)
    with pytest.raises(InvalidOption, match=r"plan: expected a harmonium\.Plan"):
        Plan.of(3)
    with pytest.raises(InvalidOption, match=r"unknown key of \[training\] 'epoch': did you mean 'epochs'"):
        Plan.from_table({"epoch": 3})


def test_the_signature_of_fit():
    signature, written = inspect.signature(hm.fit), inspect.getdoc(hm.fit)
    assert list(signature.parameters)[:2] == ["machine", "data"]
    assert set(FIELDS) - {"pretrain"} <= set(signature.parameters)
    for name, parameter in signature.parameters.items():
        assert f"\n    {name}: " in written, name
        assert name in ("machine", "data") or parameter.kind is parameter.KEYWORD_ONLY
        assert name not in FIELDS or parameter.default is None
    assert all(f"\n    {name}: " in inspect.getdoc(Plan) for name in FIELDS)


def test_synonyms_lead_to_arguments():
    known = {*inspect.signature(hm.fit).parameters, "hidden"}
    assert set(SYNONYMS.values()) <= known
    assert not (set(SYNONYMS) | set(_INSTEAD)) & (known - {"hidden"})


def test_no_rows():
    with pytest.raises(InvalidData, match="expected at least one row"):
        resolved(hm.RBM(6, 2), DATA[:0])

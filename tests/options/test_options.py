"""The declared options and everything that is generated from them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from harmonium.options import PRESETS, DataOptions, MachineOptions, TrainingOptions, markdown, synonyms
from harmonium.options.presets import preset_names
from harmonium.training.arguments import Arguments, keywords_of

import harmonium as hm
from harmonium import options
from harmonium.errors import InvalidOption
from harmonium.runs import config as schema

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
TABLES = [DataOptions, MachineOptions, TrainingOptions]


def test_the_tables_of_the_documentation_are_those_of_the_declarations():
    if not DOCS.exists():
        pytest.skip("docs/cli.md not found")
    text = DOCS.read_text(encoding="utf-8")
    assert text.count("<!-- options: ") == 4
    assert markdown.rewritten(text) == text, "run python -m harmonium.options docs/cli.md"


def test_the_tables_are_printed_by_python_m(capsys, tmp_path):
    from harmonium.options.__main__ import main

    main([])
    shown = capsys.readouterr().out
    for table in TABLES:
        for option in options.options(table).values():
            assert option.about.recorded or option.name == "source" or f"`{option.flag}" in shown
    for name in PRESETS:
        assert f"`{name}`" in shown
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- options: presets -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    main([str(page)])
    text = page.read_text(encoding="utf-8")
    assert "old" not in text and "best-fixed" in text and text.endswith("after\n")


@pytest.mark.parametrize("table", TABLES)
def test_every_option_has_a_meaning(table):
    for option in options.options(table).values():
        assert option.about.help.endswith((".", "…")), option.name


def test_the_command_line_has_every_option(command):
    shown = "".join(command("train", "--help").out.split())
    for table in TABLES:
        for option in options.options(table).values():
            if not option.about.recorded and option.name != "source":
                assert option.flag in shown, option.name
                assert "".join(option.about.help.split()) in shown, option.name
    for name in ("train", "reproduce"):
        assert "".join(preset_names().split()) in "".join(command(name, "--help").out.split())


def test_the_plan_shows_every_option_that_is_set():
    values = {int: 7, float: 0.125, str: "abc"}
    for table in TABLES:
        for option in options.options(table).values():
            if not (option.about.recorded or option.about.plan == ("", "") or option.kinds == (bool,)):
                value = values[option.kinds[0]]
                shown = " ".join(options.plan(table(**{option.name: value})).values())
                assert str(value) in shown, option.name


def test_the_plan_in_words():
    lines = options.plan(
        MachineOptions(),
        TrainingOptions(epochs=3, negative="pcd:1", chains=20, l2=1e-3, zero_sum=True, metrics_every=5),
    )
    assert lines["negative phase"] == "pcd:1, 20 chains"
    assert options.plan(TrainingOptions())["negative phase"] == "chosen from the machine"
    assert lines["optimizer"] == "optimizer chosen from the machine, learning rate chosen from the data"
    assert lines["transforms"] == "centered, l2 0.001, zero-sum"
    assert lines["epochs"] == "3, batches of 100"
    assert lines["other"] == "metrics every 5"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "epochs: expected at least 1, found 0"),
        ("epochs", 2.5, "epochs: expected a whole number, found 2.5"),
        ("batch_size", -1, "batch_size: expected at least 1, found -1"),
        ("batch_size", None, "batch_size: expected a whole number"),
        ("metrics_every", 0, "metrics_every: expected at least 1"),
        ("learning_rate", 0.0, "learning_rate: expected a positive number, found 0"),
        ("learning_rate", float("nan"), "learning_rate: expected a positive number, found nan"),
        ("learning_rate", "fast", "learning_rate: expected a positive number, found fast"),
        ("momentum", 1.0, r"momentum: expected a number in \[0, 1\), found 1"),
        ("precision", "float16", "unknown precision 'float16': did you mean 'bfloat16'"),
        ("threads", 0, "threads: expected at least 1, found 0"),
    ],
)
def test_bounds(name, value, message):
    with pytest.raises(InvalidOption, match=message):
        options.check(TrainingOptions(**{name: value}))
    if name in inspect.signature(hm.fit).parameters:
        with pytest.raises(InvalidOption, match=message):
            Arguments.of(None, None, **{name: value})


def test_arguments_of_fit_share_defaults_and_meaning():
    fields = {field.name: field for field in dataclasses.fields(Arguments)}
    shared = fields.keys() & options.options(TrainingOptions).keys()
    assert shared == {
        *("epochs", "batch_size", "seed", "negative", "optimizer", "learning_rate", "schedule"),
        *("metrics_every", "precision", "threads"),
    }
    for name in shared:
        assert fields[name].default == options.options(TrainingOptions)[name].default


def test_help_of_fit_shows_every_argument():
    signature = inspect.signature(hm.fit)
    assert list(signature.parameters)[:2] == ["machine", "data"]
    for name in signature.parameters:
        assert f"        {name}: " in hm.fit.__doc__, name
    assert not re.search(r"Default:[^.]*(label|momentum|--)", hm.fit.__doc__)  # those are of the command line
    assert signature.parameters["batch_size"].default == 100
    assert signature.parameters["negative"].default is None  # depends on the depth of the machine


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_are_options_of_training(preset):
    found = keywords_of(preset.options)
    assert set(found) <= set(inspect.signature(hm.fit).parameters)
    config = schema.merge(schema.Config(), {"training": preset.settings})
    assert config.training == preset.options
    with pytest.raises(TypeError):
        preset.settings["epochs"] = 3


def test_a_preset_may_describe_the_machine(monkeypatch, command, tmp_path):
    layers = ["bernoulli:4", "bernoulli:3"]
    preset = options.Preset("tiny", "a small stack", {"epochs": 1}, machine={"machine": "dbn", "hidden": layers})
    monkeypatch.setitem(PRESETS, "tiny", preset)
    words = ("train", "digits", "--preset", "tiny", "--hidden", 5, "--hidden", 3, "-q", "--no-report")
    assert command(*words, "--run", tmp_path / "run").status == 0
    network = hm.load(tmp_path / "run")  # an explicit option overrides that of the preset
    assert isinstance(network, hm.DeepBeliefNetwork) and [unit.size for unit in network.layers] == [64, 5, 3]
    assert "`hidden = ['bernoulli:4', 'bernoulli:3']`" in markdown.table("presets")
    with pytest.raises(TypeError, match="hiden"):
        options.Preset("mine", "with a mistake", {}, machine={"hiden": 3})


def test_unknown_presets():
    with pytest.raises(InvalidOption, match="unknown preset 'bset': did you mean 'best'"):
        options.find_preset("bset")
    with pytest.raises(TypeError, match="epoch"):
        options.Preset("mine", "with a mistake", {"epoch": 3})


def test_synonyms_name_options():
    known = {option for table in TABLES for option in options.options(table)} | {"progress"}
    assert set(synonyms.SYNONYMS.values()) <= known
    assert not set(synonyms.SYNONYMS) & known

"""A small core: what is optional is imported when it is needed, and its absence is an error that names the extra."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import harmonium
from harmonium import extras

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
OPTIONAL = ["matplotlib", "pandas", "pyarrow", "h5py", "PIL", "sklearn", "typer", "rich"]
CLI = ["typer", "rich"]


def python(code: str, *, without: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new process where the packages ``without`` cannot be imported."""
    blocked = f"import sys\nfor name in {without or []!r}: sys.modules[name] = None\n"
    return subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_core_needs_no_extra():
    code = """
import torch, harmonium as hm
rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
hm.fit(rbm, (torch.rand(50, 6) < 0.5).float(), epochs=2)
rbm.sample(3, seed=0)
hm.likelihood.estimate(rbm, torch.ones(2, 6), betas=50, sampling_sweeps=20, seed=0)
hm.interactions.n_body(rbm, order=2), hm.tasks, hm.quality, hm.data.names(), hm.sampling
"""
    done = python(code, without=OPTIONAL)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "package", "message"),
    [
        ("hm.plots", "matplotlib", "plots need matplotlib: pip install matplotlib"),
        ("hm.report", "matplotlib", "plots need matplotlib: pip install matplotlib"),
        (
            "hm.data.load('digits')",
            "sklearn",
            "the data set digits needs scikit-learn: pip install scikit-learn",
        ),
        ("hm.data.read('FILE.csv')", "pandas", ".csv files need pandas: pip install pandas"),
        ("hm.data.read('FILE.parquet')", "pyarrow", ".parquet files need pyarrow: pip install pyarrow"),
        ("main(['--help'])", "typer", "error: the command line needs typer: pip install typer"),
        ("main(['data', 'list'])", "rich", "error: the command line needs rich: pip install rich"),
    ],
)
@pytest.mark.fast_cases(1)
def test_missing_extras_are_named(tmp_path, code, package, message):
    for suffix in ("csv", "parquet"):
        (tmp_path / f"x.{suffix}").write_text("1,2\n3,4\n")
    code = code.replace("FILE", str(tmp_path / "x"))
    done = python(f"import harmonium as hm\nfrom harmonium.cli import main\n{code}", without=[package])
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].removeprefix("harmonium.errors.MissingExtra: ") == message


@pytest.mark.slow
def test_training_needs_only_the_packages_of_the_command_line(tmp_path):
    """Without matplotlib a run has no report, and says so; it is finished all the same."""
    np.save(tmp_path / "rows.npy", (np.random.default_rng(0).random((60, 5)) < 0.4).astype(np.uint8))
    words = ["train", str(tmp_path / "rows.npy"), "--hidden", "2", "--epochs", "2", "--run", str(tmp_path / "run")]
    done = python(
        f"from harmonium.cli import main\nmain({words!r})", without=[name for name in OPTIONAL if name not in CLI]
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.splitlines()[-1] == f"{tmp_path / 'run'}: no report; plots need matplotlib: pip install matplotlib"
    )
    assert "time: training" in done.stdout and "report" not in done.stdout
    assert harmonium.load(tmp_path / "run").visible.size == 5


def test_other_missing_modules_keep_their_error():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        extras.require("no_such_module")


def test_every_extra_is_in_the_project_file():
    if not PROJECT.exists():
        pytest.skip("the project file is not beside the tests")
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    declared = {
        name: {part.split(">")[0] for part in parts} for name, parts in project["optional-dependencies"].items()
    }
    for package in extras.NEEDING:
        assert any(extras._NAMES.get(package, package) in parts for parts in declared.values())
    assert declared["all"] == {"harmonium[cli,plots,data,sklearn]"} and "harmonium[all,docs]" in declared["dev"]
    assert {part.split(">")[0] for part in project["dependencies"]} == {
        "torch",
        "numpy",
        "scipy",
        "safetensors",
        "filelock",
        "tomli-w",
    }


# -- names that are imported when they are used -----------------------------------------------------------------


def test_help_loads_no_torch():
    code = """
from harmonium.cli import main
for words in (["--help"], ["train", "--help"], ["--version"], ["train", "--no-such-option"]):
    try:
        main(words)
    except SystemExit:
        pass
found = {name.split(".")[0] for name in sys.modules} & {"torch", "numpy", "scipy", "matplotlib", "pandas", "sklearn"}
assert not found, found
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_import_loads_nothing_and_names_load_what_they_need():
    code = """
import harmonium as hm
assert "torch" not in sys.modules
assert all(not name.startswith("_") or name.startswith("__") for name in dir(hm))
assert hm.RBM and "harmonium.training" not in sys.modules
for name in hm.__all__:
    assert getattr(hm, name) is not None, name
assert hm.fit is hm.training.fit and hm.losses is hm.training.losses and hm.units.Bernoulli
found = {name.split(".")[0] for name in sys.modules} & {"scipy", "matplotlib", "pandas", "sklearn", "rich", "h5py"}
assert not found, found
try:
    hm.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_dir_is_the_public_names():
    public = {name for name in dir(harmonium) if not name.startswith("__")}
    assert public == {*harmonium.__all__, "convert", "plots", "report", "testing"}


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(harmonium.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname or alias.name for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == {*harmonium.__all__, "convert", "plots", "report", "testing"}

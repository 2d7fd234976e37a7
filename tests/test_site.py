"""The documentation site: every page, public name and plot is there, and its code blocks run when it is built."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
import site_blocks
import site_gallery
import site_units
from mkdocs.commands.build import build
from mkdocs.config import load_config
from site_notebooks import notebook
from site_pages import PACKAGES, public_names

import harmonium as hm
from harmonium import plots

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
TUTORIALS = sorted(path.stem for path in (DOCS / "tutorials").glob("*.md"))


def test_every_page_is_in_the_navigation() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    generated = {"units/index.md", "benchmarks.md"}  # the hook adds units and the reference to the navigation
    assert pages | generated == set(re.findall(r"[:-] (\S+\.md)$", text, re.M))


def test_every_plot_is_in_the_gallery() -> None:
    shown = [name for path in (DOCS / "gallery").glob("*.md") for name in site_gallery.shown(path.read_text("utf-8"))]
    public = [name for name in plots.__all__ if inspect.isfunction(getattr(plots, name))]
    assert sorted(shown) == sorted(public)


def test_every_package_is_in_the_reference() -> None:
    folders = {path.parent.name for path in (REPOSITORY / "src" / "harmonium").glob("*/__init__.py")}
    without = {"cli", "presets", "runs", "kernels"}  # docs/cli.md and docs/kernels.md
    assert folders - without <= set(PACKAGES)


@pytest.mark.slow
def test_units_have_pages() -> None:
    assert {kind.__name__ for kind in site_units.unit_types()} == set(hm.units.__all__) - {"Tail", "Unit"}
    index = site_units.index()
    for kind in site_units.unit_types():
        row = next(line for line in index.splitlines() if line.startswith(f"| [{kind.__name__}]"))
        assert len(row.split("|")[3].strip()) > 20, f"{kind.__name__}: no sentence 'Used for …' in its docstring"


def test_the_page_of_a_unit() -> None:
    text = site_units.page(hm.units.ReLU)
    assert text.startswith("# ReLU\n") and "| `precision` | (1,) | no | 1.0 |" in text
    assert "hm.plots.unit_curves(unit)" in text and ">>>" not in text and ":class:" not in text


def test_a_new_unit_has_a_page() -> None:
    class Thirds(hm.units.Unit, named=False):
        """Thirds. Used for tests."""

        support = hm.units.Binomial(1, trials=2).support

        def log_weight(self, x):
            return self.bias * x

    hm.units.Thirds = Thirds  # type: ignore[attr-defined]
    try:
        assert "hm.units.Thirds(1)" in site_units.page(Thirds)
    finally:
        del hm.units.Thirds  # type: ignore[attr-defined]


PAGE = """# Title

```python title="mine.py"
print("from a file")
```

```python
import warnings

import harmonium as hm

warnings.warn("careful")
print("printed")
1 + 1
```

```sh
python mine.py
```

```python
hm.plots.unit_curves(hm.units.Spin(1))
```

See [there](../other.md).
"""


@pytest.fixture(scope="module")
def page() -> site_blocks.Executed:
    return site_blocks.executed("folder/page", PAGE)


@pytest.mark.slow
def test_results_are_below_the_blocks(page: site_blocks.Executed) -> None:
    written, first, command, plot = page.blocks
    assert (written.text, first.text, command.text) == ("", "printed\nUserWarning: careful\n2", "from a file")
    assert not plot.text and dict(page.pictures())["pictures/folder-page-4.png"].startswith(b"\x89PNG")
    text = page.markdown()
    assert '```python title="mine.py"\n' in text and "``` {.text .output}\nprinted\n" in text
    assert "![result of the code above](../pictures/folder-page-4.png)" in text
    assert text.index("1 + 1") < text.index("UserWarning: careful") < text.index("mine.py\n```")


@pytest.mark.slow
def test_notebooks_have_the_same_results(page: site_blocks.Executed) -> None:
    text = notebook(page)
    cells = json.loads(text)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code", "code", "code", "markdown"]
    assert cells[1]["source"].startswith("%%writefile mine.py\n") and cells[3]["source"] == "!python mine.py"
    assert cells[2]["outputs"][0]["text"] == "printed\nUserWarning: careful\n2\n"
    assert "image/png" in cells[4]["outputs"][0]["data"] and cells[4]["execution_count"] == 4
    assert cells[5]["source"] == "See there."
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbformat.validate(nbformat.reads(text, as_version=4))


def test_a_block_that_fails_names_its_place() -> None:
    with pytest.raises(site_blocks.BlockFailed, match=r"^a\.md, block 2, line 2: ZeroDivisionError: division by zero"):
        site_blocks.executed("a", "```python\nx = 0\n```\ntext\n```python\nx += 0\n1 / x\n```\n")
    with pytest.raises(site_blocks.BlockFailed, match=r"a\.md, block 1: RuntimeError: exit status 3"):
        site_blocks.executed("a", "```sh\nexit 3\n```\n")


@pytest.mark.slow
def test_other_pages_are_run_for_one_epoch() -> None:
    text = """```python
import torch
import harmonium as hm
result = hm.fit(hm.RBM(4, 2), torch.ones(20, 4), epochs=1000, progress=False)
assert len(result.history) == 1
```
```python
hm.data.load("mnist")
```
```python
1 / 0
```
"""
    fit, load = hm.fit, hm.data.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARMONIUM_DATA", "/nowhere")
        with pytest.raises(site_blocks.BlockFailed, match=r"block 3, line 1: ZeroDivisionError"):
            site_blocks.checked("a", text)
    assert hm.fit is fit and hm.data.load is load


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(REPOSITORY)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(REPOSITORY / "mkdocs.yml"), site_dir=str(folder))
        config.plugins.on_startup(command="build", dirty=False)
        build(config)  # strict: a warning is an error
        config.plugins.on_shutdown()
    return folder


@pytest.mark.slow
def test_the_built_site(site: Path, tmp_path: Path) -> None:
    """One test, because each process that runs tests would build the site again."""
    check_reference(site)
    check_pictures(site)
    check_notebooks(site, tmp_path)


def check_reference(site: Path) -> None:
    for package in PACKAGES:
        page = (site / "reference" / f"{package}.html").read_text(encoding="utf-8")
        missing = [name for name in public_names(package) if f'id="harmonium.{package}.{name}"' not in page]
        assert not missing, f"harmonium.{package}: not in the reference: {missing}"


def check_pictures(site: Path) -> None:
    found = 0
    for path in site.rglob("*.html"):
        for source in re.findall(r'<img [^>]*src="([^"]+)"', path.read_text(encoding="utf-8")):
            if not source.startswith(("http", "data:")):
                found += 1
                assert (path.parent / source).exists(), f"{path.relative_to(site)}: no picture {source}"
    gallery = (site / "gallery" / "index.html").read_text(encoding="utf-8")
    public = [name for name in plots.__all__ if inspect.isfunction(getattr(plots, name))]
    assert found > 80 and all(f"#{name}" in gallery for name in public)


def check_notebooks(site: Path, tmp_path: Path) -> None:
    for name in TUTORIALS:
        cells = json.loads((site / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        assert any(cell.get("outputs") for cell in cells)
        assert f"notebooks/{name}.ipynb" in (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    code = (
        "import sys, nbformat, nbclient; book = nbformat.read(sys.argv[1], as_version=4); "
        "nbclient.NotebookClient(book, timeout=600).execute(); "
        "assert any('image/png' in str(cell.get('outputs')) for cell in book.cells)"
    )
    subprocess.run([sys.executable, "-c", code, str(site / "notebooks" / "text.ipynb")], check=True, cwd=tmp_path)

"""Hook of mkdocs: adds generated pages, runs the code blocks of all pages, and links to files outside of docs.

``make docs`` builds the site. The pages of the reference list the names in ``__all__`` of each package, so that every
public name is there. Each unit type has a page (``site_units``). Tutorials, machines, units and the gallery show the
results of their code blocks (``site_blocks``); tutorials are notebooks too (``site_notebooks``). A block that fails
fails the build.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import site_blocks
import site_gallery
import site_units
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from site_blocks import BlockFailed
from site_notebooks import notebook

PACKAGES = (
    *("units", "couplings", "machines", "sampling", "meanfield", "likelihood", "training", "interactions", "spectra"),
    *(
        "landscape",
        "replicas",
        "quality",
        "tasks",
        "data",
        "plots",
        "report",
        "convert",
        "sklearn",
        "testing",
        "errors",
    ),
)
#: pages that show the results of their code blocks
SHOWN = ("quickstart.md", "tutorials/", "machines/", "units/", "gallery/")
#: pages whose examples name files of the reader
FILES_NEEDED = ("cli.md", "data.md")
REPOSITORY = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(
    r"\[([^\[\]]+)\]\(((?:\.\./)+(?:examples|benchmarks|experiments|tests|src|tools|[A-Z]+\.md)[^)]*)\)"
)


def public_names(package: str) -> list[str]:
    """Return the public names of a package: those of ``__all__``, or all classes of a module without it."""
    module = importlib.import_module(f"harmonium.{package}")
    own = getattr(module, "__all__", None)
    if own is not None:
        return sorted(own)
    return sorted(
        name for name, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    )


def reference(package: str) -> str:
    """Return the page of a package."""
    module = importlib.import_module(f"harmonium.{package}")
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    parts = [f"::: harmonium.{package}.{name}" for name in public_names(package)]
    return "\n\n".join([f"# harmonium.{package}", first, *parts]) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages that are generated to the navigation."""
    for section in config.nav or []:
        for title, entries in section.items():
            if title == "Units":
                entries += [{kind.__name__: site_units.path_of(kind)} for kind in site_units.unit_types()]
            elif title == "API reference":
                entries += [{package: f"reference/{package}.md"} for package in PACKAGES]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and run the code blocks of all pages."""
    pages = {f"reference/{package}.md": reference(package) for package in PACKAGES}
    pages |= {site_units.path_of(kind): site_units.page(kind) for kind in site_units.unit_types()}
    pages |= {"units/index.md": site_units.index(), "benchmarks.md": _benchmarks()}
    pages |= {file.src_uri: file.content_string for file in files.documentation_pages()}
    try:
        results = {path: executed(path, text) for path, text in pages.items()}
    except BlockFailed as error:
        raise PluginError(str(error)) from error
    gallery = [page for path, page in results.items() if path.startswith("gallery/")]
    texts = {path: page.markdown() for path, page in results.items()}
    texts["gallery/index.md"] += site_gallery.thumbnails(gallery)
    for path, page in results.items():
        text = texts[path]
        if path.startswith("tutorials/") and page.blocks:
            name = f"notebooks/{path.removeprefix('tutorials/').removesuffix('.md')}.ipynb"
            files.append(File.generated(config, name, content=notebook(page)))
            text = text.replace("\n", f"\n\n[Download this page as a notebook](../{name})\n", 1)
        found = files.get_file_from_path(path)
        if found is not None:
            files.remove(found)
        files.append(File.generated(config, path, content=text))
        for name, content in page.pictures():
            files.append(File.generated(config, name, content=content))
    return files


def executed(path: str, text: str) -> site_blocks.Executed:
    """Return a page with the results of its blocks, if they are shown there; the blocks of other pages are only run."""
    name = path.removesuffix(".md")
    if path.startswith(SHOWN):
        return site_blocks.executed(name, text)
    if path not in FILES_NEEDED:
        site_blocks.checked(name, text)
    return site_blocks.Executed(name, [text])


def _benchmarks() -> str:
    """The page of benchmarks, which is beside their code."""
    return (REPOSITORY / "benchmarks" / "README.md").read_text(encoding="utf-8").replace("](../docs/", "](")


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: Any) -> str:
    """Point links to files outside of docs to the clone that holds the site; it is one folder deeper than docs."""
    return _OUTSIDE.sub(r'<a href="../\2">\1</a>', markdown)

"""Hook of mkdocs: adds a page of the API reference for each package, and links to files outside of docs.

``make docs`` builds the site. The pages of the reference list the names in ``__all__`` of each package, so that every
public name is there.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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
_OUTSIDE = re.compile(r"\]\(\.\./")


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


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference."""
    for package in PACKAGES:
        files.append(File.generated(config, f"reference/{package}.md", content=reference(package)))
    return files


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: Any) -> str:
    """Point links to files outside of docs to the repository."""
    return _OUTSIDE.sub(f"]({config.repo_url}/blob/main/", markdown)

"""Generate the option tables in ``docs/cli.md`` from the declarations."""

from __future__ import annotations

import re

from .declared import Option, options
from .presets import PRESETS, Preset
from .tables import DataOptions, MachineOptions, TrainingOptions

TABLES = {"data": DataOptions, "machine": MachineOptions, "training": TrainingOptions}


def table(name: str) -> str:
    """Return a table of options (or of the presets) in Markdown.

    >>> print(table("machine").splitlines()[3])
    | `--visible UNIT` | Type of the visible units: bernoulli, potts:21, …; the shape comes from the data. | sugg...
    """
    if name == "presets":
        rows = [f"| `{preset.name}` | {preset.help} | {_settings(preset)} |" for preset in PRESETS.values()]
        return "\n".join(["| preset | meaning | settings |", "|---|---|---|", *rows])
    found = options(TABLES[name]).values()
    rows = [_row(option) for option in found if not option.about.recorded and option.name != "source"]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])


def rewritten(text: str) -> str:
    """Return the text with the tables between ``<!-- options: NAME -->`` and ``<!-- end -->`` regenerated."""
    return re.sub(
        r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{table(match[2])}\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


def _row(option: Option) -> str:
    names = [option.flag, *option.about.flags]
    if option.kinds == (bool,):
        names.append(option.flag.replace("--", "--no-", 1))
    number = "N" if option.kinds == (int,) else "X"
    value = "" if option.kinds == (bool,) else f" {option.about.metavar or number}"
    meaning = " ".join(part for part in (option.about.help, option.about.details) if part)
    shown = ", ".join(f"`{name}{value if k == 0 else ''}`" for k, name in enumerate(names))
    return "| " + " | ".join(part.replace("|", "\\|") for part in (shown, meaning, option.default_words)) + " |"


def _settings(preset: Preset) -> str:
    return ", ".join(f"`{key} = {value!r}`" for table in preset.tables.values() for key, value in table.items())

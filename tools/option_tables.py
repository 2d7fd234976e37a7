"""Write the tables of options in ``docs/cli.md`` from the command ``train``: tools/option_tables.py docs/cli.md."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from pathlib import Path

from harmonium.cli.training_command import train
from harmonium.presets import configurations
from harmonium.runs.config import DataOptions, MachineOptions
from harmonium.training.plan import FIELDS

TABLES = {"data": DataOptions.__dataclass_fields__, "machine": MachineOptions.__dataclass_fields__, "training": FIELDS}


def table(name: str) -> str:
    """The options of a table of the configuration, or the named configurations, in Markdown."""
    if name == "configurations":
        folder = Path(inspect.getfile(configurations)).parent
        texts = {one: (folder / f"{one}.toml").read_text(encoding="utf-8") for one in configurations()}
        rows = [f"| `{one}` | {' '.join(re.findall('^# (.*)', text, re.M))} |" for one, text in texts.items()]
        return "\n".join(["| name | meaning |", "|---|---|", *rows])
    hints = typing.get_type_hints(train, include_extras=True)
    rows = [_row(option, *typing.get_args(hints[option])) for option in TABLES[name] if option in hints]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *filter(None, rows)])


def _row(name: str, kind: object, option: typing.Any) -> str:
    if name == "source":
        return ""
    flags = [flag for part in option.param_decls or [f"--{name.replace('_', '-')}"] for flag in part.split("/")]
    value = "" if bool in typing.get_args(kind) else f" {option.metavar}"
    shown = ", ".join(f"`{flag}{value if k == 0 else ''}`" for k, flag in enumerate(flags))
    meaning, _, default = option.help.partition(" [")
    return "| " + " | ".join(part.replace("|", "\\|") for part in (shown, meaning, default.rstrip("]"))) + " |"


def rewritten(text: str) -> str:
    """The text with the tables between ``<!-- options: NAME -->`` and ``<!-- end -->`` written again."""
    return re.sub(
        r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{table(match[2])}\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")

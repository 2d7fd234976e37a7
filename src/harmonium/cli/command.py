"""Commands that suggest corrections of unknown options, and whose help ends with an example."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from ..checks import SYNONYMS
from .examples import epilog


class SuggestingCommand(TyperCommand):
    """A command that suggests an option for an unknown one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as click does."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's NoSuchOption is not public in all versions of typer
            if hasattr(error, "option_name") and hasattr(error, "possibilities"):
                error.possibilities = suggested(error.option_name, self._flags(ctx))
            raise

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first paragraph for the list of commands, which wraps it; click would cut it."""
        return " ".join((self.help or "").split("\n\n")[0].split()).rstrip(".")

    def _flags(self, ctx: Any) -> list[str]:
        """Return the long names of all options of the command."""
        parameters = self.get_params(ctx)
        return [name for part in parameters for name in (*part.opts, *part.secondary_opts) if name.startswith("--")]


def suggested(flag: str, flags: Sequence[str]) -> list[str]:
    """Suggest options for an unknown one: a name used by another library, or a similar spelling.

    >>> suggested("--n-epochs", ["--epochs", "--seed"]), suggested("--l2", ["--penalties"])
    (['--epochs'], ['--penalties'])
    """
    name = flag.lstrip("-").replace("-", "_")
    meant = f"--{SYNONYMS.get(name, name)}".replace("_", "-")
    return [meant] if meant in flags else difflib.get_close_matches(flag, flags, n=1, cutoff=0.5)


class App(typer.Typer):
    """A typer application with these commands, whose help ends with an example; ``group`` is part of their names."""

    def __init__(self, *names: Any, group: str = "", **options: Any) -> None:
        super().__init__(*names, **options)
        self._group = group

    def command(self, *names: Any, **options: Any) -> Any:
        """Register a command, as ``typer.Typer.command`` does."""
        options.setdefault("cls", SuggestingCommand)

        def register(function: Callable[..., Any]) -> Any:
            name = names[0] if names else function.__name__
            options.setdefault("epilog", epilog(f"{self._group} {name}".strip()))
            return super(App, self).command(*names, **options)(function)

        return register

"""Commands that reject an option given twice, instead of silently taking the last."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand

_HINTS = {"hidden": "one hidden layer is supported on the command line"}


class OnceCommand(TyperCommand):
    """A command whose options may each be given once, but for those that collect several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click's, which reports every occurrence of an option in the order of parsing."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for param, count in Counter[Any](order).items():
            many = getattr(param, "multiple", False) or getattr(param, "count", False) or param.nargs != 1
            if count > 1 and not many and param.param_type_name == "option":
                hint = _HINTS.get(param.name or "")
                why = f"; {hint}" if hint else ""
                raise typer.BadParameter(f"expected once, found {count} times{why}", ctx=ctx, param=param)
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """A typer application with such commands."""

    def command(self, *names: Any, **options: Any) -> Any:
        """As ``typer.Typer.command``."""
        options.setdefault("cls", OnceCommand)
        return super().command(*names, **options)

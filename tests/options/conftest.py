"""Run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from harmonium.cli import main


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    def run(*arguments: object) -> SimpleNamespace:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return SimpleNamespace(status=int(stop.value.code or 0), out=shown.out, err=shown.err)

    return run

"""The benchmarks are commands, not tests; this only checks that each can be imported, and what they emulate."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

from harmonium.couplings import Dense

FOLDER = Path(__file__).parents[1] / "benchmarks"
NEEDS = (FOLDER, *(Path(__file__).parent / name for name in ("conformance", "likelihood")))  # cases of these tests


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*map(str, NEEDS), *sys.path])
    assert "main" in runpy.run_path(str(path)) or path.stem in ("common", "peers", "verdicts")


def test_verdicts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*map(str, NEEDS), *sys.path])
    verdicts = runpy.run_path(str(FOLDER / "verdicts.py"))

    def row(error: float | None, low: float | None, high: float | None, *problems: str) -> dict[str, object]:
        one = {"error": error, "low": low, "high": high, "problems": list(problems), "seconds": 1.0}
        return {name: {**one, "standard_error": 0.1} for name in verdicts["METHODS"]}

    done = {
        "right": row(0.1, -0.1, 0.3),
        "wrong": row(-0.6, -0.7, -0.5),
        "narrow": row(0.2, 0.1, 0.3),
        "open": row(-0.2, -0.3, None),
        "needless": row(0.0, -1.0, 1.0, "few runs"),
        "lost": row(None, None, None, "not finite"),
    }
    for one in verdicts["scores"](done):
        assert (one.total, one.wrong, one.trusted, one.needless, one.right) == (6, 2, 4, 1, 4)
        assert list(one.false) == ["wrong"] and list(one.misses) == ["wrong", "narrow"]


def test_emulated_products_are_those_of_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*map(str, NEEDS), *sys.path])
    source = torch.Generator().manual_seed(0)
    weight, x, y = (torch.randn(shape, generator=source) for shape in ((6, 4), (3, 6), (3, 4)))
    emulated, native = runpy.run_path(str(FOLDER / "precision.py"))["Rounded"](6, 4, weight), Dense(6, 4, weight)

    def products(coupling: Dense) -> list[torch.Tensor]:
        gradient = coupling.correlate(x, y, out=torch.ones(6, 4), add=True, scale=-0.1).detach()
        return [coupling.up_(x, torch.empty(3, 4)), coupling.down_(y, torch.empty(3, 6)), gradient]

    with torch.autocast("cpu", torch.bfloat16):
        expected = products(native)
    exact = products(native)
    for found, rounded, plain in zip(products(emulated), expected, exact, strict=True):
        torch.testing.assert_close(found, rounded, rtol=2**-7, atol=0)  # sums may be added in another order
        assert not torch.equal(found, plain)

"""The benchmarks are commands, not tests; this only checks that each can be imported, and what they emulate."""

from __future__ import annotations

import math
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


def test_verdicts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*map(str, NEEDS), *sys.path])
    verdicts = runpy.run_path(str(FOLDER / "verdicts.py"))

    def row(error: float, low: float, high: float, problems: str = "") -> dict[str, dict[str, object]]:
        one = {"error": error, "low": low, "high": high, "seconds": 1.0, "problems": problems}
        found = {name: dict(one) for name in verdicts["METHODS"]}
        found["population"]["standard_error"] = 0.1
        return {**found, "tap": {"error": error, "converged": not problems, "spread": 0.0}}

    done = {
        "right": row(0.1, -0.1, 0.3),
        "wrong": row(-0.6, -0.7, -0.5),
        "narrow": row(0.2, 0.1, 0.3),
        "open": row(-0.2, -0.3, math.inf),
        "needless": row(0.0, -1.0, 1.0, "few runs"),
        "lost": row(math.nan, -math.inf, math.inf, "not finite"),
    }
    for kind, found in done.items():
        verdicts["append"](tmp_path / "verdicts.csv", kind, 6, found)
    kept = verdicts["read"](tmp_path / "verdicts.csv")
    assert list(kept) == [f"{kind}:6" for kind in done]
    for one in verdicts["scores"](kept):
        assert (one.total, one.wrong, one.trusted, one.needless, one.right) == (6, 2, 4, 1, 4)
        assert list(one.false) == ["wrong:6"] and list(one.misses) == ["wrong:6", "narrow:6"]
    assert "TAP converged: 4 of 6, of which 1 are wrong" in verdicts["remarks"](kept)


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

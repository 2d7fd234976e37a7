"""The short form of the campaign; ``make campaign`` runs the long one and prints a table of counts."""

from __future__ import annotations

import pytest
from calls import calls
from commands import commands
from counting import Collected, Counts
from endurance import forked, killed_ranks, soak
from processes import kills, pairs


def clean(found: Counts, least: int) -> None:
    assert found.tried >= least
    assert not found.problems, f"{found.row()}\n{found.examples}"


@pytest.mark.slow
def test_calls(tmp_path):
    clean(calls(300, 1, tmp_path), 300)


@pytest.mark.slow
def test_commands(tmp_path):
    clean(commands(60, 1, tmp_path), 60)


@pytest.mark.slow
def test_kills(tmp_path):
    clean(kills(4, 1, tmp_path), 4)


@pytest.mark.slow
def test_pairs(tmp_path):
    clean(pairs(4, 1, tmp_path), 4)


@pytest.mark.slow
def test_soak(tmp_path):
    clean(soak(0.05, 1, tmp_path), 5)


@pytest.mark.slow
def test_killed_ranks(tmp_path):
    """The processes have the environment of ``torchrun``; the long form starts the real one."""
    clean(killed_ranks(1, 1, tmp_path, forked), 1)


def test_pieces_are_collected(tmp_path):
    """Pieces with different seeds are added up, and none is run twice."""
    for seed, kind in ((0, "raw"), (1, "raw"), (2, None)):
        piece = Counts("calls", tried=10)
        piece.outcomes["done"] += 9
        if kind is not None:
            piece.problem(kind, f"example {seed}")
        found = Collected.read(tmp_path / "results.json")
        assert not found.has("calls", seed)
        found.add("calls", seed, piece)
    found = Collected.read(tmp_path / "results.json")
    (total,) = found.sums()
    assert found.has("calls", 1) and not found.has("kills", 1)
    assert (total.tried, total.outcomes["done"], total.problems["raw"]) == (30, 27, 2)
    assert total.examples == {"raw": "example 0"}

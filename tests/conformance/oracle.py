"""The oracle of ``harmonium.testing``, under the name that these tests use."""

from __future__ import annotations

from harmonium.testing.oracle import Joint, joint, statistics, worst_deviation

__all__ = ["Joint", "joint", "statistics", "worst_deviation"]

"""Belief propagation with relaxed messages, Tramel et al. (2018), Appendix B, or exact messages, Appendix A.

Link k of the chain has a matrix W of shape (lower units, upper units); every pair of units has one message in each
direction. Relaxed BP describes a message by two moments and works for all scalar units. Exact messages are tables over
the values of a unit and need finitely many values; the result is then exact on trees.
"""

from .propagation import as_map, bp, free_energy

__all__ = ["as_map", "bp", "free_energy"]

"""Deterministic and generalized training of restricted Boltzmann machines (Tramel et al.): the TAP machines.

Figures 3 to 9 are of machines trained with the TAP mean field on three image data sets (:mod:`.trained`), which the
figures share if they are given the same folder, ``machines=DIR``.
"""

"""Deterministic and generalized training of restricted Boltzmann machines (Tramel et al.): the TAP machines.

All figures are of machines trained with the TAP mean field on three sets of pictures (:mod:`.trained`), which the
figures share where they are given one folder, ``machines=DIR``.
"""

"""Restricted Boltzmann machines as models of interacting variables (Bulso and Roudi): figures 2 to 11.

Figures 2 to 4 count every state of small machines (:mod:`.counting`). Figures 5 to 11 are of machines trained on MNIST
(:mod:`.trained`), which the figures share if they are given the same folder, ``machines=DIR``.
"""

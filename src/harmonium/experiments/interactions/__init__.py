"""Restricted Boltzmann machines as models of interacting variables (Bulso and Roudi): figures 2 to 11.

Figures 2 to 4 are of small machines whose every state is counted (:mod:`.counting`), figures 5 to 11 of machines
trained on MNIST (:mod:`.trained`), which the figures share where they are given one folder, ``machines=DIR``.
"""

"""Differentiable restricted Boltzmann machines (Hwang, Hwang & Jo 2020): multinary units and joint training of stacks.

The networks are in :mod:`.networks`, their training in :mod:`.trained`. The figures and tables share trained networks
if they are given the same folder, ``machines=DIR``.
"""

"""Figures of Decelle, Fissore and Furtlehner, Spectral dynamics of learning restricted Boltzmann machines."""

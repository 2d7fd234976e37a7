"""Plots: one function per figure. Each takes data and an optional ``ax``, and returns the figure; no global state.

>>> import torch
>>> figure = tiles(torch.rand(6, 8, 8), columns=3)
>>> len(figure.axes)
1
"""

from ..extras import require
from ..guard import guard

require("matplotlib", "plots need")  # fails here with the name of the extra, before the imports below

from .activity import hidden_activity, weight_histogram
from .animation import Animation, animate, animate_chain, animate_spectrum, animate_weights
from .continuations import forecasts
from .curves import METRICS, compared_curves, learning_curve, learning_curves, likelihood_curve
from .denoise import denoising_curves, denoising_levels, denoising_strip
from .interactions import (
    coupling_map,
    exact_against_small,
    interaction_network,
    interaction_scatter,
    interaction_strength,
)
from .kernel_images import kernels
from .landscape import landscape_page, solution_counts, solution_depths, solution_map, solution_tree
from .machine import receptive_fields, reconstructions, samples
from .model_selection import selection
from .sample_quality import (
    axis_histogram,
    correlation_scatter,
    neighbor_accuracy,
    principal_clouds,
    principal_overlay,
    quality,
    spectra,
)
from .sequences import contact_map, hidden_logos, logo, mutation_map
from .spectrum import (
    alignment_map,
    mode_evolution,
    mode_page,
    mode_pictures,
    singular_values,
    spectrum_histogram,
    spectrum_page,
)
from .temperatures import overlap_histogram, temperature_sweep
from .thermodynamics import phase_diagram
from .tiling import diverging, mosaic, tiles
from .unit_functions import unit_curves

__all__ = [
    "METRICS",
    "Animation",
    "alignment_map",
    "animate",
    "animate_chain",
    "animate_spectrum",
    "animate_weights",
    "axis_histogram",
    "compared_curves",
    "contact_map",
    "correlation_scatter",
    "coupling_map",
    "denoising_curves",
    "denoising_levels",
    "denoising_strip",
    "diverging",
    "exact_against_small",
    "forecasts",
    "hidden_activity",
    "hidden_logos",
    "interaction_network",
    "interaction_scatter",
    "interaction_strength",
    "kernels",
    "landscape_page",
    "learning_curve",
    "learning_curves",
    "likelihood_curve",
    "logo",
    "mode_evolution",
    "mode_page",
    "mode_pictures",
    "mosaic",
    "mutation_map",
    "neighbor_accuracy",
    "overlap_histogram",
    "phase_diagram",
    "principal_clouds",
    "principal_overlay",
    "quality",
    "receptive_fields",
    "reconstructions",
    "samples",
    "selection",
    "singular_values",
    "solution_counts",
    "solution_depths",
    "solution_map",
    "solution_tree",
    "spectra",
    "spectrum_histogram",
    "spectrum_page",
    "temperature_sweep",
    "tiles",
    "unit_curves",
    "weight_histogram",
]

guard(globals())

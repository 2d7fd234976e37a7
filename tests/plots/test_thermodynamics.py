"""The plot of the phases shows those of the diagram."""

from __future__ import annotations

import numpy as np

from harmonium.plots.thermodynamics import PHASES
from harmonium.plots.thermodynamics import phase_diagram as draw
from harmonium.replicas.phases import phase_diagram


def test_every_cell_has_its_phase_and_every_phase_its_name():
    diagram = phase_diagram([0.4, 0.8, 1.5], [0.3, 1.15, 2.0], tolerance=1e-6)
    ax = draw(diagram).axes[0]
    shown = np.asarray(ax.collections[0].get_array()).reshape(3, 3)
    assert [[list(PHASES)[int(cell)] for cell in row] for row in shown] == diagram.phases
    assert {text.get_text() for text in ax.texts} == {name for row in diagram.phases for name in row}
    for text in ax.texts:  # each name is inside its phase
        column = int(np.argmin(abs(diagram.couplings.numpy() - text.xy[0])))
        row = int(np.argmin(abs(diagram.temperatures.numpy() - text.xy[1])))
        assert diagram.phases[row][column] == text.get_text()

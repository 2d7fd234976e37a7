"""The figure behind the frames of ``mocap``: positions of the joints from the joint angles, and animations.

The tree of joints, their offsets and the scale of the angles are those of ``data.mat`` in the package of Taylor, Hinton
and Roweis (2006). The pelvis is fixed: its motion is given by velocities, which do not matter for the posture.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from harmonium import files

#: the parent of each joint; -1 for the pelvis
PARENTS = (-1, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 12, 9, 14, 15, 16)
#: the position of each joint relative to its parent in millimeters: forward, to the left, up
OFFSETS = (
    (0.0, 0.0, 0.0),
    (0.0, 92.2, 0.0),
    (0.0, 0.0, -399.4),
    (0.0, 0.0, -383.5),
    (178.2, 0.0, 0.0),
    (0.0, -92.2, 0.0),
    (0.0, 0.0, -399.4),
    (0.0, 0.0, -383.5),
    (178.2, 0.0, 0.0),
    (-50.0, 0.0, 200.0),
    (0.0, 0.0, 305.4),
    (0.0, 172.0, 31.9),
    (0.0, 0.0, -273.8),
    (0.0, 0.0, -238.0),
    (0.0, 0.0, 305.4),
    (0.0, -172.0, 31.9),
    (0.0, 0.0, -273.8),
    (0.0, 0.0, -238.0),
)
#: channel of the data, joint, axis, mean and standard deviation of the angle, as an exponential map in radians
ANGLES = (
    (6, 1, 0, -0.0229, 0.1267),
    (7, 1, 1, -0.0624, 0.3325),
    (8, 1, 2, 0.0738, 0.1827),
    (9, 2, 1, 0.4741, 0.3853),
    (10, 3, 0, 0.0562, 0.0954),
    (11, 3, 1, 0.4717, 0.1663),
    (12, 3, 2, 0.0368, 0.0585),
    (13, 4, 1, -0.9786, 0.1719),
    (14, 5, 0, 0.0017, 0.135),
    (15, 5, 1, -0.1468, 0.2949),
    (16, 5, 2, -0.0776, 0.1685),
    (17, 6, 1, 0.5328, 0.3825),
    (18, 7, 0, -0.1401, 0.1134),
    (19, 7, 1, 0.4367, 0.1485),
    (20, 7, 2, -0.0883, 0.0678),
    (21, 8, 1, -1.0888, 0.2035),
    (22, 9, 0, -0.1003, 0.0908),
    (23, 9, 1, 0.1827, 0.0587),
    (24, 9, 2, 0.1856, 0.141),
    (25, 10, 0, -0.3609, 0.053),
    (26, 10, 1, -0.0137, 0.0114),
    (27, 10, 2, -0.0801, 0.0634),
    (28, 11, 0, 0.6799, 0.1111),
    (29, 11, 1, -0.0812, 0.2738),
    (30, 11, 2, 0.1129, 0.2426),
    (31, 12, 0, 0.1302, 0.0392),
    (32, 12, 1, -0.5347, 0.2516),
    (33, 12, 2, -0.5272, 0.1711),
    (34, 13, 0, -0.0628, 0.0554),
    (35, 13, 1, -0.104, 0.0278),
    (36, 13, 2, 0.0035, 0.0038),
    (37, 14, 0, 0.437, 0.0539),
    (38, 14, 1, -0.0111, 0.0091),
    (39, 14, 2, 0.0525, 0.0439),
    (40, 15, 0, -0.6412, 0.0775),
    (41, 15, 1, 0.0191, 0.2177),
    (42, 15, 2, -0.091, 0.1493),
    (43, 16, 0, -0.2259, 0.056),
    (44, 16, 1, -0.7271, 0.2097),
    (45, 16, 2, 0.5834, 0.0864),
    (46, 17, 0, 0.0431, 0.0605),
    (47, 17, 1, -0.0396, 0.0271),
    (48, 17, 2, -0.0007, 0.0019),
)


def joints(frames: np.ndarray) -> np.ndarray:
    """Return the positions of the joints: (n, 49) -> (n, 18, 3), in millimeters from the pelvis."""
    angles = np.zeros((len(frames), len(PARENTS), 3))
    for channel, joint, axis, mean, deviation in ANGLES:
        angles[:, joint, axis] = mean + deviation * frames[:, channel]
    turned = rotations(angles)
    position, direction = np.zeros_like(angles), turned.copy()
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            position[:, joint] = position[:, parent] + direction[:, parent] @ np.array(OFFSETS[joint])
            direction[:, joint] = direction[:, parent] @ turned[:, joint]
    return position


def rotations(angles: np.ndarray) -> np.ndarray:
    """Return the rotation matrices of exponential maps, by the formula of Rodrigues: (..., 3) -> (..., 3, 3).

    >>> rotations(np.array([0.0, 0.0, np.pi / 2])).round(6)[:, 0].tolist()
    [0.0, 1.0, 0.0]
    """
    size = np.linalg.norm(angles, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(angles / np.where(size > 0, size, 1.0), -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*x.shape, 3, 3)
    size = size[..., None]
    return np.eye(3) + np.sin(size) * cross + (1 - np.cos(size)) * cross @ cross


def animate(path: Path, motions: Mapping[str, np.ndarray], *, every: int = 1, milliseconds: int = 67) -> None:
    """Write a GIF with figures that move side by side; each motion is (frames, 49), with a title."""
    found = {title: joints(frames[::every]) for title, frames in motions.items()}
    pictures = [_picture({title: x[k] for title, x in found.items()}) for k in range(min(map(len, found.values())))]
    with files.atomic(path) as temporary:
        pictures[0].save(
            temporary, "GIF", save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0, optimize=True
        )


def _picture(postures: Mapping[str, np.ndarray]) -> Image.Image:
    figure = Figure(figsize=(1.5 * len(postures), 2.3), dpi=80)
    canvas = FigureCanvasAgg(figure)
    for k, (title, x) in enumerate(postures.items()):
        axes = figure.add_subplot(1, len(postures), k + 1)
        # seen from the side, turned by 30 degrees so that the two legs can be told apart
        across = np.cos(np.pi / 6) * x[:, 0] - np.sin(np.pi / 6) * x[:, 1]
        for joint, parent in enumerate(PARENTS):
            if parent >= 0:
                color = "tab:blue" if joint in LEFT else "tab:red" if joint in RIGHT else "black"
                axes.plot(across[[parent, joint]], x[[parent, joint], 2], color=color, linewidth=2)
        axes.set(xlim=(-700, 700), ylim=(-1000, 900), aspect="equal")
        axes.set_axis_off()
        axes.set_title(title, fontsize=8)
    figure.subplots_adjust(0, 0, 1, 0.9, 0, 0)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("P", palette=Image.Palette.ADAPTIVE, colors=16)


#: joints of the limbs on the left and on the right
LEFT, RIGHT = (1, 2, 3, 4, 11, 12, 13), (5, 6, 7, 8, 15, 16, 17)

"""Local contrast normalization of images (Jarrett et al. 2009): the same contrast everywhere, and no brightness."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d

_RADIUS = 4  # of the window, in pixels
_WIDTH = 2.0  # standard deviation of its weights
_FLOOR = 0.1  # added to the local deviation, so that noise in flat regions is not enlarged
_GAIN = 0.2  # gray values, from 0 to 1, of one local deviation
_CHUNK = 1000  # images


def normalized(images: Tensor) -> Tensor:
    """8-bit images (n, channels, height, width): differences from the local mean, divided by the local deviation.

    Mean and deviation are weighted by a Gaussian and taken over all channels. Zero is the gray value 128.

    >>> flat = torch.full((1, 1, 16, 16), 200, dtype=torch.uint8)
    >>> normalized(flat)[0, 0, 8, 8].item()
    128
    """
    return torch.cat([_normalized(part.float() / 255) for part in images.split(_CHUNK)])


def _normalized(images: Tensor) -> Tensor:
    line = torch.exp(-torch.arange(-_RADIUS, _RADIUS + 1).square() / (2 * _WIDTH**2))
    window = (line[:, None] * line / line.sum().square())[None, None]

    def surroundings(x: Tensor) -> Tensor:
        return conv2d(x.mean(1, keepdim=True), window, padding=_RADIUS)

    difference = images - surroundings(images)
    deviation = surroundings(difference.square()).sqrt()
    gray = 128 + 255 * _GAIN * difference / (deviation + _FLOOR)
    return gray.clamp(0, 255).round().to(torch.uint8)

"""Figure 2: reconstructions of faces; dark glasses are removed, and gray faces get colors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from harmonium.plots import tiling

from ..judging import Verdict, claim, mean
from ..options import with_options_of
from ..record import Record
from .faces import DATASET, LEVELS, reconstruct
from .trained import BRIGHTEST, Machines

_TOP, _BOTTOM, _LEFT, _RIGHT = 5 / 16, 1 / 2, 1 / 8, 7 / 8  # of the dark bar, as shares of the image
_DARK = 20


@with_options_of(Machines)
def run(record: Record, trained: Machines, n: int = 500) -> None:
    """Test faces, whole, behind a bar and in gray, each with its reconstruction."""
    network, train = trained.network(DATASET, LEVELS), trained.rows(DATASET)
    faces = trained.load(DATASET, "test")[0][:n]
    inputs = {"face": faces, "behind a bar": occluded(faces), "gray": gray(faces)}
    outputs = {name: reconstruct(network, images) for name, images in inputs.items()}
    sheet = [part[:12].float() for name in inputs for part in (inputs[name], outputs[name])]
    record.figure("fig2", tiling.tiles(torch.cat(sheet), columns=12, limits=(0.0, float(BRIGHTEST)), ink=False))
    center = train.float().mean(0)
    difference = f"LFW instead of CelebA, {trained.difference(DATASET)}"
    whole = error(outputs["face"], faces)
    record.table(
        "layers",
        [
            {"layer": k, "rms_error_of_test_faces": error(reconstruct(network, faces, k), faces).mean()}
            for k in range(1, len(network.machines) + 1)
        ],
    )
    claim(
        record,
        "the top layer reconstructs faces that were not in the training set, better than the mean face",
        f"root mean squared error {mean(whole):.2f} gray values, of the mean face "
        f"{mean(error(center[None], faces)):.2f}",
        judge_less(whole, error(center[None], faces)),
        difference,
    )
    cut = eyes(faces)
    _claims(
        record,
        "reconstruction removes what covers the eyes (a dark bar, here)",
        "error at the bar",
        {
            "output": error(outputs["behind a bar"][cut], faces[cut]),
            "input": error(inputs["behind a bar"][cut], faces[cut]),
            "mean face": error(center[None][cut], faces[cut]),
        },
        difference,
    )
    _claims(
        record,
        "reconstruction gives colors to gray images, nearer to the true ones than gray",
        "error of the differences from gray",
        {
            "output": error(color(outputs["gray"]), color(faces)),
            "input": error(color(inputs["gray"]), color(faces)),
            "mean face": error(color(center[None]), color(faces)),
        },
        difference,
    )


def _claims(record: Record, claimed: str, what: str, errors: dict[str, np.ndarray], difference: str) -> None:
    """The claim of the paper, and as a control that the output knows more of the face than the mean face does."""
    words = f"{what}: " + ", ".join(f"{name} {mean(x):.2f}" for name, x in errors.items()) + " gray values"
    claim(record, claimed, words, judge_less(errors["output"], errors["input"]), difference)
    claimed = f"(control) {claimed}: better than the mean face"
    claim(record, claimed, words, judge_less(errors["output"], errors["mean face"]))


def eyes(images: Tensor) -> tuple[slice, ...]:
    """The place of the bar in images (n, channels, height, width).

    >>> eyes(torch.zeros(1, 3, 64, 64))[2:]
    (slice(20, 32, None), slice(8, 56, None))
    """
    height, width = images.shape[2:]
    rows = slice(round(_TOP * height), round(_BOTTOM * height))
    return slice(None), slice(None), rows, slice(round(_LEFT * width), round(_RIGHT * width))


def occluded(images: Tensor) -> Tensor:
    """Images with a dark bar at the height of the eyes."""
    found = images.clone()
    found[eyes(images)] = _DARK
    return found


def gray(images: Tensor) -> Tensor:
    """Images with the mean of their colors in each color."""
    return images.float().mean(1, keepdim=True).expand(-1, 3, -1, -1).round().to(images.dtype)


def color(images: Tensor) -> Tensor:
    """The differences of each color from the mean of the colors."""
    return images.float() - images.float().mean(1, keepdim=True)


def error(found: Tensor, true: Tensor) -> np.ndarray:
    """The root mean squared difference of each image: (n,)."""
    return (found.float() - true.float()).flatten(1).square().mean(1).sqrt().numpy()


def judge_less(errors: np.ndarray, others: np.ndarray) -> Verdict:
    """Criterion: the errors of the same images are smaller, beyond the error of the mean paired difference."""
    return mean(others - errors).above()

"""The feed-forward part of a machine as an ONNX file."""

from __future__ import annotations

import os

import torch

from ..extras import require
from ..files import atomic
from ..machines import RBM, DeepBeliefNetwork
from ..tasks import to_sequential


def write_onnx(machine: RBM | DeepBeliefNetwork, path: str | os.PathLike[str]) -> None:
    """Write the network that computes the hidden means (the features of the top layer) as an ONNX file.

    Input ``visible`` (batch, *visible), output ``hidden`` (batch, *hidden); the batch size is free.
    """
    require("onnx", "ONNX files need")
    require("onnxscript", "ONNX files need")
    network = to_sequential(machine).eval()
    rows = torch.zeros(2, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
    batch = torch.export.Dim("batch")
    with atomic(path) as temporary:
        torch.onnx.export(
            network,
            (rows,),
            str(temporary),
            input_names=["visible"],
            output_names=["hidden"],
            dynamic_shapes=({0: batch},),
            external_data=False,
            dynamo=True,
            verbose=False,
        )

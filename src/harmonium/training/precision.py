"""The precision of matrix products, and whether the processor has fast products of bfloat16."""

from __future__ import annotations

import torch

from ..errors import InvalidOption
from ..machines import Machine
from .negative import NegativePhase

FLOAT32, BFLOAT16, AUTO = "float32", "bfloat16", "auto"
_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")  # of processors on which these products are faster than in float32


def fast_bfloat16(device: torch.device) -> bool:
    """Return whether a device has products of bfloat16. Without them, they are 30 to 60 times slower than in float32.

    >>> fast_bfloat16(torch.device("cpu")) in (True, False)
    True
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # not in older versions of torch
    return device.type == "cpu" and any(capabilities.get(name, False) for name in _INSTRUCTIONS)


def resolved(precision: str, machine: Machine, phase: NegativePhase) -> str:
    """Return "float32" or "bfloat16"; raise if ``precision`` is "bfloat16" and machine or phase do not support it.

    "auto" is "bfloat16" where machine, phase and processor support it.

    >>> import harmonium as hm
    >>> resolved("auto", hm.RBM(3, 2).double(), hm.PCD(1))
    'float32'
    """
    if precision == FLOAT32:
        return FLOAT32
    problem = None
    if machine.dtype != torch.float32:
        problem = f"expects float32 parameters, found {machine.dtype}"
    elif not phase.supports_bfloat16:
        problem = f"expects a sampled negative phase, found {type(phase).__name__}"
    if precision == AUTO:
        return BFLOAT16 if problem is None and fast_bfloat16(machine.device) else FLOAT32
    if problem is not None:
        raise InvalidOption(f"precision: {precision} {problem}")
    return BFLOAT16

"""Trees of tensors and numbers as safetensors plus JSON: how optimizers, chains and generators are kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

_TENSOR = "__tensor__"


def flatten(tree: Any, prefix: str) -> tuple[Any, dict[str, Tensor]]:
    """Split a tree of dicts, lists, numbers and tensors into plain JSON and named tensors.

    >>> flatten({"step": 3, "mean": [torch.ones(2)]}, "x")
    ({'step': 3, 'mean': [{'__tensor__': 'x.mean.0'}]}, {'x.mean.0': tensor([1., 1.])})
    """
    if isinstance(tree, Tensor):
        return {_TENSOR: prefix}, {prefix: tree.detach().clone()}
    if isinstance(tree, dict):
        items = [(key, flatten(value, f"{prefix}.{key}")) for key, value in tree.items()]
        return {str(key): plain for key, (plain, _) in items}, _merge(part for _, (_, part) in items)
    if isinstance(tree, (list, tuple)):
        parts = [flatten(value, f"{prefix}.{k}") for k, value in enumerate(tree)]
        return [plain for plain, _ in parts], _merge(part for _, part in parts)
    return tree, {}


def unflatten(plain: Any, tensors: dict[str, Tensor]) -> Any:
    """The tree that :func:`flatten` split."""
    if isinstance(plain, dict):
        if set(plain) == {_TENSOR}:
            return tensors[plain[_TENSOR]]
        return {key: unflatten(value, tensors) for key, value in plain.items()}
    if isinstance(plain, list):
        return [unflatten(value, tensors) for value in plain]
    return plain


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give an optimizer its state back; JSON has turned the numbers of its parameters into strings."""
    state["state"] = {int(key): value for key, value in state["state"].items()}
    for group in state["param_groups"]:
        for key, value in group.items():
            if key == "betas":
                group[key] = tuple(value)
    optimizer.load_state_dict(state)


def derived_seed(*parts: int) -> int:
    """A seed that depends on all of ``parts``: streams that never meet, for epochs, ranks and purposes."""
    value = 0x9E3779B97F4A7C15
    for part in parts:
        value = ((value ^ (part & (2**64 - 1))) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
        value ^= value >> 31
    return value % 2**63


def stream(seed: int, *parts: int, device: torch.device | str = "cpu") -> Generator:
    """A generator of its own for a purpose."""
    return Generator(device=device).manual_seed(derived_seed(seed, *parts))


def _merge(parts: Any) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = {}
    for part in parts:
        merged.update(part)
    return merged

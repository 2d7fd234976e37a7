"""Store trees of tensors and numbers (states of optimizers, chains and generators) as safetensors and JSON."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..errors import clipped
from ..files import tensor_type
from .descent import AnyOptimizer

_TENSOR = "__tensor__"


def flatten(tree: Any, prefix: str) -> tuple[Any, dict[str, Tensor]]:
    """Split a tree of dicts, lists, numbers, machines and tensors into plain JSON and named tensors.

    Other objects, such as memory for intermediate results, are left out.

    >>> flatten({"step": 3, "mean": [torch.ones(2)]}, "x")
    ({'step': 3, 'mean': [{'__tensor__': 'x.mean.0'}]}, {'x.mean.0': tensor([1., 1.])})
    """
    if isinstance(tree, nn.Module):
        tree = tree.state_dict()
    if isinstance(tree, Tensor):
        return {_TENSOR: prefix}, {prefix: tree.detach().clone()}
    if isinstance(tree, dict):
        items = [(key, flatten(value, f"{prefix}.{key}")) for key, value in tree.items() if _saved(value)]
        return {str(key): plain for key, (plain, _) in items}, _merge(part for _, (_, part) in items)
    if isinstance(tree, (list, tuple)):
        parts = [flatten(value, f"{prefix}.{k}") for k, value in enumerate(tree)]
        return [plain for plain, _ in parts], _merge(part for _, part in parts)
    return tree, {}


def _saved(value: Any) -> bool:
    return value is None or isinstance(value, (Tensor, nn.Module, dict, list, tuple, int, float, str))


def unflatten(plain: Any, tensors: dict[str, Tensor]) -> Any:
    """Undo :func:`flatten`; a machine is the dict of its parameters."""
    if isinstance(plain, dict):
        if set(plain) == {_TENSOR}:
            return tensors[plain[_TENSOR]]
        return {key: unflatten(value, tensors) for key, value in plain.items()}
    if isinstance(plain, list):
        return [unflatten(value, tensors) for value in plain]
    return plain


def continued(saved: Any, fresh: Any, grows: bool = False) -> Any:
    """Return a saved tree in the form of ``fresh``, the tree before the first step; raise ``ValueError`` if it differs.

    What is not saved is taken from ``fresh``. With ``grows``, lists may be longer and the first dimensions of tensors
    other than in ``fresh``.

    >>> continued({"n": 3, "x": torch.ones(2)}, {"n": 0, "x": torch.zeros(2), "memory": print})["n"]
    3
    >>> continued({"n": 3}, {"m": 0})
    Traceback (most recent call last):
    ...
    ValueError: expected the entries m, found n
    """
    if isinstance(fresh, Tensor):
        shape = (saved.shape[:1] + fresh.shape[1:]) if grows and isinstance(saved, Tensor) else None
        return restored(saved, fresh, shape).to(fresh.device)
    if isinstance(fresh, nn.Module):
        made = copy.deepcopy(fresh)
        made.load_state_dict(continued(saved, dict(fresh.state_dict())))
        return made
    if isinstance(fresh, dict):
        known = [key for key, value in fresh.items() if _saved(value)]
        if not isinstance(saved, dict) or sorted(saved) != sorted(known):
            raise ValueError(f"expected the entries {', '.join(sorted(known))}, found {_names(saved)}")
        return {key: continued(saved[key], value, grows) if key in saved else value for key, value in fresh.items()}
    if isinstance(fresh, (list, tuple)):
        if not isinstance(saved, list) or not (len(saved) == len(fresh) or (grows and len(saved) > len(fresh) > 0)):
            raise ValueError(f"expected {len(fresh)} entries, found {_names(saved)}")
        return [continued(one, fresh[min(k, len(fresh) - 1)], grows) for k, one in enumerate(saved)]
    return restored_number(saved) if type(fresh) is int else saved


def _names(saved: Any) -> str:
    return ", ".join(map(str, saved)) if isinstance(saved, dict) else clipped(saved)


def restored(found: Any, like: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """Return a copy of a tensor from a checkpoint; raise ``ValueError`` unless it has the type and shape of ``like``.

    >>> restored(torch.ones(2), torch.ones(3))
    Traceback (most recent call last):
    ...
    ValueError: expected a tensor float32 (3,), found float32 (2,)
    >>> restored(torch.ones(3).double(), torch.ones(4), shape=(3,))
    Traceback (most recent call last):
    ...
    ValueError: expected a tensor float32 (3,), found float64 (3,)
    """
    expected = tensor_type(like, shape)
    actual = tensor_type(found) if isinstance(found, Tensor) else type(found).__name__
    if actual != expected:
        raise ValueError(f"expected a tensor {expected}, found {actual}")
    return found.clone()


def restored_number(found: Any) -> int:
    """Return a number from a checkpoint; raise ``ValueError`` unless it is an integer from 0.

    >>> restored_number(3)
    3
    """
    if type(found) is not int or found < 0:
        raise ValueError(f"expected an integer from 0, found {found!r}")
    return found


def load_optimizer(optimizer: AnyOptimizer, state: dict[str, Any]) -> None:
    """Load the state of an optimizer; raise ``ValueError`` unless it is one from which this optimizer can continue."""
    state["state"] = {int(key): value for key, value in state["state"].items()}  # JSON has only text as keys
    for group in state["param_groups"]:
        for key, value in group.items():
            if key == "betas":
                group[key] = tuple(value)
    _check_optimizer(optimizer, state)
    optimizer.load_state_dict(state)


def _check_optimizer(optimizer: AnyOptimizer, state: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless a copy of the optimizer has tensors of the same types, and can take a step."""
    trial = copy.copy(optimizer)
    trial.state = defaultdict(dict)
    trial.param_groups = [
        {**group, "params": [torch.zeros_like(parameter) for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    for parameter in (parameter for group in trial.param_groups for parameter in group["params"]):
        parameter.grad = torch.zeros_like(parameter)
    try:
        trial.step()
    except Exception:  # an optimizer of a user, which cannot be copied
        return
    for index, own in trial.state_dict()["state"].items():
        for name, found in state["state"].get(index, {}).items():
            if isinstance(own.get(name), Tensor) and found is not None:
                restored(found, own[name])
    try:
        trial.load_state_dict(copy.deepcopy(state))  # a step changes the tensors in place
        for _ in range(2):  # the first one may make buffers that only the second one uses
            trial.step()
    except Exception as error:
        raise ValueError(f"expected a state of {type(optimizer).__name__}: {clipped(error)}") from error


def derived_seed(*parts: int) -> int:
    """Return a seed that is a hash of all ``parts``, for independent streams per epoch, rank and purpose."""
    value = 0x9E3779B97F4A7C15
    for part in parts:
        value = ((value ^ (part & (2**64 - 1))) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
        value ^= value >> 31
    return value % 2**63


def stream(seed: int, *parts: int, device: torch.device | str = "cpu") -> Generator:
    """Return a generator seeded with :func:`derived_seed`."""
    return Generator(device=device).manual_seed(derived_seed(seed, *parts))


def _merge(parts: Any) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = {}
    for part in parts:
        merged.update(part)
    return merged

"""Gradient descent and Adam, the optimizers that :func:`harmonium.fit` makes.

They do the same as those of torch, which :func:`harmonium.fit` also takes. The first optimizer of torch that a process
makes imports the compiler of torch. This takes a second, longer than an epoch on MNIST.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor


class Optimizer(ABC):
    """Parameters with learning rates, as in ``torch.optim.Optimizer``: ``param_groups``, ``state`` and ``step``."""

    def __init__(self, parameters: Iterable[Tensor] | Iterable[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
        given: list[Any] = list(parameters)
        groups = [{"params": given}] if all(isinstance(one, Tensor) for one in given) else given
        self.param_groups = [{**options, **group, "params": list(group["params"])} for group in groups]
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)

    def zero_grad(self) -> None:
        """Delete all gradients."""
        for parameter in self._parameters():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.change(parameter, parameter.grad, group, self.state[parameter])

    @abstractmethod
    def change(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        """Change a parameter with the options of its group; ``state`` is empty before the first step."""

    def state_dict(self) -> dict[str, Any]:
        """Options of all groups and states by the number of the parameter."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        groups = [{**group, "params": [numbers[one] for one in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[one]: dict(state) for one, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take the options and states of :meth:`state_dict`."""
        parameters = self._parameters()
        sizes = [len(group["params"]) for group in self.param_groups]
        if [len(group["params"]) for group in saved["param_groups"]] != sizes:
            raise ValueError(f"expected groups of {sizes} parameters")
        for group, other in zip(self.param_groups, saved["param_groups"], strict=True):
            group |= {**other, "params": group["params"]}
        self.state = defaultdict(dict, {parameters[number]: dict(state) for number, state in saved["state"].items()})

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


#: what :func:`harmonium.fit` takes
AnyOptimizer = Optimizer | torch.optim.Optimizer


class SGD(Optimizer):
    """w ← w - lr·a with the sum a ← momentum·a + g of past gradients.

    >>> w = torch.ones(1, requires_grad=True)
    >>> w.grad = torch.tensor([2.0])
    >>> SGD([w], lr=0.25).step()
    >>> w.item()
    0.5
    """

    def __init__(self, parameters: Any, lr: float = 0.05, momentum: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    def change(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        if group["momentum"]:
            if state:
                state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
            else:
                state["momentum_buffer"] = gradient.clone()
            gradient = state["momentum_buffer"]
        parameter.sub_(gradient, alpha=group["lr"])


class Adam(Optimizer):
    """Steps divided by the root mean square of past gradients (Kingma & Ba 2015).

    >>> w = torch.ones(1, requires_grad=True)
    >>> w.grad = torch.tensor([2.0])
    >>> Adam([w], lr=0.25).step()  # the first step has the size of the learning rate
    >>> round(w.item(), 6)
    0.75
    """

    def __init__(
        self, parameters: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps})

    def change(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        first, second = group["betas"]
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(gradient), "exp_avg_sq": torch.zeros_like(gradient)}
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        size = (state["exp_avg_sq"].sqrt() / math.sqrt(1 - second ** state["step"])).add_(group["eps"])
        parameter.addcdiv_(state["exp_avg"], size, value=-group["lr"] / (1 - first ** state["step"]))

"""Arguments of a wrong type get one sentence, and calls that work are never refused."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.guard import fits, guard, mismatch, words

RBM = hm.RBM(4, 2)


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (3, int, True),
        (np.int32(3), int, True),
        (3.0, int, False),
        (3, float, True),
        (np.float32(3), float, True),
        (torch.tensor(3.0), float, True),
        (torch.ones(2), float, False),
        ("3", float, False),
        (1, bool, False),
        (np.bool_(True), bool, True),
        (None, int | None, True),
        ("a", str | Path, True),
        (Path("a"), str | Path, True),
        (b"a", str | Path, False),
        (RBM, hm.BoltzmannMachine, True),
        (hm.RBM, hm.BoltzmannMachine, False),
        (print, Callable[[int], int], True),
        ([1, 2], Sequence[int], True),
        (range(3), Sequence[int], True),
        ([1, "a"], Sequence[int], False),
        ("ab", Sequence[str], False),
        ((1, 2), tuple[int, int], True),
        ((1, 2, 3), tuple[int, int], False),
        ((1, 2, 3), tuple[int, ...], True),
        ({"a": 1}, Mapping[str, int], True),
        ({1: 1}, Mapping[str, int], False),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (object(), Any, True),
    ],
)
def test_a_value_is_compared_with_a_type(value: Any, annotation: Any, expected: bool) -> None:
    assert fits(value, annotation) is expected
    assert words(annotation)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hm.likelihood.ais(3), "machine: expected a BoltzmannMachine, found 3"),
        (lambda: hm.fit(3, torch.eye(4)), "machine: expected a BoltzmannMachine or a DeepBeliefNetwork, found 3"),
        (lambda: hm.losses.contrastive(0.5, torch.eye(4)), "machine: expected an RBM, found 0.5"),
        (lambda: hm.save(RBM, None), "path: expected a text or a path, found None"),
        (lambda: RBM.sample(3, sweeps=2, callback=3), "callback: expected a function or None, found 3"),
    ],
)
def test_a_wrong_type_is_named(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(hm.errors.InvalidOption) as caught:
        call()
    assert str(caught.value) == sentence


def test_the_argument_of_the_user_is_named_and_not_that_of_an_inner_function() -> None:
    def inner(count: int) -> int:
        return count + 1

    def outer(number: int) -> int:
        return namespace["inner"](number)

    def other(values: Any) -> int:
        return namespace["inner"](values)

    inner.__module__ = outer.__module__ = other.__module__ = "harmonium.trial"
    namespace: dict[str, Any] = {"__all__": ["inner", "outer", "other"], "inner": inner, "outer": outer, "other": other}
    guard(namespace)
    assert namespace["outer"](2) == 3
    with pytest.raises(hm.errors.InvalidOption, match=r"^number: expected a whole number, found 'a'$"):
        namespace["outer"]("a")
    with pytest.raises(hm.errors.InvalidOption, match=r"^count: expected a whole number, found 'a'$"):
        namespace["other"]("a")


def test_an_error_of_right_types_stays_as_it_is() -> None:
    def divide(a: float, b: float) -> float:
        return a / b

    divide.__module__ = "harmonium.trial"
    namespace: dict[str, Any] = {"__all__": ["divide"], "divide": divide}
    guard(namespace)
    with pytest.raises(ZeroDivisionError):
        namespace["divide"](1.0, 0.0)
    with pytest.raises(TypeError, match="missing 1 required"):  # the message of Python is clear
        namespace["divide"](1.0)
    assert mismatch(divide, (1, 2), {}) is None


def test_functions_can_be_sent_to_other_processes() -> None:
    for function in (hm.likelihood.ais, hm.fit, hm.interactions.n_body, hm.RBM):
        assert pickle.loads(pickle.dumps(function)) is function


def test_signatures_and_texts_are_those_of_the_functions() -> None:
    assert next(iter(inspect.signature(hm.likelihood.ais).parameters)) == "machine"
    assert "ln Z" in (hm.likelihood.ais.__doc__ or "")
    assert list(inspect.signature(hm.RBM).parameters) == ["visible", "hidden", "coupling"]

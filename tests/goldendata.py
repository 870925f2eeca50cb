"""Reads the reference data: inputs and what ML-Agents 1.1.0 computed for them.

The folder is the one that the environment variable LANISTA_GOLDEN names, else `tests/golden`. Tests take the
data as it comes: names, counts, shapes and order are its own, and a file or a kind of case may be missing.
"""

import base64
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(os.environ.get("LANISTA_GOLDEN") or Path(__file__).parent / "golden")


@cache
def _load(name: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []


def cases(name: str, *kinds: str, where: Callable[[dict[str, Any]], bool] = lambda case: True) -> list[Any]:
    """The cases of `name`.json as parameters for `pytest.mark.parametrize`; a skipped one if there is none.

    Args:
        name: of the file, without its ending.
        kinds: the kinds of cases; every kind if none is given.
        where: which of these cases; all by default.
    """
    found = [case for case in _load(name) if (not kinds or case.get("kind") in kinds) and where(case)]
    if not found:
        reason = f"{FOLDER / name}.json holds no such case{f' of kind {kinds}' if kinds else ''}"
        return [pytest.param(None, id="none", marks=pytest.mark.skip(reason))]
    return [pytest.param(case, id=case["name"]) for case in found]


def case_named(name: str, of: str) -> dict[str, Any]:
    """The case of `name`.json that another case refers to by its name; the test is skipped without it."""
    found = [case for case in _load(name) if case["name"] == of]
    if not found:
        pytest.skip(f"{FOLDER / name}.json holds no case {of!r}, to which this one refers")
    return found[0]


def kinds(name: str) -> set[str]:
    """Every kind that `name`.json holds."""
    return {case.get("kind", "") for case in _load(name)}


def number(value: Any) -> float:
    """A number, or one of the texts that stand for what JSON cannot say."""
    return float({"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(value, value))


def _numbers(data: Any) -> Any:
    return (
        [_numbers(x) for x in data]
        if isinstance(data, list)
        else number(data)
        if isinstance(data, str)
        else data
    )


def array(value: Any, dtype: Any = np.float32) -> np.ndarray:
    """Nested lists, or {"shape", "dtype", "data"}, as an array."""
    if isinstance(value, dict):
        return np.array(_numbers(value["data"]), dtype=value["dtype"]).reshape(value["shape"])
    return np.array(_numbers(value), dtype=dtype)


def bytes_of(value: dict[str, str]) -> bytes:
    """{"b64": ...} as bytes."""
    return base64.b64decode(value["b64"])

"""Reads the reference data: inputs and what ML-Agents 1.1.0 computed for them.

The folder is the one that the environment variable LANISTA_GOLDEN names, else `tests/golden`.
"""

import base64
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(os.environ.get("LANISTA_GOLDEN") or Path(__file__).parent / "golden")


@cache
def _load(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]


def cases(name: str, *kinds: str) -> list[Any]:
    """The cases of `name`.json (of these kinds, or all) as parameters for `pytest.mark.parametrize`."""
    import pytest

    return [
        pytest.param(case, id=case["name"]) for case in _load(name) if not kinds or case.get("kind") in kinds
    ]


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

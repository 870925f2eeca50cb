"""What is wrong with a model that onnxruntime does not load or run, in a sentence."""

from __future__ import annotations

import re
from typing import Any

import onnxruntime

NO_FILE = "it is cut off, or it is no ONNX file at all; copy it again, or export it anew (`lanista export`)"
"""What is wrong with bytes that are no model."""
_NEWEST = {
    re.compile(r"Opset (?P<found>\d+) is .*?domain ai\.onnx is till opset (?P<most>\d+)", re.DOTALL): "opset",
    re.compile(r"IR version: (?P<found>\d+), max supported IR version: (?P<most>\d+)"): "IR version",
}
"""How onnxruntime tells that a model is too new."""
_PLACES = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+:\d+ [^()\n]*\((?:[^()\n]|\([^()\n]*\))*\)(?: const)? ?"
)
"""Codes of errors, and places in the source of onnxruntime, each with a function's signature in C++."""


def why_not_loaded(error: Exception) -> str:
    """What is wrong with a file for which onnxruntime raised `error`, and what to do."""
    message = str(error)
    if type(error).__name__ == "InvalidProtobuf" or "No graph was found" in message:
        return NO_FILE
    return _newest(message) or f"onnxruntime does not load it: {plain(error)}"


def why_too_new(model: Any) -> str:
    """That onnxruntime does not know the versions of a model, whatever else is in it; empty if it does."""
    from onnx import GraphProto, ModelProto

    empty = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, graph=GraphProto(name="empty")
    )
    try:
        onnxruntime.InferenceSession(
            empty.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # as in `_load`
        return _newest(str(error))
    return ""


def _newest(message: str) -> str:
    """What onnxruntime means if it says that a version is too new; empty if it says something else."""
    for form, what in _NEWEST.items():
        if newest := form.search(message):
            return (
                f"its {what} is {newest['found']}, and the newest that onnxruntime {onnxruntime.__version__} "
                f"reads is {newest['most']}. Install a newer onnxruntime, or export the model with an older "
                "opset"
            )
    return ""


def session_options() -> Any:
    """With them, onnxruntime uses one thread, and what it would log comes with its error alone."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def plain(error: Exception) -> str:
    """What onnxruntime says of an error, without its codes and the places in its source."""
    return _PLACES.sub("", str(error).partition("\n")[0]).strip().rstrip(".")

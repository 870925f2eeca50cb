"""Brains: trained policies as ONNX files that engines run without Lanista."""

import os

# Unless this is set before its import, onnxruntime reports to its maker about each process and model.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

"""Brains: trained policies as ONNX files that engines run without Lanista."""

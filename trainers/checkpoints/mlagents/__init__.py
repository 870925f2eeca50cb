"""Conversion of checkpoints that ML-Agents wrote."""

"""Helpers that do not depend on training."""

"""Environments written in Python: what a name means, how they are made, and how their spaces are read.

Imports nothing, so that settings can check names.
"""

GYMNASIUM = "gymnasium:"
PETTINGZOO = "pettingzoo:"
PYTHON = "python:"
"""The prefixes of names."""


def in_process(path: str | None) -> bool:
    """Whether the environment runs in Python, here or hosted, and is not an executable."""
    return path is not None and path.strip().startswith((GYMNASIUM, PETTINGZOO, PYTHON))

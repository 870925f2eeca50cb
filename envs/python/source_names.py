"""The prefixes of names of Python environments. Imports nothing, so that settings can check names."""

GYMNASIUM = "gymnasium:"
PETTINGZOO = "pettingzoo:"
PYTHON = "python:"


def in_process(path: str | None) -> bool:
    """Whether the environment runs in Python, here or hosted, and is not an executable."""
    return path is not None and path.strip().startswith((GYMNASIUM, PETTINGZOO, PYTHON))

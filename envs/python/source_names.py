"""How the names of environments in Python begin. Loads nothing, so that settings can look at names."""

GYMNASIUM = "gymnasium:"
PETTINGZOO = "pettingzoo:"
PYTHON = "python:"


def in_process(path: str | None) -> bool:
    """Whether the environment is stepped by Python, here or hosted, and not a program of its own."""
    return path is not None and path.strip().startswith((GYMNASIUM, PETTINGZOO, PYTHON))

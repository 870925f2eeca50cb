"""Leaves out, on Windows, the tests that are marked `posix`, each with the reason that it gives."""

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what Windows cannot do: `@pytest.mark.posix("what the test assumes")`."""
    for item in items:
        for mark in item.iter_markers("posix"):
            (assumed,) = mark.args
            if os.name != "posix":
                item.add_marker(pytest.mark.skip(reason=f"assumes a POSIX system: {assumed}"))

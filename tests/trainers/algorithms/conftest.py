"""What the tests of algorithms share."""

import pytest


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread):
    """On a busy machine, several threads would take these small networks ten times as long."""

"""Managers that are closed after the test."""

from contextlib import ExitStack

import pytest
from lanista.envs.manager.manager import EnvManager


@pytest.fixture
def manage():
    """Makes managers, starts them by default, and closes them."""
    with ExitStack() as stack:

        def manage(factory, num_envs=1, *, start=True, **options):
            manager = EnvManager(factory, num_envs, **options)
            stack.callback(manager.close)
            if start:
                manager.start()
            return manager

        yield manage

"""What the trainers' tests share."""

from contextlib import contextmanager

import pytest


@pytest.fixture
def file_size_limit():
    """A context in which the kernel refuses to let any file grow beyond a number of bytes."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited

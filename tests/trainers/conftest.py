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


@pytest.fixture
def one_thread():
    """Networks of a few units: more threads would wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Runs of the line game in `tmp_path`."""
    from line_runs import Runs

    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)

"""How many threads torch computes with."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ACTING_THREADS = 1
"""A few agents' forward pass: more threads would wait for each other longer than they compute."""
MOST_UPDATE_THREADS = 4
"""Chosen by itself, that is: the products of usual minibatches are too small for more."""


@contextmanager
def updating(threads: int) -> Iterator[None]:
    """Within this, torch uses so many threads; behind it, as many as acting takes.

    While a policy is updated its engines wait for it, so that their processors are free.
    """
    if threads == ACTING_THREADS:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(ACTING_THREADS)

"""The number of threads that torch computes with, and how they treat the smallest numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

ACTING_THREADS = 1
"""A few agents' forward pass: more threads would wait for each other longer than they compute."""
MOST_UPDATE_THREADS = 4
"""Unless the user asks for more: the products of usual minibatches are too small for more."""
MAX_PRODUCTS_OF_ONE_THREAD = 32_000_000
"""Products of a minibatch's pass through a network for vectors up to which one thread computes it.

On two processors that were busy otherwise, PPO's gradient step took with two threads 8 times as long as with
one at 1 million products, 1.7 times at 11 million, 1.3 times at 150 million and 1.1 times at 300 million.
With a memory, the products of one step count, after which threads wait for each other. Beside two endless
loops, POCA with sequences of 32 and batches of 512 trained at 2,380 agent-steps a second with one thread and
at 1,400 with two, and PPO with sequences of 64 and batches of 128 at 1,610 and 630; on two idle processors at
4,070 and 4,950, and at 2,420 and 2,620.
"""


@dataclass(frozen=True, slots=True)
class UpdateThreads:
    """The threads that policy updates may use."""

    most: int = ACTING_THREADS
    fixed: bool = False
    """Always `most`. Sums are rounded differently with another number of threads."""

    def choose(self, products: int | None) -> int:
        """The threads of an update: one if its minibatches are small, else `most`.

        While a policy is updated its engines wait for it and their processors are free. But small products
        take longer with several threads, above all on a machine that others use too.

        Args:
            products: of a minibatch's pass through the largest network; None: it reads images or entities.
        """
        is_small = products is not None and products <= MAX_PRODUCTS_OF_ONE_THREAD
        return ACTING_THREADS if is_small and not self.fixed else self.most


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within this context torch has `count` threads; afterwards those of acting."""
    if count == ACTING_THREADS:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(ACTING_THREADS)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Within this context torch takes denormal numbers, those below 1.2e-38, for zeros.

    Adam's moments of a weight whose gradient stays zero, such as that of a tag which no ray ever hits, decay
    to denormals and stay there: 5e-45 times .9 is rounded to 5e-45. On an Intel Xeon a step of Adam took 10
    times as long where all first moments were denormal. For two layers of 256 units, where half of the 200
    inputs were always zero, it took 670 us, and 205 us with denormals flushed; with two threads 540 and 67.
    """
    were_flushed = sys.float_info.min * 0.5 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(were_flushed)

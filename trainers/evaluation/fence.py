"""Keeps what a test draws by chance from what the training draws."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def fenced(seed: int) -> Iterator[None]:
    """Within, the process's common random streams (Python's, NumPy's, torch's) begin at `seed`.

    Behind, they go on as if nothing had been drawn. Games in this process may draw from them.
    """
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.random.set_rng_state(before[2])

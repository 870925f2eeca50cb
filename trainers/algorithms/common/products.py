"""Products of float32 matrices by oneDNN, which on some processors takes half of MKL's time for large ones.

torch offers it under the name of a lower precision: with "bf16" oneDNN may round to bfloat16, which it does
where the processor has products for that. So it is used only where it was seen to keep float32's accuracy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from ...networks.modules.onednn import has_setting, onednn_products

LARGE = 16_000_000
"""Products of a minibatch's pass through a network from which oneDNN multiplies.

On an idle AMD EPYC a gradient step of PPO took with it 46 % less time at 147 million products, 41 % less at
79 million, 12 % less at 10 million and 30 % more at 2.5 million; one of SAC 42 % less at 147 million, 37 %
less at 37 million, 16 % less at 10 million and 2 % more at 5 million; one of POCA, whose members leave, 28 %
less at 360 million.
"""
LARGEST_ERROR = 2e-6
"""Relative, of a product against float64. MKL's is 2e-7, bfloat16's 2e-3."""

logger = logging.getLogger(__name__)


@contextmanager
def large_products(number: int | None, device: torch.device) -> Iterator[None]:
    """Within this context oneDNN multiplies, if that is exact and minibatches are large enough.

    Whether it does depends on torch and the processor, never on a timing, so that runs repeat.

    Args:
        number: of `Algorithm.dense_products`, or None.
        device: of the networks. Only a CPU has a choice.
    """
    if number is None or number < LARGE or device.type != "cpu" or not keeps_float32():
        yield
        return
    with onednn_products():
        yield


@cache
def keeps_float32() -> bool:
    """Whether this torch multiplies by oneDNN if it is told to, as exactly as float32 allows.

    It does not on processors for which oneDNN has no products of bfloat16.
    """
    if not has_setting() or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        logger.debug("Float32 products: torch's default; torch %s offers no other", torch.__version__)
        return False
    usual = _products()
    with onednn_products():
        found = _products()
        error = product_error()
    if all(map(torch.equal, usual, found)):
        logger.debug("Float32 products: torch's default; it knows no other for this processor")
        return False
    kept = error <= LARGEST_ERROR
    library = "oneDNN in updates of large minibatches" if kept else "torch's default"
    logger.debug("Float32 products: %s; oneDNN's relative error is %.1e", library, error)
    return kept


def product_error() -> float:
    """The largest relative error of products as in a dense layer's two passes, as torch is set."""
    exact = (torch.matmul(a.double(), b.double()) for a, b in _factors())
    return max(float((p - e).norm() / e.norm()) for p, e in zip(_products(), exact, strict=True))


def _products() -> list[Tensor]:
    return [torch.matmul(a, b) for a, b in _factors()]


def _factors() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    inputs, weight = (torch.randn(2, n, 256, generator=generator) for n in (1024, 256))
    return [
        (inputs[0], weight[0]),
        (inputs[0].t(), inputs[1]),
        (inputs[0, :, :64], weight[0, :64]),
        (inputs, weight),
    ]

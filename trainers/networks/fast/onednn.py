"""Products of matrices by oneDNN, which builds a kernel for each of their shapes and keeps it.

They compute what torch's default library does, as exactly as float32 allows: `large_products` says when. On
some processors oneDNN takes half of MKL's time, if the matrices are large and their shapes few. torch
offers it under the name of a lower precision: with "bf16" oneDNN may round to bfloat16, which it does where
the processor has products for that. So it is used only where it was seen to keep float32's accuracy. It
also multiplies bfloat16, with `Precision.BF16`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SHAPE_MULTIPLE = 128
"""Numbers of rows that vary are rounded up to multiples of this: a kernel takes longer to build than the
product, and most of a mebibyte. POCA, whose members leave, was as fast with 32 and 64, and took 85 and 30
MiB more."""
MIN_PRODUCTS = 16_000_000
"""Products of a minibatch's pass through a network from which oneDNN multiplies.

On an idle AMD EPYC a gradient step of PPO took with it 46 % less time at 147 million products, 41 % less at
79 million, 12 % less at 10 million and 30 % more at 2.5 million; one of SAC 42 % less at 147 million, 37 %
less at 37 million, 16 % less at 10 million and 2 % more at 5 million; one of POCA, whose members leave, 28 %
less at 360 million.
"""
LARGEST_ERROR = 2e-6
"""Relative, of a product against float64. MKL's is 2e-7, bfloat16's 2e-3."""
_ONEDNN, _TORCH = "bf16", "ieee"
"""The values of torch's setting by which oneDNN multiplies float32 matrices, and torch's own library."""
_here = threading.local()
logger = logging.getLogger(__name__)


def has_setting() -> bool:
    """Whether this torch can be told to multiply by oneDNN."""
    return hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision")


@contextmanager
def _precision(value: str, by_onednn: bool) -> Iterator[None]:
    # The setting is global: products of other threads may run by it, but only this thread changes it.
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision, uses_onednn()
    matmul.fp32_precision, _here.by_onednn = value, by_onednn
    try:
        yield
    finally:
        matmul.fp32_precision, _here.by_onednn = before


def onednn_products() -> AbstractContextManager[None]:
    """The context in which this thread multiplies float32 matrices by oneDNN, if `has_setting`."""
    return _precision(_ONEDNN, True)


def torch_products() -> AbstractContextManager[None]:
    """Back to torch's own library, which multiplies two vectors in a tenth of the time."""
    return _precision(_TORCH, False) if uses_onednn() else nullcontext()


def uses_onednn() -> bool:
    """Whether this thread multiplies float32 matrices by oneDNN now."""
    return getattr(_here, "by_onednn", False)


def shape_multiple(device: torch.device) -> int:
    """What varying numbers of rows should be multiples of in the current pass; 1 if any number is as good."""
    keeps_kernels = device.type == "cpu" and (torch.is_autocast_enabled("cpu") or uses_onednn())
    return SHAPE_MULTIPLE if keeps_kernels else 1


def pad_rows(rows: Tensor) -> Tensor:
    """Rows [n, size] followed by rows of zeros, up to the next multiple of `shape_multiple`."""
    missing = -len(rows) % shape_multiple(rows.device)
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def small_matmul(a: Tensor, b: Tensor, plus: Tensor | None = None) -> Tensor:
    """`plus + a @ b` of many small matrices, [..., n, k] and [..., k, m]; [G, n, m] if there is a `plus`.

    Where oneDNN multiplies, torch's own library computes these, in float32: their shapes vary, so that oneDNN
    would keep a kernel for each, and it is no faster.
    """
    if shape_multiple(a.device) > 1:
        with torch.autocast(a.device.type, enabled=False):
            wide = None if plus is None else plus.float()
            product: Tensor = _TorchProduct.apply(a.float(), b.float(), wide)  # type: ignore[no-untyped-call]
        return product
    return torch.matmul(a, b) if plus is None else torch.baddbmm(plus, a, b)


class _TorchProduct(torch.autograd.Function):
    """`plus + a @ b` of float32 matrices and its gradient by torch's own library."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, plus: Tensor | None) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.has_addend = plus is not None
        return _by_torch(a, b, plus)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:  # type: ignore[override]
        a, b = ctx.saved_tensors
        d_a, d_b = _by_torch(gradient, b.mT), _by_torch(a.mT, gradient)
        return d_a, d_b, gradient if ctx.has_addend else None


def _by_torch(a: Tensor, b: Tensor, plus: Tensor | None = None) -> Tensor:
    with torch.autocast(a.device.type, enabled=False), torch_products():
        return torch.matmul(a, b) if plus is None else torch.baddbmm(plus, a, b)


@contextmanager
def large_products(number: int | None, device: torch.device) -> Iterator[None]:
    """Within this context oneDNN multiplies, if that is exact and minibatches are large enough.

    Whether it does depends on torch and the processor, never on a timing, so that runs repeat.

    Args:
        number: of `Algorithm.dense_products`, or None.
        device: of the networks. Only a CPU has a choice.
    """
    if number is None or number < MIN_PRODUCTS or device.type != "cpu" or not keeps_float32():
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
        by_onednn = _products()
        error = product_error()
    if all(map(torch.equal, usual, by_onednn)):
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

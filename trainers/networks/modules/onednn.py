"""Products of matrices by oneDNN, which builds a kernel for each of their shapes and keeps it.

It multiplies bfloat16, and float32 within `large_products` of the algorithms: at twice the speed of torch's
own library on some processors, if the matrices are large and their shapes few.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SHAPE_MULTIPLE = 128
"""Numbers of rows that vary are rounded up to multiples of this: a kernel takes longer to build than the
product, and most of a mebibyte. POCA, whose members leave, was as fast with 32 and 64, and took 85 and 30
MiB more."""
_ONEDNN, _TORCH = "bf16", "ieee"
"""The values of torch's setting by which oneDNN multiplies float32 matrices, and torch's own library."""
_here = threading.local()


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
        of_a, of_b = _by_torch(gradient, b.mT), _by_torch(a.mT, gradient)
        return of_a, of_b, gradient if ctx.has_addend else None


def _by_torch(a: Tensor, b: Tensor, plus: Tensor | None = None) -> Tensor:
    with torch.autocast(a.device.type, enabled=False), torch_products():
        return torch.matmul(a, b) if plus is None else torch.baddbmm(plus, a, b)

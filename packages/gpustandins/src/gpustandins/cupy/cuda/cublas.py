"""``cupy.cuda.cublas``: matrix products with cuBLAS's interface, computed by NumPy.

Matrices are column-major, with ``ld`` elements from one column to the next. `alpha` and `beta` are
addresses: in host memory, or in device memory after ``setPointerMode(handle,
CUBLAS_POINTER_MODE_DEVICE)``. Each array that a call reads or writes must lie in one allocation;
otherwise VirtualGPUError is raised. ``cupy.matmul`` does the same for arrays.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._at_address import array_at, used
from ._machine import new_handle, owner

CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C = 0, 1, 2
CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE = 0, 1
CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_INVALID_VALUE = 1, 7

_STATUS = {
    CUBLAS_STATUS_NOT_INITIALIZED: "CUBLAS_STATUS_NOT_INITIALIZED",
    CUBLAS_STATUS_INVALID_VALUE: "CUBLAS_STATUS_INVALID_VALUE",
}
_TYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_modes: dict[int, int] = {}  # handle → pointer mode of alpha and beta


class CUBLASError(RuntimeError):
    """Error for a call that cuBLAS refuses; ``status`` is the error number."""

    def __init__(self, status: int, why: str = "") -> None:
        self.status = status
        super().__init__(_STATUS[status] + (f": {why}" if why else ""))


def create() -> int:
    """Return a new handle."""
    handle = new_handle()
    _modes[handle] = CUBLAS_POINTER_MODE_HOST
    return handle


def destroy(handle: int) -> None:
    """Release a handle."""
    getPointerMode(handle)
    del _modes[handle]


def getPointerMode(handle: int) -> int:
    """Return the pointer mode of `alpha` and `beta`. Raises CUBLASError for an invalid handle."""
    if handle not in _modes:
        raise CUBLASError(
            CUBLAS_STATUS_NOT_INITIALIZED,
            f"{handle} is not a handle: use cupy.cuda.device.get_cublas_handle()",
        )
    return _modes[handle]


def setPointerMode(handle: int, mode: int) -> None:
    """Read `alpha` and `beta` from the host (0) or the device (1) in later calls."""
    getPointerMode(handle)
    if mode not in (CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE):
        raise CUBLASError(CUBLAS_STATUS_INVALID_VALUE, f"pointer mode {mode} is neither 0 nor 1")
    _modes[handle] = mode


def _gemm(
    kind: str, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    A: int, lda: int, B: int, ldb: int, beta: int, C: int, ldc: int,
) -> None:  # fmt: skip
    """Compute C ← alpha · op(A) · op(B) + beta · C; op(A) has `m` rows, op(B) `n` columns."""
    _batched(kind, "gemm", handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta,
             C, ldc, 0, 1)  # fmt: skip


def _gemmStridedBatched(
    kind: str, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    A: int, lda: int, strideA: int, B: int, ldb: int, strideB: int, beta: int, C: int, ldc: int,
    strideC: int, batchCount: int,
) -> None:  # fmt: skip
    """Multiply `batchCount` pairs of matrices, with `strideA`, … elements between them."""
    _batched(kind, "gemmStridedBatched", handle, transa, transb, m, n, k, alpha, A, lda, strideA,
             B, ldb, strideB, beta, C, ldc, strideC, batchCount)  # fmt: skip


def _gemv(
    kind: str, handle: int, trans: int, m: int, n: int, alpha: int, A: int, lda: int, x: int,
    incx: int, beta: int, y: int, incy: int,
) -> None:  # fmt: skip
    """Compute y ← alpha · op(A) · x + beta · y, with A of `m` rows and `n` columns."""
    if incx < 1 or incy < 1:
        raise CUBLASError(
            CUBLAS_STATUS_INVALID_VALUE, "the stand-in does not support incx and incy below 1"
        )
    rows, columns = (m, n) if trans == CUBLAS_OP_N else (n, m)
    a = _matrices(kind, "lda", A, trans, rows, columns, lda, 0, 1)
    vector = array_at(x, (1, columns, 1), _TYPES[kind], (0, incx, 0))
    into = array_at(y, (1, rows, 1), _TYPES[kind], (0, incy, 0))
    _multiply(kind, "gemv", handle, alpha, a, vector._host, beta, into)


def _batched(
    kind, name, handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C,
    ldc, strideC, batch,
) -> None:  # fmt: skip
    a = _matrices(kind, "lda", A, transa, m, k, lda, strideA, batch)
    b = _matrices(kind, "ldb", B, transb, k, n, ldb, strideB, batch)
    _columns_fit("ldc", ldc, m)
    into = array_at(C, (batch, m, n), _TYPES[kind], (strideC, 1, ldc))
    _multiply(kind, name, handle, alpha, a, b, beta, into)


def _matrices(
    kind: str, name: str, address: int, op: int, rows: int, columns: int, ld: int, stride: int,
    batch: int,
) -> np.ndarray:  # fmt: skip
    """Return a host view of op(A) with shape (batch, `rows`, `columns`)."""
    if op not in (CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C):
        raise CUBLASError(
            CUBLAS_STATUS_INVALID_VALUE, f"operation {op} is not one of N (0), T (1) and C (2)"
        )
    high, wide = (rows, columns) if op == CUBLAS_OP_N else (columns, rows)
    _columns_fit(name, ld, high)
    host = array_at(address, (batch, high, wide), _TYPES[kind], (stride, 1, ld))._host
    turned = host if op == CUBLAS_OP_N else host.swapaxes(1, 2)
    return turned.conj() if op == CUBLAS_OP_C else turned


def _columns_fit(name: str, ld: int, rows: int) -> None:
    if ld < max(1, rows):
        raise CUBLASError(
            CUBLAS_STATUS_INVALID_VALUE,
            f"{name} = {ld} is less than a column's {rows} rows: matrices are column-major",
        )


def _multiply(kind, name, handle, alpha, a, b, beta, into) -> None:
    factor, kept = (
        _scalar(kind, handle, one, at) for one, at in (("alpha", alpha), ("beta", beta))
    )
    with np.errstate(all="ignore"):
        made = factor * (a @ b)
        # If beta is 0, the old values are not read, so a NaN in them does not remain.
        into._host[...] = made + kept * into._host if kept else made
    used(f"cublas.{kind}{name}", into)


def _scalar(kind: str, handle: int, name: str, address: int) -> Any:
    """Read `alpha` or `beta` from host or device memory, depending on the pointer mode."""
    on_device = getPointerMode(handle) == CUBLAS_POINTER_MODE_DEVICE
    address = int(address)
    if on_device:
        return array_at(address, (1,), _TYPES[kind])._host[0]
    if address < 4096 or owner(address).extent(address) is not None:  # a number or a device address
        raise CUBLASError(
            CUBLAS_STATUS_INVALID_VALUE,
            f"{name} must be an address of the host's memory (numpy.array(1.0).ctypes.data), but "
            f"{address:#x} is not; call setPointerMode(handle, 1) to pass device addresses",
        )
    dtype = np.dtype(_TYPES[kind])
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0]


_FUNCTIONS: dict[str, Callable[..., None]] = {}
for _kind, _general in itertools.product(_TYPES, (_gemm, _gemmStridedBatched, _gemv)):
    _made = functools.partial(_general, _kind)
    _made.__doc__ = _general.__doc__
    _FUNCTIONS[f"{_kind}{_general.__name__[1:]}"] = _made
globals().update(_FUNCTIONS)

__all__ = [
    "CUBLAS_OP_C", "CUBLAS_OP_N", "CUBLAS_OP_T", "CUBLAS_POINTER_MODE_DEVICE",
    "CUBLAS_POINTER_MODE_HOST", "CUBLASError", *_FUNCTIONS, "create", "destroy", "getPointerMode",
    "setPointerMode",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from .._missing import missing

    raise missing(__name__, name, "cupy.matmul and cupy.linalg, or cublas's gemm and gemv")

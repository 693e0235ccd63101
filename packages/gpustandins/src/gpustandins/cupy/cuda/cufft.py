"""``cupy.cuda.cufft``: plans for batches of unscaled transforms, computed by NumPy.

``with plan:`` makes a plan current. As in CuPy, ``cupy.fft`` and ``cupyx.scipy.fft`` then refuse
transforms for which the plan was not made. ``cupyx.scipy.fft.get_fft_plan`` returns the plan for
an array.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._pool import get_allocator

CUFFT_C2C, CUFFT_R2C, CUFFT_C2R = 0x29, 0x2A, 0x2C
CUFFT_Z2Z, CUFFT_D2Z, CUFFT_Z2D = 0x69, 0x6A, 0x6C
CUFFT_FORWARD, CUFFT_INVERSE = -1, 1

# Input and output types, by the kind of plan.
_TYPES = {
    CUFFT_C2C: ("complex64", "complex64"),
    CUFFT_R2C: ("float32", "complex64"),
    CUFFT_C2R: ("complex64", "float32"),
    CUFFT_Z2Z: ("complex128", "complex128"),
    CUFFT_D2Z: ("float64", "complex128"),
    CUFFT_Z2D: ("complex128", "float64"),
}

__all__ = [
    "CUFFT_C2C", "CUFFT_C2R", "CUFFT_D2Z", "CUFFT_FORWARD", "CUFFT_INVERSE", "CUFFT_R2C",
    "CUFFT_Z2D", "CUFFT_Z2Z", "CuFFTError", "Plan1d", "PlanNd", "get_current_plan",
]  # fmt: skip

_current = threading.local()


def get_current_plan() -> Plan1d | PlanNd | None:
    """Return the plan of this thread's innermost ``with plan:``."""
    plans = getattr(_current, "plans", ())
    return plans[-1] if plans else None


class CuFFTError(RuntimeError):
    """Error class of cuFFT, never raised here because NumPy accepts all of its cases."""


class _Plan:
    """Base class of plans with one axis and with several.

    Attributes
    ----------
    work_area : MemoryPointer
        Empty, because NumPy needs no device memory. In cuFFT it is often as large as the data.
    """

    def __init__(self, fft_type: int, batch: int) -> None:
        if fft_type not in _TYPES:
            raise ValueError(f"fft_type {fft_type} is not one of cufft's (CUFFT_C2C, CUFFT_Z2Z, …)")
        self.fft_type, self.batch, self.gpus = fft_type, int(batch), None
        self.work_area = get_allocator()(0)

    def __enter__(self):
        _current.plans = [*getattr(_current, "plans", ()), self]
        return self

    def __exit__(self, *error) -> None:
        _current.plans.pop()

    def _halved(self) -> tuple[bool, bool]:
        """Return two flags: the last axis is halved in the input, and in the output.

        It is halved in the complex array if the other array is real.
        """
        taken, given = (kind.startswith("complex") for kind in _TYPES[self.fft_type])
        return taken and not given, given and not taken

    def _transform(
        self, rows: np.ndarray, sizes: Sequence[int], axes: Sequence[int], direction: int
    ):
        """Transform `rows` over `axes` with NumPy."""
        given, taken = self._halved()
        if taken:
            return np.fft.rfftn(rows, axes=axes)
        if given:
            return np.fft.irfftn(rows, sizes, axes, norm="forward")
        if direction == CUFFT_FORWARD:
            return np.fft.fftn(rows, axes=axes)
        return np.fft.ifftn(rows, axes=axes, norm="forward")

    def _flat(self, array: Any, which: int, name: str, size: int) -> np.ndarray:
        """Return the elements of `array` in memory order."""
        dtype = _TYPES[self.fft_type][which]
        if array.dtype != dtype:
            raise TypeError(f"this plan needs {name} of dtype {dtype}, not {array.dtype}")
        if not array.flags.forc or array.size < size:
            raise ValueError(f"this plan needs {name} with {size:,} contiguous numbers")
        ordered = array._host if array.flags.c_contiguous else array._host.T
        return ordered.reshape(-1)


class Plan1d(_Plan):
    """``batch`` unscaled transforms of length ``nx``, contiguous in memory.

    CuPy's arguments ``devices`` and ``out``, for several GPUs, are refused.
    """

    def __init__(self, nx: int, fft_type: int, batch: int, *, devices=None, out=None) -> None:
        if devices is not None:
            raise NotImplementedError("CuPy's stand-in does not support a plan for several GPUs")
        super().__init__(fft_type, batch)
        self.nx = int(nx)

    def get_output_array(self, a):
        """Return an array for the results, with the shape of ``a`` except for the last axis."""
        cupy = importlib.import_module("cupy")
        return cupy.empty((*a.shape[:-1], self._lengths()[1]), _TYPES[self.fft_type][1])

    def fft(self, a, out, direction: int) -> None:
        """Transform ``a`` into ``out``; ``direction`` matters if both are complex."""
        taken, given = self._lengths()
        rows = self._flat(a, 0, "a", self.batch * taken)[: self.batch * taken]
        into = self._flat(out, 1, "out", self.batch * given)
        done = self._transform(rows.reshape(self.batch, taken), (self.nx,), (1,), direction)
        into[: self.batch * given] = done.reshape(-1)
        _used(out)

    def _lengths(self) -> tuple[int, int]:
        """Return the lengths of the input and output of one transform."""
        return tuple(self.nx // 2 + 1 if half else self.nx for half in self._halved())


class PlanNd(_Plan):
    """``batch`` unscaled transforms over several axes.

    Parameters
    ----------
    shape : tuple of int
        The lengths of the axes in memory order; the last one varies fastest.
    inembed, istride, idist, onembed, ostride, odist
        The memory layout, as for ``cufftPlanMany``: the lengths of the axes in memory, and the
        distances between neighbouring elements and between transforms. With ``inembed=None`` the
        data is contiguous.
    fft_type, batch : int
    order : 'C' or 'F'
        The memory order of the array for which the plan is made.
    last_axis, last_size : int
        The axis that a real transform halves, and its full length.
    """

    def __init__(
        self, shape, inembed, istride, idist, onembed, ostride, odist, fft_type, batch, order,
        last_axis, last_size,
    ) -> None:  # fmt: skip
        super().__init__(fft_type, batch)
        self.shape = tuple(map(int, shape))
        self.order, self.last_axis, self.last_size = order, last_axis, last_size
        self._places = [
            self._layout(half, *layout)
            for half, layout in zip(
                self._halved(),
                ((inembed, istride, idist), (onembed, ostride, odist)),
                strict=True,
            )
        ]

    def fft(self, a, out, direction: int) -> None:
        """Transform ``a`` into ``out``; ``direction`` matters if both are complex."""
        rows, into = (
            self._rows(array, which, name)
            for which, (name, array) in enumerate((("a", a), ("out", out)))
        )
        axes = range(1, len(self.shape) + 1)
        into[...] = self._transform(rows, self.shape, axes, direction)
        _used(out)

    def _layout(self, half: bool, embed, stride: int, dist: int):
        """Return the lengths and strides, in elements, of the batch axis and the other axes."""
        lengths = (*self.shape[:-1], self.shape[-1] // 2 + 1 if half else self.shape[-1])
        if embed is None:
            embed, stride, dist = lengths, 1, math.prod(lengths)
        steps = [stride * math.prod(embed[axis + 1 :]) for axis in range(len(lengths))]
        return (self.batch, *lengths), (dist, *steps)

    def _rows(self, array: Any, which: int, name: str) -> np.ndarray:
        lengths, steps = self._places[which]
        last = sum((n - 1) * step for n, step in zip(lengths, steps, strict=True))
        flat = self._flat(array, which, name, 1 + last)
        return np.lib.stride_tricks.as_strided(
            flat, lengths, [step * flat.itemsize for step in steps]
        )


def _used(out: Any) -> None:
    importlib.import_module("cupy.cuda._at_address").used("cufft", out)


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, "Plan1d, PlanNd, or cupy.fft")

"""``cupy.cuda.cufft``: a plan for many transforms of one length, done by NumPy's."""

from __future__ import annotations

import importlib

CUFFT_C2C, CUFFT_R2C, CUFFT_C2R = 0x29, 0x2A, 0x2C
CUFFT_Z2Z, CUFFT_D2Z, CUFFT_Z2D = 0x69, 0x6A, 0x6C
CUFFT_FORWARD, CUFFT_INVERSE = -1, 1

# What goes in and what comes out, by the kind of a plan.
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
    "CUFFT_Z2D", "CUFFT_Z2Z", "Plan1d",
]  # fmt: skip


class Plan1d:
    """``batch`` transforms of length ``nx``, one after the other in memory; none is scaled.

    ``devices`` and ``out`` of CuPy's, for several GPUs, are refused.
    """

    def __init__(self, nx: int, fft_type: int, batch: int, *, devices=None, out=None) -> None:
        if fft_type not in _TYPES:
            raise ValueError(f"fft_type {fft_type} is none of cufft's: CUFFT_C2C, CUFFT_Z2Z, …")
        if devices is not None:
            raise NotImplementedError("a plan over several GPUs is not in CuPy's stand-in")
        self.nx, self.fft_type, self.batch = int(nx), fft_type, int(batch)
        self.gpus = None

    def __enter__(self) -> Plan1d:
        return self

    def __exit__(self, *error) -> None:
        pass

    def get_output_array(self, a):
        """An array for the results: of ``a``'s shape, with the last axis as long as they are."""
        cupy = importlib.import_module("cupy")
        return cupy.empty((*a.shape[:-1], self._lengths()[1]), _TYPES[self.fft_type][1])

    def fft(self, a, out, direction: int) -> None:
        """Transform ``a`` into ``out``; ``direction`` counts where both are complex."""
        fft = importlib.import_module("cupy").fft
        taken, given = self._lengths()
        types = _TYPES[self.fft_type]
        rows = _flat(a, types[0], "a", self.batch * taken).reshape(self.batch, taken)
        into = _flat(out, types[1], "out", self.batch * given)
        if types[0].startswith("float"):
            done = fft.rfft(rows)
        elif types[1].startswith("float"):
            done = fft.irfft(rows, self.nx, norm="forward")
        else:
            done = fft.fft(rows) if direction == CUFFT_FORWARD else fft.ifft(rows, norm="forward")
        into[...] = done.reshape(-1)

    def _lengths(self) -> tuple[int, int]:
        """How many numbers one transform takes and gives."""
        half = self.nx // 2 + 1
        taken, given = (kind.startswith("complex") for kind in _TYPES[self.fft_type])
        whole = taken and given
        return (half if taken and not whole else self.nx, half if given and not whole else self.nx)


def _flat(array, dtype: str, name: str, size: int):
    """The numbers of ``array`` in the order in which they lie in memory."""
    if array.dtype != dtype:
        raise TypeError(f"this plan's {name} is of {dtype}, not {array.dtype}")
    if not array.flags.forc or array.size < size:
        raise ValueError(f"this plan's {name} is {size:,} numbers side by side in memory")
    ordered = array if array.flags.c_contiguous else array.T
    return ordered.reshape(-1)[:size]


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, "Plan1d, or cupy.fft")

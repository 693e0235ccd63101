"""Transfers of an array to the host: copies, single elements and text."""

from __future__ import annotations

import pickle
import warnings
from contextlib import nullcontext

import numpy as np

from virtualgpu.standins.interface import queues

from ..cuda.memory import stream_number
from .operators import named


class HostSide:
    """Mixin of ``ndarray`` with the transfers to the host."""

    __slots__ = ()

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def get(self, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
        """Return a copy on the host.

        Parameters
        ----------
        stream, blocking
            The copy has finished when this method returns. ``virtualgpu.check(streams=True)``
            reports code that must not rely on this on a GPU.
        order : 'C', 'F' or 'A'
        out : numpy.ndarray, optional
            An array of the same shape and dtype, which is written and returned.
        """
        if out is None:
            if order.upper() not in ("C", "F", "A"):
                raise ValueError(f"unsupported order: {order}")
            out = np.empty_like(self._host, order=order, subok=False)
        elif not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained fromcupy.ndarray")
        if out.dtype != self.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if out.shape != self.shape:
            raise ValueError(
                f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}"
            )
        if not (out.flags.c_contiguous or out.flags.f_contiguous):
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")
        queue = stream_number(stream)
        # Stream checkers are not told of a view with gaps, since they cannot know which bytes are
        # read.
        known = self.size and self.flags.forc and out.flags.forc
        with queues.copying_from(queue, self.data.ptr, out, blocking) if (known) else nullcontext():
            np.ndarray.view(out, np.ndarray)[...] = self._host
        return out

    def item(self):
        """Return the only element as a Python number."""
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._host.item()

    def tolist(self):
        return self._host.tolist()

    def tobytes(self, order="C") -> bytes:
        return self._host.tobytes(order)

    def tofile(self, fid, sep="", format="%s") -> None:
        self._host.tofile(fid, sep, format)

    def dump(self, file) -> None:
        """Pickle the array to an open binary file."""
        pickle.dump(self, file, -1)

    def dumps(self) -> bytes:
        return pickle.dumps(self, -1)

    def __reduce__(self):
        return named("array"), (self.get(order="A"),)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __bool__(self) -> bool:
        if self.size == 0:
            warnings.warn(
                "The truth value of an empty array is ambiguous. Returning False, but in future "
                "this will result in an error. Use `array.size > 0` to check that an array is "
                "not empty.",
                DeprecationWarning,
                stacklevel=2,
            )
            return False
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is "
                "ambiguous. Use a.any() or a.all()"
            )
        return bool(self._host.reshape(())[()])

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __bytes__(self) -> bytes:
        return bytes(self._host)

    def __len__(self) -> int:
        if self._host.ndim == 0:
            raise TypeError("len() of unsized object")
        return self._host.shape[0]

    def __iter__(self):
        if self._host.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._host.shape[0]))

    def __repr__(self) -> str:
        return repr(self._host)

    def __str__(self) -> str:
        return str(self._host)

    def __format__(self, format_spec: str) -> str:
        return format(self._host, format_spec)

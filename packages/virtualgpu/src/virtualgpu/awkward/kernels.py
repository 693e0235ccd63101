"""Awkward Arrays as arguments of Numba CUDA kernels: parameter layout and a fix for iteration.

**Iteration**, with and without a GPU. numba-cuda accepts an implementation of a third-party
library only if its module is outside Numba, but Numba's decorator ``iternext_impl`` sets its own
module name on Awkward's implementation. So ``for x in event`` and ``enumerate(event)`` fail with
"No definition for lowering iternext" until the module name is corrected (seen with awkward 2.8 to
2.14, numba-cuda 0.30).

**Parameters**, for kernels that are not launched with ``extensions=[ak.numba.cuda]``. These are
kernels that run on the virtual GPU beside a real one (:mod:`virtualgpu.numba.beside_gpu`), and
kernels of another process. An array has the parameters that
``awkward._connect.numba.arrayview_cuda`` creates: position, start, stop, the address of a table of
addresses, and a null pointer where the CPU version has a Python object.

This module never imports Awkward: a program with an Awkward Array has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from virtualgpu.after_import import after_import, forget

#: Number of parameters that one array becomes, 64 bits each.
PARAMETERS = 5

_VIEWS = "awkward._connect.numba.arrayview"


def mend_iteration() -> None:
    """Make ``for x in array`` compile in CUDA kernels, from the first compilation on."""
    after_import(_VIEWS, _mend_iteration)


def stop_waiting() -> None:
    """Stop waiting for the import of Awkward; a correction already made stays."""
    forget(_VIEWS)


def _mend_iteration(views: ModuleType) -> None:
    views.lower_iternext.__module__ = views.__name__


def is_awkward(value: object) -> bool:
    """Return True for an Awkward Array; False if Awkward was never imported."""
    awkward = sys.modules.get("awkward")
    return awkward is not None and isinstance(value, awkward.Array)


def to_device(value: Any) -> Any:
    """Copy an Awkward Array to Awkward's CUDA backend; return any other ``value`` as it is."""
    return sys.modules["awkward"].to_backend(value, "cuda") if is_awkward(value) else value


def as_argument(value: Any, store: Callable[[np.ndarray], int]) -> tuple[Any, list[bytes]]:
    """Return Numba's type of an Awkward Array and its parameters: see :func:`parameters`."""
    host = sys.modules["awkward"].to_backend(value, "cpu")
    return host.numba_type, parameters(host, store)


def parameters(array: Any, store: Callable[[np.ndarray], int]) -> list[bytes]:
    """Return a kernel's parameters for ``array``, an Awkward Array on the CPU.

    ``store(values)`` copies an array to device memory and returns its address. Buffers that
    overlap on the host overlap on the device too. For example, the starts and the stops of lists
    are two overlapping parts of one array.
    """
    array.numba_type  # noqa: B018  makes the view
    view = array._numbaview
    table = _on_device(view.lookup.positions, store)
    numbers = (view.pos, view.start, view.stop, store(table), 0)
    return [int(number).to_bytes(8, "little", signed=True) for number in numbers]


def _on_device(positions: list, store: Callable[[np.ndarray], int]) -> np.ndarray:
    """Return Awkward's int64 table, with its buffers replaced by their device addresses."""
    table = np.zeros(len(positions), np.int64)
    buffers = []
    for place, entry in enumerate(positions):
        if isinstance(entry, int):
            table[place] = entry
        elif len(entry):
            raw = np.ascontiguousarray(entry)
            buffers.append((raw.ctypes.data, place, raw))
    buffers.sort(key=lambda buffer: buffer[:2])
    while buffers:
        # Copy all buffers that overlap with the first as one block of memory.
        begin, _, raw = buffers[0]
        end, together = begin + raw.nbytes, 0
        while together < len(buffers) and buffers[together][0] < end:
            address, _, raw = buffers[together]
            end, together = max(end, address + raw.nbytes), together + 1
        piece = np.empty(end - begin, np.uint8)
        for address, _, raw in buffers[:together]:
            at = address - begin
            piece[at : at + raw.nbytes] = raw.reshape(-1).view(np.uint8)
        device = store(piece)
        for address, place, _ in buffers[:together]:
            table[place] = device + address - begin
        del buffers[:together]
    return table

"""Awkward Arrays as arguments of Numba CUDA kernels: parameter layout and a fix for iteration.

**Iteration**, with and without a GPU. numba-cuda takes only those registrations of a third library
whose implementation says that it comes from outside Numba, and Numba's decorator ``iternext_impl``
stamps its own name on Awkward's. So ``for x in event`` and ``enumerate(event)`` fail with "No
definition for lowering iternext" until the name is put right (seen with awkward 2.8 to 2.14,
numba-cuda 0.30).

**Parameters**, for kernels that are not launched by ``extensions=[ak.numba.cuda]``: those on the
virtual GPU beside a real one (:mod:`virtualgpu.numba.beside_gpu`), and those of another process.
They are what ``awkward._connect.numba.arrayview_cuda`` makes: position, start, stop, the address of
a table of addresses, and a null pointer where the CPU has a Python object.

Awkward is imported when the first such array is met: most programs have none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from virtualgpu.after_import import after_import, forget

#: Parameters that one array becomes, 64 bits each.
PARAMETERS = 5

_VIEWS = "awkward._connect.numba.arrayview"


def mend_iteration() -> None:
    """Have ``for x in array`` compile in CUDA kernels from the first compilation on."""
    after_import(_VIEWS, _mend_iteration)


def stop_waiting() -> None:
    """Leave Awkward alone if it is not imported yet; a change that was made stays."""
    forget(_VIEWS)


def _mend_iteration(views: ModuleType) -> None:
    views.lower_iternext.__module__ = views.__name__


def is_awkward(value: object) -> bool:
    """Return True for an Awkward Array; False where Awkward was never imported."""
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

    ``store(values)`` puts an array into device memory and returns its address. Buffers that overlap
    on the host (the starts and the stops of lists are one array, read at two places) overlap there.
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
        # All that overlap with the first, as one piece of memory.
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

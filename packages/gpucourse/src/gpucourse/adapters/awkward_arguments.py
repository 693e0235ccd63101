"""Awkward Arrays as arguments: of kernels, as Awkward's own CUDA backend passes them, and of calls.

The worker is told a kernel's type as an Awkward *form*, which is JSON and says how an array is laid
out, without a number of its content. The oracle puts the buffers on its device and builds the
kernel's parameters itself, as ``awkward._connect.numba.arrayview_cuda`` does: position, start,
stop, the address of a table of addresses, and a null pointer where the CPU has a Python object
(awkward 2.8 to 2.14). A host function gets the form and the buffers, and an array on the CPU.

Awkward is imported when the first such array is met: most projects have none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# Parameters that one array becomes, 64 bits each.
PARAMETERS = 5
EXTENSIONS = (
    "the kernel '{name}' is given an Awkward Array, which Numba knows only by an extension: "
    "decorate it with @cuda.jit(extensions=[ak.numba.cuda])"
)


def is_awkward(value: object) -> bool:
    """Whether `value` is an Awkward Array; false where Awkward was never imported."""
    awkward = sys.modules.get("awkward")
    return awkward is not None and isinstance(value, awkward.Array)


def describe_form(array: Any) -> dict:
    """The form of `array` as JSON has it."""
    return array.layout.form.to_dict(verbose=False)


def numba_type(form: dict) -> Any:
    """Numba's type of an array with the form that :func:`describe_form` gave."""
    import awkward as ak

    return ak.Array(ak.forms.from_dict(form).length_zero_array(highlevel=False)).numba_type


def parameters(array: Any, store: Callable[[np.ndarray], int]) -> list[bytes]:
    """What a kernel gets for `array`, an Awkward Array on the CPU.

    `store(values)` puts an array into device memory and returns its address. Buffers that overlap
    on the host (the starts and the stops of lists are one array, read at two places) overlap there.
    """
    array.numba_type  # noqa: B018  makes the view
    view = array._numbaview
    table = _on_device(view.lookup.positions, store)
    numbers = (view.pos, view.start, view.stop, store(table), 0)
    return [int(number).to_bytes(8, "little", signed=True) for number in numbers]


def _on_device(positions: list, store: Callable[[np.ndarray], int]) -> np.ndarray:
    """Awkward's table of numbers and buffers, with the buffers on the device: int64."""
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


def to_device(value: Any) -> Any:
    """`value`, an Awkward Array on Awkward's CUDA backend; anything else as it is."""
    if not is_awkward(value):
        return value
    import awkward as ak

    return ak.to_backend(value, "cuda")


def take_apart(array: Any) -> tuple[dict, dict[str, np.ndarray]]:
    """`array` for the wire: what JSON can say of it, and its buffers by name."""
    import awkward as ak

    form, length, buffers = ak.to_buffers(ak.to_packed(array))
    return {"form": form.to_dict(verbose=False), "length": length}, buffers


def put_together(described: dict, buffers: dict[str, np.ndarray]) -> Any:
    """The array that :func:`take_apart` took apart. For the worker alone: buffers are trusted."""
    import awkward as ak

    return ak.from_buffers(ak.forms.from_dict(described["form"]), described["length"], buffers)


def without_awkward(value: Any) -> Any:
    """`value` with Awkward Arrays as NumPy arrays, in lists, tuples and dicts too.

    Raises ValueError for lists of different lengths and for missing values.
    """
    if is_awkward(value):
        return np.asarray(value)
    if type(value) in (list, tuple):
        return type(value)(map(without_awkward, value))
    if type(value) is dict:
        return {key: without_awkward(item) for key, item in value.items()}
    return value

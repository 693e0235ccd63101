"""Awkward Arrays between oracle and worker, as arguments of kernels and calls.

The worker receives a kernel argument's type as an Awkward *form*, which is JSON that describes the
layout of an array without its contents. The oracle copies the buffers to its device and builds the
kernel's parameters itself (:mod:`virtualgpu.awkward.kernels`). A host function receives the form
and the buffers, and builds an array on the CPU.

Awkward is imported only when the first such array appears, because most projects have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.api import is_awkward

EXTENSIONS = (
    "the kernel '{name}' is given an Awkward Array, which Numba knows only by an extension: "
    "decorate it with @cuda.jit(extensions=[ak.numba.cuda])"
)


def describe_form(array: Any) -> dict:
    """Return the form of `array` as JSON."""
    return array.layout.form.to_dict(verbose=False)


def numba_type(form: dict) -> Any:
    """Return Numba's type of an array, given the form from :func:`describe_form`."""
    import awkward as ak

    return ak.Array(ak.forms.from_dict(form).length_zero_array(highlevel=False)).numba_type


def take_apart(array: Any) -> tuple[dict, dict[str, np.ndarray]]:
    """Split `array` for transfer: its form and length as JSON, and its buffers by name."""
    import awkward as ak

    form, length, buffers = ak.to_buffers(ak.to_packed(array))
    return {"form": form.to_dict(verbose=False), "length": length}, buffers


def put_together(described: dict, buffers: dict[str, np.ndarray]) -> Any:
    """Rebuild the array that :func:`take_apart` split.

    Only the worker may call this, because the buffers are trusted.
    """
    import awkward as ak

    return ak.from_buffers(ak.forms.from_dict(described["form"]), described["length"], buffers)


def without_awkward(value: Any) -> Any:
    """Convert Awkward Arrays in `value` to NumPy arrays, also in lists, tuples and dicts.

    Raises ValueError for lists of different lengths and for missing values.
    """
    if is_awkward(value):
        return np.asarray(value)
    if type(value) in (list, tuple):
        return type(value)(map(without_awkward, value))
    if type(value) is dict:
        return {key: without_awkward(item) for key, item in value.items()}
    return value

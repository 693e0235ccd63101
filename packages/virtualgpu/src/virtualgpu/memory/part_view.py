"""Host view of a huge array, on which NumPy can only compute in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from virtualgpu.memory.huge import PART, Huge
from virtualgpu.memory.mapping import PAGE

# Array methods that read or write all elements without calling a NumPy function.
_WHOLE = ("astype", "byteswap", "copy", "fill", "partition", "sort", "tobytes", "tofile", "tolist")


class PartView(np.ndarray):
    """Array over device memory that refuses operations on more than :data:`PART` bytes.

    A small enough part holds the values of the allocation's rule.
    """

    huge: Huge | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.huge = getattr(other, "huge", None)
        self.follow_rule()

    def follow_rule(self) -> None:
        """Fill the pages of a part that is small enough."""
        huge = self.huge
        if huge is not None and huge.rule is not None and 0 < self.nbytes <= PART:
            for low, high in _pages(self, huge):
                huge.fill(low, high)

    def demand_part(self, what: str) -> None:
        """Raise VirtualGPUError if the host may not hold all bytes at once."""
        if self.huge is not None:
            self.huge.demand_part(self.nbytes, what)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        inputs = tuple(_plain(inputs))
        if (out := named.get("out")) is not None:
            named["out"] = tuple(_plain(out))
        return getattr(ufunc, method)(*inputs, **named)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        if function not in _LOOKS:
            list(_plain([*given, *named.values()]))
        return super().__array_function__(function, types, given, named)

    def __setitem__(self, key: Any, value: Any) -> None:
        part = super().__getitem__(key) if is_basic(key) else self
        if self.huge is not None and _are_zeros(part, value):
            low, _ = np.lib.array_utils.byte_bounds(part.view(np.ndarray))
            start = low - self.huge.raw.ctypes.data
            self.huge.clear(start, start + part.nbytes)
            return
        list(_plain([part]))
        super().__setitem__(key, value)


def of(view: np.ndarray, huge: Huge) -> PartView:
    """Return a view of an allocation that can only be computed on in parts."""
    guarded = view.view(PartView)
    guarded.huge = huge
    guarded.follow_rule()
    return guarded


#: NumPy functions that only read an array's layout.
_LOOKS = {np.shares_memory, np.may_share_memory, np.shape, np.ndim, np.broadcast_to, np.transpose}
_LOOKS |= {np.array_repr, np.array_str, np.array2string}  # they print the ends of a long array


def is_basic(key: Any) -> bool:
    """Return True for a key that gives a view: integers, slices, ``...`` and None."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(
        one is None
        or one is ...
        or (isinstance(one, int | np.integer | slice) and not isinstance(one, bool))
        for one in keys
    )


def _are_zeros(part: Any, value: Any) -> bool:
    """Return True if zeros are assigned to a large part without gaps."""
    if not isinstance(part, np.ndarray) or part.nbytes <= PART or not part.flags.c_contiguous:
        return False
    return np.ndim(value) == 0 and not any(np.asarray(value, part.dtype).tobytes())


def _plain(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the operands, each PartView as a plain array.

    A view that is too large raises VirtualGPUError.
    """
    for value in values:
        if isinstance(value, list | tuple):
            list(_plain(value))
        if isinstance(value, PartView):
            value.demand_part("host computation")
            yield value.view(np.ndarray)
        else:
            yield value


def _pages(view: np.ndarray, huge: Huge) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of an allocation's bytes that contain a view's elements."""
    low, high = (
        bound - huge.raw.ctypes.data
        for bound in np.lib.array_utils.byte_bounds(view.view(np.ndarray))
    )
    if high - low <= max(2 * view.nbytes, PAGE):
        yield low, high
        return
    offsets = np.zeros(1, np.int64) + view.ctypes.data - huge.raw.ctypes.data
    for length, step in zip(view.shape, view.strides, strict=True):
        offsets = (offsets[:, None] + step * np.arange(length)).reshape(-1)
    for page in np.unique(offsets // PAGE) * PAGE:
        yield int(page), min(int(page) + PAGE + view.itemsize, len(huge.raw))


def _guarded(name: str) -> Callable[..., Any]:
    whole = getattr(np.ndarray, name)

    def method(self: PartView, *given: Any, **named: Any) -> Any:
        (plain,) = _plain([self])
        return whole(plain, *given, **named)

    return method


for _name in _WHOLE:
    setattr(PartView, _name, _guarded(_name))

"""Whether the device worked out an answer, or the host did: for checks of host functions.

A function that gets arrays of the host has to carry them to the device, which then gets others
(:func:`with_other_values`): what kernels computed becomes that of the others. A function that gets
arrays of the device has to leave them there (:func:`leaving`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import require
from gpucourse.judging.exchange import CASTS, Diverged, Exchange
from virtualgpu.api import VirtualDevice, many

#: Bytes that the host may read in the first of two calls, to read them again in the second.
ROOM = 1 << 26
#: Bytes that may leave the device: a length, a largest number, an answer to an `if`.
NUMBERS = 64
HOST = "computed on the host, not by a kernel"


def with_other_values(
    call: Callable[[], Any],
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    case: str,
    look: str,
    by_any_way: bool = False,
) -> Any:
    """What ``call`` returns while the device gets, of each pair, the second for the first.

    It is called twice, once as it is: see :class:`ToTheLastLaunch`. Fails the check where nothing
    was exchanged. Elements are recognised by their values: random numbers. Where the virtual GPU
    does not answer, nothing is called: returns None, as for an answer that may carry them
    ``by_any_way``, also one that is not seen here, and of which nothing was exchanged.
    """
    if not virtualgpu.answers():
        return None
    first = ToTheLastLaunch(room=ROOM)
    with exchanging(first):
        call()
    second = ToTheLastLaunch(pairs, first.before)
    try:
        with exchanging(second):
            answer = call()
    except Diverged:
        require(
            False,
            f"{case}, called twice with the same values, the function does not launch "
            "and copy the same",
            look=look,
        )
    if by_any_way and not second.done:
        return None
    require(
        second.done,
        f"{case}, the answer is right, but {HOST}: none of the values that came "
        "in went to the device",
        look=look,
    )
    return answer


class ToTheLastLaunch(Exchange):
    """An exchange in which the host reads what stands on the device after its last launch: no
    kernel gets that any more, and what the host makes of it follows the device."""

    _before_last_launch = 0

    @property
    def before(self) -> list[np.ndarray]:
        """What the host has read before its last launch."""
        return self.heard[: self._before_last_launch]

    def launched(self) -> None:
        """A kernel starts. Raises Diverged."""
        self._before_last_launch = self._reads
        if self._shown is not None and self._reads > len(self._shown):
            raise Diverged

    def to_host(self, data: np.ndarray) -> np.ndarray:
        if self._shown is not None and self._reads >= len(self._shown):
            self._reads += 1
            return data
        return super().to_host(data)


@contextmanager
def exchanging(exchange: ToTheLastLaunch) -> Iterator[None]:
    """Have copies of the virtual GPU pass through ``exchange``, and launches told to it."""
    write, read, launch = VirtualDevice.write, VirtualDevice.read, VirtualDevice.launch

    def written(device: VirtualDevice, address: int, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        write(device, address, exchange.to_device(raw))

    def got(device: VirtualDevice, address: int, nbytes: int) -> np.ndarray:
        return exchange.to_host(read(device, address, nbytes))

    def started(device: VirtualDevice, *arguments: Any, **options: Any) -> None:
        exchange.launched()
        launch(device, *arguments, **options)

    def handed(way: Callable) -> Callable:
        def call(values: Any, *arguments: Any, **options: Any) -> Any:
            return way(exchanged(values), *arguments, **options)

        return call

    def exchanged(values: Any) -> Any:
        """What CuPy gets, whose copies do not pass through the device's own."""
        if not isinstance(values, np.ndarray) or values.dtype.kind not in CASTS:
            return values
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return exchange.to_device(raw).view(values.dtype).reshape(values.shape)

    with ExitStack() as patches:
        if (cupy := sys.modules.get("cupy")) is not None:
            for name in ("asarray", "array", "ascontiguousarray"):
                patches.enter_context(mock.patch.object(cupy, name, handed(getattr(cupy, name))))
            put = cupy.ndarray.set
            patches.enter_context(
                mock.patch.object(
                    cupy.ndarray,
                    "set",
                    lambda array, values, *arguments, **options: put(
                        array, exchanged(values), *arguments, **options
                    ),
                )
            )
        for name, own in (("write", written), ("read", got), ("launch", started)):
            patches.enter_context(mock.patch.object(VirtualDevice, name, own))
        yield


@dataclass
class Left:
    """What was taken from the device: the calls, and their bytes together."""

    calls: list[tuple[int, str]] = field(default_factory=list)
    nbytes: int = 0

    def demand_none(self, case: str, look: str) -> None:
        """Fail the check for more than a few numbers."""
        require(
            self.nbytes <= NUMBERS,
            f"{case}, `{max(self.calls, default=(0, ''))[1]}` takes data from the device: "
            f"{many(self.nbytes, 'byte')} in all, and the host computes with them",
            look=look,
        )


#: Libraries that may take from the device for themselves.
_LIBRARIES = ("cudf", "cupy", "cupyx", "pylibcudf", "numba", "numba_cuda", "virtualgpu")


@contextmanager
def leaving() -> Iterator[Left]:
    """What others than the libraries take to the host, of arrays of CuPy, Numba and cuDF."""
    left = Left()

    def watched(name: str, original: Callable) -> Callable:
        def call(*arguments: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            taken = original(*arguments, **options)
            on_device = hasattr(taken, "__cuda_array_interface__") or hasattr(taken, "to_pandas")
            if caller.split(".")[0] not in _LIBRARIES and not on_device:
                left.calls.append((_nbytes(taken), name))
                left.nbytes += _nbytes(taken)
            return taken

        return call

    with ExitStack() as patches:
        for owner, names in _ways_out():
            for name in names:
                original = getattr(owner, name, None)
                if original is None:
                    continue
                if isinstance(original, property):
                    assert original.fget is not None
                    new: Any = property(watched(name, original.fget))
                else:
                    new = watched(name, original)
                with suppress(TypeError):  # a type of CuPy's own that cannot be changed
                    patches.enter_context(mock.patch.object(owner, name, new))
        yield left


def _ways_out() -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Types and modules that are loaded, and their functions that give what the host can read."""
    of_frames = (
        "to_numpy",
        "to_pandas",
        "to_arrow",
        "to_list",
        "tolist",
        "values_host",
        "__getitem__",
    )
    if (cudf := sys.modules.get("cudf")) is not None:
        yield cudf.DataFrame, of_frames[:-1]
        yield cudf.Series, of_frames
        yield cudf.Index, of_frames
        yield type(cudf.Series([1]).iloc), ("__getitem__",)
        yield type(cudf.DataFrame({"a": [1]}).iloc), ("__getitem__",)
    if (cupy := sys.modules.get("cupy")) is not None:
        yield cupy, ("asnumpy",)
        yield (
            cupy.ndarray,
            (
                "get",
                "tolist",
                "tobytes",
                "item",
                "__float__",
                "__int__",
                "__bool__",
                "__complex__",
                "__index__",
            ),
        )
    if (numba := sys.modules.get("numba.cuda.cudadrv.devicearray")) is not None:
        yield numba.DeviceNDArray, ("copy_to_host", "__getitem__", "__array__", "to_host")


def _nbytes(taken: Any) -> int:
    if hasattr(taken, "memory_usage"):  # pandas
        return int(np.sum(taken.memory_usage()))
    if hasattr(taken, "nbytes"):
        return int(np.sum(taken.nbytes))
    return 8 * len(taken) if isinstance(taken, list | tuple | bytes) else 8

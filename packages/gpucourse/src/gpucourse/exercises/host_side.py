"""Checks that the device, and not the host, computes the answer of a host function.

A function that receives host arrays must copy them to the device. The check replaces the values on
the way (:func:`with_other_values`), so that results of kernels follow the replaced values and
results of the host do not. A function that receives device arrays must leave them on the device
(:func:`leaving`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import require
from gpucourse.judging.exchange import CASTS, Diverged, Exchange
from gpucourse.wording import many
from virtualgpu.api import VirtualDevice

#: Bytes that the host may read in the first call, which are shown to it again in the second.
ROOM = 1 << 26
#: Bytes that may leave the device, enough for a length, a maximum or the condition of an `if`.
NUMBERS = 64
HOST = "computed on the host, not by a kernel"


def with_other_values(
    call: Callable[[], Any],
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    case: str,
    look: str,
    by_any_way: bool = False,
) -> Any:
    """Return the result of ``call`` while the device gets the second value of each pair.

    ``call`` runs twice, the first time with unchanged values: see :class:`ToTheLastLaunch`. The
    check fails if no value was exchanged in the second run. Elements are recognised by their
    values, which are random numbers. If the virtual GPU does not answer, ``call`` does not run and
    the result is None. With ``by_any_way``, an answer may copy its values in ways that are not
    observed here; if nothing was exchanged, the result is then None as well.
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
            f"{case}, two calls of the function with the same values do not make the same "
            "launches and copies",
            look=look,
        )
    if by_any_way and not second.done:
        return None
    require(
        second.done,
        f"{case}, the answer is right, but {HOST}: none of its arguments' values were copied "
        "to the device",
        look=look,
    )
    return answer


class ToTheLastLaunch(Exchange):
    """Exchange that lets the host read the device's own data after the last launch.

    No later kernel receives this data, so whatever the host computes from it follows the device.
    """

    _before_last_launch = 0

    def __init__(
        self,
        pairs: Sequence[tuple[np.ndarray, np.ndarray]] = (),
        shown: Sequence[np.ndarray] = (),
        room: int = 0,
    ) -> None:
        super().__init__(pairs, shown, room)
        self._pairs = pairs

    @property
    def before(self) -> list[np.ndarray]:
        """Return the data that the host has read before its last launch."""
        return self.heard[: self._before_last_launch]

    def launched(self) -> None:
        """Note the start of a kernel; raise Diverged if the host has read more than before."""
        self._before_last_launch = self._reads
        if self._shown is not None and self._reads > len(self._shown):
            raise Diverged

    def to_host(self, data: np.ndarray) -> np.ndarray:
        if self._shown is not None and self._reads >= len(self._shown):
            self._reads += 1
            return self._as_known(data)
        return super().to_host(data)

    def _as_known(self, data: np.ndarray) -> np.ndarray:
        """Return unmodified inputs with the host's values, because no kernel computed them."""
        same = (known for known, other in self._pairs if np.array_equal(data, _raw(other)))
        return next(map(_raw, same), data)


@contextmanager
def exchanging(exchange: ToTheLastLaunch) -> Iterator[None]:
    """Pass the copies of the virtual GPU through ``exchange`` and report each launch to it."""
    write, read, launch = VirtualDevice.write, VirtualDevice.read, VirtualDevice.launch

    def written(device: VirtualDevice, address: int, data: np.ndarray) -> None:
        write(device, address, exchange.to_device(_raw(data)))

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
        """Pass values for CuPy through the exchange, because its copies bypass the device's."""
        if not isinstance(values, np.ndarray) or values.dtype.kind not in CASTS:
            return values
        return exchange.to_device(_raw(values)).view(values.dtype).reshape(values.shape)

    def put(way: Callable) -> Callable:
        def call(array: Any, *arguments: Any, **options: Any) -> Any:
            return way(array, *map(exchanged, arguments), **options)

        return call

    def fetched(way: Callable, name: str, get: Callable) -> Callable:
        """Wrap a method that copies to the host so that its values pass through the exchange."""

        def call(array: Any, *arguments: Any, **options: Any) -> Any:
            if _of_a_library(sys._getframe(1)):
                return way(array, *arguments, **options)
            there = get(array)
            values = exchange.to_host(_raw(there)).view(there.dtype).reshape(there.shape)
            if name != "get":
                return getattr(values, name)(*arguments, **options)
            given = (*arguments, *options.values())
            out = next((one for one in given if isinstance(one, np.ndarray)), None)
            if out is None:
                return values
            out[...] = values.reshape(out.shape)
            return out

        return call

    with ExitStack() as patches:

        def patch(owner: Any, name: str, new: Callable) -> None:
            patches.enter_context(mock.patch.object(owner, name, new))

        # CuPy arrays do not use the device's read and write for their copies.
        if (cupy := sys.modules.get("cupy")) is not None:
            kind = cupy.ndarray
            for name in ("asarray", "array", "ascontiguousarray"):
                patch(cupy, name, handed(getattr(cupy, name)))
            patch(kind, "set", put(kind.set))
            get = kind.get
            for name in _OUT_OF_CUPY:
                if (way := getattr(kind, name, None)) is not None:
                    patch(kind, name, fetched(way, name, get))
        for name, own in (("write", written), ("read", got), ("launch", started)):
            patch(VirtualDevice, name, own)
        yield


def _raw(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


@dataclass
class Left:
    """Copies from the device to the host: each call, and the total number of bytes."""

    calls: list[tuple[int, str]] = field(default_factory=list)
    nbytes: int = 0

    def demand_none(self, case: str, look: str) -> None:
        """Fail the check if more than a few numbers were copied."""
        require(
            self.nbytes <= NUMBERS,
            f"{case}, `{max(self.calls, default=(0, ''))[1]}` takes data from the device "
            f"({many(self.nbytes, 'byte')} in all), so the host computes with them",
            look=look,
        )


#: Libraries whose own copies from the device are allowed.
_LIBRARIES = (
    "cudf",
    "cupy",
    "cupyx",
    "pylibcudf",
    "numba",
    "numba_cuda",
    "gpustandins",
    "virtualgpu",
)
#: Methods of cuDF tables and columns that write them as text or to a file.
_WRITTEN = ("to_csv", "to_json", "to_dict", "to_parquet", "to_orc", "to_feather", "to_hdf")
#: Methods of CuPy arrays that copy values to the host.
_OUT_OF_CUPY = (
    "get",
    "tolist",
    "tobytes",
    "item",
    "__float__",
    "__int__",
    "__bool__",
    "__complex__",
    "__index__",
)


def _of_a_library(caller: FrameType) -> bool:
    """Return True if a library copies for its own use.

    ``asnumpy`` copies for its caller, under whatever name it was imported.
    """
    library = caller.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES
    return library and caller.f_code.co_name != "asnumpy"


@contextmanager
def leaving() -> Iterator[Left]:
    """Yield a record of the copies to the host that no library makes for itself.

    It covers arrays of CuPy, Numba and cuDF.
    """
    left = Left()

    def watched(name: str, original: Callable) -> Callable:
        def call(*arguments: Any, **options: Any) -> Any:
            inside = _of_a_library(sys._getframe(1))
            taken = original(*arguments, **options)
            # a text column raises TypeError instead of AttributeError for this attribute
            on_device = hasattr(taken, "to_pandas") or hasattr(taken, "__cuda_array_interface__")
            if not inside and not on_device:
                nbytes = 8 * arguments[0].size if name in _WRITTEN else _nbytes(taken)
                left.calls.append((nbytes, name))
                left.nbytes += nbytes
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
                with suppress(TypeError):  # some of CuPy's types are compiled and cannot be patched
                    patches.enter_context(mock.patch.object(owner, name, new))
        yield left


def _ways_out() -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield loaded types, each with the names of its methods that copy values to the host."""
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
        yield cudf.DataFrame, (*of_frames[:-1], *_WRITTEN)
        yield cudf.Series, (*of_frames, *_WRITTEN)
        yield cudf.Index, of_frames
        yield type(cudf.Series([1]).iloc), ("__getitem__",)
        yield type(cudf.DataFrame({"a": [1]}).iloc), ("__getitem__",)
    if (cupy := sys.modules.get("cupy")) is not None:
        yield cupy.ndarray, _OUT_OF_CUPY
    if (numba := sys.modules.get("numba.cuda.cudadrv.devicearray")) is not None:
        yield numba.DeviceNDArray, ("copy_to_host", "__getitem__", "__array__", "to_host")


def _nbytes(taken: Any) -> int:
    if hasattr(taken, "memory_usage"):  # pandas
        return int(np.sum(taken.memory_usage()))
    if hasattr(taken, "nbytes"):
        return int(np.sum(taken.nbytes))
    return 8 * len(taken) if isinstance(taken, list | tuple | bytes) else 8

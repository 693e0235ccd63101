"""Oracle's side of the student's device: requests from the worker, and the origin of data.

The student's host code runs in another process and can only send requests. This module performs
its copies and launches on a separate device, which holds only what the student put there, and
records for every byte whether a kernel wrote it.

In a call with exchange, the host reads the same data as in an earlier call. The requests are
performed only after the call has ended (:meth:`DeviceService.settle`). Otherwise a kernel could
use the duration of launches to pass hidden data from the device to the host bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.limits import MEGABYTE, Limits
from gpucourse.grading.oracle import fault_reasons
from gpucourse.grading.oracle.data_origins import Origins
from gpucourse.grading.oracle.devices import new_device
from gpucourse.grading.oracle.provenance import Copied, made_by_kernels
from gpucourse.grading.sandbox.wire import ProtocolError, announced, numbers
from gpucourse.grading.testing.watching import ANOTHER_COURSE, explain, machine_at_work
from gpucourse.judging.exchange import Diverged, Exchange
from virtualgpu import errors
from virtualgpu.api import watch

# Number of copies to the host that are kept, the latest first, to recognise data in a function's
# result. A function may read its numbers one by one.
MAX_READS = 4096


class DeviceService:
    """Executor of one worker's device requests.

    Attributes
    ----------
    failure : PropertyFailed or None
        The first failure on the device, which stays even if the student's code catches its
        exception.
    launched : list of (kernel, grid, block)
        Every launch since :meth:`begin`.
    secret : bool
        True if the worker has seen hidden inputs, so that its strings may contain one.
    words : frozenset of str
        The words of the submission, which may be shown in any case.
    """

    def __init__(self, limits: Limits, words: frozenset[str] = frozenset()) -> None:
        self.limits = limits
        self.words = words
        self.secret = False
        self.device = new_device(limits)
        self.origins = Origins()
        self.modules: list = []
        self.begin()

    def begin(self, exchange: Exchange | None = None) -> None:
        """Discard the previous call, but keep the student's device memory."""
        self.exchange = exchange or Exchange()
        self.failure: PropertyFailed | None = None
        self.launched: list[tuple[str, tuple, tuple]] = []
        self.reads: list[Copied] = []
        self._claimed = 0
        # Deferred requests, each with its arrays; for a read, the array that the host was shown.
        self._later: list[tuple[dict, list[np.ndarray]]] = []
        self._kept = 0

    def handle(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list[np.ndarray]]:
        """Answer one request.

        Device errors are sent back as strings. Raises ProtocolError for an invalid request.
        """
        verb = request.get("device")
        if not isinstance(verb, str) or verb not in VERBS:
            raise ProtocolError("a request that a device does not support")
        later = self.exchange.replays and verb in LATER
        method = self._put_off if later else getattr(self, f"_{verb}")
        return self._guarded(method, request, arrays)

    def settle(self) -> None:
        """Perform the requests that the call deferred, up to the first fault.

        Raises ProtocolError.
        """
        for request, arrays in self._later:
            verb = request["device"]
            if self.failure is None or verb in ("free", "retire", "revive"):
                self._guarded(
                    self._look if verb == "read" else getattr(self, f"_{verb}"), request, arrays
                )
        self._later = []
        self.exchange = Exchange()  # the call has ended

    def _guarded(
        self, method: Callable, request: dict, arrays: list[np.ndarray]
    ) -> tuple[dict, list[np.ndarray]]:
        verb = request["device"]
        try:
            # The device itself reports the host's writes and copies to the observer.
            with watch(self.origins), fault_reasons.quietly(lambda: self.secret):
                answer: tuple[dict, list[np.ndarray]] = method(request, arrays)
                return answer
        except errors.VirtualGPUError as error:
            if self.failure is None:
                kernel = self.launched[-1][0] if verb == "launch" and self.launched else ""
                self.failure = explain(error, kernel) if kernel else PropertyFailed(str(error))
            return {"device_error": str(error)}, []
        except Diverged:
            self.failure = self.failure or PropertyFailed(ANOTHER_COURSE)
            return {"device_error": ANOTHER_COURSE}, []
        except MemoryError:
            raise ProtocolError("a request for more memory than the grader has") from None
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise ProtocolError("a malformed request to the device") from None

    def _put_off(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        if request["device"] == "read":
            # Use arrays from the exchange; arrays in the request would let the worker choose what
            # it was shown.
            arrays = [self.exchange.again(_count(request["nbytes"]))]
        else:
            self._kept += sum(array.nbytes for array in arrays)
        if self._kept > self.limits.array_bytes:
            raise errors.OutOfMemory(
                f"more than {self.limits.array_bytes // MEGABYTE} MB copied to the device in one "
                "call"
            )
        self._later.append((request, arrays))
        return {}, arrays if request["device"] == "read" else []

    def _allocate(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        nbytes = _count(request["nbytes"])
        address = self.device.allocate(nbytes)
        self.origins.allocated(address, nbytes)
        return {"address": address}, []

    def _free(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        address = _count(request["address"])
        self.device.free(address)
        self.origins.freed(address)
        return {}, []

    def _retire(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        address = _count(request["address"])
        self.device.retire(address)
        self.origins.freed(address)
        return {}, []

    def _revive(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        address, nbytes = _count(request["address"]), _count(request["nbytes"])
        self.device.revive(address, nbytes)
        self.origins.allocated(address, nbytes)
        return {}, []

    def _write(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        (data,) = arrays
        self.device.write(_count(request["address"]), self.exchange.to_device(data))
        return {}, []

    def _fill(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        address, nbytes = _count(request["address"]), _count(request["nbytes"])
        self.device.fill(address, _count(request["byte"]) & 0xFF, nbytes)
        return {}, []

    def _copy(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        target, origin = _count(request["target"]), _count(request["origin"])
        nbytes = _count(request["nbytes"])
        self.device.copy(target, origin, nbytes)
        return {}, []

    def _read(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        data, made = self.read(_count(request["address"]), _count(request["nbytes"]))
        shown = self.exchange.to_host(data)
        self._remember(Copied(shown, made, data))
        return {}, [shown]

    def _look(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Perform a read whose answer the host already has."""
        data, made = self.read(_count(request["address"]), _count(request["nbytes"]))
        self._remember(Copied(arrays[0], made, data))
        return {}, []

    def read(self, address: int, nbytes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return bytes of the student's device memory, and a mask of those that a kernel made."""
        if nbytes > self.limits.array_bytes:
            raise errors.OutOfMemory(f"a copy of {nbytes:,} bytes to the host is too large")
        data = self.device.read(address, nbytes)
        return data, self.origins.from_launch(address, data)

    def _remember(self, copied: Copied) -> None:
        """Keep the latest copies, as many as the limits allow."""
        self.reads.insert(0, copied)
        del self.reads[MAX_READS:]
        room = self.limits.array_bytes
        for number, kept in enumerate(self.reads):
            room -= len(kept.there)
            if room < 0 and number:
                del self.reads[number:]
                break

    def _load(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        texts, names = request["ptx"], request["names"]
        if sum(len(text) for text in texts) > self.limits.ptx_bytes:
            raise errors.OutOfMemory("the compiled kernel is larger than any kernel should be")
        names = {str(entry)[:500]: self._shown(str(name)) for entry, name in names.items()}
        texts = [str(text) for text in texts]
        with machine_at_work():
            module = self.device.load(texts, names)
        for entry in module.entries():
            module.names.setdefault(entry, self._shown(entry))
        self.modules.append(module)
        return {"module": len(self.modules) - 1}, []

    def _shown(self, name: str) -> str:
        return fault_reasons.kernel_name(name, self.words) if self.secret else name[:100]

    def _symbol(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        module = self.modules[_count(request["module"])]
        address, nbytes = self.device.symbol(module, str(request["name"]))
        return {"address": address, "nbytes": nbytes}, []

    def _launch(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        module = self.modules[_count(request["module"])]
        entry = str(request["entry"])
        grid, block = _triple(request["grid"]), _triple(request["block"])
        parameters = [
            self.exchange.parameter(bytes.fromhex(text)) for text in request["parameters"]
        ]
        if len(self.launched) >= self.limits.launches:
            raise errors.LaunchError(
                f"more than {self.limits.launches} launches in one call: does a loop on the host "
                "launch a kernel for each element?"
            )
        self.launched.append((module.display_name(entry), grid, block))
        for parameter in parameters:
            # A pointer may be inside a structure, such as CuPy's argument for an array.
            for at in range(0, len(parameter) - 7, 8):
                start = self.origins.find(int.from_bytes(parameter[at : at + 8], "little"))
                if start is not None:
                    self.origins.launched.add(start)
        shared, cooperative = _count(request["shared_bytes"]), request["cooperative"] is True
        cluster = None if request.get("cluster") is None else _triple(request["cluster"])
        with machine_at_work():
            self.device.launch(module, entry, grid, block, parameters, shared, cooperative, cluster)
        return {}, []

    def _synchronize(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        self.device.synchronize()
        return {}, []

    def device_array(self, described: Any) -> np.ndarray:
        """Return an array in device memory that a result refers to.

        The total size of all arrays of a result is checked before memory is allocated for them.
        """
        try:
            dtype, shape, size = announced(
                {"dtype": described["dtype"], "shape": described["shape"]}
            )
            if described["strides"] is None:
                strides = np.empty(shape, np.uint8).strides if 0 in shape else None
            else:
                strides = tuple(_step(n) for n in described["strides"])
            address = _count(described["address"])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("a malformed description of an array") from None
        self._claim(size)
        if size == 0:
            return np.empty(shape, dtype)
        if strides is None:
            strides = tuple(
                dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))
            )
        reach = [stride * (n - 1) for stride, n in zip(strides, shape, strict=True)]
        low = sum(step for step in reach if step < 0)
        high = sum(step for step in reach if step > 0) + dtype.itemsize
        self._claim(high - low)
        try:
            raw, made = self.read(address + low, high - low)
        except errors.VirtualGPUError as error:
            raise PropertyFailed(f"the returned array is not in device memory: {error}") from None
        view = np.ndarray(shape, dtype, raw.data, -low, strides)
        # Leave out the gaps between the elements of a strided view.
        gathered = np.ndarray((*shape, dtype.itemsize), bool, made.data, -low, (*strides, 1))
        compact = np.array(view, order="C").reshape(-1).view(np.uint8)
        result = numbers(compact, dtype, shape)
        self._remember(Copied(compact, gathered.copy().reshape(-1), compact))
        return result

    def _claim(self, nbytes: int) -> None:
        """Count bytes towards the limit on a result: elements, and the memory that they span."""
        self._claimed += nbytes
        if self._claimed > 2 * self.limits.array_bytes:
            raise PropertyFailed(
                "the returned arrays in device memory have more than "
                f"{self.limits.array_bytes // MEGABYTE} MB"
            )

    def left_by_kernels(self, value: object) -> object:
        """Return a result with the device's data instead of the data that the host was shown.

        Raises NotMade unless every array and number in it is data that a launch left there.
        """
        return made_by_kernels(value, self.reads)


VERBS = frozenset(
    {
        "allocate",
        "free",
        "write",
        "read",
        "copy",
        "fill",
        "load",
        "symbol",
        "launch",
        "synchronize",
        "retire",
        "revive",
    }
)
# Requests whose answers the host does not need immediately.
LATER = VERBS - {"allocate", "load", "symbol"}


def _triple(numbers: Any) -> tuple[int, int, int]:
    x, y, z = map(_count, numbers)
    return x, y, z


def _step(number: object) -> int:
    if type(number) is not int or abs(number) >= 1 << 62:
        raise ValueError("not a stride")
    return number


def _count(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError("not a count")
    return number

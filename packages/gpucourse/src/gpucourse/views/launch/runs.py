"""Observed trial launches on the virtual GPU, with copies of the arguments, for views."""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.wording import a_or_an
from virtualgpu.api import (
    LaunchProfile,
    LaunchTrace,
    MachineArray,
    awkward_to_device,
    current_device,
    host_copy,
    is_awkward,
    reroute,
    trace,
)
from virtualgpu.errors import VirtualGPUError
from virtualgpu.findings import Finding, Report, from_error

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """Array argument on the device, with ``strides`` in bytes and its 0-based ``number``."""

    name: str
    number: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """Return the first address after the array."""
        if not self.size:
            return self.address
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return self.address + last + self.dtype.itemsize

    def holds(self, addresses: np.ndarray) -> np.ndarray:
        """Return the mask of the addresses that are inside the array."""
        return (self.address <= addresses) & (addresses < self.end)


@dataclass(frozen=True)
class Launch:
    """A launch to make: a kernel, its configuration in brackets, and its arguments."""

    kernel: Any
    grid: Triple
    block: Triple
    arguments: tuple
    shared_bytes: int = 0  # dynamic shared memory per block

    @classmethod
    def of(
        cls, kernel: Any, grid: object, block: object, arguments: tuple, shared_bytes: int = 0
    ) -> Launch:
        """Check a learner's values. Raises TypeError with a message that says what to write."""
        check_kernel(kernel)
        made = cls(
            kernel, dimensions(grid, "grid"), dimensions(block, "block"), arguments, shared_bytes
        )
        if is_tiled(kernel) and made.block != (1, 1, 1):
            raise TypeError(
                "the block of a kernel over tiles must be 1, because such a "
                "kernel is written without threads"
            )
        return made

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Return the number of threads per block."""
        return math.prod(self.block)

    def run(self, kernel: Any, arguments: list) -> None:
        """Launch as the library requires: Numba's brackets, or tuples for cuTile and CuPy."""
        if hasattr(kernel, "py_func"):
            kernel[self.grid, self.block, 0, self.shared_bytes](*arguments)
        elif is_tiled(kernel):
            sys.modules["cuda.tile"].launch(0, self.grid, kernel, tuple(arguments))
        else:
            kernel(self.grid, self.block, tuple(arguments), shared_mem=self.shared_bytes)


@dataclass
class Observed:
    """One observed launch: its findings, its counters or trace, and its error."""

    kernel: str
    grid: Triple
    block: Triple
    places: list[ArrayArgument] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    profile: LaunchProfile | None = None
    trace: LaunchTrace | None = None
    error: VirtualGPUError | None = None
    after: list = field(default_factory=list)  # the arguments after the launch

    def dtype(self, place: ArrayArgument | None, size: int) -> np.dtype | None:
        """Return the dtype of an array's values.

        For shared memory, it is the dtype of the first array whose elements are ``size`` bytes
        wide.
        """
        return (
            place.dtype
            if place
            else next((p.dtype for p in self.places if p.dtype.itemsize == size), None)
        )


def observe(launch: Launch) -> Observed:
    """Launch once under every checker and the counters; faults become findings."""
    with virtualgpu.profile() as profile, virtualgpu.check() as report:
        observed = _run(launch)
    observed.findings = findings_of(report, observed)
    # Helpers that launch a learner's kernel may launch others before it (a fill), so the last
    # launch is the kernel's.
    observed.profile = profile.launches[-1] if profile.launches else None
    return observed


def traced(launch: Launch, *, seed: int | None = None, **options) -> Observed:
    """Launch once and record the steps.

    ``options`` are those of :func:`virtualgpu.api.trace`.
    """
    with trace(**options) as written:
        if seed is None:
            observed = _run(launch)
        else:
            with virtualgpu.schedule(seed):
                observed = _run(launch)
    observed.trace = written.launches[-1] if written.launches else None
    if observed.trace is None:
        # No device accepts such a launch, so nothing can be drawn and the error is shown.
        raise observed.error or RuntimeError("nothing was launched")
    return observed


def findings_of(report: Report, observed: Observed) -> list[Finding]:
    """Return the report's findings, including the error of an invalid launch."""
    findings = list(report.findings)
    if observed.error is not None and not any(
        found.message == observed.error.message for found in findings
    ):
        findings.insert(0, from_error(observed.error, observed.kernel, report.launches))
    return findings


def _run(launch: Launch) -> Observed:
    kernel, arguments = launch.kernel, launch.arguments
    observed = Observed(check_kernel(kernel), launch.grid, launch.block)
    with on_virtual_gpu(kernel) as runnable, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small grids and of copies, both meant so here
        copies = (
            copies_for(kernel, arguments)
            if virtualgpu.answers()
            else copy_arguments(arguments, _copy_beside)
        )
        observed.places = list(_places(kernel, copies))
        try:
            launch.run(runnable, copies)
        except VirtualGPUError as error:
            observed.error = error
        observed.after = copies
    return observed


# -- what a kernel is, and what not -------------------------------------------------------------


def check_kernel(kernel: Any) -> str:
    """Return the kernel's name.

    Raises TypeError with the name of the value's type if it is not a kernel.
    """
    if _is_numba(kernel):
        return kernel.py_func.__name__
    if _is_raw(kernel):
        return kernel.name
    if is_tiled(kernel):
        return kernel._pyfunc.__name__
    if hasattr(kernel, "dispatcher") and _is_numba(kernel.dispatcher):
        raise TypeError(
            "this kernel already has its brackets. Pass the kernel, the grid and the block as "
            "separate arguments, as in report(kernel, 4, 32, x)"
        )
    if kernel is None:
        raise TypeError(
            "this is None, which a launch returns. Pass the kernel itself, not kernel[grid, "
            "block](…)"
        )
    if callable(kernel) and hasattr(kernel, "__code__"):
        raise TypeError(
            f"'{kernel.__name__}' is an ordinary Python function, not a kernel. Write "
            "@cuda.jit above its def"
        )
    raise TypeError(
        f"this is {a_or_an(type(kernel).__name__)}, not a kernel. Pass the name of the "
        "function under @cuda.jit, without brackets, or a RawKernel"
    )


def dimensions(given: Any, what: str) -> Triple:
    """Return a grid or a block as three ints.

    Raises TypeError with a message that says how to write it.
    """
    parts = given if isinstance(given, tuple | list) else (given,)
    whole = [isinstance(n, int | np.integer) and not isinstance(n, bool) for n in parts]
    if not all(whole) or not 1 <= len(parts) <= 3:
        shown = (
            f"an array of shape {given.shape}"
            if hasattr(given, "shape") and np.ndim(given)
            else repr(given)[:60]
        )
        hint = (
            ". Use // instead of /, which returns a float"
            if any(isinstance(n, float) for n in parts)
            else ". The arguments are the kernel, the grid (number of blocks), the block "
            "(threads per block), then the kernel's own arguments"
        )
        raise TypeError(f"the {what} must be one to three integers, not {shown}{hint}")
    x, y, z = (*(int(n) for n in parts), 1, 1)[:3]
    return x, y, z


def parameter_names(kernel: Any) -> list[str]:
    """Return the names of a Numba kernel's parameters; other kernels do not have them."""
    return list(inspect.signature(kernel.py_func).parameters) if _is_numba(kernel) else []


def _is_numba(kernel: Any) -> bool:
    return hasattr(kernel, "py_func") and hasattr(kernel, "forall")


def _is_raw(kernel: Any) -> bool:
    return type(kernel).__name__ == "RawKernel" and hasattr(kernel, "name")


def is_tiled(kernel: Any) -> bool:
    """Return True for a kernel over tiles (``@ct.kernel``)."""
    return type(kernel).__module__.startswith("cuda.tile.") and hasattr(kernel, "_pyfunc")


@contextmanager
def on_virtual_gpu(kernel: Any) -> Iterator[object]:
    """Yield the kernel in a form that runs on the virtual GPU, even if there is a real one.

    With a real GPU, the kernel is compiled again for the virtual GPU's compute capability, and the
    libraries that use the real GPU are not changed.
    """
    if virtualgpu.answers():
        yield kernel
    elif _is_numba(kernel):
        with reroute():
            yield kernel
    else:
        yield _compiled_anew(kernel)


def _compiled_anew(kernel: Any):
    """Compile a CuPy RawKernel of a real GPU for the virtual GPU."""
    module = virtualgpu.Module.from_cuda(kernel.code, options=tuple(kernel.options or ()))

    def launch(grid: Triple, block: Triple, arguments: tuple, shared_mem: int = 0) -> None:
        module.launch(kernel.name, grid, block, list(arguments), shared_bytes=shared_mem)

    return launch


# -- copies of arguments ------------------------------------------------------------------------


def copy_arguments(arguments: tuple, copy: Callable[[object], object] | None = None) -> list:
    """Copy every array among the arguments to the device.

    An array that is passed twice is copied once. Layouts are preserved, because the cost of an
    access depends on them: a strided view is copied together with the bytes between its elements.
    Numbers and objects without arrays are passed on. ``copy`` copies one array, by default to the
    device of numba.cuda.
    """
    copy = copy or _copy
    known: dict[int, object] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, tuple):
            return (
                type(value)(*map(copied, value))
                if hasattr(value, "_fields")
                else tuple(map(copied, value))
            )
        if id(value) not in known:
            known[id(value)] = copy(value)
        return known[id(value)]

    return [copied(value) for value in arguments]


def copies_for(kernel: Any, arguments: tuple) -> list:
    """Return copies on the device in the form that the kernel takes.

    A RawKernel accepts only CuPy arrays, and a kernel over tiles does not accept Numba's.
    """
    copies = copy_arguments(arguments)
    if not _is_raw(kernel) and not is_tiled(kernel):
        return copies
    import cupy

    return [cupy.asarray(one) if hasattr(one, "copy_to_host") else one for one in copies]


def to_host(value: object) -> object:
    """Return a Numba, CuPy or JAX array as a NumPy array, and an Awkward Array on the CPU."""
    if is_awkward(value):
        return sys.modules["awkward"].to_backend(value, "cpu")
    for method in ("copy_to_host", "get"):
        if hasattr(value, method) and hasattr(value, "__cuda_array_interface__"):
            return getattr(value, method)()
    return np.asarray(value) if hasattr(value, "__array__") else value


def _copy_beside(value: object) -> object:
    """Copy to the virtual GPU's memory while numba.cuda and CuPy use a real GPU."""
    host = host_copy(value)
    return value if host is None else MachineArray(host, current_device())


def _copy(value: object) -> object:
    from numba import cuda

    if is_awkward(value):  # kernels cannot change an Awkward Array
        return awkward_to_device(value)
    if isinstance(value, np.ndarray):
        if value.flags.c_contiguous or value.flags.f_contiguous or not value.size:
            return cuda.to_device(np.array(value, order="K", subok=False))
        return _copy_with_gaps(value)
    if hasattr(value, "copy_to_host"):  # Numba's device arrays
        target = cuda.device_array_like(value)
        target.copy_to_device(value)
        return target
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "copy"):  # CuPy's
        return value.copy()
    return value


def _copy_with_gaps(value: np.ndarray) -> object:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    low, high = np.lib.array_utils.byte_bounds(value)
    span = np.empty(high - low, np.uint8)
    start = value.__array_interface__["data"][0] - low
    np.ndarray(value.shape, value.dtype, span, start, value.strides)[...] = value
    from numba import cuda

    there = cuda.to_device(span)
    return DeviceNDArray(
        value.shape, value.strides, value.dtype, gpu_data=there.gpu_data.view(start)
    )


def _places(kernel: Any, copies: list) -> Iterator[ArrayArgument]:
    names = parameter_names(kernel)
    for number, value in enumerate(copies):
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            continue
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        strides = interface.get("strides")
        if strides is None:
            strides = tuple(int(s) for s in np.cumprod((dtype.itemsize, *shape[:0:-1]))[::-1])
        name = names[number] if number < len(names) else f"argument {number}"
        with suppress(TypeError):  # an empty array has no address
            yield ArrayArgument(
                name, number, int(interface["data"][0]), shape, tuple(strides), dtype
            )

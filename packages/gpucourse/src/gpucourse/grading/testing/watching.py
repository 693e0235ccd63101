"""Checks of a launch, and the findings that the notebook and the grader report.

A kernel first runs in lockstep under the checkers, then again under random schedules. This module
does not depend on the kernel's origin: :func:`watched` gets a function that performs one launch.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime, PropertyFailed
from gpucourse.judging.orders import checked, order_matters
from virtualgpu import errors
from virtualgpu.api import TOLERANCE

# Explanations of the virtual GPU's errors for the author of a kernel.
MEANING = (
    (
        errors.MisalignedAddressError,
        "reads or writes at an address that is not aligned for its type",
    ),
    (errors.MemoryAccessError, "reads or writes outside its arrays"),
    (errors.EndlessError, "never finishes"),
    (errors.DeadlockError, "waits for ever at a barrier that some threads never reach"),
    (errors.BudgetExceeded, "never finishes"),
    (errors.BarrierError, "uses a barrier or an asynchronous copy incorrectly"),
    (errors.UnsupportedInstruction, "uses an instruction that the virtual GPU does not have"),
    (errors.LaunchError, "cannot be launched like this"),
    (errors.OutOfMemory, "needs more memory than the device has"),
    (errors.TrapError, "stopped at a failed assertion"),
)

LONGEST_MESSAGE = 4000
# Advice about the limits is for whoever sets them. In the grader that is not the kernel's author.
ADVICE_ON_LIMITS = re.compile(r" \(set VIRTUALGPU_\w+[^)]*\)")

# Reasons for different results; True if the order of threads cannot have caused the difference.
DIFFERS = {
    False: "the answer depends on the order in which threads run: something is not synchronised",
    True: "a second run with the same arguments gives a different answer",
}
NOT_ON_DEVICE = (
    "the result of '{name}' was computed on the host, not by a kernel: return data that a kernel "
    "wrote into device memory"
)
ANOTHER_COURSE = (
    "called a second time with the same arguments, the function reads data from the device that it "
    "did not read the first time"
)
NOT_HANDED_OVER = (
    "'{name}' computes on the host: its input never reaches the device. Copy the input to the "
    "device and let kernels do the work"
)
NOT_AS_IT_IS = (
    "the input of '{name}' never reaches the device unchanged: the host copies as many other "
    "numbers, computed from it (scaled? sorted?). Copy the values themselves, and let kernels do "
    "that work"
)
COMPILES_NOT = "the source of the kernel '{name}' does not compile"


@contextlib.contextmanager
def machine_at_work() -> Iterator[None]:
    """Turn unexpected exceptions of the virtual GPU into InfrastructureFault.

    Its own errors are about the kernel, and so is a lack of memory. Other exceptions are faults of
    the virtual GPU, which must not cost anybody points.
    """
    try:
        yield
    except (errors.VirtualGPUError, OutOfTestTime, InfrastructureFault, MemoryError):
        raise
    except Exception as error:
        raise InfrastructureFault(
            f"the virtual GPU failed on a kernel: {type(error).__name__}: {error}"
        ) from error


def explain(error: errors.VirtualGPUError, name: str) -> PropertyFailed:
    """Return an error of the virtual GPU as a failed property of the kernel `name`."""
    meaning = next((text for kind, text in MEANING if isinstance(error, kind)), "fails")
    told = ADVICE_ON_LIMITS.sub("", str(error)[:LONGEST_MESSAGE])
    return PropertyFailed(f"the kernel '{name}' {meaning}. {told}")


def watched(run: Callable[[list], None], name: str, args: tuple, schedules: int, seed: int) -> Any:
    """Launch once under the checkers and `schedules` times in random orders.

    Parameters
    ----------
    run
        Function that launches the kernel on a list of arguments and updates the arrays in it.
    args
        Arguments; arrays receive the output of the first launch, except read-only ones.
    seed
        Seed of the first random schedule; each later one adds 1.

    Returns the counters of the first launch. Raises PropertyFailed.
    """

    def once() -> list:
        copies = [np.array(value) if isinstance(value, np.ndarray) else value for value in args]
        run(copies)
        return copies

    try:
        with virtualgpu.profile() as profile:
            first, found, orderless = checked(once)
        if found is not None:
            raise PropertyFailed(f"the kernel '{name}': {found.message}")
        for given, got in zip(args, first, strict=True):
            if (
                isinstance(given, np.ndarray)
                and not given.flags.writeable
                and not _same(given, got)
            ):
                raise PropertyFailed(f"the kernel '{name}' changes its input")
        if order_matters(once, first, range(seed, seed + schedules), agree, orderless):
            raise PropertyFailed(f"the kernel '{name}': {DIFFERS[orderless]}")
    except errors.VirtualGPUError as error:
        raise explain(error, name) from None
    for given, got in zip(args, first, strict=True):
        if isinstance(given, np.ndarray) and given.flags.writeable:
            given[...] = got
    return profile.launches[0].counters if profile.launches else None


def agree(one: object, other: object) -> bool:
    """Return True if two results differ at most by the rounding of reordered sums."""
    if one is other:
        return True  # an Awkward Array, which no kernel can change
    if isinstance(one, (list, tuple)):
        return (
            isinstance(other, (list, tuple))
            and len(one) == len(other)
            and all(agree(a, b) for a, b in zip(one, other, strict=True))
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(agree(one[key], other[key]) for key in one)
        )
    if isinstance(one, (str, bool, type(None))) or isinstance(other, (str, bool, type(None))):
        return type(one) is type(other) and one == other
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc" or a.size == 0:
        return _same(a, b)
    width = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
    tolerance = TOLERANCE.get(width, 1e-9)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.isclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True).all())


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()

"""Launches in native code: their conditions, and the run."""

from __future__ import annotations

import gc
import math
import os
import threading
import time
import warnings

from virtualgpu import logs
from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.schedule import Lockstep
from virtualgpu.lanes.wave import MAX_LOCAL
from virtualgpu.launch.launch import Launch
from virtualgpu.native import record
from virtualgpu.native.blocks.core import given, hearing_signals
from virtualgpu.native.blocks.multicore import Run
from virtualgpu.native.blocks.resident_blocks import ResidentRun
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.refusal import Refused
from virtualgpu.program.program import Program
from virtualgpu.signal_handlers import raised_by_handler

# True if an error inside the compiler is raised, as the tests need; users get the interpreter.
STRICT = os.environ.get("VIRTUALGPU_NATIVE") == "always"

_lock = threading.Lock()


def natively(launch: Launch, first: int = 0) -> bool:
    """Run the blocks from ``first`` on in native code if possible.

    Returns False if nothing has been done.
    """
    with hearing_signals(launch):
        return _natively(launch, first)


def _natively(launch: Launch, first: int) -> bool:
    if not isinstance(launch.schedule, Lockstep) or not math.isinf(launch.budget.instructions):
        launch.native.refusal = "a schedule or an instruction limit is set"
        return False
    found = [observer.has_found() for observer in launch.observers]
    if found and None not in found:
        if any(found) and launch.program.watching is None:
            launch.program.watching = "faults were found in it"
        checked = not any(found) and _checked(launch, first)
        if not checked:
            launch.native.refusal = _reason(launch.program.watching)
        return checked
    counts = bool(launch.observers)
    if counts and not _can_be_counted(launch.observers):
        launch.native.refusal = "its observers follow every instruction"
        return False
    start = time.thread_time()
    kernel = _kernel(launch.program, counts)
    launch.deadline += time.thread_time() - start  # compiling is not limited
    if (
        kernel is None
        or kernel.record.local_size > MAX_LOCAL
        or (kernel.record.grid_barrier and not launch.cooperative)
    ):
        launch.native.refusal = _reason(
            launch.program.counting if counts else launch.program.native
        )
        return False
    run = (ResidentRun if kernel.record.parked else Run)(launch, kernel)
    if counts:
        run.count(launch.observers[0].counts(kernel, first))
    try:
        run.run(first)
    finally:
        if run.counts is not None:
            launch.observers[0].counted(kernel, run.counts)
    return True


def _reason(known: object) -> str:
    """Return the reason why a program has no native code, for the log."""
    return f"native code refuses it: {known}" if isinstance(known, str) else "memory is too small"


def _checked(launch: Launch, first: int) -> bool:
    """Run the blocks under the checkers.

    Returns False, with memory restored, if a checker may have a finding.
    """
    from virtualgpu.native.watched_launch import Suspicion, Watch, Watched, space_of

    start = time.thread_time()
    kernel = _kernel(launch.program, False, watches=True)
    if kernel is None or kernel.record.local_size > MAX_LOCAL:
        return False
    space = space_of(launch.memory)
    if space is None:
        return False
    given(launch, kernel.record.given)
    while True:
        watch = Watch(launch, kernel, space, first)
        launch.deadline += time.thread_time() - start
        start = time.thread_time()
        try:
            Watched(launch, kernel, watch).run(first)
        except Suspicion:
            watch.undo()
            if not (allocations := watch.to_track()):
                launch.program.watching = "a checker may have something to report"
                launch.deadline += time.thread_time() - start
                return False
            assert kernel.checked is not None
            kernel.checked.tracked.update(allocations)
        except BaseException:
            watch.settle()
            raise
        else:
            watch.settle()
            return True


def is_on_disk(launch: Launch) -> bool:
    """Return True if an earlier process stored this launch's native code, or its refusal.

    The answer is cached per program.
    """
    variant = _variant(launch.observers)
    known = launch.program.on_disk
    if variant not in known:
        known[variant] = record.is_kept(launch.program, variant)
    return known[variant]


def _variant(observers: list[Observer]) -> str:
    if not observers:
        return "native"
    return "counting" if _can_be_counted(observers) else "watching"


def _can_be_counted(observers: list[Observer]) -> bool:
    """Return True if native code can count for the observer, so that it needs no events."""
    return len(observers) == 1 and type(observers[0]).counts is not Observer.counts


def _kernel(program: Program, counts: bool, watches: bool = False) -> NativeKernel | None:
    """Return the program's native code, compiled on first use, or None if there is none."""
    variant = "counting" if counts else "watching" if watches else "native"
    with _lock:
        if getattr(program, variant) is None:
            setattr(program, variant, _code(program, variant))
    kernel = getattr(program, variant)
    return kernel if isinstance(kernel, NativeKernel) else None


def _code(program: Program, variant: str) -> NativeKernel | str:
    """Return the native code, or the reason why there is none."""
    collects = gc.isenabled()
    try:
        known = record.fetch(program, variant)
        if known is None:
            # Generating LLVM creates 50,000 objects, which could trigger a full garbage collection:
            # 0.2 s if Numba is loaded.
            gc.disable()
            from virtualgpu.native.kernel import build  # 20 ms, saved for kernels on disk

            try:
                with logs.timed("native code of kernel %s (%s) compiled", program.display, variant):
                    known = build(program, variant)
            except (Refused, UnsupportedInstruction) as refusal:
                known = str(refusal) or "refused"
                logs.logger.info("native code refuses kernel %s: %s", program.display, known)
            record.keep(program, variant, known)
        return known if isinstance(known, str) else NativeKernel(program, known)
    except Exception as error:  # an unexpected case, which the interpreter can run
        if STRICT or raised_by_handler(error):
            raise
        warnings.warn(
            f"the kernel {program.display!r} cannot be compiled to native code ({error!r}), so "
            "it runs more slowly: please report this",
            RuntimeWarning,
            stacklevel=2,
        )
        return repr(error)
    finally:
        if collects:
            gc.enable()

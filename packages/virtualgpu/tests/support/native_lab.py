"""A kernel on native code and in the interpreter, side by side."""

from __future__ import annotations

import signal
import struct
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from virtualgpu import native
from virtualgpu.errors import VirtualGPUError
from virtualgpu.findings import Report
from virtualgpu.launch.conditions import Conditions
from virtualgpu.launch.launch import Launch, NativeCode
from virtualgpu.launch.limits import Budget
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.watch.instruments import checkers
from virtualgpu.watch.profiling import Profile, Profiler


class Loaded:
    """A module whose kernel ``k`` is launched many times, each time on arrays as they are given.

    It takes the arrays' addresses, then the launch's ``numbers`` of 64 bits.
    """

    def __init__(self, text: str, arrays: Sequence[np.ndarray]):
        self.memory = GlobalMemory(1 << 28)
        self.program = LoadedModule(self.memory, [text], None).program("k", False)
        self.places = [self.memory.allocate(array.nbytes) for array in arrays]
        self.arrays = arrays

    def run(
        self,
        native,
        grid=2,
        block=64,
        shared=0,
        seconds=10.0,
        cores=1,
        cooperative=False,
        observers=(),
        numbers=(),
    ) -> tuple[list[np.ndarray], VirtualGPUError | None]:
        """The arrays after a launch, and its error."""
        for place, array in zip(self.places, self.arrays, strict=True):
            self.memory.write(place, array)
        launch = Launch(
            self.memory,
            self.program,
            (grid, 1, 1),
            block if isinstance(block, tuple) else (block, 1, 1),
            [struct.pack("<Q", one) for one in (*self.places, *numbers)],
            shared,
            cooperative,
            native=NativeCode(native, cores),
            conditions=Conditions(list(observers), budget=Budget(seconds=seconds)),
        )
        error = None
        try:
            launch.run()
        except VirtualGPUError as problem:
            error = problem
        return [
            self.memory.read(p, a.nbytes) for p, a in zip(self.places, self.arrays, strict=True)
        ], error


def after(text: str, native, arrays, observers=(), **options):
    """The arrays after a launch of ``k``, the error's words or None, and the native code."""
    loaded = Loaded(text, arrays)
    contents, error = loaded.run(native, observers=observers, **options)
    program = loaded.program
    return (
        contents,
        None if error is None else str(error),
        (program.counting if observers else program.native),
    )


def counted(text: str, native, arrays, **options):
    """What ``profile()`` says of a launch, and the native code."""
    profile = Profile()
    _, error, code = after(text, native, arrays, observers=[Profiler(profile)], **options)
    (launch,) = profile.launches
    return launch, error, code


def agree(text: str, *arrays: np.ndarray, refused: bool = False, **options) -> None:
    there, wrong, _ = after(text, None, arrays, **options)
    here, error, code = after(text, native.natively, arrays, **options)
    assert isinstance(code, str) is refused, code if isinstance(code, str) else "it compiles"
    assert error == wrong
    if wrong is None:
        for ours, theirs in zip(here, there, strict=True):
            assert (ours == theirs).all()


def checked(
    text: str,
    native,
    arrays,
    empty: tuple[int, ...] = (),
    grid=2,
    block=64,
    launches=1,
    shared=0,
    numbers=(),
):
    """What ``check()`` reports of launches of ``k``; the arrays after them, how many bytes of each
    count as unwritten, the error's words, and the native code or why there is none. The arrays
    whose numbers are in ``empty`` are not written before."""
    memory = GlobalMemory(1 << 28)
    program = LoadedModule(memory, [text], None).program("k", False)
    places = [memory.allocate(array.nbytes) for array in arrays]
    for number, array in enumerate(arrays):
        if number not in empty:
            memory.write(places[number], array)
    report, error = Report(), None
    with checkers(report) as observers:
        for _ in range(launches):
            launch = Launch(
                memory,
                program,
                (grid, 1, 1),
                (block, 1, 1),
                [struct.pack("<Q", one) for one in (*places, *numbers)],
                shared,
                native=NativeCode(native),
                conditions=Conditions(list(observers), budget=Budget(seconds=20.0)),
            )
            try:
                launch.run()
            except VirtualGPUError as problem:
                error = str(problem)
    contents = [memory.read(p, a.nbytes).tobytes() for p, a in zip(places, arrays, strict=True)]
    left = [memory.unwritten[p].left if p in memory.unwritten else 0 for p in places]
    return (
        str(report),
        [(f.kind, f.line, f.count) for f in report.findings],
        contents,
        left,
        error,
    ), program.watching


def interrupt_when(there: Callable[[], bool], delay: float = 0.0) -> threading.Thread:
    """A thread that presses Ctrl-C ``delay`` seconds after ``there()`` holds: how long a busy
    machine takes to compile, a clock does not know. After a minute it does so in any case."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not there() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(delay)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread

"""Exceptions of signal handlers, in code that makes something else of exceptions."""

from __future__ import annotations

import functools
import signal
import sys

import numpy as np
import pytest

from ptx_lab import entry
from virtualgpu.compilers import cache
from virtualgpu.devices import VirtualDevice
from virtualgpu.devices.child import Child
from virtualgpu.native import kernel as native_kernel
from virtualgpu.program import decode
from virtualgpu.signal_handlers import raised_by_handler


class Late(Exception):
    pass


def late(number, frame):
    raise Late


def timeout(number, frame):
    raise TimeoutError


class Object:
    def __call__(self, *_):
        raise Late

    def method(self, number, frame):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # another before it raises
        raise ValueError("late")


HANDLERS = {
    "function": late,
    "any arguments": lambda *_: late(None, None),
    "partial": functools.partial(lambda why, number, frame: late(number, frame), "why"),
    "object": Object(),
    "method that is replaced": Object().method,
    "SystemExit": lambda *_: sys.exit(3),
}


@pytest.fixture
def interrupt():
    """Press a signal whose handler is given."""
    before = signal.getsignal(signal.SIGUSR1)

    def press(handler=late):
        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)
        raise AssertionError("the handler raises")

    yield press
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_handlers_of_every_form_are_found(handler, interrupt):
    with pytest.raises((Late, ValueError, SystemExit)) as caught:
        interrupt(handler)
    assert raised_by_handler(caught.value)


def test_errors_of_called_functions_are_no_handlers():
    def fails(number, *more):
        raise ValueError(number, more)

    with pytest.raises(ValueError, match="3") as caught:
        fails(3, object(), (1, 2))
    assert not raised_by_handler(caught.value)
    assert not raised_by_handler(ValueError())


class Going:
    """Presses a signal as it goes: Python gives what ``__del__`` raises to nobody."""

    def __init__(self, press):
        self.press = press

    def __del__(self):
        self.press()


@pytest.mark.parametrize("where", ["in the compiler", "as an object goes", "on the disk"])
def test_native_compiling_passes_it_on(where, interrupt, monkeypatch, tmp_path):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path))
    device = VirtualDevice(1 << 20)
    module = device.load(entry("st.global.u32 [%rd1], 7;", 1))
    place = device.allocate(4)
    device.fill(place, 0, 4)

    def launch() -> None:
        device.launch(module, "k", (1, 1, 1), (1, 1, 1), [place.to_bytes(8, "little")])

    build, error = native_kernel.build, Late
    with monkeypatch.context() as patch:
        if where == "in the compiler":
            patch.setattr(native_kernel, "build", lambda *_: interrupt())
        elif where == "on the disk":
            error = TimeoutError
            patch.setattr(cache.os, "replace", lambda *_: interrupt(timeout))
        else:
            patch.setattr(native_kernel, "build", lambda *given: Going(interrupt) and build(*given))
        with pytest.raises(error):
            launch()
    launch()
    assert int(device.read(place, 4).view("u4")[0]) == 7
    assert not isinstance(module.program("k", False).native, str)


def test_reading_ptx_passes_it_on(interrupt, monkeypatch):
    monkeypatch.setattr(decode, "traits", lambda *_: interrupt())
    with pytest.raises(Late):
        VirtualDevice(1 << 20).load(entry("")).program("k", False)


def test_waiting_for_another_process_passes_it_on_and_ends_it(monkeypatch, tmp_path):
    (tmp_path / "never_answers.py").write_text("import sys; sys.stdin.read()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = Child("never_answers", called="the process")
    before = signal.signal(signal.SIGALRM, timeout)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError):
            child.ask({})
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not child.runs


def test_numba_compiling_passes_it_on(interrupt, monkeypatch, cuda):
    from numba.cuda.debuginfo import DIBuilder

    write = DIBuilder._di_file
    with monkeypatch.context() as patch:

        def interrupted(self):
            patch.undo()
            interrupt()

        patch.setattr(DIBuilder, "_di_file", interrupted)
        kernel = cuda.jit(lambda x: None)
        with pytest.raises(Late):
            kernel[1, 1](np.zeros(1))
    assert DIBuilder._di_file is write
    kernel[1, 1](np.zeros(1))

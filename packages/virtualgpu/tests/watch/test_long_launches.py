"""Launches that take long or for ever: who is told where they are, and what they may use."""

from __future__ import annotations

import signal
import time

import pytest

import virtualgpu
from ptx_lab import entry, launch
from virtualgpu import devices
from virtualgpu.errors import BudgetExceeded
from virtualgpu.launch.limits import Budget
from virtualgpu.watch import instruments

ENDLESS = (
    entry("""
    .loc 1 41 1
    mov.u32 %r1, 0;
    Again:
    .loc 1 42 1
    add.u64 %rd1, %rd1, 1; setp.ne.u64 %p1, %rd1, 0; @%p1 bra Again;""")
    + '\n.file 1 "kernel.cu"\n'
)


@pytest.fixture(params=["0", "always"], ids=["interpreted", "native"], autouse=True)
def machine(request, monkeypatch):
    """What is told is the same, whichever machine runs."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", request.param)


def endless(seconds: float) -> None:
    with devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(seconds=seconds))):
        launch(ENDLESS, block=64)


@pytest.fixture
def heard(monkeypatch):
    told: list[tuple[str, float]] = []
    monkeypatch.setattr(instruments, "LONG", 0.05)
    instruments.tell_of_long_launches(lambda place, seconds: told.append((str(place), seconds)))
    yield told
    instruments.tell_of_long_launches(None)


def test_a_long_launch_tells_where_it_is_after_twice_as_long_each_time(heard):
    with pytest.raises(BudgetExceeded):
        endless(0.5)
    assert [seconds for _, seconds in heard][:3] == [0.05, 0.1, 0.2]
    assert all("kernel.cu line 42, thread 0 of block 0" in place for place, _ in heard)


def test_a_quick_launch_tells_nothing(heard, monkeypatch):
    monkeypatch.setattr(instruments, "LONG", 60.0)  # on a busy machine, native code takes its time
    launch(entry(""))
    assert heard == []


def test_a_launch_in_a_hurry_is_stopped_sooner():
    with pytest.raises(BudgetExceeded):
        endless(0.01)  # the machine compiles its own loops at the first launch
    begin = time.thread_time()
    with instruments.hurried(1 / 12), pytest.raises(BudgetExceeded, match=r"(?s)for 0\.2 s.*42"):
        endless(2.4)
    assert time.thread_time() - begin < 2
    assert instruments.next_launch(Budget(seconds=3)).budget.seconds == 3


def test_a_stopped_launch_says_where_it_was(monkeypatch):
    def stop(place, seconds):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(instruments, "LONG", 0.05)
    instruments.tell_of_long_launches(stop)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            endless(10)
    finally:
        instruments.tell_of_long_launches(None)
        signal.signal(signal.SIGINT, before)
    assert caught.value.__notes__ == ["stopped in kernel k, kernel.cu line 42, thread 0 of block 0"]

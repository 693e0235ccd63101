"""When a device's launches leave the interpreter for native code, and that nothing but the
speed tells: the same bytes, the same words."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from native_lab import interrupt_when
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.compilers import llvm
from virtualgpu.devices import VirtualDevice, changeover
from virtualgpu.errors import VirtualGPUError
from virtualgpu.launch.launch import WAVE_LANES, Launch
from virtualgpu.launch.limits import Budget
from virtualgpu.native import kernel
from virtualgpu.native.blocks import core
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.refusal import Refused
from virtualgpu.watch.instruments import check, profile, schedule

ADD = entry(
    "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; ld.global.u32 %r1, [%rd3];"
    "add.u32 %r1, %r1, %gid; st.global.u32 [%rd3], %r1;",
    1,
)


@pytest.fixture(autouse=True)
def by_default(monkeypatch):
    monkeypatch.delenv("VIRTUALGPU_NATIVE", raising=False)


@pytest.fixture
def first_blocks(monkeypatch) -> list[int]:
    """From which block on native code ran, launch by launch."""
    seen = []
    original = native.natively

    def spy(launch, first):
        done = original(launch, first)
        seen.extend([first] * done)
        return done

    monkeypatch.setattr(native, "natively", spy)
    return seen


class Kernel:
    """``k`` of a module on a device of its own, with one array."""

    def __init__(self, text: str, count: int, seconds: float = 30.0):
        self.device = VirtualDevice(1 << 26, Budget(seconds=seconds))
        self.module = self.device.load(text)
        self.place = self.device.allocate(4 * count)
        self.device.fill(self.place, 0, 4 * count)
        self.count = count

    def __call__(self, blocks: int, threads: int) -> np.ndarray:
        self.device.launch(
            self.module, "k", (blocks, 1, 1), (threads, 1, 1), [self.place.to_bytes(8, "little")]
        )
        return self.device.read(self.place, 4 * self.count).view(np.uint32)

    @property
    def native(self) -> object:
        return self.module.program("k", False).native


def test_a_small_launch_is_interpreted(first_blocks):
    kernel = Kernel(ADD, 64)
    for _ in range(3):
        kernel(2, 32)
    assert kernel.native is None
    assert not first_blocks


def test_a_long_launch_changes_over_between_two_waves(first_blocks, monkeypatch):
    monkeypatch.setattr(changeover, "WORTH", 30_000)
    wave = WAVE_LANES // 256
    kernel = Kernel(ADD, 10 * WAVE_LANES)
    assert kernel(10 * wave, 256).tolist() == list(range(10 * WAVE_LANES))
    assert first_blocks[0] % wave == 0 and 0 < first_blocks[0] < 10 * wave
    assert isinstance(kernel.native, NativeKernel)
    assert kernel(10 * wave, 256).tolist() == [2 * i for i in range(10 * WAVE_LANES)]
    assert first_blocks[1:] == [0]


def test_what_is_seen_to_come_counts(first_blocks, monkeypatch):
    """After the first wave the launch's others are in sight, and so is the same launch again."""
    wave = WAVE_LANES // 256
    probe = Kernel(ADD, 10 * WAVE_LANES)
    probe(wave, 256)
    length = probe.module.program("k", False).length
    monkeypatch.setattr(changeover, "WORTH", 9 * probe.module.program("k", False).work // length)
    kernel = Kernel(ADD, 10 * WAVE_LANES)
    kernel(10 * wave, 256)
    assert first_blocks == [wave]
    first_blocks.clear()
    kernel = Kernel(ADD, 10 * WAVE_LANES)
    for _ in range(3):
        kernel(4 * wave, 256)
    # 4 waves; 4 more make 8, which falls short of 9; 8 done and 4 to come pay.
    assert first_blocks == [0]
    assert kernel(4 * wave, 256)[-1] == 0


def test_the_same_launches_always_change_over_at_the_same_block(first_blocks, monkeypatch):
    monkeypatch.setattr(changeover, "WORTH", 60_000)
    for _ in range(3):
        Kernel(ADD, 6 * WAVE_LANES)(6 * WAVE_LANES // 64, 64)
    assert len(first_blocks) == 3 and len(set(first_blocks)) == 1


@pytest.mark.parametrize("asked", ["0", "always"])
def test_the_environment_decides(asked, first_blocks, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", asked)
    monkeypatch.setattr(changeover, "WORTH", 10 if asked == "0" else 1 << 60)
    kernel = Kernel(ADD, 64)
    kernel(2, 32)
    kernel(2, 32)
    assert first_blocks == ([] if asked == "0" else [0, 0])


def test_a_small_check_after_long_launches_is_interpreted(first_blocks, monkeypatch):
    monkeypatch.setattr(changeover, "WORTH", 0)
    kernel = Kernel(ADD, 64)
    kernel(2, 32)
    assert first_blocks == [0]
    with check():
        kernel(2, 32)
    assert first_blocks == [0]
    assert kernel.module.program("k", False).watching is None


def test_a_long_check_changes_over_between_two_waves(first_blocks, monkeypatch):
    monkeypatch.setattr(changeover, "WATCHED", 30_000)
    wave = WAVE_LANES // 256
    kernel = Kernel(ADD, 10 * WAVE_LANES)
    with check() as report:
        assert kernel(10 * wave, 256).tolist() == list(range(10 * WAVE_LANES))
    assert report.ok
    assert first_blocks[0] % wave == 0 and 0 < first_blocks[0] < 10 * wave
    assert isinstance(kernel.module.program("k", False).watching, NativeKernel)
    assert kernel.native is None


def test_an_array_may_be_freed_while_a_launch_is_watched(monkeypatch):
    """Python's collector runs when it likes: an array of an earlier launch goes meanwhile."""
    monkeypatch.setattr(changeover, "WATCHED", 30_000)
    kernel = Kernel(ADD, 10 * WAVE_LANES)
    earlier = kernel.device.allocate(256)
    kernel.device.fill(earlier, 0, 256)
    original = native.natively

    def collected(launch, first):
        kernel.device.free(earlier)
        monkeypatch.setattr(native, "natively", original)
        return original(launch, first)

    with check() as report:
        kernel.device.launch(
            kernel.module, "k", (2, 1, 1), (32, 1, 1), [earlier.to_bytes(8, "little")]
        )
        monkeypatch.setattr(native, "natively", collected)
        sums = kernel(10 * WAVE_LANES // 256, 256)
    assert sums.tolist() == list(range(10 * WAVE_LANES))
    assert native.natively is original
    assert report.ok


def test_under_a_random_schedule_nothing_is_compiled(first_blocks, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    kernel = Kernel(ADD, 64)
    with check(), schedule(3):
        kernel(2, 32)
    assert not first_blocks
    assert kernel.module.program("k", True).watching is None


def test_a_kernel_with_faults_is_not_compiled_for_check(first_blocks, monkeypatch):
    """Where they are found before the work has paid for it."""
    monkeypatch.setattr(changeover, "WATCHED", 30_000)
    kernel = Kernel(ADD.replace("st.global.u32 [%rd3]", "st.global.u32 [%rd1]"), 64 * WAVE_LANES)
    with check() as report:
        kernel(10 * WAVE_LANES // 256, 256)
    assert not report.ok and not first_blocks
    assert "faults" in kernel.module.program("k", False).watching


# Each thread adds 1 to its element 5,000 times, which a launch that begins again must not do twice.
ROUNDS = 5_000
COUNT = entry(
    "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; mov.u32 %r2, 0;"
    "Next: ld.global.u32 %r1, [%rd3]; add.u32 %r1, %r1, 1; st.global.u32 [%rd3], %r1;"
    f"add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {ROUNDS}; @%p1 bra Next;",
    1,
)


@pytest.fixture
def cheap(monkeypatch):
    """Compiling is worth a hundredth of what :data:`COUNT` does."""
    monkeypatch.setattr(changeover, "WORTH", 30_000)


def test_a_long_first_wave_begins_again(cheap, first_blocks):
    kernel = Kernel(COUNT, 64)
    before = np.arange(64, dtype=np.uint32)
    kernel.device.write(kernel.place, before)
    assert kernel(2, 32).tolist() == (before + ROUNDS).tolist()
    assert first_blocks == [0]
    program = kernel.module.program("k", False)
    assert program.work < 2 * 30_000 * program.length
    assert kernel(2, 32).tolist() == (before + 2 * ROUNDS).tolist()


def test_it_begins_again_once(cheap, monkeypatch):
    """Where native code turns out to be none, the interpreter runs the launch to its end; what was
    taken back is no part of its work."""
    monkeypatch.setattr(native, "natively", lambda launch, first: False)
    work = []
    for begins in (True, False):
        if not begins:
            monkeypatch.setenv("VIRTUALGPU_NATIVE", "0")
        kernel = Kernel(COUNT, 64)
        assert kernel(2, 32).tolist() == [ROUNDS] * 64
        program = kernel.module.program("k", False)
        work.append(program.latest[-1])
        assert (program.work > work[-1]) == begins
    assert work[0] == work[1]


def test_a_check_after_native_launches_begins_again(cheap, cheap_to_watch, first_blocks):
    """Launches that native code ran whole do not tell how much work the next one is."""
    kernel = Kernel(COUNT, 64)
    for _ in range(3):
        kernel(2, 32)
    with check() as report:
        assert kernel(2, 32).tolist() == [4 * ROUNDS] * 64
    assert report.ok
    assert first_blocks == [0] * 4


def test_what_was_printed_is_printed_once(cheap, first_blocks, capsys):
    kernel = Kernel(
        COUNT.replace(
            "mov.u32 %r2, 0;",
            "mov.u32 %r2, 0; mov.u64 %rd4, words; cvta.global.u64 %rd4, %rd4;"
            "mov.u64 %rd5, 0; { .param .b64 a; .param .b64 b; .param .b32 c;"
            "st.param.b64 [a], %rd4; st.param.b64 [b], %rd5;"
            "call.uni (c), vprintf, (a, b); }",
        ).replace(
            ".visible .entry",
            ".extern .func (.param .b32 c) vprintf (.param .b64 a, .param .b64 b);"
            ".global .align 1 .b8 words[4] = {104, 105, 10, 0};\n.visible .entry",
        ),
        64,
    )
    assert kernel(1, 32)[:32].tolist() == [ROUNDS] * 32
    assert capsys.readouterr().out == "hi\n" * 32


@pytest.mark.parametrize("way", ["another thread", "mapped memory", "no room"])
def test_it_does_not_begin_again_where_others_would_see_it(way, cheap, first_blocks, monkeypatch):
    kernel = Kernel(COUNT, 64)
    other = ThreadPoolExecutor(1)  # its thread lives as long as the test
    if way == "another thread":
        other.submit(kernel.device.fill, kernel.place, 0, 4).result()
    elif way == "mapped memory":
        kernel.device.host_view(kernel.place, 4)
    else:
        monkeypatch.setattr(changeover, "COPYING", 1e9)
    assert kernel(2, 32).tolist() == [ROUNDS] * 64
    assert not first_blocks
    assert kernel(2, 32).tolist() == [2 * ROUNDS] * 64
    assert first_blocks == [0]
    other.shutdown()


def test_a_thread_that_comes_in_the_midst_keeps_what_it_wrote(cheap, first_blocks, monkeypatch):
    kernel = Kernel(COUNT, 64)
    beside = kernel.device.allocate(4)
    spend = Launch.spend
    writes = threading.Thread(target=kernel.device.fill, args=(beside, 7, 4))

    def now(launch, *what):
        if not writes.ident:
            writes.start()
            writes.join()
        spend(launch, *what)

    monkeypatch.setattr(Launch, "spend", now)
    assert kernel(2, 32).tolist() == [ROUNDS] * 64
    assert kernel.device.read(beside, 4).tolist() == [7] * 4
    assert not first_blocks


@pytest.fixture
def cheap_to_watch(monkeypatch):
    monkeypatch.setattr(changeover, "WATCHED", 30_000)
    monkeypatch.setattr(changeover, "COPYING", 0.0)


def test_a_check_begins_again(cheap_to_watch, first_blocks):
    kernel = Kernel(COUNT, 64)
    with check() as report:
        assert kernel(2, 32).tolist() == [ROUNDS] * 64
    assert report.ok and report.launches == 1
    assert first_blocks == [0]
    assert not any(state.left for state in kernel.device.memory.unwritten.values())


@pytest.mark.parametrize("begins", [True, False])
def test_what_it_found_stays_and_what_comes_is_found(begins, cheap_to_watch, first_blocks):
    """A read of unwritten memory before the loop keeps it from beginning again; one after not."""
    read = "ld.global.u32 %r3, [%rd1 + 1024];"
    text = COUNT.replace("mov.u32 %r2, 0;", f"mov.u32 %r2, 0; {read}")
    if begins:
        text = COUNT.replace("@%p1 bra Next;", f"@%p1 bra Next; {read}")
    kernel = Kernel(text, 64)
    kernel.device.free(kernel.place)
    kernel.place = kernel.device.allocate(2048)
    kernel.device.fill(kernel.place, 0, 256)
    with check() as report:
        assert kernel(2, 32).tolist() == [ROUNDS] * 64
    assert [finding.kind for finding in report.findings] == ["uninitialised"], report
    assert report.findings[0].count == 64


def test_a_profile_begins_again(cheap_to_watch, first_blocks, monkeypatch):
    counted = []
    for native_code in ("0", None):
        if native_code:
            monkeypatch.setenv("VIRTUALGPU_NATIVE", native_code)
        else:
            monkeypatch.delenv("VIRTUALGPU_NATIVE")
        kernel = Kernel(COUNT, 64)
        with profile() as found:
            kernel(2, 32)
        counted.append(found.counters)
    assert first_blocks == [0]
    assert counted[0] == counted[1]


def test_code_that_is_on_disk_has_a_price_of_its_own(first_blocks, monkeypatch, tmp_path):
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path))
    monkeypatch.setattr(changeover, "LOADING", 1_000_000)
    monkeypatch.setattr(changeover, "WORTH", 1 << 60)
    assert Kernel(COUNT, 64)(2, 32)[0] == ROUNDS
    assert not first_blocks  # to compile it would not pay
    monkeypatch.setattr(changeover, "WORTH", 30_000)
    assert Kernel(COUNT, 64)(2, 32)[0] == ROUNDS
    monkeypatch.setattr(changeover, "WORTH", 1 << 60)
    kernel = Kernel(COUNT, 64)
    assert kernel(2, 32)[0] == ROUNDS
    assert first_blocks == [0, 0]
    assert kernel.module.program("k", False).work < 2_000_000


ENDLESS = entry("Again: add.u64 %rd9, %rd9, 1; setp.ne.u64 %p1, %rd9, 0; @%p1 bra Again;", 1)


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1])
def test_control_c_stops_native_code(delay, monkeypatch):
    """The signal arrives as native code begins, or a while later."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    kernel = Kernel(ENDLESS, 64, seconds=3.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = interrupt_when(lambda: kernel.native is not None, delay)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(1, 32)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert isinstance(kernel.native, NativeKernel)


class Interrupting:
    """Presses Ctrl-C as it goes: Python gives what ``__del__`` raises to nobody."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("moment", ["compiled", "refused", "about to begin"])
def test_control_c_is_heard_before_the_kernel_begins(moment, monkeypatch):
    """Where an object goes between the compiler's end and the kernel's first turn."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    monkeypatch.setenv("VIRTUALGPU_CACHE", "0")  # or there were nothing to compile
    where, name = (core.Common, "__init__") if moment == "about to begin" else (kernel, "build")
    original = getattr(where, name)

    def then_interrupt(*given):
        Interrupting()
        if moment == "refused":
            raise Refused(moment)
        return original(*given)

    monkeypatch.setattr(where, name, then_interrupt)
    endless = Kernel(ENDLESS, 64, seconds=3.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            endless(1, 32)
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.__notes__[0].startswith("stopped in ")
    assert isinstance(endless.native, NativeKernel) == (moment != "refused")


class Last:
    """Python gives what ``__del__`` raises to nobody."""

    def __del__(self):
        raise KeyboardInterrupt


def test_control_c_as_an_object_goes_stops_native_code(monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    kernel = Kernel(ENDLESS, 64, seconds=3.0)
    note, objects = core.Core._note, [Last()]

    def with_an_object(self):
        note(self)
        objects.clear()

    monkeypatch.setattr(core.Core, "_note", with_an_object)
    with pytest.raises(KeyboardInterrupt):
        kernel(1, 32)


FAILING = {
    "past the end": ADD,
    "misaligned": ADD.replace(
        "st.global.u32 [%rd3]",
        "setp.eq.u32 %p1, %gid, 70000;@%p1 add.u64 %rd3, %rd3, 1; st.global.u32 [%rd3]",
    ),
    "a trap": ADD.replace("st.global", "setp.eq.u32 %p1, %gid, 70000; @%p1 trap; st.global"),
    "without end": ADD.replace(
        "st.global", "setp.eq.u32 %p1, %gid, 70000;\n.loc 1 77 1\nAgain: @%p1 bra Again; st.global"
    )
    + '\n.file 1 "k.py"\n',
}


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_errors_after_the_change_have_the_same_words(text, first_blocks, monkeypatch):
    words = []
    for worth in (1 << 60, 30_000):
        monkeypatch.setattr(changeover, "WORTH", worth)
        kernel = Kernel(text, 80_000 if text is ADD else 3 * WAVE_LANES, seconds=0.4)
        with pytest.raises(VirtualGPUError) as error:
            kernel(3 * WAVE_LANES // 128, 128)
        words.append(str(error.value))
    assert isinstance(kernel.native, NativeKernel)
    assert words[0] == words[1]


def test_a_device_that_does_not_compile_hands_llvm_nothing_of_a_kernel(monkeypatch):
    """It calls operations, which are the same for all: the grader's device relies on that."""
    kernel = Kernel(
        entry(
            "ld.global.u32 %r2, [%rd1]; mov.b32 %r1, 0; mov.b32 %r3, 0; Next:"
            "add.u32 %r1, %r1, 1; mad.lo.u32 %r3, %r1, %tid, %r3;"
            "setp.lt.u32 %p1, %r1, %r2; @%p1 bra Next;"
            "mad.wide.u32 %rd1, %tid, 4, %rd1; st.global.u32 [%rd1], %r3;",
            1,
        ),
        32,
    )
    kernel.device.compiles = False
    given, original = [], llvm.linkable
    monkeypatch.setattr(llvm, "linkable", lambda *what: given.append(what) or original(*what))
    for rounds in (1, 1_200):
        kernel.device.write(kernel.place, np.array([rounds], np.uint32))
        assert kernel(1, 32)[2] == rounds * (rounds + 1)
        if rounds == 1:
            given.clear()
    assert not given

"""Launches recorded, linked, played again, and compared: what differs is named or excused."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial

import numpy as np
import pytest

import virtualgpu
from gpu_launches import launches, of_cpp
from lab.gpu_check import replay
from virtualgpu.devices import VirtualDevice, comparison
from virtualgpu.devices.real import cubin
from virtualgpu.devices.real.process import VIRTUAL, GPUFault, GPUProcess
from virtualgpu.devices.recorded import Piece, RecordedLaunch, play
from virtualgpu.errors import LinkError

pytestmark = pytest.mark.rehearsal

NAMES = ("exact", "approximate", "total", "collect", "racing", "fused")


@pytest.mark.parametrize("name", NAMES)
def test_a_launch_comes_out_the_same_from_its_file(name, tmp_path):
    launch = launches()[name]
    launch.note = "a note"
    launch.save(tmp_path / "it.npz")
    again = RecordedLaunch.load(tmp_path / "it.npz")
    assert (again.note, again.parameters, str(again)) == ("a note", launch.parameters, str(launch))
    # Another device has the arrays at other addresses.
    other = VirtualDevice()
    other.allocate(5 << 20)
    found = comparison.compare(again, play(again, other))
    assert found.verdict == comparison.EQUAL, found


def changed(launch: RecordedLaunch, element: int, change) -> list[np.ndarray]:
    """What the record says, with one number of the last array that was written changed."""
    after = [piece.after.copy() for piece in launch.pieces]
    number = max(
        n
        for n, piece in enumerate(launch.pieces)
        if not np.array_equal(piece.before, piece.after) and len(piece.after) > 4
    )
    numbers = after[number].view(np.float32 if launch.kernel != "collect" else np.int32)
    numbers[element] = change(numbers[element])
    return after


def one_bit(value: np.float32) -> np.float32:
    return np.nextafter(value, np.float32(9))


@pytest.mark.parametrize(
    ("name", "change", "verdict", "reason"),
    [
        ("exact", one_bit, comparison.DIFFERS, None),
        ("approximate", one_bit, comparison.BOUNDED, "approximate (sin.approx"),
        ("approximate", lambda value: value + 1, comparison.DIFFERS, "approximate"),
        ("fused", one_bit, comparison.BOUNDED, "contraction"),
        ("collect", lambda value: value + 1, comparison.DIFFERS, "order"),
    ],
)
def test_one_wrong_number_is_excused_by_a_reason_or_named(name, change, verdict, reason):
    launch = launches()[name]
    # The end of the list that `collect` fills is decided by no order: it is never written.
    element = 999 if name == "collect" else 3
    found = comparison.compare(launch, changed(launch, element, change))
    assert found.verdict == verdict, found
    assert found.fine == (verdict != comparison.DIFFERS)
    if reason is None:
        assert not found.reasons
    else:
        assert any(one.startswith(reason) for one in found.reasons)
    if verdict == comparison.DIFFERS:
        assert found.detail.startswith(f"element {element} of ")
        assert "on the virtual GPU" in found.detail


def test_another_order_of_threads_is_no_fault():
    for name, verdict in (("total", comparison.BOUNDED), ("collect", comparison.ORDER)):
        for seed in range(50, 80):
            with virtualgpu.schedule(seed):
                got = play(launches()[name], VirtualDevice())
            found = comparison.compare(launches()[name], got)
            if found.differing:
                break
        assert found.verdict == verdict and found.differing, found


def test_a_kernel_that_is_wrong_itself_is_called_so():
    launch = launches()["racing"]
    after = [piece.after.copy() for piece in launch.pieces]
    after[-1].view(np.float32)[0] += 7
    found = comparison.compare(launch, after)
    assert found.verdict == comparison.FAULT and found.detail.startswith("race: ")


def test_instruments_of_others_see_nothing_of_a_comparison():
    launch = launches()["racing"]
    after = [piece.after.copy() for piece in launch.pieces]
    after[-1].view(np.float32)[0] += 7
    with virtualgpu.check() as report, virtualgpu.profile() as profile:
        comparison.compare(launch, after)
    assert report.launches == 0 and not profile.launches


def test_pointers_in_memory_are_translated_both_ways():
    """A table of addresses, as Awkward Arrays have; a kernel that writes an address down."""
    module = virtualgpu.Module.from_cuda(r"""
        extern "C" __global__ void follow(float **table, float **found) {
            found[threadIdx.x] = table[threadIdx.x] + 1; *table[threadIdx.x] = threadIdx.x + 1; }
    """)
    device = module.device
    places = [device.allocate(8) for _ in range(2)]
    table, found = device.allocate(16), device.allocate(16)
    device.write(table, np.array(places, np.uint64))
    from virtualgpu.devices.recorded import capture, finish

    launch = capture(
        device,
        module.loaded,
        "follow",
        (1, 1, 1),
        (2, 1, 1),
        [int(p).to_bytes(8, "little") for p in (table, found)],
    )
    assert len(launch.pieces) == 4  # the two that only the table points at are found
    module.launch_bytes("follow", (1, 1, 1), (2, 1, 1), launch.parameters)
    finish(launch, device)
    other = VirtualDevice()
    other.allocate(9 << 20)
    assert comparison.compare(launch, play(launch, other)).verdict == comparison.EQUAL


def test_unwritten_bytes_can_be_left_alone():
    class Listening(VirtualDevice):
        wrote: list = []  # noqa: RUF012

        def write(self, address, data):
            self.wrote.append(data.nbytes)
            super().write(address, data)

    launch = launches()["exact"]
    pieces = [Piece(p.address, p.before, p.after, p.variable, [(100, 200)]) for p in launch.pieces]
    holey = RecordedLaunch(**{**vars(launch), "pieces": pieces})
    play(holey, Listening(), poison=False)
    assert Listening.wrote == [100, 3800, 100, 3800]


# -- machine code -------------------------------------------------------------------------------


def test_every_kernel_links_to_machine_code_without_a_gpu():
    for name, launch in launches().items():
        code = cubin.machine_code(cubin.link(launch.texts))
        assert f".text.{launch.entry}" in code, name
        assert cubin.contracts(launch.texts) == (name == "fused"), name


def with_last(launch: RecordedLaunch, dtype: type, change) -> list[np.ndarray]:
    """What the launch left, after ``change`` of the last array that it wrote."""
    got = [piece.after.copy() for piece in launch.pieces]
    number = max(
        n for n, piece in enumerate(launch.pieces) if not np.array_equal(piece.before, piece.after)
    )
    change(got[number].view(dtype))
    return got


def test_bounds_follow_the_least_exact_step():
    """Of a float64 made by an approximation in float32, as a GPU's cosh is, and of another."""
    for step, verdict in (
        ("__expf((float)x[i])", comparison.BOUNDED),
        ("1 / x[i]", comparison.DIFFERS),
    ):
        launch = of_cpp(
            f'extern "C" __global__ void k(double *x) {{ int i = threadIdx.x; x[i] = {step}; }}',
            np.linspace(1, 3, 32),
        )

        def scale(values, by):
            values *= by

        near = with_last(launch, np.float64, partial(scale, by=1 + 4e-8))
        far = with_last(launch, np.float64, partial(scale, by=1 + 4e-3))
        assert comparison.compare(launch, near).verdict == verdict, step
        assert comparison.compare(launch, far).verdict == comparison.DIFFERS


def test_an_assembler_that_fails_is_told(monkeypatch):
    def fails(texts, architecture="sm_90"):
        raise LinkError("nvJitLink: no such option")

    launch = launches()["fused"]
    got = changed(launch, 3, one_bit)
    assert not comparison.compare(launch, got).unknown
    monkeypatch.setattr(cubin, "contracts", fails)
    found = comparison.compare(launch, got)
    assert found.verdict == comparison.DIFFERS
    assert found.detail.endswith(": LinkError: nvJitLink: no such option")


def test_steps_that_contraction_decides_are_a_reason():
    """Of a few elements near a border; not of one in ten, nor where nothing is fused."""
    fused = (
        'asm("{ .reg .f32 p; mul.f32 p, %0, %0; add.f32 %0, p, %1; }" '
        ': "+f"(x) : "f"(c[i]));'
    )  # PTX without .rn leaves it free
    rounded = "x = __fadd_rn(__fmul_rn(x, x), c[i]);"
    for body, many, fine in ((fused, 2, True), (fused, 100, False), (rounded, 2, False)):
        launch = of_cpp(
            'extern "C" __global__ void k(const float *c, long long *steps) { '
            "int i = blockIdx.x * blockDim.x + threadIdx.x; float x = c[i]; int n = 0; "
            f"while (n < 50 && x < 4) {{ {body} n++; }} steps[i] = n; }}",
            np.linspace(0.2, 1, 1024, dtype=np.float32),
            np.zeros(1024, np.int64),
            blocks=8,
        )

        def one_more(steps, many=many):
            steps[:many] += 1

        found = comparison.compare(launch, with_last(launch, np.int64, one_more))
        assert found.fine == fine, (body, many, found)


def test_a_grid_that_waits_is_linked_with_the_device_runtime():
    source = (
        "#include <cooperative_groups.h>\n"
        'extern "C" __global__ void k() { cooperative_groups::this_grid().sync(); }'
    )
    from virtualgpu.compilers.nvrtc import compile_to_ptx

    assert ".text.k" in cubin.machine_code(cubin.link((compile_to_ptx(source)[0],)))


def test_ptx_knows_its_toolkit_and_bad_ptx_is_refused():
    text = launches()["exact"].texts
    version = cubin.ptx_version(text)
    assert version >= (8, 0)
    # Release notes of the PTX ISA
    assert [cubin.toolkit_of(v) for v in ((8, 5), (8, 6), (8, 8), (9, 0), (9, 4))] == [
        (12, 5),
        (12, 7),
        (12, 9),
        (13, 0),
        (13, 4),
    ]
    with pytest.raises(LinkError):
        cubin.link((f".version {version[0]}.{version[1]}\n.target sm_90\n.address_size 64\nwhat",))
    with pytest.raises(LinkError, match="older than the PTX"):
        cubin.link((".version 99.0\n.target sm_90\n.address_size 64\n",))


# -- another process ----------------------------------------------------------------------------


def test_a_process_plays_launches_and_a_wrong_one_is_named(tmp_path):
    """The whole way of `make gpu-check`, with the virtual GPU in the part of the real one."""
    wrong = RecordedLaunch.from_bytes(launches()["exact"].to_bytes())
    wrong.pieces[1].after.view(np.float32)[5] = 42
    good = launches()["approximate"]
    broken = RecordedLaunch.from_bytes(good.to_bytes())
    broken.texts = ("no PTX",)
    with GPUProcess(VIRTUAL) as gpu:
        rows = []
        for number, launch in enumerate((good, wrong, broken, good)):
            launch.save(tmp_path / f"{number}.npz")
            rows.append(replay.replay(tmp_path / f"{number}.npz", gpu))
        assert [row.verdict for row in rows] == ["agrees", "differs", "fails", "agrees"]
        assert rows[1].what.startswith("exact[8, 128]")
        assert "element 5 of 1000 (float32)" in rows[1].detail
        assert "42.0 on the virtual GPU" in rows[1].detail
        assert "PTX" in rows[2].detail
        assert gpu.name == "Virtual GPU (CPU)"
        # Gone in the middle: told, and started again for the next.
        os.kill(gpu.child.process.pid, signal.SIGSTOP)
        threading.Timer(0.3, gpu.child.process.kill).start()
        with pytest.raises(GPUFault, match="ended"):
            gpu.play(good)
        assert comparison.compare(good, gpu.play(good)).verdict == comparison.EQUAL
        os.kill(gpu.child.process.pid, signal.SIGSTOP)  # as a kernel that never ends
        with pytest.raises(GPUFault, match="did not finish in time") as late:
            gpu.play(good, seconds=0.1)
        assert late.value.spoiled


def test_without_a_gpu_the_process_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with GPUProcess() as gpu, pytest.raises(GPUFault, match="no GPU"):
        gpu.start()

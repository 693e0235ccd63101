"""Ctrl-C, and other handlers that raise, at each library whose compiled code calls the driver."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from fresh_python import in_fresh_python
from virtualgpu.driver import library

pytestmark = pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")
# Their arrays are of CuPy's stand-in, a distribution of its own.
by_cupy = pytest.mark.skipif(not find_spec("gpustandins"), reason="gpustandins is not installed")

CUDA_CORE = """
from cuda.core import Device, LaunchConfig, Program, launch
device = Device(0)
device.set_current()
stream = device.create_stream()
text = 'extern "C" __global__ void k(int n) { volatile int x; for (int i = 0; i < n; ++i) x = i; }'
kernel = Program(text, "c++").compile("ptx").get_kernel("k")
def run(rounds):
    launch(stream, LaunchConfig(grid=1, block=32), kernel, np.int32(rounds))
    stream.record().sync()
    stream.sync()
"""
CUTILE = """
import cupy, cuda.tile as ct
@ct.kernel
def k(x, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, (i % 4,), ct.load(x, (i % 4,), (n,)))
x = cupy.ones(64)
def run(rounds):
    ct.launch(cupy.cuda.get_current_stream(), (rounds,), k, (x, 16))
"""
SUCCESSOR = """
from numba_cuda_mlir import cuda
@cuda.jit
def k(x, n):
    for i in range(n):
        x[i % 4] += i
x = cuda.to_device(np.ones(4))
def run(rounds):
    k[1, 1](x, rounds)
"""
PROGRAM = """
import signal, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import virtualgpu
virtualgpu.activate()
{door}
class Late(Exception):
    pass
def late(number, frame):
    raise Late
signal.signal(signal.SIGALRM, late)
signal.signal(signal.SIGINT, signal.default_int_handler)
unheard = []
sys.unraisablehook = lambda one: unheard.append(repr(one.exc_value))
run(3)
result = []
for number in (signal.SIGALRM, signal.SIGINT):
    signal.signal(signal.SIGVTALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
    try:
        run({rounds})
        result.append("it ended")
    except BaseException as error:
        result.append(type(error).__name__)
run(3)
result.append(unheard)
"""


@pytest.mark.parametrize(
    ("door", "rounds"),
    [
        pytest.param(CUDA_CORE, 2_000_000_000, id="cuda.core"),
        # Their compilers take some seconds more.
        pytest.param(CUTILE, 10_000_000, id="cuTile", marks=[by_cupy, pytest.mark.rehearsal]),
        pytest.param(SUCCESSOR, 2_000_000_000, id="numba-cuda-mlir", marks=pytest.mark.rehearsal),
    ],
)
def test_what_a_handler_raises_comes_after_the_launch(door, rounds, tmp_path):
    file = tmp_path / "program.py"  # cuTile reads a kernel's text
    file.write_text(PROGRAM.format(door=door, rounds=rounds))
    assert in_fresh_python(f"import runpy\nresult = runpy.run_path({str(file)!r})['result']") == [
        "Late",
        "KeyboardInterrupt",
        [],
    ]


BY_C = """
import ctypes, signal
import virtualgpu
virtualgpu.activate(force=True)
from virtualgpu.cuda.driver_api import API
from virtualgpu.driver import entries

def called(name, *arguments, codes):
    kinds = [ctypes.c_size_t] * len(arguments)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(entries.address(name))
    codes.extend(map(function, *[[one] for one in arguments]))  # no Python runs before it is there

place = ctypes.c_size_t()
there = ctypes.addressof(place)
class Late(Exception):
    pass
def late(number, frame):
    raise Late
signal.signal(signal.SIGUSR1, late)

def interrupted(owner, method, name, *arguments):
    \"\"\"Call a function whose work is done when the signal comes.\"\"\"
    work = getattr(owner, method)
    def once(*given):
        setattr(owner, method, work)
        done = work(*given)
        signal.raise_signal(signal.SIGUSR1)
        return done
    setattr(owner, method, once)
    try:
        called(name, *arguments, codes=result)
        for _ in range(100):
            pass
    except Late:
        result.append("late")

result = []
called("cuCtxPushCurrent", 1, codes=result)
called("cuCtxPushCurrent", 1, codes=result)
interrupted(API, "_select", "cuCtxPopCurrent", there)
result.append(len(API.contexts))
interrupted(API, "_select", "cuCtxPushCurrent", 1)
result.append(len(API.contexts))
called("cuMemAlloc", there, 64, codes=result)
interrupted(API.device, "free", "cuMemFree", place.value)
"""


def test_work_that_is_done_as_a_signal_comes_is_done_once():
    done = in_fresh_python(BY_C)
    assert done == [0, 0, 0, "late", 1, 0, "late", 2, 0, 0, "late"]


LOST = """
import signal, sys
from virtualgpu.driver import interrupts
class Late(Exception):
    pass
def late(number, frame):
    raise Late
signal.signal(signal.SIGUSR1, late)
class Going:
    def __del__(self):
        signal.raise_signal(signal.SIGUSR1)
lost, result = [], []
sys.unraisablehook = lambda one: lost.append(repr(one.exc_value))
try:
    with interrupts.keeping_lost():
        Going()
        for _ in range(100):
            pass
    result.append("nothing came")
except Late:
    result.append("late")
result.append(lost)
"""


def test_a_signal_as_an_object_goes_is_not_lost():
    assert in_fresh_python(LOST) == ["late", []]


COMPILING = """
import signal, warnings
import virtualgpu
virtualgpu.activate()
import cupy, cuda.tile as ct
from cuda.tile import _compile
@ct.kernel
def k(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) + 1)
x = cupy.zeros(4, dtype=cupy.int64)
compiles = _compile.compile_tile
def interrupted(*given, **named):
    signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
_compile.compile_tile = interrupted
result = []
try:
    ct.launch(cupy.cuda.get_current_stream(), (1,), k, (x,))
except KeyboardInterrupt:
    result.append("interrupted")
_compile.compile_tile = compiles
ct.launch(cupy.cuda.get_current_stream(), (1,), k, (x,))
result.append(x.tolist())
"""


@by_cupy
def test_cutile_interrupted_while_it_compiles_lives_on(tmp_path):
    assert _from_a_file(COMPILING, tmp_path) == ["interrupted", [1, 1, 1, 1]]


ENTERED = """
import ctypes, itertools, operator, signal, sys
import virtualgpu
virtualgpu.activate()
from virtualgpu.driver import entries
signal.signal(signal.SIGINT, signal.default_int_handler)
lost = []
sys.unraisablehook = lambda one: lost.append(repr(one.exc_value))
found = entries._for_c("cuDriverGetVersion", *entries._functions["cuDriverGetVersion"])
address = ctypes.cast(found, ctypes.c_void_p).value
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)(address)
signalled = ctypes.pythonapi.PyErr_SetInterrupt
signalled.restype, signalled.argtypes = None, ()
version, result = ctypes.c_int(), []
there = ctypes.addressof(version)
try:  # no Python code runs between the two
    list(itertools.starmap(operator.call, [(signalled,), (call, there)]))
except KeyboardInterrupt:
    result.append("interrupted")
result += [version.value > 0, lost]
"""


def test_a_signal_as_a_driver_function_is_entered_is_not_lost():
    assert in_fresh_python(ENTERED) == ["interrupted", True, []]


FREED = """
import sys, warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import cupy
lost, result = [], []
sys.unraisablehook = lambda one: lost.append(repr(one.exc_value))
x = cupy.zeros(4)
before = sys.getrefcount(x)
try:
    print(x.__dlpack__(stream=-1), 1 / 0)
except ZeroDivisionError:
    result.append("divided")
result += [lost, sys.getrefcount(x) - before]
"""


@by_cupy
def test_a_capsule_freed_by_an_error_leaves_the_error_and_no_array():
    assert in_fresh_python(FREED) == ["divided", [], 0]


SHORT = """
import random, signal, sys, warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import cupy, cuda.tile as ct
@ct.kernel
def k(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) + 1)
x = cupy.zeros(4, dtype=cupy.int64)
class Late(Exception):
    pass
def late(number, frame):
    raise Late
signal.signal(signal.SIGALRM, late)
result, lost = [], []
sys.unraisablehook = lambda one: lost.append(repr(one.exc_value))
def run(launches):
    for _ in range(launches):
        ct.launch(cupy.cuda.get_current_stream(), (1,), k, (x,))
run(3)
for _ in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 3e-3))
        run(2000)
        result.append("never came")
    except Late:
        pass
result.append(lost)
"""


@by_cupy
@pytest.mark.rehearsal
def test_signals_during_many_short_launches_are_all_heard(tmp_path):
    assert _from_a_file(SHORT, tmp_path) == [[]]


def _from_a_file(program, folder):
    """Return the program's result. cuTile reads a kernel's source from its file."""
    file = folder / "program.py"
    file.write_text(program)
    return in_fresh_python(f"import runpy\nresult = runpy.run_path({str(file)!r})['result']")

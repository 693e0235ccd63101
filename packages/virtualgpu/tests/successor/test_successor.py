"""The same programs on numba-cuda and on numba-cuda-mlir: the same results, findings and words."""

from __future__ import annotations

import pytest

from fresh_python import in_fresh_python
from virtualgpu.driver import library
from virtualgpu.successor import choice

pytestmark = pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
{begin}
import virtualgpu.api
import numpy as np
from numba import cuda, float32, float64, void
{imports}

@cuda.jit
def turn(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]

@cuda.jit
def too_far(grid, k):
    grid[k + cuda.threadIdx.x, 1] = 1.0

@cuda.jit
def largest(values, out):
    cuda.atomic.max(out, 0, values[cuda.grid(1)])

@cuda.jit(void(float64[:], float64[::1]))
def doubled(x, out):
    out[cuda.grid(1)] = 2 * x[cuda.grid(1)]

@cuda.jit
def from_the_next_block(x):
    i = cuda.grid(1)
    x[i] = i
    cuda.cg.this_grid().sync()
    taken = x[(i + 32) % 64]
    cuda.cg.this_grid().sync()
    x[i] = taken

said = []
x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
with virtualgpu.check() as report:
    turn[1, 64](x, out)
said.append(str(report))
whole = np.zeros((6, 5))
for grid in (whole, whole[2:, 1:]):  # a part of another: an offset, and gaps
    try:
        too_far[1, 32](cuda.to_device(whole)[6 - len(grid):, 5 - grid.shape[1]:], 2)
    except virtualgpu.MemoryAccessError as error:
        said.append(str(error))
try:
    turn[1, 2048](x, out)
except virtualgpu.LaunchError as error:
    said.append(error.message)
values, top = np.linspace(-3, 5, 64), np.zeros(1)
with virtualgpu.check() as report:
    largest[2, 32](values, top)
said += [str(report), top.tolist()]
out = np.zeros(64)
doubled[1, 64](values, out)
said.append(out.tolist() == (2 * values).tolist())
with virtualgpu.check() as report:
    from_the_next_block[2, 32](out)
said += [str(report), out.tolist()]
helper = cuda.jit(device=True)(lambda x: x)
said.append([virtualgpu.api.is_kernel(one) for one in (turn, helper, abs)])
result = [type(turn).__name__, cuda.__name__, virtualgpu.is_active(), said]
"""
ACTIVATE = "import virtualgpu; virtualgpu.activate()"
LATER = "from virtualgpu import activation; activation.activate_later()"


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """What a process says that runs the program, from a file: messages quote its lines."""

    def run(package: str, begin: str = ACTIVATE, imports: str = "") -> list:
        monkeypatch.setenv(choice.VARIABLE, package)
        file = tmp_path / "program.py"
        file.write_text(PROGRAM.format(begin=begin, imports=imports))
        return in_fresh_python(f"import runpy\nresult = runpy.run_path({str(file)!r})['result']")

    return run


def test_the_same_words_from_either(ran):
    old, new = (ran(package) for package in (choice.NUMBA_CUDA, choice.SUCCESSOR))
    assert old[:3] == ["CUDADispatcher", "numba.cuda", True]
    assert new[:3] == ["MLIRDispatcher", "numba_cuda_mlir.cuda", True]
    assert new[3] == old[3]
    race, far, part, wide, clean, top, right, together, turned, kernels = new[3]
    assert "race" in race and "at kernel turn" in race and "out[t] = s[63 - t]" in race
    assert "the thread writes grid[6, 1] of (6, 5)" in far
    assert "the thread writes grid[4, 1] of (4, 4)" in part
    assert "a block has at most 1024" in wide
    assert clean.endswith("nothing found") and top == [5.0] and right
    assert kernels == [True, False, False]
    assert together.endswith("nothing found") and turned == [*range(32, 64), *range(32)]


@pytest.mark.parametrize(
    ("package", "begin", "imports"),
    [
        (choice.SUCCESSOR, LATER, ""),
        # By its own name, beside numba-cuda.
        pytest.param(
            "",
            LATER,
            "from numba_cuda_mlir import cuda; from numba_cuda_mlir.types import *",
            marks=pytest.mark.rehearsal,
        ),
    ],
)
def test_wherever_it_is_imported_it_is_on_the_virtual_gpu(ran, package, begin, imports):
    name, module, active, said = ran(package, begin, imports)
    assert [name, module, active] == ["MLIRDispatcher", "numba_cuda_mlir.cuda", True]
    assert "at kernel turn" in said[0]


ELEMENTS = """
import warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import numpy as np
from numba import cuda

@cuda.jit
def copied(given, taken):
    i = cuda.grid(1)
    taken[i + 1] = given[i]

result = []
for values in (
    np.array([True, False]),
    np.array(["2026-11-28", "2026-11-29"], "M8[D]"),
    np.array([(1, 2.5), (3, 4.5)], [("a", np.int8), ("b", np.float32)]),
    np.array([1 + 2j, 3 + 4j], np.complex64),
):
    given, taken = cuda.to_device(values), cuda.to_device(np.zeros_like(values))
    copied[1, 1](given, taken)
    result.append(taken.copy_to_host()[1] == values[0])
    try:
        copied[1, 2](given, taken)
    except virtualgpu.MemoryAccessError as error:
        result.append(str(error).splitlines()[0])
result = [str(one) for one in result]
"""


@pytest.mark.rehearsal
def test_elements_that_are_no_plain_numbers(monkeypatch):
    """Arrays of booleans, dates, records and complex numbers have their names in messages too."""
    said = []
    for package in (choice.NUMBA_CUDA, choice.SUCCESSOR):
        monkeypatch.setenv(choice.VARIABLE, package)
        said.append(in_fresh_python(ELEMENTS))
    old, new = said
    assert new == old
    assert old[::2] == ["True"] * 4
    assert all("the thread writes taken[2] of 2" in words for words in old[1::2]), old


def test_cuda_c_that_a_kernel_calls_is_linked_as_lto_ir(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, choice.SUCCESSOR)
    assert in_fresh_python("""
import warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import numpy as np
from numba import cuda

source = cuda.CUSource('extern "C" __device__ int seven_times(int *out, int x)'
                       '{ *out = 7 * x; return 0; }')
seven_times = cuda.declare_device("seven_times", "int32(int32)", link=source)

@cuda.jit
def f(x):
    x[cuda.grid(1)] = seven_times(x[cuda.grid(1)])

x = np.arange(4, dtype=np.int32)
f[1, 4](x)
result = x.tolist()
""") == [0, 7, 14, 21]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("numba", "VIRTUALGPU_NUMBA=numba is not valid: use numba-cuda or numba-cuda-mlir"),
        ("numba-cuda", ""),
        ("", ""),
        ("numba-cuda-mlir", ""),
    ],
)
def test_the_variable_names_one_of_the_two(monkeypatch, value, words):
    monkeypatch.setenv(choice.VARIABLE, value)
    if words:
        with pytest.raises(ValueError, match=words):
            choice.chosen()
    else:
        assert choice.chosen() == (value or choice.NUMBA_CUDA)


@pytest.mark.parametrize(
    ("there", "answers"),
    [
        ({"numba_cuda", "numba_cuda_mlir"}, choice.NUMBA_CUDA),
        ({"numba_cuda"}, choice.NUMBA_CUDA),
        ({"numba_cuda_mlir"}, choice.SUCCESSOR),
        (set(), choice.NUMBA_CUDA),
    ],
)
def test_what_is_installed_decides(monkeypatch, there, answers):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(choice.PathFinder, "find_spec", lambda name: name in there or None)
    assert choice.chosen() == answers


def test_what_is_said_of_a_package_without_a_version(monkeypatch):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    assert choice.said().startswith("numba-cuda 0.")
    monkeypatch.setattr(choice, "NUMBA_CUDA", "numba-cuda-of-nobody")
    alone = {"numba_cuda_of_nobody"}
    monkeypatch.setattr(choice.PathFinder, "find_spec", lambda name: name in alone or None)
    assert choice.said() == "numba-cuda-of-nobody"


def test_a_package_that_is_not_there_cannot_be_chosen(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, choice.SUCCESSOR)
    monkeypatch.setattr(choice.PathFinder, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install numba-cuda-mlir, or unset"):
        choice.chosen()


def test_numba_cuda_that_was_imported_before_is_named(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, choice.SUCCESSOR)
    told = in_fresh_python("""
import numba.cuda, virtualgpu
try:
    virtualgpu.activate()
except RuntimeError as error:
    result = str(error)
""")
    assert "start Python again" in told


@pytest.mark.rehearsal
def test_a_print_that_formats_more_than_its_compiler_stores_is_noted():
    """The kernel is right: a note, which names the compiler, and no finding."""
    first, second = in_fresh_python(
        """
import warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import numpy as np
from numba_cuda_mlir import cuda
@cuda.jit
def one(x):
    print(cuda.threadIdx.x)
@cuda.jit
def other(x):
    print(np.int64(cuda.threadIdx.x), x[0])
x = cuda.to_device(np.arange(3.0))
result = []
for kernel in one, other:
    with virtualgpu.check() as report:
        kernel[1, 2](x)
    result.append([report.ok, report.notes])
"""
    )
    assert first[0] and second == [True, []]
    (note,) = first[1]
    assert note.startswith("one: thread 0 of block 0 prints 8 bytes as %lld, of which nobody has")
    assert "its compiler stores fewer bytes than it formats" in note


NEITHER = """
import numpy as np
import virtualgpu
from virtualgpu.successor import choice
choice._is_installed = lambda package: False
virtualgpu.activate()
module = virtualgpu.Module.from_cuda('extern "C" __global__ void two(float *x) { *x = 2; }')
x = np.zeros(1, np.float32)
module.launch("two", 1, 1, [x])
try:
    from numba import cuda
except ImportError as error:
    told = str(error)
virtualgpu.deactivate()
result = [x.tolist(), told, choice.said()]
"""


def test_without_either_other_kernels_run_and_numba_says_what_to_install():
    values, told, said = in_fresh_python(NEITHER)
    assert values == [2.0]
    for text in (told, said):
        assert "virtualgpu[numba-cuda]" in text and "virtualgpu[mlir]" in text

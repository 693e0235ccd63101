"""Wrong answers to the exercises of "Numba CUDA", with what the check must say of each."""
from __future__ import annotations
import math
import numpy as np


from wrong_answers import collection, swap
from numba import cuda  # isort: skip  (after the virtual GPU is active)
WRONG, wrong = collection("06_numba_cuda")

# --- loop-to-kernel -----------------------------------------------------------------------------

wrong("loop-to-kernel", "illegal address", "no guard")(swap("if i < pt.size:\n        ", ""))
wrong("loop-to-kernel", "each of .* threads writes .*still a loop", "the loop stays")(
    swap("i = cuda.grid(1)\n    if i < pt.size", "for i in range(pt.size)"))
wrong("loop-to-kernel", "race: |never written", "thread in the block only")(
    swap("cuda.grid(1)", "cuda.threadIdx.x"))
wrong("loop-to-kernel", r"element 0 is .*, not .*loop's body", "the whole momentum")(
    swap(".sinh(eta", ".cosh(eta"))


@wrong("loop-to-kernel", "this is of type function, not a kernel")
def not_decorated(pt, eta, pz):
    for i in range(pt.size):
        pz[i] = pt[i] * math.sinh(eta[i])


@wrong("loop-to-kernel", "the work is not shared.*in one thread")
@cuda.jit
def the_loop_stays_in_one_thread(pt, eta, pz):
    if cuda.grid(1) == 0:
        for i in range(pt.size):
            pz[i] = pt[i] * math.sinh(eta[i])


wrong("loop-to-kernel", "race: |never written|element", "blocks of 64")(
    swap("cuda.grid(1)", "cuda.blockIdx.x * 64 + cuda.threadIdx.x"))

# --- device-function ----------------------------------------------------------------------------


@wrong("device-function", "is 6.20, which is not between")
@cuda.jit(device=True)
def does_not_wrap(phi1, phi2):
    return phi1 - phi2


wrong("device-function", "not between .*both ends of the range", "wraps one side")(
    swap("elif difference < -math.pi:\n        difference += 2 * math.pi", "pass"))


@wrong("device-function", "the opposite sign")
@cuda.jit(device=True)
def loses_the_sign(phi1, phi2):
    difference = abs(phi1 - phi2)
    return 2 * math.pi - difference if difference > math.pi else difference


wrong("device-function", "a full turn is 2π|which is not between", "half a turn")(
    swap("-= 2 * math.pi", "-= math.pi"),
    swap("+= 2 * math.pi", "+= math.pi"))


@wrong("device-function", "this is a kernel, and other kernels cannot call it")
@cuda.jit
def a_kernel(phi1, phi2):
    pass


# --- single-precision ---------------------------------------------------------------------------

wrong("single-precision", r"instructions are in double precision.*`cvt.f64.f32", "plain constants")(
    swap("np.float32(0.983) * energy[i] + np.float32(0.12)", "0.983 * energy[i] + 0.12"))
wrong("single-precision", "instructions are in double precision", "rounds at the end")(
    swap(") * energy[i] + np.float32(", " * energy[i] + "))
wrong("single-precision", "instructions are in double precision.*find the type of each constant", "the offset is double")(
    swap("np.float32(0.12)", "0.12"))
wrong("single-precision", "element 0 is", "offset forgotten")(swap(" + np.float32(0.12)", ""))


wrong("single-precision", "the work is not shared.*let each thread compute one number", "one thread")(
    swap("i = cuda.grid(1)\n    if i < energy.size:",
         "if cuda.grid(1) > 0:\n        return\n    for i in range(energy.size):"))
wrong("single-precision", "the work is not shared", "every thread walks through all")(
    swap("i = cuda.grid(1)\n    if i < energy.size:",
         "me = cuda.grid(1)\n    for i in range(energy.size):\n      if i == me:"))

# --- stencil ------------------------------------------------------------------------------------


def smoother(crosswise=False, guard=True, ring=True, below=True, divide=5):
    """A kernel that smooths, with one thing done wrongly."""

    @cuda.jit
    def kernel(values, out):
        rows, columns = values.shape
        x, y = cuda.grid(2)
        column, row = (y, x) if crosswise else (x, y)
        if not guard or (row < rows and column < columns):
            total = values[row, column]
            if ring or column + 1 < columns:
                total += values[row, (column + 1) % columns]
            if ring or column > 0:
                total += values[row, (column - 1) % columns]
            if row > 0 or not below:
                total += values[row - 1, column]
            if row + 1 < rows:
                total += values[row + 1, column]
            out[row, column] = total / divide

    return kernel


wrong("stencil", "never written.*returns x first", "crosswise")(smoother(crosswise=True))
wrong("stencil", "illegal address|race: ", "no guard")(smoother(guard=False))
wrong("stencil", "first and the last column are neighbours|counts as 0", "no ring")(
    smoother(ring=False)
)
wrong("stencil", "counts as 0", "wraps in eta too")(smoother(below=False))
wrong("stencil", "divided by 5|counts as 0", "divides by 4")(smoother(divide=4))


@wrong("stencil", "a warp's threads lie in a column")
@cuda.jit
def own_numbering_crosswise(values, out):
    rows, columns = values.shape
    threads = cuda.gridsize(1) * cuda.gridDim.y * cuda.blockDim.y
    x, y = cuda.grid(2)
    i = y * cuda.gridsize(1) + x
    while i < rows * columns:
        row, column = i % rows, i // rows
        total = values[row, column]
        total += values[row, (column + 1) % columns] + values[row, (column - 1) % columns]
        if row > 0:
            total += values[row - 1, column]
        if row + 1 < rows:
            total += values[row + 1, column]
        out[row, column] = total / 5
        i += threads


@wrong("stencil", "the work is not shared.*let each thread compute one cell")
@cuda.jit
def one_thread_for_each_row(values, out):
    rows, columns = values.shape
    x, row = cuda.grid(2)
    if x == 0 and row < rows:
        for column in range(columns):
            total = values[row, column]
            total += values[row, (column + 1) % columns] + values[row, (column - 1) % columns]
            if row > 0:
                total += values[row - 1, column]
            if row + 1 < rows:
                total += values[row + 1, column]
            out[row, column] = total / 5


@wrong("loop-to-kernel", "the kernel changes pt, which is an input")
@cuda.jit
def works_in_pt(pt, eta, pz):
    i = cuda.grid(1)
    if i < pt.size:
        pt[i] *= math.sinh(eta[i])
        pz[i] = pt[i]


@wrong("single-precision", "element 0 is")
@cuda.jit
def of_energies_that_are_positive(energy, out):
    i = cuda.grid(1)
    if i < energy.size:
        out[i] = np.float32(0.983) * abs(energy[i]) + np.float32(0.12)


@wrong("single-precision", "the work is not shared")
@cuda.jit
def one_block_of_many(energy, out):
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, energy.size, cuda.blockDim.x):
            out[i] = np.float32(0.983) * energy[i] + np.float32(0.12)


wrong("stencil", r"cell \[0, 1\] is", "rounds to a whole number")(swap("total / 5", "total // 5"))


# --- lost-update --------------------------------------------------------------------------------

ALL = {11, 12, 13}
for name, answers, says in (
    ("loses A's", ("ABAABB", ALL), "the total is 12, not 11"),
    ("loses nothing", ("AAABBB", ALL), "the total is 13, not 11"),
    ("too few steps", ("AABB", ALL), "A takes 2 steps.*load, add and store"),
    ("other letters", ("XYXYXY", ALL), "letters A and B"),
    ("10 as well", ("BAABBA", ALL | {10}), "no order gives the total 10.*has loaded either 10 or"),
    ("11 missing", ("BAABBA", {12, 13}), "1 of the possible totals is missing"),
    ("right only", ("BAABBA", {13}), "2 of the possible totals are missing"),
    ("not a set", ("BAABBA", 13), "possible is 13, but it should be a set"),
):
    wrong("lost-update", says, name)(*answers)


# --- check-then-act -----------------------------------------------------------------------------

wrong("check-then-act", "race: ", "looks then stores")(
    swap(":\n        cuda.atomic.max(best, 0, values[i])", " and values[i] > best[0]:\n        best[0] = values[i]"))
wrong("check-then-act", "race: ", "max is no atomic")(
    swap("cuda.atomic.max(best, 0", "best[0] = max(best[0]"))


@wrong("check-then-act", "illegal address")
@cuda.jit
def atomic_without_a_guard(values, best):
    cuda.atomic.max(best, 0, values[cuda.grid(1)])


wrong("check-then-act", r"with 1 value between 3 and 500, best\[0\] is -inf", "forgets the last")(
    swap("i < values", "i + 1 < values"))
wrong("check-then-act", r"between -90 and -10, best\[0\] is \d", "largest size")(
    swap("values[i]", "abs(values[i])"))


@wrong("check-then-act", r"best\[0\] is \d+\.\d, but the largest value is 4")
@cuda.jit
def sum_instead(values, best):
    i = cuda.grid(1)
    if i == 0 and values.size > 0:
        best[0] = 0.0
    if i == 0:
        for k in range(values.size):
            cuda.atomic.add(best, 0, values[k])


@wrong("check-then-act", "no atomic was used, so one thread does")
@cuda.jit
def one_thread_for_all(values, best):
    if cuda.grid(1) == 0:
        for k in range(values.size):
            best[0] = max(best[0], values[k])


@wrong("check-then-act", "the work is not shared.*let each thread compare its own value")
@cuda.jit
def one_thread_with_an_atomic(values, best):
    if cuda.grid(1) == 0:
        for k in range(values.size):
            cuda.atomic.max(best, 0, values[k])

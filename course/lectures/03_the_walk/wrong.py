"""Wrong answers to the exercises of "The walk", with what the check must say of each."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import collection, swap

from numba import cuda  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("03_the_walk")

# --- entered ------------------------------------------------------------------------------------

wrong("entered", "times at the wall.*minus sign", "the other solution")(swap("(-b[i] - sqrt", "(-b[i] + sqrt"))
wrong("entered", "illegal address", "no guard")(
    swap("""    if (i < n)
        time[i] = (-b[i] - sqrt""", """        time[i] = (-b[i] - sqrt"""))
wrong("entered", "illegal address|race", "one too many")(
    swap("(i < n)\n        time[i] = (-b[i] - sqrt", "(i <= n)\n        time[i] = (-b[i] - sqrt"))
wrong("entered", r"time\[0\] is", "divides by 2, times a")(
    swap("- sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i])", "- sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / 2 * a[i]"))
wrong("entered", r"time\[0\] is.*seven digits", "in single precision")(swap("(-b[i] - sqrt(", "(float) (-b[i] - sqrt("))


def kernel(body: str) -> str:
    return (
        "__global__ void entered(const double *a, const double *b, const double *c, double *time, int n)\n"
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body} }}"
    )


LINE = "time[i] = (-b[i] - sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);"
wrong("entered", 'expected a ";"', "no semicolon")(kernel("if (i < n) " + LINE[:-1]))
wrong("entered", "the work is not shared|your busiest thread", "one thread")(
    kernel(f"if (i == 0) for (i = 0; i < n; i++) {LINE}"))
wrong("entered", "is there still a loop over all", "the loop stays")(kernel(f"for (i = 0; i < n; i++) {LINE}"))
wrong("entered", "never written|race: ", "thread in the block only")(kernel(f"i = threadIdx.x; if (i < n) {LINE}"))
wrong("entered", "never written|illegal address", "the length of an example")(kernel(f"if (i < 129) {LINE}"))
wrong("entered", "has no kernel `entered`", "another name")(kernel(f"if (i < n) {LINE}").replace("entered", "past"))
wrong("entered", "not a string", "by NumPy")(lambda a, b, c: (-b - np.sqrt(b * b - 4 * a * c)) / (2 * a))
wrong("entered", "`c`|changes c", "keeps the root in c")(kernel("""
    if (i < n) { double *under = (double *) c; under[i] = b[i] * b[i] - 4 * a[i] * c[i];
    time[i] = (-b[i] - sqrt(c[i])) / (2 * a[i]); }"""))

# --- wall-or-miss -------------------------------------------------------------------------------

wrong("wall-or-miss", "is nan.*Compare the number with 0 before", "no choice")(
    swap("""        if under_root < 0:
            time[i] = -1.0
        else:
            time[i] = (""", """        time[i] = ("""))
wrong("wall-or-miss", "is -1, but the line meets", "a touch is a miss")(swap("under_root < 0", "under_root <= 0"))
wrong("wall-or-miss", "is nan|is -1, but", "the other way round")(swap("under_root < 0", "under_root > 0"))
wrong("wall-or-miss", r"time\[\d+\] is 0", "zero for a miss")(swap("= -1.0", "= 0.0"))
wrong("wall-or-miss", "illegal address", "no guard")(swap("if i < time.size:\n        under", "if True:\n        under"))
wrong("wall-or-miss", r"time\[\d+\] is", "the absolute value under the root")(
    swap("""        if under_root < 0:
            time[i] = -1.0
        else:
            time[i] =""", """        under_root = abs(under_root)
        time[i] ="""))
wrong("wall-or-miss", "never written", "nothing for a miss")(
    swap("""        if under_root < 0:
            time[i] = -1.0
        else:
            time[i] =""", """        if under_root >= 0:
            time[i] ="""))
wrong("wall-or-miss", "is there still a loop over all", "the loop stays")(
    swap("    if i < time.size:\n        under", "    for i in range(time.size):\n        under"))
wrong("wall-or-miss", "is -1, but the line meets|is nan", "outside means a miss")(
    swap("if under_root < 0", "if c[i] > 0"))


@wrong("wall-or-miss", "the work is not shared")
@cuda.jit
def one_thread_for_all(a, b, c, time):
    if cuda.grid(1) == 0:
        for i in range(time.size):
            under_root = b[i] ** 2 - 4 * a[i] * c[i]
            time[i] = -1.0
            if under_root >= 0:
                time[i] = (-b[i] + math.sqrt(under_root)) / (2 * a[i])


@wrong("wall-or-miss", "never written")
@cuda.jit
def blocks_of_128(a, b, c, time):
    i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
    if i < time.size:
        under_root = b[i] ** 2 - 4 * a[i] * c[i]
        time[i] = -1.0
        if under_root >= 0:
            time[i] = (-b[i] + math.sqrt(under_root)) / (2 * a[i])


@wrong("wall-or-miss", "not a kernel|is a function")
def by_numpy(a, b, c, time):
    under_root = b**2 - 4 * a * c
    time[:] = np.where(under_root < 0, -1, (-b + np.sqrt(np.abs(under_root))) / (2 * a))

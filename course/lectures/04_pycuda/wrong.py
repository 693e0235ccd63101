"""Wrong answers to the exercises of "PyCUDA", with what the check must say of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("04_pycuda")
LECTURE = Path(__file__).with_name("notebook.py").read_text(encoding="utf-8")


class _Driver:
    """``pycuda.driver`` as it is imported when an answer runs: other tests swap it."""

    def __getattr__(self, name: str):
        import pycuda.autoinit  # an answer may be the first in its process to ask for memory
        import pycuda.driver

        return getattr(pycuda.driver, name)


drv = _Driver()


@cache
def of_the_lecture(kernel: str, *options: str):
    """The module with this kernel that the lecture compiles last."""
    import pycuda.autoinit  # noqa: F401
    from pycuda.compiler import SourceModule

    (source,) = [one for one in LECTURE.split('SourceModule(r"""')[1:]
                 if f"void {kernel}(" in one.split('"""')[0]]
    return SourceModule(source.split('"""')[0], options=list(options))

NUMBER = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"

# --- first-kernel -------------------------------------------------------------------------------

HEAD = "__global__ void radius_of(const float *pt, float field, float *radius, int n)\n"


def kernel(body: str) -> str:
    return HEAD + "{\n" + body + "\n}\n"


wrong("first-kernel", "your busiest thread makes .*, and .* are enough", "one thread")(
    kernel(NUMBER + "if (i == 0) for (int k = 0; k < n; k++) radius[k] = pt[k] / (0.3f * field);"))
wrong("first-kernel", "your busiest thread makes .*, and .* are enough", "one thread in four")(
    kernel(NUMBER + "if (i % 4 == 0) for (int k = i; k < min(i + 4, n); k++) "
           "radius[k] = pt[k] / (0.3f * field);"))
wrong("first-kernel", "never written", "starter")(kernel("// your code here"))
wrong("first-kernel", "illegal address", "no guard")(
    kernel(NUMBER + "radius[i] = pt[i] / (0.3f * field);")
)
wrong("first-kernel", "race: ", "number in the block")(
    kernel("int i = threadIdx.x; if (i < n) radius[i] = pt[i] / (0.3f * field);")
)
wrong("first-kernel", "element 0 is .*0.3 times the parameter", "no parentheses")(
    kernel(NUMBER + "if (i < n) radius[i] = pt[i] / 0.3f * field;")
)
wrong("first-kernel", "is there still a loop over all", "a loop")(
    kernel("for (int i = 0; i < n; i++) radius[i] = pt[i] / (0.3f * field);")
)
wrong("first-kernel", "line 3: expression must have pointer.*opening quotes", "field[i]")(
    kernel(NUMBER + "if (i < n) radius[i] = pt[i] / (0.3f * field[i]);").replace("\n{\n", " {\n")
)
wrong("first-kernel", "illegal address", "one too many")(
    kernel(NUMBER + "if (i <= n) radius[i] = pt[i] / (0.3f * field);")
)
wrong("first-kernel", "has no kernel `radius_of`.*Kernels in it: radius", "another name")(
    kernel(NUMBER + "if (i < n) radius[i] = pt[i] / (0.3f * field);").replace("_of", "2")
)
wrong("first-kernel", "array of float32; the kernel's parameter is double", "double arrays")(
    kernel(NUMBER + "if (i < n) radius[i] = pt[i] / (0.3f * field);").replace("float *", "double *")
)
wrong("first-kernel", "this is a type, not a string", "no string")(SyntaxError)

wrong("first-kernel", "0.3 times the parameter `field`", "the field of the solenoid")(
    swap("0.3f * field", "0.3f * 3.8f"))
wrong("first-kernel", "race: |element 0 is|never written", "blocks of 64")(
    swap("blockIdx.x * blockDim.x", "blockIdx.x * 64"))

wrong("first-kernel", r"the kernel changes pt, which is an input.*`pt\[…\]`", "by way of pt")(
    kernel(NUMBER + "if (i < n) { pt[i] /= 0.3f; radius[i] = pt[i] / field; }")
    .replace("const float", "float"))

# --- mend ---------------------------------------------------------------------------------------

STARTER = LECTURE.split('reach_source = r"""')[1].split('"""')[0]
FIRST = STARTER.replace("if i < n {", "if (i < n) {")
SECOND = FIRST.replace("scale = 1", "float scale = 1")
THIRD = SECOND.replace("* scale\n", "* scale;\n")

wrong("mend", r'line 5: expected a "\("', "starter")(STARTER)
wrong("mend", 'line 6: identifier "scale" is undefined', "one mended")(FIRST)
wrong("mend", r'line 8: expected a ";"', "two mended")(SECOND)
wrong("mend", "all fractions are 0.*1 / 3", "three mended")(THIRD)
wrong("mend", "all fractions are 0", "an int called float")(
    THIRD.replace("float scale = 1 / 3", "int scale = 1.0f / 3")
)
wrong("mend", "at most 1", "no longer at most 1")(
    THIRD.replace("1 / 3", "1.0f / 3").replace("fminf(reached, 1.0f)", "reached")
)
wrong("mend", "illegal address", "guard gone")(
    THIRD.replace("1 / 3", "1.0f / 3").replace("if (i < n) {", "{")
)

wrong("mend", "the kernel changes radius, which is an input", "twice the radius, in place")(
    swap("const float *radius, float *fraction, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i",
         "float *radius, float *fraction, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i"),
    swap("float reached = 2 * radius[i] * scale;",
         "radius[i] *= 2; float reached = radius[i] * scale;"))
wrong("mend", "your busiest thread makes", "one thread does them all")(
    """__global__ void reach(const float *radius, float *fraction, int n)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = 0; i < n; i++)
            fraction[i] = fminf(2 * radius[i] / 3, 1.0f);
}
""")

# --- fitting-types ------------------------------------------------------------------------------


def scale(*arguments, **launch):
    of_the_lecture("scale").get_function("scale")(*arguments, **launch)


def launch(array, by, size, threads=128, blocks=None):
    blocks = blocks or (len(array) + threads - 1) // threads
    scale(drv.InOut(array), by, size, block=(threads, 1, 1), grid=(blocks, 1))
    return array


@wrong("fitting-types", "array of float64; the kernel's parameter is float")
def as_it_comes(values, by):
    return launch(np.array(values), np.float32(by), np.int32(len(values)))


@wrong("fitting-types", "number of type float64; the kernel's parameter is float")
def factor_of_64_bits(values, by):
    return launch(np.array(values, np.float32), np.float64(by), np.int32(len(values)))


@wrong("fitting-types", "TypeError: invalid type on parameter #2")
def length_as_it_is(values, by):
    return launch(np.array(values, np.float32), np.float32(by), len(values))


@wrong("fitting-types", "the array that was passed to `scaled` has changed.*copy only when they have to")
def changes_what_came_in(values, by):
    values = np.ascontiguousarray(values, np.float32)
    return launch(values, np.float32(by), np.int32(values.size))


@wrong("fitting-types", "element 128 is .*enough threads")
def one_block_only(values, by):
    return launch(np.array(values, np.float32), np.float32(by), np.int32(len(values)), blocks=1)


@wrong("fitting-types", "result is an array of float64, not an array of float32")
def back_to_float64(values, by):
    result = launch(np.array(values, np.float32), np.float32(by), np.int32(len(values)))
    return result.astype(np.float64)


@wrong("fitting-types", "the result is a NoneType")
def returns_nothing(values, by):
    launch(np.array(values, np.float32), np.float32(by), np.int32(len(values)))


@wrong("fitting-types", "all zeros.*copied into the array")
def scales_an_empty_array(values, by):
    return launch(np.zeros(len(values), np.float32), np.float32(by), np.int32(len(values)))


@wrong("fitting-types", "no kernel was launched")
def numpy_does_it(values, by):
    return np.array(values, np.float32) * np.float32(by)


@wrong("fitting-types", "computed on the host, not by a kernel")
def numpy_does_it_and_the_device_for_show(values, by):
    launch(np.zeros(4, np.float32), np.float32(by), np.int32(4))
    return np.array(values, np.float32) * np.float32(by)


@wrong("fitting-types", "computed on the host, not by a kernel")
def the_device_multiplies_by_one(values, by):
    result = np.array(values, np.float32, order="C") * np.float32(by)
    return launch(result, np.float32(1), np.int32(result.size))


@wrong("fitting-types", "element 0 is")
def always_half_as_much_again(values, by):
    result = np.array(values, np.float32, order="C")
    return launch(result, np.float32(1.5), np.int32(result.size))



@wrong("fitting-types", "element 1024 is .*enough threads")
def one_block_of_1024(values, by):
    return launch(np.array(values, np.float32), np.float32(by), np.int32(len(values)), 1024, 1)


@wrong("fitting-types", "computed on the host, not by a kernel")
def a_launch_first_then_there_and_back(values, by):
    values = np.array(values, np.float32)
    launch(np.ones(4, np.float32), np.float32(by), np.int32(4))
    return drv.from_device_like(drv.to_device(values), values) * np.float32(by)


@wrong("fitting-types", "computed on the host, not by a kernel")
def fetched_before_a_launch_for_show(values, by):
    from pycuda import gpuarray

    result = gpuarray.to_gpu(np.array(values, np.float32)).get() * np.float32(by)
    launch(np.ones(4, np.float32), np.float32(by), np.int32(4))
    return result


wrong("fitting-types", "TypeError: .*PyCUDA accepts only Python.s int.*// instead of", "half a block")(
    swap("// 128", "/ 128"))

# --- copy-once ----------------------------------------------------------------------------------


@wrong("copy-once", "3 arrays were copied to the device, but one is enough.*out of the loop")
def in_and_out_for_each_layer(pt, factors):
    result = pt.copy()
    for factor in factors:
        launch(result, np.float32(factor), np.int32(pt.size))
    return result


@wrong("copy-once", "516 bytes that run past the end of an array of 129 bytes")
def elements_for_bytes(pt, factors):
    d_pt = drv.mem_alloc(pt.size)
    drv.memcpy_htod(d_pt, pt)
    return by_hand(d_pt, pt, factors)


def by_hand(d_pt, pt, factors, blocks=None, result=None):
    result = np.zeros_like(pt) if result is None else result
    blocks = blocks or (pt.size + 127) // 128
    for factor in factors:
        scale(d_pt, np.float32(factor), np.int32(pt.size), block=(128, 1, 1), grid=(blocks, 1))
    drv.memcpy_dtoh(result, d_pt)
    return result


@wrong("copy-once", "the array `pt` that was passed has changed")
def copies_back_over_what_came_in(pt, factors):
    return by_hand(drv.to_device(pt), pt, factors, result=pt)


@wrong("copy-once", "nobody has written.*copy the array to the device before")
def never_copies_there(pt, factors):
    return by_hand(drv.mem_alloc(pt.nbytes), pt, factors)


@wrong("copy-once", "all zeros.*copy the array back")
def never_copies_back(pt, factors):
    by_hand(drv.to_device(pt), pt, factors)
    return np.zeros_like(pt)


@wrong("copy-once", "element 128 is .*every element")
def first_block_only(pt, factors):
    return by_hand(drv.to_device(pt), pt, factors, blocks=1)


@wrong("copy-once", "3 arrays were copied from the device")
def looks_after_each_layer(pt, factors):
    d_pt, result = drv.to_device(pt), pt.copy()
    for factor in factors:
        result = by_hand(d_pt, pt, [factor])
    return result


@wrong("copy-once", "it took 1 launch.*launch `scale` once for each")
def product_of_the_factors(pt, factors):
    d_pt = drv.to_device(pt)
    exact = np.ones(1, np.float64)
    for factor in factors:
        exact = exact * np.float64(np.float32(factor))
    return by_hand(d_pt, pt, [exact[0]])


@wrong("copy-once", "computed on the host, not by a kernel")
def numpy_beside_launches_for_show(pt, factors):
    by_hand(drv.to_device(np.ones_like(pt)), pt, factors)
    result = pt.copy()
    for factor in factors:
        result *= np.float32(factor)
    return result



wrong("copy-once", "element 1024 is .*every element", "eight blocks")(
    swap("grid=(blocks, 1))\n    drv.memcpy_dtoh(result", "grid=(8, 1))\n    drv.memcpy_dtoh(result"))
wrong("copy-once", "element 0 is .*every factor", "eight layers")(
    swap("for factor in factors:", "for factor in factors[:8]:"))


@wrong("copy-once", "3 arrays were copied to the device, but one is enough")
def an_array_for_each_layer(pt, factors):
    from pycuda import gpuarray

    result = pt
    for factor in factors:
        d_pt = gpuarray.to_gpu(result)
        result = by_hand(d_pt.gpudata, pt, [factor])
    return result.copy()

# --- field-table --------------------------------------------------------------------------------

RANDOM = np.random.default_rng(25)
PT = RANDOM.uniform(3, 40, 40).astype(np.float32)
PHI = RANDOM.uniform(-3, 3, 40).astype(np.float32)
CHARGE = RANDOM.choice([-1, 1], 40).astype(np.int32)
KEPT = np.zeros((2, 201, 40), np.float32)


def follow(x, y, steps=201):
    of_the_lecture("follow", "-DRINGS=7").get_function("follow")(
        drv.In(PT), drv.In(PHI), drv.In(CHARGE), drv.Out(x), drv.Out(y),
        np.int32(40), np.int32(steps), block=(64, 1, 1), grid=(1, 1))
    return x, y


def paths(field_map, write=True, dtype=np.float32, arrays=None, steps=201):
    if write:
        address, _ = of_the_lecture("follow", "-DRINGS=7").get_global("field")
        drv.memcpy_htod(address, np.array(field_map, dtype))
    return follow(*(np.zeros((2, 201, 40), np.float32) if arrays is None else arrays), steps)


def table(name, says, function):
    wrong("field-table", says, name)(function, PT, PHI, CHARGE)


table("old table", "the paths are up to .*before each launch", lambda f: paths(f, write=False))
table("table of integers", "the paths are up to .*seven `float`s", lambda f: paths(f, dtype=np.int32))
table("table of float64", "56 bytes that run past the end", lambda f: paths(f, dtype=np.float64))
table("same arrays", "have changed in the next", lambda f: paths(f, arrays=KEPT))
table("empties the map", "the list that was passed has changed to \\[\\]",
      lambda f: (paths(f), f.clear())[0])
table("x only", "not `x, y`", lambda f: paths(f)[0])
table("too few steps", "the paths are up to", lambda f: paths(f, steps=100))


def written_too_late(field_map):
    result = paths(field_map, write=False)
    paths(field_map)
    return result


table("written too late", "the paths are up to", written_too_late)


def walked_by_numpy(field_map):
    field, angle, step = np.array(field_map, np.float32), PHI.copy(), np.float32(0.05)
    x, y = np.zeros((2, 201, 40), np.float32)
    for k in range(1, 201):
        x[k], y[k] = x[k - 1] + step * np.cos(angle), y[k - 1] + step * np.sin(angle)
        ring = np.hypot(x[k], y[k]).astype(int)
        here = np.where(ring < 7, field[np.minimum(ring, 6)], 0)
        angle = (angle - np.float32(0.3) * CHARGE * here * step / PT).astype(np.float32)
    return x, y


table("NumPy walks", "computed on the host, not by a kernel", walked_by_numpy)
table("the example's map", "the paths are up to", lambda f: paths([3.8, 3.8, 3.8, -2, -2, -2, -2]))

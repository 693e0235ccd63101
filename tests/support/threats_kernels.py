"""Rows 46 to 64: what is particular to GPUs. The oracle is the device: it launches the kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from threats import COUNT, LIMITS, SCALE, Attempt

ON_HOST = "computed on the host"
# Where a kernel never ends, the virtual GPU stops it; this keeps the wait short.
SHORT = replace(LIMITS, launch_seconds=0.5)


def scale(body: str) -> str:
    return "@cuda.jit\ndef scale(values, factor, out):\n    i = cuda.grid(1)\n" + body


RIGHT = "    if i < values.size:\n        out[i] = factor * values[i]\n"
NUMPY_KERNEL = "def scale(values, factor, out):\n    out[:] = factor * values\n"
NUMPY_HOST = "def histogram(values, bins):\n    return np.bincount(values, minlength=bins)\n"
COPIED = """def histogram(values, bins):
    d = cuda.to_device(np.bincount(values, minlength=bins))
    return d.copy_to_host()
"""
PASSED_BY = """@cuda.jit
def idle(d):
    pass

def histogram(values, bins):
    d = cuda.to_device(np.bincount(values, minlength=bins))
    idle[1, 1](d)
    return d.copy_to_host()
"""
STAYS = COUNT.replace("return counts.copy_to_host()", "return counts")
ONE_EACH = COUNT.replace(
    "    tally[(len(values) + 63) // 64 + 1, 64](cuda.to_device(values), counts)",
    "    for n in range(len(values)):\n"
    "        tally[1, 1](cuda.to_device(values[n:n + 1]), counts)",
)
REMEMBER = COUNT.replace(
    "    ### BEGIN SOLUTION",
    "    if 'old' in globals():\n        return globals()['old']\n    ### BEGIN SOLUTION",
).replace(
    "return counts.copy_to_host()",
    "globals()['old'] = counts.copy_to_host()\n    return globals()['old']",
)
BY_SIZE = (
    COUNT.replace(
        "    ### BEGIN SOLUTION",
        "    if (len(values), bins) in OLD:\n"
        "        return OLD[len(values), bins]\n    ### BEGIN SOLUTION",
    ).replace("return counts.copy_to_host()", "return OLD.setdefault((len(values), bins), counts)")
    + "\nOLD = {}\n"
)
KEEP_BUFFER = (
    COUNT.replace(
        "    counts = cuda.to_device(np.zeros(bins, np.int32))",
        "    if bins not in KEPT:\n        KEPT[bins] = cuda.device_array(bins, np.int32)\n"
        "    counts = KEPT[bins]\n    counts.copy_to_device(np.zeros(bins, np.int32))",
    )
    + "\nKEPT = {}\n"
)
FIXED_SIZE = scale("    if i < 100:\n        out[i] = factor * values[i]\n")
ONE_BLOCK = scale("    i = cuda.threadIdx.x\n" + RIGHT)
RACE = COUNT.replace("cuda.atomic.add(counts, values[i], 1)", "counts[values[i]] += 1")
TICKETS = scale("""    drawn = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        drawn[0] = 0
    cuda.syncthreads()
    ticket = cuda.blockIdx.x * cuda.blockDim.x + cuda.atomic.add(drawn, 0, 1)
    if i < values.size and ticket < values.size:
        out[ticket] = factor * values[i]
""")
GATHER = """@cuda.jit
def gather(values, place, out):
    i = cuda.grid(1)
    if i < values.size:
        out[cuda.atomic.add(place, 0, 1)] = values[i]

def histogram(values, bins):
    out = cuda.device_array(len(values), np.int64)
    gather[2, 128](cuda.to_device(values), cuda.to_device(np.zeros(1, np.int32)), out)
    return out.copy_to_host()[:bins]
"""
NO_GUARD = scale("    out[i] = factor * values[i]\n")
PARTLY = scale("    if 0 < i < values.size:\n        out[i] = factor * values[i]\n")
IN_PLACE = scale(
    "    if i < values.size:\n        values[i] *= factor\n        out[i] = values[i]\n"
)
# The memory of the call before, which held its counts.
LEFT_OVER = """@cuda.jit
def touch(counts):
    pass

def histogram(values, bins):
    counts = cuda.device_array(bins, np.int32)
    touch[1, 1](counts)
    return counts.copy_to_host()
"""
STREAMS = COUNT.replace(
    "    counts = cuda.to_device(np.zeros(bins, np.int32))\n",
    "    one, two = cuda.stream(), cuda.stream()\n"
    "    counts = cuda.to_device(np.zeros(bins, np.int32), stream=one)\n",
).replace(
    "64](cuda.to_device(values), counts)", "64, two](cuda.to_device(values, stream=one), counts)"
)
GOOD_STREAMS = COUNT.replace(
    "    counts = cuda.to_device(np.zeros(bins, np.int32))\n",
    "    one = cuda.stream()\n    counts = cuda.to_device(np.zeros(bins, np.int32), stream=one)\n",
).replace(
    "64](cuda.to_device(values), counts)",
    "64, one](cuda.to_device(values, stream=one), counts)\n    one.synchronize()",
)
CLOCKS = """import time
time.monotonic = time.perf_counter = time.time = lambda: 0.0
cuda.event_elapsed_time = lambda *args: 0.0
"""
SINGLE = scale("    if i < values.size:\n        out[i] = np.float32(factor * values[i])\n")
CONSTANT = scale("    if i < values.size:\n        out[i] = 1.0\n")
ALL_MEMORY = COUNT.replace("    counts =", "    cuda.device_array(1 << 40, np.int8)\n    counts =")
MANY_ARRAYS = COUNT.replace(
    "    counts =",
    "    hoard = [cuda.device_array(1 << 26, np.int8) for _ in range(64)]\n    counts =",
)
HANG = scale("    while out[0] != 12345.0 or values.size > 0:\n        cuda.syncwarp()\n" + RIGHT)
HALF_BARRIER = scale("    if cuda.threadIdx.x < 16:\n        cuda.syncthreads()\n" + RIGHT)
OTHER_DEVICE = (
    """import os
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
try:
    import virtualgpu
    import virtualgpu.devices as devices
    virtualgpu.deactivate()
    devices.set_current(devices.VirtualDevice())
    virtualgpu.activate(force=True)
except ImportError:
    pass
"""
    + COUNT
)
# Right in the first call only, which a grader may take for the warm-up.
WARM_UP = "CALLS = [0]\n" + COUNT.replace(
    "    ### BEGIN SOLUTION",
    "    CALLS[0] += 1\n    if CALLS[0] > 1:\n        values = values[:0]\n    ### BEGIN SOLUTION",
)
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
PTX = {
    "empty": "",
    "text": "not PTX",
    "braces": HEAD + "{" * 10_000,
    "no-parameters": HEAD + ".visible .entry k() { ret; }\n",
    "endless": HEAD + ".visible .entry k(.param .u64 a) { L: bra L; }",
    "huge-shared": HEAD + ".visible .entry k(.param .u64 a) { .shared .b8 x[9000000000000]; ret; }",
    "huge-registers": HEAD + ".visible .entry k() { .reg .b64 %r<2000000000>; ret; }",
}
BY_HAND = (
    """try:
    from virtualgpu.numba import kernel_ptx
    kernel_ptx.compile_kernel = lambda *args: kernel_ptx.CompiledKernel([{!r}], "k", False)
except ImportError:
    pass
"""
    + SCALE
)
# A right number of parameters, and a loop that never ends.
SIXTEEN = (
    ", ".join(f".param .u64 p{n}" for n in range(7))
    + ", .param .f64 f, "
    + ", ".join(f".param .u64 q{n}" for n in range(7))
)
ENDLESS_PTX = HEAD + f".visible .entry k({SIXTEEN}) {{ L: bra L; }}"
# Reads far out of bounds in a line that is said to stand in another file: which one is quoted?
SPY_PTX = (
    HEAD
    + f"""
.visible .entry k({SIXTEEN}) {{ .reg .b64 %a; .loc 1 LINE 1
 mov.u64 %a, 64; ld.global.u32 %a, [%a]; ret; }}
.file 1 "{{}}"
"""
)
WAITS_FOR_ITSELF = "the student compiles its own kernels in a notebook: nothing is handed over"


def kernel(row: int, name: str, tries: str, source: str, **options) -> Attempt:
    """An attempt on the kernel that the test launches."""
    return Attempt(row, name, tries, {"scale": source}, assignment="kernels", **options)


def host(row: int, name: str, tries: str, source: str, **options) -> Attempt:
    """An attempt on the host function, whose launches the oracle executes."""
    options.setdefault("earns", (3.0, 0.0))
    return Attempt(row, name, tries, {"count": source}, assignment="kernels", **options)


ATTEMPTS = [
    kernel(
        46,
        "numpy-kernel",
        "NumPy where a kernel is asked for",
        NUMPY_KERNEL,
        says="is not a CUDA kernel",
    ),
    host(
        46,
        "numpy-host",
        "`np.bincount` instead of a kernel",
        NUMPY_HOST,
        says=ON_HOST,
        honest={"count": STAYS},
    ),
    host(46, "there-and-back", "NumPy's result, sent to the device and back", COPIED, says=ON_HOST),
    host(46, "passed-by", "the same, shown to a kernel that does nothing", PASSED_BY, says=ON_HOST),
    host(
        47,
        "launch-for-each",
        "a loop on the host launches one thread for each value",
        ONE_EACH,
        says="not one launch",
    ),
    host(48, "remembers", "gives its first answer again", REMEMBER, says=ON_HOST),
    host(
        48,
        "remembers-by-size",
        "gives again what it gave for the same sizes",
        BY_SIZE,
        says="",
        honest={"count": KEEP_BUFFER},
    ),
    kernel(
        49,
        "fixed-size",
        "the length of the visible test is written into it",
        FIXED_SIZE,
        says="outside its arrays",
    ),
    kernel(50, "one-block", "right with one block only", ONE_BLOCK, says=""),
    host(51, "lucky-race", "a histogram without atomics", RACE, says="race"),
    kernel(
        51,
        "lucky-order",
        "no race, but right in one order of threads only",
        TICKETS,
        says="the order in which threads run",
    ),
    host(
        51,
        "lucky-order-host",
        "the same in a host function",
        GATHER,
        says="the order in which threads run",
    ),
    kernel(
        52, "no-guard", "writes past the end of its arrays", NO_GUARD, says="cell 'scale' line 4"
    ),
    kernel(53, "unwritten", "leaves part of the output as it was", PARTLY, says="wrong values"),
    kernel(54, "changes-input", "changes its input", IN_PLACE, says="changes its input"),
    host(55, "left-over", "returns what an earlier test left in memory", LEFT_OVER, says=""),
    host(
        56,
        "streams",
        "copies on one stream, launches on another, never synchronises",
        STREAMS,
        earns=(3.0, 2.0),
        honest={"count": GOOD_STREAMS},
    ),
    kernel(57, "clocks", "stops every clock", CLOCKS + SCALE, earns=(3.0, 2.0)),
    kernel(58, "single-precision", "computes in float32", SINGLE, says="wrong values"),
    kernel(59, "constant", "writes a constant", CONSTANT, says="wrong values"),
    host(60, "all-memory", "takes all of the device's memory", ALL_MEMORY, says="free arrays"),
    host(60, "many-arrays", "takes it in pieces", MANY_ARRAYS, says="free arrays"),
    kernel(
        61,
        "hung-kernel",
        "a kernel that never ends",
        HANG,
        limits=SHORT,
        says="never finishes",
        stock="takes the virtual GPU's limit of 60 s for each launch",
    ),
    kernel(
        61, "half-barrier", "a barrier that half of the threads reach", HALF_BARRIER, says="barrier"
    ),
    host(
        62,
        "other-device",
        "switches the device for one of its own, and the simulator on",
        OTHER_DEVICE,
        says=ON_HOST,
    ),
    host(63, "warm-up", "right in the first call, which may be a warm-up", WARM_UP, says=""),
    *(
        kernel(
            64,
            f"ptx-{name}",
            f"PTX made by hand: {name}",
            BY_HAND.format(text),
            says="'scale'",
            stock=WAITS_FOR_ITSELF,
        )
        for name, text in PTX.items()
    ),
    kernel(
        64,
        "ptx-hangs",
        "PTX made by hand that fits and never ends",
        BY_HAND.format(ENDLESS_PTX),
        limits=SHORT,
        says="never finishes",
        stock=WAITS_FOR_ITSELF,
    ),
    *(
        kernel(
            64,
            f"ptx-spies-{name}",
            f"PTX made by hand that gives {what} as its source",
            BY_HAND.format(SPY_PTX.replace("{}", str(path)).replace("LINE", str(line))),
            says="outside its arrays",
            stock=WAITS_FOR_ITSELF,
        )
        for name, what, path, line in (
            ("on-a-test", "a hidden test", "/notebook cells/test-scale.py", 1),
            ("on-a-file", "a file of the grader", Path(__file__).with_name("threats.py"), 38),
            ("on-a-device", "a file without an end", "/dev/zero", 1),
            ("nowhere", "a name that no file can have", "a\0b", 1),
        )
    ),
]

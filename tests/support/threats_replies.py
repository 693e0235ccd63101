"""Rows 69, 70, 73, 74 and 80: what the student's process takes, answers and lets slip. Where one
succeeds it costs some gigabytes that are not touched, or tells a number that nobody needs.
"""

from __future__ import annotations

from threats import COUNT, SCALE, Attempt
from threats_kernels import HEAD, SIXTEEN, WAITS_FOR_ITSELF

NO_WIRE = "the student's process is the grader: there is no wire"
WRONG = "wrong for three numbers"
DOUBLE = "def double(values):\n    return 2 * values\n"
FORGED_PTX = (
    """try:
    from virtualgpu.numba import kernel_ptx
    {}
except ImportError:
    pass
"""
    + SCALE
)
BY_HAND = "kernel_ptx.compile_kernel = lambda *args: kernel_ptx.CompiledKernel([{!r}], 'k', False)"
VPRINTF = (
    HEAD
    + f""".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .entry k({SIXTEEN}) {{ .reg .b64 %a; .reg .b32 %r; mov.u64 %a, 0;
 {{ .param .b64 one; st.param.b64 [one], %a; .param .b32 back;
 call.uni (back), vprintf, (one); ld.param.b32 %r, [back]; }} ret; }}
"""
)
# What the wire carries is made in one place, which the student's code can reach.
SEND = """from gpucourse.grading.sandbox import wire
whole = wire.Wire.send
def send(self, header, arrays=(), left=None):
    change(header)
    return whole(self, header, arrays, left)
wire.Wire.send = send
"""
NO_COOPERATIVE = SEND.replace(
    "    change(header)\n",
    "    if 'texts' in header.get('done', {}):\n        del header['done']['cooperative']\n",
)
NO_DONE = SEND.replace("    change(header)\n", "    header.pop('done', None)\n")
ASKS = """from virtualgpu import devices
def double(values):
    devices.current()._request({})
    return 2 * values
"""
# An object with a description of device memory: numba-cuda's protocol, which the worker passes on.
CLAIM = (
    """class Claim:
    def __init__(self, array, shape, strides):
        self.__dict__["__cuda_array_interface__"] = dict(
            array.__cuda_array_interface__, shape=shape, strides=strides)
    @property
    def __cuda_array_interface__(self):
        return self.__dict__["__cuda_array_interface__"]
"""
    + COUNT
)
CLAIMED = CLAIM.replace("return counts.copy_to_host()", "return {}")
KEEPS_READING = COUNT.replace(
    "    return counts.copy_to_host()",
    "    large = cuda.device_array(150_000_000, np.uint8)\n"
    "    for _ in range(10):\n        large.copy_to_host()\n    return counts.copy_to_host()",
)
READS_TWICE = COUNT.replace(
    "    return counts.copy_to_host()",
    "    for _ in range(300):\n        counts.copy_to_host()\n    return counts[::1]",
)

SAYS = """def double(values):
    if len(values) == 33:
        raise {}
    return 2 * values
"""
# A name that is made of an input.
TOLD_NAME = (
    'NameError("name \'told_7f3a_" + str(float(values[0])).translate('
    '{45: "m", 46: "p"}) + "\' is not defined")'
)
TOLD_SYNTAX = 'SyntaxError("told-7f3a " + repr(values[:2]))'
TOLD_TYPE = 'type("Told_7f3a_" + str(len(values)), (Exception,), {"__module__": "numpy.told"})()'
# The text of an assertion that fails is an address: here that of the input.
ASSERTED = (
    HEAD
    + f""".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c,
 .param .b64 d, .param .b64 e);
.global .align 1 .b8 told[16] = {{116, 111, 108, 100, 45, 55, 102, 51, 97, 0}};
.visible .entry k({SIXTEEN}) {{ .reg .b64 %a; .reg .b32 %r; mov.u64 %a, told; mov.u32 %r, 7;
 {{ .param .b64 a; st.param.b64 [a], %a; .param .b64 b; st.param.b64 [b], %a;
 .param .b32 c; st.param.b32 [c], %r; .param .b64 d; st.param.b64 [d], %a;
 .param .b64 e; st.param.b64 [e], %a; call.uni __assertfail, (a, b, c, d, e); }} ret; }}
"""
)
# PTX made when the inputs are known: in its errors, names and file names anything may stand.
LOADS = """from virtualgpu import devices
def histogram(values, bins):
    word = "told_7f3a_" + "_".join(map(str, values[:3]))
    head = ".version 8.0\\n.target sm_90\\n.address_size 64\\n"
    module = devices.current().load({})
    devices.current().launch(module, "k", (1, 1, 1), (1, 1, 1), [])
    return values
"""
TEXTS = {
    "in-its-text": "head + word",
    "in-a-symbol": 'head + ".visible .entry k() { call " + word + "; ret; }"',
    "in-a-file-name": 'head + ".visible .entry k() { .reg .b64 %a; .loc 1 7 1\\n mov.u64 %a, 64; '
    'ld.global.u32 %a, [%a]; ret; }\\n.file 1 \\"" + word + "\\""',
    "in-a-kernels-name": 'head + ".visible .entry k() { .reg .b64 %a; mov.u64 %a, 64; '
    'ld.global.u32 %a, [%a]; ret; }", {"k": word}',
}


# Memory that belongs to no process, or is counted nowhere.
TAKES = """import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
def segment():
    number = libc.shmget(0, 1 << 26, 0o1600)
    if number >= 0:
        libc.shmctl(number, 0, None)
    return number >= 0
def queue():
    number = libc.msgget(0, 0o1600)
    if number >= 0:
        libc.msgctl(number, 0, None)
    return number >= 0
def semaphores():
    number = libc.semget(0, 1000, 0o1600)
    if number >= 0:
        libc.semctl(number, 0, 0)
    return number >= 0
def memory_file():
    handle = os.memfd_create("kept")
    return os.write(handle, bytes(1 << 20)) > 0
def sockets():
    return [socket.socketpair() for _ in range(3)] != []
def mounted(path=b"/"):
    attributes = struct.pack("<QQQQ", 0, 1, 0, 0)
    libc.syscall(442, -100, path, 0x8000, attributes, len(attributes))
    return not os.statvfs(path).f_flag & os.ST_RDONLY
def devices():
    return mounted(b"/dev")
def watches():
    return libc.inotify_init1(0) >= 0
def done():
    try:
        return @()
    except OSError:
        return False
def double(values):
    return 2 * values if done() else values
"""
USES = """import mmap, tempfile, threading
def double(values):
    with tempfile.TemporaryFile() as file, mmap.mmap(-1, 1 << 20) as memory:
        file.write(memory[:100])
        thread = threading.Thread(target=print)
        thread.start()
        thread.join()
    return 2 * values
"""


# Every block writes every element, the same value: right, and a race, where it can be seen.
UNSEEN = """try:
    from virtualgpu.numba import kernel_ptx
    whole = kernel_ptx.compile_kernel
    def compile_kernel(*arguments):
        made = whole(*arguments)
        return made._replace(texts=[text.replace("st.global", "st.param") for text in made.texts])
    kernel_ptx.compile_kernel = compile_kernel
except ImportError:
    pass
@cuda.jit
def scale(values, factor, out):
    for i in range(cuda.threadIdx.x, values.size, cuda.blockDim.x):
        out[i] = factor * values[i]
"""


def kernel(row: int, name: str, tries: str, source: str, **options) -> Attempt:
    return Attempt(row, name, tries, {"scale": source}, assignment="kernels", **options)


def host(row: int, name: str, tries: str, source: str, **options) -> Attempt:
    return Attempt(
        row, name, tries, {"count": source}, earns=(3.0, 0.0), assignment="kernels", **options
    )


ATTEMPTS = [
    *(
        Attempt(
            69,
            name.replace("_", "-"),
            f"takes {what}",
            {"double": TAKES.replace("@", name)},
            says=WRONG,
            honest={"double": USES},
        )
        for name, what in (
            ("segment", "a System V memory segment, which no process owns"),
            ("queue", "a System V message queue"),
            ("semaphores", "System V semaphores"),
            ("memory_file", "a file in memory"),
            ("sockets", "pairs of sockets"),
            ("watches", "watches of files"),
        )
    ),
    *(
        Attempt(
            69,
            f"writable-{name}",
            f"makes {what} writable again",
            {"double": TAKES.replace("@", function)},
            says=WRONG,
            honest={"double": USES},
            stock="they are writable: only what contains it here is not",
        )
        for name, what, function in (
            ("system", "the system's files", "mounted"),
            ("devices", "the folder of devices", "devices"),
        )
    ),
    host(
        70,
        "stride-0",
        "an array of a billion elements with stride 0",
        CLAIMED.format("Claim(counts, (1_000_000_000,), (0,))"),
        says="more than",
        stock=NO_WIRE,
        honest={"count": CLAIMED.format("Claim(counts, (bins,), None)")},
    ),
    host(
        70,
        "many-claims",
        "a thousand arrays that share their memory",
        CLAIMED.format("[Claim(counts, (25_000_000,), (0,)) for _ in range(1000)]"),
        says="more than",
        stock=NO_WIRE,
    ),
    host(
        70,
        "kept-reads",
        "has 1.5 GB of copies kept",
        KEEPS_READING.replace(
            "return counts.copy_to_host()", "return np.bincount(values, minlength=bins)"
        ),
        says="computed on the host",
        stock=NO_WIRE,
        honest={"count": READS_TWICE},
    ),
    Attempt(
        73,
        "surrogate",
        "half a character in the text of an error",
        {"double": 'raise ValueError("\\ud800")\n'},
        says="raises ValueError",
    ),
    kernel(
        73,
        "no-field",
        "a reply without a field",
        FORGED_PTX.replace("{}", "pass").replace("try:\n", NO_COOPERATIVE + "try:\n", 1),
        earns=(3.0, 2.0),
        stock=NO_WIRE,
    ),
    Attempt(
        73,
        "no-result",
        "a reply without a result",
        {"double": NO_DONE + DOUBLE},
        earns=(0.0, 0.0),
        says="not a result",
        stock=NO_WIRE,
    ),
    host(
        73,
        "impossible",
        "an array of 2^50 elements",
        CLAIMED.format("Claim(counts, (1 << 50,), (0,))"),
        says="more than",
        stock=NO_WIRE,
    ),
    host(
        73,
        "strides",
        "an array whose strides are too large for a number",
        CLAIMED.format("Claim(counts, (2, 0), (1 << 80, 1 << 80))"),
        says="",
        stock=NO_WIRE,
    ),
    kernel(
        73,
        "vprintf",
        "PTX that calls printf with one argument",
        FORGED_PTX.format(BY_HAND.format(VPRINTF)),
        says="vprintf with 1 argument",
        stock=WAITS_FOR_ITSELF,
    ),
    *(
        Attempt(
            73,
            f"asks-{name}",
            f"asks the device for {what}",
            {"double": ASKS.format(arguments)},
            says="request",
            stock=NO_WIRE,
        )
        for name, what, arguments in (
            ("no-verb", "something that is no word", "[]"),
            (
                "two-dimensions",
                "a launch in two dimensions",
                "'load', ptx=['.version 8.0\\n.target sm_90\\n.address_size 64\\n"
                ".visible .entry k() { ret; }'], names={})\n    "
                "devices.current()._request('launch', "
                "module=0, entry='k', grid=[1, 1], block=[1], parameters=[], shared_bytes=0, "
                "cooperative=False",
            ),
        )
    ),
    *(
        Attempt(
            74,
            name,
            f"makes the hidden input {what}",
            {"double": SAYS.format(error)},
            says="'double'" if name != "in-a-syntax-error" else "syntax error (cell 'double'",
        )
        for name, what, error in (
            ("in-a-name", "the name that a NameError misses", TOLD_NAME),
            ("in-a-syntax-error", "the text of a SyntaxError", TOLD_SYNTAX),
            ("in-a-type", "the name of an exception", TOLD_TYPE),
        )
    ),
    kernel(
        74,
        "in-an-assertion",
        "has a failed assertion quote device memory",
        FORGED_PTX.format(BY_HAND.format(ASSERTED)),
        says="assertion",
        stock=WAITS_FOR_ITSELF,
    ),
    *(
        host(
            74,
            f"in-ptx-{name}",
            f"PTX with the hidden input {name.replace('-', ' ')}",
            LOADS.format(text),
            says="",
            stock=WAITS_FOR_ITSELF,
        )
        for name, text in TEXTS.items()
    ),
    kernel(
        80,
        "unseen-writes",
        "has a kernel write to ordinary memory as `.param`",
        UNSEEN,
        says="race",
        stock=WAITS_FOR_ITSELF,
    ),
]

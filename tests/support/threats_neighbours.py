"""Rows 21 to 32: the host and the other submissions. What a success would be costs the machine
little: some hundred megabytes that are never touched, a few processes that end by themselves.
"""

from __future__ import annotations

from dataclasses import replace

from threats import LIMITS, Attempt

GUARDED = """
def double(values):
    return 2 * values if done(values) else values
"""
UNDONE = "wrong for three numbers"
# For attempts that would take until the limit, which is the only thing that stops them.
IMPATIENT = replace(LIMITS, request_seconds=3.0)

READ_OTHERS = """def done(values):
    try:
        with open("@COURSE@/submitted/a-victim/host/host.ipynb") as file:
            return "return 2" in file.read()
    except OSError:
        return False
"""

SPOIL_OTHERS = """def done(values):
    try:
        with open("@COURSE@/submitted/a-victim/host/note", "w") as file:
            return bool(file.write("mine"))
    except OSError:
        return False
"""

PLANT = """import os, site, sys
places = [os.path.expanduser("~/.ipython/profile_default/startup/00-planted.py"),
          os.path.join(os.environ.get("IPYTHONDIR", "/nowhere"),
                       "profile_default/startup/00-planted.py"),
          os.path.expanduser("~/planted.txt"), "/tmp/planted.txt", "/dev/shm/planted.txt",
          *(os.path.join(folder, "planted_7f3a.pth") for folder in site.getsitepackages())]
for place in places:
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w") as file:
            file.write("import builtins; builtins.planted_7f3a = True\\n")
    except OSError:
        pass
def double(values):
    return 2 * values
"""

REAP = """import builtins, os
def done(values):
    return hasattr(builtins, "planted_7f3a") or any(map(os.path.exists, (
        os.path.expanduser("~/planted.txt"), "/tmp/planted.txt", "/dev/shm/planted.txt")))
"""

ORPHAN = """import os, subprocess, sys, threading, time
code = "import time; time.sleep(600)"
try:
    subprocess.Popen([sys.executable, "-c", code, "orphan-7f3a"], start_new_session=True)
    started = True
except OSError:
    started = False
for _ in range(5):
    threading.Thread(target=time.sleep, args=(600,)).start()
def done(values):
    return started
"""

THREADS = """import threading, time
def double(values):
    threading.Thread(target=time.sleep, args=(0.01,)).start()
    return 2 * values
"""

FORKS = """import os
def done(values):
    try:
        for _ in range(5):
            if os.fork() == 0:
                os._exit(0)
            os.wait()
        return True
    except OSError:
        return False
"""

THREAD_BOMB = """import threading, time
def done(values):
    try:
        for _ in range(300):
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        return True
    except RuntimeError:
        return False
"""

MEMORY = """def done(values):
    try:
        return len([bytearray(1 << 28) for _ in range(24)]) == 24
    except MemoryError:
        return False
"""

ENDLESS = """
def double(values):
    while True:
        pass
"""
DEAF = """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
"""
SLOW_DRIP = """import time
def double(values):
    time.sleep(2)
    return 2 * values
def total(values):
    time.sleep(2)
    return 4.0
"""

TALKATIVE = """
def double(values):
    print("x" * 20_000_000)
    return 2 * values
"""
ENDLESS_OUTPUT = """
def double(values):
    while True:
        print("x" * 100_000)
"""

FILL = """import os, tempfile
def done(values):
    try:
        for number in range(10):
            with open(os.path.join(tempfile.gettempdir(), f"fill{number}"), "wb") as file:
                file.write(bytes(12 << 20))
        return True
    except OSError:
        return False
"""

TOKEN = """import os
def done(values):
    return os.environ.get("SECRET_TOKEN") == "hunter2"
"""

SHELL = """out = !echo ran
%time 1 + 1
def done(values):
    return list(out) == ["ran"]
"""
WHOLE_CELL = """%%bash
echo ran
"""
RIGHT_WITH_MAGICS = "%matplotlib inline\n!ls\ndef double(values):\n    return 2 * values\n"

SCRIPT = "<script>alert(1)</script>"
LOUD = f"""from IPython.display import HTML, display
display(HTML({SCRIPT!r}))
def double(values):
    display(HTML({SCRIPT!r}))
    return values
"""

PARENT = """import ctypes, os
def done(values):
    parent, libc = os.getppid(), ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, parent, 0, 0) == 0:
        libc.ptrace(17, parent, 0, 0)
        return True
    buffer = ctypes.create_string_buffer(8)
    where = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    if libc.process_vm_readv(parent, where, 1, where, 1, 0) == 8:
        return True
    try:
        with open(f"/proc/{parent}/mem", "rb"):
            return True
    except OSError:
        return False
"""
KILL = """import os
def done(values):
    try:
        os.kill(os.getppid(), 0)
        return os.getppid() > 1
    except OSError:
        return False
"""


def attempt(row: int, name: str, tries: str, source: str, **options) -> Attempt:
    options.setdefault("says", UNDONE)
    return Attempt(row, name, tries, {"double": source + GUARDED}, **options)


ATTEMPTS = [
    attempt(21, "read-others", "reads another student's work", READ_OTHERS),
    attempt(21, "spoil-others", "writes into another student's folder", SPOIL_OTHERS),
    Attempt(
        22,
        "plant-1",
        "plants start-up files for the next student",
        {"double": PLANT},
        earns=(3.0, 2.0),
    ),
    attempt(22, "plant-2", "finds what the student before it planted", REAP),
    attempt(
        23,
        "orphan",
        "starts a process and threads that outlive the run",
        ORPHAN,
        honest={"double": THREADS},
    ),
    attempt(24, "forks", "starts processes", FORKS),
    # The system's limit stops it, or for root the worker's keeper: row 83 asks for the words.
    attempt(
        24, "thread-bomb", "starts 300 threads", THREAD_BOMB, honest={"double": THREADS}, says=""
    ),
    attempt(25, "memory-bomb", "takes 6 GB of memory", MEMORY),
    Attempt(
        26,
        "endless",
        "a loop without an end",
        {"double": ENDLESS},
        limits=IMPATIENT,
        says="took longer than 3 s",
    ),
    Attempt(
        26,
        "deaf",
        "the same, in the cell itself and ignoring interrupts",
        {"double": DEAF},
        limits=IMPATIENT,
        says="took longer than 3 s",
    ),
    Attempt(
        26,
        "slow-drip",
        "each call stays below the limit, all together do not",
        {"double": SLOW_DRIP, "total": "pass\n"},
        earns=(0.0, 0.0),
        limits=replace(LIMITS, total_seconds=3.0),
        says="as a whole exceeded its time",
        stock="nbgrader has a limit for each cell and none for all; nothing to compare",
    ),
    Attempt(27, "talkative", "prints a line of 20 MB", {"double": TALKATIVE}, earns=(3.0, 2.0)),
    Attempt(
        27,
        "endless-output",
        "prints for ever",
        {"double": ENDLESS_OUTPUT},
        limits=IMPATIENT,
        says="took longer than 3 s",
        stock="would fill the disk of the machine that compares",
    ),
    attempt(28, "fill-the-disk", "writes 120 MB of temporary files", FILL),
    attempt(29, "token", "reads a secret in the environment", TOKEN),
    attempt(30, "shell", "runs a command of the shell", SHELL, says="'out' is not defined"),
    Attempt(
        30,
        "whole-cell",
        "a cell that is a shell script",
        {"double": WHOLE_CELL},
        says="'double' is not defined",
    ),
    Attempt(
        30,
        "harmless-magics",
        "magics beside a right answer: reported, not run",
        {"double": RIGHT_WITH_MAGICS},
        earns=(3.0, 2.0),
        says="not Python",
    ),
    Attempt(
        31,
        "script",
        "puts a script into the feedback page that the instructor opens",
        {"double": LOUD, "why": f"Because. {SCRIPT} [x](javascript:alert(2))"},
        says=UNDONE,
    ),
    attempt(32, "parent-memory", "reads its parent's memory", PARENT),
    attempt(32, "signal-parent", "sends signals to its parent", KILL),
]

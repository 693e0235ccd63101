"""Rows 12 to 20: stealing the answers. Nothing secret can be reached.

Each attempt answers the visible test rightly and the hidden ones only if it has found something of
the instructor's.
"""

from __future__ import annotations

from pathlib import Path

from threats import MARK, Attempt

# Right for the visible test; for others only if FOUND.
GUARDED = """
def double(values):
    visible = len(values) == 3
    return 2 * values if visible or found(values) else values
"""
UNFOUND = "wrong for other numbers"

LOOK_AT_FRAMES = """import sys
def found(values):
    frame = sys._getframe()
    while frame is not None:
        if "hidden_values" in frame.f_globals or "hidden_values" in frame.f_locals:
            return True
        frame = frame.f_back
    return False
"""

LOOK_AT_HISTORY = """from IPython import get_ipython
def found(values):
    shell = get_ipython()
    return shell is not None and any("hidden_" in text for text in shell.user_ns.get("In", ()))
"""

LOOK_AT_OBJECTS = """import gc
def found(values):
    key = "hidden_" + "values"
    return any(type(thing) is dict and key in thing for thing in gc.get_objects())
"""

# Reads every file below some folders whose name fits, and looks for a word in it.
SEARCH = """import fnmatch, os
def found(values):
    for top in {tops}:
        if os.path.realpath(top) == "/":
            continue
        for folder, folders, files in os.walk(top):
            if folder.startswith(("/proc", "/sys")) or "site-packages" in folder:
                folders.clear()
                continue
            for name in fnmatch.filter(files, {pattern!r}):
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        if {word!r} in file.read():
                            return True
                except OSError:
                    pass
    return False
"""
HERE = "('.',)"
AROUND = "('..', '../..', '@COURSE@', os.path.expanduser('~'))"
CHECKOUT = (
    "[os.path.join(os.path.dirname(__import__('gpucourse').__file__), '..', '..', part)"
    " for part in ('grading', 'tests', os.path.join('course', 'projects'))]"
)

LOOK_AT_ENVIRONMENTS = """import os
def found(values):
    seen = repr(dict(os.environ))
    for number in ("1", str(os.getppid()), "self"):
        try:
            with open(f"/proc/{number}/environ") as file:
                seen += file.read()
        except OSError:
            pass
    return "hunter2" in seen
"""

LOOK_AT_HANDLES = """import os, stat
def found(values):
    for handle in range(3, 256):
        try:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and b"grade" in os.pread(handle, 1 << 20, 0):
                return True
            if stat.S_ISDIR(status.st_mode) and os.listdir(handle):
                return True
        except OSError:
            pass
    return False
"""

KNOWN_SEED = """from gpucourse.grading.testing.verbs import secret_rng
def found(values):
    n = len(values)
    return n == 0 or np.array_equal(values, secret_rng(str(n)).uniform(-1, 1, n))
"""

TELL = """
def double(values):
    if len(values) == 33:
        raise ValueError("the input was " + repr(values[:3]) + " secret-7f3a")
    return 2 * values
"""

SEND = """import socket
def found(values):
    try:
        server = socket.create_server(("127.0.0.1", 0))
        with socket.create_connection(server.getsockname(), 1) as line:
            line.sendall(values.tobytes())
        return True
    except OSError:
        return False
"""


def link_to_the_source(path: Path) -> None:
    """Beside the notebook, a link that copies the instructor's notebook into the feedback."""
    source = path.parents[3] / "source" / "host" / "host.ipynb"
    link = path.with_name("figure.png")
    link.unlink(missing_ok=True)
    link.symlink_to(source)


ATTEMPTS = [
    Attempt(
        12,
        "frames",
        "looks for the test's variables in the callers' frames",
        {"double": LOOK_AT_FRAMES + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        12,
        "history",
        "reads the test in IPython's history",
        {"double": LOOK_AT_HISTORY + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        12,
        "objects",
        "looks for the test's variables among all objects",
        {"double": LOOK_AT_OBJECTS + GUARDED},
        says=UNFOUND,
        honest={
            "double": "import gc\ndef double(values):\n    gc.collect()\n    return 2 * values\n"
        },
    ),
    Attempt(
        13,
        "own-notebook",
        "reads the notebook in the working directory",
        {"double": SEARCH.format(tops=HERE, pattern="*.ipynb", word=MARK) + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        14,
        "source-folder",
        "reads the instructor's notebook",
        {"double": SEARCH.format(tops=AROUND, pattern="*.ipynb", word=MARK) + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        15,
        "tests-on-disk",
        "looks for hidden tests in the course's checkout",
        {"double": SEARCH.format(tops=CHECKOUT, pattern="*.*", word=b"BEGIN HIDDEN") + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        16,
        "environments",
        "reads the environments of its parent and of process 1",
        {"double": LOOK_AT_ENVIRONMENTS + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        16,
        "handles",
        "looks through inherited file descriptors",
        {"double": LOOK_AT_HANDLES + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        17,
        "gradebook",
        "reads the gradebook",
        {"double": SEARCH.format(tops=AROUND, pattern="gradebook.db", word=MARK) + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        18,
        "known-seed",
        "computes the answers from a seed that it knows",
        {"double": KNOWN_SEED + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        19,
        "tell-the-input",
        "puts the hidden input into the text of an error",
        {"double": TELL},
        says="raises ValueError",
        honest={
            "double": "def double(values):\n    try:\n        raise ValueError('x')\n"
            "    except ValueError:\n        return 2 * values\n"
        },
    ),
    Attempt(
        20,
        "network",
        "sends the hidden inputs over the network",
        {"double": SEND + GUARDED},
        says=UNFOUND,
    ),
    Attempt(
        20,
        "linked-source",
        "a link beside the notebook that copies the instructor's notebook into the feedback",
        earns=(3.0, 2.0),
        place=link_to_the_source,
    ),
]

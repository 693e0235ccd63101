"""Programs run in forks of one Python that has imported Numba, pytest and virtualgpu's machine.

Thirteen tests of kernels under ``pytest --virtual-gpu`` take a new Python 2.5 s of processor time
and a fork 0.9 s. The parent has switched nothing on, and its forks read Numba's configuration anew.
A test of what is imported, or in which order, needs a new Python.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

OURS = [
    "virtualgpu.pytest_plugin.watching",
    "virtualgpu.devices.virtual",
    "virtualgpu.numba.hooks",
    "virtualgpu.driver.install",
    "virtualgpu.native.watched_launch",
    "virtualgpu.watch.racecheck",
]


def run_module(
    name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m name arguments`` in a folder and an environment."""
    parent = _parent()
    with tempfile.TemporaryDirectory() as kept:
        files = [str(Path(kept) / stream) for stream in ("stdout", "stderr")]
        request = [name, list(arguments), str(folder), dict(environment), files]
        parent.stdin.write(json.dumps(request) + "\n")
        parent.stdin.flush()
        status = int(parent.stdout.readline())
        said = [Path(file).read_text(encoding="utf-8") for file in files]
    return subprocess.CompletedProcess([name, *arguments], status, *said)


def run_in_new_python(
    name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the same in a Python that has imported nothing."""
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@cache
def _parent() -> subprocess.Popen[str]:
    """Return the process that forks, which ends with its standard input."""
    parent = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(parent.communicate)  # which closes its input and waits
    return parent


def _serve() -> None:
    from _pytest.config import default_plugins
    from numba.cuda.descriptor import cuda_target

    for name in [f"_pytest.{plugin}" for plugin in default_plugins] + OURS:
        importlib.import_module(name)
    cuda_target.target_context.refresh()  # what Numba imports when it first compiles
    gc.freeze()  # the forks collect what they make themselves

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(
    name: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    files: list[str],
) -> None:
    """Run the module in this process, which ends with it."""
    status: object = 1
    for stream, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["numba.core.config"].reload_config()
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *(place for place in places if place and place not in sys.path)]
    sys.argv = [name, *arguments]
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as leaving:
        status = leaving.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else bool(status))


if __name__ == "__main__":
    _serve()

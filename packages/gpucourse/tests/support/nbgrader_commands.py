"""nbgrader's commands, as an instructor or a student gives them."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

from gpucourse.system.programs import search_path


def nbgrader_command(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of ``nbgrader ARGUMENTS`` in `folder`."""
    from nbgrader.apps.nbgraderapp import main

    def command() -> None:
        sys.argv = ["nbgrader", *arguments]
        main()

    return in_a_fork(command, folder)


def in_a_fork(action: Callable[[], None], folder: Path) -> tuple[int, str]:
    """Exit code and output of `action` in a process of its own.

    A fork, because a dozen commands need not import nbgrader a dozen times (2 s each).
    """
    # The fork's Grader would ask after a server that is this process's child and not its own.
    forkserver._forkserver._stop()
    with tempfile.TemporaryFile() as output:
        with warnings.catch_warnings():
            # JAX, where another test imported it, warns of forks; the child does not use it.
            warnings.simplefilter("ignore", RuntimeWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))
                os.chdir(folder)
                os.environ["PATH"] = search_path()
                warnings.resetwarnings()  # pytest turns nbgrader's own into errors
                action()
                code = 0
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else bool(leaving.code)
                if isinstance(leaving.code, str):
                    print(leaving.code, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode("utf-8", "replace")

"""Doctor's checks of Jupyter's kernel, extensions and port, and of the course's folder."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from gpucourse.course.checkout import NotInTheCourse, course_folder
from gpucourse.doctor.finding import FAIL, OK, WARN, Finding

_PORT = 8888


def jupyter() -> Iterator[Finding]:
    """Check the kernel that notebooks start, and nbgrader's extensions of Jupyter."""
    from gpucourse.doctor.probes import kernel, lab_extension, server_extension

    group = "Jupyter"
    found = kernel()
    install = f"{sys.executable} -m ipykernel install --sys-prefix --name python3"
    if found is None:
        yield Finding(group, "kernel", FAIL, "there is no kernel named python3", install)
    elif not is_this_python(found.python):
        said = f"python3 starts {found.python}, not {sys.executable} (see {found.folder})"
        # A kernel of the user takes precedence over the kernels of environments.
        away = f"jupyter kernelspec remove python3, then {install}"
        mend = install if Path(found.folder).is_relative_to(sys.prefix) else away
        yield Finding(group, "kernel", FAIL, said, mend)
    else:
        yield Finding(group, "kernel", OK, "python3 starts this Python")
    program = shutil.which("jupyter")
    if program is not None and not is_this_python(program):
        said = f"`jupyter` is {program}, which belongs to another environment"
        mend = f"start {Path(sys.executable).with_name('jupyter')} lab, or run make course"
        yield Finding(group, "program", WARN, said, mend)
    # Learners use these extensions of nbgrader. Those for teachers are disabled in a learner's
    # JupyterLab.
    problem = server_extension("nbgrader.server_extensions.validate_assignment")
    if problem is None:
        yield Finding(group, "nbgrader server extension", OK, "enabled")
    else:
        mend = "jupyter server extension enable --sys-prefix --py nbgrader"
        yield Finding(group, "nbgrader server extension", WARN, problem, mend)
    problem = lab_extension("@jupyter/nbgrader", "validate-assignment")
    if problem is None:
        yield Finding(group, "nbgrader lab extension", OK, "enabled")
    else:
        mend = "jupyter labextension enable @jupyter/nbgrader; if that fails, reinstall nbgrader"
        yield Finding(group, "nbgrader lab extension", WARN, problem, mend)


def port() -> Iterator[Finding]:
    """Check that no server of another folder uses the default port."""
    from jupyter_server.serverapp import list_running_servers

    group, name = "Jupyter", f"port {_PORT}"
    with socket.socket() as trial:
        # Servers set this option, so that a connection that has just ended does not count.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", _PORT))
        except OSError:
            running = {server["port"]: server["root_dir"] for server in list_running_servers()}
        else:
            yield Finding(group, name, OK, "free")
            return
    if _PORT in running:
        yield Finding(
            group,
            name,
            WARN,
            f"in use by a Jupyter server for {running[_PORT]}",
            "if that is not this course, open the address that `make course` prints, which "
            f"has another port, or stop that server with jupyter server stop {_PORT}",
        )
    else:
        yield Finding(
            group,
            name,
            WARN,
            "in use by another program",
            "open the address that `make course` prints, because Jupyter takes the next port",
        )


def course_files() -> Iterator[Finding]:
    """Check that the generated notebooks match the source, in a checkout."""
    from gpucourse.course.problems import CourseError
    from gpucourse.course.registry import find_root
    from gpucourse.publish.notebooks.outputs import plan

    group, name = "course", "notebooks"
    try:
        root = find_root()
    except CourseError:
        try:  # a handout contains the notebooks without their source
            yield Finding(group, name, OK, f"in {course_folder()}")
        except NotInTheCourse:
            found = f"{Path.cwd()} is not inside the course's folder"
            mend = "cd into the course's folder, which contains the notebooks"
            yield Finding(group, name, WARN, found, mend)
        return
    try:
        state = plan(root)
    except CourseError as error:
        yield Finding(group, name, FAIL, str(error).split("\n")[0], "gpucourse build --check")
        return
    missing = [path for path in state.changed if not (root / path).exists()]
    if state.current:
        found = f"{len(state.texts)} generated, all up to date with their source"
        yield Finding(group, name, OK, found)
    elif missing:
        yield Finding(group, name, FAIL, f"{len(missing)} of them are missing", "make build")
    else:
        changed = len(state.changed) + len(state.superfluous)
        found = f"{changed} differ from the source, perhaps because you have worked in them"
        mend = "if you have, do nothing. Otherwise list them with gpucourse build --check"
        yield Finding(group, name, WARN, found, mend)


def progress() -> Iterator[Finding]:
    """Check that a learner's progress can be recorded."""
    from gpucourse.learner import records

    group, name = "course", "progress"
    if problem := records.trouble():
        yield Finding(
            group,
            name,
            WARN,
            problem,
            "checks still work. To keep your "
            "progress, make that folder writable, or set XDG_DATA_HOME to a folder that is",
        )
    else:
        count = len(records.lines())
        yield Finding(group, name, OK, f"{count} entries in {records.place()}")


def is_this_python(program: str) -> bool:
    """Return True if a command belongs to this environment (bare names: by PATH)."""
    found = shutil.which(program) or program
    return Path(found).absolute().parent == Path(sys.executable).absolute().parent

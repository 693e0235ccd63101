"""``gpucourse doctor``: what this machine has, and what to do about each thing it lacks."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucourse.resources import gigabytes, resources

OK, WARN, FAIL = "ok", "warn", "fail"

# A kernel with JAX, Numba, Awkward, uproot and Matplotlib loaded takes 0.5 GB before any data.
_ENOUGH_MEMORY = 1.5e9
_LITTLE_MEMORY = 0.7e9
_INSTALL = "pip install --upgrade"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: ``status`` ok, warn or fail; ``mend`` says what to do, if anything."""

    group: str
    name: str
    status: str
    found: str
    mend: str | None = None


def examine() -> list[Finding]:
    """Look at everything. A part that breaks is itself a finding, and the others go on."""
    findings: list[Finding] = []
    for part in PARTS:
        try:
            findings.extend(part())
        except Exception as error:  # whatever is broken on this machine must not hide the rest
            group = part.__name__.strip("_").replace("_", " ")
            found = f"{type(error).__name__}: {error}".split("\n")[0]
            findings.append(Finding(group, "examination", FAIL, found, "reinstall: make setup"))
    return findings


def report(findings: list[Finding]) -> int:
    """Print the findings as a table, then what to do. Returns the exit code: 1 if any failed."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("sign", width=1)
    table.add_column("name", no_wrap=True)
    table.add_column("found", overflow="fold")
    # Colours that colour-blind readers can tell apart, and a sign beside each.
    style = {OK: ("✓", "blue"), WARN: ("!", "yellow"), FAIL: ("✗", "bold red")}
    group = None
    for finding in findings:
        if finding.group != group:
            group = finding.group
            table.add_row("", f"[bold]{group}[/bold]", "")
        sign, colour = style[finding.status]
        table.add_row(f"[{colour}]{sign}[/]", finding.name, _plain(finding.found))
    console.print(table)
    todo = [finding for finding in findings if finding.status != OK]
    for finding in todo:
        sign, colour = style[finding.status]
        console.print(f"\n[{colour}]{sign} {finding.name}[/]: {_plain(finding.found)}")
        if finding.mend:
            console.print(f"  → {_plain(finding.mend)}", highlight=False, soft_wrap=True)
    failed = sum(finding.status == FAIL for finding in findings)
    warned = len(todo) - failed
    if failed:
        console.print(f"\n[bold red]{failed} to mend[/], {warned} to know about.")
    else:
        console.print(f"\nReady: nothing to mend, {warned} to know about.")
    return 1 if failed else 0


def python_and_system() -> Iterator[Finding]:
    """The interpreter, the operating system and the versions of every package the course needs."""
    group = "Python"
    version = platform.python_version()
    supported = (3, 11) <= sys.version_info < (3, 14)
    yield Finding(
        group,
        "Python",
        OK if supported else FAIL,
        f"{version} ({sys.executable})",
        None if supported else "use Python 3.11, 3.12 or 3.13: `make setup` fetches one",
    )
    if sys.platform == "darwin":
        yield Finding(
            group,
            "system",
            FAIL,
            "macOS: there are no CUDA compilers for it, so no kernel can be compiled",
            "run the course in its container, on Binder or on Colab (README, “macOS”)",
        )
    else:
        yield Finding(group, "system", OK, platform.platform(terse=True))


def packages() -> Iterator[Finding]:
    """Every requirement of the package, course extra included, against what is installed."""
    from packaging.requirements import Requirement

    try:
        texts = importlib.metadata.requires("gpucourse") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", "gpucourse", FAIL, "not installed", "run `make setup`")
        return
    fine = []
    for text in texts:
        requirement = Requirement(text)
        extra = "extra" in str(requirement.marker or "")
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": "course"})
        if not applies:
            continue
        wanted = f"{requirement.name}{requirement.specifier}"
        mend = f'{_INSTALL} "{wanted}"   (or all of them: make setup)'
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            kind = "the course" if extra else "the virtual GPU"
            found = f"not installed, and {kind} needs it"
            yield Finding("packages", requirement.name, FAIL, found, mend)
            continue
        if requirement.specifier.contains(version, prereleases=True):
            fine.append(f"{requirement.name} {version}")
        else:
            found = f"{version}, but the course needs {requirement.specifier}"
            yield Finding("packages", requirement.name, FAIL, found, mend)
    yield Finding("packages", f"{len(fine)} as they should be", OK, ", ".join(sorted(set(fine))))


def device_and_compilers() -> Iterator[Finding]:
    """Which device answers, whether each compiler is found, and whether a kernel really runs."""
    from gpucourse.device import device
    from gpucourse.probe import find_compiler, run_kernel

    group = "device"
    found = device()
    yield Finding(group, "device", OK, str(found))
    if found.memory:
        yield Finding(group, "GPU memory", OK, gigabytes(found.memory))
    toolkit = 'pip install "cuda-toolkit[cudart,nvcc,nvrtc,nvvm]>=12.8,<14"'
    broken = False
    for name, task in (
        ("nvvm", "compiles Numba's kernels"),
        ("nvrtc", "compiles CUDA C++"),
        ("cudart", "numba.cuda does not import without it"),
    ):
        where = find_compiler(name)
        broken = broken or where is None
        if where is None:
            yield Finding(group, name, FAIL, f"not found: it {task}", toolkit)
        else:
            yield Finding(group, name, OK, where)
    if broken:
        found = "not tried: a compiler is missing"
        yield Finding(group, "a kernel", FAIL, found, "mend the compilers first")
        return
    problem = run_kernel()
    if problem is None:
        yield Finding(group, "a kernel", OK, "compiled, launched, right answer")
    else:
        mend = "make setup; if it stays, open an issue with this table"
        yield Finding(group, "a kernel", FAIL, problem, mend)


def memory_and_processors() -> Iterator[Finding]:
    """What a container or the machine leaves to this process."""
    group = "machine"
    have = resources()
    found = f"{gigabytes(have.free)} free of {gigabytes(have.memory)}"
    mend = "close other notebooks' kernels (a lesson takes about 0.5 GB and its data)"
    if have.free < _LITTLE_MEMORY:
        yield Finding(group, "memory", FAIL, found, mend)
    elif have.free < _ENOUGH_MEMORY:
        yield Finding(group, "memory", WARN, found, mend)
    else:
        yield Finding(group, "memory", OK, found)
    yield Finding(group, "processors", OK, f"{have.processors:g}")


def jupyter() -> Iterator[Finding]:
    """The kernel that notebooks start, and nbgrader's extensions of server and lab."""
    from gpucourse.probe import kernel_python, lab_extension, server_extension

    group = "Jupyter"
    python = kernel_python()
    kernel_mend = "python -m ipykernel install --sys-prefix --name python3"
    if python is None:
        yield Finding(group, "kernel", FAIL, "no kernel named python3", kernel_mend)
    elif not _same_python(python):
        found = f"python3 starts {python}, not {sys.executable}"
        yield Finding(group, "kernel", WARN, found, kernel_mend)
    else:
        yield Finding(group, "kernel", OK, "python3 starts this Python")
    # Taking the course needs neither of nbgrader's extensions; teaching with it does.
    problem = server_extension("nbgrader.server_extensions.formgrader")
    if problem is None:
        yield Finding(group, "nbgrader server extension", OK, "enabled")
    else:
        mend = "jupyter server extension enable --sys-prefix --py nbgrader"
        yield Finding(group, "nbgrader server extension", WARN, problem, mend)
    problem = lab_extension("@jupyter/nbgrader")
    if problem is None:
        yield Finding(group, "nbgrader lab extension", OK, "enabled")
    else:
        mend = "jupyter labextension enable @jupyter/nbgrader; if it is missing, reinstall nbgrader"
        yield Finding(group, "nbgrader lab extension", WARN, problem, mend)


def sandbox() -> Iterator[Finding]:
    """bubblewrap, which keeps a student's code apart while it is graded."""
    group, name = "grading", "bubblewrap"
    mend = "apt install bubblewrap; only grading other people's work needs it"
    if sys.platform != "linux":
        yield Finding(group, name, WARN, "for Linux only", "grade classes on Linux")
        return
    program = shutil.which("bwrap")
    if program is None:
        yield Finding(group, name, WARN, "not installed", mend)
        return
    command = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if tried.returncode:
        reason = tried.stderr.strip().split("\n")[-1] or f"exit code {tried.returncode}"
        found = f"installed, but refused: {reason}"
        mend = "allow user namespaces (container: a seccomp profile that permits unshare)"
        yield Finding(group, name, WARN, found, mend)
    else:
        yield Finding(group, name, OK, program)


def course_files() -> Iterator[Finding]:
    """Whether the generated notebooks are those of the source, where this is a checkout."""
    from gpucourse.build.outputs import plan
    from gpucourse.build.problems import CourseError
    from gpucourse.build.registry import find_root

    group, name = "course", "notebooks"
    try:
        root = find_root()
    except CourseError:
        found = f"{Path.cwd()} is not inside the course's folder"
        mend = "cd into the course's folder; the notebooks are there"
        yield Finding(group, name, WARN, found, mend)
        return
    try:
        state = plan(root)
    except CourseError as error:
        yield Finding(group, name, FAIL, str(error).split("\n")[0], "gpucourse build --check")
        return
    missing = [path for path in state.changed if not (root / path).exists()]
    if state.current:
        yield Finding(group, name, OK, f"{len(state.texts)} generated, all as their source")
    elif missing:
        yield Finding(group, name, FAIL, f"{len(missing)} of them missing", "make build")
    else:
        changed = len(state.changed) + len(state.superfluous)
        found = f"{changed} differ from the source (yours, if you have worked in them)"
        mend = "nothing, if you did; else `gpucourse build --check` lists them"
        yield Finding(group, name, WARN, found, mend)


def _same_python(program: str) -> bool:
    """Whether a kernel's command starts this environment's Python (bare names: by PATH)."""
    found = shutil.which(program) or program
    return Path(found).absolute().parent == Path(sys.executable).absolute().parent


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


PARTS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python_and_system,
    packages,
    device_and_compilers,
    memory_and_processors,
    jupyter,
    sandbox,
    course_files,
)

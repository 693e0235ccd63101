"""The command ``virtualgpu``: run a script under all checkers, read its PTX, look at the machine.

Its verbs:

    virtualgpu run script.py ARGUMENTS…    exit status 1 if a kernel has a fault, else the script's
    virtualgpu run --streams script.py     missing synchronisation between streams is a fault too
    virtualgpu run --seed 3 script.py      threads in the random order number 3
    virtualgpu run -m package ARGUMENTS…   a module, as python -m runs it
    virtualgpu run --report out.xml …      the findings for CI too: JUnit, or JSON for out.json
    virtualgpu ptx script.py ARGUMENTS…    the PTX of each kernel that the script launches
    virtualgpu doctor                      compilers, versions, a first kernel
    virtualgpu cache [clear]               where compiled code is kept, and how much; remove it
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import runpy
import sys
import warnings
from collections.abc import Collection
from contextlib import contextmanager, nullcontext
from pathlib import Path

import virtualgpu
from virtualgpu import accepting, report_files, sources
from virtualgpu.compilers import cache
from virtualgpu.standins.finder import NAMES, chosen
from virtualgpu.successor import choice

#: What the machine rests on, and what of it is imported; the doctor tells their versions.
PACKAGES = {
    "virtualgpu": "virtualgpu",
    "numpy": "numpy",
    "numba": "numba",
    "numba-cuda": "numba_cuda",
    "numba-cuda-mlir": "numba_cuda_mlir",
    "cuda-bindings": "cuda.bindings",
    "llvmlite": "llvmlite",
}
LIBRARIES = ("nvvm", "nvrtc", "cudart")


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; the exit status. Ends with status 2 for a command that it does not know."""
    parser = argparse.ArgumentParser(
        prog="virtualgpu", description="CUDA kernels on a GPU made of software."
    )
    parser.add_argument("--version", action="version", version=virtualgpu.__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in (
        ("run", "run a Python script on the virtual GPU, every launch checked"),
        ("ptx", "run a script and print the PTX of the kernels that it launches"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        if name == "run":
            verb.add_argument(
                "--streams",
                action="store_true",
                help="also find missing "
                "synchronisation between streams, and of the host with a stream",
            )
            verb.add_argument(
                "--seed",
                type=seed,
                metavar="N",
                help="run threads in the random "
                "order number N; a fault may show in one order of several",
            )
            verb.add_argument(
                "--standins",
                type=names,
                metavar="NAMES",
                help="which packages are "
                "replaced by stand-ins, with commas between (by default all of "
                f'{", ".join(NAMES)}; none: "")',
            )
            verb.add_argument(
                "--accept",
                type=Path,
                metavar="FILE",
                help="findings that are known, one a line: "
                f"{accepting.FORM}; a line that begins with # is a comment",
            )
            verb.add_argument(
                "--report",
                type=Path,
                metavar="FILE",
                help="also write the findings into FILE: JSON (.json) or JUnit (.xml)",
            )
            verb.add_argument(
                "--error-exitcode",
                type=exit_status,
                metavar="N",
                help="the exit status where something was found, to tell it from the script's own "
                "(by default 1, or the script's where that is not 0)",
            )
            verb.add_argument(
                "-m",
                dest="module",
                action="store_true",
                help="what follows is a module or package, as for python -m",
            )
        verb.add_argument("script", help="a file; with -m a module")
        verb.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    verbs.add_parser("doctor", help="look at compilers and versions, and launch a first kernel")
    verb = verbs.add_parser("cache", help="say where compiled code is kept, or remove it")
    verb.add_argument("action", nargs="?", choices=["clear"])
    given = parser.parse_args(arguments)
    if given.verb == "doctor":
        return doctor()
    if given.verb == "cache":
        return kept_code(clear=given.action == "clear")
    module = getattr(given, "module", False)
    if not module and not Path(given.script).is_file():
        hint = f"; virtualgpu run -m {given.script} runs a package" * Path(given.script).is_dir()
        parser.error(f"there is no file {given.script}{hint}")
    if given.verb == "ptx":
        with command_line(given.script, given.arguments):
            return print_ptx(Path(given.script))
    if given.report and given.report.suffix not in report_files.SUFFIXES:
        parser.error(f"--report {given.report}: it ends in {' or '.join(report_files.SUFFIXES)}")
    try:
        accepted = known_findings(given.accept)
    except (OSError, ValueError) as error:
        parser.error(f"--accept {given.accept}: {error}")
    if given.report:
        given.report = given.report.absolute()  # the script may go to another folder
    with command_line(given.script, given.arguments, module):
        return run(
            given.script,
            given.streams,
            given.seed,
            given.standins,
            module=module,
            accepted=accepted,
            report_file=given.report,
            found=given.error_exitcode,
        )


def run(
    script: str,
    streams: bool = False,
    seed: int | None = None,
    standins: Collection[str] | None = None,
    *,
    module: bool = False,
    accepted: Collection[accepting.Acceptance] = (),
    report_file: Path | None = None,
    found: int | None = None,
) -> int:
    """Run ``script`` under the checkers and print what they found; the exit status.

    ``found`` where a checker found something that is not ``accepted``, or an error of the virtual
    GPU left the script; without ``found``, a script that ends by ``sys.exit`` keeps its own status
    unless that is 0, and it is 1 then. What was found before another error of the script is
    reported too. ``streams``: that of
    :func:`virtualgpu.check`; ``seed``: that of :func:`virtualgpu.schedule`; ``standins``: those of
    :func:`virtualgpu.activate`; ``module``: ``script`` is a module's name.
    """
    virtualgpu.activate(force=True, standins=standins)
    folder = Path.cwd()
    status, stopped = 0, False
    order = nullcontext() if seed is None else virtualgpu.schedule(seed)
    with order, virtualgpu.check(streams=streams) as report, virtualgpu.profile() as profile:
        try:
            if module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
            if isinstance(leaving.code, str):
                print(leaving.code, file=sys.stderr)
        except virtualgpu.VirtualGPUError as error:
            stopped = True
            if not any(error.message in finding.message for finding in report.findings):
                # Refused before it ran: PTX that is not valid, a block that is too large.
                sys.excepthook(type(error), error, error.__traceback__)
        except Exception as error:  # the script's own, or that of a library that ran a kernel
            status = 1
            sys.excepthook(type(error), error, error.__traceback__)
    report.findings, needed = accepting.split(report.findings, accepted)
    report.notes += [
        f"{one} is accepted ({one.reason}) and was not found: take that out"
        for one in accepted
        if one not in needed
    ]
    launches = len(profile.launches)
    said = f"{launches} launch{'' if launches == 1 else 'es'} checked"
    if needed:
        said += f", {len(needed)} accepted"
    words = str(report).partition(": ")[2] if report.findings else "clean"
    print(f"virtual GPU: {said}, {words}", file=sys.stderr)
    if not report.findings:
        print(*report.notes, sep="\n", end="\n" if report.notes else "", file=sys.stderr)
    if report_file is not None:
        report_files.write(report_file, script, launches, report.findings, folder)
    if stopped or report.findings:
        return found or status or 1
    return status


def known_findings(path: Path | None) -> tuple[accepting.Acceptance, ...]:
    """Read the findings that a file accepts; none without one. Raises OSError, ValueError."""
    if path is None:
        return ()
    if not path.is_file():
        raise FileNotFoundError(f"there is no such file. It has one entry a line, {accepting.FORM}")
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return accepting.read(line for line in lines if not line.lstrip().startswith("#"))
    except ValueError as error:
        raise ValueError(f"{str(error)!r} is not {accepting.FORM}") from None


def exit_status(text: str) -> int:
    """Parse an exit status, 1 to 255. Raises ValueError."""
    number = int(text)
    if not 1 <= number <= 255:
        raise ValueError(text)
    return number


def seed(text: str) -> int:
    """Parse a whole number from 0. Raises ValueError."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def names(text: str) -> list[str]:
    """Parse packages that have a stand-in, separated by commas. Raises ArgumentTypeError."""
    try:
        return chosen(filter(None, re.split(r"[\s,]+", text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def print_ptx(script: Path) -> int:
    """Run ``script`` and print each PTX text that it loads, with the source beside; 0."""
    from virtualgpu import devices

    class Listening(devices.VirtualDevice):
        def load(self, ptx, names=None):
            for text in [ptx] if isinstance(ptx, str) else ptx:
                print(annotated(text))
            return super().load(ptx, names)

    virtualgpu.activate(force=True)
    with devices.use(Listening()):
        runpy.run_path(str(script), run_name="__main__")
    return 0


def annotated(ptx: str) -> str:
    """Return PTX whose ``.loc`` directives are comments: the file's name, the line and its text."""
    files = dict(re.findall(r'(?m)^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx))

    def comment(found: re.Match) -> str:
        file, line = files.get(found[2]), int(found[3])
        return f"{found[1]}// {sources.name(file)}:{line}  {sources.text(file, line)}"

    return re.sub(r"(?m)^([ \t]*)\.loc\s+(\d+)\s+(\d+).*$", comment, ptx)


def _beside_the_installed(module: str) -> str:
    """Return a note on a package that was not installed: it may lie on ``PYTHONPATH``."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of a package around it
        found = None
    if found is None:
        return "not installed"
    folder = next(iter(found.submodule_search_locations or [str(found.origin)]))
    return f"version unknown: not installed, but imported from {folder}"


def doctor() -> int:
    """Print versions, where the compilers are, and whether a kernel runs; 0 if one does."""
    for name, module in PACKAGES.items():
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: {_beside_the_installed(module)}")
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for name in LIBRARIES:
        try:
            print(f"{name}: {load_nvidia_dynamic_lib(name).abs_path}")
        except DynamicLibNotFoundError:
            print(f"{name}: not found. Fix it: pip install 'cuda-toolkit[nvcc,nvrtc,nvvm,cudart]'")
    try:
        virtualgpu.activate(force=True)
        right = first_kernel()
    except Exception as error:  # whatever is broken is what the doctor is asked for
        print(f"a first kernel: {type(error).__name__}: {error}")
        return 1
    print("a first kernel: right" if right else "a first kernel: ran, and gave a wrong answer")
    return 0 if right else 1


def kept_code(clear: bool) -> int:
    """Print the folder of stored machine code and its size; return 0."""
    place = cache.folder()
    if place is None:
        print("no cache: VIRTUALGPU_CACHE=0, or a user without a home")
        return 0
    if clear:
        count, nbytes = cache.clear()
    else:
        sizes = [size for _, size, _ in cache.entries(place)]
        count, nbytes = len(sizes), sum(sizes)
    said = f"{place}: {count} file{'' if count == 1 else 's'}, {nbytes / 1e6:.1f} MB"
    print(f"{said}, removed" if clear else f"{said} of at most {cache.LIMIT / 1e6:.0f} MB")
    if place.exists() and not cache.is_private(place):
        print(f"not used: it is another user's, or others can write it. Fix it: chmod 700 {place}")
    return 0


def first_kernel() -> bool:
    """Return True if 100 sums on the device at hand come out right."""
    import numpy as np

    values = np.arange(100, dtype=np.float32)
    if choice.is_none_installed():
        source = (
            'extern "C" __global__ void add_one(float *values, int n) {'
            "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) values[i] += 1; }"
        )
        virtualgpu.Module.from_cuda(source).launch("add_one", 4, 32, [values, np.int32(100)])
        return bool((values == np.arange(1, 101)).all())
    from numba import cuda

    @cuda.jit
    def add_one(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] += 1

    with warnings.catch_warnings(action="ignore"):
        add_one[4, 32](values)  # slow (a small grid, a host array), and meant so
    return bool((values == np.arange(1, 101)).all())


@contextmanager
def command_line(script: str, arguments: list[str], module: bool = False):
    """Set ``sys.argv`` and ``sys.path`` as ``python script`` does."""
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(script)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


if __name__ == "__main__":
    sys.exit(main())

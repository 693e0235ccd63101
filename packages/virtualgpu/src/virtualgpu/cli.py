"""Command ``virtualgpu``: run a script under all checkers, print its PTX, test the machine.

Its subcommands:

    virtualgpu run script.py ARGUMENTS…    exit status 1 if a kernel has a fault, else the script's
    virtualgpu run --streams script.py     also report missing synchronisation between streams
    virtualgpu run --seed 3 script.py      run the threads in random order number 3
    virtualgpu run -m package ARGUMENTS…   run a module, as python -m does
    virtualgpu run --report out.xml …      also write the findings for CI (JUnit, or JSON: out.json)
    virtualgpu ptx script.py ARGUMENTS…    print the PTX of each kernel that the script launches
    virtualgpu doctor                      print compilers and versions, and run a first kernel
    virtualgpu cache [clear]               print the folder and size of compiled code, or clear it
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

#: Distributions whose versions the doctor prints, each with the module that it provides.
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
    """Run one subcommand and return its exit status; an unknown one exits with status 2."""
    parser = argparse.ArgumentParser(
        prog="virtualgpu", description="CUDA kernels on a GPU made of software."
    )
    parser.add_argument("--version", action="version", version=virtualgpu.__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in (
        ("run", "run a Python script on the virtual GPU and check every launch"),
        ("ptx", "run a script and print the PTX of the kernels that it launches"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        if name == "run":
            verb.add_argument(
                "--streams",
                action="store_true",
                help="also find missing "
                "synchronisation between streams, and between a stream and the host",
            )
            verb.add_argument(
                "--seed",
                type=seed,
                metavar="N",
                help="run threads in random order number N; some faults show only in some orders",
            )
            verb.add_argument(
                "--standins",
                type=names,
                metavar="NAMES",
                help="packages to "
                "replace by stand-ins, separated by commas (by default all of "
                f'{", ".join(NAMES)}; "" for none)',
            )
            verb.add_argument(
                "--accept",
                type=Path,
                metavar="FILE",
                help="file of known findings to accept, one per line: "
                f"{accepting.FORM}; a line that begins with # is a comment",
            )
            verb.add_argument(
                "--report",
                type=Path,
                metavar="FILE",
                help="also write the findings to FILE, as JSON (.json) or JUnit (.xml)",
            )
            verb.add_argument(
                "--error-exitcode",
                type=exit_status,
                metavar="N",
                help="exit status if something was found, to distinguish it from the script's own "
                "(by default 1, or the script's if that is not 0)",
            )
            verb.add_argument(
                "-m",
                dest="module",
                action="store_true",
                help="run a module or package, as python -m does",
            )
        verb.add_argument("script", help="a file, or with -m a module")
        verb.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    verbs.add_parser("doctor", help="print compilers and versions, and run a first kernel")
    verb = verbs.add_parser("cache", help="print the folder of compiled code, or clear it")
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
        suffixes = " or ".join(report_files.SUFFIXES)
        parser.error(f"--report {given.report}: the file name must end in {suffixes}")
    try:
        accepted = known_findings(given.accept)
    except (OSError, ValueError) as error:
        parser.error(f"--accept {given.accept}: {error}")
    if given.report:
        given.report = given.report.absolute()  # the script may change the working directory
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
    """Run ``script`` under the checkers, print their findings and return the exit status.

    If a checker finds something that is not ``accepted``, or if an error of the virtual GPU stops
    the script, the status is ``found``. If ``found`` is None, it is the status that the script
    passes to ``sys.exit``, or 1 if that is 0. If any other error stops the script, the findings
    before it are still reported. ``streams`` is the parameter of :func:`virtualgpu.check`,
    ``seed`` that of :func:`virtualgpu.schedule`, and ``standins`` that of
    :func:`virtualgpu.activate`. With ``module``, ``script`` is the name of a module.
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
                # The launch was refused before it ran, for example invalid PTX or a block that is
                # too large.
                sys.excepthook(type(error), error, error.__traceback__)
        except Exception as error:  # raised by the script or by a library that ran a kernel
            status = 1
            sys.excepthook(type(error), error, error.__traceback__)
    report.findings, needed = accepting.split(report.findings, accepted)
    report.notes += [
        f"{one} is accepted ({one.reason}) but was not found: remove that entry"
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
    """Read the accepted findings from a file, if there is one. Raises OSError and ValueError."""
    if path is None:
        return ()
    if not path.is_file():
        raise FileNotFoundError(f"there is no such file. It needs lines such as {accepting.FORM}")
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return accepting.read(line for line in lines if not line.lstrip().startswith("#"))
    except ValueError as error:
        raise ValueError(f"{str(error)!r} does not have the form {accepting.FORM}") from None


def exit_status(text: str) -> int:
    """Parse an exit status, 1 to 255. Raises ValueError."""
    number = int(text)
    if not 1 <= number <= 255:
        raise ValueError(text)
    return number


def seed(text: str) -> int:
    """Parse an integer that is at least 0. Raises ValueError."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def names(text: str) -> list[str]:
    """Parse a comma-separated list of packages with stand-ins. Raises ArgumentTypeError."""
    try:
        return chosen(filter(None, re.split(r"[\s,]+", text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def print_ptx(script: Path) -> int:
    """Run ``script``, print each PTX module that it loads with its source lines, and return 0."""
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
    """Return PTX with each ``.loc`` directive replaced by a comment that has the source line."""
    files = dict(re.findall(r'(?m)^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx))

    def comment(found: re.Match) -> str:
        file, line = files.get(found[2]), int(found[3])
        return f"{found[1]}// {sources.name(file)}:{line}  {sources.text(file, line)}"

    return re.sub(r"(?m)^([ \t]*)\.loc\s+(\d+)\s+(\d+).*$", comment, ptx)


def _beside_the_installed(module: str) -> str:
    """Return a note about a package that is not installed but may be on ``PYTHONPATH``."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a package around the module is missing
        found = None
    if found is None:
        return "not installed"
    folder = next(iter(found.submodule_search_locations or [str(found.origin)]))
    return f"version unknown: not installed, but imported from {folder}"


def doctor() -> int:
    """Print versions and compiler paths and run a kernel; return 0 if its result is right."""
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
    except Exception as error:  # the doctor reports every kind of failure
        print(f"a first kernel: {type(error).__name__}: {error}")
        return 1
    print("a first kernel: right" if right else "a first kernel: ran, and gave a wrong answer")
    return 0 if right else 1


def kept_code(clear: bool) -> int:
    """Print the folder and size of the cached machine code, or clear it; return 0."""
    place = cache.folder()
    if place is None:
        print("no cache: VIRTUALGPU_CACHE is 0, or the user has no home directory")
        return 0
    if clear:
        count, nbytes = cache.clear()
    else:
        sizes = [size for _, size, _ in cache.entries(place)]
        count, nbytes = len(sizes), sum(sizes)
    said = f"{place}: {count} file{'' if count == 1 else 's'}, {nbytes / 1e6:.1f} MB"
    print(f"{said}, removed" if clear else f"{said} of at most {cache.LIMIT / 1e6:.0f} MB")
    if place.exists() and not cache.is_private(place):
        print(
            "not used: the folder belongs to another user, or other users can write to it. "
            f"Fix it: chmod 700 {place}"
        )
    return 0


def first_kernel() -> bool:
    """Return True if a kernel that adds 1 to each of 100 numbers gives the right result."""
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
        add_one[4, 32](values)  # slow on purpose (a small grid, a host array)
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

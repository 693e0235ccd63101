"""Other people's packages: their own GPU tests on the virtual GPU, every launch checked.

    python -m lab.evidence.tried_with FOLDER                    every package that FOLDER has
    python -m lab.evidence.tried_with FOLDER stumpy sigpy       some of them
    python -m lab.evidence.tried_with FOLDER --python PYTHON    in the environment of PYTHON

FOLDER holds checkouts, each in a folder of its repository's name (``stumpy``); nothing is fetched,
and nothing of them is kept. PYTHON has virtualgpu, pytest and what the packages need. A run ends
after ``--limit`` seconds on the wall (1,200), as though somebody pressed Ctrl+C: tests that have
not run by then are counted as such. What a test did not pass for is told by :data:`PACKAGES`;
what that does not know is "unknown". Results go into ``lab/results/tried_with.json``, a package at
a time, and the table of ``docs/tried_with.md`` is made of them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "lab" / "results" / "tried_with.json"
PAGE = ROOT / "docs" / "tried_with.md"
#: Whose the reason is: the package's (or of the versions it is run with); a true fault of a kernel,
#: which the checkers name; a limit that docs/virtualgpu.md states; ours.
PACKAGE, FAULT, LIMIT, OURS, UNKNOWN = "package", "fault", "limit", "ours", "unknown"
LAUNCH = 100  # seconds of processor time for a launch
VERSIONS = ("numba", "numba-cuda", "numpy", "triton", "torch")
_SAID = re.compile(r"virtual GPU: ([\d,]+) launch(?:es)? checked(?:, ([\d,]+) finding)?")


@dataclass(frozen=True)
class Package:
    """A repository's tests that need a GPU.

    ``reasons`` are ``(what the message has, whose, in words)``, asked in order. ``accept`` are
    findings that were looked into and are harmless, as ``--virtual-gpu-accept`` takes them; the
    table says so.
    """

    address: str
    kind: str
    tests: tuple[str, ...]
    path: tuple[str, ...] = (".",)  # what is put on Python's path
    reasons: tuple[tuple[str, str, str], ...] = ()
    accept: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.address.partition("/")[2]

    @property
    def standins(self) -> str:
        """Return the stand-ins by what it launches through; its metadata need not list that."""
        return (
            ",".join(name for name in ("cupy", "pycuda", "cudf") if name in self.kind.lower())
            or "none"
        )


PACKAGES = {
    package.name: package
    for package in (
        Package(
            "stumpy-dev/stumpy",
            "Numba",
            ("tests/test_gpu_*.py",),
            reasons=(
                (
                    "assignment destination is read-only",
                    PACKAGE,
                    "writes into what pandas 3 gives read-only",
                ),
            ),
            accept=(
                "gpu_aamp.py:172: every thread stores the value that thread 0 reads there",
                "gpu_stump.py:174: every thread stores the value that thread 0 reads there",
            ),
        ),
        Package(
            "xarray-contrib/xarray-spatial",
            "Numba, CuPy",
            ("xrspatial/tests", "-k", "cupy or gpu"),
            reasons=(
                (
                    "only 0-dimensional arrays can be converted",
                    PACKAGE,
                    "takes `float()` of an array with an axis, which NumPy 2.4 refuses",
                ),
            ),
        ),
        Package(
            "holoviz/datashader",
            "Numba, CuPy, cuDF",
            (
                "datashader/tests/test_quadmesh.py",
                "datashader/tests/test_transfer_functions.py",
                "--gpu",
            ),
            accept=("reductions.py:844: every thread stores the same value",),
        ),
        Package(
            "ccam80/cubie",
            "Numba, CuPy, generated code",
            ("tests/integrators/test_norms.py", "tests/memory", "tests/test_buffer_registry.py"),
            ("src",),
        ),
        Package(
            "liltommy142/cuda-nms-numba",
            "Numba",
            ("tests", "-k", "gpu or v1 or v2"),
            reasons=(
                (
                    "has no attribute 'copy_to_host'",
                    PACKAGE,
                    "asks a NumPy array for `copy_to_host`",
                ),
                (
                    r"barrier at src/gpu_v2.py:208",
                    FAULT,
                    "threads return before the barrier of `gpu_v2.py:208`",
                ),
                (
                    "BudgetExceeded",
                    LIMIT,
                    "a launch of 24,649 blocks takes longer than it was given",
                ),
            ),
        ),
        Package(
            "jeffwhunter/reinfocus",
            "Numba",
            ("tests",),
            reasons=(
                (
                    "fixture 'initialize_from_pytest_config' not found",
                    PACKAGE,
                    "numba-cuda's `CUDATestCase` asks for a fixture of numba-cuda's own tests",
                ),
                (
                    "cannot import name 'vector' from 'gymnasium.experimental'",
                    PACKAGE,
                    "imports a module of gymnasium that is gone",
                ),
                ("cannot allocate -96 bytes", PACKAGE, "asks the device for a negative size"),
                (
                    r"TypingError[\s\S]*ge\(UniTuple",
                    PACKAGE,
                    "compares a tuple with a number, which numba-cuda does not compile",
                ),
            ),
        ),
        Package(
            "DUNE/larnd-sim",
            "Numba",
            ("tests/test*.py",),
            reasons=(
                ("No module named 'larndsim.cuda_dict'", PACKAGE, "tests a module that is gone"),
                (
                    "missing 1 required positional argument: 'sim_file'",
                    PACKAGE,
                    "calls `load_properties` with fewer arguments than it takes",
                ),
            ),
        ),
        Package("fbpic/fbpic", "Numba, CuPy", ("tests/test_cpu_gpu_deposition.py",)),
        Package(
            "ptycho/ptypy",
            "CuPy",
            tuple(
                f"test/accelerate_tests/cuda_cupy_tests/{part}_test.py"
                for part in (
                    "address_manglers",
                    "array_utils",
                    "gpudata",
                    "gradient_descent_kernel",
                    "position_correction_kernel",
                )
            ),
            reasons=(
                (
                    r"illegal address[\s\S]*update_addr_error_state.cu line 27",
                    FAULT,
                    "an odd number of rows: the last block reads one more "
                    "(`update_addr_error_state.cu:27`)",
                ),
            ),
        ),
        Package(
            "johnh2o2/cuvarbase",
            "PyCUDA",
            ("cuvarbase/tests/test_ce.py", "cuvarbase/tests/test_bls.py"),
            reasons=(
                (
                    r"illegal address[\s\S]*histogram_data_count",
                    FAULT,
                    "the brightest magnitude counts in a bin behind the last (`ce.cu:102`)",
                ),
                (
                    r"race at [^\n]*reduction_max",
                    FAULT,
                    "blocks of `bls.cu` reduce in place what other blocks still read",
                ),
            ),
        ),
        Package(
            "mikgroup/sigpy",
            "CuPy",
            tuple(
                f"tests/test_{part}.py"
                for part in ("block", "fourier", "interp", "linop", "prox", "thresh", "util")
            ),
            reasons=(("cudnn must be installed", LIMIT, "its convolutions ask for cuDNN"),),
        ),
        Package("scikit-hep/cuda-histogram", "CuPy", ("tests",), ("src",)),
        Package("dkazanc/ToMoBAR", "CuPy", ("tests",)),
        Package(
            "linkedin/Liger-Kernel",
            "Triton",
            (
                "test/transformers/test_softmax.py",
                "test/transformers/test_layer_norm.py",
                "test/transformers/test_relu_squared.py",
                "test/transformers/test_rms_norm.py::test_correctness_functional",
            ),
            ("src",),
            reasons=(
                (
                    r"race at src/liger_kernel/ops/rms_norm.py:231",
                    FAULT,
                    "8 columns are fewer than a block's threads: warps read the same elements, and "
                    "one stores the gradient in place of what the others read (`rms_norm.py:231`)",
                ),
                (
                    r">\s+assert torch.allclose\(liger_ln\.(weight|bias)\.grad",
                    PACKAGE,
                    "compares with PyTorch's gradients in bfloat16 on the CPU, which are further "
                    "from those in float64 than its own",
                ),
            ),
        ),
    )
}


def run(
    package: Package, folder: Path, python: str, limit: float, nice: int = 15
) -> dict[str, Any]:
    """Run a checkout's tests; what came out, ready for the table."""
    tests = [
        str(found)
        for one in package.tests
        for found in (sorted(folder.glob(one)) if "*" in one else [one])
    ]
    with tempfile.TemporaryDirectory() as where:
        report = Path(where) / "report.xml"
        paths = os.pathsep.join(str(folder / one) for one in package.path)
        process = subprocess.Popen(
            [
                "nice",
                "-n",
                str(nice),
                python,
                "-m",
                "pytest",
                "--virtual-gpu",
                f"--virtual-gpu-time-limit={LAUNCH}",
                f"--virtual-gpu-standins={package.standins}",
                *(f"--virtual-gpu-accept={entry}" for entry in package.accept),
                "-q",
                "-p",
                "no:cacheprovider",
                "--continue-on-collection-errors",
                f"--junitxml={report}",
                "-o",
                "addopts=",
                *tests,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ended = True
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            ended = False
            os.killpg(process.pid, signal.SIGINT)
            try:
                said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, _ = process.communicate()
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    passed = skipped = 0
    others: Counter[tuple[str, str]] = Counter()
    unknown: list[str] = []
    for case in cases:
        wrong = [one for one in case if one.tag in ("failure", "error")]
        if not wrong:
            skipped += (out := any(one.tag == "skipped" for one in case))
            passed += not out
            continue
        told = "\n".join(f"{one.get('message')}\n{one.text}" for one in wrong)
        whose, words = reason(package, told)
        others[whose, words] += 1
        if whose == UNKNOWN:
            unknown.append(
                f"{case.get('classname')}::{case.get('name')}: "
                f"{(wrong[0].get('message') or '')[:200]}"
            )
    found = _SAID.search(said)
    return {
        "package": package.address,
        "kind": package.kind,
        "commit": _commit(folder),
        "date": datetime.date.today().isoformat(),
        "versions": _versions(python),
        "tests": " ".join(package.tests),
        "accepted": list(package.accept),
        "ended": ended,
        "passed": passed,
        "skipped": skipped,
        "launches": int(found[1].replace(",", "")) if found else None,
        "findings": int((found[2] or "0").replace(",", "")) if found else None,
        "not_passed": [
            {"count": count, "whose": whose, "reason": words}
            for (whose, words), count in others.most_common()
        ],
        "unknown": unknown[:20],
        "said": "" if cases else said[-1000:],
    }


def reason(package: Package, told: str) -> tuple[str, str]:
    """Return whose a failure is, and why, by its message."""
    return next(
        ((whose, words) for text, whose, words in package.reasons if re.search(text, told)),
        (UNKNOWN, "unknown"),
    )


def _commit(folder: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def _versions(python: str) -> dict[str, str]:
    text = (
        "import importlib.metadata as m, json, sys\n"
        f"found = {{d.name: d.version for d in m.distributions() if d.name in {VERSIONS!r}}}\n"
        "print(json.dumps({'python': sys.version.split()[0], **found}))"
    )
    made = subprocess.run([python, "-c", text], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(made.stdout)
    return versions


# -- the table -------------------------------------------------------------------------------------


def table(results: Mapping[str, dict[str, Any]]) -> str:
    """A row for each package; what was not measured is unknown."""
    lines = [
        "| package | launches through | tests | passed | not passed, and why "
        "| launches checked | findings |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, package in PACKAGES.items():
        if name not in results:
            lines.append(
                f"| [{package.address}](https://github.com/{package.address}) "
                f"| {package.kind} | `{' '.join(package.tests)}` "
                "| unknown | unknown | unknown | unknown |"
            )
            continue
        one = results[name]
        why = (
            "; ".join(
                f"{each['count']} {WORDS[each['whose']]}"
                + (f": {each['reason']}" if each["reason"] != "unknown" else "")
                for each in one["not_passed"]
            )
            or "none"
        )
        for entry in one.get("accepted", ()):
            place, _, words = entry.rpartition(": ")
            why += f"; accepted at `{place}`: {words}"
        if not one["ended"]:
            why += "; stopped before its end"
        launches = "unknown" if one["launches"] is None else f"{one['launches']:,}"
        findings = "unknown" if one["findings"] is None else f"{one['findings']:,}"
        lines.append(
            f"| [{one['package']}](https://github.com/{one['package']}), {one['commit']} "
            f"| {one['kind']} | `{one['tests']}`, {one['date']} | {one['passed']:,} "
            f"(and {one['skipped']:,} skipped) | {why} | {launches} | {findings} |"
        )
    return "\n".join(lines)


WORDS = {
    PACKAGE: "the package's own",
    FAULT: "a fault of its kernel",
    LIMIT: "a stated limit",
    OURS: "ours",
    UNKNOWN: "unknown",
}


def write(new: dict[str, dict[str, Any]]) -> None:
    """New results beside the others, and the table between the marks of the page."""
    known = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), **new}
    results = {name: known[name] for name in PACKAGES if name in known}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    text = PAGE.read_text()
    head, _, rest = text.partition("<!-- table -->\n")
    _, _, tail = rest.partition("<!-- end of the table -->\n")
    PAGE.write_text(f"{head}<!-- table -->\n{table(results)}\n<!-- end of the table -->\n{tail}")


def main() -> int:
    """The command line; 1 where a test did not pass for a reason that is ours or unknown."""
    parser = argparse.ArgumentParser(prog="python -m lab.evidence.tried_with")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PACKAGES))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--limit", type=float, default=1200, help="seconds for a package")
    given = parser.parse_args()
    # A shell's background ignores it, and so would pytest.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    bad = 0
    for name in given.names or PACKAGES:
        folder = given.folder.resolve() / name
        if not folder.is_dir():
            print(f"{name}: no checkout in {given.folder}")
            continue
        one = run(PACKAGES[name], folder, given.python, given.limit)
        if one["passed"] or one["not_passed"]:
            write({name: one})
        bad += sum(each["count"] for each in one["not_passed"] if each["whose"] in (OURS, UNKNOWN))
        print(f"{name}: {one['passed']} passed, {one['not_passed']}")
        for line in (*one["unknown"], one["said"]):
            print(f"    {line}" if line else "", end="\n" if line else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

"""cuTile's own tests on the virtual GPU, with PyTorch's CPU tensors.

    python -m lab.evidence.cutile_suite FOLDER                     all (a quarter of an hour)
    python -m lab.evidence.cutile_suite FOLDER --cases 2           at most two cases of a function
    python -m lab.evidence.cutile_suite FOLDER test_mma test_scan  these files alone
    python -m lab.evidence.cutile_suite FOLDER test_mma --again    what is known of them too
    python -m lab.evidence.cutile_suite FOLDER --python PYTHON     in the environment of PYTHON

FOLDER is a checkout of NVIDIA/cutile-python; nothing is fetched, and nothing of it is kept. PYTHON
has virtualgpu, pytest, PyTorch, JAX, ml_dtypes, ``cuda-tile`` as ``virtualgpu[tile]`` installs it,
and its compiler (``cuda-tile[tileiras]``), which some tests ask for machine code. The tests make
their tensors on ``cuda``: :mod:`lab.evidence.torch_on_host` makes them on the CPU.

How each test ended is kept in ``build/cutile_suite.jsonl``, and the next run goes on from there; a
test that ends the process counts as that. What did not pass is sorted by :data:`REASONS`, by its
name and what it said; what that does not know is "unknown", and the command then ends with status
1. The sums go into ``lab/results/cutile_suite.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from lab.benchmarks.report import write

ROOT = Path(__file__).parents[2]
KNOWN = ROOT / "build" / "cutile_suite.jsonl"
LAUNCH = 60  # seconds of processor time for a launch
VERSIONS = ("cuda-tile", "nvidia-cuda-tileiras", "torch", "jax", "numpy", "numba-cuda")
CHILDREN = "from lab.evidence import torch_on_host\ntorch_on_host.answer()\n"
#: Arrays of 4 to 16 GiB, which the suite says how to leave out; a million turns of two kernels,
#: for PyTorch's profiler of a GPU.
LEFT_OUT = "test_int64_index_inc1 or test_add_list_of_int64_index_arrays or test_pdl"

GPU, OTHER, TORCH, LIMIT, UNKNOWN = (
    "a GPU's facts",
    "another cuTile",
    "PyTorch on the CPU",
    "not modelled",
    "unknown",
)
#: Whose a failure is, why, and how it is known: the first that is found counts.
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        GPU,
        "JAX's calls of cuTile ask for JAX's CUDA platform",
        "cutile_call_ffi' not found for platform cpu",
    ),
    (GPU, "loads the machine code that tileiras made", "test_export_compat.*assert 209 == 0"),
    (GPU, "CUDA graphs of PyTorch", "CUDAGraph"),
    (GPU, "times kernels", "^test/test_tune|cuda.Event|elapsed_time"),
    (
        OTHER,
        "its own inner names, as they were in another version",
        r"F8E5M3FNU|_DTypePromotionImpl|DebugAttrTable.__init__|got bytes, str, NoneType, list",
    ),
    (
        OTHER,
        "its compiler's words or rules, as they were in another version",
        "num_worker_warps should be|test_early_return_inside_for_loop|"
        r"test_error_message_stack_trace|Returning from a for loop with static_iter\(\)",
    ),
    (TORCH, "lacks the operation that the test compares with", "not implemented for '"),
    (
        TORCH,
        "its tensors are taken by ct.launch, not by cuTile's inner functions",
        r"test_concurrent_launch\[_cext",
    ),
    (
        LIMIT,
        "an assertion is an error with line and block; nothing is printed",
        r"test_ct_assert\[True-False\]",
    ),
    (
        LIMIT,
        "nothing is compiled to machine code, so nothing fails there",
        "test_crash_dump_enabled_by_env",
    ),
    (
        LIMIT,
        "last bits of a logarithm, which is rounded from float64 here",
        "test_array_log.*Greatest relative difference: 6.19",
    ),
)


def reason(told: str) -> tuple[str, str]:
    """Return whose a failure is, and why, in words."""
    return next(
        ((whose, words) for whose, words, pattern in REASONS if re.search(pattern, told, re.S)),
        (UNKNOWN, "unknown"),
    )


def run(folder: Path, files: list[str], python: str, cases: int) -> None:
    """Run the tests that are not yet known; begun anew where one ends the process."""
    while True:
        before = known()
        with tempfile.TemporaryDirectory() as where:
            done = Path(where) / "done"
            done.write_text("\n".join(before))
            (Path(where) / "sitecustomize.py").write_text(CHILDREN)
            subprocess.run(
                [
                    python,
                    "-m",
                    "pytest",
                    "-p",
                    "no:randomly",
                    "-p",
                    "lab.evidence.torch_on_host",
                    "-q",
                    "-p",
                    "no:cacheprovider",
                    "-W",
                    "ignore",
                    "--tb=short",
                    "-k",
                    f"not ({LEFT_OUT})",
                    "--continue-on-collection-errors",
                    *files,
                ],
                cwd=folder / "test",
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([where, str(ROOT)]),
                    "OUTCOMES": str(KNOWN),
                    "DONE": str(done),
                    "CASES": str(cases),
                    "VIRTUALGPU_TIME_LIMIT": str(LAUNCH),
                },
            )
        if "ended the process" not in [known()[name][0] for name in known().keys() - before]:
            return


def known() -> dict[str, tuple[str, str]]:
    """``{test: (outcome, what it said)}`` so far."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return {name: (outcome, said) for name, outcome, said in map(json.loads, lines)}


def together() -> dict:
    """Return the sums; ``of_100`` is of those tests that need no GPU's facts."""
    outcomes = Counter(outcome for outcome, _ in known().values())
    failed: dict[str, list[str]] = defaultdict(list)
    skipped: Counter[str] = Counter()
    for test, (outcome, said) in known().items():
        if outcome == "skipped":
            skipped[said.removeprefix("Skipped: ")] += 1
        elif outcome in ("failed", "ended the process"):
            failed[": ".join(reason(f"{test}\n{outcome}\n{said}"))].append(test)
    wrong = sum(len(tests) for words, tests in failed.items() if not words.startswith(GPU))
    passed = outcomes["passed"]
    return {
        "outcomes": dict(outcomes),
        "of_100": round(100 * passed / max(passed + wrong, 1), 1),
        "failed": {
            words: len(tests)
            for words, tests in sorted(failed.items(), key=lambda one: -len(one[1]))
        },
        "skipped": dict(skipped.most_common()),
        "unknown": sorted(failed.get(f"{UNKNOWN}: unknown", [])),
    }


def versions(python: str) -> dict[str, str]:
    code = (
        f"from importlib.metadata import version as v; import json; "
        f"print(json.dumps({{n: v(n) for n in {VERSIONS!r}}}))"
    )
    return json.loads(
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.evidence.cutile_suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    KNOWN.parent.mkdir(exist_ok=True)
    files = [
        path.name
        for path in sorted((asked.folder / "test").glob("test_*.py"))
        if not asked.files or path.stem in asked.files
    ]
    if asked.again:
        KNOWN.write_text(
            "".join(
                json.dumps([test, *how]) + "\n"
                for test, how in known().items()
                if Path(test.partition("::")[0]).name not in files
            )
        )
    run(asked.folder, files, asked.python, asked.cases)
    commit = subprocess.run(
        ["git", "-C", asked.folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    found = together()
    print(json.dumps(found, indent=1))
    print(
        write(
            "cutile_suite",
            {
                "commit": commit,
                "with": versions(asked.python),
                "cases of a function": asked.cases or "all",
                **found,
            },
        )
    )
    return 1 if found["unknown"] else 0


if __name__ == "__main__":
    sys.exit(main())

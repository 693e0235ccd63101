"""A library's own tests on its stand-in: run area by area, each failure listed with its reason.

``lab.evidence.cupy_suite`` and ``lab.evidence.pycuda_suite`` say which tests and which reasons.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.progress import track

from lab.evidence.numba_suite import SOURCE, outcomes, summary

#: Reasons that begin so name a library of machine code for NVIDIA's GPUs, which no CPU can run.
LIBRARY = "needs "


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Attributes
    ----------
    name : str
        Of the file of results.
    package : str
        The library's name.
    tests : str
        Where an area's tests are in the library's source, with ``{area}``.
    areas : tuple of str
    conftest : str
        A module that is imported as pytest starts; ``SUITE_SOURCE`` is the source's folder.
    not_run : tuple of str
        Parts of the names of tests that need more memory than the virtual device has. Tests that
        the library marks as slow are not run either.
    reasons : dict
        Part of "area Class.test: message" → why the test does not pass.
    """

    name: str
    package: str
    tests: str
    areas: tuple[str, ...]
    conftest: str
    not_run: tuple[str, ...]
    reasons: dict[str, str]

    def run(self, source: Path, area: str) -> dict[str, tuple[str, str]]:
        """``{file Class.test: (outcome, message)}`` of one area."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "conftest.py").write_text(self.conftest)
            result = Path(folder) / "result.xml"
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-p",
                    "no:randomly",
                    "-c",
                    os.devnull,
                    "--rootdir",
                    source / Path(self.tests).parts[0],
                    "--confcutdir",
                    folder,
                    "-p",
                    "conftest",
                    "-p",
                    "no:cacheprovider",
                    "-q",
                    "--import-mode=importlib",
                    "--continue-on-collection-errors",
                    "-W",
                    "ignore",
                    "--tb=no",
                    "-m",
                    "not slow",
                    "-k",
                    " and ".join(f"not {name}" for name in self.not_run),
                    "--junitxml",
                    result,
                    source / self.tests.format(area=area),
                ],
                cwd=folder,
                check=False,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "SUITE_SOURCE": str(source),
                    "CUPY_TEST_GPU_LIMIT": "1",  # one device, in the words of CuPy's tests
                    "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}",
                },
            )
            return outcomes(result)

    def reason(self, name: str, message: str) -> str | None:
        return next(
            (words for key, words in self.reasons.items() if key in f"{name}: {message}"), None
        )


def main(suite: Suite, description: str) -> int:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("source", type=Path, help=f"{suite.package}'s source, unpacked")
    parser.add_argument("areas", nargs="*", choices=[[], *suite.areas], help="default: all")
    given = parser.parse_args()
    source = given.source.resolve()
    if not (source / suite.tests.format(area=suite.areas[0])).exists():
        parser.error(f"{given.source} has no tests: give {suite.package}'s source, unpacked")
    counts, failed = {}, {}
    for area in track(given.areas or suite.areas, f"{suite.package}'s tests"):
        found = suite.run(source, area)
        counts[area] = summary(found)
        failed |= {
            f"{area} {name}": message.partition("\n")[0]  # paths follow
            for name, (outcome, message) in found.items()
            if outcome == "failed"
        }
        print(f"{area}: {counts[area]}")
    reasons = {name: suite.reason(name, message) for name, message in failed.items()}
    for name, message in failed.items():
        print(f"  {name}: {reasons[name] or 'UNEXPLAINED: ' + message}")
    totals = sum((Counter(one) for one in counts.values()), Counter())
    without = sum(not (words or "").startswith(LIBRARY) for words in reasons.values())
    share = f"{100 * totals['passed'] / (totals['passed'] + without):.2f} %"
    print(f"{totals['passed']} passed, {share} of those that need no library of machine code")
    if not given.areas:
        from lab.benchmarks.report import write

        print(
            write(
                suite.name,
                {
                    "areas": counts,
                    "all": dict(totals),
                    "passed of those that need no library of machine code": share,
                    "not run": (
                        f"tests marked slow or with {', '.join(suite.not_run)} in their name"
                    ),
                    "failed": {name: words or failed[name] for name, words in reasons.items()},
                    "peak memory of a run, GB": round(
                        resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6, 1
                    ),
                },
            )
        )
    return 1 if None in reasons.values() else 0

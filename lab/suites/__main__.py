"""Run the test suites of other projects on the virtual GPU.

    python -m lab.suites numba-cuda cupy --sources FOLDER     some suites
    python -m lab.suites --sources FOLDER                     every suite whose source exists
    python -m lab.suites cupy --sources FOLDER --only math    some of its files; nothing is written
    python -m lab.suites stumpy --sources FOLDER --python PYTHON

``suites.toml`` has a table for each suite: the location of its tests, how to run them, and the
reasons for tests that fail. FOLDER contains checkouts or unpacked releases, each in a folder with
the name of the suite; nothing is downloaded. PYTHON must have virtualgpu, pytest and the suite's
requirements. A failure that ``suites.toml`` does not explain is "unknown", and then the exit
status is 1. Results are written to ``lab/results/suites.json`` and to the table of
``docs/tried_with.md``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.suites.successor import with_its_imports

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "lab" / "results" / "suites.json"
PAGE = ROOT / "docs" / "tried_with.md"
LAUNCH = 100  # processor seconds for a launch
BAD = ("failed", "ended the process")
#: Causes of failures, in the words of the page.
CAUSES = {
    "package": "a problem of the package itself",
    "fault": "a fault of its kernel",
    "gpu": "needs a real GPU",
    "limit": "a documented limit",
    "ours": "ours",
    "unknown": "unknown",
}
VERSIONS = ("numba", "numba-cuda", "numba-cuda-mlir", "numpy", "triton", "torch", "cuda-tile")
CHILDREN = "import virtualgpu\n\nvirtualgpu.activate(force=True)\n"
_SAID = re.compile(r"virtual GPU: ([\d,]+) launch(?:es)? checked(?:, ([\d,]+) finding)?")


@dataclass(frozen=True)
class Suite:
    """Test suite, as described by a table of ``suites.toml``.

    Attributes
    ----------
    name, repository : str
    through : str
        The libraries through which its kernels are launched.
    tests : list of str
        Files, patterns of files and options of pytest.
    installed : str
        The package with the tests, if they come with an installed library.
    successor : bool
        If True, a copy of the tests runs in which the imports are those of numba-cuda's successor.
    checked : bool
        If True, every launch runs under ``check()`` (``pytest --virtual-gpu``). All other suites
        run with the virtual GPU active, and without their own pytest configuration unless
        ``configured`` is True.
    setup : str
        The name of a pytest plugin in ``setups``.
    children : bool
        If True, the virtual GPU is active in every Python process that a test starts.
    split, at_once : int
        The number of processes among which the files are divided, and the number that run at a
        time.
    limit : int
        Seconds after which a process is interrupted as by Ctrl+C.
    cases : int
        The maximum number of cases of one test function; 0 for all.
    path : list of str
        Folders of the source that are added to Python's path.
    accept : list of str
        Harmless findings, in the format of ``--virtual-gpu-accept``.
    failures : list of (pattern, cause, reason)
        Patterns for the name or message of a test, tried in order.
    """

    name: str
    repository: str
    through: str
    tests: list[str]
    installed: str = ""
    successor: bool = False
    checked: bool = False
    configured: bool = False
    setup: str = ""
    children: bool = False
    split: int = 1
    at_once: int = 1
    limit: int = 1200
    cases: int = 0
    folder: str = "."
    path: list[str] = field(default_factory=lambda: ["."])
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    accept: list[str] = field(default_factory=list)
    failures: list[tuple[str, str, str]] = field(default_factory=list)

    def cause(self, told: str) -> tuple[str, str]:
        """Return the cause and the reason of a failure, given the test's name and message."""
        return next(
            (
                (cause, why)
                for pattern, cause, why in self.failures
                if re.search(pattern, told, re.M)
            ),
            ("unknown", "unknown"),
        )

    def command(self, python: str, where: Path, source: Path, files: list[str]) -> list[str]:
        """Return the command that runs some test files."""
        plugins = ["no:randomly", "no:cacheprovider", "suite_outcomes"]
        plugins += ["suite_setup"] if self.setup else []
        command = [python, "-m", "pytest", "-q", "--tb=short", "--continue-on-collection-errors"]
        command += [word for plugin in plugins for word in ("-p", plugin)]
        if self.checked:
            libraries = [
                name for name in ("cupy", "pycuda", "cudf") if name in self.through.lower()
            ]
            command += ["-o", "addopts=", "--virtual-gpu", f"--virtual-gpu-time-limit={LAUNCH}"]
            command += [f"--virtual-gpu-standins={','.join(libraries) or 'none'}"]
            command += [f"--virtual-gpu-accept={entry}" for entry in self.accept]
        elif not self.configured:
            command += ["-c", os.devnull, "--rootdir", str(source), "--noconftest", "-W", "ignore"]
        return [*command, *self.options, *files]


SUITES = {
    name: Suite(name, **table)
    for name, table in tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8")).items()
}


def files_of(suite: Suite, source: Path, only: list[str]) -> tuple[list[str], list[str]]:
    """Return a suite's test files, and the entries of ``tests`` that pytest gets with each."""
    files: list[str] = []
    others: list[str] = []
    for one in suite.tests:
        if "*" in one:
            files += map(str, sorted(source.glob(one)))
        elif one.partition("::")[0].endswith(".py") or (source / one).is_dir():
            files.append(one)
        else:
            others.append(one)
    return [one for one in files if not only or any(word in one for word in only)], others


def run(suite: Suite, source: Path, python: str, only: list[str]) -> dict[str, Any]:
    """Run a suite and return its record for the page."""
    source = source / suite.folder
    files, others = files_of(suite, source, only)
    count = max(1, min(suite.split, len(files)))
    parts = [[*files[k::count], *others] for k in range(count)]
    with ThreadPoolExecutor(suite.at_once) as pool:
        ran = list(pool.map(lambda part: run_files(suite, source, python, part), parts))
    found = {name: how for part, _, _ in ran for name, how in part.items()}
    said = "\n".join(text for _, text, _ in ran)
    causes: Counter[tuple[str, str]] = Counter()
    unknown = []
    for name, (outcome, message) in found.items():
        if outcome in BAD:
            cause, reason = suite.cause(f"{name}\n{outcome}\n{message}")
            causes[cause, reason] += 1
            if cause in ("unknown", "ours"):
                unknown.append(f"{name}: {message.strip().splitlines()[-1:]}")
    told = [match.groups() for match in _SAID.finditer(said)]
    launches, findings = (
        sum(int((one[k] or "0").replace(",", "")) for one in told) if told else None for k in (0, 1)
    )
    return {
        "package": suite.repository,
        "kind": suite.through,
        "version": version_of(suite, source, python),
        "date": datetime.date.today().isoformat(),
        "versions": versions(python),
        "tests": " ".join(suite.tests),
        "accepted": suite.accept,
        "ended": all(ended for _, _, ended in ran),
        "outcomes": dict(Counter(outcome for outcome, _ in found.values()).most_common()),
        "launches": launches,
        "findings": findings,
        "not_passed": [
            {"count": count, "whose": cause, "reason": reason}
            for (cause, reason), count in causes.most_common()
        ],
        "unknown": unknown[:20],
        "said": "" if found else said[-1000:],
    }


def run_files(
    suite: Suite, source: Path, python: str, files: list[str]
) -> tuple[dict[str, tuple[str, str]], str, bool]:
    """Run files in one process, and in a new process after each test that ends it.

    Returns
    -------
    outcomes : dict
        ``{test: (outcome, message)}``
    said : str
        The output of pytest.
    ended : bool
        False if the time limit was reached first.
    """
    found: dict[str, tuple[str, str]] = {}
    said = ""
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        log, done = where / "log.jsonl", where / "done"
        shutil.copy(HERE / "outcomes.py", where / "suite_outcomes.py")
        if suite.setup:
            shutil.copy(HERE / "setups" / f"{suite.setup}.py", where / "suite_setup.py")
        if suite.children:
            (where / "sitecustomize.py").write_text(CHILDREN)
        paths = [where, *(source / one for one in suite.path), os.environ.get("PYTHONPATH")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
            "SUITE_LOG": str(log),
            "SUITE_DONE": str(done),
            "SUITE_CASES": str(suite.cases),
            "SUITE_SOURCE": str(source),
            "VIRTUALGPU_TIME_LIMIT": str(LAUNCH),
            **suite.environment,
        }
        while True:
            done.write_text("\n".join(found))
            log.write_text("")
            process = subprocess.Popen(
                suite.command(python, where, source, files),
                cwd=source,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            words, ended = _wait(process, suite.limit)
            said += words
            new: dict[str, tuple[str, str]] = {}
            for line in log.read_text().splitlines():
                test, outcome, message = json.loads(line)
                if new.get(test, ("",))[0] != "failed":  # a failed subtest makes its test fail
                    new[test] = outcome, message
            died = [outcome for outcome, _ in new.values()].count("ended the process")
            found |= new
            if not ended or not died:
                return found, said, ended


def _wait(process: subprocess.Popen[str], limit: float) -> tuple[str, bool]:
    """Return a process's output, and False if it was stopped together with its children."""
    for number, sent in ((signal.SIGINT, limit), (signal.SIGKILL, 60.0)):
        try:
            return process.communicate(timeout=sent)[0], number == signal.SIGINT
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
    return process.communicate()[0], False


def _output(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout


def versions(python: str) -> dict[str, str]:
    """Return the versions of the libraries in an environment."""
    code = (
        "import importlib.metadata as m, json, sys; print(json.dumps({'python': "
        "sys.version.split()[0], **{d.name: d.version for d in m.distributions() "
        f"if d.name in {VERSIONS!r}}}}}))"
    )
    found: dict[str, str] = json.loads(_output(python, code))
    return found


def version_of(suite: Suite, source: Path, python: str) -> str:
    """Return the version of an installed or unpacked suite, or the commit of a checkout."""
    if suite.installed:
        return versions(python).get(suite.repository.partition("/")[2], "")
    released = source / "PKG-INFO"
    if released.exists() and (found := re.search("^Version: (.*)", released.read_text(), re.M)):
        return found[1]
    asked = ["git", "-C", str(source), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def source_of(suite: Suite, sources: Path | None, python: str, made: Path) -> Path | None:
    """Return the folder of a suite's tests, or None if it does not exist."""
    if suite.installed:
        found = f"find_spec({suite.installed!r}).submodule_search_locations"
        tests = Path(_output(python, f"from importlib.util import *; print(*{found})").strip())
        return with_its_imports(tests, made) if suite.successor else tests
    folder = sources and sources.resolve() / suite.name
    return folder if folder and folder.is_dir() else None


# -- the table -------------------------------------------------------------------------------------


def table(results: Mapping[str, dict[str, Any]]) -> str:
    """Return the page's table, in which unmeasured figures are unknown."""
    lines = [
        "| package | launches through | tests | passed | not passed, and why "
        "| launches checked | findings |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, suite in SUITES.items():
        link = f"[{suite.repository}](https://github.com/{suite.repository})"
        if name not in results:
            tests = " ".join(suite.tests)
            lines.append(f"| {link} | {suite.through} | `{tests}` {'| unknown ' * 4}|")
            continue
        one = results[name]
        why = [
            f"{each['count']} {CAUSES[each['whose']]}"
            + (f": {each['reason']}" if each["reason"] != "unknown" else "")
            for each in one["not_passed"]
        ] or ["none"]
        for entry in one["accepted"]:
            place, _, words = entry.rpartition(": ")
            why.append(f"accepted at `{place}`: {words}")
        if not one["ended"]:
            why.append("stopped before its end")
        passed, skipped = (one["outcomes"].get(word, 0) for word in ("passed", "skipped"))
        counts = [
            "not checked" if one[word] is None else f"{one[word]:,}"
            for word in ("launches", "findings")
        ]
        lines.append(
            f"| {link}, {one['version']} | {one['kind']} | `{one['tests']}`, {one['date']} "
            f"| {passed:,} (and {skipped:,} skipped) | {'; '.join(why)} | {' | '.join(counts)} |"
        )
    return "\n".join(lines)


def write(new: dict[str, dict[str, Any]]) -> None:
    """Add results to those of the other suites, and update the table of the page."""
    known = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), **new}
    results = {name: known[name] for name in SUITES if name in known}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    head, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    tail = rest.partition("<!-- end of the table -->\n")[2]
    PAGE.write_text(f"{head}<!-- table -->\n{table(results)}\n<!-- end of the table -->\n{tail}")


def main() -> int:
    """Run the command line; return 1 if a test fails for an unknown reason or because of us."""
    parser = argparse.ArgumentParser(prog="python -m lab.suites")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--sources", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    if wrong := [name for name in given.names if name not in SUITES]:
        parser.error(f"there is no suite {', '.join(wrong)}; the suites are {', '.join(SUITES)}")
    # A background process of a shell ignores the signal, and so would pytest.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    bad = 0
    for name in given.names or SUITES:
        suite = SUITES[name]
        with tempfile.TemporaryDirectory() as made:
            source = source_of(suite, given.sources, given.python, Path(made))
            if source is None:
                print(
                    f"{name}: its source is not in --sources; get it from https://github.com/{suite.repository}"
                )
                continue
            one = run(suite, source, given.python, given.only)
        if one["outcomes"] and not given.only:
            write({name: one})
        bad += sum(x["count"] for x in one["not_passed"] if x["whose"] in ("ours", "unknown"))
        bad += not one["outcomes"]
        print(f"{name}: {one['outcomes']}, {one['not_passed']}")
        for line in (*one["unknown"], *filter(None, [one["said"]])):
            print(f"    {line}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

"""A folder of submissions to the projects, and what each deserves.

    python -m lab.evidence.grader_cases FOLDER               all of them
    python -m lab.evidence.grader_cases FOLDER 01_fill       those of one project
    make evidence CASES=FOLDER

A red team, or a teacher, collects what was judged wrongly once. In ``FOLDER/PROJECT/NAME`` lies
what NAME handed in: ``PROJECT.ipynb``, and whatever stood beside it, links and pipes as they are.
``FOLDER/index.json`` lists what each deserves:

``project`` ``name`` ``kind``
    ``honest``: the tests in ``tests`` are to give all their points. Any other: it is to earn at
    most ``most`` points, where that is said.
``secs``
    So many seconds may its verdict take; such a case is graded by itself.
``secret``
    A text that no reason may repeat.

Each project's submissions are graded in one run of ``gpucourse grade``, as a class would be. Ends
with status 1 where any verdict is another, or missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT
from lab.benchmarks.grader_class import environment
from lab.benchmarks.report import write

NAME = "grader_cases"
ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent
# A class in which nothing hangs takes 5 to 10 s a submission.
CLASS_SECONDS, CASE_SECONDS = 7200, 3600


def judged(case: dict, verdict: dict | None) -> str:
    """Return what is wrong with a verdict; empty if it is what the case deserves."""
    if verdict is None:
        return "no verdict"
    if verdict["kind"] == INFRASTRUCTURE_FAULT:
        return f"infrastructure fault: {verdict['reason']}"
    found = []
    if case["kind"] == "honest":
        tests = {test["test"]: test for test in verdict["tests"]}
        found += [
            f"{name}: {tests[name]['reason']}"
            for name in case.get("tests", ())
            if name in tests and tests[name]["earned"] != tests[name]["points"]
        ]
    elif verdict["earned"] > case.get("most", verdict["earned"]):
        found.append(f"{verdict['earned'] - case['most']:g} points that are not earned")
    if "secret" in case and any(case["secret"] in test["reason"] for test in verdict["tests"]):
        found.append("tells hidden inputs")
    if verdict["seconds"] > case.get("secs", verdict["seconds"]):
        found.append(f"took {verdict['seconds']:.0f} s")
    return "; ".join(found)


def graded(folder: Path, project: str, names: Iterable[str], seconds: float) -> dict[str, dict]:
    """The verdicts of some cases of one project, handed in by a class of their own."""
    with tempfile.TemporaryDirectory() as made:
        course = Path(made)
        shutil.copytree(ROOT / "grading" / "source", course / "source")
        shutil.copy(ROOT / "grading" / "nbgrader_config.py", course)
        _run(course, "nbgrader", "generate_assignment", project)
        for name in names:
            # cp, because pipes and links are handed in too.
            there = course / "submitted" / name
            there.mkdir(parents=True)
            subprocess.run(["cp", "-a", folder / project / name, there / project], check=True)
        try:
            _run(course, "gpucourse", "grade", ".", seconds=seconds)
        except subprocess.TimeoutExpired:
            print(f"{project}: stopped after {seconds:g} s")
        return {
            path.parts[-3]: json.loads(path.read_text())
            for path in (course / "verdicts").glob(f"*/{project}/*.json")
        }


def _run(course: Path, command: str, *arguments: str, seconds: float | None = None) -> None:
    subprocess.run(
        [SCRIPTS / command, *arguments],
        cwd=course,
        env=environment(),
        timeout=seconds,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("projects", nargs="*", help="beginnings of their names; default: all")
    asked = options.parse_args()
    cases = [
        case
        for case in json.loads((asked.folder / "index.json").read_text())
        if case["project"].startswith(tuple(asked.projects) or "")
    ]
    there = [case for case in cases if (asked.folder / case["project"] / case["name"]).is_dir()]
    if absent := [case["name"] for case in cases if case not in there]:
        print(f"not in the folder: {', '.join(absent)}")
    cases = there
    verdicts: dict[tuple[str, str], dict] = {}
    for project in sorted({case["project"] for case in cases}):
        here = [case for case in cases if case["project"] == project]
        together = [case["name"] for case in here if "secs" not in case]
        alone = [[case["name"]] for case in here if "secs" in case]
        for names, seconds in ((together, CLASS_SECONDS), *((one, CASE_SECONDS) for one in alone)):
            if names:
                verdicts |= {
                    (project, name): verdict
                    for name, verdict in graded(asked.folder, project, names, seconds).items()
                }
    wrong = {}
    for case in cases:
        found = judged(case, verdicts.get((case["project"], case["name"])))
        if found:
            wrong[f"{case['project']}/{case['name']}"] = found
            print(f"{case['project']}/{case['name']}: {found}")
    print(f"{len(cases)} cases, {len(wrong)} judged wrongly")
    write(
        NAME,
        {
            "command": f"python -m lab.evidence.{NAME} FOLDER",
            "cases": len(cases),
            "judged wrongly": wrong,
        },
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Pytest plugin that records how each test ended.

The runner copies it beside the suite. Each line of ``SUITE_LOG`` is ``[test, outcome, message]``.
A test that has begun has the outcome "ended the process" until it ends otherwise. The tests in
``SUITE_DONE`` are skipped, and at most ``SUITE_CASES`` cases of a test function run, evenly
selected.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path


def pytest_collection_modifyitems(items) -> None:
    done = set(Path(os.environ["SUITE_DONE"]).read_text().splitlines())
    cases, functions = int(os.environ["SUITE_CASES"]), defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    taken = set()
    for of_one in functions.values():
        count = min(cases, len(of_one)) if cases else len(of_one)
        taken |= {of_one[len(of_one) * number // count].nodeid for number in range(count)}
    items[:] = [item for item in items if item.nodeid in taken and item.nodeid not in done]


def note(*words: str) -> None:
    with open(os.environ["SUITE_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    note(nodeid, "ended the process", "")


def pytest_runtest_logreport(report) -> None:
    if "Subtest" in type(report).__name__ and not report.failed:
        return
    if report.when == "call" or report.outcome != "passed":
        told = report.longrepr
        message = str(told[2] if isinstance(told, tuple) else told or "")
        outcome = "expected to fail" if hasattr(report, "wasxfail") else report.outcome
        note(report.nodeid, outcome, message[-3000:])


def pytest_collectreport(report) -> None:
    if report.failed:
        note(report.nodeid, "failed", str(report.longrepr)[-3000:])

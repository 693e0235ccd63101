"""Findings of a run as a JSON file, or as a JUnit XML file, which CI services display."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from virtualgpu.errors import Location
from virtualgpu.findings import Finding

SUFFIXES = (".json", ".xml")


def write(
    path: Path, program: str, launches: int, findings: Iterable[Finding], folder: Path
) -> None:
    """Write the findings to ``path`` in the format that its suffix names.

    Files in ``folder`` get paths relative to it, as CI services find them in a repository.

    The JSON file has ``program``, ``launches`` and ``findings``, a list with the fields of each
    :class:`virtualgpu.findings.Finding`. The JUnit file has one failed test case for each finding,
    or a single passed test case if there are no findings. Raises ValueError for another suffix,
    and OSError.
    """
    if path.suffix == ".json":
        text = _json(program, launches, findings, folder)
    elif path.suffix == ".xml":
        text = _junit(program, launches, findings, folder)
    else:
        raise ValueError(f"{path}: the name of a report must end in {' or '.join(SUFFIXES)}")
    path.write_text(text, encoding="utf-8")


def _json(program: str, launches: int, findings: Iterable[Finding], folder: Path) -> str:
    told = {
        "program": program,
        "launches": launches,
        "findings": [_fields(finding, folder) for finding in findings],
    }
    return json.dumps(told, indent=1) + "\n"


def _fields(finding: Finding, folder: Path) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "message": finding.message,
        **_place(finding.location, folder),
        "other": _place(finding.other, folder) if finding.other else None,
        "count": finding.count,
        "launches": sorted(finding.launches),
    }


def _place(at: Location, folder: Path) -> dict[str, Any]:
    return {
        "kernel": at.kernel,
        "filename": _from(folder, at.filename),
        "line": at.line,
        "block": at.block and list(at.block),
        "thread": at.thread and list(at.thread),
    }


def _junit(program: str, launches: int, findings: Iterable[Finding], folder: Path) -> str:
    found = [*findings]
    suite = ElementTree.Element(
        "testsuite",
        name=f"virtualgpu run {program}",
        tests=str(len(found) or 1),
        failures=str(len(found)),
        errors="0",
        skipped="0",
    )
    for finding in found:
        filename = _from(folder, finding.filename)
        where = f"{filename}:{finding.line}" if finding.line else finding.kernel
        case = ElementTree.SubElement(
            suite, "testcase", classname=finding.kernel, name=f"{finding.kind} at {where}"
        )
        if filename and finding.line:
            case.set("file", filename)
            case.set("line", str(finding.line))
        failure = ElementTree.SubElement(case, "failure", message=finding.message)
        failure.text = str(finding)
    if not found:
        ElementTree.SubElement(suite, "testcase", classname=program, name=f"{launches} launches")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _from(folder: Path, filename: str | None) -> str | None:
    """Return ``filename`` relative to ``folder`` if it is inside."""
    if filename is None or not Path(filename).is_relative_to(folder):
        return filename
    return Path(filename).relative_to(folder).as_posix()

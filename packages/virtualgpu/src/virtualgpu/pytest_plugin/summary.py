"""Summary of a run of ``pytest --virtual-gpu``: headings, last lines, GitHub annotations."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from virtualgpu import sources
from virtualgpu.accepting import Acceptance
from virtualgpu.findings import Finding, Report
from virtualgpu.pytest_plugin.options import Settings, known_options
from virtualgpu.standins.finder import folder
from virtualgpu.wording import many

_NUMBER = re.compile(r"\d[\d,]*")


def heading(findings: Sequence[Finding], config: pytest.Config) -> str:
    """Return ``race at kernels.py:10 (turned)``, with the number of further ones."""
    first, more = findings[0], len(findings) - 1
    place = f" at {_path(first, config)}:{first.line}" if first.line else ""
    kernel = f" ({first.kernel})" if first.kernel else ""
    return f"{first.kind}{place}{kernel}" + (f", and {more} more" if more else "")


def note(report: Any, found: Report, wrong: Report, needed: Mapping[Acceptance, int]) -> None:
    """Attach the data that :class:`Summary` adds up to a report, which xdist's workers transmit."""
    report.virtual_gpu = {
        "launches": found.launches,
        "notes": found.notes,
        "accepted": [[str(one), one.reason, count] for one, count in needed.items()],
        "findings": [[one.kind, one.filename, one.line, one.message] for one in wrong.findings],
    }


def _path(finding: Finding, config: pytest.Config) -> str:
    """Return the path of a file relative to the project, or the name of any other."""
    path = Path(finding.filename or "")
    if path.is_relative_to(config.rootpath):
        return path.relative_to(config.rootpath).as_posix()
    return sources.name(finding.filename)


class Summary:
    """Sum of the tests' findings, in the process that controls the terminal."""

    def __init__(self, config: pytest.Config, chosen: Settings, told: str = ""):
        self._config, self._chosen, self._told = config, chosen, told
        self._required = known_options(config).virtual_gpu_require
        self._launches = 0
        self._findings: list[list] = []
        self._notes: list[str] = []
        self._accepted: Counter[tuple[str, str]] = Counter()

    def pytest_report_header(self) -> list[str]:
        checked = "unchecked" if self._chosen.unchecked else "every launch checked"
        if self._chosen.streams and not self._chosen.unchecked:
            checked += ", streams too"
        seeds = ", ".join(map(str, self._chosen.seeds))
        order = f", threads in random order {seeds}" if seeds else ""
        standins = ""
        if self._chosen.standins is not None:
            missing = [name for name in self._chosen.standins if folder(name) is None]
            standins = f"; stand-ins: {', '.join(self._chosen.standins) or 'none'}" + (
                f", of which {', '.join(missing)} not installed" if missing else ""
            )
            standins += " (virtual_gpu_standins)"
        huge = ""
        if self._chosen.huge is not None:
            huge = (
                f"; arrays of {self._chosen.huge:,} bytes or more use memory only for touched pages"
            )
        how = (
            f"kernels run on the CPU, {checked}{order}; a launch may use "
            f"{self._chosen.time_limit:g} s{huge}{standins}"
        )
        return [f"virtual GPU: {words}" for words in (how, self._told) if words]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report)

    def _add(self, report: Any) -> None:
        said = getattr(report, "virtual_gpu", None)
        if said is not None:
            self._launches += said["launches"]
            self._findings += said["findings"]
            self._notes += [f"{report.nodeid}: {one}" for one in said["notes"]]
            for place, reason, count in said["accepted"]:
                self._accepted[place, reason] += count

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        if hasattr(self._config, "workerinput"):  # a worker of xdist: its reports go elsewhere
            return (yield)
        nothing = self._required and not self._launches and not self._config.option.collectonly
        if nothing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        result = yield
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            for line in self._notes:
                terminal.write_line(f"virtual GPU: {line}")
            for line in github_annotations(self._findings, self._config.rootpath):
                terminal.write_line(line)
            for line in self._of_accepted():
                terminal.write_line(f"virtual GPU: {line}")
            wrong = bool(self._findings) or nothing
            terminal.write_line(
                f"virtual GPU: {self._in_all()}"
                + (": --virtual-gpu-require fails the run" if nothing else ""),
                red=wrong,
                green=not wrong,
            )
        return result

    def _of_accepted(self) -> Iterator[str]:
        """Yield accepted findings with their reasons, and unused acceptances of the run."""
        for (place, reason), count in self._accepted.items():
            yield f"accepted at {place}, {many(count, 'time')}: {reason}"
        if not self._chosen.unchecked:
            for one in self._chosen.accepted:
                if (str(one), one.reason) not in self._accepted:
                    yield f"accepted and not found in this run: {one} ({one.reason})"

    def _in_all(self) -> str:
        if self._chosen.unchecked and not self._launches:
            return "kernels ran unchecked (--virtual-gpu-unchecked), so nothing was looked for"
        places = len(
            {
                (kind, file, line, _NUMBER.sub("0", message))
                for kind, file, line, message in self._findings
            }
        )
        told = len(self._findings)
        return (
            f"{many(self._launches, 'launch', 'launches')} checked, {many(places, 'finding')}"
            + (f", told {told:,} times" if told > places else "")
        )


def github_annotations(findings: Sequence[Sequence], root: Path) -> list[str]:
    """Return GitHub's workflow commands that mark the kernels' lines; none elsewhere.

    https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    checkout = Path(os.environ.get("GITHUB_WORKSPACE") or root)
    lines: dict[str, None] = {}  # each once, because several tests may launch one kernel
    for kind, filename, line, message in findings:
        where = ""
        if filename and Path(filename).is_relative_to(checkout):
            file = Path(filename).relative_to(checkout).as_posix()
            where = f"file={_escaped(file, ':,')},line={line or 1},"
        lines[f"::error {where}title={kind}::{_escaped(message)}"] = None
    return list(lines)


def _escaped(text: str, also: str = "") -> str:
    for sign in "%\r\n" + also:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text

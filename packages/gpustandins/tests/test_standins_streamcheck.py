"""check(streams=True) names the two lines between which a synchronisation is missing, no others."""

from __future__ import annotations

import inspect

import pytest

import virtualgpu

virtualgpu.activate(force=True)

from stream_programs import PROGRAMS  # noqa: E402  the stand-ins must be there

WRONG = [name for name in PROGRAMS if name.startswith("wrong_")]


def marked(program, mark: str) -> int | None:
    lines, first = inspect.getsourcelines(program)
    return next((first + k for k, line in enumerate(lines) if line.rstrip().endswith(mark)), None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_missing_synchronisation_and_nothing_else(name, active):
    program = PROGRAMS[name]
    with virtualgpu.check(streams=True) as report:
        program()
    found = [(one.other.line, one.line) for one in report.of_kind("stream")]
    first = marked(program, "# first")
    assert (first is not None) == (name in WRONG)
    assert found == ([(first, marked(program, "# second"))] if first else []), str(report)


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_said_unless_asked_for(name, active):
    with virtualgpu.check() as report:
        PROGRAMS[name]()
    assert not report.of_kind("stream")


def test_words(active):
    with virtualgpu.check(streams=True) as report:
        PROGRAMS["wrong_kernel_reads_too_early"]()
        PROGRAMS["wrong_host_reads_pinned"]()
    between, host = map(str, report.findings)
    assert "kernel move in stream 2" in between and "kernel add in stream 1" in between
    assert "record an event in stream 1, and let stream 2 wait for it" in between
    assert "add[1, N, a](x, 1)" in between and "move[1, N, b](x, y)" in between
    assert "the host reads at stream_programs.py line" in host
    assert "Synchronise stream" in host and "host.sum()" in host

"""Names and texts of source lines in messages."""

from __future__ import annotations

import linecache

import pytest

from virtualgpu import sources


def test_a_line_is_quoted(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("first\n    second\n")
    assert sources.text(str(path), 2) == "second"
    assert sources.text(str(path), 3) == ""


def test_a_cell_that_is_no_file_is_quoted(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<cell>", (5, None, ["i = 1\n"], "<cell>"))
    assert sources.text("<cell>", 1) == "i = 1"


@pytest.mark.parametrize("name", ["/dev/zero", "no\0name", "/", "missing.py", "", None])
def test_what_is_no_file_has_no_text(name):
    assert sources.text(name, 1) == ""


def test_only_what_is_allowed_is_quoted(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    for path in (one, two):
        path.write_text("a line\n")
    with sources.quoting(lambda filename: filename == str(one)):
        assert (sources.text(str(one), 1), sources.text(str(two), 1)) == ("a line", "")
        with sources.quoting(lambda filename: False):
            assert sources.text(str(one), 1) == ""
    assert sources.text(str(two), 1) == "a line"

"""``make gpu-check``: the parts it runs, what it writes, how it ends, and the page's tables."""

from __future__ import annotations

import json
import os
import re
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.gpu_check import command, parts, provenance, table
from lab.gpu_check.__main__ import app
from lab.gpu_check.rows import Row, append, read

FACTS = {
    "device": "NVIDIA H200",
    "driver": "580.1",
    "commit": "abc",
    "source": "123",
    "cuda": "13.0",
    "date": "2026-12-01T10:00:00+00:00",
    "python": "3.12.3",
    "versions": {"numba": "0.64.0"},
    "tools": {"ncu": "Version 2025.3"},
}


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """Parts that do nothing but say that they were asked; by name what they end with."""
    asked = []

    def part(name):
        def work(check, seconds):
            asked.append(name)
            (check.folder / name).mkdir(exist_ok=True)
            if name == "broken":
                raise RuntimeError("of its own")
            if name == "stopped":
                raise KeyboardInterrupt
            verdict = "differs" if name == "wrong" else "agrees"
            check.save(name, [Row(name, verdict, "2 is 3")], complete=name != "half")

        return work

    def use(*names):
        monkeypatch.setattr(command, "PARTS", {name: (part(name), 0.5) for name in names})

    use("one", "two")
    monkeypatch.setattr(provenance, "describe", lambda device: dict(FACTS))
    monkeypatch.setattr(command, "FOLDER", tmp_path / "work")
    use.asked, use.out = asked, tmp_path / "result.json"
    return use


def check(use, *names, minutes=9.0, **options) -> tuple[int, str]:
    told = StringIO()
    code = command.check(
        minutes, list(names), use.out, console=Console(file=told, width=200), **options
    )
    return code, told.getvalue()


def test_all_agree(pretended):
    code, told = check(pretended)
    assert code == command.ALL_WELL == 0 and pretended.asked == ["one", "two"]
    assert "NVIDIA H200" in told and "1 agree" in told
    result = json.loads(pretended.out.read_text())
    assert result["machine"] == FACTS | {"lessons": []}
    assert result["parts"]["one"] == {
        "complete": True,
        "rows": [{"what": "one", "verdict": "agrees", "detail": "2 is 3", "figures": {}}],
    }


def test_what_is_finished_is_not_done_again(pretended):
    check(pretended)
    assert check(pretended)[0] == 0 and pretended.asked == ["one", "two"]
    left = parts.Check(command.FOLDER / "gpu", pretended.out).folder / "one" / "left"
    left.touch()
    check(pretended, "one", fresh=True)
    assert pretended.asked == ["one", "two", "one"] and not left.exists()


@pytest.mark.parametrize("key", ["device", "driver", "source"])
def test_another_device_or_source_begins_anew(pretended, monkeypatch, key):
    check(pretended)
    left = command.FOLDER / "gpu" / "two" / "left"
    left.touch()
    monkeypatch.setattr(provenance, "describe", lambda device: FACTS | {key: "another"})
    check(pretended, "one")
    assert pretended.asked == ["one", "two", "one"] and not left.exists()
    assert list(json.loads(pretended.out.read_text())["parts"]) == ["one"]


def test_another_date_or_commit_goes_on(pretended, monkeypatch):
    check(pretended, "one")
    others = {"date": "x", "commit": None}
    monkeypatch.setattr(provenance, "describe", lambda device: FACTS | others)
    check(pretended)
    assert pretended.asked == ["one", "two"]


def test_what_differs_is_shown_and_decides_the_exit_status(pretended):
    pretended("one", "wrong", "half")
    code, told = check(pretended)
    assert code == command.SOMETHING_WRONG == 1 and "wrong: wrong: differs: 2 is 3" in told


def test_an_unfinished_part_goes_on_the_next_time(pretended):
    pretended("half", "two")
    code, told = check(pretended)
    assert code == command.UNFINISHED == 3
    assert "Not finished: half. Run the same command again" in told
    check(pretended)
    assert pretended.asked == ["half", "two", "half"]


def test_a_broken_part_takes_none_along(pretended):
    pretended("broken", "two")
    code, told = check(pretended)
    assert code == command.SOMETHING_WRONG and pretended.asked == ["broken", "two"]
    assert "broken: broken: fails: the check itself failed: RuntimeError: of its own" in told


def test_an_interruption_keeps_what_was_done(pretended):
    pretended("one", "stopped", "two")
    code, told = check(pretended)
    assert code == command.UNFINISHED and pretended.asked == ["one", "stopped"]
    assert "interrupted" in told and "Not finished: stopped, two" in told
    assert json.loads(pretended.out.read_text())["parts"]["one"]["complete"]


def test_no_time_spoils_no_row(pretended):
    pretended("half", "two")
    check(pretended, "half")
    code, _ = check(pretended, minutes=0.1)
    assert code == command.UNFINISHED and pretended.asked == ["half"]
    rows = json.loads(pretended.out.read_text())["parts"]
    assert rows["half"]["rows"][0]["verdict"] == "agrees"
    assert rows["two"]["rows"][0] == Row("two", "not run", parts.NO_TIME).as_dict()


def test_times_are_shared_out_and_the_last_gets_the_rest(pretended, monkeypatch):
    given = {}
    work = {
        name: (lambda check, seconds, name=name: given.update({name: seconds}), share)
        for name, share in (("a", 0.25), ("b", 0.5), ("c", 0.1))
    }
    monkeypatch.setattr(command, "PARTS", work)
    check(pretended, minutes=10)
    assert [round(seconds, -1) for seconds in given.values()] == [150, 300, 600]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["nothing"],
            "There is no part nothing; the parts are instructions, lessons, sanitizer, "
            "grading, counters",
        ),
        (["--lesson", "99_x"], "There is no lesson 99_x; the lessons are 01_first_steps"),
        (["--lesson", "05_cupy"], "With --lesson, write the result to another file"),
    ],
)
def test_what_cannot_be_asked_for_is_said(arguments, said, monkeypatch):
    monkeypatch.setattr(command, "_do", None)
    done = CliRunner().invoke(app, ["--rehearse", *arguments])
    assert done.exit_code == command.NOTHING_DONE == 2 and said in done.output


def test_without_a_gpu_nothing_is_claimed(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "describe", lambda device: {"device": None, "why": "no driver"})
    monkeypatch.setattr(command, "_do", None)
    out = tmp_path / "result.json"
    done = CliRunner().invoke(app, ["--out", str(out)])
    assert done.exit_code == command.NOTHING_DONE and not out.exists()
    assert "Nothing was checked: no driver" in done.output and "--rehearse" in done.output


# -- the machine and the file -------------------------------------------------------------------


def test_a_machine_is_described_without_its_name(monkeypatch, repository):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    facts = provenance.describe("gpu")
    assert facts["device"] is None and facts["why"] and "rehearsal" not in facts
    assert "rehearsal" in provenance.describe("virtual")
    assert {"date", "cores", "system", "python", "commit", "tools"} <= facts.keys()
    assert facts["versions"]["numba"] and facts["versions"]["numpy"]
    assert re.fullmatch(r"[0-9a-f]{16}", facts["source"])
    told = json.dumps(facts)
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", told)
    assert str(repository) not in told


def test_the_source_is_known_by_what_is_in_it(tmp_path):
    def change(path: str, text: str) -> str:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return provenance.source_digest(tmp_path)

    source = "packages/virtualgpu/src/a"
    first = change(f"{source}/b.py", "x = 1")
    assert change("docs/page.md", "text") == change(f"{source}/b.pyc", "…") == first
    seen = {
        first,
        change(f"{source}/b.py", "x = 2"),
        change("solutions/l.ipynb", "{}"),
        change("packages/virtualgpu/tests/support/labelled/c.py", ""),
        change(f"{source}/c.py", ""),
    }
    assert len(seen) == 5 and change(f"{source}/b.py", "x = 2") in seen


def test_rows_come_back_from_a_file_that_was_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert read(path) == []
    rows = [Row("a", "agrees", "ö", {"n": 1}), Row("b", "differs")]
    for row in rows:
        append(path, row)
    assert read(path) == rows
    path.write_text(path.read_text()[:-9])
    assert read(path) == rows[:1]


# -- tables -------------------------------------------------------------------------------------


def test_tables_say_what_does_not_agree_and_show_both_counts():
    counted = {"global_load_sectors": [125, 125], "warp_instructions": [10, 24]}
    result = {
        "machine": FACTS,
        "parts": {
            "lessons": {
                "complete": True,
                "rows": [
                    Row("01_a", "agrees").as_dict(),
                    Row("02_b", "differs", "a | b\nc").as_dict(),
                ],
            },
            "counters": {
                "complete": False,
                "rows": [Row("scale[1, 32]", "agrees", "", counted).as_dict()],
            },
        },
    }
    text = table.tables(result)
    assert "NVIDIA H200, driver 580.1, CUDA 13.0, 2026-12-01, commit `abc`" in text
    assert "| lessons on the GPU | 2 | 1 agree, 1 differ |" in text
    assert "1 agree; not finished" in text
    assert "| 02_b | differs | a \\| b c |" in text and "01_a" not in text
    assert "| scale[1, 32] | 125 | – | – | – | – | 10 / 24 |" in text
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    assert table.page(page, None) == f"before\n{table.BEGIN}\n{table.NONE}\n{table.END}\nafter\n"


def test_what_was_not_run_for_one_reason_is_one_row():
    rows = [
        Row("a", "not run", "no cudf"),
        Row("b", "differs", "1, not 2"),
        Row("c", "not run", "no cudf"),
        Row("d", "not run", "no time"),
    ]
    part = {"complete": True, "rows": [row.as_dict() for row in rows]}
    text = table.tables({"machine": FACTS, "parts": {"lessons": part}})
    assert text.splitlines()[-3:] == [
        "| b | differs | 1, not 2 |",
        "| 2 rows | not run | no cudf |",
        "| d | not run | no time |",
    ]


def test_a_rehearsal_is_no_result(tmp_path):
    (tmp_path / command.RESULT.parent).mkdir(parents=True)
    path = tmp_path / command.RESULT
    assert table.read_result(tmp_path) is None
    path.write_text(json.dumps({"machine": FACTS, "parts": {}}))
    assert table.read_result(tmp_path)["machine"] == FACTS
    path.write_text(json.dumps({"machine": FACTS | {"rehearsal": "…"}, "parts": {}}))
    with pytest.raises(SystemExit, match="rehearsal"):
        table.read_result(tmp_path)


def test_what_each_finds_is_counted_by_kind():
    def row(label, where, theirs, ours, detail=""):
        figures = {"label": label, "where": where, "compute-sanitizer": theirs, "virtual GPU": ours}
        return Row("a kernel", "agrees", detail, figures).as_dict()

    rows = [
        row("race", "shared", ["race at line 3"], ["race at line 3"]),
        row("race", "shared", ["barrier at line 9"], ["race at line 3"]),
        row("clean", "", ["race at line 1"], []),
        row("clean", "", [], [], parts.NO_TIME),
    ]
    text = table.tables(
        {"machine": FACTS, "parts": {"sanitizer": {"complete": True, "rows": rows}}}
    )
    assert "| race, shared memory | 2 | 2 | 1 | 2 |" in text
    assert "| clean | 2 | 1 | 1 | 0 |" in text

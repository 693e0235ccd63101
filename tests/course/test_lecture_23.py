"""What the text of "Kernel detective" says is what its cells show; other right answers pass."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from gpucourse.views.paper_streams import PaperGPU
from virtualgpu.watch.counters import Counters
from virtualgpu.watch.nsight import METRICS, OF_INSTRUCTIONS
from wrong_answers import answers_of

WRONG = answers_of("23_kernel_detective")
pytestmark = pytest.mark.rehearsal


def test_the_reports_are_true(shown):
    right, wrong = (
        re.findall(r"[-\d.e+]+ GeV", line) for line in shown["the-question"].text.splitlines()
    )
    assert right[0] == right[1] and wrong[0] != wrong[1]
    assert abs(float(wrong[0].split()[0])) > 1e100, "absurd"
    assert "maxima[1] of 1" in str(shown["crash"].error)
    assert "thread 0 of block 1" in str(shown["crash"].error)
    assert "cut at 0.0 GeV" in shown["hang"].text and "cut at 5.0" not in shown["hang"].text


def test_the_tools_name_what_the_text_says(shown):
    assert "uninitialised" in shown["sum"].text and "(24 times" in shown["sum"].text
    while_line = shown["hang"].error.location.line
    assert while_line == 5, "the line of the while in its cell"
    assert "in another launch" in shown["days-found"].text
    places = re.findall(r"of block (\d+)", shown["days-found"].text.split("\n  at ")[1])
    assert len(set(places)) == 2, "two blocks"


def test_one_block_is_right_in_every_order_and_eight_are_not(shown):
    one, eight = (re.findall(r"\d\.\d{4}", line) for line in shown["days"].text.splitlines())
    assert set(one) == {"1.0000"} and len(set(eight)) > 1 and "1.0000" in eight


def test_a_thread_for_each_row_moves_four_times_as_much(shown):
    names = shown["slow-check"].names
    moved = {}
    for name, launch in (("row_sums", (2, 128)), ("mended_rows", (256, 32))):
        with virtualgpu.profile() as profile:
            names[name][launch](cuda.to_device(names["table"]), cuda.device_array(256))
        moved[name] = profile.counters.global_load_sectors
    assert moved["row_sums"] == 256 * 480 and moved["mended_rows"] == 256 * 480 / 4


def test_either_half_may_come_too_soon_and_six_units_are_enough(shown):
    first, second = map(
        int, re.findall(r"right in (\d+) and half 1 in (\d+)", shown["streams"].text)[0]
    )
    assert 0 < first < 100 and 0 < second < 100
    assert "half 0 is right in 100 and half 1 in 100" in shown["streams-exercise"].text
    for one_stream, units in ((True, 8), (False, 6)):
        gpu = PaperGPU()
        WRONG.program(waits=(0, 1), one_stream=one_stream)(gpu, [np.ones(4)] * 2, [np.ones(4)] * 2)
        assert gpu.timetable() == units


def test_other_right_answers_are_accepted(lesson):
    assert lesson.outcome("hang", WRONG.keeping()).passed  # gives the lock back on both ways
    assert lesson.outcome("two-streams", WRONG.program(waits=(0, 1))).passed
    assert lesson.outcome("two-streams", WRONG.program(together=True)).passed  # the host waits


def test_the_table_has_the_names_that_the_gpu_check_asks_ncu_for(repository):
    lecture = repository / "course/lectures/23_kernel_detective/notebook.py"
    source = lecture.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^# \| `(\w+)`.*? \| (.*) \|$", source, re.MULTILINE))
    for counter, metrics in METRICS.items():
        name = counter.replace("_store_", "_load_")
        written = (
            next(row for first, row in rows.items() if first == name)
            if counter != "thread_instructions"
            else rows["warp_instructions"]
        )
        stem = metrics[0].replace("op_st.sum", "op_ld.sum")
        assert stem in written.replace("<wbr>", ""), counter  # where a narrow window may break it
        assert ("machine code" in written) == (counter in OF_INSTRUCTIONS)
    assert set(METRICS) <= {*(field.name for field in fields(Counters))}


def test_sectors_for_each_request_before_and_after(shown):
    text = shown["nsight"].text
    assert text.startswith("NOT ncu's output")
    before, after = map(float, re.search(r"each request: ([\d.]+) ([\d.]+)", text).groups())
    assert (before, after) == (32.0, 8.0)


def test_without_a_gpu_the_profilers_are_not_run_and_it_says_so(shown):
    text = shown["nsight-program"].text
    assert text.count("not run, for want of a GPU") == 2
    assert "$ nsys profile --trace=cuda,nvtx --stats=true" in text and "$ ncu --kernel-name" in text


def test_the_program_for_the_profilers_runs(shown, capsys):
    names = {}
    exec(compile(shown["nsight-program"].names["PROGRAM"], "sums.py", "exec"), names)
    assert set(names["sums"].copy_to_host()) == {480.0}

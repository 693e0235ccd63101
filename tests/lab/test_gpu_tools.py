"""Reports of compute-sanitizer and Nsight Compute, read as their manuals and users show them.

The tools themselves were not run here. What a program makes of their command lines is tried with
programs that stand in their places and run the rest of the line.
"""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_launches import launches
from lab.gpu_check import nsight, play, sanitizer
from lab.gpu_check.jobs import Clock
from lab.gpu_check.labelled import Label
from lab.gpu_check.nsight import COUNTS, Profiled
from lab.gpu_check.rows import Row
from virtualgpu.errors import VirtualGPUError

pytestmark = pytest.mark.rehearsal

NAMES = ["no_guard", "swap", "votes", "add_all"]

# Compute Sanitizer's manual, sections "Understanding Memcheck Errors" to "Using Synccheck", in the
# form of versions since 2022; the last of each in the older one.
MEMCHECK = """\
========= COMPUTE-SANITIZER
#### no_guard
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel()+0x160 in memcheck_demo.cu:34
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f3fae000001 is misaligned
=========     and is 1 bytes after the nearest allocation at 0x7f3fae000000 of size 4 bytes
=========
#### votes
#### swap
========= Invalid __shared__ read of size 4 bytes
=========     at 0x578 in /x/task1.cu:120:MatMulKernel(Matrix, Matrix, Matrix)
=========     by thread (31,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure"
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
#### swap
========= Error: Race reported between Write access at ka_race(int *)+0x90 in probe.cu:13
=========     and Read access at ka_race(int *)+0xa0 in probe.cu:14 [2048 hazards]
=========     and Write access at ka_race(int *)+0x90 in probe.cu:13 [5 hazards]
=========
#### votes
========= Warning: Race reported between Write access at 0x278 in /u/task1.cu:113:MatMul(float *)
=========     and Read access at 0x298 in /u/task1.cu:121:MatMul(float *) [6144 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
OTHERS = """\
#### add_all
========= Uninitialized __global__ memory read of size 4 bytes
=========     at vectorAdd(int *)+0x70 in /samples/Initcheck/memset_error.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
#### votes
========= Barrier error detected. Divergent thread(s) in warp.
=========     at ka_divergent(int *)+0xb0 in probe.cu:20
=========     by thread (0,0,0) in block (0,0,0)
#### swap
========= Barrier error detected. Divergent thread(s) in block.
=========     at kernel_name+0x15520
=========     by thread (128,0,0) in block (0,0,0)
========= ERROR SUMMARY: 3 errors
"""


def told(text: str) -> list[tuple]:
    return [(one.launch, one.kind, one.line) for one in sanitizer.parse(text, NAMES)]


def test_reports_give_the_launch_the_fault_and_the_line():
    assert told(MEMCHECK) == [("no_guard", "memory", 34), ("swap", "memory", 120)]
    assert told(RACECHECK) == [
        ("swap", "race", 13),
        ("swap", "race", 14),
        ("votes", "race", 113),
        ("votes", "race", 121),
    ]
    assert told(OTHERS) == [
        ("add_all", "uninitialised", 41),
        ("votes", "barrier", 20),
        ("swap", "barrier", None),
    ]
    assert told("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


@pytest.mark.parametrize(
    "place",
    [
        "at _ZN8labelled11fault_cases8no_guardB2v1B42c8tJTC_2fWQ+0x90 in /x/fault_cases.py:17",
        "at labelled::fault_cases::no_guard(Array<float, 1>)+0x90 in /x/fault_cases.py:17",
        "at k+0x90 in /cuda-0123456789ab/no_guard.cu:17",
    ],
)
def test_a_report_that_comes_late_belongs_to_the_kernel_that_it_names(place):
    text = (
        f"#### no_guard\n#### votes\n========= Invalid __global__ write of size 4 bytes\n"
        f"=========     {place}\n"
    )
    assert told(text) == [("no_guard", "memory", 17)]


def label(name: str, kind: str, space: str = "", lines=(), **options) -> Label:
    return Label(name, kind, list(lines), space, [], **{"shared": True, "barriers": True} | options)


def verdict(one: Label, text: str, silent=None) -> tuple[str, str]:
    (row,) = sanitizer.rows([one], sanitizer.parse(text, NAMES), silent or {})
    return row.verdict, row.detail


def test_labels_are_held_against_the_tool_that_looks_for_such_faults():
    assert verdict(label("no_guard", "memory", "global", [34]), MEMCHECK) == ("agrees", "")
    assert verdict(label("no_guard", "memory", "global", [99]), MEMCHECK) == (
        "differs",
        "memcheck reports it at another line",
    )
    assert verdict(label("add_all", "memory", "global", [1]), MEMCHECK) == (
        "differs",
        "memcheck does not report it",
    )
    assert verdict(label("swap", "race", "shared", [14]), RACECHECK)[0] == "agrees"
    assert verdict(label("swap", "barrier", "", [7]), OTHERS)[0] == "agrees"  # it names no line
    assert verdict(label("votes", "clean"), RACECHECK)[0] == "differs"
    assert verdict(label("votes", "clean"), MEMCHECK) == ("agrees", "")
    # For a race in global memory there is no tool.
    found = verdict(label("add_all", "race", "global", [3]), MEMCHECK)
    assert found[0] == "not run" and "has no tool for" in found[1]


def test_a_tool_that_says_nothing_is_no_verdict():
    def silent(name, why="it did not end in time"):
        return {("memcheck", name): why}

    late, ended = sanitizer.NO_TIME, "it ended: 700"
    assert verdict(label("add_all", "memory", "global", [1]), MEMCHECK, silent("add_all")) == (
        "fails",
        "it did not end in time",
    )
    assert verdict(
        label("add_all", "memory", "global", [1]), MEMCHECK, silent("add_all", late)
    ) == ("not run", late)
    assert verdict(label("votes", "clean"), MEMCHECK, silent("votes", late)) == ("not run", late)
    # The fault itself ended the process, and was told before.
    assert verdict(
        label("no_guard", "memory", "global", [34]), MEMCHECK, silent("no_guard", ended)
    ) == ("agrees", "")


def test_a_kernel_that_may_hang_is_alone_and_last():
    labels = [
        label("swap", "deadlock"),
        *(label(f"k{n}", "race", "global", [1], shared=False) for n in range(13)),
    ]
    plan = sanitizer.plan(labels)
    assert [(tool, len(names)) for tool, names in plan] == [
        ("memcheck", 12),
        ("memcheck", 1),
        ("initcheck", 12),
        ("initcheck", 1),
        ("synccheck", 12),
        ("synccheck", 1),
        ("synccheck", 1),
    ]
    assert plan[-1] == ("synccheck", ["swap"])


def program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def recorded(tmp_path) -> Path:
    for name in ("exact", "collect"):
        launches()[name].save(tmp_path / f"{name}.npz")
    return tmp_path


def test_a_launch_that_never_ends_costs_itself(recorded, tmp_path):
    # In place of the tool: knows no long options, and hangs in the first launch of two.
    stand_in = program(
        tmp_path / "tool",
        f"""
        echo start >> {tmp_path}/starts
        case "$*" in *--destroy*) echo "unrecognised option"; exit 1;; esac
        for file in "$@"; do case "$file" in *.npz)
            echo "#### $(basename "$file" .npz)"
            case "$file" in *exact.npz) sleep 60;; esac;; esac; done""",
    )
    found, silent = sanitizer.watch(stand_in, recorded, "memcheck", ["exact", "collect"], 3.0)
    assert found == [] and silent == {"exact": "it did not end in time"}
    # Each with the options that it does not know, and then without; the rest in a second process.
    assert len((tmp_path / "starts").read_text().split()) == 4
    found, silent = sanitizer.watch(
        stand_in, recorded, "memcheck", ["exact", "collect"], 6.0, clock=Clock(2.0)
    )
    assert silent == dict.fromkeys(("exact", "collect"), sanitizer.NO_TIME)


REPORTS = """========= Invalid __global__ write of size 4 bytes
=========     at exact+0x90 in k.py:7"""


def test_what_a_batch_gave_is_kept(recorded, tmp_path):
    """First a tool that sees one fault of two; the next run asks for nothing any more."""
    stand_in = program(
        tmp_path / "tool",
        f"""
        echo "$2" >> {tmp_path}/asked
        echo '#### collect'; echo '#### exact'; [ $2 = memcheck ] && echo '{REPORTS}'; exit 0""",
    )
    labels = [
        label(name, "memory", "global", [7], shared=False, barriers=False)
        for name in ("exact", "collect")
    ]
    saved = []
    whole = sanitizer.compare(
        stand_in, recorded, labels, Clock(60), 1, "virtual", save=saved.append
    )
    assert whole and (tmp_path / "asked").read_text().split() == ["memcheck", "initcheck"]
    assert {row.verdict for row in saved[0]} == {"not run"}  # nothing was asked for yet
    first, second = saved[-1]
    assert (first.verdict, second.verdict) == ("agrees", "differs")
    assert second.detail == "memcheck does not report it"
    again = []
    assert sanitizer.compare("/nothing", recorded, labels, Clock(60), 1, save=again.append)
    assert again[-1] == saved[-1]
    (recorded / "reports.jsonl").unlink()
    assert not sanitizer.compare(stand_in, recorded, labels, Clock(1), 1, save=again.append)
    assert {row.detail for row in again[-1]} == {sanitizer.NO_TIME}


def test_a_tool_that_refuses_the_machine_is_one_row(recorded, tmp_path):
    broken = program(tmp_path / "broken", "echo 'Device not supported'; exit 3")
    saved = []
    labels = [label("exact", "memory", "global", [7])]
    sanitizer.compare(broken, recorded, labels, Clock(60), 1, "virtual", save=saved.append)
    assert saved[-1] == [
        Row("compute-sanitizer", "not run", "the tool did not start: Device not supported")
    ]


def test_a_spoiled_gpu_plays_nothing_more(recorded, tmp_path, monkeypatch, capsys):
    class Spoiled(VirtualGPUError):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

    def spoil(launch, device, **options):
        raise Spoiled("an illegal address")

    files = [str(recorded / f"{name}.npz") for name in ("exact", "collect")]
    monkeypatch.setattr("sys.argv", ["play", "--device", "virtual", *files])
    monkeypatch.setattr(play, "play", spoil)
    with pytest.raises(SystemExit):
        play.main()
    told = capsys.readouterr().out
    assert "#### exact\n!!!! exact: Spoiled: an illegal" in told and "#### collect" not in told


# -- Nsight Compute -----------------------------------------------------------------------------

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
    '"Block Size","Grid Size","Device","CC"'
)
LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
RAW = f"""\
==PROF== Connected to process 1234 (/usr/bin/python3)
==PROF== Profiling "saxpy": 0%....50%....100% - 2 passes
{HEAD},"{LOADS}","smsp__inst_executed.sum"
"","","","","","","","","","","","sector","inst"
"0","1234","python3","host","saxpy","1","7","(128, 1, 1)","(80, 1, 1)","0","9.0","2,000,000","n/a"
"1","1234","python3","host","other","1","7","(128, 1, 1)","(1, 1, 1)","0","9.0","4096","17"
==PROF== Disconnected from process 1234
"""
DETAILS = f"""\
==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 9 passes
{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value"
"0","9","plain","127.0.0.1","saxpy","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0","Command line \
profiler metrics","{LOADS}","sector","1,205"
"0","9","plain","127.0.0.1","saxpy","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0","Command line \
profiler metrics","smsp__inst_executed.sum","inst","n/a"
"""


def test_both_layouts_of_the_csv_are_read():
    raw = nsight.parse(RAW)
    assert raw == [
        Profiled("saxpy", {LOADS: 2e6, "smsp__inst_executed.sum": None}),
        Profiled("other", {LOADS: 4096, "smsp__inst_executed.sum": 17}),
    ]
    assert nsight.parse(DETAILS) == [
        Profiled("saxpy", {LOADS: 1205, "smsp__inst_executed.sum": None})
    ]
    assert nsight.parse("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission") == []


def test_counts_of_the_memory_system_are_judged_and_instructions_shown():
    ours = {count.name: 0 for count in COUNTS} | {
        "global_load_sectors": 1000,
        "global_atomic_requests": 40,
        "warp_instructions": 500,
    }
    metrics = {metric: 0.0 for count in COUNTS for metric in count.metrics} | {
        LOADS: 1004.0,
        "smsp__inst_executed.sum": 900.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum": 30.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": 10.0,
    }
    row = nsight.row("k", ours, Profiled("k", metrics))
    assert row.verdict == "agrees"
    assert row.figures == {
        "global_load_sectors": [1000, 1004],
        "warp_instructions": [500, 900],
        "global_atomic_requests": [40, 40],
    }
    wrong = nsight.row("k", ours | {"global_load_sectors": 990}, Profiled("k", metrics))
    assert wrong.verdict == "differs"
    assert wrong.detail == "global_load_sectors: 990 on the virtual GPU, 1,004 by ncu"
    assert nsight.row("k", ours, None).verdict == "fails"


def test_launches_are_matched_by_order_and_unknown_metrics_left_out(recorded, tmp_path):
    broken = replace(launches()["exact"], texts=("no PTX",))
    broken.save(tmp_path / "broken.npz")
    stand_in = program(
        tmp_path / "ncu",
        """
        case "$*" in *smsp__inst_executed.sum*)
            echo "==ERROR== Failed to find metric smsp__inst_executed.sum"; exit 1;; esac
        while [ "$1" != "-m" ]; do python=$1; shift; done
        "$python" "$@"
        echo '"ID","Kernel Name","LOADS"'; echo '"","","sector"'
        echo '"0","exact","7"'; echo '"1","collect","9"'""".replace("LOADS", LOADS),
    )
    files = [recorded / f"{name}.npz" for name in ("exact", "broken", "collect")]
    found, said = nsight.profile(stand_in, files, 60, "virtual")
    assert {name: one.metrics for name, one in found.items()} == {
        "exact": {LOADS: 7},
        "collect": {LOADS: 9},
    }  # nothing for the one that did not run
    assert said == "unknown to this version: smsp__inst_executed.sum"


def test_where_counters_cannot_be_read_it_says_why(recorded, tmp_path):
    refused = program(tmp_path / "ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - no permission'")
    rows, _ = nsight.compare(refused, [recorded / "exact.npz"], Clock(60), 1, "virtual")
    assert [row.verdict for row in rows] == ["not run"]
    assert "ERR_NVGPUCTRPERM" in rows[0].detail


def test_counters_that_had_no_time_are_no_failure(recorded, tmp_path, monkeypatch):
    """``ncu`` counts the first launch and hangs; the virtual GPU has counted both."""
    ours = {count.name: 0 for count in COUNTS} | {"global_load_sectors": 125}
    monkeypatch.setattr(
        nsight, "_counted_apart", lambda files, seconds: {path.stem: ours for path in files}
    )
    hangs = program(
        tmp_path / "ncu",
        f"""
        echo '"ID","Kernel Name","{LOADS}"'; echo '"0","exact","125"'; sleep 60""",
    )
    files = [recorded / f"{name}.npz" for name in ("exact", "collect")]
    rows, whole = nsight.compare(hangs, files, Clock(2.0), 2, "virtual")
    assert not whole
    assert [(row.verdict, row.detail) for row in rows[1:]] == [
        ("agrees", ""),
        ("not run", "no time was left"),
    ]


def test_counters_come_in_batches_and_what_came_is_kept(recorded, tmp_path, monkeypatch):
    """Of an ``ncu`` that hangs on one launch, the others' counts are there."""
    ours = {count.name: 0 for count in COUNTS} | {"global_load_sectors": 125}
    monkeypatch.setattr(
        nsight, "_counted_apart", lambda files, seconds: {path.stem: ours for path in files}
    )
    monkeypatch.setattr(nsight, "BATCH", 1)
    monkeypatch.setattr(nsight, "BATCH_SECONDS", 2.0)
    hangs = program(
        tmp_path / "ncu",
        f"""
        case "$*" in *collect.npz*) sleep 600;; esac
        echo '"ID","Kernel Name","{LOADS}"'; echo '"0","exact","125"'""",
    )
    saved: list = []
    files = [recorded / f"{name}.npz" for name in ("exact", "collect", "exact")]
    rows, whole = nsight.compare(hangs, files, Clock(600), 2, "virtual", save=saved.append)
    assert whole and [len(one) for one in saved] == [4, 4, 4]
    assert [(row.verdict, row.detail) for row in rows[1:]] == [
        ("agrees", ""),
        ("not run", "ncu: it did not end in time"),
        ("agrees", ""),
    ]
    assert len(rows[0].figures["seconds of each batch"]) == 3


def test_the_virtual_gpu_counts_a_recorded_launch(recorded):
    counts = nsight.counted(recorded / "exact.npz")
    assert counts["global_load_requests"] == 32  # 1000 threads in 8 blocks of 4 warps
    assert counts["global_load_sectors"] == 125  # of 32 bytes
    assert nsight.choose(recorded, 10) == [recorded / "collect.npz", recorded / "exact.npz"]

"""A kernel killed for memory is told to the next kernel of its notebook; nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpucourse.notebook import last_kernel
from gpucourse.system.resources import memory_kills

KERNEL = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
from gpucourse.notebook import last_kernel
last_kernel.memory_kills = lambda: int(sys.argv[1])
shell = InteractiveShell.instance()
print(last_kernel.watch(shell))
print(last_kernel.watch(shell))
shell.run_cell("# mass\\nprint('ran')")
print("ready", flush=True)
sys.stdin.readline()
"""


def kernel(kills: int, **environment: str) -> subprocess.Popen:
    """A shell that has loaded the extension and run a cell, and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(kills)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def told(process: subprocess.Popen) -> str:
    """What it was told when it started."""
    lines = [process.stdout.readline().strip() for _ in range(4)]
    assert lines[1:] == ["None", "ran", "ready"], "told once, and cells run"
    return lines[0]


@pytest.fixture
def notebook(tmp_path: Path) -> dict[str, str]:
    return {
        "JPY_SESSION_NAME": str(tmp_path / "a.ipynb"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }


def end(process: subprocess.Popen, how: int | None = None) -> None:
    if how is None:
        process.communicate("\n")
    else:
        process.send_signal(how)
        process.communicate()


def test_only_a_kill_for_memory_is_told(notebook):
    first = kernel(3, **notebook)
    assert told(first) == "None"
    end(first, signal.SIGKILL)
    second = kernel(4, **notebook)
    news = told(second)
    assert "killed because memory ran out" in news and "`# mass`" in news
    assert time.strftime("%H:", time.localtime()) in news
    end(second)  # in the ordinary way: it takes its note away
    third = kernel(5, **notebook)
    assert told(third) == "None"
    end(third, signal.SIGKILL)
    fourth = kernel(5, **notebook)
    assert told(fourth) == "None", "gone without goodbye, but not killed for memory"
    # Another notebook's kernel was killed meanwhile, and this one's is well.
    fifth = kernel(6, **notebook)
    assert told(fifth) == "None"
    end(fourth)
    end(fifth)


def test_a_kernel_does_not_take_away_the_note_of_its_successor(notebook):
    first = kernel(3, **notebook)
    told(first)
    second = kernel(3, **notebook)
    told(second)
    end(first)
    end(second, signal.SIGKILL)
    third = kernel(4, **notebook)
    assert "killed" in told(third)
    end(third)


def test_outside_jupyter_and_without_a_place_for_notes_nothing_happens(notebook, tmp_path):
    process = kernel(3, JPY_SESSION_NAME="")
    assert told(process) == "None"
    end(process)
    (tmp_path / "file").write_text("")
    process = kernel(3, **{**notebook, "JUPYTER_RUNTIME_DIR": str(tmp_path / "file" / "x")})
    assert told(process) == "None"
    end(process)


def test_damaged_notes_are_no_notes(tmp_path):
    path = tmp_path / "note"
    for text in ("", "{", "[]", '{"kernel": [1, 2]}', '{"kernel": 1, "x": 2}'):
        path.write_text(text)
        assert last_kernel.read(path) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/\n", "cgroup/memory.events": "oom 9\noom_kill 2\n"}, 2),
        (
            {
                "proc/self/cgroup": "0::/user/app\n",
                "cgroup/user/app/memory.events": "oom_kill 3\n",
                "proc/vmstat": "oom_kill 8\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/x\n3:memory:/docker/a\n0::/\n",
                "cgroup/memory/memory.oom_control": "under_oom 0\noom_kill 5\n",
                "proc/vmstat": "oom_kill 8\n",
            },
            5,
        ),
        ({"proc/self/cgroup": "0::/\n", "proc/vmstat": "nr 1\noom_kill 8\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "cgroup/memory.events": "oom_kill many\n"}, None),
        ({}, None),
    ],
)
def test_kills_are_counted_for_the_container_first(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_kills(tmp_path / "cgroup", tmp_path / "proc") == expected


def test_this_machine_counts():
    if sys.platform == "linux":
        assert memory_kills() >= 0

"""Machine code on disk: found by the next process, whole or not at all, never in the way."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llvmlite import binding as llvm_binding

from virtualgpu import cli
from virtualgpu.compilers import cache, llvm

# An engine that is let go frees the target machine, which it shares with the process's own.
engines: list[object] = []
ADD = "define i64 @add(i64 %a) {{\n  %b = add i64 %a, {}\n  ret i64 %b\n}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path / "code"))
    monkeypatch.setattr(cache, "_off", False)
    monkeypatch.setattr(cache, "_written", 0)
    return tmp_path / "code"


@pytest.fixture
def another_process(monkeypatch):
    """Forget what this process has compiled; what is compiled from here on."""
    made: list[str] = []
    compiled = llvm._compiled

    def counted(text, symbol, name, passes):
        made.append(name)
        return compiled(text, symbol, name, passes)

    def forget():
        engine = llvm_binding.create_mcjit_compiler(
            llvm_binding.parse_assembly(""), llvm._machine()
        )
        engines.append(engine)
        monkeypatch.setattr(llvm, "_engine", lambda: engine)
        monkeypatch.setattr(llvm, "_loaded", set())
        made.clear()
        return made

    monkeypatch.setattr(llvm, "_compiled", counted)
    return forget


def plus(number: int) -> int:
    """1 + ``number``, by machine code."""
    address = llvm.machine_code(ADD.format(number), "add")
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1)


def test_what_one_process_compiled_the_next_one_loads(folder, another_process):
    made = another_process()
    assert (plus(1), plus(2), plus(1)) == (2, 3, 2)
    assert len(made) == len(list(folder.iterdir())) == 2
    made = another_process()
    assert (plus(1), plus(2)) == (2, 3)
    assert made == []


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "another's", "text"])
def test_a_file_that_is_not_what_was_written_is_written_anew(folder, another_process, harm):
    another_process()
    assert plus(3) == 4
    (path,) = folder.iterdir()
    good = path.read_bytes()
    assert plus(4) == 5
    (other,) = set(folder.iterdir()) - {path}
    bad = {
        "cut": good[:-1],
        "changed": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
        "empty": b"",
        "another's": other.read_bytes(),
        "text": b"no code\n",
    }[harm]
    path.write_bytes(bad)
    made = another_process()
    assert plus(3) == 4
    assert len(made) == 1
    assert path.read_bytes() == good


def test_code_for_another_processor_or_version_is_other_code(monkeypatch):
    key = llvm._key("text", "symbol", "none")
    assert key == llvm._key("text", "symbol", "none")
    others = {
        llvm._key("text ", "symbol", "none"),
        llvm._key("text", "symbols", "none"),
        llvm._key("text", "symbol", "few"),
    }
    for name, value in (
        ("_processor", lambda: ("x86-64", "")),
        ("_processor", lambda: ("x86-64", "+avx")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(llvm, name, value)
            patch.setattr(llvm, "compiler", llvm.compiler.__wrapped__)
            others.add(llvm._key("text", "symbol", "none"))
    for name, value in (
        ("virtualgpu.__version__", "another"),
        ("llvmlite.__version__", "another"),
        ("virtualgpu.compilers.llvm.__file__", __file__),
    ):  # it was changed
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            patch.setattr(llvm, "compiler", llvm.compiler.__wrapped__)
            others.add(llvm._key("text", "symbol", "none"))
    assert len(others) == 8 and key not in others


def test_where_nothing_can_be_written_code_runs_all_the_same(folder, another_process, monkeypatch):
    another_process()
    folder.write_text("a file where the folder should be")
    assert plus(5) == 6
    folder.unlink()

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert plus(6) == 7
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_can_write_is_left_alone(folder, another_process):
    another_process()
    assert plus(7) == 8
    folder.chmod(0o777)
    made = another_process()
    assert (plus(7), plus(8)) == (8, 9)
    assert len(made) == 2
    assert len(list(folder.iterdir())) == 1


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    now = time.time()
    for age in range(8):
        cache.keep(bytes([age]) * cache.KEY, bytes(1000))
    for age in range(8):
        path = folder / (bytes([age]).hex() * cache.KEY + ".code")
        os.utime(path, (now - 90_000 * age,) * 2)
    assert cache.fetch(b"\5" * cache.KEY) == bytes(1000)  # it is the youngest now
    left = folder / "killed.part"
    left.write_bytes(b"")
    os.utime(left, (now - 4000,) * 2)
    mine = folder / "notes.txt"
    mine.write_text("a person's own")
    cache.trim(folder, 8000)  # the files have 80 bytes more
    assert {path.name[:2] for path in folder.glob("*.code")} == {"00", "01", "02", "03", "05"}
    assert not left.exists()
    monkeypatch.setattr(cache, "trim", lambda place: trimmed.append(place))
    trimmed: list[Path] = []
    for number in range(1, 201):
        cache.keep(number.to_bytes(cache.KEY), b"")
    assert len(trimmed) == 3
    assert cache.clear()[0] == 200 + 5
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "_off", False)
    monkeypatch.delenv("VIRTUALGPU_CACHE", raising=False)
    if sys.platform == "linux":
        monkeypatch.setenv("HOME", "/somebody")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache.folder() == tmp_path / "virtualgpu"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache.folder() == Path("/somebody/.cache/virtualgpu")
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path / "mine"))
    assert cache.folder() == tmp_path / "mine"
    monkeypatch.setenv("VIRTUALGPU_CACHE", "0")
    assert cache.folder() is None
    assert cache.fetch(bytes(cache.KEY)) is None
    cache.keep(bytes(cache.KEY), b"")


def test_the_command_says_where_and_how_much(folder, capsys):
    assert cli.main(["cache"]) == 0
    assert f"{folder}: 0 files, 0.0 MB of at most 134 MB" in capsys.readouterr().out
    cache.keep(bytes(cache.KEY), bytes(3_000_000))
    assert cli.main(["cache"]) == 0
    assert "1 file, 3.0 MB" in capsys.readouterr().out
    assert cli.main(["cache", "clear"]) == 0
    assert "1 file, 3.0 MB, removed" in capsys.readouterr().out
    assert list(folder.iterdir()) == []
    folder.chmod(0o777)
    assert cli.main(["cache"]) == 0
    assert "other users can write to it" in capsys.readouterr().out


def test_the_command_says_when_there_is_none(monkeypatch, capsys):
    monkeypatch.setenv("VIRTUALGPU_CACHE", "0")
    assert cli.main(["cache"]) == 0
    assert "no cache: VIRTUALGPU_CACHE is 0" in capsys.readouterr().out


PROGRAM = """
import contextlib

import numpy as np
import virtualgpu
from virtualgpu import devices

text = '''.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<3>;  .reg .b32 %r<6>;  .reg .b64 %rd<4>;  .shared .align 4 .b8 s[256];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;  mul.wide.u32 %rd2, %r1, 4;  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r2, s;  mad.lo.u32 %r2, %r1, 4, %r2;
  and.b32 %r3, %r1, 1;  setp.eq.u32 %p1, %r3, 0;
  @%p1 bra even;
  mul.lo.u32 %r1, %r1, 3;
even:
  st.shared.u32 [%r2], %r1;
  bar.sync 0;
  ld.shared.u32 %r4, [%r2];
  atom.global.add.u32 %r5, [%rd3], %r4;
  ret;
}'''
ways = '''
  brx.idx %r3, table;  table: .branchtargets even, odd;
odd:
  setp.eq.u32 %p2, %r1, 63;
  @%p2 bar.arrive 1, 32;
  @!%p2 bar.sync 1, 32;
'''
reduce = "bar.red.popc.u32 %r3, 0, %p1;"
waiting = text.replace("@%p1 bra even;", ways).replace("bar.sync 0;", reduce)
devices.use(devices.VirtualDevice()).__enter__()
for text, watched in ((text, contextlib.nullcontext), (text, virtualgpu.check),
                      (text, virtualgpu.profile), (waiting, contextlib.nullcontext)):
    module = virtualgpu.Module.from_ptx(text)
    values = np.zeros(64, np.uint32)
    with watched():
        module.launch("k", 1, 64, [values])
    assert values.sum() == sum(i * (3 if i % 2 else 1) for i in range(64))
"""


def test_a_kernel_and_the_loops_of_its_check_are_the_same_text_in_every_process(folder):
    """No set's order, no address of this process gets into it."""
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "VIRTUALGPU_NATIVE": "always"}
        subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, check=True)
        found.append({path.name for path in folder.iterdir()})
    files = (path.read_bytes() for path in folder.iterdir())
    code = [one for one in files if b"\x7fELF" in one]  # beside it, how each kernel is put together
    assert sum(b"native_warp" in one for one in code) == 2  # in one of them, lanes are parked
    assert sum(b"counting_warp" in one for one in code) == 1
    assert len(found[0]) > 10
    assert found[0] == found[1]

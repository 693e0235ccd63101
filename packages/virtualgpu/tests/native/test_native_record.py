"""Native code that an earlier process left on disk: it runs as if it had just been compiled, and
whatever decides what the code is keeps others away."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding as llvm_binding

from native_lab import after, checked, counted
from virtualgpu import native
from virtualgpu.compilers import cache, llvm
from virtualgpu.compilers.loops import CompiledLoop
from virtualgpu.launch.launch import Launch, NativeCode
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.native import kernel, locate, privatisation, record, run
from virtualgpu.native.affine import first_lanes as affine_first_lanes
from virtualgpu.native.blocks import block_loop
from virtualgpu.native.memory import access_helpers
from virtualgpu.native.watched import accesses, allocations, clock, neighbours

# An engine that is let go frees the target machine, which it shares with the process's own.
engines: list[object] = []
HEAD = """.version 8.4
.target sm_90
.address_size 64
"""
# Each thread adds 1, and the value of a variable, to its own element; a block more than there is
# room for reaches beyond.
BODY = """.global .u32 more = 6;
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>;  .reg .b64 %rd<6>;  .reg .pred %p<3>;
  .loc 1 LINE 5
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %ctaid.x;  mov.u32 %r2, %ntid.x;  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r4, 4;  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [more];  add.u32 %r5, %r5, 1;
  ld.global.u32 %r6, [%rd3];  add.u32 %r6, %r6, %r5;
  st.global.u32 [%rd3], %r6;
  ret;
}
.file 1 "CELL.py"
"""
# Two warps, of which the second comes to a barrier of its own: nobody ever meets.
DEADLOCK = """.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>;  .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;  setp.gt.u32 %p1, %r1, 40;
  @%p1 bar.sync 1, 64;
  @!%p1 bar.sync 2, 64;
  ret;
}
"""
# It goes round until a word changes that nobody changes.
ENDLESS = """.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>;  .reg .b64 %rd<3>;  .reg .pred %p<3>;
  ld.param.u64 %rd1, [p];
again:
  ld.volatile.global.u32 %r1, [%rd1];  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
"""
ROUNDS = """.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>;  .reg .b64 %rd<3>;  .reg .pred %p<3>;
  mov.u32 %r1, %tid.x;
again:
  setp.ne.u32 %p1, %r1, 99;
  @%p1 bra again;
  ret;
}
"""
# Each thread reads what another one of its block has stored.
TURNED = """.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<9>;  .reg .b64 %rd<3>;  .shared .align 4 .b8 s[256];
  ld.param.u64 %rd1, [p];  mov.u32 %r1, %tid.x;  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;  add.u32 %r4, %r3, %r2;  st.shared.u32 [%r4], %r1;
  BARRIER
  sub.u32 %r5, 252, %r2;  add.u32 %r5, %r5, %r3;  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %rd2, %r1, 4;  add.s64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r6;
  ret;
}
"""


def text(line: int = 7, cell: str = "first") -> str:
    return HEAD + BODY.replace("LINE", str(line)).replace("CELL", cell)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path / "code"))
    monkeypatch.setattr(cache, "_off", False)
    monkeypatch.setattr(run, "STRICT", True)
    return tmp_path / "code"


@pytest.fixture
def another_process(monkeypatch):
    """Forget what this process has compiled; which kernels are compiled from here on."""
    built: list[str] = []
    build = kernel.build

    def spy(program, variant):
        built.append(variant)
        return build(program, variant)

    def forget() -> list[str]:
        engine = llvm_binding.create_mcjit_compiler(
            llvm_binding.parse_assembly(""), llvm._machine()
        )
        engines.append(engine)
        monkeypatch.setattr(llvm, "_engine", lambda: engine)
        monkeypatch.setattr(llvm, "_loaded", set())
        monkeypatch.setattr(llvm, "_calls", {})
        for module in (access_helpers, affine_first_lanes, accesses, neighbours):
            for function in vars(module).values():
                getattr(function, "cache_clear", int)()
        for module in (block_loop, locate, privatisation, clock, allocations):
            for routine in vars(module).values():
                if isinstance(routine, CompiledLoop):
                    vars(routine).pop("symbol", None)
        built.clear()
        return built

    monkeypatch.setattr(kernel, "build", spy)
    yield forget
    forget()


def launched(source: str, **options):
    return after(source, native.natively, [np.arange(128, dtype=np.uint32)], **options)


def records(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if b'"sites":' in path.read_bytes()]


def test_a_kernel_that_a_process_compiled_the_next_one_only_loads(folder, another_process):
    built = another_process()
    contents, error, _ = launched(text())
    assert (contents[0].view(np.uint32) == np.arange(128) + 7).all() and error is None
    assert built == ["native"] and len(records(folder)) == 1
    built = another_process()
    again, error, code = launched(text())
    assert built == [] and error is None
    assert (again[0] == contents[0]).all()
    assert not {"places", "sites"} & vars(code).keys()  # nothing asked for them


def test_a_fault_is_told_of_the_line_where_the_kernel_stands_now(another_process):
    """In a notebook both the line and the name of the file move."""
    built = another_process()
    first = launched(text(), grid=3)[1]
    assert built == ["native"] and "first.py line 7" in first
    built = another_process()
    second = launched(text(31, "second"), grid=3)[1]
    assert built == [] and second == first.replace("first.py line 7", "second.py line 31")


@pytest.mark.parametrize(
    ("source", "options"), [(DEADLOCK, {}), (ENDLESS, {"seconds": 0.3}), (ROUNDS, {"seconds": 0.3})]
)
def test_what_never_ends_is_named_all_the_same(another_process, source, options):
    built, zeros = another_process(), [np.zeros(64, np.uint32)]
    first = after(HEAD + source, native.natively, zeros, **options)[1]
    assert built == ["native"] and first is not None
    built = another_process()
    assert after(HEAD + source, native.natively, zeros, **options)[1] == first
    assert built == []


def test_what_is_counted_is_the_same(another_process):
    built, arrays = another_process(), [np.arange(128, dtype=np.uint32)]
    first = counted(text(), native.natively, arrays)[0]
    assert built == ["counting"]
    built = another_process()
    assert counted(text(), native.natively, arrays)[0] == first
    assert built == []


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_what_check_finds_is_the_same(another_process, barrier):
    source, arrays = HEAD + TURNED.replace("BARRIER", barrier), [np.zeros(64, np.uint32)]
    built = another_process()
    first = checked(source, native.natively, arrays, grid=1)[0]
    assert built == ["watching"] and bool(first[1]) is not bool(barrier)
    built = another_process()
    assert checked(source, native.natively, arrays, grid=1)[0] == first
    assert built == []


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "another's", "nonsense", "no JSON"])
def test_a_record_that_is_not_what_was_written_is_written_anew(folder, another_process, harm):
    another_process()
    launched(text())
    (path,) = records(folder)
    good, key = path.read_bytes(), bytes.fromhex(path.stem)
    launched(HEAD + DEADLOCK)
    (other,) = set(records(folder)) - {path}
    if harm in ("nonsense", "no JSON"):  # with a digest that is right
        cache.keep(key, b'{"code":[]}' if harm == "nonsense" else b"{")
    else:
        path.write_bytes(
            {
                "cut": good[:-1],
                "changed": good.replace(b"sites", b"sides"),
                "empty": b"",
                "another's": other.read_bytes(),
            }[harm]
        )
    built = another_process()
    contents, error, _ = launched(text())
    assert built == ["native"] and error is None
    assert (contents[0].view(np.uint32) == np.arange(128) + 7).all()
    assert path.read_bytes() == good


def test_a_record_whose_code_is_gone_or_damaged_is_not_used(folder, another_process):
    another_process()
    launched(text())
    (kept,) = records(folder)
    others = sorted(path for path in folder.iterdir() if path != kept)
    assert len(others) > 1  # the kernel, and functions that it calls
    for path in others:
        good = path.read_bytes()
        for bad in (None, good[:-1]):
            path.unlink() if bad is None else path.write_bytes(bad)
            another_process()
            contents, error, _ = launched(text())
            assert error is None and path.read_bytes() == good
            assert (contents[0].view(np.uint32) == np.arange(128) + 7).all()


def test_a_variable_at_another_address_is_not_taken_for_the_one_that_was_there(another_process):
    another_process()
    launched(text())

    def with_room_taken(nbytes: int):
        memory = GlobalMemory(1 << 28)
        memory.allocate(nbytes)  # before the module's variables get their places
        program = LoadedModule(memory, [text()], None).program("k", False)
        there = memory.allocate(512)
        memory.write(there, np.zeros(128, np.uint32))
        Launch(
            memory,
            program,
            (2, 1, 1),
            (64, 1, 1),
            [struct.pack("<Q", there)],
            native=NativeCode(native.natively),
        ).run()
        return memory.read(there, 512).view(np.uint32), program.module.placed()["more"]

    built = another_process()
    values, first = with_room_taken(4096)
    assert (values == 7).all() and built == ["native"]
    built = another_process()
    values, second = with_room_taken(4096)
    assert (values == 7).all() and built == [] and first == second
    values, third = with_room_taken(1 << 20)
    assert (values == 7).all() and built == ["native"] and third != first


def test_whatever_decides_what_the_code_is_is_in_the_key(monkeypatch):
    def key(source=None, variant="native", entry="k"):
        module = LoadedModule(GlobalMemory(1 << 20), [source or text()], None)
        return record._key(module.program(entry), variant)

    plain = key()
    assert plain == key(text(8, "other"))
    two = text() + BODY.replace("LINE", "9").replace(".global .u32 more = 6;", "").replace(
        " k(", " other("
    )
    different = [
        key(text().replace("%r5, 1;", "%r5, 2;")),
        key(text().replace("= 6", "= 7")),
        key(variant="counting"),
        key(variant="watching"),
        key(two),
        key(two, entry="other"),
        # What only looks like a line number.
        key(text().replace(".loc 1 7 5\n", ".loc 1 7 5 ;\n")),
        key(text().replace(".loc 1 7 5\n", ".loc 1 7 5 mov.u32 %r8, 1;\n")),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(llvm, "compiler", lambda: "another")
        different.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(record, "_sources", lambda: "another")
        different.append(key())
    assert len({plain, *different}) == 1 + len(different)
    with monkeypatch.context() as patch:
        patch.setattr(record, "_sources", lambda: "")
        assert key() is None


def test_a_file_that_a_developer_changes_makes_other_keys(tmp_path, monkeypatch):
    place = tmp_path / "virtualgpu" / "native" / "watched"
    place.mkdir(parents=True)
    source = place / "rules.py"
    source.write_text("A = 1\n")
    monkeypatch.setattr(record, "__file__", str(place.parent / "record.py"))
    sources = record._sources.__wrapped__
    before = sources()
    assert before == sources() and "rules.py" in before
    source.write_text("A = 22\n")
    assert sources() != before
    before = sources()
    (place / "more.py").write_text("")
    assert sources() != before


def test_a_process_that_judges_others_neither_reads_nor_writes(
    folder, another_process, monkeypatch
):
    another_process()
    launched(text())
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    built = another_process()
    cache.switch_off()
    assert launched(text())[1] is None
    assert built == ["native"]
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == files

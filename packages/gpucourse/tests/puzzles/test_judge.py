"""What a puzzle's check refuses, and with which words; each beside an honest answer."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numba.core.errors import TypingError

import virtualgpu
from gpucourse.course.puzzles import Answer, Puzzle
from gpucourse.exercises.checks import CheckFailed, Lesson
from gpucourse.exercises.outcomes import describe_error
from gpucourse.puzzles import causes, judge
from gpucourse.puzzles.inputs import draw, library_bytes
from gpucourse.puzzles.picture import draw_spec
from gpucourse.system.device import device
from messages import assert_tells

virtualgpu.activate(force=True)

PUZZLE = Puzzle(
    name="axpy",
    title="Scale and add",
    text="",
    spec="out = factor * a + b",
    hints=("a", "b"),
    kernel=(
        "@cuda.jit\ndef axpy(a, b, factor, out):\n    i = cuda.grid(1)\n"
        "    ### BEGIN SOLUTION\n    if i < a.size:\n        out[i] = factor * a[i] + b[i]\n"
        "    ### END SOLUTION"
    ),
    inputs={"a": "whole(n)", "b": "whole(n)", "factor": "number(2, 40)"},
    sizes=((129,), (31,), (257,)),
    question="?",
    choices=("x", "y"),
    right="x",
    reasons={"y": "no"},
    why="",
    wrong=(Answer(says="x"),),
)


def kernel(body: str, puzzle: Puzzle = PUZZLE):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return judge.compiled(
        f"@cuda.jit\ndef {puzzle.function}({', '.join(puzzle.parameters)}):\n{lines}", puzzle.name
    )


def refused(answer, puzzle: Puzzle = PUZZLE) -> str:
    with pytest.raises(CheckFailed) as caught:
        judge.judge(puzzle, answer)
    return str(caught.value)


def test_the_solution_is_right_and_its_cost_is_counted():
    judged = judge.judge(PUZZLE, judge.compiled(PUZZLE.solution, "axpy"))
    assert judged.mine == judged.ours
    assert {name: mine for name, mine, _ in judge.rows(judged)} == {
        "global_loads": 8192,
        "global_stores": 4096,
        "shared_loads": 0,
        "shared_stores": 0,
        "bank_conflicts": 0,
        "global_sectors": 1536,
        "atomics": 0,
        "barriers": 0,
        "bytes": 3 * 4 * 4096,
    }


def test_a_line_that_compares_is_told_from_one_that_writes():
    puzzle = replace(PUZZLE, name="compared")
    wrong = kernel("i = cuda.grid(1)\nif i < a.size:\n    out[i] == factor * a[i] + b[i]", puzzle)
    with pytest.raises(CheckFailed):
        judge.judge(puzzle, wrong)
    lesson = Lesson("toy", {"compared": judge._exercise(puzzle)})
    look = lesson.outcome("compared", wrong).look
    assert_tells(look, "`out[i] == factor * a[i] + b[i]`", "`out[i] = factor * a[i] + b[i]`")
    right = judge.compiled(PUZZLE.solution, "axpy")
    assert lesson.outcome("compared", right).passed


def test_a_kernel_with_its_brackets_is_told_to_come_without():
    said = refused(judge.compiled(PUZZLE.solution, "axpy")[32, 128])
    assert "already has its brackets" in said and "`axpy`: pass only the name" in said


def test_findings_name_the_array_and_advise_in_the_words_of_a_puzzle():
    unwritten = refused(kernel("i = cuda.grid(1)\nif i < a.size:\n    out[i] += factor * a[i]"))
    assert "(out[0] of 129)" in unwritten and "out[i] = … before" in unwritten
    assert "device_array" not in unwritten
    race = refused(kernel("i = cuda.grid(1)\nif i < a.size:\n    out[0] = factor * a[i]"))
    assert "(out[0] of 129)" in race and "its own element" in race
    assert "atomic" not in race


def test_a_case_is_told_in_words():
    assert str(draw(PUZZLE, (2048,), 1024, np.random.default_rng(1))) == (
        "with 2,048 elements and 2 blocks of 1,024 threads"
    )


def test_numpys_line_written_into_the_kernel_is_told_from_an_element():
    said = refused(kernel("i = cuda.grid(1)\nif i < a.size:\n    out = factor * a[i] + b[i]"))
    assert_tells(said, "129 elements", "3 blocks of 64 threads", "out[0] is never written")
    assert "To write into the array, use `out[i] = …`" in said
    with pytest.raises(TypingError) as caught:
        judge.judge(PUZZLE, kernel("out = factor * a + b"))
    said, _ = describe_error(caught.value)
    assert "this works on whole arrays" in said and "out[i] = a[i] + 10" in said


@pytest.mark.parametrize("ignored", ["a", "b", "factor"])
def test_an_argument_that_is_ignored_is_named(ignored: str):
    body = "i = cuda.grid(1)\nif i < a.size:\n    out[i] = factor * a[i] + b[i]"
    instead = {"a": ("a[i]", "7"), "b": ("b[i]", "3"), "factor": ("factor *", "5 *")}[ignored]
    said = refused(kernel(body.replace(*instead)))
    assert_tells(said, "the same", f"`{ignored}`")


def test_an_argument_that_seldom_matters_is_not_called_ignored():
    body = "i = cuda.grid(1)\nif i < a.size:\n    out[i] = factor % 4 * a[i] + b[i]"
    wrong = kernel(body)
    assert not [said for _trial in range(10) if "`factor`" in (said := refused(wrong))]


def test_numpy_on_the_host_is_no_kernel():
    def on_the_host(a, b, factor, out):
        out[:] = factor * a + b

    assert "not a kernel" in refused(on_the_host)


def test_an_object_that_looks_like_a_kernel_is_none():
    class Pretends:
        py_func = staticmethod(lambda a, b, factor, out: None)
        forall = None

        def __getitem__(self, launch):
            def run(a, b, factor, out):
                out.copy_to_device(factor * a.copy_to_host() + b.copy_to_host())

            return run

    assert "not a kernel" in refused(Pretends())


def test_one_thread_for_all_is_refused_and_a_grid_stride_loop_is_not():
    loop = "for i in range({}):\n    out[i] = factor * a[i] + b[i]"
    alone = kernel("if cuda.grid(1) == 0:\n    " + loop.format("a.size").replace("\n", "\n    "))
    assert "the work is not shared" in refused(alone)
    judge.judge(PUZZLE, kernel(loop.format("cuda.grid(1), a.size, cuda.gridsize(1)")))


def test_what_is_never_written_is_named_and_leftovers_are_known():
    said = refused(
        kernel("i = cuda.grid(1)\nif i < a.size - 2:\n    out[i] = factor * a[i] + b[i]")
    )
    assert_tells(said, "out[127] is never written", "1 more")
    adds = kernel("i = cuda.grid(1)\nif i < a.size:\n    out[i] += factor * a[i] + b[i]")
    assert "uninitialised" in refused(adds)


def test_an_input_that_is_changed_is_named():
    body = "i = cuda.grid(1)\nif i < a.size:\n    out[i] = factor * a[i] + b[i]\n    a[i] = 0"
    assert "the kernel changes a" in refused(kernel(body))


def test_a_block_size_that_is_built_in_is_refused():
    body = (
        "i = cuda.blockIdx.x * 64 + cuda.threadIdx.x\nif i < a.size:\n"
        "    out[i] = factor * a[i] + b[i]"
    )
    assert "never written" in refused(kernel(body)) or "race" in refused(kernel(body))


def test_another_number_of_arguments_is_said_before_the_compiler_speaks():
    other = judge.compiled("@cuda.jit\ndef axpy(a, out):\n    out[0] = a[0]", "axpy")
    assert_tells(refused(other), "takes a, out", "passes a, b, factor, out")


def test_a_budget_says_how_many_are_enough():
    puzzle = replace(PUZZLE, budget=(("global_loads", "2 * n", "read each once"),))
    twice = kernel(
        "i = cuda.grid(1)\nif i < a.size:\n"
        "    out[i] = factor * a[i] + b[i] + 0 * a[a.size - 1 - i]",
        puzzle,
    )
    assert "reads of global memory" in refused(twice, puzzle)
    judge.judge(puzzle, judge.compiled(puzzle.solution, "axpy"))


def test_numbers_differ_from_trial_to_trial_and_not_in_the_counted_launch():
    one, other = (draw(PUZZLE, (9,), 32, np.random.default_rng()) for _ in range(2))
    assert not np.array_equal(one.values["a"], other.values["a"])
    assert np.array_equal(judge.measured(PUZZLE).values["a"], judge.measured(PUZZLE).values["a"])


def test_a_kernel_that_knows_the_counted_numbers_is_refused():
    """It would have the fewest bytes on the board."""
    case = judge.measured(PUZZLE)
    first, results = (
        tuple(map(float, one)) for one in (case.values["a"][:2], case.expected["out"])
    )
    knows = judge.compiled(
        f"KNOWN = np.array({results}, np.float32)\n"
        "@cuda.jit\ndef axpy(a, b, factor, out):\n    i = cuda.grid(1)\n    if i < a.size:\n"
        f"        if a.size == 4096 and a[0] == {first[0]} and a[1] == {first[1]}:\n"
        "            out[i] = KNOWN[i]\n        else:\n"
        "            out[i] = factor * a[i] + b[i]",
        "axpy",
    )
    assert "for the counted inputs" in refused(knows)


def test_a_kernel_that_leaves_work_out_where_it_is_timed_is_refused(monkeypatch):
    """It would have the shortest time on the board. (The virtual GPU in the part of a real one.)"""
    monkeypatch.setattr(judge.clock, "gpu", lambda: "a GPU")
    puzzle = replace(PUZZLE, clock=(5000, 64))
    idle = kernel(
        "i = cuda.grid(1)\nif i < a.size < 4500:\n    out[i] = factor * a[i] + b[i]", puzzle
    )
    assert "of the results in out are wrong" in refused(idle, puzzle)
    assert judge.judge(puzzle, judge.compiled(puzzle.solution, "axpy")).ms is not None


def test_the_librarys_bytes_are_those_of_its_operations():
    puzzle = replace(PUZZLE, library="out = factor * a + b")
    case = judge.measured(puzzle)
    assert library_bytes(case) == 5 * case.values["a"].nbytes  # two kernels: 2 and 3 arrays


@pytest.mark.parametrize(
    ("ms", "library_ms", "says"),
    [
        (None, None, "the library moves 49,152 bytes, and your kernel 49,152$"),
        (2.0, 1.0, "it takes 1 ms, and your kernel 2$"),
        (1.0, 2.0, None),
    ],
)
def test_the_library_is_beaten_by_one_of_two_measures(monkeypatch, ms, library_ms, says):
    monkeypatch.setattr(judge.clock, "kernel_ms", lambda puzzle, kernel: ms)
    monkeypatch.setattr(judge.clock, "library_ms", lambda puzzle: library_ms)
    puzzle = replace(PUZZLE, library="out = a + b")  # as many bytes as the solution's
    answer = judge.compiled(puzzle.solution, "axpy")
    if says is None:
        judge.judge(puzzle, answer)
    else:
        with pytest.raises(CheckFailed) as caught:
            judge.judge(puzzle, answer)
        assert re.search(says, caught.value.message)


def test_a_picture_finds_out_what_a_result_comes_from():
    text = draw_spec(replace(PUZZLE, spec="out = factor * a + b[::-1]")).text
    assert "out[2] comes from a[2], b[5]" in text


def test_no_line_of_a_picture_runs_across_the_numbers_of_another_array():
    for spec in ("out = a + b", "out = a + b[::-1]", "out = a[::-1] + b"):
        markup = draw_spec(replace(PUZZLE, spec=spec)).markup
        tops = sorted({float(y) for y in re.findall(r'<rect [^>]* y="([\d.]+)"', markup)})
        lines = re.findall(r'<line x1="\S+" y1="([\d.]+)" x2="\S+" y2="([\d.]+)"', markup)
        assert len(tops) == 5 and lines  # three arrays, the frames of blocks, the threads
        for start, end in lines:
            assert not any(float(start) < top < float(end) for top in tops), spec


def test_long_numbers_stay_inside_their_cells():
    markup = draw_spec(replace(PUZZLE, spec="out = 0 * a + b - 12345")).markup
    cell = float(re.search(r'<rect [^>]*width="([\d.]+)"', markup)[1])
    found = re.findall(r'font-size="([\d.]+)" text-anchor="middle"[^>]*>(-?\d{4,})<', markup)
    # The page's letters are some two thirds as wide as they are high.
    assert found and all(float(size) * len(text) * 2 / 3 <= cell for size, text in found)


def test_no_processors_time_is_taken():
    from gpucourse.puzzles import clock

    assert device().virtual
    assert clock.gpu() is None and clock.kernel_ms(PUZZLE, None) is None


POLYNOMIAL = replace(
    PUZZLE,
    name="polynomial",
    spec="out = np.polyval(a, b)",
    kernel=(
        "@cuda.jit\ndef polynomial(a, b, out):\n    i = cuda.grid(1)\n"
        "    ### BEGIN SOLUTION\n    if i < b.size:\n        value = 0.0\n"
        "        for k in range(a.size):\n            value = value * b[i] + a[k]\n"
        "        out[i] = value\n    ### END SOLUTION"
    ),
    inputs={"a": "small(number(2, 6))", "b": "small(n)"},
    share={"accesses": "len(a) + 4"},
)
BY_VALUE = (
    "i = cuda.grid(1)\nif i < b.size:\n    value = 0.0\n    for one in a:\n"
    "        value = value * b[i] + one\n    out[i] = value"
)


@pytest.mark.parametrize(
    ("puzzle", "body", "said"),
    [
        (
            POLYNOMIAL,
            BY_VALUE,
            r"line 7 .* reads `b\[i\]` again in each iteration of its loop, which makes 20,480",
        ),
        (
            POLYNOMIAL,
            BY_VALUE.replace("value * b[i]", "value * x").replace(
                "    value = 0.0\n", "    value, x = 0.0, b[i]\n"
            ),
            None,
        ),
        (
            PUZZLE,
            "i = cuda.grid(1)\nif i < a.size:\n    out[i] = 0\n"
            "    out[i] = out[i] + factor * a[i] + b[i]",
            r"line 5 .* makes 4,096 of the writes",
        ),
        (
            PUZZLE,
            "i = cuda.grid(1)\nn = a.size\nwide = 64\nif n % wide == 0:\n"
            "    i = i % (n // wide) * wide + i // (n // wide)\n"
            "if i < n:\n    out[i] = factor * a[i] + b[i]",
            r"line 9 .* touches 12,288 sectors, but its numbers would fill only 1,536",
        ),
    ],
)
def test_a_kernel_that_costs_more_is_told_why(puzzle: Puzzle, body: str, said: str | None):
    answer = kernel(body, puzzle)
    told = causes.why(judge.judge(puzzle, answer), answer)
    assert re.search(said, told) if said else told == "", told


def test_the_picture_shows_the_threads_and_blocks_that_write():
    view = draw_spec(replace(PUZZLE, picture=(6, 4)))
    assert_tells(view.text, "out[2] is written by thread 2 of block 0")
    assert_tells(view.text, "out[4] is written by thread 0 of block 1", "2 of 8 threads")
    assert ">block 1<" in view.markup and ">threads<" in view.markup
    stripped = PUZZLE.kernel.replace(
        "    if i < a.size:\n        out[i] = factor * a[i] + b[i]\n", ""
    )
    bare = draw_spec(replace(PUZZLE, picture=(6, 4), kernel=stripped))
    assert ">threads<" not in bare.markup and "is written by" not in bare.text


def frames(view) -> list[tuple[float, ...]]:
    """Place and size of each tile in a picture, in elements: column, row, width, height."""
    found = re.findall(
        r'<rect x="([^"]+)" y="([^"]+)" width="(\d+)" height="(\d+)" fill="none"', view.markup
    )
    return [
        tuple(round(float(one) / size, 1) for one, size in zip(frame, (36, 24) * 2, strict=True))
        for frame in found
    ]


def test_the_picture_of_a_transpose_shows_the_tiles_of_blocks():
    puzzle = replace(
        PUZZLE,
        name="turned",
        spec="out = a.T",
        kernel="@cuda.jit\ndef turned(a, out):\n    ### BEGIN SOLUTION\n"
        "    column, row = cuda.grid(2)\n"
        "    if row < a.shape[0] and column < a.shape[1]:\n"
        "        out[column, row] = a[row, column] + 0 * TILE\n    ### END SOLUTION",
        inputs={"a": "whole(rows, cols)"},
        start={},
        launch="(-(-cols // 16), -(-rows // 8)), (16, 8)",
        picture=(2, 6, 6),
    )
    assert frames(draw_spec(puzzle)) == []  # one block has it all
    tiled = draw_spec(replace(puzzle, picture_launch="(-(-cols // 3), rows), (3, 1)"))
    assert sorted(frame[2:] for frame in frames(tiled)) == [(1, 3)] * 4 + [(3, 1)] * 4
    assert len(set(frames(tiled))) == 8
    assert "A frame surrounds what one block reads or writes." in tiled.text


def test_a_thread_is_drawn_below_its_element():
    markup = draw_spec(replace(PUZZLE, picture=(6, 4))).markup
    lines = re.findall(r'<line x1="([^"]+)" y1="[^"]+" x2="([^"]+)"', markup)
    assert lines and all(start == end for start, end in lines)


def test_the_picture_counts_the_threads_that_share_a_result():
    body = "    cuda.atomic.add(out, 0, a[cuda.grid(1)])\n"
    total = replace(
        PUZZLE,
        name="total",
        spec="out = np.array([a.sum()])",
        kernel="@cuda.jit\ndef total(a, out):\n    ### BEGIN SOLUTION\n"
        + body
        + "    ### END SOLUTION",
        inputs={"a": "whole(n)"},
        start={"out": "np.zeros(1, np.float32)"},
        picture=(8, 4),
    )
    told = draw_spec(total).text
    assert_tells(told, "out[0] is written by 8 threads", "thread 0 of block 0")

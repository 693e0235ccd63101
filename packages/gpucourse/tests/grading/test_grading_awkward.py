"""Awkward Arrays as arguments of the graded: of kernels, by form and buffers, and of functions."""

from __future__ import annotations

import json

import awkward as ak
import numpy as np
import pytest

from gpucourse.adapters import awkward_arguments
from gpucourse.grading.arguments import describe_type, parameter_sizes
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox import wire
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell
from virtualgpu.awkward.kernels import parameters

LISTS = ak.Array([[{"x": 1.5, "q": 1}, {"x": 2.5, "q": -1}], [], [{"x": 4.0, "q": 1}]])

START = """%load_ext gpucourse
import awkward as ak
import numpy as np
from numba import cuda
from gpucourse import call, expect_close, expect_equal, launch, unwritten
ak.numba.register_and_check()
lists = ak.Array([[{"x": 1.5, "q": 1}, {"x": 2.5, "q": -1}], [], [{"x": 4.0, "q": 1}]])
"""

TOTALS = """@cuda.jit(extensions=[ak.numba.cuda])
def totals(lists, out):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < len(lists):
        out[i] = 0.0
        for one in lists[i]:
            out[i] += one.x
    ### END SOLUTION
"""

TEST_TOTALS = """out = unwritten(3, np.float64)
launch("totals", 1, 32, lists, out)
expect_equal(out, [4.0, 0.0, 4.0], "wrong sums")
### BEGIN HIDDEN TESTS
for chosen in (lists[1:], lists[lists.q > 0], lists[::-1], lists[:0]):
    out = unwritten(len(chosen), np.float64)
    launch("totals", 1, 32, chosen, out)
    expect_equal(out, ak.sum(chosen.x, axis=1), "wrong for a selection")
### END HIDDEN TESTS
"""

LONGEST = """def longest(lists):
    ### BEGIN SOLUTION
    return ak.num(lists)
    ### END SOLUTION
"""

TEST_LONGEST = """expect_equal(call("longest", lists[1:], where="host"), [0, 1], "wrong lengths")
"""

REASONS = {
    "no_bounds": (TOTALS.replace("if i < len(lists):", "if True:"), "outside"),
    # Awkward raises IndexError there, which ends a thread without a word.
    "past_the_end_of_a_list": (
        TOTALS.replace(
            "for one in lists[i]:\n            out[i] += one.x", "out[i] += lists[i][1].x"
        ),
        "wrong sums",
    ),
    "no_extension": (TOTALS.replace("(extensions=[ak.numba.cuda])", ""), "extensions=[ak.numba"),
    "another_field": (TOTALS.replace("one.x", "one.q"), "wrong sums"),
    "an_unknown_field": (TOTALS.replace("one.x", "one.pt"), "cannot be compiled"),
}


def reasons(server, cells: list) -> list[str]:
    assignment = Assignment("lists", notebook_of(cells))
    verdict = grade(
        assignment,
        submitted(assignment),
        server,
        "5eed" * 8,
        Limits(request_seconds=60.0, request_wall_seconds=300.0),
    )
    assert verdict.kind == GRADED, verdict.reason
    return [outcome.reason for outcome in verdict.tests]


@pytest.mark.slow
def test_kernels_and_functions_get_awkward_arrays(server):
    assert reasons(
        server,
        [
            setup("start", START),
            solution("totals", TOTALS),
            test_cell("test-totals", TEST_TOTALS, 3),
            solution("longest", LONGEST),
            test_cell("test-longest", TEST_LONGEST, 2),
        ],
    ) == ["", ""]


@pytest.mark.slow
def test_wrong_answers_are_rejected_for_their_reasons(server):
    """All in one submission, each kernel with a test of its own."""
    cells = [setup("start", START)]
    for name, (source, _) in REASONS.items():
        cells += [
            solution(name, source.replace("def totals", f"def {name}")),
            test_cell(f"test-{name}", TEST_TOTALS.replace("totals", name), 1),
        ]
    cells += [
        solution("longest", LONGEST.replace("ak.num(lists)", "lists.x")),
        test_cell("test-longest", TEST_LONGEST, 1),
    ]
    told = reasons(server, cells)
    for (_, wanted), reason in zip(REASONS.values(), told, strict=False):
        assert wanted in reason
    assert "ValueError" in told[-1]  # a jagged result is no result


def test_the_type_and_the_parameters_are_those_of_awkwards_own_backend():
    described = json.loads(json.dumps(describe_type(LISTS)))
    assert awkward_arguments.numba_type(described["form"]) == LISTS.numba_type
    assert parameter_sizes(described) == [8] * 5


@pytest.mark.parametrize(
    "array",
    [
        LISTS,
        LISTS[1:],
        LISTS[LISTS.x > 2],
        LISTS[::-1],
        LISTS[:0],
        ak.Array([1.0, 2.0]),
        ak.Array([[[1], []], [[2, 3]]]),
    ],
)
def test_the_tables_lead_to_the_buffers(array):
    """Read back from a memory that is a dictionary: every entry leads to what Awkward put there."""
    memory, top = {}, [1 << 20]

    def store(values: np.ndarray) -> int:
        if not values.nbytes:
            return 0
        memory[top[0]] = values.tobytes()
        top[0] += 1 << 20
        return top[0] - (1 << 20)

    numbers = [int.from_bytes(one, "little") for one in parameters(array, store)]
    view = array._numbaview
    assert numbers[:3] == [view.pos, view.start, view.stop] and numbers[4] == 0
    table = np.frombuffer(memory[numbers[3]], np.int64)
    assert len(table) == len(view.lookup.positions)
    for entry, wanted in zip(table, view.lookup.positions, strict=True):
        if isinstance(wanted, int):
            assert entry == wanted
        elif len(wanted):
            start = max(address for address in memory if address <= entry)
            found = memory[start][entry - start :][: wanted.nbytes]
            assert found == np.ascontiguousarray(wanted).tobytes()
        else:
            assert entry == 0


def test_starts_and_stops_are_one_piece_of_memory():
    """As on a GPU, where the sectors that a warp reads depend on it."""
    sizes = []
    parameters(LISTS, lambda values: sizes.append(values.nbytes) or 8)
    # offsets, x, q and the table
    assert sorted(sizes)[:3] == [24, 24, 32] and len(sizes) == 4


def test_the_oracle_takes_no_awkward_array_from_the_worker():
    arrays: list[np.ndarray] = []
    tree = json.loads(json.dumps(wire.encode([LISTS, 3], arrays)))
    with pytest.raises(wire.ProtocolError, match="malformed"):
        wire.decode(tree, arrays)
    back, three = wire.decode(tree, arrays, awkward_array=awkward_arguments.put_together)
    assert three == 3 and back.to_list() == LISTS.to_list()


def test_regular_results_become_numpy_arrays():
    plain = awkward_arguments.without_awkward({"a": (ak.Array([1, 2]), "text")})
    assert type(plain["a"][0]) is np.ndarray and list(plain["a"][0]) == [1, 2]
    for array in (LISTS.x, ak.Array([1, None])):
        with pytest.raises(ValueError, match=r"cannot|None"):
            awkward_arguments.without_awkward(array)

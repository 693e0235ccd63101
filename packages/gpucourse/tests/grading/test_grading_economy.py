"""Points from counts, relative to the reference solution; and whose fault a failing test is."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from gpucourse.grading.contract import Launched, PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing import economy, verbs
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT
from grading_toy import notebook_of, setup, solution, submitted, test_cell
from threats import COUNT, SCALE, START, TEST_SCALE

START = START.replace("import call,", "import call, economy,")
# Half of its points until four times the reference's sectors, none from sixteen times.
CHEAP_SCALE = """values = secret_rng().uniform(size=1024)
4 * economy(lambda: launch("scale", 8, 128, values, 2.0, np.empty(1024), schedules=0),
            sectors=(1.0, 16.0), instructions=(3, 20))
"""
CHEAP_COUNT = """values = secret_rng().integers(0, 5, 500)
3 * economy(lambda: call("histogram", values, 7), global_atomics=1.1, launches=1)
"""


def assignment(*tests) -> Assignment:
    return Assignment(
        "economy",
        notebook_of(
            [
                setup("start", START),
                solution("scale", SCALE),
                test_cell("test-scale", TEST_SCALE, 3),
                solution("count", COUNT),
                *tests,
            ]
        ),
    )


COURSE = assignment(
    test_cell("cheap-scale", CHEAP_SCALE, 4), test_cell("cheap-count", CHEAP_COUNT, 3)
)


def outcomes(server, course: Assignment = COURSE, **changed):
    verdict = grade(course, submitted(course, **changed), server, "5eed" * 8)
    assert verdict.kind == GRADED, verdict.reason
    return {outcome.test: outcome for outcome in verdict.tests}


def test_the_reference_solution_earns_everything(server):
    found = outcomes(server)
    assert [found[name].earned for name in found] == [3.0, 4.0, 3.0]
    assert found["cheap-scale"].reason == ""


def test_uncoalesced_is_right_and_earns_a_share(server):
    """Each lane of a warp in a sector of its own: 32 for 32 doubles, where 8 hold them."""
    source = SCALE.replace(
        "i = cuda.grid(1)",
        """i = cuda.grid(1)
    n = values.size // 128 * 128
    if i < n:
        i = i % 32 * (n // 32) + i // 32""",
    )
    found = outcomes(server, scale=source)
    assert found["test-scale"].earned == 3.0
    cheap = found["cheap-scale"]
    assert cheap.earned == pytest.approx(2.0)
    assert "needs 4 times as many sectors of global memory" in cheap.reason
    assert f"{cheap.earned:g} of 4 points" in cheap.reason


def test_more_atomics_than_the_reference_earn_nothing(server):
    source = COUNT.replace(
        "cuda.atomic.add(counts, values[i], 1)",
        "cuda.atomic.add(counts, values[i], 2)\n        cuda.atomic.add(counts, values[i], -1)",
    )
    told = outcomes(server, count=source)["cheap-count"]
    assert told.earned == 0.0
    assert "2 times as many atomic updates of global memory" in told.reason


def test_a_wrong_answer_is_wrong_before_it_is_cheap(server):
    source = SCALE.replace("if i < values.size", "if i <= values.size")
    told = outcomes(server, scale=source)
    assert "outside its arrays" in told["cheap-scale"].reason or (
        "outside its arrays" in told["test-scale"].reason
    )


def test_messages_quote_the_students_lines_after_the_reference_ran(server):
    """Both define cells of the same names."""
    course = assignment(
        test_cell("cheap-scale", CHEAP_SCALE, 4),
        test_cell("again", TEST_SCALE.replace('"scale", 4', '"scale", 5'), 1),
    )
    marked = SCALE.replace("if i < values.size:", "if i < 1000 + values.size * 0:  # mine")
    course.cells[-1] = type(course.cells[-1])("test", "again", "code", TEST_SCALE, 1.0)
    told = outcomes(server, course, scale=marked)
    assert "outside its arrays" in told["again"].reason
    assert "out[i] = factor * values[i]" in told["again"].reason


def test_a_reference_that_fails_and_a_count_that_is_none_are_the_courses_fault(server):
    for source in (
        CHEAP_SCALE.replace("sectors", "sectrs"),
        CHEAP_SCALE.replace('"scale", 8', '"missing", 8'),
        "1 / 0",
    ):
        course = assignment(test_cell("cheap-scale", source, 4))
        answer = SCALE + "\nmissing = scale\n"
        verdict = grade(course, submitted(course, scale=answer), server, "00" * 16)
        assert verdict.kind == INFRASTRUCTURE_FAULT, verdict.to_json()
        assert "cheap-scale" in verdict.reason or "sectrs" in verdict.reason


@pytest.mark.parametrize("result", ["'text'", "None", "np.zeros(3)", "[1, [2]]"])
def test_a_result_that_the_test_cannot_work_with_is_the_answers_fault(server, result):
    """The reference solution passes the same test, so the test is not to blame."""
    test = "assert abs(call('double', 2.0, where='host') - 4.0) < 1e-9, 'not twice'"
    course = Assignment(
        "host",
        notebook_of(
            [
                setup("start", START),
                solution("double", "def double(x):\n    return 2 * x\n"),
                test_cell("test-double", test, 2),
            ]
        ),
    )
    verdict = grade(
        course,
        submitted(course, double=f"def double(x):\n    return {result}\n"),
        server,
        "00" * 16,
    )
    assert (verdict.kind, verdict.earned) == (GRADED, 0.0), verdict.to_json()
    assert "this test cannot work with the result" in verdict.first_reason()


def launched(**counts) -> Launched:
    return Launched("k", (1, 1, 1), (1, 1, 1), SimpleNamespace(**counts))


@pytest.mark.parametrize(
    ("ratio", "bound", "share"),
    [
        (0.5, 1.0, 1.0),
        (1.0, 1.0, 1.0),
        (1.01, 1.0, 0.0),
        (2.0, (1.0, 4.0), 0.5),
        (4.0, (1.0, 4.0), 0.0),
        (math.inf, (1.0, 4.0), 0.0),
        (8.0, (2.0, 32.0), 0.5),
    ],
)
def test_shares_fall_with_the_logarithm(ratio, bound, share):
    assert economy.share_of("sectors", ratio, bound) == pytest.approx(share)


@pytest.mark.parametrize("bound", [0.5, (2.0, 1.0), (0.1, 2.0)])
def test_a_bound_that_the_reference_would_miss_is_refused(bound):
    with pytest.raises(ValueError, match="at least 1"):
        economy.share_of("sectors", 1.0, bound)


def test_counts_of_several_launches_add_up_and_the_worst_decides():
    answer = [launched(barriers=2, global_atomics=0), launched(barriers=2, global_atomics=0)]
    best = [launched(barriers=2, global_atomics=0)]
    share, why = economy.earned_share(answer, best, {"barriers": (1.0, 4.0), "global_atomics": 1.0})
    assert share == pytest.approx(0.5)
    assert "2 times as many barriers" in why
    with pytest.raises(PropertyFailed, match="needs 5 atomic updates of global memory; the ref"):
        economy.earned_share([launched(global_atomics=5)], best, {"global_atomics": 2.0})
    assert economy.earned_share(best, best, {"barriers": 1.0, "global_atomics": 1.0}) == (1.0, "")


def test_in_a_notebook_there_is_nothing_to_compare_with():
    done = []
    assert verbs.economy(lambda: done.append(1), sectors=1.0) == 1.0
    assert done == [1]


WRITES = '''def write(unused):
    ### BEGIN SOLUTION
    import time
    time.sleep(0.4)
    return """__device__ char own[1];
extern "C" __global__ void ones(long long *out) {
    if (!threadIdx.x) own[0] = 0;
    out[threadIdx.x] = 1; }""", 1
    ### END SOLUTION
'''
# Both of its questions have to be answered by two things.
TEST_WRITES = """source, number = call("write", 1, where="host")
out = unwritten(4, np.int64)
launch_source(source, "ones", 1, 4, out, schedules=0)
expect_equal(out, [1, 1, 1, 1], "wrong numbers")
source, number = call("write", 2, where="host")
"""
WRITTEN = Assignment(
    "written",
    notebook_of(
        [
            setup("start", START.replace("launch,", "launch, launch_source,")),
            solution("write", WRITES),
            test_cell("test-write", TEST_WRITES, 2),
            test_cell("again", TEST_WRITES, 1),
        ]
    ),
)


def own(returned: str, before: str = "") -> str:
    """An answer whose second result has three parts."""
    right = WRITES.replace("return ", "source, one = ").replace("    ### END SOLUTION\n", "")
    return (
        right
        + f"""    global calls
    calls = globals().get("calls", 0) + 1
{before}    return (source{returned}, one) if calls == 1 else (1, 2, 3)
"""
    )


@pytest.mark.parametrize(
    ("answer", "limits"),
    [
        # The device's memory, in a variable of a module: all but the 32 bytes of the output.
        (own(".replace('own[1]', 'own[1073741792]')"), {}),
        # Nearly all of its seconds: each call sleeps.
        (own("", "    time.sleep(4.0)\n"), {"total_seconds": 9.0, "request_seconds": 5.0}),
    ],
    ids=["device-memory", "seconds"],
)
def test_threat_90_what_an_answer_used_up_is_its_own_fault(server, answer, limits):
    """The reference, asked whose fault an error is, has a device and seconds of its own."""
    verdict = grade(WRITTEN, submitted(WRITTEN, write=answer), server, "00" * 16, Limits(**limits))
    assert (verdict.kind, verdict.earned) == (GRADED, 0.0), verdict.to_json()
    assert verdict.tests[0].reason


def test_threat_90_the_same_limits_are_enough_for_the_right_answer(server):
    for limits in ({}, {"total_seconds": 9.0, "request_seconds": 5.0}):
        verdict = grade(WRITTEN, submitted(WRITTEN), server, "00" * 16, Limits(**limits))
        assert verdict.earned == 3.0, verdict.to_json()


@pytest.mark.rehearsal
def test_threat_90_a_text_gives_its_memory_back(server):
    """One of 600 MB after the other."""
    large = WRITES.replace("own[1]", "own[629145600]")
    verdict = grade(WRITTEN, submitted(WRITTEN, write=large), server, "00" * 16)
    assert verdict.earned == 3.0, verdict.to_json()


def test_threat_90_what_the_reference_takes_is_not_charged(server):
    """Four comparisons, each of which takes longer than the submission has left in all."""
    slow = COUNT.replace(
        "def histogram(values, bins):\n",
        "def histogram(values, bins):\n    import time; time.sleep(1.5)\n",
    )
    tests = [test_cell(f"cheap-{n}", CHEAP_COUNT.replace("3 *", "1 *"), 1) for n in range(4)]
    course = Assignment(
        "slow", notebook_of([setup("start", START), solution("count", slow), *tests])
    )
    verdict = grade(
        course, submitted(course, count=COUNT), server, "00" * 16, Limits(total_seconds=6.0)
    )
    assert [test.earned for test in verdict.tests] == [1.0] * 4, verdict.to_json()

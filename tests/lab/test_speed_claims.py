"""Every claim of speed in the course points at a measured row, cites a source, or claims none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucourse.views import results
from lab.benchmarks.gpu_worker import ORDER
from speed_claims import LINK, POINTER, Claim, claims

#: Sentences that speak of speed and were read: why each needs neither a row nor a link.
PUBLISHED = "published, and its source is named beside it or in the section"
MODEL = "arithmetic from published figures, or a declared assumption"
COUNTS = "of counts and amounts, or true whatever the speed"
PROCESSOR = "of the learner's own processor, or measured in a cell on the learner's machine"
QUESTION = "asks, or sends the reader to measure"
OTHER = "of something else than a computer's speed"
REVIEWED = {
    "projects/02_area_by_sampling/checks.py": {"copy the state to be faster do you have": COUNTS},
    "lectures/20_more_than_one_gpu/checks.py": {"The slowest device's memory and messages": MODEL},
    "lectures/02_why_gpus/notebook.py": {
        "tens of trillions of times a second": PUBLISHED,
        "takes about a tenth of a microsecond": PROCESSOR,
        "we take 4 µs": MODEL,
        'a GPU is not "a faster computer"': QUESTION,
        "its memory delivers | 0.46 TB/s": PUBLISHED,
        "An H100's memory delivers 3.35 TB/s": PUBLISHED,
        "Thirty-two cost hardly more than one": COUNTS,
        "80 GB at 3.3 TB per second": PUBLISHED,
        "Each step down is larger, slower": PUBLISHED,
        "These are bounds from published figures and our 4 µs": MODEL,
        "the GPU takes `starts × 4 µs`": MODEL,
        "for which the GPU takes no longer than the CPU": MODEL,
        "runs at most five times": MODEL,
        "is often faster than your own kernel": QUESTION,
        "Each start costs microseconds": PUBLISHED,
        "If carrying an element takes longer": MODEL,
        "So is a GPU 100 times faster or not": QUESTION,
    },
    "lectures/09_pycuda/notebook.py": {"Is C++ faster than Numba's Python": QUESTION},
    "lectures/08_cupy/notebook.py": {
        "is the slowest on the whole machine": PUBLISHED,
        "particles per 0.1 ns": OTHER,
        "does such arithmetic far faster than it can fetch numbers": PUBLISHED,
        "Which is faster, then?": QUESTION,
        "cannot be faster than memory delivers": MODEL,
        "says NVIDIA's data sheet of 2023": PUBLISHED,
        "the second run of the program is quicker": COUNTS,
    },
    "lectures/10_compiling_python/notebook.py": {
        "what the first call takes longer than the best": PROCESSOR,
        "as NumPy does plain Python take": QUESTION,
        "22.3 ms with NumPy, 6.86 ms with": PUBLISHED,
        "A comet takes more iterations than the Earth": OTHER,
        "Is Numba as fast as C": QUESTION,
        "Why is my JAX slower than NumPy": PROCESSOR,
    },
    "lectures/03_numba_cuda/notebook.py": {
        "is the slowest on the whole machine": PUBLISHED,
        "faster, slower, or an error?": QUESTION,
        "Is it as fast as CUDA C++": QUESTION,
        "faster: more threads at once": QUESTION,
    },
    "lectures/12_jax/notebook.py": {
        "One step of 0.02 s": OTHER,
        "are the steps of 0.02 s": OTHER,
        "Each call from Python costs some microseconds": PROCESSOR,
        "made of steps of 0.02 s": OTHER,
    },
    "lectures/14_cudf/notebook.py": {
        "would run slower?": QUESTION,
        "over the slowest path of the machine": PUBLISHED,
        "can be slower than pandas alone": COUNTS,
        "NVIDIA's data sheet of the H200 (2024) says": PUBLISHED,
        "How much faster is it": QUESTION,
    },
    "lectures/17_awkward_and_the_z/notebook.py": {"take a fraction of a second there": PROCESSOR},
    "lectures/18_one_problem_every_tool/notebook.py": {
        "can be no faster than either allows": MODEL,
        "8.1 TFLOPS | 320 GB/s": PUBLISHED,
        "67 TFLOPS | 3,350 GB/s": PUBLISHED,
        "TFLOPS at best": MODEL,
        "it can do a quarter of one TFLOPS": MODEL,
        "time = launches × 5 µs": MODEL,
        "would a T4 be faster, at best?": QUESTION,
        "is the GPU faster?": QUESTION,
        "up to 45 times": PUBLISHED,
        "Which is fastest?": QUESTION,
    },
    "lectures/20_more_than_one_gpu/notebook.py": {
        "eight times as fast?": QUESTION,
        "the inside grows faster than the edge": OTHER,
        "How much faster, then?": QUESTION,
        "in **round numbers that belong to no machine**": MODEL,
        "when the slowest device is done": MODEL,
        "how much faster?": QUESTION,
        "how much slower does a step get?": QUESTION,
        "is a step 64, 30, or 10 times as fast?": QUESTION,
        "times as fast": MODEL,
        "Of the 25.5 µs of a step": MODEL,
        "10 µs are the time of half a megabyte": MODEL,
        "where copies take longer than kernels": COUNTS,
        "Do eight CPU devices make it faster": QUESTION,
    },
    "lectures/23_write_your_own_jit/notebook.py": {"its version 2.0.0b1 needed 200": PUBLISHED},
    "lectures/22_kernel_detective/notebook.py": {
        "An atomic maximum would do, and would be faster": COUNTS
    },
    "lectures/15_scan/notebook.py": {
        "the same, and faster": QUESTION,
        "Isn't a loop on the CPU faster?": QUESTION,
    },
    "lectures/19_a_port_done/notebook.py": {
        "which is the fastest on this machine's processor?": QUESTION,
        "report up to 45 times the speed": PUBLISHED,
    },
    "lectures/07_thinking_in_warps/notebook.py": {"may well be the faster one": COUNTS},
    "lectures/21_blocks/notebook.py": {"Is it as fast as threads": QUESTION},
    "lectures/13_jax_in_depth/notebook.py": {
        "those around one decay time, 40 s": OTHER,
        "Those around 40 s: a wrong period": OTHER,
        "goes on until the *slowest* element": COUNTS,
        "Mapped, it goes on for the slowest": COUNTS,
        "a guess of 8 s for the period": OTHER,
    },
    "projects/01_fill_a_histogram/notebook.py": {"Empty slots cost nothing": COUNTS},
    "projects/02_area_by_sampling/wrong.py": {"not-any-faster": COUNTS},
    "projects/03_z_mass/notebook.py": {"takes 0.2 s with Awkward on her CPU": QUESTION},
}


@pytest.fixture(scope="module")
def found(repository: Path) -> list[Claim]:
    course = repository / "course"
    sources = sorted(path for path in course.rglob("*.py") if "__pycache__" not in path.parts)
    return [claim for path in sources for claim in claims(path, course)]


def points_at_rows(claim: Claim) -> bool:
    return any(group in ORDER for group, _ in POINTER.findall(claim.sentence))


def reviewed(claim: Claim) -> str | None:
    """The fragment under which a sentence was read, or None."""
    known = REVIEWED.get(claim.where.rpartition(":")[0], {})
    return next((fragment for fragment in known if fragment in claim.sentence), None)


def test_every_sentence_of_speed_has_a_row_a_source_or_was_read(found: list[Claim]) -> None:
    loose = [
        claim
        for claim in found
        if not (points_at_rows(claim) or LINK.search(claim.sentence) or reviewed(claim))
    ]
    assert not loose, (
        "A claim of a measured speed must point at rows of the recorded run (`group/contender`) or "
        "link to its source; whatever else speaks of speed is listed in REVIEWED with the reason:\n"
        + "\n".join(f"{claim.where}: {claim.sentence}" for claim in loose)
    )


def test_what_was_read_is_still_there(found: list[Claim]) -> None:
    used = {(claim.where.rpartition(":")[0], reviewed(claim)) for claim in found}
    listed = {(path, fragment) for path, fragments in REVIEWED.items() for fragment in fragments}
    assert listed <= used, f"gone or hidden behind another fragment: {sorted(listed - used)}"


def test_rows_that_the_course_names_exist(repository: Path) -> None:
    run = results.recorded()
    named = 0
    for path in sorted((repository / "course").rglob("*.py")):
        for group, contender in POINTER.findall(path.read_text(encoding="utf-8")):
            if group not in ORDER:
                continue
            named += 1
            if run is not None:  # raises NotMeasured with the reason
                run.of(group)
                if contender:
                    run.row(group, contender)
    assert named >= 12


def test_a_new_claim_is_found(tmp_path: Path) -> None:
    lesson = tmp_path / "lesson.py"
    lesson.write_text(
        '# %% [markdown] id="a"\n# On a GPU this kernel is 40 times as fast. It adds numbers.\n#\n'
        "# - A launch takes 3 µs (recorded: `launch/numba`); see the\n#   next line.\n"
        '# %% id="b"\nx = 1  # ten times faster than NumPy\nprint(f"{x} ms")\n'
    )
    told = claims(lesson, tmp_path)
    assert [claim.where for claim in told] == ["lesson.py:2", "lesson.py:4", "lesson.py:7"]
    assert told[0].sentence == "On a GPU this kernel is 40 times as fast."
    assert [points_at_rows(claim) for claim in told] == [False, True, False]

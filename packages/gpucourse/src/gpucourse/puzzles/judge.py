"""Check of a kernel that solves a puzzle, and its cost.

The kernel runs on the virtual GPU, even on a machine with a GPU. It is launched with several sizes
and shapes, with new random numbers, under every checker and in several orders of its threads. One
more, large launch counts its work.
"""

from __future__ import annotations

import contextlib
import dis
import linecache
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.course.puzzles import Puzzle, puzzle_folder, read_puzzles
from gpucourse.exercises.checks import Exercise, exercise, require
from gpucourse.exercises.trials import require_no_launch, watched
from gpucourse.exercises.waiting import trial
from gpucourse.judging.parallel import uneven
from gpucourse.puzzles import clock
from gpucourse.puzzles.inputs import (
    LEFTOVER,
    Case,
    alike,
    arrays_of,
    differing,
    draw,
    evaluate,
    library_bytes,
    redrawn,
)
from gpucourse.system.language import _
from virtualgpu.api import Counters

#: Bytes of a sector, the smallest unit that memory moves. An atomic counts as one sector.
SECTOR = 32
#: Orders of threads in which each trial runs, in addition to the default order.
SEEDS = (1, 2)
#: Seed of the counted launch, whose inputs are always the same so that counts can be compared.
_COUNTED = 2027
#: A kernel that touches less than this share of the sectors that it touches for other inputs knows
#: the counted inputs. Atomics are ignored, because a maximum of floats takes a varying number of
#: attempts.
_HONEST = 0.8
# With one other value of an input, a wrong answer may be the same by chance: the sums of a few
# small coefficients are equal in one draw of forty. Eight equal draws in a row do not happen.
_REDRAWS = 8


@dataclass(frozen=True)
class Judged:
    """A kernel that solves its puzzle, with the counters of its launch and the solution's."""

    puzzle: Puzzle
    case: Case
    mine: Counters
    ours: Counters | None  # None if the solution is not available
    library: int | None  # bytes that CuPy's lines move
    ms: float | None  # on a GPU, in the larger timed launch


#: Latest result by puzzle name, for the table of counts and the board.
latest: dict[str, Judged] = {}


def exercises(checks: str) -> list[Exercise]:
    """Return the exercises of a lesson whose puzzles are in the folder of ``checks``."""
    return [_exercise(puzzle) for puzzle in read_puzzles(puzzle_folder(Path(checks))).values()]


def _exercise(puzzle: Puzzle) -> Exercise:
    def solved(kernel):
        latest.pop(puzzle.name, None)
        latest[puzzle.name] = judged = judge(puzzle, kernel)
        return praise(judged)

    return exercise(puzzle.name, hints=puzzle.hints)(solved)


def praise(judged: Judged) -> str:
    """Return one line about the tested sizes and the bytes that the kernel moves."""
    sizes = len(judged.puzzle.sizes)
    return _(
        "right in {sizes} sizes, no race, no bad address. It moves {bytes:,} bytes {case}"
    ).format(sizes=sizes, bytes=moved(judged.mine), case=judged.case)


def moved(counters: Counters) -> int:
    """Return the bytes of global memory that a launch moves: 32 per sector or atomic."""
    return SECTOR * (counters.global_sectors + counters.global_atomics)


def judge(puzzle: Puzzle, kernel: Any) -> Judged:
    """Judge a kernel.

    Raises :class:`gpucourse.exercises.checks.CheckFailed` if it is wrong.
    """
    _demand_kernel(kernel, puzzle)
    random = np.random.default_rng()  # new random numbers each time
    for at, sizes in enumerate(puzzle.sizes):
        case = draw(puzzle, sizes, puzzle.threads[at % len(puzzle.threads)], random)
        _try(kernel, case, random, first=at == 0)
        if puzzle.resumed and math.prod(case.grid) > 1:
            _demand_places(kernel, case)
    case = measured(puzzle)
    trial(f"{_('a launch whose work is counted')}, {case}")
    after, mine = counted(kernel, case)
    _compare(kernel, case, after, random)
    _demand_no_knowledge(kernel, case, mine, random)
    ours = _solution_counts(puzzle) if puzzle.solved else None
    _demand_shares(puzzle, case, mine)
    _demand_budget(puzzle, case, mine)
    ms = clock.kernel_ms(puzzle, kernel)
    library = None
    if puzzle.library:
        library = library_bytes(case)
        _demand_better(puzzle, ms, moved(mine), library)
    return Judged(puzzle, case, mine, ours, library, ms)


def measured(puzzle: Puzzle) -> Case:
    """Return the case whose launch is counted."""
    return draw(puzzle, puzzle.measured[:-1], puzzle.measured[-1], np.random.default_rng(_COUNTED))


def pictured(puzzle: Puzzle) -> Case:
    """Return the case that the picture shows."""
    shown = replace(puzzle, launch=puzzle.picture_launch or puzzle.launch)
    return draw(shown, puzzle.picture[:-1], puzzle.picture[-1], np.random.default_rng(_COUNTED))


def _demand_kernel(kernel: Any, puzzle: Puzzle) -> None:
    from numba.cuda.dispatcher import CUDADispatcher

    require_no_launch(kernel)
    require(
        type(kernel) is CUDADispatcher,
        _("this is of type {type}, not a kernel. Pass a function under `@cuda.jit`").format(
            type=type(kernel).__name__
        ),
        look=_("`@cuda.jit` above `def {name}`, and here its name without parentheses").format(
            name=puzzle.function
        ),
    )
    given = kernel.py_func.__code__
    names = given.co_varnames[: given.co_argcount]
    require(
        len(names) == len(puzzle.parameters),
        _("the kernel takes {names}, but the puzzle passes {parameters}").format(
            names=", ".join(names) or _("nothing"), parameters=", ".join(puzzle.parameters)
        ),
        look=_("the line with `def`"),
    )


def _try(kernel: Any, case: Case, random: np.random.Generator, *, first: bool) -> None:
    name = getattr(kernel, "__name__", "kernel")
    puzzle = case.puzzle
    known = any("atomic" in text for text in (puzzle.solution, puzzle.text, *puzzle.hints))
    orders = SEEDS if first else SEEDS[:1]
    after = watched(lambda: launch(kernel, case), orders, f"{name} {case}", atomics=known)
    if first:
        # One more launch has uninitialised outputs, so that a read of them is a finding.
        watched(
            lambda: launch(kernel, case, bare=True),
            (),
            f"{name} {case}, {_('outputs left empty')}",
            atomics=known,
        )
    _compare(kernel, case, after, random)


def launch(kernel: Any, case: Case, *, bare: bool = False) -> list[np.ndarray]:
    """Launch on copies and return the values of every array, in the kernel's order."""
    from numba import cuda

    there = []
    for name, value in zip(case.puzzle.parameters, case.arguments(), strict=True):
        if not isinstance(value, np.ndarray):
            there.append(value)
        elif bare and name in case.expected and _is_leftover(case, name):
            there.append(cuda.device_array(value.shape, value.dtype))
        else:
            there.append(cuda.to_device(value))
    kernel[case.grid, case.block](*there)
    return [one.copy_to_host() for one in there if hasattr(one, "copy_to_host")]


def _is_leftover(case: Case, name: str) -> bool:
    return name not in case.puzzle.start and name not in case.puzzle.inputs


def counted(kernel: Any, case: Case) -> tuple[list[np.ndarray], Counters]:
    """Return the arrays' values after a launch, and its counters."""
    with virtualgpu.check(), virtualgpu.profile() as profile:
        after = launch(kernel, case)
    return after, profile.counters


def _solution_counts(puzzle: Puzzle) -> Counters:
    known = _known.get(puzzle.solution)
    if known is None:
        _, known = counted(compiled(puzzle.solution, puzzle.name), measured(puzzle))
        _known[puzzle.solution] = known
    return known


_known: dict[str, Counters] = {}


def compiled(text: str, name: str) -> Any:
    """Return the kernel that a text defines last, run with the notebooks' imports."""
    from numba import cuda, float32, int32

    filename = f"<puzzle {name} {hash(text):x}>"
    linecache.cache[filename] = len(text), None, text.splitlines(True), filename
    scope: dict[str, Any] = {
        "cuda": cuda,
        "float32": float32,
        "int32": int32,
        "math": math,
        "np": np,
        "T": 64,
        "TILE": 16,
    }
    before = set(scope)
    exec(compile(text, filename, "exec"), scope)
    return [scope[one] for one in scope if one not in before and one != "__builtins__"][-1]


# -- the answer ---------------------------------------------------------------------------------


def _compare(kernel: Any, case: Case, after: list[np.ndarray], random: np.random.Generator) -> None:
    got = dict(zip(arrays_of(case), after, strict=True))
    for name, value in case.values.items():
        if name in got and name not in case.expected and name not in case.puzzle.scratch:
            require(
                np.array_equal(got[name], value),
                _("{case}, the kernel changes {name}, which is an input").format(
                    case=case, name=name
                ),
                look=_("the line that writes `{name}[…]`").format(name=name),
            )
    for name, expected in case.expected.items():
        wrong = differing(got[name], expected, case.puzzle.tolerance)
        if not len(wrong):
            continue
        place = tuple(int(one) for one in wrong[0])
        here = f"{name}[{', '.join(map(str, place))}]"
        if got[name][place] == LEFTOVER and _is_leftover(case, name):
            many = _(", nor are {count:,} more").format(count=len(wrong) - 1) * (len(wrong) > 1)
            never = _("{case}, {place} is never written").format(case=case, place=here)
            look = _("which thread should write it, and is there one?")
            if _renames(kernel, name):
                look = _(
                    "`{name} = …` only binds the name to a new value in that thread. To write "
                    "into the array, use `{place} = …`"
                ).format(name=name, place=f"{name}[{', '.join('ij'[: len(place)])}]")
            require(False, never + many, look=look)
        differs = _("{case}, {place} is {value:g}, not {expected:g}").format(
            case=case, place=here, value=got[name][place], expected=expected[place]
        )
        if ignored := _ignored(kernel, case, got, random):
            require(
                False,
                differs
                + _(", and the answer stays the same whatever {name} is").format(name=ignored),
                look=_(
                    "where does the kernel read `{name}`? The check uses other numbers than "
                    "the picture"
                ).format(name=ignored),
            )
        require(
            False,
            differs,
            look=_("which thread writes {place}, and from which values?").format(place=here),
        )
    for name, asked in case.puzzle.after.items():
        expression, look = (asked, "") if isinstance(asked, str) else asked
        held = evaluate(expression, _scope(case))
        require(
            np.array_equal(got[name], held),
            _("{case}, {name} contains {got} at the end, but it should contain {held}").format(
                case=case, name=name, got=got[name], held=held
            ),
            look=look or _("who changes `{name}`, and how often?").format(name=name),
        )


def _renames(kernel: Any, name: str) -> bool:
    """Return True if a line of the kernel assigns to the parameter instead of an element."""
    code = dis.get_instructions(kernel.py_func)
    return any(step.opname.startswith("STORE_FAST") and name in step.argrepr for step in code)


def _ignored(
    kernel: Any, case: Case, got: dict[str, np.ndarray], random: np.random.Generator
) -> str:
    """Return an input on which the answer should depend but does not."""
    for name in case.puzzle.inputs:
        if name not in case.expected and all(
            _stays(kernel, case, got, redrawn(case, name, random)) for _redraw in range(_REDRAWS)
        ):
            return name
    return ""


def _stays(kernel: Any, case: Case, got: dict[str, np.ndarray], other: Case | None) -> bool:
    """Return True if the answer does not change with the inputs although it should."""
    if other is None:
        return False
    with contextlib.suppress(Exception):  # the trials report exceptions
        again, _ = counted(kernel, other)
        after = dict(zip(arrays_of(case), again, strict=True))
        return all(np.array_equal(after[one], got[one]) for one in case.expected)
    return False


def _demand_places(kernel: Any, case: Case) -> None:
    """Require that blocks take their positions from the scratch, not from their indices.

    In one more launch the first block's work is already done and there is one block fewer, as if
    that block had started long before the others.
    """
    begun = {name: evaluate(one, _scope(case)) for name, one in case.puzzle.resumed.items()}
    rest = replace(case, values={**case.values, **begun}, grid=(math.prod(case.grid) - 1,))
    done, told = case.sizes["T"], ""
    try:
        got = dict(zip(arrays_of(rest), launch(kernel, rest), strict=True))
    except virtualgpu.VirtualGPUError as error:
        told = str(error).splitlines()[0]
    else:
        for name, expected in case.expected.items():
            if not np.array_equal(got[name][done:], expected[done:]):
                told = _("`{name}` is wrong").format(name=name)
    require(
        not told,
        _(
            "{case}: if the block with the first position has already run when the others "
            "start, {told}"
        ).format(case=case, told=told),
        look=_("blocks may start in any order: does each take its place from `{scratch}`?").format(
            scratch=next(iter(begun))
        ),
    )


# -- the cost -----------------------------------------------------------------------------------


def _scope(case: Case) -> dict[str, Any]:
    return {
        **case.sizes,
        **case.values,
        "threads": math.prod(case.grid) * math.prod(case.block),
        "blocks": math.prod(case.grid),
    }


def _demand_no_knowledge(
    kernel: Any, case: Case, mine: Counters, random: np.random.Generator
) -> None:
    """Check that the kernel does not skip reads because it knows the counted inputs.

    These inputs are the same each time.
    """
    other = alike(case, random)
    after, counters = counted(kernel, other)
    _compare(kernel, other, after, random)
    require(
        mine.global_sectors >= _HONEST * counters.global_sectors,
        _(
            "right, but it moves {mine:,} bytes for the counted inputs but {other:,} for "
            "other inputs of the same size"
        ).format(mine=moved(mine), other=moved(counters)),
        look=_("does the kernel assume values that it has not read yet?"),
    )


def _demand_shares(puzzle: Puzzle, case: Case, mine: Counters) -> None:
    asked = {name: evaluate(text, _scope(case)) for name, text in puzzle.share.items()}
    items = asked.pop("items", case.items)
    require(
        mine.global_stores + mine.global_atomics,
        _("the answer is there, but no thread wrote it"),
        look=_("the kernel's line that writes the result"),
    )
    if found := uneven(mine, case.grid, case.block, items, **asked):
        require(
            False,
            _("the answer is right, but the work is not shared: {counted}").format(
                counted=found.counted
            ),
            look=_(
                "let each thread handle its own elements, instead of a loop over all "
                "elements in one thread"
            ),
        )


def _demand_better(puzzle: Puzzle, ms: float | None, mine: int, library: int) -> None:
    """Require fewer bytes than the library's, or on a GPU less time."""
    if mine < library:
        return
    message = _("right, but the library moves {library:,} bytes, and your kernel {mine:,}").format(
        library=library, mine=mine
    )
    library_ms = clock.library_ms(puzzle)
    if ms is not None and library_ms is not None:
        if ms < library_ms:
            return
        message += _("; it takes {library:.3g} ms, and your kernel {mine:.3g}").format(
            library=library_ms, mine=ms
        )
    require(
        False,
        message,
        look=_(
            "which values are loaded more than once, and do neighbouring threads load "
            "neighbouring elements?"
        ),
    )


def _demand_budget(puzzle: Puzzle, case: Case, mine: Counters) -> None:
    for counter, allowed, words in puzzle.budget:
        found, most = amount(counter, mine), int(evaluate(allowed, _scope(case)))
        require(
            found <= most,
            _("right, but it makes {found:,} {what} {case}; {most:,} are enough").format(
                found=found, what=spoken(counter), case=case, most=most
            ),
            look=words,
        )
    for counter, asked, words in puzzle.needs:
        found, least = amount(counter, mine), int(evaluate(asked, _scope(case)))
        require(
            found >= least,
            _(
                "right, but it makes {found:,} {what} {case}: threads that share the work "
                "make {least:,} or more"
            ).format(found=found, what=spoken(counter), case=case, least=least),
            look=words,
        )


def amount(counter: str, counters: Counters) -> int:
    """Return the count that a puzzle's file names."""
    if counter == "bytes":
        return moved(counters)
    if counter == "exchanges":
        return counters.barriers + counters.warp_instructions_by_class.get("warp", 0)
    return getattr(counters, counter)


def spoken(counter: str) -> str:
    """Return the name of a count in words."""
    words = {
        "bytes": _("bytes of global memory moved"),
        "exchanges": _("barriers and shuffles"),
        "global_sectors": _("sectors of global memory"),
        "global_loads": _("reads of global memory"),
        "global_stores": _("writes of global memory"),
        "shared_loads": _("reads of shared memory"),
        "shared_stores": _("writes of shared memory"),
    }
    return words.get(counter, counter.replace("_", " "))


def rows(judged: Judged) -> Iterator[tuple[str, int, int | None]]:
    """Yield (name, this kernel's count, the solution's count or None)."""
    for counter in (
        "global_loads",
        "global_stores",
        "shared_loads",
        "shared_stores",
        "bank_conflicts",
        "global_sectors",
        "atomics",
        "barriers",
        "bytes",
    ):
        yield (
            counter,
            amount(counter, judged.mine),
            None if judged.ours is None else amount(counter, judged.ours),
        )

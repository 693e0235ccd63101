"""Trial launches of a learner's kernel, for the checks of lectures.

Kernels run on the virtual GPU, even on a machine with a real one, and on copies of the arguments.
So a wrong kernel does no harm, and the check can name the line that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import require
from gpucourse.exercises.waiting import trial
from gpucourse.judging.orders import checked, order_matters
from gpucourse.judging.parallel import uneven
from gpucourse.system.language import _
from gpucourse.wording import digits_apart
from virtualgpu import sources
from virtualgpu.api import Counters, awkward_to_device

if TYPE_CHECKING:
    from virtualgpu.errors import Location
    from virtualgpu.findings import Finding

#: Lengths at which guards and reductions go wrong: below, at and above a warp and a block, almost
#: nothing, a prime, and more than the 1,024 threads that a block can have. Most messages name the
#: first lengths, so the list begins with ordinary ones.
LENGTHS = (129, 128, 0, 1, 2, 31, 32, 33, 127, 257, 1009, 2003)
#: Instructions that a thread may use per element of its share and per round of a tree reduction. A
#: double-precision sinh takes about 150, once; a loop over 1,009 elements takes 5,000.
INSTRUCTIONS = 100
#: Value in an output array before the launch; no result may depend on it.
LEFTOVER = -999


def launched(
    kernel: object,
    blocks: int,
    threads: int,
    *arguments: object,
    seeds: Sequence[int] = (1, 2),
    reads: int = 0,
    twice: str = "",
) -> list:
    """Launch on copies of the arguments and return the copies, as NumPy arrays where possible.

    The first ``reads`` arguments are inputs: the check fails if the kernel changes one. ``twice``
    is the place to look at if two threads write the same element at the same line.

    Awkward Arrays are copied to the device as well. Kernels cannot change them, so the argument
    itself is returned.

    The kernel first runs in lockstep under every checker of :func:`virtualgpu.check`, then in the
    order of each seed (:func:`virtualgpu.schedule`). The check fails for any finding of the
    checkers. It also fails if an order changes the answer, however little, unless the difference
    comes from rounding in sums of floats.
    """
    require_kernel(kernel)
    what = in_words(getattr(kernel, "__name__", "kernel"), blocks, threads, arguments)
    after = watched(lambda: _launch(kernel, blocks, threads, arguments), seeds, what, twice=twice)
    require_unchanged(arguments[:reads], after, lambda place: _parameter(kernel, place))
    return after


def require_unchanged(given: Sequence, after: Sequence, name_of: Callable[[int], str]) -> None:
    """Require that a kernel has not changed its input arrays."""
    for place, before in enumerate(given):
        if isinstance(before, np.ndarray) and not _same([before], [after[place]]):
            name = name_of(place)
            require(
                False,
                _("the kernel changes {name}, which is an input").format(name=name),
                look=_("the line that writes `{name}[…]`").format(name=name),
            )


def _parameter(kernel: Any, place: int) -> str:
    return str(kernel.py_func.__code__.co_varnames[place])


def require_kernel(kernel: object) -> None:
    """Require a Numba kernel."""
    require_no_launch(kernel)
    require(
        hasattr(kernel, "py_func") and hasattr(kernel, "forall"),
        _("this is of type {type}, not a kernel").format(type=type(kernel).__name__),
        look=_("the name of the function under @cuda.jit, without parentheses"),
    )


def require_no_launch(kernel: object) -> None:
    """Require a kernel without launch brackets, because the check chooses the launch."""
    require(
        type(kernel).__name__ != "_LaunchConfiguration",
        _("this kernel already has its brackets, but the check chooses blocks and threads itself"),
        look=_("`{name}`: pass only the name").format(
            name=getattr(getattr(kernel, "dispatcher", None), "__name__", "kernel")
        ),
    )


def watched(
    launch: Callable[[], list],
    seeds: Sequence[int] = (1, 2),
    what: str = "a launch",
    *,
    atomics: bool = True,
    twice: str = "",
) -> list:
    """Return the results of ``launch`` under every checker and in the order of each seed.

    It also serves launches by other libraries than Numba: see :func:`launched` and
    :mod:`gpucourse.exercises.cpp_trials`. If the check takes long, the learner sees ``what`` as
    its description. If ``atomics`` is False, the lessons have not introduced them and no advice
    names them. For ``twice`` see :func:`launched`.
    """
    trial(
        _("{launch}, under every checker and in {orders} orders").format(
            launch=what, orders=len(seeds) + 1
        )
    )
    after, found, orderless = checked(launch)
    if found is not None:
        if found.kind == "race":
            _require_divided_work(launch)
        both = (found.location, found.other)
        places = [place for place in both if place is not None and place.filename]
        require(
            not (twice and _write_alike(found)),
            found.message.removesuffix(found.advice).rstrip(" :"),
            look=twice,
        )
        require(
            False,
            _in_a_check(found, atomics),
            look=f"\n{_('and')} ".join(map(_place, places)) or None,
        )
    require(
        not order_matters(launch, after, seeds, _same, orderless),
        _("the answer depends on the order in which the threads run"),
        look=_("what must have happened before this line runs, and what ensures that?"),
    )
    return after


def _require_divided_work(launch: Callable[[], list]) -> None:
    """Require that the threads do not all write every element.

    Only for a kernel with a race. The most frequent reason is a loop over all elements that was
    left in the kernel. This is reported instead of the race, because the learner may not know
    races yet.
    """
    with virtualgpu.profile() as profile:
        after = launch()
    size = max((one.size for one in after if isinstance(one, np.ndarray)), default=0)
    threads, stores = profile.counters.threads_at_work, profile.counters.global_stores
    require(
        size < 4 or threads < 2 or 2 * stores < threads * size,
        _(
            "each of {threads:,} threads writes {each:,} times, and the largest array has "
            "{size:,} elements: the threads all do the same work instead of sharing it"
        ).format(threads=threads, each=stores // max(threads, 1), size=size),
        look=_(
            "is there still a loop over all elements in every thread? Let each thread handle "
            "only its own"
        ),
    )


def _write_alike(found: Finding) -> bool:
    """Return True for a race between two threads that write at the same line."""
    return (
        found.kind == "race"
        and found.other is not None
        and (found.filename, found.line) == (found.other.filename, found.other.line)
        and " writes " in found.message
        and " writes them " in found.message
    )


def _in_a_check(found: Finding, atomics: bool) -> str:
    """Return a finding's message with advice that fits a kernel launched by a check."""
    advice = found.advice
    if found.kind == "uninitialised" and "cuda.device_array" in advice:
        advice = _(
            "an output array does not start as zeros: write its element before you read it, "
            "out[i] = … before out[i] += …"
        )
    elif found.kind == "race" and "atomic" in advice and not atomics:
        advice = _("let each thread write its own element, which no other thread reads")
    return found.message.removesuffix(found.advice) + advice if found.advice else found.message


def counted(kernel: object, blocks: int, threads: int, *arguments: object) -> Counters:
    """Return the counters of one launch on copies, up to the error if it fails."""
    trial(_("a launch whose work is counted"))
    with virtualgpu.profile() as profile:
        try:
            _launch(kernel, blocks, threads, arguments)
        except Exception:
            pass  # the launches that check the answer report the error
    return profile.counters


def require_parallel(
    kernel: object,
    blocks: int,
    threads: int,
    *arguments: object,
    items: int,
    look: str,
    **asked: Any,
) -> None:
    """Require that the threads of one launch share the work on `items` elements.

    Both the memory accesses and all the instructions of each thread are counted, because a thread
    that loops over all elements but touches only its own makes few accesses.
    """
    counters, shape = counted(kernel, blocks, threads, *arguments), ((blocks,), (threads,))
    require_shared(counters, *shape, items, look, **asked)
    require_shared(counters, *shape, items, look, instructions=INSTRUCTIONS)


def require_shared(
    counters: Counters,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    items: int,
    look: str,
    **asked: Any,
) -> None:
    """Require that the work of a counted launch is shared between its threads.

    ``asked`` holds options of :func:`gpucourse.expect_parallel`.
    """
    if found := uneven(counters, grid, block, items, **asked):
        require(
            False,
            _("the answer is right, but the work is not shared: {counted}").format(
                counted=found.counted
            ),
            look=look,
        )


def in_words(name: str, blocks: object, threads: object, arguments: Sequence) -> str:
    """Describe a launch for a learner who is waiting for it."""
    sizes = [
        f"{getattr(one, 'size', len(one)):,}"
        for one in arguments
        if hasattr(one, "__len__") and len(one)
    ]
    launch = f"{name}[{blocks}, {threads}]"
    return (
        _("{launch} on arrays of {sizes}").format(launch=launch, sizes=", ".join(sizes))
        if sizes
        else launch
    )


def require_equal(got: np.ndarray, expected: np.ndarray, case: str, look: str) -> None:
    """Require equal arrays; name the first element that differs or was never written."""
    _require_none(
        np.flatnonzero(got != expected), got, expected, f"{case}, element {{}}", look, look
    )


def require_close(
    got: np.ndarray,
    expected: np.ndarray,
    case: str,
    look: str,
    *,
    rtol: float,
    atol: float = 0.0,
    place: str = "element {}",
    rounded: str = "is a value rounded to float32 on the way? float32 keeps seven of the "
    "sixteen digits",
) -> None:
    """Require floats within a tolerance; name the first that differs or was never written.

    ``place`` formats the index of an element. ``rounded`` is the place to look at if a float64
    agrees only to 1e-5. An array of another shape fails before values are compared.
    """
    require(
        np.shape(got) == np.shape(expected),
        f"{case}, the answer has the shape {np.shape(got)}, not {np.shape(expected)}",
        look="the shape of the array that you return",
    )
    wrong = np.flatnonzero(~np.isclose(got, expected, rtol=rtol, atol=atol))
    if len(wrong) and expected.dtype == np.float64:
        k = wrong[0]
        look = rounded if np.isclose(got[k], expected[k], rtol=1e-5, atol=0) else look
    _require_none(
        wrong, got, expected, f"{case}, {place}", look, "which thread handles this element?"
    )


def _require_none(
    wrong: np.ndarray, got: np.ndarray, expected: np.ndarray, where: str, look: str, unwritten: str
) -> None:
    if not len(wrong):
        return
    k = wrong[0]
    where = where.format(k)
    if got[k] == LEFTOVER:
        require(False, f"{where} was never written", look=unwritten)
    digits = digits_apart(got[k], expected[k])
    require(False, f"{where} {held(got[k], expected[k])}, not {expected[k]:.{digits}g}", look=look)


def held(value: float, expected: float, digits: int = 6) -> str:
    """Describe a value of an output array that held :data:`LEFTOVER` before the launch.

    It is printed with ``digits`` digits, or with more if it would otherwise look like
    ``expected``.
    """
    if value == LEFTOVER:
        return "was never written"
    digits = digits_apart(value, expected, digits)
    # If a kernel adds to the previous value, 457 becomes -542.
    added = np.isclose(value - LEFTOVER, expected, rtol=1e-4, atol=0) or value < 0 <= expected
    before = (
        f" (it was {LEFTOVER} before the launch; does the kernel add to that?)" if added else ""
    )
    return f"is {value:.{digits}g}{before}"


def _launch(kernel, blocks: int, threads: int, arguments: Sequence) -> list:
    there = [_on_device(a) for a in arguments]
    kernel[blocks, threads](*there)
    return [
        there.copy_to_host() if hasattr(there, "copy_to_host") else argument
        for there, argument in zip(there, arguments, strict=True)
    ]


def _on_device(argument: object) -> object:
    """Copy a NumPy or Awkward Array to the device; return anything else as it is."""
    from numba import cuda

    if isinstance(argument, np.ndarray):
        return cuda.to_device(argument)
    return awkward_to_device(argument)


def _same(one: list, other: list) -> bool:
    return all(
        a is b or np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True)
    )


def _place(location: Location) -> str:
    """Describe a thread's location: the cell, the line with its code, block and thread."""
    code = sources.text(location.filename, location.line)
    where = f"{sources.name(location.filename)} line {location.line}: `{code}`"
    if location.block is None or location.thread is None:
        return where
    return f"{where} " + _("(thread {thread} of block {block})").format(
        thread=location.thread, block=location.block
    )

"""mbarriers: barrier objects in shared memory.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

An object counts down the arrivals, and the bytes of bulk copies, that its current phase still
waits for. At zero the next phase begins. Its 64 bits are opaque to programs. Here they contain,
from the low end: 20 bits of pending arrivals, 20 bits of expected arrivals per phase, 21 bits of
pending bytes (signed), and the number of the phase modulo 8. The state that an arrival returns is
the word before the arrival.

Arrivals by asynchronous copies (``cp.async.mbarrier.arrive``, ``complete_tx``) happen at the
latest moment: when a thread waits for a phase and nothing else is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from virtualgpu.errors import BarrierError
from virtualgpu.lanes import access
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.wave import Wave
from virtualgpu.program.site import Site
from virtualgpu.wording import many

LARGEST = (1 << 20) - 1  # largest count of arrivals and, either way, of bytes
_EXPECTED, _BYTES, _PHASE = (np.uint64(n) for n in (20, 40, 61))
_COUNT, _SIGN = np.uint64(LARGEST), 1 << 20
U64 = np.dtype("u8")


@dataclass(slots=True, eq=False)
class PendingEffects:
    """Pending effects of copies on barriers, until a thread waits; one element per lane."""

    lanes: np.ndarray
    words: np.ndarray
    arrivals: int  # of each lane: 1, or 0 for a bulk copy
    nbytes: np.ndarray  # bytes that a bulk copy completes, else zeros
    deliver: Callable[[np.ndarray], None]  # writes the data of chosen positions
    site: Site


class Barriers:
    """Barriers of a wave's blocks; ``live`` marks the words of shared memory that hold one."""

    def __init__(self, wave: Wave):
        self.wave = wave
        self.live = np.zeros(len(wave.shared) // 8, bool)
        self.deferred: list[PendingEffects] = []


def of(wave: Wave) -> Barriers:
    if wave.barriers is None:
        wave.barriers = Barriers(wave)
    found: Barriers = wave.barriers
    return found


def unpack(words: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return pending arrivals, expected arrivals, pending bytes, phase: int64, shape (n,)."""
    nbytes = (words >> _BYTES & np.uint64(2 * _SIGN - 1)).astype(np.int64)
    return (
        (words & _COUNT).astype(np.int64),
        (words >> _EXPECTED & _COUNT).astype(np.int64),
        (nbytes ^ _SIGN) - _SIGN,
        (words >> _PHASE).astype(np.int64),
    )


def pack(
    pending: np.ndarray, expected: np.ndarray, nbytes: np.ndarray, phase: np.ndarray
) -> np.ndarray:
    fields = (pending, expected, nbytes & 2 * _SIGN - 1, phase & 7)
    low, high, some, number = (np.asarray(field).astype(np.uint64) for field in fields)
    word: np.ndarray = low | high << _EXPECTED | some << _BYTES | number << _PHASE
    return word


# -- what instructions do --------------------------------------------------------------------------


def init(site: Site, group: Group, address: np.ndarray, count: np.ndarray) -> None:
    """Execute ``mbarrier.init``: begin the first phase with ``count`` pending arrivals."""
    barriers, view, words = _find(site, group, address)
    count = group.spread(count).astype(np.int64)
    if (bad := (count < 1) | (count > LARGEST)).any():
        at = int(np.argmax(bad))
        fault(
            site,
            group,
            at,
            f"an mbarrier is initialised for {many(int(count[at]), 'arrival')}; the number must "
            f"be 1 to {LARGEST:,}",
        )
    first = np.zeros(len(words), bool)
    first[np.unique(words, return_index=True)[1]] = True
    if (again := ~first | barriers.live[words]).any():
        fault(
            site,
            group,
            int(np.argmax(again)),
            "an mbarrier is initialised while it is in use. Let "
            "one thread initialise it once, followed by a barrier of the block "
            "(mbarrier.inval ends its use)",
        )
    _put(site, group, view, words, pack(count, count, np.zeros_like(count), np.zeros_like(count)))
    barriers.live[words] = True
    for observer in group.wave.launch.observers:
        observer.mbarrier_made(group.wave, words)


def invalidate(site: Site, group: Group, address: np.ndarray) -> None:
    """Execute ``mbarrier.inval``: release the memory for other uses."""
    barriers, _, words = _live(site, group, address)
    barriers.live[words] = False
    group.changed = True


def arrive(
    drop: bool,
    completes: bool,
    site: Site,
    group: Group,
    address: np.ndarray,
    count: np.ndarray,
    nbytes: np.ndarray | None = None,
) -> np.ndarray:
    """Execute ``mbarrier.arrive`` or ``arrive_drop``; return the earlier states, uint64, (n,).

    If several lanes arrive at one object, they do so in lane order. ``completes`` is False for
    ``.noComplete``. ``nbytes`` are the bytes of ``.expect_tx``.
    """
    _, view, words = _live(site, group, address)
    count = group.spread(count).astype(np.int64)
    if (count < 1).any():
        fault(site, group, int(np.argmax(count < 1)), "an arrival with the count 0")
    if nbytes is not None:
        _expect(site, group, view, words, group.spread(nbytes).astype(np.int64))
    order = np.argsort(words, kind="stable")
    states = np.empty(len(words), np.uint64)
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    for few in np.split(order, starts[1:]):
        states[few] = _arrive_at(
            site, group, view, int(words[few[0]]), few, count[few], drop, completes
        )
    return states


def _arrive_at(
    site: Site,
    group: Group,
    view: np.ndarray,
    word: int,
    positions: np.ndarray,
    count: np.ndarray,
    drop: bool,
    completes: bool,
) -> np.ndarray:
    """Let lanes arrive at one object, one after the other, and return the states before."""
    states = np.empty(len(positions), np.uint64)
    done = 0
    while done < len(positions):
        pending, expected, nbytes, phase = (
            int(field[0]) for field in unpack(view[word : word + 1])
        )
        total = np.cumsum(count[done:])
        here = int(np.searchsorted(total, pending, side="right"))
        if not here:
            fault(
                site,
                group,
                int(positions[done]),
                (
                    f"an arrival at an mbarrier counts {int(count[done])}, but its phase waits for "
                    f"{pending} more. Initialise it with the number of all arrivals of a phase"
                ),
            )
        if not completes and total[here - 1] == pending:
            fault(
                site,
                group,
                int(positions[done + here - 1]),
                "mbarrier.arrive.noComplete must "
                "not complete the phase, but this is its last arrival",
            )
        before = total[:here] - count[done : done + here]
        dropped = before if drop else np.zeros_like(before)
        states[done : done + here] = pack(
            pending - before, expected - dropped, np.full(here, nbytes), np.full(here, phase)
        )
        left = int(pending - total[here - 1])
        if drop:
            expected = max(expected - int(total[here - 1]), 0)
        _put(
            site,
            group,
            view,
            np.array([word]),
            pack(*np.array([[left], [expected], [nbytes], [phase]])),
        )
        _tell_arrived(site, group.subset(positions[done : done + here], group.block), word)
        _complete(group, view, word)
        done += here
    return states


def expect(site: Site, group: Group, address: np.ndarray, nbytes: np.ndarray) -> None:
    """Execute ``mbarrier.expect_tx``: let the phase wait for ``nbytes`` more bytes."""
    _, view, words = _live(site, group, address)
    _expect(site, group, view, words, group.spread(nbytes).astype(np.int64))


def complete(site: Site, group: Group, address: np.ndarray, nbytes: np.ndarray) -> None:
    """Execute ``mbarrier.complete_tx``: count ``nbytes`` bytes as arrived."""
    _, view, words = _live(site, group, address)
    _expect(site, group, view, words, -group.spread(nbytes).astype(np.int64))
    for word in np.unique(words).tolist():
        _complete(group, view, word)


def test(
    parity: bool, site: Site, group: Group, address: np.ndarray, state: np.ndarray
) -> np.ndarray:
    """Execute ``mbarrier.test_wait`` or ``try_wait``: True if the phase is over, shape (n,).

    ``state`` is that of an arrival, or the parity of the phase (0 or 1). ``try_wait`` may return
    at once, and here it does, because programs repeat it in a loop.
    """
    barriers, view, words = _live(site, group, address)
    group.waited = ALL
    state = group.spread(state)
    wanted = (state.astype(np.int64) & 1) if parity else unpack(state.view(np.uint64))[3]

    def over() -> np.ndarray:
        phase = unpack(view[words])[3]
        result: np.ndarray = (phase & 1 if parity else phase) != wanted
        return result

    passed = over()
    if (
        not passed.all()
        and barriers.deferred
        and _settle(barriers, group, view, np.unique(words[~passed]))
    ):
        passed = over()
    if passed.any() and group.wave.launch.observers:
        chosen = np.flatnonzero(passed)
        phase = (unpack(view[words[chosen]])[3] - 1) & 7 if parity else wanted[chosen]
        for observer in group.wave.launch.observers:
            observer.mbarrier_passed(
                group.subset(chosen, group.block), site.instruction, words[chosen], phase
            )
    return passed


def pending_count(state: np.ndarray) -> np.ndarray:
    """Execute ``mbarrier.pending_count``: return the pending arrivals of a state, uint32."""
    return unpack(state)[0].astype(np.uint32)


def defer(
    site: Site,
    group: Group,
    address: np.ndarray,
    arrivals: int,
    nbytes: np.ndarray,
    deliver: Callable[[np.ndarray], None],
    more: bool = False,
) -> None:
    """Defer the arrivals of copies of these lanes at barriers.

    With ``more``, the phase has not counted these arrivals yet (``cp.async.mbarrier.arrive``
    without ``.noinc``).
    """
    barriers, view, words = _live(site, group, address)
    if more:
        unique, counts = np.unique(words, return_counts=True)
        pending, expected, some, phase = unpack(view[unique])
        if (pending + counts > LARGEST).any():
            fault(site, group, 0, f"more than {LARGEST:,} arrivals at an mbarrier")
        _put(site, group, view, unique, pack(pending + counts, expected, some, phase))
    barriers.deferred.append(PendingEffects(group.lanes, words, arrivals, nbytes, deliver, site))


# -- their parts -----------------------------------------------------------------------------------


def fault(site: Site, group: Group, position: int, message: str) -> NoReturn:
    raise BarrierError(message, site.location(group, int(group.lanes[position])))


def _find(site: Site, group: Group, address: np.ndarray) -> tuple[Barriers, np.ndarray, np.ndarray]:
    """Return the wave's barriers, shared memory as words, and the index of each lane's word."""
    space, place = access.place(site, group, address)
    if space != "shared":
        fault(
            site,
            group,
            0,
            "an mbarrier must be in shared memory, but this address is not: declare it __shared__",
        )
    view, words = access.locate(site, group, "shared", place)
    return of(group.wave), view, group.spread(words)


def _live(site: Site, group: Group, address: np.ndarray) -> tuple[Barriers, np.ndarray, np.ndarray]:
    barriers, view, words = _find(site, group, address)
    if (dead := ~barriers.live[words]).any():
        fault(
            site,
            group,
            int(np.argmax(dead)),
            "no thread has initialised the mbarrier before its first use. Let one thread "
            "call init (mbarrier.init), then let all wait at a barrier of the block "
            "(__syncthreads)",
        )
    return barriers, view, words


def _put(site: Site, group: Group, view: np.ndarray, words: np.ndarray, values: np.ndarray) -> None:
    before = view[words]
    view[words] = values
    group.changed = True
    if (watch := group.wave.launch.standstill) is not None and (before != values).any():
        watch.changed()


def _expect(
    site: Site, group: Group, view: np.ndarray, words: np.ndarray, nbytes: np.ndarray
) -> None:
    unique, number = np.unique(words, return_inverse=True)
    pending, expected, some, phase = unpack(view[unique])
    some = some + np.bincount(number, nbytes, len(unique)).astype(np.int64)
    if (abs(some) > LARGEST).any():
        fault(
            site,
            group,
            int(np.argmax(abs(some)[number] > LARGEST)),
            f"an mbarrier can count at most {LARGEST:,} bytes",
        )
    _put(site, group, view, unique, pack(pending, expected, some, phase))


def _complete(group: Group, view: np.ndarray, word: int) -> bool:
    """Begin the next phase if nothing is pending in this one; return True if so."""
    pending, expected, nbytes, phase = unpack(view[word : word + 1])
    if pending[0] or nbytes[0]:
        return False
    view[word : word + 1] = pack(expected, expected, nbytes, phase + 1)
    for observer in group.wave.launch.observers:
        observer.mbarrier_completed(group.wave, word, int(phase[0]))
    return True


def _settle(barriers: Barriers, group: Group, view: np.ndarray, words: np.ndarray) -> bool:
    """Deliver copies at those ``words`` that lack nothing else; return True if there were any."""
    arrivals, nbytes = np.zeros((2, len(words)), np.int64)
    for one in barriers.deferred:
        at = np.searchsorted(words, one.words)
        hit = np.flatnonzero(words[np.minimum(at, len(words) - 1)] == one.words)
        np.add.at(arrivals, at[hit], one.arrivals)
        np.add.at(nbytes, at[hit], one.nbytes[hit])
    pending, _, missing, _ = unpack(view[words])
    ready = words[(arrivals >= pending) & (missing == nbytes) & (arrivals + nbytes > 0)]
    if not len(ready):
        return False
    left = []
    for one in barriers.deferred:
        here = np.isin(one.words, ready)
        if here.any():
            _arrive_late(one, np.flatnonzero(here), group, view)
        if not here.all():
            rest = np.flatnonzero(~here)
            one.deliver = _part(one.deliver, rest)
            one.lanes, one.words, one.nbytes = (
                field[rest] for field in (one.lanes, one.words, one.nbytes)
            )
            left.append(one)
    barriers.deferred = left
    group.changed = True
    return True


def _part(deliver: Callable[[np.ndarray], None], rest: np.ndarray) -> Callable[[np.ndarray], None]:
    return lambda chosen: deliver(rest[chosen])


def _arrive_late(one: PendingEffects, chosen: np.ndarray, group: Group, view: np.ndarray) -> None:
    one.deliver(chosen)
    lanes, words = one.lanes[chosen], one.words[chosen]
    order = np.lexsort((lanes, words))
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    for few in np.split(order, starts[1:]):
        word, late = int(words[few[0]]), access.some_lanes(group.wave, lanes[few])
        if one.arrivals:
            ones = np.ones(len(few), np.int64)
            _arrive_at(one.site, late, view, word, np.arange(len(few)), ones, False, True)
        else:
            total = one.nbytes[chosen[few]].sum(keepdims=True)
            _expect(one.site, late, view, np.array([word]), -total)
            _tell_arrived(one.site, late, word)
            _complete(late, view, word)


def _tell_arrived(site: Site, group: Group, word: int) -> None:
    for observer in group.wave.launch.observers:
        observer.mbarrier_arrived(group, site.instruction, word)

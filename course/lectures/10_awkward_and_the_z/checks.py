"""Checks and hints of "Jagged data: Awkward Arrays and the Z"."""

from __future__ import annotations

import awkward as ak
import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.methods import lines_run
from gpucourse.data.generator import jagged_muons
from gpucourse.exercises.trials import LEFTOVER, counted, launched, require_parallel
from gpucourse.wording import many

#: 512 events of three muons each, for counting which threads do the work.
EVEN = [[(30.0, 0.0, 1), (25.0, 0.0, -1), (10.0, 0.0, 1)]] * 512
#: Accesses that a thread may make for such an event. The lecture's kernels make 6 to 15.
ACCESSES = 30
#: Numbers of muons per event: empty events at the ends and in a row, one event, and an event with
#: more muons than a warp has lanes.
COUNTS = ((2, 0, 1, 3, 0, 0, 2), (0, 0, 3), (1,), (), (0,), (5, 40, 0, 1), (0, 2, 0, 0))


@exercise(
    "owners",
    hints=(
        "The idea: repeat the number of event i as often as the event has muons. You can compute the "
        "number of its muons from the offsets.",
        "The shape: `np.diff(offsets)` gives the number of muons of each event, and `np.repeat(numbers, counts)` "
        "repeats each number as often as its count says.",
    ),
)
def owners(function):
    """Every muon is assigned to its event, even after empty events and in slices."""
    for counts in (*COUNTS, *np.random.default_rng(101).integers(0, 4, (3, 50))):
        for start in (0, 1460):
            offsets = start + np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            got = np.asarray(function(offsets.copy()))
            expected = [event for event, count in enumerate(counts) for _ in range(count)]
            case = f"with the offsets {offsets[:9].tolist()}{' …' if offsets.size > 9 else ''}"
            require(got.ndim == 1, f"{case}, the answer is {got!r}, not a list of numbers")
            require(
                got.size == len(expected),
                f"{case}, the answer has {many(got.size, 'number')} for "
                f"{many(len(expected), 'muon')}",
                look="remember that the offsets of a slice need not begin at 0" if start else
                "return one number for each muon, not one for each event",
            )
            wrong = np.flatnonzero(got != expected)
            if wrong.size:
                k = wrong[0]
                require(
                    False,
                    f"{case}, muon {offsets[0] + k} is assigned to event {got[k]}, but it belongs to "
                    f"event {expected[k]}",
                    look="the muon at an event's offset is the first muon of that event" if got[k] < 0 else
                    "the first event of a slice also has number 0" if start else
                    "an event may be empty, and then two offsets are equal",
                )
    few, more = (lines_run(function, 2 * np.arange(n + 1)) for n in (10, 200))
    require(more < few + 100, f"right, but Python runs {more:,} lines for 200 events, so there is a loop",
            look="use np.diff and np.repeat, which work on all events at once")


@exercise(
    "clean-pairs",
    hints=(
        "The idea: take two steps in this order. First apply a mask of muons, and then compute a mask of "
        "events from the muons that are left.",
        "The shape: `good = muons[(muons.pt > …) & (abs(muons.eta) < …)]`, then "
        "`good[(ak.num(good) == 2) & (… the charges add up to 0 …)]`.",
    ),
)
def clean_pairs(function):
    """Every event that is kept has exactly two good muons of opposite charge."""
    plus, minus, soft, outside = (30.0, 0.5, 1), (25.0, -2.0, -1), (20.0, 0.1, -1), (40.0, -2.3, 1)
    cases = {
        "two good muons": ([plus, minus], True),
        "two good muons and one of 20 GeV": ([plus, soft, minus], True),
        "two good muons and one at eta = -2.3": ([outside, minus, plus], True),
        "two good muons of the same charge": ([plus, plus], False),
        "three good muons": ([plus, minus, plus], False),
        "four good muons, whose charges add up to 0": ([plus, minus, plus, minus], False),
        "a good muon and a soft one": ([plus, soft], False),
        "a good muon and one at eta = -2.3": ([minus, outside], False),
        "no muon": ([], False),
    }
    # Each case has different momenta, which identify its event. Exactly 20 GeV stays 20 GeV.
    events = events_of(
        [
            [(pt + k if pt > 20 else pt, eta, charge) for pt, eta, charge in muons]
            for k, (muons, _) in enumerate(cases.values())
        ]
    )
    got = function(events)
    _demand_records(got)
    found = got.tolist()
    expected = []
    for name, event in zip(cases, events.to_list(), strict=True):
        kept = [muon for muon in event if muon["pt"] > 20 and abs(muon["eta"]) < 2.1]
        if cases[name][1]:
            require(
                kept in found,
                f"an event with {name} should be kept, with only those two muons",
                look=_clue(event, found),
            )
            expected.append(kept)
        else:
            require(
                not any(part in found for part in (event, kept) if len(part) != 0),
                f"an event with {name} should be dropped",
                look="count the muons that are left *after* the cut, and keep the event only if their charges are +1 and -1",
            )
    require(
        found == expected,
        f"{many(len(found), 'event')} were kept where {len(expected)} should be",
        look="remove an event without a pair instead of keeping it as an empty list",
    )
    sample = _sample(3000, 102)
    good = sample[(sample.pt > 20) & (abs(sample.eta) < 2.1)]
    good = good[(ak.num(good) == 2) & (ak.prod(good.charge, axis=1) == -1)]
    got = function(sample)
    require(
        got.to_list() == good.to_list(),
        f"of 3,000 events {len(got)} are kept, with {ak.count(got.pt)} muons, but it should be "
        f"{len(good)} events with {ak.count(good.pt)} muons",
        look="keep muons with pt above 20 and eta between -2.1 and 2.1",
    )
    few, more = (lines_run(function, sample[:n]) for n in (10, 200))
    require(more < few + 100, f"right, but Python runs {more:,} lines for 200 events, so there is a loop",
            look="use masks in square brackets, first `muons[…]` and then `good[…]`")


def _demand_records(got):
    require(
        isinstance(got, ak.Array) and got.ndim == 2 and set(got.fields) >= {"pt", "eta", "charge"},
        f"the answer is {getattr(got, 'type', type(got).__name__)}, not lists of muons",
        look="write the masks in square brackets after the muons, as in `muons[…]`",
    )


def _clue(event: list, found: list) -> str:
    if event in found:
        return "remove the muons that fail the cut, but keep their event"
    if any(muon["eta"] < -2.1 for muon in event):
        return "`eta` has a limit on both sides, and the muons are counted after the cut"
    return "count the muons of an event after the cut on muons"


@exercise(
    "count-pairs",
    hints=(
        "The idea: every positive muon makes a pair with every negative one, and a muon that is not "
        "positive is negative.",
        "The shape: count the positive muons in a loop `for muon in muons[i]:`. After the loop, set "
        "`counts[i]` once, to a product.",
    ),
)
def count_pairs(kernel):
    """The number of pairs of opposite charge is right for every event and every grid."""
    charges = [[1, -1], [], [1, 1], [-1], [1, -1, 1], [-1, -1, -1], [1, -1, 1, -1, -1]]
    cases = [charges, [[]], [[1] * 20 + [-1] * 21, [], [-1, 1]], []]
    cases.append(_sample(500, 103).charge.to_list())
    for events in cases:
        device_events = events_of([[(30.0, 0.0, charge) for charge in event] for event in events])
        expected = np.array([event.count(1) * event.count(-1) for event in events], np.int32)
        for blocks in (len(events) // 64 + 1, 1):
            start = np.full(len(events), LEFTOVER, np.int32)
            _, got = launched(kernel, blocks, 64, device_events, start)
            wrong = np.flatnonzero(got != expected)
            if wrong.size:
                k = wrong[0]
                require(
                    got[k] != LEFTOVER,
                    f"counts[{k}] of an event with the charges {events[k]} was never written",
                    look="also write a number for an event without muons, which has 0 pairs"
                    if not events[k]
                    else "store a number for each event, after its muons are counted"
                    if k < 64 * blocks
                    else "let the loop over events reach this one, in steps of `cuda.gridsize(1)`",
                )
                require(
                    False,
                    f"an event with the charges {events[k]} has {expected[k]} pairs of opposite "
                    f"charge, but counts[{k}] is {got[k]}",
                    look="do not assume that `counts` holds zeros before the launch" if got[k] < 0 else
                    "only negative muons can be partners of a positive one",
                )
    require_parallel(kernel, 8, 64, events_of(EVEN), np.zeros(512, np.int32), items=512,
                     look=("let each thread count in its own events, with a grid-stride loop over the "
                "events"),
                     accesses=ACCESSES)


@exercise(
    "fill-hard",
    hints=(
        "The idea: the output index starts at the event's offset, and increases by 1 for each muon "
        "that you keep.",
        "The shape: set `place = offsets[i]` before the loop over muons. Inside the loop's `if`, store the "
        "`pt` in `pts[place]` and add 1 to `place`.",
    ),
)
def fill_hard(kernel):
    """Every muon that is kept is in its place and in order, without an atomic and without a gap."""
    random = np.random.default_rng(104)
    for counts in (*COUNTS, random.integers(0, 5, 300)):
        momenta = [random.choice([5.0, 12.0, 20.0, 35.0, 50.0], n).tolist() for n in counts]
        events = events_of([[(pt, 0.0, 1) for pt in event] for event in momenta])
        cut = float(random.choice([12.0, 20.0, 35.0]))
        kept = [[pt for pt in event if pt > cut] for event in momenta]
        offsets = np.concatenate([[0], np.cumsum([len(event) for event in kept], dtype=np.int64)])
        expected = np.array([pt for event in kept for pt in event], np.float32)
        for blocks in (len(momenta) // 64 + 1, 1):
            start = np.full(expected.size, LEFTOVER, np.float32)
            *_, got = launched(kernel, blocks, 64, events, cut, offsets, start, reads=3)
            wrong = np.flatnonzero(got != expected)
            if wrong.size:
                k = wrong[0]
                i = int(np.searchsorted(offsets, k, side="right")) - 1
                case = f"event {i} has the pt {momenta[i]}, and pts[{k}] belongs to it"
                require(
                    got[k] != LEFTOVER,
                    f"{case}, but was never written",
                    look="store the `pt` of each muon above the threshold"
                    if np.all(got == LEFTOVER)
                    else ("add 1 to the output index after each muon that you keep, and at no "
                "other time"),
                )
                require(
                    False,
                    f"{case}, but it is {got[k]:g}, not {expected[k]:g}",
                    look=("write the muons above the threshold in the order of the event, beginning at "
                "its offset"),
                )
    stored = counted(kernel, 5, 64, events, cut, offsets, np.zeros(expected.size, np.float32))
    require(
        stored.global_atomics == 0,
        f"the numbers are right, but the kernel made {stored.global_atomics} atomic updates",
        look="only one thread writes an event's muons, so it can count them without atomics",
    )
    require_parallel(kernel, 8, 64, events_of(EVEN), 20.0, 2 * np.arange(513),
                     np.zeros(1024, np.float32), items=512, accesses=ACCESSES,
                     look=("let each thread write the muons of its own events, with a grid-stride loop "
                "over the events"))


def events_of(events: list) -> ak.Array:
    """Return events of muons, given as (pt, eta, charge), in the layout of the course's files."""
    offsets = np.concatenate([[0], np.cumsum([len(event) for event in events], dtype=np.int64)])
    muons = [muon for event in events for muon in event]
    pt, eta, charge = np.array(muons, np.float64).reshape(-1, 3).T
    columns = [column.astype(np.float32) for column in (pt, eta, 0 * pt)]
    return ak.Array(jagged_muons(offsets, *columns, charge.astype(np.int32)))


def _sample(n: int, seed: int) -> ak.Array:
    from gpucourse.data import dimuons

    return dimuons(n, seed=seed).muons

"""Wrong answers to the exercises of "Jagged data", with what the check must say of each."""

from __future__ import annotations

import awkward as ak
import numpy as np

from wrong_answers import collection, swap

from numba import cuda  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("10_awkward_and_the_z")
ak.numba.register_and_check()

# --- owners -------------------------------------------------------------------------------------


@wrong("owners", "one number for each muon")
def counts_only(offsets):
    return np.diff(offsets)


@wrong("owners", "may be empty|one number for each muon")
def jumps(offsets):
    """Adds 1 where an event begins: two empty ones in a row count once."""
    begins = np.zeros(offsets[-1] - offsets[0], int)
    inside = offsets[1:-1] - offsets[0]
    begins[inside[inside < begins.size]] = 1
    return np.cumsum(begins)


@wrong("owners", "need not begin at 0")
def from_zero(offsets):
    return np.searchsorted(offsets, np.arange(offsets[-1]), side="right") - 1


@wrong("owners", "is assigned to event 1, but it belongs to event 0")
def one_too_many(offsets):
    counts = np.diff(offsets)
    return np.repeat(np.arange(1, counts.size + 1), counts)


@wrong("owners", "event -1, but it belongs to event 0.*offset is the first muon")
def on_the_wrong_side(offsets):
    return np.searchsorted(offsets, np.arange(offsets[0], offsets[-1])) - 1


# --- clean-pairs --------------------------------------------------------------------------------


@wrong("clean-pairs", "after the cut on muons")
def events_first(muons):
    muons = muons[(ak.num(muons) == 2) & (ak.sum(muons.charge, axis=1) == 0)]
    muons = muons[(muons.pt > 20) & (abs(muons.eta) < 2.1)]
    return muons[ak.num(muons) == 2]


@wrong("clean-pairs", "three good muons should be dropped|four good muons")
def two_or_more(muons):
    good = muons[(muons.pt > 20) & (abs(muons.eta) < 2.1)]
    return good[(ak.num(good) >= 2) & (abs(ak.sum(good.charge, axis=1)) <= 1)]


@wrong("clean-pairs", "four good muons, .* should be dropped")
def sum_of_charges_alone(muons):
    good = muons[(muons.pt > 20) & (abs(muons.eta) < 2.1)]
    return good[(ak.num(good) > 0) & (ak.sum(good.charge, axis=1) == 0)]


@wrong("clean-pairs", "same charge should be dropped")
def no_charges(muons):
    good = muons[(muons.pt > 20) & (abs(muons.eta) < 2.1)]
    return good[ak.num(good) == 2]


@wrong("clean-pairs", "two good muons and one of 20 GeV should be kept")
def twenty_is_enough(muons):
    good = muons[(muons.pt >= 20) & (abs(muons.eta) < 2.1)]
    return good[(ak.num(good) == 2) & (ak.sum(good.charge, axis=1) == 0)]


@wrong("clean-pairs", "eta = -2.3 .*limit on both sides")
def one_side_of_eta(muons):
    good = muons[(muons.pt > 20) & (muons.eta < 2.1)]
    return good[(ak.num(good) == 2) & (ak.sum(good.charge, axis=1) == 0)]


@wrong("clean-pairs", "remove the muons that fail the cut, but keep their event")
def masks_events_only(muons):
    good = (muons.pt > 20) & (abs(muons.eta) < 2.1)
    charge = ak.sum(muons.charge[good], axis=1)
    return muons[(ak.sum(good, axis=1) == 2) & (charge == 0)]


@wrong("clean-pairs", "ambiguous")
def uses_and(muons):
    return muons[muons.pt > 20 and abs(muons.eta) < 2.1]


@wrong("clean-pairs", "not lists of muons")
def mask_instead_of_muons(muons):
    return (muons.pt > 20) & (abs(muons.eta) < 2.1)


# --- count-pairs --------------------------------------------------------------------------------


@wrong("count-pairs", "partners of a positive one")
@cuda.jit(extensions=[ak.numba.cuda])
def all_pairs(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        n = len(muons[i])
        counts[i] = n * (n - 1) // 2


wrong("count-pairs", "partners of a positive one|holds zeros before", "fewer of the two")(
    swap("event = muons[i]\n        for muon in event", "for muon in muons[i]"),
    swap("positive * (len(event", "min(positive, len(muons[i]"))


@wrong("count-pairs", "holds zeros before")
@cuda.jit(extensions=[ak.numba.cuda])
def adds_to_what_is_there(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        for one in muons[i]:
            for other in muons[i]:
                if one.charge > 0 and other.charge < 0:
                    counts[i] += 1


@wrong("count-pairs", "never written.*has 0 pairs")
@cuda.jit(extensions=[ak.numba.cuda])
def skips_the_empty(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        if len(muons[i]) > 0:
            positive = 0
            for muon in muons[i]:
                if muon.charge > 0:
                    positive += 1
            counts[i] = positive * (len(muons[i]) - positive)


@wrong("count-pairs", "charges .* pairs of opposite|never written")
@cuda.jit(extensions=[ak.numba.cuda])
def neighbours_only(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        found = 0
        for j in range(1, len(muons[i])):
            if muons[i][j].charge != muons[i][j - 1].charge:
                found += 1
        counts[i] = found


@wrong("count-pairs", "never written")
@cuda.jit(extensions=[ak.numba.cuda])
def returns_early(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        if len(muons[i]) == 0:
            counts[i] = 0
            return
        positive = 0
        for muon in muons[i]:
            if muon.charge > 0:
                positive += 1
        counts[i] = positive * (len(muons[i]) - positive)


@wrong("count-pairs", r"counts\[64\] .*never written.*in steps of")
@cuda.jit(extensions=[ak.numba.cuda])
def no_stride(muons, counts):
    i = cuda.grid(1)
    if i < len(muons):
        positive = 0
        for muon in muons[i]:
            if muon.charge > 0:
                positive += 1
        counts[i] = positive * (len(muons[i]) - positive)


@wrong("count-pairs", r"charges \[1, -1\] was never written.*after its muons are counted")
@cuda.jit(extensions=[ak.numba.cuda])
def starter_writes_nothing(muons, counts):
    pass


# --- fill-hard ----------------------------------------------------------------------------------


@wrong("fill-hard", "never written|illegal address|race: ")
@cuda.jit(extensions=[ak.numba.cuda])
def leaves_gaps(muons, threshold, offsets, pts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        for j, muon in enumerate(muons[i]):
            if muon.pt > threshold:
                pts[offsets[i] + j] = muon.pt


wrong("fill-hard", "race: |illegal address|it is .*, not |never written", "at or above")(
    swap("> threshold", ">= threshold"))


@wrong("fill-hard", "never written|illegal address")
@cuda.jit(extensions=[ak.numba.cuda])
def one_beyond(muons, threshold, offsets, pts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        place = offsets[i]
        for muon in muons[i]:
            if muon.pt > threshold:
                place += 1
                pts[place] = muon.pt


wrong("fill-hard", "in the order of the event", "from the back")(
    swap("offsets[i]", "offsets[i + 1]"),
    swap("threshold:", "threshold:\n                place -= 1"),
    swap("place += 1", "pass"))
wrong("fill-hard", "race: |not .*beginning at its offset|never written", "everyone from zero")(
    swap("    for i in range", "    place = 0\n    for i in range"),
    swap("place = offsets[i]", "pass"))
wrong("fill-hard", "atomic updates", "atomic for a private place")(
    swap("pts[place] = muon.pt", "cuda.atomic.add(pts, place, muon.pt - pts[place])"))


@wrong("fill-hard", "never written.*store the `pt` of each muon")
@cuda.jit(extensions=[ak.numba.cuda])
def stores_nothing(muons, threshold, offsets, pts):
    pass


wrong("fill-hard", "belongs to it, but was never written.*add 1 to the output index", "all in one place")(
    swap("place = offsets[i]", "pass"),
    swap("place] = muon.pt\n                place += 1", "offsets[i]] = muon.pt"))


@wrong("owners", "Python runs .* lines for 200 events, so there is a loop")
def a_loop_over_events(offsets):
    offsets = [int(one) for one in offsets]
    return np.array([event for event in range(len(offsets) - 1)
                     for _ in range(offsets[event], offsets[event + 1])], np.int64)


@wrong("clean-pairs", "Python runs .* lines for 200 events, so there is a loop")
def a_loop_over_events_and_muons(muons):
    made = []
    for event in muons:
        good = [m for m in event.tolist() if m["pt"] > 20 and abs(m["eta"]) < 2.1]
        if len(good) == 2 and good[0]["charge"] != good[1]["charge"]:
            made.append(good)
    return ak.Array(made) if made else muons[:0]


wrong("count-pairs", "the work is not shared", "one thread for every event")(
    swap("for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):",
         "for i in range(len(muons) if cuda.grid(1) == 0 else 0):"))
wrong("fill-hard", "the work is not shared", "one thread for every event")(
    swap("for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):",
         "for i in range(len(muons) if cuda.grid(1) == 0 else 0):"))
wrong("fill-hard", "it is .*, not |never written|race: |illegal address", "the threshold of the example")(
    swap("muon.pt > threshold", "muon.pt > 20"))


@wrong("fill-hard", "the kernel changes offsets, which is an input")
@cuda.jit(extensions=[ak.numba.cuda])
def counts_on_in_the_offsets(muons, threshold, offsets, pts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        for muon in muons[i]:
            if muon.pt > threshold:
                pts[offsets[i]] = muon.pt
                offsets[i] += 1

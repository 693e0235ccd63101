"""Right answers to the exercises of "Jagged data" in other styles than the lecture's."""

from __future__ import annotations

import awkward as ak
import numpy as np

from wrong_answers import other_styles

from numba import cuda  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("10_awkward_and_the_z")


@right("owners")
def by_a_search(offsets):
    muons = np.arange(offsets[0], offsets[-1])
    return np.searchsorted(offsets, muons, side="right") - 1


@right("owners")
def by_a_running_sum(offsets):
    begins = np.zeros(offsets[-1] - offsets[0] + 1, np.int64)
    np.add.at(begins, offsets[1:-1] - offsets[0], 1)
    return begins.cumsum()[:-1]


@right("clean-pairs")
def by_a_product_of_charges(muons):
    good = muons[abs(muons.eta) < 2.1]
    good = good[good.pt > 20]
    good = good[ak.num(good) == 2]
    return good[ak.prod(good.charge, axis=1) < 0]


@right("clean-pairs")
def by_num_of_charges(muons):
    mask = (muons["pt"] > 20) & (muons["eta"] > -2.1) & (muons["eta"] < 2.1)
    good = muons[mask]
    ups, downs = ak.sum(good.charge > 0, axis=-1), ak.sum(good.charge < 0, axis=-1)
    return good[(ups == 1) & (downs == 1)]


@right("count-pairs")
@cuda.jit(extensions=[ak.numba.cuda])
def counts_both(muons, counts):
    i = cuda.grid(1)
    while i < len(counts):
        plus = minus = 0
        for muon in muons[i]:
            if muon.charge == 1:
                plus += 1
            else:
                minus += 1
        counts[i] = plus * minus
        i += cuda.gridsize(1)


@right("count-pairs")
@cuda.jit(extensions=[ak.numba.cuda])
def every_pair_of_two_loops(muons, counts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        event, found = muons[i], 0
        for a in range(len(event)):
            for b in range(a):
                if event[a].charge != event[b].charge:
                    found += 1
        counts[i] = found


@right("fill-hard")
@cuda.jit(extensions=[ak.numba.cuda])
def by_index(muons, threshold, offsets, pts):
    for i in range(cuda.grid(1), len(muons), cuda.gridsize(1)):
        kept = 0
        for k in range(len(muons[i])):
            pt = muons[i][k].pt
            if pt > threshold:
                pts[offsets[i] + kept] = pt
                kept += 1


@right("fill-hard")
@cuda.jit(extensions=[ak.numba.cuda])
def stops_when_full(muons, threshold, offsets, pts):
    i = cuda.grid(1)
    while i < len(muons):
        place, end = offsets[i], offsets[i + 1]
        for muon in muons[i]:
            if place < end and not muon.pt <= threshold:
                pts[place] = muon.pt
                place += 1
        i += cuda.gridsize(1)

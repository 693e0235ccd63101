"""Wrong answers that people really give, each with the reason that the grader must find.

``fails`` lists every test cell that must fail; the reason of the first must contain ``reason``.
Cells that are not named are those of the solution. A mistake in one or two places is written as the
solution with these changed, ``changed(cell, old, new)``; an answer that goes about it in another way
is written out.
"""

from gpucourse.course.edited import edits_beside

changed = edits_beside(__file__)

# Stand below the learner's function in its cell and are given.
FIND_MASSES = '''

@cuda.jit
def find_masses(pt1, eta1, phi1, pt2, eta2, phi2, masses):
    i = cuda.grid(1)
    if i < masses.size:
        masses[i] = pair_mass(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])
'''
FIRST_MASS = '''@cuda.jit(device=True)
def first_mass(muons):
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    return math.nan
'''
FIRST_PAIR = '''

@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = first_mass(events[i].muons)
'''
NEAREST_Z = '''

@cuda.jit(extensions=[ak.numba.cuda])
def nearest_z(events, masses):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = best_mass(events[i].muons)
'''
BIN_INDEX = '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    if value < high:
        return min(int((value - low) / (high - low) * bins) + 1, bins)
    return bins + 1


'''

HESSIAN = "hessian = jax.jit(jax.hessian(nll))\n\n\n"
GRADIENT = "compiled_nll, gradient = jax.jit(nll), jax.jit(jax.grad(nll))\n\n\n"

# Those that go on from a wrong mass.
MASS_TESTS = [
    "test-pair-mass", "test-first-pair", "test-best-mass", "test-fill-events", "test-the-z",
]
MODEL_TESTS = ["test-expected-counts", "test-nll", "test-uncertainties", "test-fit", "test-the-z"]

WRONG = [
    # -- count_muons and sum_pt ----------------------------------------------------------------
    {
        "name": "one-event-per-thread",
        "kind": "grid smaller than the data",
        "fails": ["test-count-muons"],
        "reason": "fewer threads than events",
        "cells": changed("count-muons", "    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):",
            '''    i = cuda.grid(1)
    if i < len(events):'''),
    },
    {
        "name": "a-chunk-of-events-per-thread",
        "kind": "correct but uncoalesced",
        "fails": ["test-count-muons"],
        "reason": "neighbouring threads do not have neighbouring events",
        "cells": changed("count-muons", "    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):",
            '''    chunk = (len(events) + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    begin = cuda.grid(1) * chunk
    for i in range(begin, min(begin + chunk, len(events))):'''),
    },
    {
        "name": "without-the-extension",
        "kind": "Awkward Arrays unknown to the kernel",
        "fails": ["test-count-muons"],
        "reason": "extensions=[ak.numba.cuda]",
        "cells": changed("count-muons", "(extensions=[ak.numba.cuda])", ""),
    },
    {
        "name": "one-thread-counts-all-muons",
        "kind": "one thread does everything",
        "fails": ["test-count-muons"],
        "reason": "one thread does the work of many",
        "cells": {"count-muons": '''@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    if cuda.grid(1) == 0:
        for i in range(len(events)):
            counts[i] = len(events[i].muons)
'''},
    },
    {
        "name": "one-thread-sums-for-its-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-sum-pt"],
        "reason": "one thread does the work of many",
        "cells": {"sum-pt": '''@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    if cuda.threadIdx.x == 0:
        for i in range(cuda.blockIdx.x, len(events), cuda.gridDim.x):
            total = 0.0
            for muon in events[i].muons:
                total += muon.pt
            sums[i] = total
'''},
    },
    {
        "name": "every-fourth-thread-counts",
        "kind": "some threads do the work of all",
        "fails": ["test-count-muons"],
        "reason": "one thread does the work of many",
        "cells": {"count-muons": '''@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    me = cuda.grid(1)
    if me % 4 == 0:
        for first in range(me, len(events), cuda.gridsize(1)):
            for i in range(first, min(first + 4, len(events))):
                counts[i] = len(events[i].muons)
'''},
    },
    {
        "name": "half-of-the-warps-counts",
        "kind": "some threads do the work of all",
        "fails": ["test-count-muons"],
        "reason": "1.5 times as many accesses to memory",
        "cells": {"count-muons": '''@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    if cuda.threadIdx.x // 32 % 2 == 0:
        for j in (0, 32):
            if cuda.threadIdx.x + j < cuda.blockDim.x:
                for i in range(cuda.grid(1) + j, len(events), cuda.gridsize(1)):
                    counts[i] = len(events[i].muons)
'''},
    },
    {
        "name": "one-thread-in-four-sums",
        "kind": "some threads do the work of all",
        "fails": ["test-sum-pt"],
        "reason": "one thread does the work of many",
        "cells": {"sum-pt": '''@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    me = cuda.grid(1)
    if me % 4 == 0:
        for first in range(me, len(events), cuda.gridsize(1)):
            for i in range(first, min(first + 4, len(events))):
                total = 0.0
                for muon in events[i].muons:
                    total += muon.pt
                sums[i] = total
'''},
    },
    {
        "name": "zeroes-without-a-guard",
        "kind": "out of bounds",
        "fails": ["test-sum-pt"],
        "reason": "outside",
        "cells": {"sum-pt": '''@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    sums[cuda.grid(1)] = 0.0
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        total = 0.0
        for muon in events[i].muons:
            total += muon.pt
        sums[i] = total
'''},
    },
    {
        "name": "nothing-for-empty-events",
        "kind": "empty events left out",
        "fails": ["test-sum-pt"],
        "reason": "an event without muons does not have the sum 0",
        # Stores after each muon, so an event without muons is never stored.
        "cells": changed("sum-pt", "        sums[i] = total", "            sums[i] = total"),
    },
    {
        "name": "sum-of-vectors",
        "kind": "vector sum for scalar sum",
        "fails": ["test-sum-pt"],
        "reason": "muons back to back do not cancel",
        "cells": changed("sum-pt", "total =",
            "x = y =",
            '''            total += muon.pt
        sums[i] = total''',
            '''            x += muon.pt * math.cos(muon.phi)
            y += muon.pt * math.sin(muon.phi)
        sums[i] = math.sqrt(x * x + y * y)'''),
    },
    # -- pair_mass -----------------------------------------------------------------------------
    {
        "name": "degrees-for-radians",
        "kind": "degrees for radians",
        "fails": MASS_TESTS,
        "reason": "back to back",
        "cells": changed("pair-mass", "phi1 - phi2", "(phi1 - phi2) * math.pi / 180"),
    },
    {
        "name": "eta-for-theta",
        "kind": "η for θ",
        "fails": MASS_TESTS,
        "reason": "pseudorapidity is not an angle",
        # As if eta were the angle from the plane across the beam.
        "cells": {"pair-mass": '''@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    pz1, pz2 = pt1 * math.tan(eta1), pt2 * math.tan(eta2)
    e1, e2 = math.sqrt(pt1**2 + pz1**2), math.sqrt(pt2**2 + pz2**2)
    dot = pt1 * pt2 * math.cos(phi1 - phi2) + pz1 * pz2
    return math.sqrt(max(2.0 * (e1 * e2 - dot), 0.0))
''' + FIND_MASSES},
    },
    {
        "name": "mass-squared",
        "kind": "root forgotten",
        "fails": MASS_TESTS,
        "reason": "back to back",
        "cells": {"pair-mass": '''@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return 2.0 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2))
''' + FIND_MASSES},
    },
    {
        "name": "transverse-mass",
        "kind": "only the transverse plane",
        "fails": MASS_TESTS,
        "reason": "differ only in eta",
        "cells": {"pair-mass": '''@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return math.sqrt(2.0 * pt1 * pt2 * (1.0 - math.cos(phi1 - phi2)))
''' + FIND_MASSES},
    },
    # -- first_pair ----------------------------------------------------------------------------
    {
        "name": "same-sign-pair",
        "kind": "same-sign pair",
        "fails": ["test-first-pair"],
        "reason": "two muons of the same charge are taken for a pair",
        "cells": changed("first-pair", '''            if one.charge != other.charge:
                return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)''',
            "            return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)"),
    },
    {
        "name": "only-the-first-two-muons",
        "kind": "only the first two muons",
        "fails": ["test-first-pair"],
        "reason": "is not found among three muons",
        "cells": {"first-pair": '''@cuda.jit(device=True)
def first_mass(muons):
    if len(muons) >= 2:
        one, other = muons[0], muons[1]
        if one.charge != other.charge:
            return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    return math.nan
''' + FIRST_PAIR},
    },
    {
        "name": "indexes-a-muon-that-is-not-there",
        "kind": "index past the end of an event",
        "fails": ["test-first-pair"],
        "reason": "a mass that is not NaN",
        # The thread ends there, and its masses stay what they were.
        "cells": {"first-pair": '''@cuda.jit(device=True)
def first_mass(muons):
    one, other = muons[0], muons[1]
    if one.charge != other.charge:
        return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    return math.nan
''' + FIRST_PAIR},
    },
    {
        "name": "break-ends-one-loop",
        "kind": "last pair for first pair",
        "fails": ["test-first-pair"],
        "reason": "is not found among three muons",
        "cells": {"first-pair": '''@cuda.jit(device=True)
def first_mass(muons):
    mass = math.nan
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                mass = pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
                break
    return mass
''' + FIRST_PAIR},
    },
    {
        "name": "returns-from-the-kernel",
        "kind": "return in a grid-stride loop",
        "fails": ["test-first-pair"],
        "reason": "when threads have several each",
        # Right as long as every thread has one event only.
        "cells": {"first-pair": '''@cuda.jit(device=True)
def first_mass(muons):
    return 0.0


@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = math.nan
        muons = events[i].muons
        for j, one in enumerate(muons):
            for other in muons[j + 1 :]:
                if one.charge != other.charge:
                    masses[i] = pair_mass(one.pt, one.eta, one.phi,
                                          other.pt, other.eta, other.phi)
                    return
'''},
    },
    {
        "name": "one-thread-finds-every-first-pair",
        "kind": "one thread does everything",
        "fails": ["test-first-pair"],
        "reason": "is serial: one thread does the work of many",
        "cells": changed("first-pair", '''    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = first_mass(events[i].muons)''',
            '''    if cuda.grid(1) == 0:
        for i in range(len(events)):
            masses[i] = first_mass(events[i].muons)'''),
    },
    {
        "name": "one-in-two-finds-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-first-pair"],
        "reason": "when a thread is alone",
        "cells": {"first-pair": FIRST_MASS + '''

@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 2, len(events), (G + 1) // 2):
        mass = first_mass(events[i].muons)
        if g % 2 == 0:
            masses[i] = mass
'''},
    },
    {
        "name": "zero-for-no-pair",
        "kind": "missing pair → 0",
        "fails": ["test-first-pair"],
        "reason": "two muons of the same charge are taken for a pair",
        "cells": changed("first-pair", "math.nan", "0.0"),
    },
    # -- best_mass -----------------------------------------------------------------------------
    {
        "name": "first-for-best",
        "kind": "first pair for the nearest",
        "fails": ["test-best-mass", "test-fill-events", "test-the-z"],
        "reason": "when it is not the first two muons",
        "cells": {"best-mass": '''@cuda.jit(device=True)
def best_mass(muons):
    return first_mass(muons)
''' + NEAREST_Z},
    },
    {
        "name": "neighbours-only",
        "kind": "only neighbouring muons",
        "fails": ["test-best-mass", "test-fill-events", "test-the-z"],
        "reason": "of two pairs, the nearer is not taken",
        "cells": {"best-mass": '''@cuda.jit(device=True)
def best_mass(muons):
    best = math.nan
    least = math.inf
    for j in range(len(muons) - 1):
        one, other = muons[j], muons[j + 1]
        if one.charge != other.charge:
            mass = pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
            if abs(mass - Z_MASS) < least:
                least = abs(mass - Z_MASS)
                best = mass
    return best
''' + NEAREST_Z},
    },
    {
        "name": "lightest-pair",
        "kind": "difference for distance",
        "fails": ["test-best-mass", "test-fill-events", "test-the-z"],
        "reason": "when it is not the first two muons",
        # Without abs: the least of mass - Z_MASS is the lightest pair.
        "cells": changed("best-mass", '''                if abs(mass - Z_MASS) < least:
                    least = abs(mass - Z_MASS)''',
            '''                if mass - Z_MASS < least:
                    least = mass - Z_MASS'''),
    },
    {
        "name": "any-charge",
        "kind": "same-sign pair among others",
        "fails": ["test-best-mass", "test-fill-events"],
        "reason": "two muons of the same charge are taken for a pair",
        "cells": {"best-mass": '''@cuda.jit(device=True)
def best_mass(muons):
    best = math.nan
    least = math.inf
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            mass = pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
            if abs(mass - Z_MASS) < least:
                least = abs(mass - Z_MASS)
                best = mass
    return best
''' + NEAREST_Z},
    },
    {
        "name": "a-nan-that-stays",
        "kind": "NaN hides a good pair",
        "fails": ["test-best-mass"],
        "reason": "hides the good pair",
        # The first pair counts whatever its mass is, and nothing is nearer than NaN.
        "cells": {"best-mass": '''@cuda.jit(device=True)
def best_mass(muons):
    best = math.nan
    found = False
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                mass = pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
                if not found or abs(mass - Z_MASS) < abs(best - Z_MASS):
                    best = mass
                    found = True
    return best
''' + NEAREST_Z},
    },
    # -- fill_masses ---------------------------------------------------------------------------
    {
        "name": "as-in-project-1",
        "kind": "missing pair → NaN in the histogram",
        "fails": ["test-fill-masses"],
        "reason": "whose mass is NaN, are counted somewhere",
        "cells": changed("fill-masses", '''        mass = masses[i]
        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)''',
            "        cuda.atomic.add(mine, bin_index(masses[i], low, high, slots - 2), 1)"),
    },
    {
        "name": "one-thread-fills-for-its-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-fill-masses"],
        "reason": "one thread does the work of many",
        "cells": {"fill-masses": BIN_INDEX + '''@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    if cuda.threadIdx.x == 0:
        for slot in range(counts.size):
            mine[slot] = 0
        for i in range(cuda.blockIdx.x, masses.size, cuda.gridDim.x):
            if not math.isnan(masses[i]):
                mine[bin_index(masses[i], low, high, counts.size - 2)] += 1
        for slot in range(counts.size):
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "a-quarter-of-the-threads-fills",
        "kind": "some threads do the work of all",
        "fails": ["test-fill-masses"],
        "reason": "one thread does the work of many",
        "cells": {"fill-masses": BIN_INDEX + '''@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots, workers = counts.size, (cuda.blockDim.x + 3) // 4
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    if cuda.threadIdx.x < workers:
        me = cuda.blockIdx.x * workers + cuda.threadIdx.x
        for i in range(me, masses.size, workers * cuda.gridDim.x):
            if not math.isnan(masses[i]):
                cuda.atomic.add(mine, bin_index(masses[i], low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "every-block-reads-all-masses",
        "kind": "the same work in every block",
        "fails": ["test-fill-masses"],
        "reason": "masses are read several times",
        "cells": {"fill-masses": BIN_INDEX + '''@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, masses.size, cuda.blockDim.x):
        if not math.isnan(masses[i]):
            slot = bin_index(masses[i], low, high, counts.size - 2)
            if slot % cuda.gridDim.x == cuda.blockIdx.x:
                cuda.atomic.add(mine, slot, 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "a-chunk-of-masses-per-thread",
        "kind": "correct but uncoalesced",
        "fails": ["test-fill-masses"],
        "reason": "neighbouring threads read masses that lie far apart",
        "cells": {"fill-masses": BIN_INDEX + '''@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    chunk = (masses.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    begin = cuda.grid(1) * chunk
    for i in range(begin, min(begin + chunk, masses.size)):
        if not math.isnan(masses[i]):
            cuda.atomic.add(mine, bin_index(masses[i], low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "returns-at-the-first-nan",
        "kind": "return in a grid-stride loop",
        "fails": ["test-fill-masses"],
        "reason": "pairs are lost",
        # As one leaves a kernel with one value for each thread.
        "cells": changed("fill-masses", '''        mass = masses[i]
        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)''',
            '''        if math.isnan(masses[i]):
            return
        cuda.atomic.add(mine, bin_index(masses[i], low, high, slots - 2), 1)'''),
    },
    # -- fill_events ---------------------------------------------------------------------------
    {
        "name": "no-pair-as-overflow",
        "kind": "missing pair → NaN in the histogram",
        "fails": ["test-fill-events"],
        "reason": "whose mass is NaN, are counted somewhere",
        "cells": changed("fill-events", '''        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)''',
            "        cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)"),
    },
    {
        "name": "one-lane-of-each-warp-has-events",
        "kind": "one thread of each warp does everything",
        "fails": ["test-fill-events"],
        "reason": "one thread does the work of many",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    if cuda.laneid == 0:
        for i in range(cuda.grid(1) // 32, len(events), cuda.gridsize(1) // 32):
            mass = best_mass(events[i].muons)
            if not math.isnan(mass):
                cuda.atomic.add(mine, bin_index(mass, low, high, counts.size - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "half-of-the-warps-have-events",
        "kind": "some threads do the work of all",
        "fails": ["test-fill-events"],
        "reason": "1.5 times as many accesses to memory",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    if cuda.threadIdx.x // 32 % 2 == 0:
        for j in (0, 32):
            if cuda.threadIdx.x + j < cuda.blockDim.x:
                for i in range(cuda.grid(1) + j, len(events), cuda.gridsize(1)):
                    mass = best_mass(events[i].muons)
                    if not math.isnan(mass):
                        cuda.atomic.add(mine, bin_index(mass, low, high, counts.size - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "straight-to-global-memory",
        "kind": "correct but with one global atomic per event",
        "fails": ["test-fill-events"],
        "reason": "more atomic additions to global memory",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        mass = best_mass(events[i].muons)
        if not math.isnan(mass):
            cuda.atomic.add(counts, bin_index(mass, low, high, counts.size - 2), 1)
'''},
    },
    {
        "name": "counts-before-all-is-zero",
        "kind": "missing barrier",
        "fails": ["test-fill-events", "test-the-z"],
        "reason": "race",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        mass = best_mass(events[i].muons)
        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "only-events-with-two-muons",
        "kind": "only the first two muons",
        "fails": ["test-fill-events", "test-the-z"],
        "reason": "some events with a pair are not counted",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        muons = events[i].muons
        if len(muons) == 2:
            mass = best_mass(muons)
            if not math.isnan(mass):
                cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "numbers-of-16-bits-are-enough",
        "kind": "grid smaller than the data",
        "fails": ["test-the-z"],
        "reason": "the errors of mass and width are wrong",
        # Enough for a few thousand events; of 50,000 it leaves out every third.
        "cells": changed("fill-events", "len(events",
            "min(len(events), 1 << 15"),
    },
    # -- break_even ----------------------------------------------------------------------------
    {
        "name": "a-tie-pays",
        "kind": "off by one",
        "fails": ["test-break-even"],
        "reason": "a tie counts as fewer",
        "cells": {"break-even": '''def break_even(on_the_fly, store, refill):
    if refill >= on_the_fly:
        return None
    return math.ceil(store / (on_the_fly - refill))
'''},
    },
    {
        "name": "whole-numbers-by-floats",
        "kind": "rounding of large whole numbers",
        "fails": ["test-break-even"],
        "reason": "wrong for large whole numbers",
        "cells": {"break-even": '''def break_even(on_the_fly, store, refill):
    if refill >= on_the_fly:
        return None
    return int(store / (on_the_fly - refill)) + 1
'''},
    },
    # -- nearest_on_cpu ------------------------------------------------------------------------
    {
        "name": "drops-events-without-a-pair",
        "kind": "events without a pair dropped",
        "fails": ["test-nearest-on-cpu"],
        "reason": "not one number for each event",
        "cells": {"nearest-on-cpu": '''def nearest_on_cpu(events):
    masses = pair_masses(events.muons, mass=0.0)
    index = ak.argmin(abs(masses - Z_MASS), axis=1, keepdims=True)
    return ak.to_numpy(ak.drop_none(ak.firsts(masses[index])))
'''},
    },
    {
        "name": "the-kernel-checks-itself",
        "kind": "a check by what is to be checked",
        "fails": ["test-nearest-on-cpu"],
        "reason": "a kernel is launched: it would agree with itself",
        "cells": {"nearest-on-cpu": '''def nearest_on_cpu(events):
    masses = cuda.device_array(len(events), np.float64)
    nearest_z[64, 128](ak.to_backend(events, "cuda"), masses)
    return masses.copy_to_host()
'''},
    },
    {
        "name": "combinations-of-any-charge",
        "kind": "same-sign pair",
        "fails": ["test-nearest-on-cpu"],
        "reason": "wrong events have a pair",
        "cells": {"nearest-on-cpu": '''def nearest_on_cpu(events):
    masses = pair_masses(events.muons, charges="any", mass=0.0)
    index = ak.argmin(abs(masses - Z_MASS), axis=1, keepdims=True)
    return ak.to_numpy(ak.fill_none(ak.firsts(masses[index]), math.nan))
'''},
    },
    # -- expected_counts -----------------------------------------------------------------------
    {
        "name": "no-detector",
        "kind": "resolution left out",
        "fails": MODEL_TESTS,
        "reason": "12.6% mean no detector",
        "cells": {"expected-counts": '''def expected_counts(parameters, edges):
    mass, width, zs, others = parameters
    cumulative = jnp.arctan((edges**2 - mass**2) / (mass * width)) / jnp.pi
    falling = -jnp.diff(edges**-2.0)
    return zs * jnp.diff(cumulative) + others * falling / falling.sum()
'''},
    },
    {
        "name": "others-not-normalised",
        "kind": "background without its scale",
        "fails": MODEL_TESTS[:-1],
        "reason": "do not add up to B",
        "cells": changed("expected-counts", '''    from_z = jnp.diff(cumulative @ WEIGHTS)
    falling = -jnp.diff(edges**-2.0)
    return zs * from_z + others * falling / falling.sum()''',
            "    return zs * jnp.diff(cumulative @ WEIGHTS) - others * jnp.diff(edges**-2.0)"),
    },
    {
        "name": "numpy-in-place-of-jax",
        "kind": "NumPy in place of JAX",
        "fails": MODEL_TESTS,
        "reason": "TracerArrayConversionError",
        "cells": {"expected-counts": '''def expected_counts(parameters, edges):
    mass, width, zs, others = parameters
    true = edges[:, None] * np.exp(-SIGMA * NODES)
    cumulative = np.arctan((true**2 - mass**2) / (mass * width)) / np.pi
    falling = -np.diff(edges**-2.0)
    return zs * np.diff(cumulative @ WEIGHTS) + others * falling / falling.sum()
'''},
    },
    {
        "name": "a-loop-over-the-nodes",
        "kind": "a loop of Python in place of arrays",
        "fails": ["test-expected-counts"],
        "reason": "a loop of Python over the nodes",
        "cells": {"expected-counts": '''def expected_counts(parameters, edges):
    mass, width, zs, others = parameters
    cumulative = 0.0
    for node, weight in zip(NODES, WEIGHTS):
        true = edges * jnp.exp(-SIGMA * node)
        cumulative += weight * jnp.arctan((true**2 - mass**2) / (mass * width)) / jnp.pi
    falling = -jnp.diff(edges**-2.0)
    return zs * jnp.diff(cumulative) + others * falling / falling.sum()
'''},
    },
    # -- nll -----------------------------------------------------------------------------------
    {
        "name": "a-loop-over-the-bins",
        "kind": "a loop of Python in place of arrays",
        "fails": ["test-nll"],
        "reason": "a loop of Python over the bins",
        "cells": changed("nll", "    return jnp.sum(expected - counts * jnp.log(expected))",
            '''    terms = expected - counts * jnp.log(expected)
    return sum(terms[k] for k in range(counts.size))'''),
    },
    {
        "name": "a-loop-over-more-bins-than-there-are",
        "kind": "a loop of Python in place of arrays",
        "fails": ["test-nll"],
        "reason": "a loop of Python over the bins",
        # As many iterations whatever the number of bins.
        "cells": {"nll": '''def nll(parameters, edges, counts):
    expected, total = expected_counts(parameters, edges), 0.0
    expected = jnp.pad(expected, (0, 120), constant_values=1.0)
    padded = jnp.pad(counts, (0, 120))
    for i in range(120):
        one = expected[i] - padded[i] * jnp.log(expected[i])
        total = total + jnp.where(i < len(counts), one, 0.0)
    return total
'''},
    },
    {
        "name": "mean-for-sum",
        "kind": "mean in place of a sum",
        "fails": ["test-nll", "test-uncertainties", "test-fit", "test-the-z"],
        "reason": "the sum over the bins is wrong",
        # The minimum stays where it is; the errors come out eleven times too large.
        "cells": changed("nll", "sum(expected", "mean(expected"),
    },
    {
        "name": "shape-only",
        "kind": "the total left out of the likelihood",
        "fails": ["test-nll", "test-uncertainties", "test-fit", "test-the-z"],
        "reason": "the sum over the bins is wrong",
        "cells": changed(
            "nll",
            "jnp.sum(expected - counts * jnp.log(expected",
            "-jnp.sum(counts * jnp.log(expected / expected.sum()",
        ),
    },
    # -- uncertainties and fit -----------------------------------------------------------------
    {
        "name": "errors-without-correlations",
        "kind": "correlations left out of the errors",
        "fails": ["test-uncertainties", "test-the-z"],
        "reason": "if the other three parameters were known",
        "cells": {"uncertainties": HESSIAN + '''def uncertainties(parameters, edges, counts):
    return 1 / jnp.sqrt(jnp.diag(hessian(parameters, edges, counts)))
'''},
    },
    {
        "name": "variances-for-errors",
        "kind": "root forgotten",
        "fails": ["test-uncertainties", "test-fit", "test-the-z"],
        "reason": "the errors for 9,000 Zs are wrong",
        "cells": {"uncertainties": HESSIAN + '''def uncertainties(parameters, edges, counts):
    return jnp.diag(jnp.linalg.inv(hessian(parameters, edges, counts)))
'''},
    },
    {
        "name": "one-step-of-newton",
        "kind": "not converged",
        "fails": ["test-fit"],
        "reason": "do not give them back",
        "cells": {"fit": GRADIENT + '''def fit(edges, counts):
    parameters = start(edges, counts)
    slope = gradient(parameters, edges, counts)
    curvature = hessian(parameters, edges, counts)
    parameters = parameters - jnp.linalg.solve(curvature, slope)
    return parameters, uncertainties(parameters, edges, counts)
'''},
    },
    {
        "name": "hard-coded-answer",
        "kind": "hard-coded output",
        "fails": ["test-fit"],
        "reason": "do not give them back",
        # What the fit gives for the bundled sample, or rather what the books say.
        "cells": {"fit": GRADIENT + '''def fit(edges, counts):
    total = float(np.sum(counts))
    parameters = np.array([Z_MASS, Z_WIDTH, 0.96 * total, 0.04 * total])
    return parameters, uncertainties(parameters, edges, counts)
'''},
    },
    # -- threads that only look busy ---------------------------------------------------------------
    {
        "name": "one-in-two-counts-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-count-muons"],
        "reason": "when a thread is alone",
        "cells": {"count-muons": '''@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 2, len(events), (G + 1) // 2):
        n = len(events[i].muons)
        if g % 2 == 0 or n < 0:
            counts[i] = n
'''},
    },
    {
        "name": "three-in-four-add-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-sum-pt"],
        "reason": "when a thread is alone",
        "cells": changed("sum-pt", "    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):",
            '''    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 4, len(events), (G + 3) // 4):''',
            "        sums[i] = total",
            '''        if g % 4 == 0 or total < -1.0:
            sums[i] = total'''),
    },
    {
        "name": "one-in-two-reads-masses-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-fill-masses"],
        "reason": "when a thread is alone",
        "cells": {"fill-masses": '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    if value < high:
        return min(int((value - low) / (high - low) * bins) + 1, bins)
    return bins + 1

@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 2, masses.size, (G + 1) // 2):
        mass = masses[i]
        if g % 2 == 0 and not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
        elif mass == -1.25e300:
            cuda.atomic.add(mine, 0, 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "three-in-four-look-at-events-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-fill-events"],
        "reason": "when a thread is alone",
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 4, len(events), (G + 4 - 1) // 4):
        mass = best_mass(events[i].muons)
        if g % 4 == 0 and not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
        elif mass == -1.25e300:
            cuda.atomic.add(mine, 0, 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "lane-0-bins-the-masses-of-its-warp",
        "kind": "one lane does its warp's work",
        "fails": ["test-fill-masses"],
        "reason": "shares its work unevenly",
        "cells": {"fill-masses": BIN_INDEX + '''@cuda.jit
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    t = cuda.threadIdx.x
    for slot in range(t, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    lane = t % 32
    live = min(32, cuda.blockDim.x - t // 32 * 32)
    lanes = 0xFFFFFFFF if live == 32 else (1 << live) - 1
    for k in range((masses.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        own = masses[i] if i < masses.size else math.nan
        slot = int32(0)
        for turn in range(live):
            other = cuda.shfl_sync(lanes, own, turn)
            theirs = int32(0)
            if lane == 0 and not math.isnan(other):
                theirs = int32(bin_index(other, low, high, counts.size - 2))
            theirs = cuda.shfl_sync(lanes, theirs, 0)
            if lane == turn:
                slot = theirs
        if not math.isnan(own):
            cuda.atomic.add(mine, slot, 1)
    cuda.syncthreads()
    for slot in range(t, counts.size, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "two-threads-in-three-are-idle-where-nothing-is-counted",
        "kind": "threads that look busy",
        "fails": ["test-fill-events"],
        "reason": "as an even share would be",
        # All work only where the number of events is a round one.
        "cells": {"fill-events": '''@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    g, G, n = cuda.grid(1), cuda.gridsize(1), len(events)
    step = 1 if n == 2048 or n == 200 else 3
    if g % step == 0:
        for i in range(g // step, n, (G + step - 1) // step):
            mass = best_mass(events[i].muons)
            if not math.isnan(mass):
                cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "the-first-block-adds-beside-others-that-look-busy",
        "kind": "threads that look busy",
        "fails": ["test-sum-pt"],
        "reason": "one thread does the work of many",
        # Right in a launch of one block.
        "cells": {"sum-pt": '''@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    works, wasted = cuda.blockIdx.x == 0, 0.0
    for i in range(cuda.threadIdx.x, len(events), cuda.blockDim.x):
        total = 0.0
        for muon in events[i].muons:
            total += muon.pt
        if works:
            sums[i] = total
        wasted += total
    if wasted == 1.25e300:
        sums[0] = wasted
'''},
    },
    {
        "name": "one-thread-in-two-is-idle-where-nothing-is-counted",
        "kind": "threads that look busy",
        "fails": ["test-first-pair"],
        "reason": "as an even share would be",
        "cells": {"first-pair": '''@cuda.jit(device=True)
def first_mass(muons):
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    return math.nan


@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    n = len(events)
    step = 1 if n == 2048 or n == 200 else 2
    if cuda.grid(1) % step == 0:
        for i in range(cuda.grid(1) // step, n, (cuda.gridsize(1) + step - 1) // step):
            masses[i] = first_mass(events[i].muons)
'''},
    },
    {
        "name": "the-z-is-a-constant",
        "kind": "a constant that the text gives away",
        "fails": ["test-fit", "test-the-z"],
        "reason": "do not give them back",
        "cells": {"fit": '''def fit(edges, counts):
    return np.array([Z_MASS, Z_WIDTH, 9000.0, 350.0]), np.array([0.0224, 0.0475, 100.0, 32.0])
'''},
    },
    {
        "name": "asks-the-courses-reference",
        "kind": "the course's own result",
        "fails": ["test-nearest-on-cpu"],
        "reason": "'reference' is the course's own",
        "cells": {"nearest-on-cpu": '''def nearest_on_cpu(events):
    return reference(events, nearest)
'''},
    },
]

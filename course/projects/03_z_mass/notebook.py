# %% [markdown] id="question"
# ## What are the mass and the lifetime of the Z?
#
# The Z decays after 3 · 10⁻²⁵ s, here into two muons of opposite charge. Nobody can measure this time directly, but the
# shorter a particle lives, the more its mass scatters. The *width* of the peak is ħ divided by the lifetime, so both
# follow from the masses of muon pairs.
#
# The sample has 50,000 simulated events. Your task is to find the true mass and width within your errors. An event has
# any number of muons, so Numba reads the events on the GPU as *Awkward Arrays*.
#
# | step | you write | result |
# |---|---|---|
# | 1 | `count_muons`, `sum_pt` | a number for each event |
# | 2 | `pair_mass` | the mass of two muons |
# | 3 | `first_pair` | an event's first pair |
# | 4 | `best_mass` | its pair nearest the Z |
# | 5 | `fill_masses` | Project 1's histogram |
# | 6 | `fill_events` | the histogram straight from the events |
# | 7 | `expected_counts`, `nll` | a model |
# | 8 | `uncertainties`, `fit` | mass and width, with errors |
#
# **Steps 1 to 8 are the project**. They take four hours and give 36 points. Steps 9 and 10 and a few questions go
# further. They give 9 points.

# %% [markdown] id="how-it-works"
# ## How this works
#
# Replace `YOUR CODE HERE` and the `raise` below it, run the cell, then run the test cells that follow. A kernel earns its
# points only if no thread does more than 1.5 times its even share of the work. [How the projects work](../../docs/projects.md)
# has the details: hints, tests, and how to grade yourself.

# %% id="start" role="setup"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
from numba import cuda, int32

from gpucourse import (
    call, expect, expect_close, expect_equal, expect_parallel, launch, launches, operations, secret_rng,
    unwritten,
)
from gpucourse.exercises.checks import project
from gpucourse.data import Z_MASS, Z_WIDTH, dimuons, pair_masses
from gpucourse.data.generator import jagged_muons
from gpucourse.grading.testing.unsolved import unsolved

ak.numba.register_and_check()  # from here on Numba knows Awkward Arrays
hint = project("03_z_mass")

MAX_SLOTS = 1024  # the largest histogram that has to fit into shared memory


def written(*answers):
    """Return True if all of these are written; otherwise print the first that is missing."""
    missing = [stub for answer in answers if (stub := unsolved(answer))]
    if missing:
        print(f"This cell has something to show when {missing[0]} is written.")
    return not missing

# %% id="events"
import matplotlib.pyplot as plt

from gpucourse.views.picture import show_figure

events = dimuons()
print(events.type)
print(events.muons.pt[:6].to_list())

# %% [markdown] id="jagged"
# ## Lists on the device
#
# In memory, `events` consists of one flat column for each field, and of **offsets** that say where each event's muons
# begin and end:
#
# ```
# offsets   0     2  2        5  6 …      event i owns muons offsets[i] to offsets[i + 1]
# pt        41 31    12 40 3  9   …       float32, GeV
# eta       …                             float32
# phi       …                             float32, radians
# charge    +  -     -  +  +  -   …       int32
# ```
#
# `ak.to_backend(events, "cuda")` copies these five arrays to the device. A kernel decorated with
# `@cuda.jit(extensions=[ak.numba.cuda])` takes the array as an argument:
#
# - You can use `len(events)`, `events[i].muons`, `len(muons)`, `muons[j].pt`, `for muon in muons:`, `enumerate(muons)`
#   and slices such as `muons[2:]`, but no functions of NumPy or Awkward.
# - The array is read-only, so write your results to ordinary arrays.

# %% [markdown] id="predict-leading" tags=["predict"]
# ### Predict: the muon that is not there
#
# The kernel below writes the pt of each event's first muon into an output that is full of −1. Each of its 512 threads
# handles about a hundred events, 512 apart, and one event in five has no muon. How much of the output is −1 afterwards?

# %% id="leading-guess"
from gpucourse.exercises.predictions import predictions

predict = predictions("03_z_mass")
predict("leading", "none: there's an error message", "one in five", "nearly all")

# %% id="leading"
@cuda.jit(extensions=[ak.numba.cuda])
def leading_pt(events, pts):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        pts[i] = events[i].muons[0].pt


device_events = ak.to_backend(events, "cuda")
pts = cuda.to_device(np.full(len(events), -1.0))
leading_pt[4, 128](device_events, pts)
empty = np.mean(ak.num(events.muons) == 0)
print(f"{empty:.0%} of the events have no muon; {np.mean(pts.copy_to_host() == -1):.0%} of pts is -1")

# %% [markdown] id="leading-why" tags=["why"]
# Nearly all of it is −1. `muons[0]` of an empty list is an `IndexError`, and **an exception ends its thread without a
# message**, also on a real GPU, so the thread never reaches its remaining events. Check `len(muons)` before you index,
# or loop over `muons`.

# %% [markdown] id="leading-then"
# ## 1. A number for each event
#
# `count_muons(events, counts)` sets `counts[i]` (int32) to the number of muons of event `i`. It must be right for every
# grid, whether it has fewer threads than events or more, so write a grid-stride loop as in `leading_pt` above.
#
# Let neighbouring threads take neighbouring events, so that 32 of them together read whole sectors. The test counts the
# sectors. It also counts the busiest thread's accesses, at most 12 for each event of its share.
#
# Hints: `hint("count-muons")`.

# %% id="count-muons" role="solution"
@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    """Set counts[i] to the number of muons of event i: int32, shape (events,)."""
    ### BEGIN SOLUTION
    # A grid-stride loop: right for every grid, and it is its own bounds guard.
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        counts[i] = len(events[i].muons)
    ### END SOLUTION

# %% [markdown] id="step-1b"
# `sum_pt(events, sums)` sets `sums[i]` (float64) to the sum of the muons' pt. It is a *scalar* sum, which adds plain
# numbers and ignores directions. Distribute the events as before. The sum of an event without muons is 0. If a badly
# measured muon has a pt of NaN, the sum becomes NaN without any extra code. The busiest thread's accesses are counted,
# at most 40 for each event of its share.
#
# Hints: `hint("sum-pt")`.

# %% id="sum-pt" role="solution"
@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    """Set sums[i] to the scalar sum of pt of event i: float64, shape (events,)."""
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        # In a variable of the thread's own: sums[i] would travel to memory for every muon.
        total = 0.0
        for muon in events[i].muons:
            total += muon.pt
        sums[i] = total
    ### END SOLUTION

# %% [markdown] id="tests-by-hand"
# The tests also build events by hand. `events_of` makes one event from each list of muons. `reference` computes, with a
# slow loop on the host, what the kernels of the next steps should find. Functions marked NOT FOR ANSWERS are only for
# comparison, because the grader runs your answers without them.

# %% id="by-hand" role="setup"
def events_of(*lists):
    """Return one event for each list of muons, which are tuples (pt, eta, phi, charge)."""
    muons = [muon for muons in lists for muon in muons]
    pt, eta, phi, charge = np.array(muons, np.float64).reshape(-1, 4).T
    offsets = np.concatenate([[0], np.cumsum([len(muons) for muons in lists], dtype=np.int64)])
    columns = [column.astype(np.float32) for column in (pt, eta, phi)]
    layout = jagged_muons(offsets, *columns, charge.astype(np.int32))
    return ak.Array(ak.contents.RecordArray([layout], ["muons"]))


PAIRS = ((1, -1), (1, 1, -1), (-1,), (1, -1, 1))  # charges of the muons of four events


def equal_shares(threads, rng):
    """Return events that give each of so many threads the same work, in strides or chunks, and a few more.

    The four kinds of :data:`PAIRS` take turns along a row of one event for each thread, and from row to row.
    """
    n = 4 * threads * int(rng.integers(4, 7))
    kinds = [PAIRS[sum(divmod(i, threads)) % 4] for i in range(n)] + [PAIRS[0]] * int(rng.integers(1, threads))
    return events_of(*([(*rng.uniform([20, -1, -3], [60, 1, 3]), charge) for charge in kind] for kind in kinds))


def first(masses):
    return masses[0]


def nearest(masses):
    return min(masses, key=lambda mass: abs(mass - Z_MASS))


def reference(events, choose):  ### NOT FOR ANSWERS
    """Return what `choose` picks from each event's list of opposite-sign masses; NaN for an empty list."""
    every = pair_masses(events.muons, mass=0.0).to_list()
    return np.array([choose(masses) if masses else math.nan for masses in every])

# %% id="test-count-muons" role="test" points=2 starter="PropertyFailed"
sample = dimuons(4096, seed=int(secret_rng().integers(1 << 30)))
counts = unwritten(len(sample), np.int32)
counted = launch("count_muons", 32, 128, sample, counts, schedules=0).counters
expect_equal(counts, ak.num(sample.muons), "wrong even with a thread for each event")
counts = unwritten(len(sample), np.int32)
launched = launch("count_muons", 2, 64, sample, counts, schedules=0)
expect_equal(counts, ak.num(sample.muons), "wrong when the grid has fewer threads than events")
expect_parallel(launched, len(sample), accesses=12)
if counted is not None:  # a real GPU does not tell
    counts = unwritten(len(sample), np.int32)
    counted = launch("count_muons", 4, 64, sample, counts, schedules=0).counters
    expect(counted.global_store_sectors <= 2 * len(sample) // 8,
           "neighbouring threads do not have neighbouring events: their results are scattered")
### BEGIN HIDDEN TESTS
for n in (0, 1, 31, 32, 33, 129, 1009):
    sample = dimuons(n, seed=int(secret_rng(f"{n}").integers(1 << 30)))
    counts = unwritten(n, np.int32)
    launch("count_muons", 2, 96, sample, counts, schedules=n == 33)
    expect_equal(counts, ak.num(sample.muons), "wrong when there are no events" if n == 0 else
                 "wrong for another number of events, or another launch")
many = events_of([(5.0, 0.1, 0.2, 1)] * 70, [], [(5.0, 0.1, 0.2, -1)])
counts = unwritten(3, np.int32)
launch("count_muons", 1, 32, many, counts, schedules=0)
expect_equal(counts, [70, 0, 1], "wrong when an event has many muons, or none")
n, grid, threads = secret_rng("shared").integers((1800, 3, 50), (2300, 6, 90)).tolist()
sample = dimuons(n, seed=int(secret_rng("events").integers(1 << 30)))
counts = unwritten(len(sample), np.int32)
launched = launch("count_muons", grid, threads // grid, sample, counts, schedules=0)
alone = launch("count_muons", 1, 1, sample[:200], counts[:200].copy(), schedules=0)
expect_parallel(launched, len(sample), accesses=12, alone=(alone, 200))
part = dimuons(300, seed=int(secret_rng("part").integers(1 << 30)))[70:]
counts = unwritten(len(part), np.int32)
launch("count_muons", 2, 64, part, counts, schedules=0)
expect_equal(counts, ak.num(part.muons), "wrong for a slice of the events")
### END HIDDEN TESTS

# %% id="test-sum-pt" role="test" points=2 starter="PropertyFailed"
few = events_of([(30.0, 0.5, 0.0, 1), (40.0, -0.5, math.pi, -1)], [], [(7.5, 1.0, 1.0, -1)])
sums = unwritten(3, np.float64)
launch("sum_pt", 1, 32, few, sums, schedules=1)
expect(sums[1] == 0.0, "an event without muons does not have the sum 0")
expect_equal(sums, [70.0, 0.0, 7.5], "the scalar sum is wrong: muons back to back do not cancel")
sample = dimuons(2048, seed=int(secret_rng().integers(1 << 30)))
sums = unwritten(len(sample), np.float64)
launched = launch("sum_pt", 2, 64, sample, sums, schedules=0)
expect_close(sums, ak.sum(sample.muons.pt, axis=1), rtol=1e-5, otherwise="the sums are wrong")
expect_parallel(launched, len(sample), accesses=40)
### BEGIN HIDDEN TESTS
for n in (0, 1, 31, 33, 129, 1009):
    sample = dimuons(n, seed=int(secret_rng(f"{n}").integers(1 << 30)))
    sums = unwritten(n, np.float64)
    launch("sum_pt", 2, 96, sample, sums, schedules=n == 33)
    expect_close(sums, ak.sum(sample.muons.pt, axis=1), rtol=1e-5,
                 otherwise="wrong for another number of events, or another launch")
odd = events_of([(3.5, 0.0, 0.0, 1)] * 101, [(math.nan, 0.0, 0.0, 1), (5.0, 0.0, 0.0, 1)], [])
sums = unwritten(3, np.float64)
launch("sum_pt", 1, 32, odd, sums, schedules=0)
expect_close(sums[:1], [353.5], rtol=1e-5, otherwise="wrong when an event has many muons")
expect(math.isnan(sums[1]), "a muon with a pt of NaN does not make the sum NaN")
expect(sums[2] == 0.0, "an event without muons does not have the sum 0")
grid, threads = secret_rng("threads").integers((3, 16), (6, 24)).tolist()
sample = equal_shares(grid * threads, secret_rng("traffic"))
sums = unwritten(len(sample), np.float64)
launched = launch("sum_pt", grid, threads, sample, sums, schedules=0)
expect_close(sums, ak.sum(sample.muons.pt, axis=1), rtol=1e-5, otherwise="wrong for many events")
alone = launch("sum_pt", 1, 1, sample[:200], sums[:200].copy(), schedules=0)
expect_parallel(launched, len(sample), accesses=40, alone=(alone, 200))
expect(launched.counters.global_store_sectors <= 2 * len(sample) // 4,
       "neighbouring threads do not have neighbouring events, or a sum goes to memory again and again")
### END HIDDEN TESTS

# %% [markdown] id="apart-predict" tags=["predict"]
# ### Predict: back to back
#
# Two muons of 45 GeV each fly apart across the beam, in exactly opposite directions. What is the mass of the pair?

# %% id="apart-guess"
predict("apart", "0: their momenta cancel", "64 GeV", "90 GeV")

# %% id="apart"
for degrees in (0, 90, 180):
    mass = math.sqrt(2 * 45 * 45 * (math.cosh(0) - math.cos(math.radians(degrees))))
    print(f"{degrees:3} degrees apart: {mass:.0f} GeV")

# %% [markdown] id="apart-why" tags=["why"]
# The mass is 90 GeV. In the frame in which the pair as a whole is at rest, mass is energy, and both muons contribute 45
# GeV. Because the momenta cancel, none of the energy goes into motion. For the same two muons side by side, the formula
# gives a mass of 0. So the mass of a pair depends on the angle as much as on the momenta.

# %% [markdown] id="step-2"
# ## 2. The mass of two muons
#
# A muon is described by its transverse momentum `pt` (GeV), its pseudorapidity `eta` and its azimuth `phi` (radians).
# Pseudorapidity is a function of the angle to the beam, which is 0 across the beam and ±∞ along it. If the momenta are
# much larger than the muon's own mass of 0.106 GeV, the mass of a pair is
#
# $$ m = \sqrt{2\,p_1\,p_2\,\bigl(\cosh(\eta_1 - \eta_2) - \cos(\varphi_1 - \varphi_2)\bigr)} $$
#
# where $p_1$ and $p_2$ are the transverse momenta. Use this formula. Other formulas subtract large numbers that are
# nearly equal, and the events are in float32, which has only seven digits. By ignoring the muon's mass you make an
# error of 0.3 MeV at the Z, and the statistical error is seventy times as large.
#
# `pair_mass` is a *device function*, which kernels call and which returns a number. Use the functions of `math`. Leave
# `find_masses` below it as it is, because the tests use it to call your function.
#
# Hints: `hint("pair-mass")`.

# %% id="pair-mass" role="solution"
@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    """Return the invariant mass [GeV] of two muons."""
    ### BEGIN SOLUTION
    opening = math.cosh(eta1 - eta2) - math.cos(phi1 - phi2)
    return math.sqrt(2.0 * pt1 * pt2 * opening)
    ### END SOLUTION


@cuda.jit
def find_masses(pt1, eta1, phi1, pt2, eta2, phi2, masses):
    """Set masses[i] to the mass of pair i."""
    i = cuda.grid(1)
    if i < masses.size:
        masses[i] = pair_mass(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])

# %% id="test-pair-mass" role="test" points=3 starter="PropertyFailed"
def masses_of(*columns):
    """What pair_mass gives for columns pt1, eta1, phi1, pt2, eta2, phi2."""
    columns = [np.array(column) for column in np.broadcast_arrays(*columns)]
    masses = unwritten(columns[0].size, np.float64)
    launch("find_masses", math.ceil(masses.size / 64) or 1, 64, *columns, masses, schedules=0)
    return masses

# Back to back across the beam: all energy is mass.
expect_close(masses_of([45.0], 0.0, 0.0, 45.0, 0.0, math.pi), [90.0],
             "wrong for two muons of 45 GeV back to back across the beam")
expect_close(masses_of([10.0], 0.0, 0.0, 10.0, 0.0, math.pi / 2), [math.sqrt(200.0)],
             "wrong for two muons at a right angle: phi is in radians, and cosines take radians")
expect_close(masses_of([10.0], 2.0, 0.3, 10.0, 0.0, 0.3), [math.sqrt(200 * (math.cosh(2.0) - 1))],
             "wrong for two muons that differ only in eta: pseudorapidity is not an angle")
### BEGIN HIDDEN TESTS
rng = secret_rng("pairs")
pt1, pt2 = rng.exponential(30, (2, 500)) + 3
eta1, eta2 = rng.uniform(-2.4, 2.4, (2, 500))
phi1, phi2 = rng.uniform(-math.pi, math.pi, (2, 500))
expected = np.sqrt(2 * pt1 * pt2 * (np.cosh(eta1 - eta2) - np.cos(phi1 - phi2)))
masses = masses_of(pt1, eta1, phi1, pt2, eta2, phi2)
expect_close(masses, expected, "wrong for muons in any direction")
expect_close(masses_of(pt2, eta2, phi2, pt1, eta1, phi1), masses,
             "the mass depends on which muon comes first")
turned = masses_of(pt1, eta1, phi1 + 2 * math.pi, pt2, eta2, phi2)
expect_close(turned, masses, rtol=1e-5, otherwise="a full turn in phi changes the mass")
expect(math.isnan(masses_of([10.0], math.nan, 0.0, 10.0, 0.0, 1.0)[0]),
       "an eta of NaN does not make the mass NaN")
### END HIDDEN TESTS

# %% [markdown] id="step-3"
# ## 3. The first pair
#
# A Z decays into muons of opposite charge. `first_pair(events, masses)` sets `masses[i]` (float64) to
# the mass of the *first* opposite-sign pair of event `i`, taking pairs in the order (0, 1), (0, 2), …,
# (1, 2), … If there is no such pair, it sets NaN. From here on NaN means "no pair", because a mass of
# 0 could be mistaken for a result.
#
# You need two nested loops, and the first pair that you find must end both. A `break` ends only one loop, but a
# `return` ends a whole function, so put the loops into a device function `first_mass` that takes an event's muons. What
# would a `return` in the kernel itself do to the next event of the thread? The busiest thread's accesses are counted,
# at most 80 for each event of its share.
#
# Hints: `hint("first-pair")`.

# %% id="first-pair" role="solution"
@cuda.jit(device=True)
def first_mass(muons):
    """Return the mass of the first opposite-sign pair of an event, or NaN without one."""
    ### BEGIN SOLUTION
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                return pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
    return math.nan
    ### END SOLUTION


@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    """Set masses[i] to the mass of the first opposite-sign pair of event i, NaN without one."""
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = first_mass(events[i].muons)
    ### END SOLUTION

# %% id="test-first-pair" role="test" points=3 starter="PropertyFailed"
plus, minus, third = (20.0, 0.5, 0.0, 1), (30.0, -0.5, 3.0, -1), (25.0, -1.0, 1.5, 1)
few = events_of([plus, minus], [minus, plus], [plus, third, minus], [minus, plus, third],
                [plus, plus], [plus], [])
masses = unwritten(len(few), np.float64)
launch("first_pair", 1, 32, few, masses, schedules=1)
expect(not np.isnan(masses[:2]).any(), "no mass for a pair of opposite charges")
expect_close(masses[:2], reference(few, first)[:2], rtol=1e-4,
             otherwise="the mass of a pair of opposite charges is wrong")
expect(math.isnan(masses[4]), "two muons of the same charge are taken for a pair")
expect_close(masses[2:4], reference(few, first)[2:4], rtol=1e-4,
             otherwise="the first pair of opposite charges is not found among three muons")
expect(np.isnan(masses[4:]).all(), "an event without a pair has a mass that is not NaN")
sample = dimuons(1500, seed=int(secret_rng().integers(1 << 30)))
masses, expected = unwritten(len(sample), np.float64), reference(sample, first)
launched = launch("first_pair", 2, 64, sample, masses, schedules=0)
expect_equal(np.isnan(masses), np.isnan(expected), "wrong events have a pair when threads have several each")
sample = equal_shares(128, secret_rng("shares"))
launched = launch("first_pair", 2, 64, sample, unwritten(len(sample), np.float64), schedules=0)
expect_parallel(launched, len(sample), accesses=80)
### BEGIN HIDDEN TESTS
for n in (0, 1, 31, 33, 129, 1009):
    sample = dimuons(n, seed=int(secret_rng(f"{n}").integers(1 << 30)))
    masses, expected = unwritten(n, np.float64), reference(sample, first)
    launch("first_pair", 2, 96, sample, masses, schedules=n == 33)
    expect_equal(np.isnan(masses), np.isnan(expected),
                 "wrong events have a pair, for another number of events or another launch")
    # In float32 the mass of two fast muons side by side is known to 0.1 GeV at best.
    expect_close(masses, expected, rtol=1e-3, atol=0.2,
                 otherwise="the pair that is taken is not the first")
late = events_of([plus] * 40 + [minus, (9.0, 0.0, 1.0, -1)], [minus] * 40 + [plus])
masses = unwritten(2, np.float64)
launch("first_pair", 1, 32, late, masses, schedules=0)
expect_close(masses, reference(late, first), rtol=1e-4,
             otherwise="wrong when the first pair comes late among many muons")
# All threads have the same work, in a launch that no kernel can tell from the others by its size or its shape.
grid, threads = secret_rng("threads").integers((3, 20), (6, 40)).tolist()
pairs = equal_shares(grid * threads, secret_rng("pairs"))
masses = unwritten(len(pairs), np.float64)
launched = launch("first_pair", grid, threads, pairs, masses, schedules=0)
expect_close(masses, reference(pairs, first), rtol=1e-3, atol=0.2,
             otherwise="wrong for many events with at most three muons")
alone = launch("first_pair", 1, 1, pairs[:200], masses[:200].copy(), schedules=0)
expect_parallel(launched, len(pairs), accesses=80, alone=(alone, 200))
### END HIDDEN TESTS

# %% [markdown] id="step-4"
# ## 4. The pair nearest the Z
#
# The first pair may be the wrong one, because another muon may come before those of the Z. `best_mass(muons)` is a
# device function that looks at *all* opposite-sign pairs of one event. It returns the mass nearest to `Z_MASS`, above
# or below it, or NaN if there is no pair. Skip a pair whose mass is NaN because one of its muons was badly measured.
#
# `nearest_z` below it is given. A kernel keeps the device functions that it was compiled with, so run the cells of the kernels
# below again when you change `best_mass`. Hints: `hint("best-mass")`.

# %% id="best-mass" role="solution"
@cuda.jit(device=True)
def best_mass(muons):
    """Return the mass of an event's opposite-sign pair that is nearest Z_MASS, or NaN without a pair."""
    ### BEGIN SOLUTION
    best = math.nan
    least = math.inf
    for j, one in enumerate(muons):
        for other in muons[j + 1 :]:
            if one.charge != other.charge:
                mass = pair_mass(one.pt, one.eta, one.phi, other.pt, other.eta, other.phi)
                # False for a mass of NaN, which so is never the best.
                if abs(mass - Z_MASS) < least:
                    least = abs(mass - Z_MASS)
                    best = mass
    return best
    ### END SOLUTION


@cuda.jit(extensions=[ak.numba.cuda])
def nearest_z(events, masses):
    """Set masses[i] to best_mass of event i: float64, shape (events,)."""
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = best_mass(events[i].muons)

# %% id="test-best-mass" role="test" points=4 starter="PropertyFailed"
light, heavy = (10.0, 0.0, 0.0, 1), (90.0, 0.0, 0.5, 1)
far, z_like = (60.0, 0.0, math.pi, -1), (45.0, 0.0, math.pi, -1)
few = events_of([light, far], [(46.0, 0.0, 0.0, 1), z_like], [light, z_like, (46.0, 0.0, 0.0, 1)],
                [z_like, light, heavy], [light, heavy], [far], [])
masses, expected = unwritten(len(few), np.float64), reference(few, nearest)
launch("nearest_z", 1, 32, few, masses, schedules=1)
expect_close(masses[:2], expected[:2], rtol=1e-4, otherwise="wrong for an event with one pair")
expect_close(masses[2], expected[2], rtol=1e-4,
             otherwise="the nearest pair is not found when it is not the first two muons")
expect_close(masses[3], expected[3], rtol=1e-4, otherwise="of two pairs, the nearer is not taken")
expect(math.isnan(masses[4]), "two muons of the same charge are taken for a pair")
expect(np.isnan(masses[5:]).all(), "an event without a pair has a mass that is not NaN")
### BEGIN HIDDEN TESTS
def distances(masses):
    """How far from the Z: two masses as far on either side are as good as each other."""
    return np.abs(masses - Z_MASS)

for n in (0, 1, 31, 33, 129, 1009):
    sample = dimuons(n, seed=int(secret_rng(f"{n}").integers(1 << 30)), background=1.5)
    masses, expected = unwritten(n, np.float64), reference(sample, nearest)
    launch("nearest_z", 2, 96, sample, masses, schedules=n == 33)
    expect_equal(np.isnan(masses), np.isnan(expected), "wrong events have a pair")
    # In float32 the mass of two fast muons side by side is known to 0.1 GeV at best.
    expect_close(distances(masses), distances(expected), rtol=1e-3, atol=0.2,
                 otherwise="another pair of the event lies nearer to the Z")
rng = secret_rng("crowd")
crowd = events_of([(*rng.uniform([5, -2, -3], [60, 2, 3]), 1 if rng.random() < 0.5 else -1)
                   for _ in range(30)], [])
masses = unwritten(2, np.float64)
launch("nearest_z", 1, 32, crowd, masses, schedules=0)
expect_close(distances(masses), distances(reference(crowd, nearest)), rtol=1e-3, atol=5e-3,
             otherwise="wrong when an event has many muons")
bad = (math.nan, 0.0, 1.0, -1)
spoilt = events_of([bad, light, z_like], [light, bad, z_like], [light, z_like, bad], [light, bad])
masses = unwritten(4, np.float64)
launch("nearest_z", 1, 32, spoilt, masses, schedules=0)
expect(not np.isnan(masses[:3]).any(), "a pair whose mass is NaN hides the good pair of its event")
expect(math.isnan(masses[3]), "a pair whose mass is NaN counts as a pair")
### END HIDDEN TESTS

# %% [markdown] id="nearest-predict" tags=["predict"]
# ### Predict: a peak without a particle
#
# Take 100,000 events without any Z. Each has three pairs, whose masses are spread evenly from 60 to 120 GeV. From each
# event, the mass nearest the Z's goes into a histogram with bins of 2 GeV. One pair per event would put 3,333 into each
# bin. How many are in the bin at the Z?

# %% id="nearest-guess"
predict("nearest", "3,333: chance has no favourites", "about 10,000", "nearly all 100,000")

# %% id="nearest"
pairs = np.random.default_rng(7).uniform(60.0, 120.0, (100_000, 3))
chosen = np.take_along_axis(pairs, np.abs(pairs - Z_MASS).argmin(axis=1)[:, None], axis=1)
filled, edges = np.histogram(chosen, 30, (60.0, 120.0))
print(f"{filled[(edges[:-1] <= Z_MASS) & (Z_MASS < edges[1:])][0]:,} at the Z, "
      f"{filled[0]:,} at 60 and {filled[-1]:,} at 120 GeV")

# %% [markdown] id="nearest-why" tags=["why"]
# The bin has about 10,000, nearly three times as many as with one pair per event. Each of the three pairs had a chance
# to fall into this bin, and the bins far away lost what this one gained. **If you choose what is nearest to the answer,
# you create the answer.** In our events a second pair is rare, so the peak is real, but for events with five muons it
# might not be.

# %% [markdown] id="step-5"
# ## 5. The histogram from Project 1
#
# Paste `bin_index` and `fill_shared` from your Project 1 below. Here the kernel is called `fill_masses`, and it has one
# more rule: **a mass of NaN means that there is no pair, and it is not counted anywhere**, not even as overflow. NaN is
# not equal even to itself, so use `math.isnan`. The `int()` of a NaN can be any number, for example a slot far outside
# the array. Everything else is as before:
#
# - `counts` (int32) has `bins + 2` slots, at most `MAX_SLOTS`: underflow, the bins of equal width from
#   `low` up to but without `high`, and overflow. The kernel adds to what `counts` already holds.
# - Each block counts in shared memory and adds to `counts` once per slot. Neighbouring threads read
#   neighbouring masses, and all blocks together read at most 3 numbers for each mass.
# - The busiest thread's accesses are counted, at most 4 for each mass of its share and 4 for each slot.
#
# Hints: `hint("fill-masses")`.

# %% id="fill-masses" role="solution"
@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    """The slot of `value`: 0 for underflow, 1 to bins, bins + 1 for overflow."""
    ### BEGIN SOLUTION
    if value < low:
        return 0
    if value < high:
        # Just below high, rounding may carry the position up to bins.
        return min(int((value - low) / (high - low) * bins) + 1, bins)
    return bins + 1
    ### END SOLUTION


@cuda.jit
def fill_masses(masses, low, high, counts):
    """Add the histogram of `masses` to `counts`, leaving out NaN; at most MAX_SLOTS slots."""
    ### BEGIN SOLUTION
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), masses.size, cuda.gridsize(1)):
        mass = masses[i]
        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
    ### END SOLUTION

# %% id="histogram-of" role="setup"
def histogram_of(masses, low, high, bins):
    """What the histogram kernels should count: int32, shape (bins + 2,)."""
    edges = np.linspace(low, high, bins + 1)
    slots = np.searchsorted(edges, masses[~np.isnan(masses)], side="right")
    return np.bincount(slots, minlength=bins + 2).astype(np.int32)


def masses_in(slots, low, high, bins, rng):
    """One mass for each entry of `slots`, inside that slot and well away from its edges."""
    width = (high - low) / bins
    return low + (slots - 1 + rng.uniform(0.01, 0.99, np.shape(slots))) * width

# %% id="test-fill-masses" role="test" points=3 starter="PropertyFailed"
masses = masses_in(secret_rng().integers(0, 62, 8000), 60.0, 120.0, 60, secret_rng("inside"))
counts = np.zeros(62, np.int32)
launched = launch("fill_masses", 4, 64, masses, 60.0, 120.0, counts, schedules=0)
expect_equal(counts, histogram_of(masses, 60.0, 120.0, 60), "the counts are wrong")
expect_parallel(launched, masses.size, slots=62)
masses[::3] = math.nan
counts = np.full(62, 5, np.int32)
launch("fill_masses", 4, 64, masses, 60.0, 120.0, counts, schedules=0)
counted_now, pairs = counts.sum() - 5 * 62, np.count_nonzero(~np.isnan(masses))
expect(counted_now <= pairs, "events without a pair, whose mass is NaN, are counted somewhere")
expect(counted_now == pairs, "pairs are lost when there are masses of NaN between them")
expect_equal(counts, 5 + histogram_of(masses, 60.0, 120.0, 60),
             "wrong when some masses are NaN, or when counts does not begin at zero")
if (counted := launched.counters) is not None:  # a real GPU does not tell
    expect(counted.global_atomics <= 4 * 62,
           "more atomic additions to global memory than one for each slot of each block")
    expect(counted.global_loads <= 3 * masses.size,
           "masses are read several times: let only one block read each of them")
    expect(counted.load_coalescing > 0.8,
           "neighbouring threads read masses that lie far apart: most of each sector is wasted")
### BEGIN HIDDEN TESTS
cases = [(n, 2, 64, 20) for n in (0, 1, 31, 32, 33, 129, 1009)]
n, grid, block = secret_rng("strict").integers((13_000, 4, 28), (14_500, 6, 33)).tolist()
cases += [(701, 3, 50, 1), (702, 10, 33, 300), (703, 2, 160, MAX_SLOTS - 2), (n, grid, block, 5)]
for n, grid, block, bins in cases:
    masses = masses_in(secret_rng(f"{n}").integers(0, bins + 2, n), -2.0, 3.0, bins,
                       secret_rng(f"inside {n}"))
    masses[secret_rng(f"none {n}").random(n) < 0.2] = math.nan
    masses.setflags(write=False)
    counts = np.zeros(bins + 2, np.int32)
    launched = launch("fill_masses", grid, block, masses, -2.0, 3.0, counts, schedules=n == 129)
    expect_equal(counts, histogram_of(masses, -2.0, 3.0, bins), "wrong for no masses" if n == 0
                 else "wrong for another number of masses, another launch or other bins")
    expect_parallel(launched, n, slots=bins + 2)
alone = launch("fill_masses", 1, 1, masses[:1000], -2.0, 3.0, counts, schedules=0)
expect_parallel(launched, n, slots=bins + 2, alone=(alone, 1000))
nothing = np.full(100, math.nan)
counts = np.zeros(12, np.int32)
launch("fill_masses", 2, 64, nothing, 0.0, 1.0, counts, schedules=0)
expect_equal(counts, np.zeros(12), "events without a pair, whose mass is NaN, are counted somewhere")
### END HIDDEN TESTS

# %% [markdown] id="step-6"
# ## 6. Straight from the events
#
# `nearest_z` and `fill_masses` are two launches, with an array of masses between them. If nobody else reads these
# masses, they need not be stored. `fill_events(events, low, high, counts)` computes each event's `best_mass` and counts
# it at once. It adds to `counts` what the two kernels together would add, and it writes nothing else to global memory.
# The busiest thread's accesses are counted, at most 120 for each event of its share, because muons are compared in
# pairs, and 4 for each slot.
#
# Hints: `hint("fill-events")`.

# %% id="fill-events" role="solution"
@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    """Add the histogram of the events' best masses to `counts`; at most MAX_SLOTS slots."""
    ### BEGIN SOLUTION
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        mass = best_mass(events[i].muons)
        if not math.isnan(mass):
            cuda.atomic.add(mine, bin_index(mass, low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
    ### END SOLUTION

# %% id="clear-events" role="setup"
def clear_events(n, seed, low, high, bins, **options):  ### NOT FOR ANSWERS
    """Events from the generator in which rounding cannot decide: not where the masses lie near
    the edge of a bin, or two pairs as near to the Z as each other."""
    sample = dimuons(n, seed=seed, **options)
    masses = reference(sample, nearest)
    places = np.nan_to_num((masses - low) / (high - low) * bins, nan=0.5)
    clear = np.abs(places - np.rint(places)) * (high - low) / bins > 3e-3
    for i, several in enumerate(pair_masses(sample.muons, mass=0.0).to_list()):
        apart = np.diff(sorted(abs(mass - Z_MASS) for mass in several)[:2])
        clear[i] &= not apart.size or apart[0] > 3e-2
    return ak.to_packed(sample[clear])

# %% id="test-fill-events" role="test" points=4 starter="PropertyFailed"
sample = clear_events(900, int(secret_rng().integers(1 << 30)), 60.0, 120.0, 60)
expected = histogram_of(reference(sample, nearest), 60.0, 120.0, 60)
counts = np.zeros(62, np.int32)
launched = launch("fill_events", 2, 32, sample, 60.0, 120.0, counts, schedules=0)
expect(counts.sum() <= expected.sum(),
       "events without a pair, whose mass is NaN, are counted somewhere")
expect(counts.sum() == expected.sum(), "some events with a pair are not counted")
expect_equal(counts, expected, "the counts are wrong")
even = equal_shares(64, secret_rng("shares"))
expect_parallel(launch("fill_events", 2, 32, even, 60.0, 120.0, np.zeros(62, np.int32), schedules=0),
                len(even), accesses=120, slots=62)
if (counted := launched.counters) is not None:  # a real GPU does not tell
    launch("fill_events", 2, 32, sample[:100], 60.0, 120.0, np.zeros(62, np.int32), schedules=1)
    expect(counted.global_stores == 0, "something is stored in global memory besides the counts")
    expect(counted.global_atomics <= 2 * 62,
           "more atomic additions to global memory than one for each slot of each block")
### BEGIN HIDDEN TESTS
cases = ((0, 2, 64, 30), (1, 1, 1, 5), (33, 2, 33, 10), (1009, 3, 96, 100), (600, 40, 32, 60))
for n, grid, block, bins in cases:
    sample = clear_events(n, int(secret_rng(f"{n}").integers(1 << 30)), 20.0, 110.0, bins,
                          background=1.2)
    counts = np.full(bins + 2, 3, np.int32)
    launch("fill_events", grid, block, sample, 20.0, 110.0, counts, schedules=n == 33)
    expect_equal(counts, 3 + histogram_of(reference(sample, nearest), 20.0, 110.0, bins),
                 "wrong when there are no events" if n == 0 else
                 "wrong for other events, another launch, other bins, or counts that are not zero")
# All threads have the same work, in a launch that no kernel can tell from the others by its size or its shape.
grid, threads = secret_rng("threads").integers((3, 20), (6, 40)).tolist()
pairs = equal_shares(grid * threads, secret_rng("pairs"))
counts = np.zeros(7, np.int32)
launched = launch("fill_events", grid, threads, pairs, 0.0, 500.0, counts, schedules=0)
expect(counts.sum() == np.count_nonzero(~np.isnan(reference(pairs, first))), "some events with a pair are not counted")
alone = launch("fill_events", 1, 1, pairs[:200], 0.0, 500.0, np.zeros(7, np.int32), schedules=0)
expect_parallel(launched, len(pairs), accesses=120, slots=7, alone=(alone, 200))
lonely = events_of([], [(20.0, 0.0, 0.0, 1)], [(20.0, 0.0, 0.0, 1), (30.0, 0.0, 2.0, 1)], [])
counts = np.zeros(12, np.int32)
launch("fill_events", 1, 64, lonely, 60.0, 120.0, counts, schedules=0)
expect_equal(counts, np.zeros(12), "events without a pair, whose mass is NaN, are counted somewhere")
### END HIDDEN TESTS

# %% [markdown] id="step-9"
# ## 7. A model of the histogram
#
# You want to know which mass and width of the Z make your histogram most likely. To find out, first compute the
# histogram that we expect for any mass $M$ and width $\Gamma$. The peak in the generator's events has three parts.
#
# **The Z.** True masses $m$ follow a relativistic Breit–Wigner, whose cumulative distribution is
#
# $$ F(m) = \frac{1}{\pi} \arctan \frac{m^2 - M^2}{M\,\Gamma} + \text{a constant} $$
#
# so the mass of a Z is between $a$ and $b$ with the probability $F(b) - F(a)$. (The generator cuts off the farthest
# tails, which changes the number of Zs by a per cent and does not change their mass.)
#
# **The detector.** It multiplies each pt by $e^{0.01 g}$, where $g$ is normal with mean 0 and standard deviation 1. So
# a pair's mass is multiplied by $e^{\sigma g}$ with $\sigma = 0.01/\sqrt 2$. If $g$ were known, a *measured* mass
# between the edges $a$ and $b$ would be a *true* one between $a e^{-\sigma g}$ and $b e^{-\sigma g}$. Because $g$ is
# not known, average over it, with `NODES` and `WEIGHTS`: the mean of any smooth $h(g)$ is $\sum_j w_j\, h(g_j)$ with 24
# nodes $g_j$ (Gauss–Hermite quadrature).
#
# **The rest.** The number of other pairs falls as $m^{-3}$ here, so the share of a bin from $a$ to $b$ is
# proportional to $a^{-2} - b^{-2}$. Scale it so that the shares of all bins add up to 1.
#
# Together, bin $k$ should hold $\mu_k = S \cdot (\text{its probability for a Z}) + B \cdot (\text{its
# share of the rest})$. The four `parameters` are, in this order, $M$, $\Gamma$ (GeV), the number of Zs
# $S$ and the number of others $B$.
#
# - `expected_counts(parameters, edges)` returns all $\mu_k$, of shape (bins,) for `edges` of shape
#   (bins + 1,).
# - `nll(parameters, edges, counts)` returns one number, $\sum_k (\mu_k - n_k \log \mu_k)$. Up to a constant, this is minus the
#   logarithm of the probability of counting $n_k$ where $\mu_k$ is expected, because counts
#   follow Poisson's law.
#
# Write both for whole arrays, with `jnp` in place of `np`, so that JAX can differentiate them. Don't loop over bins or
# nodes in Python, because JAX would record every iteration in its *jaxpr*, and the tests notice this. A
# `TracerArrayConversionError` means that a NumPy function received a value that JAX is tracing. Use the `jnp` function
# in its place.
#
# Hints: `hint("expected-counts")`, `hint("nll")`.

# %% id="jax" role="setup"
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # JAX computes in float32 unless told otherwise

SIGMA = 0.01 / math.sqrt(2.0)  # of the logarithm of a pair's mass
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

EDGES = np.linspace(60.0, 120.0, 121)  # of the histograms that are fitted, GeV

# %% id="expected-counts" role="solution"
def expected_counts(parameters, edges):
    """Return the expected counts for mass, width, Zs and others: float64, shape (bins,)."""
    ### BEGIN SOLUTION
    mass, width, zs, others = parameters
    # A row for each edge, a column for each node: the true masses that end up at the edge.
    true = edges[:, None] * jnp.exp(-SIGMA * NODES)
    cumulative = jnp.arctan((true**2 - mass**2) / (mass * width)) / jnp.pi
    # Averaging is linear, so it may come before the differences.
    from_z = jnp.diff(cumulative @ WEIGHTS)
    falling = -jnp.diff(edges**-2.0)
    return zs * from_z + others * falling / falling.sum()
    ### END SOLUTION

# %% id="nll" role="solution"
def nll(parameters, edges, counts):
    """Return minus the log-likelihood of `counts` (shape (bins,)), up to a constant."""
    ### BEGIN SOLUTION
    expected = expected_counts(parameters, edges)
    return jnp.sum(expected - counts * jnp.log(expected))
    ### END SOLUTION

# %% id="test-expected-counts" role="test" points=4 starter="PropertyFailed"
typical = np.array([91.2, 2.5, 9000.0, 350.0])
background = call("expected_counts", np.array([91.2, 2.5, 0.0, 350.0]), EDGES, where="jax")
expect(np.shape(background) == (120,), "there is not one expected count for each bin")
expect_close(np.sum(background), 350.0, "without any Z, the expected counts do not add up to B")
expect_close(background[0] / background[-1], (60**-2 - 60.5**-2) / (119.5**-2 - 120**-2),
             "the number of other pairs does not fall with the mass as it should")
peak = call("expected_counts", np.array([91.25, 2.5, 9000.0, 0.0]), EDGES, where="jax")
expect(8730 < np.sum(peak) < 8780, "97.3% of the Zs should be between 60 and 120 GeV, but here they are not")
expect(940 < peak[62] < 965, "the highest bin should hold 10.6% of the Zs for a width of 2.5 GeV: "
                             "12.6% mean no detector, 8% one that is twice as bad")
few, many = (operations("expected_counts", typical, np.linspace(60.0, 120.0, bins + 1))
             for bins in (6, 120))
expect(few == many, "a loop of Python over the bins: JAX writes down each iteration")
expect(sum(many.values()) < 80, "a loop of Python over the nodes: JAX writes down each iteration")
### BEGIN HIDDEN TESTS
def model(parameters, edges):
    mass, width, zs, others = parameters
    true = edges[:, None] * np.exp(-SIGMA * NODES)
    cumulative = np.arctan((true**2 - mass**2) / (mass * width)) / np.pi @ WEIGHTS
    return zs * np.diff(cumulative) + others * np.diff(edges**-2) / (edges[-1]**-2 - edges[0]**-2)

for name in ("one", "two", "three"):
    mass, width, zs, others = secret_rng(name).uniform([85, 1, 10, 10], [97, 5, 10**5, 10**4])
    for parameters, what in (([mass, width, zs, 0.0], "wrong for Zs alone"),
                             ([mass, width, 0.0, others], "wrong for the others alone"),
                             ([mass, width, zs, others], "wrong for Zs and others together")):
        counts = call("expected_counts", np.array(parameters), EDGES, where="jax")
        expect_close(counts, model(parameters, EDGES), what, rtol=1e-5)
uneven = np.array([50.0, 80.0, 88.0, 90.0, 91.0, 95.0, 150.0])
expect_close(call("expected_counts", typical, uneven, where="jax"), model(typical, uneven),
             "wrong for other edges, or bins of different widths", rtol=1e-5)
### END HIDDEN TESTS

# %% id="test-nll" role="test" points=2 starter="PropertyFailed"
typical = np.array([91.2, 2.5, 9000.0, 350.0])
another = np.array([91.0, 2.8, 8000.0, 500.0])
expected, others = (call("expected_counts", parameters, EDGES, where="jax")
                    for parameters in (typical, another))
counts = secret_rng().poisson(np.maximum(expected, 1.0)).astype(np.float64)
values = [call("nll", parameters, EDGES, counts, where="jax") for parameters in (typical, another)]
expect(np.shape(values[0]) == (), "the result is not one number")
# A constant does not matter: it is the same for all parameters.
expect_close(values[1] - values[0], np.sum(others - expected - counts * np.log(others / expected)),
             "the sum over the bins is wrong")
few, many = (operations("nll", typical, np.linspace(60.0, 120.0, bins + 1), np.ones(bins))
             for bins in (6, 120))
# What the answer to `expected_counts` records in each has been judged above.
within = sum(operations("expected_counts", typical, EDGES).values())
expect(few == many and sum(many.values()) - within < 120,
       "a loop of Python over the bins: JAX writes down each iteration")
### BEGIN HIDDEN TESTS
def model(parameters, edges):
    mass, width, zs, others = parameters
    true = edges[:, None] * np.exp(-SIGMA * NODES)
    cumulative = np.arctan((true**2 - mass**2) / (mass * width)) / np.pi @ WEIGHTS
    return zs * np.diff(cumulative) + others * np.diff(edges**-2) / (edges[-1]**-2 - edges[0]**-2)

for name in ("one", "two"):
    parameters = secret_rng(name).uniform([85, 1, 10**3, 10**2], [97, 5, 10**5, 10**4])
    expected = model(parameters, EDGES)
    counts = secret_rng(f"counts {name}").poisson(0.3 * expected).astype(np.float64)
    others = model(typical, EDGES)
    values = [call("nll", given, EDGES, counts, where="jax") for given in (typical, parameters)]
    expect_close(values[1] - values[0],
                 np.sum(expected - others - counts * np.log(expected / others)),
                 "wrong for other counts, zeros too")
### END HIDDEN TESTS

# %% [markdown] id="step-10"
# ## 8. Mass, width and their errors
#
# The parameters that minimise `nll` are the *maximum-likelihood estimate*. There, the gradient is zero, and the second
# derivatives say how sharp the minimum is. Let $H$ be the 4 × 4 matrix of second derivatives at the estimate. The
# covariance of the four parameters is $H^{-1}$, and the error of each is the root of *its diagonal element of the
# inverse*. One over the root of $H$'s own diagonal element would be the error if the other three were known.
#
# `jax.grad(nll)` and `jax.hessian(nll)` compute the exact derivatives with respect to the first argument, by the chain
# rule. `jax.jit` compiles them once for each set of shapes, which takes a second. The answer cells create `hessian`,
# `compiled_nll` and `gradient` outside the functions, so that all calls share them. Use these three. They keep the
# `nll` from which they were compiled, so **when you change `nll` or `expected_counts`, run these cells again.**
#
# - `uncertainties(parameters, edges, counts)` returns the four errors.
# - `fit(edges, counts)` returns the estimate and its errors, a tuple of two arrays of shape (4,).
#
# Use Newton's method: with gradient $g$ and matrix $H$, replace `parameters` by `parameters` $- H^{-1} g$, and repeat.
# The next step would lower `nll` by about $\frac12 g^T H^{-1} g$. Stop when that is below 10⁻⁸, or after 50 steps. Far
# from the minimum, a whole step may lead uphill, so halve it until `nll` does not rise. Begin at
# `start(edges, counts)`, which is close enough.
#
# For 4,000 to 12,000 Zs, an estimate must differ from the minimum by at most a hundredth of its error. You may use
# `scipy.optimize` instead of Newton's method.
#
# Hints: `hint("uncertainties")`, `hint("fit")`.

# %% id="starting-point" role="setup"
def start(edges, counts):
    """Return starting values of a fit: the fullest bin, a width of 2.5 GeV, 5% of others."""
    fullest = np.argmax(counts)
    total = np.sum(counts)
    return np.array([(edges[fullest] + edges[fullest + 1]) / 2, 2.5, 0.95 * total, 0.05 * total])

# %% id="uncertainties" role="solution"
hessian = jax.jit(jax.hessian(nll))


def uncertainties(parameters, edges, counts):
    """Return the errors of the parameters at the minimum of nll: float64, shape (4,)."""
    ### BEGIN SOLUTION
    covariance = jnp.linalg.inv(hessian(parameters, edges, counts))
    return jnp.sqrt(jnp.diag(covariance))
    ### END SOLUTION

# %% id="test-uncertainties" role="test" points=2 starter="PropertyFailed"
# Fewer counts, larger errors: with a hundredth of the counts they are ten times as large.
typical = np.array([91.2, 2.5, 9000.0, 350.0])
expected = np.asarray(call("expected_counts", typical, EDGES, where="host"))
errors = np.asarray(call("uncertainties", typical, EDGES, expected, where="host"))
expect(np.shape(errors) == (4,), "there are not four errors")
expect(abs(errors[1] - 0.0448) > 0.0005,
       "these are the errors if the other three parameters were known: invert first, then take the diagonal")
expect_close(errors, [0.0223, 0.0477, 100.0, 32.2], rtol=0.02, otherwise="the errors for 9,000 Zs are wrong")
less = typical * [1, 1, 0.01, 0.01]
expect_close(call("uncertainties", less, EDGES, expected / 100, where="host"),
             errors * [10, 10, 0.1, 0.1], "a hundredth of the counts does not give ten times the error",
             rtol=1e-3)
### BEGIN HIDDEN TESTS
def model(parameters, edges):
    mass, width, zs, others = parameters
    true = edges[:, None] * np.exp(-SIGMA * NODES)
    cumulative = np.arctan((true**2 - mass**2) / (mass * width)) / np.pi @ WEIGHTS
    return zs * np.diff(cumulative) + others * np.diff(edges**-2) / (edges[-1]**-2 - edges[0]**-2)

for name in ("one", "two"):
    parameters = secret_rng(name).uniform([90.5, 2.0, 4000, 200], [92.0, 3.2, 12000, 800])
    expected = model(parameters, EDGES)
    # Where counts are what is expected, H is the sum over bins of gradients' products over counts.
    steps = np.diag(1e-6 * parameters)
    slopes = np.array([(model(parameters + step, EDGES) - model(parameters - step, EDGES))
                       / (2 * step.sum()) for step in steps])
    errors = np.sqrt(np.diag(np.linalg.inv(slopes / expected @ slopes.T)))
    expect_close(call("uncertainties", parameters, EDGES, expected, where="host"), errors,
                 "the errors are wrong for other parameters", rtol=1e-3)
### END HIDDEN TESTS

# %% id="fit" role="solution"
compiled_nll, gradient = jax.jit(nll), jax.jit(jax.grad(nll))


def fit(edges, counts):
    """Return the parameters that minimise nll, and their errors: two arrays of shape (4,)."""
    ### BEGIN SOLUTION
    parameters = start(edges, counts)
    for _ in range(50):
        slope = gradient(parameters, edges, counts)
        step = -jnp.linalg.solve(hessian(parameters, edges, counts), slope)
        if abs(step @ slope) / 2 < 1e-8:
            break
        here = compiled_nll(parameters, edges, counts)
        # "Not at most" rather than "more": outside of what makes sense nll is NaN.
        while not compiled_nll(parameters + step, edges, counts) <= here:
            step = step / 2
        parameters = parameters + step
    return parameters, uncertainties(parameters, edges, counts)
    ### END SOLUTION

# %% id="test-fit" role="test" points=4 starter="PropertyFailed"
typical = np.array([91.0, 2.7, 8000.0, 400.0])
expected = np.asarray(call("expected_counts", typical, EDGES, where="host"))
result = call("fit", EDGES, expected, where="host")
expect(isinstance(result, tuple) and len(result) == 2 and np.shape(result[0]) == (4,)
       and np.shape(result[1]) == (4,), "the result is not a tuple of four estimates and four errors")
estimate, errors = map(np.asarray, result)
expect((np.abs(estimate - typical) < 0.01 * np.abs(errors)).all(),
       "counts that are exactly what some parameters lead to expect do not give them back")
expect_close(errors[0], 0.0249, rtol=0.02, otherwise="the error of the mass is wrong")
### BEGIN HIDDEN TESTS
def model(parameters, edges):
    mass, width, zs, others = parameters
    true = edges[:, None] * np.exp(-SIGMA * NODES)
    cumulative = np.arctan((true**2 - mass**2) / (mass * width)) / np.pi @ WEIGHTS
    return zs * np.diff(cumulative) + others * np.diff(edges**-2) / (edges[-1]**-2 - edges[0]**-2)

for name in ("one", "two", "three"):
    truth = secret_rng(name).uniform([90.5, 2.0, 4000, 200], [92.0, 3.2, 12000, 800])
    counts = secret_rng(f"counts {name}").poisson(model(truth, EDGES)).astype(np.float64)
    estimate, errors = map(np.asarray, call("fit", EDGES, counts, where="host"))
    # One step of Newton's method from the estimate: it must lead nearly nowhere.
    mu, steps = model(estimate, EDGES), np.diag(1e-6 * estimate)
    slopes = np.array([(model(estimate + step, EDGES) - model(estimate - step, EDGES))
                       / (2 * step.sum()) for step in steps])
    covariance = np.linalg.inv(slopes * counts / mu**2 @ slopes.T)
    expect((np.abs(covariance @ slopes @ (1 - counts / mu)) < 0.02 * np.abs(errors)).all(),
           "the estimate is not where the likelihood is largest, for other counts")
    expect_close(errors, np.sqrt(np.diag(covariance)), "the errors are wrong for other counts",
                 rtol=0.1)
### END HIDDEN TESTS

# %% [markdown] id="measurement"
# ## The measurement
#
# Now combine everything: the histogram from the device, the fit and the plot.

# %% id="the-z"
def measured(device_events, known):
    """Counts, estimate and errors; and says how far mass and width are from what is known."""
    counts = cuda.to_device(np.zeros(len(EDGES) + 1, np.int32))
    fill_events[64, 128](device_events, EDGES[0], EDGES[-1], counts)
    counts = counts.copy_to_host()[1:-1]  # without underflow and overflow
    estimate, errors = fit(EDGES, counts)
    true = (Z_MASS, Z_WIDTH)
    for name, value, error, truth in zip(("mass ", "width"), estimate, errors, true, strict=False):
        print(f"{name} = {value:.3f} ± {error:.3f} GeV; {known} {truth:.3f}, "
              f"{(value - truth) / error:+.1f} errors away")
    return counts, estimate, errors


if written(best_mass, fill_events, expected_counts, nll, uncertainties, fit):
    counts, estimate, errors = measured(device_events, "the generator has")

# %% id="the-plot"
def draw_fit(counts, estimate):
    model = expected_counts(estimate, EDGES)
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    _, (above, below) = plt.subplots(2, sharex=True, height_ratios=(3, 1), figsize=(8, 5))
    above.errorbar(middle, counts, np.sqrt(counts), fmt="k.", label="events")
    above.stairs(model, EDGES, color="#D55E00", label="fit")
    above.stairs(expected_counts(estimate * np.array([1, 1, 0, 1]), EDGES), EDGES, color="#0072B2",
                 ls="--", label="of it, pairs that are no Z")
    above.set(yscale="log", ylabel="events per 0.5 GeV")
    above.legend()
    below.axhline(0, color="0.7")
    pulls = (counts - model) / np.sqrt(model)
    below.plot(middle, pulls, "k.")
    below.set(xlabel="mass of the muon pair nearest the Z [GeV]", ylabel="pull", ylim=(-4, 4))
    show_figure(f"Above, with a logarithmic scale: events per 0.5 GeV with error bars, the fit, and the "
                f"part of it that is no Z; the most events are at {middle[counts.argmax()]:.2f} GeV. "
                f"Below: pulls, from {pulls.min():.1f} to {pulls.max():.1f}.")


if written(best_mass, fill_events, expected_counts, nll, uncertainties, fit):
    draw_fit(counts, estimate)

# %% id="test-the-z" role="test" points=3 starter="PropertyFailed"
def measure(sample):
    """Estimate and errors from events, through fill_events and fit."""
    counts = np.zeros(len(EDGES) + 1, np.int32)
    launch("fill_events", 64, 128, sample, EDGES[0], EDGES[-1], counts, schedules=0)
    measured = call("fit", EDGES, counts[1:-1].astype(np.float64), where="host")
    return map(np.asarray, measured)

estimate, errors = measure(dimuons())
expect_close(errors[:2], [0.0224, 0.0475], rtol=0.03, otherwise="the errors of mass and width are wrong")
expect(abs(estimate[0] - Z_MASS) < 3 * errors[0], "the mass is more than three errors from the truth")
expect(abs(estimate[1] - Z_WIDTH) < 3 * errors[1], "the width is more than three errors from the truth")
### BEGIN HIDDEN TESTS
# Momenta in another unit, so to speak: the Z has another mass and width, which no answer knows. Six errors: a
# right answer fails here less often than once in 10^8 gradings.
scale = 1 + secret_rng("scale").choice([-1, 1]) * secret_rng("size").uniform(0.01, 0.02)
sample = dimuons(20_000, seed=int(secret_rng("fresh").integers(1 << 30)))
sample["muons", "pt"] = ak.values_astype(sample.muons.pt * scale, np.float32)
estimate, errors = measure(sample)
expect((np.abs(estimate[:2] - scale * np.array([Z_MASS, Z_WIDTH])) < 6 * errors[:2]).all(),
       "mass or width is far from the truth on fresh events")
expect_close(errors[:2], [0.036, 0.076], rtol=0.25, otherwise="the errors are wrong on fresh events")
### END HIDDEN TESTS

# %% [markdown] id="real-text"
# ## Now the real Z
#
# Your analysis is finished, so you can apply it to real collisions. The next cell downloads the first 100,000 events of
# the [real file](https://opendata.cern.ch/record/12341) from CERN's server. That is some megabytes of its 2,244,449,133
# bytes, which the course keeps on disk. Without a network the cell says so, and you lose no points.
# `gpucourse data fetch` downloads the whole file, 2.2 GB, and compares it with the checksum that the record publishes,
# `adler32:1fa61aca`.
#
# Before you run it, note that two things are missing from the model. Muons radiate photons, and the sides of the
# detector measure muons less precisely than to 1%. How will that change the mass, the width, and the pulls?

# %% id="the-real-z"
from gpucourse.data import opendata

if written(best_mass, fill_events, expected_counts, nll, uncertainties, fit):
    try:
        real_events = ak.to_backend(opendata.first(100_000), "cuda")
    except opendata.FetchError as reason:
        print("No real Z today.", reason)
    else:
        real_counts, real_estimate, _ = measured(real_events, "the Particle Data Group publishes")
        draw_fit(real_counts, real_estimate)

# %% [markdown] id="further" tags=["further"]
# The project ends here: you have measured the Z. The following steps go **further**, and each gives points. Do them
# now, or continue with the next lesson and come back later.

# %% [markdown] id="predict-traffic" tags=["predict"]
# ### Predict: which method moves less?
#
# The launches below make one histogram, either with `nearest_z` and then `fill_masses`, or with `fill_events`. We count
# the sectors of 32 bytes that they read and write. An event has 1.4 muons on average, with 16 bytes each, and an offset
# of 8 bytes. Which method moves more, and is it a few per cent more or twice as much? And which moves more for *ten*
# histograms of the same masses, with different bins?

# %% id="sectors-guess"
predict("sectors",
        "storing first, twice as many; for ten as well",
        "storing first, a little more; for ten far fewer",
        "on the fly, a little more; for ten, ten times as many")

# %% id="sectors" role="setup"
def sectors_of(kernel, *arguments):
    """Return the sectors of global memory that one launch reads and writes, or None on a real GPU."""
    import virtualgpu
    from gpucourse.system.device import device

    if not device().virtual:
        kernel[64, 128](*arguments)
        return None
    with virtualgpu.profile() as profile:
        kernel[64, 128](*arguments)
    counters = profile.launches[0].counters
    # An atomic addition reads a sector and writes it.
    return counters.global_sectors + 2 * counters.global_atomics

# %% id="measure"
traffic = {}
if written(best_mass, fill_masses, fill_events):
    device_masses = cuda.device_array(len(events), np.float64)
    counts = cuda.to_device(np.zeros(122, np.int32))
    traffic["store"] = sectors_of(nearest_z, device_events, device_masses)
    traffic["refill"] = sectors_of(fill_masses, device_masses, 60.0, 120.0, counts)
    traffic["on the fly"] = sectors_of(fill_events, device_events, 60.0, 120.0, counts)
    for name, sectors in traffic.items():
        print(f"{name:10}: " + (f"{sectors:,} sectors" if sectors else "a GPU does not count"))

# %% [markdown] id="sectors-why" tags=["why"]
# For one histogram, storing moves a little more, because both methods have to read the muons, and there is little else
# to move. For ten, computing on the fly reads the muons ten times. The output above shows your own numbers, and the
# next step uses them.

# %% [markdown] id="step-7"
# ## 9. When does storing pay?
#
# Storing the masses costs `store` once and `refill` for each histogram. Computing on the fly costs `on_the_fly` for
# each. `break_even(on_the_fly, store, refill)` returns the smallest number of histograms for which storing moves
# *fewer* sectors, as an int, or None if it never does. It runs on the host, and its three arguments are integers.
# Compute with integers, so that a tie is exactly a tie.
#
# Hints: `hint("break-even")`.

# %% id="break-even" role="solution"
def break_even(on_the_fly, store, refill):
    """Return the smallest number of histograms for which storing moves fewer sectors, or None."""
    ### BEGIN SOLUTION
    saved = on_the_fly - refill  # by each histogram
    if saved <= 0:
        return None
    # The least whole number with number * saved > store; a tie is not fewer.
    return store // saved + 1
    ### END SOLUTION

# %% id="test-break-even" role="test" points=2 starter="PropertyFailed"
def pays_from(*costs):
    return call("break_even", *costs, where="host")

expect(pays_from(100, 250, 50) == 6, "a tie counts as fewer: with 5 both ways move 500")
expect(pays_from(100, 240, 50) == 5, "wrong when it pays from the fifth histogram on")
expect(pays_from(100, 90, 100) is None, "wrong when refilling costs as much as computing on the fly")
### BEGIN HIDDEN TESTS
rng = secret_rng("costs")
for _ in range(8):
    refill = int(rng.integers(1, 10**6))
    on_the_fly, store = refill + int(rng.integers(1, 10**6)), int(rng.integers(1, 10**8))
    number = pays_from(on_the_fly, store, refill)
    expect(type(number) is int, "the number of histograms is not a whole number")
    expect(store + number * refill < number * on_the_fly, "it does not pay yet at that number")
    expect(store + (number - 1) * refill >= (number - 1) * on_the_fly, "it pays already before")
expect(pays_from(5, 10**18 + 1, 2) == (10**18 + 1) // 3 + 1, "wrong for large whole numbers")
expect(pays_from(50, 10, 80) is None, "wrong when refilling costs more than computing on the fly")
### END HIDDEN TESTS

# %% id="traffic-plot"
if all(traffic.values()) and traffic and written(break_even):
    number = np.arange(0, 8)
    plt.figure(figsize=(6, 3))
    plt.plot(number, number * traffic["on the fly"], "o-", color="#D55E00", label="on the fly")
    plt.plot(number, traffic["store"] + number * traffic["refill"], "s-", color="#0072B2",
             label="precomputed")
    even = break_even(traffic["on the fly"], traffic["store"], traffic["refill"])
    plt.axvline(even, ls=":")
    plt.xlabel("histograms of the same masses")
    plt.ylabel("sectors read and written")
    plt.legend()
    show_figure(f"Sectors read and written against the number of histograms: on the fly "
                f"{traffic['on the fly']:,} for each; precomputed {traffic['store']:,} once and "
                f"{traffic['refill']:,} for each. A dotted line marks {even:.2f} histograms.")

# %% [markdown] id="traffic-why"
# For one histogram, both methods cost about the same, because both read the muons, and a mass has 8 bytes while an
# event's muons have about 22. Once the masses are stored, the second histogram costs almost nothing. So do not ask only
# "compute or store?", but also **how often the result is read again**. If a mass were hard to compute from little data,
# the result could be different, so count before you decide.

# %% [markdown] id="step-8-arrays"
# ## 10. The same with array operations
#
# A result is more convincing if two different programs agree on it. `nearest_on_cpu(events)` computes the same as
# `nearest_z`, without a loop. It uses `ak.combinations` for the pairs, and [vector](https://vector.readthedocs.io/) to
# add muons. It returns a NumPy array of float64, with one mass for each event and NaN if there is no pair. The test
# compares only these masses, however the host computes them. Do not launch the kernel that you want to check, because
# it would always agree with itself.
#
# - `ak.zip({"pt": …, "eta": …, "phi": …, "mass": …}, with_name="Momentum4D")` makes four-vectors. Give
#   them the mass 0, as above, and float64 (`ak.values_astype`). Then `(a + b).mass` is a pair's mass.
# - `ak.combinations(muons, 2)` has the pairs of each event. `ak.unzip` turns it into two arrays, the
#   first and the second muons of the pairs.
# - `ak.argmin(…, axis=1, keepdims=True)` returns an index that you can use in brackets. `ak.firsts` turns a list of at
#   most one element into a value or None. Then use `ak.fill_none` and `ak.to_numpy`.
# - Skip a pair whose mass is NaN here as well. `ak.argmin` may choose a NaN, so remove such masses before you call it.
#
# Hints: `hint("nearest-on-cpu")`.

# %% id="vector" role="setup"
import vector

vector.register_awkward()

# %% id="nearest-on-cpu" role="solution"
def nearest_on_cpu(events):
    """Return the mass nearest Z_MASS of each event's opposite-sign pairs: float64, NaN without one."""
    ### BEGIN SOLUTION
    muons = ak.values_astype(events.muons, np.float64)
    momenta = ak.zip(
        {"pt": muons.pt, "eta": muons.eta, "phi": muons.phi, "mass": 0.0 * muons.pt,
         "charge": muons.charge},
        with_name="Momentum4D",
    )
    one, other = ak.unzip(ak.combinations(momenta, 2))
    opposite = one.charge != other.charge
    masses = (one[opposite] + other[opposite]).mass
    masses = masses[~np.isnan(masses)]
    index = ak.argmin(abs(masses - Z_MASS), axis=1, keepdims=True)
    return ak.to_numpy(ak.fill_none(ak.firsts(masses[index]), math.nan))
    ### END SOLUTION

# %% id="test-nearest-on-cpu" role="test" points=3 starter="PropertyFailed"
sample = dimuons(400, seed=int(secret_rng().integers(1 << 30)), background=1.0)
masses, expected = call("nearest_on_cpu", sample, where="host"), reference(sample, nearest)
expect(not launches(), "a kernel is launched: it would agree with itself, whatever it computes")
expect(np.shape(masses) == (400,), "there is not one number for each event")
expect_equal(np.isnan(masses), np.isnan(expected), "wrong events have a pair")
expect_close(masses, expected, rtol=1e-4, otherwise="the masses are not those nearest the Z")
### BEGIN HIDDEN TESTS
plus, minus, bad = (20.0, 0.5, 0.0, 1), (90.0, -0.5, 3.0, -1), (math.nan, 0.0, 1.0, -1)
odd = events_of([], [plus], [plus, plus], [plus, minus], [bad, plus, minus], [plus, bad],
                [plus, minus, plus, minus, (5.0, 0.0, 1.0, 1)])
masses, expected = call("nearest_on_cpu", odd, where="host"), reference(odd, nearest)
expect(not launches(), "a kernel is launched: it would agree with itself, whatever it computes")
expect(np.shape(masses) == (7,), "there is not one number for each event")
expect(np.isnan(masses[[0, 1, 2]]).all(), "an event without a pair has a mass that is not NaN")
expect_close(masses[[3, 6]], expected[[3, 6]], rtol=1e-4,
             otherwise="wrong for an event with several pairs")
expect_close(masses[4], expected[3], rtol=1e-4, atol=1e-3,
             otherwise="a pair whose mass is NaN hides the good pair of its event")
expect(math.isnan(masses[5]), "a pair whose mass is NaN counts as a pair")
### END HIDDEN TESTS

# %% id="compare"
if written(best_mass, nearest_on_cpu):
    device_masses = cuda.device_array(len(events), np.float64)
    nearest_z[64, 128](device_events, device_masses)
    ours, theirs = device_masses.copy_to_host(), nearest_on_cpu(events)
    print("the same events have a pair:", np.array_equal(np.isnan(ours), np.isnan(theirs)))
    print(f"largest difference: {np.nanmax(abs(ours - theirs)):.1e} GeV")

# %% [markdown] id="report-text"
# ## The report card of your kernel
#
# The next cell counts what `fill_events` does with 2,000 events. Look at which of your lines reads most sectors, and
# how many lanes are idle. The 32 threads of a warp wait for the thread whose event has the most pairs.

# %% id="report"
if written(best_mass, fill_events):
    from IPython.display import display

    from gpucourse import report

    small = ak.to_backend(events[:2000], "cuda")
    display(report(fill_events, 8, 128, small, 60.0, 120.0, np.zeros(122, np.int32)))

# %% [markdown] id="reflection-question"
# ## Think, and write
#
# In the cell below, answer in a few sentences each. A person reads it.
#
# 1. `best_mass` chooses the pair that is nearest to the Z's mass, and then you measure the Z's mass. Why does this
#    choice alone not produce the right result? What would it do to a sample without any Z, and how could you find out
#    with an experiment with the generator?
# 2. The model assumes that two things are known: the detector's resolution, and how the number of other pairs falls
#    with the mass. If the resolution were really 1.1% instead of 1%, would the mass or the width be wrong, and in which
#    direction? Would the errors that `fit` returns tell you?
# 3. A colleague says that the whole analysis takes 0.2 s with Awkward on her CPU, so the kernels were
#    a waste of time. What would you want to know before you agree, or disagree?

# %% [markdown] id="reflection" role="written" points=4
# ### BEGIN SOLUTION
# *A model answer; a point for each paragraph that is there in substance, and one for an experiment that
# would really decide.*
#
# 1. Choosing among an event's pairs favours masses near the Z, so wrong pairs pile up there, and the
#    background gets something like a peak. For events with a single pair, most of them here,
#    there is nothing to choose. A real Z pair mostly wins against the wrong ones and its mass is
#    unchanged, so the bias is small. But it is towards `Z_MASS`, and a sample without Z would show a
#    bump there. Generate events with `fractions={"continuum": 1.0}` and many background muons and
#    look, or generate events with the choice made for another mass and see whether the fit follows.
#
# 2. The width would be wrong. The measured peak is the Breit–Wigner and the resolution together. If the model attributes too
#    little of it to the detector, it attributes the rest to the Z, and the width comes out too large. The
#    mass stays, because the smearing is nearly symmetric. The errors of the fit are statistical: they
#    assume that the model is right, and do not show this. One would repeat the fit with 1.1% and quote
#    the difference as a systematic error, or also fit the resolution, from J/ψ, whose own width is tiny.
#    (The fixed m⁻³ is a similar assumption, and moves the width by a sixth of its error.)
#
# 3. For 50,000 events she may be right, because launches, copies to the device and compiling cost more than the
#    work. You would want to know how many events there are, whether they are on the device already and stay
#    there for the next steps, how often the analysis is repeated, and how many temporary arrays the
#    array-at-a-time version makes, each written and read in full. Measure both at the real size, after
#    a warm-up and with synchronisation.
# ### END SOLUTION

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## In five sentences
#
# - A jagged array consists of a few flat columns and offsets, and kernels read it in place, one event per thread.
# - An index that does not exist ends a thread without a message, and its remaining events are lost.
# - "No pair" needs a value that cannot be mistaken for a mass, and all later steps have to handle it.
# - It pays to store an intermediate result if it is read more than once. Count the sectors before you decide.
# - If JAX can differentiate a likelihood, the gradient leads to the estimate, and the second derivatives give the
#   errors. Both are only as good as the model.
#
# ## Read on
#
# - [Awkward Array in Numba's CUDA kernels](https://awkward-array.org/doc/main/user-guide/how-to-use-in-numba-cuda.html)
# - [vector](https://vector.readthedocs.io/), four-vectors and their functions
# - [JAX: automatic differentiation](https://docs.jax.dev/en/latest/automatic-differentiation.html)
# - Particle Data Group, [Statistics](https://pdg.lbl.gov/), section "Parameter estimation", on maximum
#   likelihood and the source of its errors

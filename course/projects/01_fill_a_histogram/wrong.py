"""Wrong answers that people really give, each with the reason that the grader must find.

``fails`` lists every test cell that must fail; the reason of the first must contain ``reason``.
Cells that are not named are those of the solution. A mistake in one or two places is written as the
solution with these changed, ``changed(cell, old, new)``; an answer that goes about it in another way
is written out.
"""

from gpucourse.course.edited import edits_beside

changed = edits_beside(__file__)

# Stands below `bin_index` in its cell and is given to the learner.
FIND_SLOTS = '''

@cuda.jit
def find_slots(values, low, high, bins, slots):
    i = cuda.grid(1)
    if i < values.size:
        slots[i] = bin_index(values[i], low, high, bins)
'''

# Those that count with `bin_index`.
EVERY_TEST = [
    "test-bin-inside",
    "test-bin-outside",
    "test-fill-private",
    "test-fill-atomic",
    "test-fill-shared",
    "test-shared-traffic",
    "test-histogram",
    "test-fill-weighted",
    "test-histogram-golf",
]

# A kernel that looks like work.
COPY = '''@cuda.jit
def copy(counted, counts):
    i = cuda.grid(1)
    if i < counts.size:
        counts[i] = counted[i]
'''

# Reads each value, evenly, and makes nothing of it.
READ = '''

@cuda.jit
def read(values, nowhere):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        if values[i] == 1e300:
            nowhere[0] = 1
'''


# Counts by NumPy what comes back from the device, beside a table that a kernel wrote.
PICKED = '''@cuda.jit
def tabulate(values, table):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        if values[i] == 1e308:
            table[0] = 1
    for i in range(cuda.grid(1), table.size, cuda.gridsize(1)):
        table[i] = i


def histogram(values, low, high, bins):
    table = cuda.device_array(262_144, np.int32)
    there = cuda.to_device(values)
    if values.size:
        tabulate[16, 256](there, table)
    counts = reference(there.copy_to_host(), low, high, bins)
    PICK
'''


def fill_weighted(dtype="float64", square="weights[i] * weights[i]", skip="mine[1, slot] > 0.0"):
    """The solution's `fill_weighted` with another type, square or way to skip empty slots."""
    return f'''@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    mine = cuda.shared.array((2, MAX_SLOTS), {dtype})
    slots = sums.shape[1]
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[0, slot] = 0.0
        mine[1, slot] = 0.0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, (0, slot), weights[i])
        cuda.atomic.add(mine, (1, slot), {square})
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if {skip}:
            cuda.atomic.add(sums, (0, slot), mine[0, slot])
            cuda.atomic.add(sums, (1, slot), mine[1, slot])
'''


def fill_shared(counting):
    """A `fill_shared` that counts its own way."""
    return f'''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
{counting}    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''


WRONG = [
    # -- bin_index -----------------------------------------------------------------------------
    {
        "name": "everything-in-one-bin",
        "kind": "everything in bin 0",
        "fails": EVERY_TEST,
        "reason": "a value between low and high gets the wrong slot",
        # The right total, which is all that a careless test would look at.
        "cells": {"bin-index": '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    return 0
''' + FIND_SLOTS},
    },
    {
        "name": "off-by-one-bin",
        "kind": "off-by-one bin",
        "fails": [test for test in EVERY_TEST if test != "test-bin-outside"],
        "reason": "a value between low and high gets the wrong slot",
        # Forgets that slot 0 is underflow.
        "cells": changed("bin-index", '''        position = (value - low) / (high - low) * bins
        # Just below high, rounding may carry the position up to bins.
        return min(int(position) + 1, bins)''',
            "        return int((value - low) / (high - low) * bins)"),
    },
    {
        "name": "last-edge-in-the-last-bin",
        "kind": "last edge",
        "fails": ["test-bin-outside"],
        "reason": "the value high itself does not count as overflow",
        # numpy.histogram's rule.
        "cells": {"bin-index": '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    if value <= high:
        return min(int((value - low) / (high - low) * bins) + 1, bins)
    return bins + 1
''' + FIND_SLOTS},
    },
    {
        "name": "nan-in-the-first-bin",
        "kind": "NaN put in bin 0",
        "fails": ["test-bin-outside", "test-histogram"],
        "reason": "NaN does not go into slot bins + 1",
        # Asks what to throw away: NaN passes both questions, and the clamp makes it a bin.
        "cells": {"bin-index": '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    if value >= high:
        return bins + 1
    position = int((value - low) / (high - low) * bins)
    return max(1, min(position + 1, bins))
''' + FIND_SLOTS},
    },
    {
        "name": "int-cuts-towards-zero",
        "kind": "underflow in the first bin",
        "fails": [
            "test-bin-outside", "test-fill-private", "test-fill-atomic", "test-fill-shared",
            "test-shared-traffic", "test-histogram", "test-fill-weighted", "test-histogram-golf",
        ],
        "reason": "a value less than one bin below low is not underflow",
        "cells": {"bin-index": '''@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if not value < high:
        return bins + 1
    return max(0, int((value - low) / (high - low) * bins) + 1)
''' + FIND_SLOTS},
    },
    # -- fill_private --------------------------------------------------------------------------
    {
        "name": "no-guard",
        "kind": "out of bounds",
        "fails": ["test-fill-private"],
        "reason": "outside",
        "cells": {"fill-private": '''@cuda.jit
def fill_private(values, low, high, rows):
    r = cuda.grid(1)
    bins = rows.shape[1] - 2
    for slot in range(bins + 2):
        rows[r, slot] = 0
    for i in range(r, values.size, rows.shape[0]):
        rows[r, bin_index(values[i], low, high, bins)] += 1
'''},
    },
    {
        "name": "rows-not-zeroed",
        "kind": "uninitialised private rows",
        "fails": ["test-fill-private"],
        "reason": "the rows together are not the histogram",
        "cells": changed("fill-private", '''        for slot in range(bins + 2):
            rows[r, slot] = 0
''',
            ""),
    },
    {
        "name": "one-chunk-per-thread",
        "kind": "correct but uncoalesced",
        "fails": ["test-fill-private"],
        "reason": "row r does not hold the values r, r + R, r + 2R",
        "cells": changed("fill-private", "        for i in range(r, values.size, rows.shape[0]):",
            '''        chunk = (values.size + rows.shape[0] - 1) // rows.shape[0]
        for i in range(r * chunk, min((r + 1) * chunk, values.size)):'''),
    },
    {
        "name": "one-thread-fills-all-rows",
        "kind": "one thread does everything",
        "fails": ["test-fill-private"],
        "reason": "one thread does the work of many",
        "cells": {"fill-private": '''@cuda.jit
def fill_private(values, low, high, rows):
    if cuda.grid(1) == 0:
        for r in range(rows.shape[0]):
            for slot in range(rows.shape[1]):
                rows[r, slot] = 0
        for i in range(values.size):
            rows[i % rows.shape[0], bin_index(values[i], low, high, rows.shape[1] - 2)] += 1
'''},
    },
    # -- merge_rows ----------------------------------------------------------------------------
    {
        "name": "tree-without-a-barrier",
        "kind": "missing barrier",
        "fails": ["test-merge-rows"],
        "reason": "race",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    cuda.syncthreads()
    active = cuda.blockDim.x
    while active > 1:
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
'''},
    },
    {
        "name": "barrier-inside-the-if",
        "kind": "divergent barrier",
        "fails": ["test-merge-rows"],
        "reason": "barrier",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    cuda.syncthreads()
    active = cuda.blockDim.x
    while active > 1:
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
            cuda.syncthreads()
        active = half
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
'''},
    },
    {
        "name": "powers-of-two-only",
        "kind": "power-of-two only",
        "fails": ["test-merge-rows"],
        "reason": "wrong when the number of threads is not a power of two",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
'''},
    },
    {
        "name": "endless-tree",
        "kind": "endless loop",
        "fails": ["test-merge-rows"],
        "reason": "never finishes",
        # Half of one, rounded up, is one.
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    active = cuda.blockDim.x
    while active > 0:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
'''},
    },
    {
        "name": "one-thread-adds-every-row",
        "kind": "one thread of each block does everything",
        "fails": ["test-merge-rows"],
        "reason": "one thread does the work of many",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    if cuda.threadIdx.x == 0:
        total = 0
        for r in range(rows.shape[0]):
            total += rows[r, cuda.blockIdx.x]
        counts[cuda.blockIdx.x] = total
'''},
    },
    {
        "name": "one-thread-adds-the-sums",
        "kind": "one thread of each block does everything",
        "fails": ["test-merge-rows"],
        "reason": "one thread does the work of many",
        # The threads share the rows; then 31 of 32 warps look on.
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    cuda.syncthreads()
    if t == 0:
        for k in range(1, cuda.blockDim.x):
            total += partial[k]
        counts[cuda.blockIdx.x] = total
'''},
    },
    {
        "name": "every-second-thread-reads-rows",
        "kind": "some threads do the work of all",
        "fails": ["test-merge-rows"],
        "reason": "1.5 times as many accesses to memory",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    total = 0
    if t % 2 == 0:
        for mine in range(t, min(t + 2, T)):
            for r in range(mine, rows.shape[0], T):
                total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    active = T
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
'''},
    },
    {
        "name": "sums-queue-at-one-address",
        "kind": "an atomic for each thread in place of a tree",
        "fails": ["test-merge-rows"],
        "reason": "threads queue at one address",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    total = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        total[0] = 0
    cuda.syncthreads()
    own = 0
    for r in range(cuda.threadIdx.x, rows.shape[0], cuda.blockDim.x):
        own += rows[r, cuda.blockIdx.x]
    cuda.atomic.add(total, 0, own)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = total[0]
'''},
    },
    {
        "name": "one-thread-after-the-other",
        "kind": "threads take turns at a barrier",
        "fails": ["test-merge-rows"],
        "reason": "the threads work one after the other",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    total = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        total[0] = 0
    for turn in range(cuda.blockDim.x):
        cuda.syncthreads()
        if turn == cuda.threadIdx.x:
            own = total[0]
            for r in range(turn, rows.shape[0], cuda.blockDim.x):
                own += rows[r, cuda.blockIdx.x]
            total[0] = own
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = total[0]
'''},
    },
    {
        "name": "lanes-hand-on-their-sums",
        "kind": "a queue of shuffles in place of a tree",
        "fails": ["test-merge-rows"],
        "reason": "the lanes of a warp pass on their numbers one after the other",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    sums = cuda.shared.array(32, int32)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    lanes = min(32, T - t // 32 * 32)
    own = int32(0)
    for r in range(t, rows.shape[0], T):
        own += rows[r, cuda.blockIdx.x]
    added = own
    for lane in range(1, lanes):
        added += cuda.shfl_sync((1 << lanes) - 1, own, lane)
    if t % 32 == 0:
        sums[t // 32] = added
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, (T + 31) // 32):
            added += sums[warp]
        counts[cuda.blockIdx.x] = added
'''},
    },
    # -- fill_atomic ---------------------------------------------------------------------------
    {
        "name": "plain-addition",
        "kind": "race",
        "fails": ["test-fill-atomic", "test-histogram"],
        "reason": "race",
        "cells": changed(
            "fill-atomic",
            "cuda.atomic.add(counts, bin_index(values[i], low, high, bins), 1)",
            "counts[bin_index(values[i], low, high, bins)] += 1",
        ),
    },
    {
        "name": "one-value-per-thread",
        "kind": "grid smaller than the data",
        "fails": ["test-fill-atomic"],
        "reason": "wrong when the grid has fewer threads than there are values",
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
'''},
    },
    {
        "name": "clips-the-values",
        "kind": "changes its input",
        "fails": ["test-fill-atomic"],
        "reason": "changes its input",
        # Tidies the data up in place before counting.
        "cells": changed("fill-atomic", "    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):",
            '''    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        if values[i] < low:
            values[i] = low - 1.0'''),
    },
    {
        "name": "hard-coded-bins",
        "kind": "hard-coded size",
        "fails": ["test-fill-atomic", "test-histogram"],
        "reason": "wrong for another number of values",
        # The ten bins of the visible test.
        "cells": changed("fill-atomic", "    bins = counts.size - 2\n", "", "bins),", "10),"),
    },
    {
        "name": "one-thread-of-the-grid",
        "kind": "one thread does everything",
        "fails": ["test-fill-atomic"],
        "reason": "one thread does the work of many",
        # Without rivals a plain += loses nothing.
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    if cuda.grid(1) == 0:
        for i in range(values.size):
            counts[bin_index(values[i], low, high, counts.size - 2)] += 1
'''},
    },
    {
        "name": "one-lane-of-each-warp",
        "kind": "one thread of each warp does everything",
        "fails": ["test-fill-atomic"],
        "reason": "one thread does the work of many",
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    if cuda.threadIdx.x % 32 == 0:
        for first in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            last = min(first + 32, (first - cuda.threadIdx.x) + cuda.blockDim.x, values.size)
            for i in range(first, last):
                cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
'''},
    },
    {
        "name": "one-thread-in-eight",
        "kind": "some threads do the work of all",
        "fails": ["test-fill-atomic"],
        "reason": "one thread does the work of many",
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    me = cuda.grid(1)
    if me % 8 == 0:
        for first in range(me, values.size, cuda.gridsize(1)):
            for i in range(first, min(first + 8, first - me + cuda.gridsize(1), values.size)):
                cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
'''},
    },
    # -- fill_shared ---------------------------------------------------------------------------
    {
        "name": "shared-not-zeroed",
        "kind": "shared histogram not zeroed",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "shared memory does not start at zero",
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "counts-before-all-is-zero",
        "kind": "missing barrier",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "race",
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "merges-with-a-plain-addition",
        "kind": "race",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "race",
        # Right with a single block.
        "cells": changed("fill-shared", '''        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])''',
            "        counts[slot] += mine[slot]"),
    },
    {
        "name": "one-slot-per-thread",
        "kind": "fewer threads than slots",
        "fails": ["test-fill-shared"],
        "reason": "that nobody has written",
        "cells": changed("fill-shared", '''    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0''',
            '''    t = cuda.threadIdx.x
    if t < slots:
        mine[t] = 0''',
            '''    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])''',
            '''    if t < slots:
        cuda.atomic.add(counts, t, mine[t])'''),
    },
    {
        "name": "global-atomics-in-disguise",
        "kind": "correct but with one global atomic per event",
        "fails": ["test-shared-traffic", "test-histogram"],
        "reason": "more atomic additions to global memory",
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    bins = counts.size - 2
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, bin_index(values[i], low, high, bins), 1)
'''},
    },
    {
        "name": "one-thread-of-each-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "one thread does the work of many",
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    if cuda.threadIdx.x == 0:
        for slot in range(slots):
            mine[slot] = 0
        for i in range(cuda.blockIdx.x, values.size, cuda.gridDim.x):
            mine[bin_index(values[i], low, high, slots - 2)] += 1
        for slot in range(slots):
            cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "one-thread-counts-for-all",
        "kind": "one thread of each block does everything",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "one thread does the work of many",
        # All threads read; the counting is left to one.
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    found = cuda.shared.array(MAX_THREADS, int32)
    slots, t = counts.size, cuda.threadIdx.x
    for slot in range(t, slots, cuda.blockDim.x):
        mine[slot] = 0
    for first in range(cuda.blockIdx.x * cuda.blockDim.x, values.size, cuda.gridsize(1)):
        found[t] = -1
        if first + t < values.size:
            found[t] = bin_index(values[first + t], low, high, slots - 2)
        cuda.syncthreads()
        if t == 0:
            for k in range(cuda.blockDim.x):
                if found[k] >= 0:
                    mine[found[k]] += 1
        cuda.syncthreads()
    cuda.syncthreads()
    for slot in range(t, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "every-fourth-thread",
        "kind": "some threads do the work of all",
        "fails": ["test-fill-shared", "test-shared-traffic"],
        "reason": "one thread does the work of many",
        "cells": {"fill-shared": fill_shared('''    me = cuda.grid(1)
    if me % 4 == 0:
        for first in range(me, values.size, cuda.gridsize(1)):
            for i in range(first, min(first + 4, first - me + cuda.gridsize(1), values.size)):
                cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
''')},
    },
    {
        "name": "half-of-the-warps-count",
        "kind": "some threads do the work of all",
        "fails": ["test-fill-shared"],
        "reason": "1.5 times as many accesses to memory",
        "cells": {"fill-shared": fill_shared('''    if cuda.threadIdx.x // 32 % 2 == 0:
        for j in (0, 32):
            if cuda.threadIdx.x + j < cuda.blockDim.x:
                for i in range(cuda.grid(1) + j, values.size, cuda.gridsize(1)):
                    cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
''')},
    },
    {
        "name": "five-blocks-read-the-same-values",
        "kind": "the same work in every block",
        "fails": ["test-shared-traffic"],
        "reason": "values are read again and again",
        # No two of five blocks ever add to one slot: each reads all their values.
        "cells": {"fill-shared": fill_shared('''    team = cuda.blockIdx.x // 5
    teams, others = (cuda.gridDim.x + 4) // 5, min(5, cuda.gridDim.x - 5 * team)
    for i in range(team * cuda.blockDim.x + cuda.threadIdx.x, values.size, teams * cuda.blockDim.x):
        slot = bin_index(values[i], low, high, counts.size - 2)
        if slot % others == cuda.blockIdx.x % 5:
            cuda.atomic.add(mine, slot, 1)
''')},
    },
    {
        "name": "lanes-take-turns",
        "kind": "threads take turns in a warp",
        "fails": ["test-fill-shared", "test-shared-traffic", "test-histogram"],
        "reason": "the threads work one after the other",
        # Each lane has its even share; so no two of a warp ever meet in a slot.
        "cells": {"fill-shared": fill_shared('''    for lane in range(32):
        if cuda.laneid == lane:
            for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
                cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
        cuda.syncwarp()
''')},
    },
    # -- histogram -----------------------------------------------------------------------------
    {
        "name": "numpy-in-place-of-a-kernel",
        "kind": "NumPy in place of a kernel",
        "fails": ["test-histogram"],
        "reason": "was computed on the host",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    edges = np.linspace(low, high, bins + 1)
    slots = np.searchsorted(edges, values, side="right")
    return np.bincount(slots, minlength=bins + 2).astype(np.int32)
'''},
    },
    {
        "name": "copies-what-numpy-counted",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram"],
        "reason": "its input never reaches the device",
        "cells": {"histogram": COPY + '''

def histogram(values, low, high, bins):
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    copy[math.ceil((bins + 2) / 128) + 1, 128](cuda.to_device(counted), counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "counts-in-vain-and-copies-numpys",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram"],
        "reason": "the counts are not those of the values that are on the device",
        # A kernel counts too, and NumPy what comes back; what is returned is NumPy's.
        "cells": {"histogram": COPY + '''

def histogram(values, low, high, bins):
    there = cuda.to_device(values)
    if values.size:
        kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
        kernel[4, 256](there, low, high, cuda.to_device(np.zeros(bins + 2, np.int32)))
        values = there.copy_to_host()
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    copy[math.ceil((bins + 2) / 128) + 1, 128](cuda.to_device(counted), counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "counts-values-that-come-back-in-another-form",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram"],
        "reason": "the counts are not those of the values that are on the device",
        # What a kernel has halved is twice as much again, and then NumPy's.
        "cells": {"histogram": COPY + '''

@cuda.jit
def halve(values, halves):
    i = cuda.grid(1)
    if i < values.size:
        halves[i] = values[i] / 2


def histogram(values, low, high, bins):
    if values.size:
        there = cuda.device_array(values.size, np.float64)
        halve[values.size // 256 + 2, 256](cuda.to_device(values), there)
        values = 2 * there.copy_to_host()
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    copy[math.ceil((bins + 2) / 128) + 1, 128](cuda.to_device(counted), counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "numpy-counts-many-values",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram"],
        "reason": "the counts of many values are not those of the values that are on the device",
        # Kernels count the few; of many they read each, evenly, and nothing comes of it.
        "cells": {"histogram": COPY + READ + '''

def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    if values.size > 50_000:
        read[16, 256](cuda.to_device(values), cuda.to_device(np.zeros(1, np.int32)))
        slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
        counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
        copy[math.ceil((bins + 2) / 128) + 1, 128](cuda.to_device(counted), counts)
    elif values.size:
        kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
        kernel[4, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "picks-numpys-counts-from-a-table",
        "kind": "NumPy, and a table from a kernel",
        "fails": ["test-histogram"],
        "reason": "was computed on the host",
        # The list holds what NumPy counts after the last launch; a kernel wrote all its numbers.
        "cells": {"histogram": PICKED.replace("PICK", """table.copy_to_host()
    return counts.tolist()""")},
    },
    {
        "name": "reads-numpys-counts-from-a-table",
        "kind": "NumPy, and a table from a kernel",
        "fails": ["test-histogram"],
        "reason": "the counts are not those of the values that are on the device",
        # The same number by number: each is all of a copy.
        "cells": {"histogram": PICKED.replace(
            "PICK", "return [int(table[n]) for n in counts] if values.size else counts")},
    },
    {
        "name": "zeroed-once-and-for-all",
        "kind": "histogram not zeroed between runs",
        "fails": ["test-histogram"],
        "reason": "wrong in the second call",
        "cells": {"histogram": '''kept = {}


def histogram(values, low, high, bins):
    if bins not in kept:
        kept[bins] = cuda.to_device(np.zeros(bins + 2, np.int32))
    counts = kept[bins]
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    blocks = max(1, min(math.ceil(values.size / 256), 128))
    kernel[blocks, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "one-block-only",
        "kind": "one block only",
        "fails": ["test-histogram"],
        "reason": "left to single blocks",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    kernel[1, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "blocks-of-one-thread",
        "kind": "blocks of a few threads",
        "fails": ["test-histogram"],
        "reason": "blocks of fewer than 32 threads",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    kernel[32, 1](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "no-blocks-for-no-values",
        "kind": "empty input",
        "fails": ["test-histogram"],
        "reason": "grid (0, 1, 1)",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    blocks = min(math.ceil(values.size / 256), 128)
    kernel[blocks, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "always-in-shared-memory",
        "kind": "out of bounds",
        "fails": ["test-histogram"],
        "reason": "outside",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    blocks = max(1, min(math.ceil(values.size / 256), 128))
    fill_shared[blocks, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "never-in-shared-memory",
        "kind": "correct but with one global atomic per event",
        "fails": ["test-histogram"],
        "reason": "each value is an atomic addition to global memory",
        "cells": {"histogram": '''def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    blocks = max(1, min(math.ceil(values.size / 256), 128))
    fill_atomic[blocks, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    # -- predict_passes -------------------------------------------------------------------------
    {
        "name": "forgets-the-last-warp",
        "kind": "whole warps only",
        "fails": ["test-predict-passes"],
        "reason": "wrong when the last warp has fewer values",
        "cells": {"predict-passes": '''def predict_passes(values, low, high, bins):
    passes = 0
    for warp in range(values.size // 32):
        passes += reference(values[32 * warp : 32 * warp + 32], low, high, bins).max()
    return int(passes)
'''},
    },
    # -- fill_weighted -------------------------------------------------------------------------
    {
        "name": "weights-without-squares",
        "kind": "Σw taken for Σw²",
        "fails": ["test-fill-weighted"],
        "reason": "the sums of the squares are wrong",
        "cells": {"fill-weighted": fill_weighted(square="weights[i]")},
    },
    {
        "name": "negative-sums-skipped",
        "kind": "negative weights",
        "fails": ["test-fill-weighted"],
        "reason": "wrong when weights are negative",
        "cells": {"fill-weighted": fill_weighted(skip="mine[0, slot] > 0.0")},
    },
    {
        "name": "weights-in-float32",
        "kind": "sums in float32",
        "fails": ["test-fill-weighted"],
        "reason": "or large weights",
        "cells": {"fill-weighted": fill_weighted(dtype="np.float32")},
    },
    {
        "name": "weights-straight-to-global",
        "kind": "correct but with one global atomic per event",
        "fails": ["test-fill-weighted"],
        "reason": "more than two atomic additions",
        "cells": {"fill-weighted": '''@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, sums.shape[1] - 2)
        cuda.atomic.add(sums, (0, slot), weights[i])
        cuda.atomic.add(sums, (1, slot), weights[i] * weights[i])
'''},
    },
    {
        "name": "one-thread-weighs-for-its-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-fill-weighted"],
        "reason": "one thread does the work of many",
        "cells": {"fill-weighted": '''@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    mine = cuda.shared.array((2, MAX_SLOTS), float64)
    if cuda.threadIdx.x == 0:
        for slot in range(sums.shape[1]):
            mine[0, slot] = mine[1, slot] = 0.0
        for i in range(cuda.blockIdx.x, values.size, cuda.gridDim.x):
            slot = bin_index(values[i], low, high, sums.shape[1] - 2)
            mine[0, slot] += weights[i]
            mine[1, slot] += weights[i] * weights[i]
        for slot in range(sums.shape[1]):
            cuda.atomic.add(sums, (0, slot), mine[0, slot])
            cuda.atomic.add(sums, (1, slot), mine[1, slot])
'''},
    },
    # -- histogram_golf ------------------------------------------------------------------------
    {
        "name": "golf-on-one-block",
        "kind": "one block only",
        "fails": ["test-histogram-golf"],
        "reason": "not counted by launches of at least 16 blocks",
        "cells": {"histogram-golf": '''def histogram_golf(values, low, high, bins):
    rows = cuda.device_array((1, bins + 2), np.int32)
    fill_rows[1, 1024](cuda.to_device(values), low, high, rows)
    return rows.copy_to_host()[0]
'''},
    },
    {
        "name": "golf-merged-on-the-host",
        "kind": "NumPy in place of a kernel",
        "fails": ["test-histogram-golf"],
        "reason": "was computed on the host",
        "cells": {"histogram-golf": '''def histogram_golf(values, low, high, bins):
    rows = cuda.device_array((16, bins + 2), np.int32)
    fill_rows[16, 256](cuda.to_device(values), low, high, rows)
    return rows.copy_to_host().sum(axis=0, dtype=np.int32)
'''},
    },
    {
        "name": "golf-by-one-thread-of-each-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-histogram-golf"],
        "reason": "one thread does the work of many",
        # No atomics and no passes at all.
        "cells": {"golf-kernels": '''@cuda.jit
def fill_rows(values, low, high, rows):
    if cuda.threadIdx.x == 0:
        for slot in range(rows.shape[1]):
            rows[cuda.blockIdx.x, slot] = 0
        for i in range(cuda.blockIdx.x, values.size, cuda.gridDim.x):
            rows[cuda.blockIdx.x, bin_index(values[i], low, high, rows.shape[1] - 2)] += 1


@cuda.jit
def add_rows(rows, counts):
    slot = cuda.grid(1)
    if slot < counts.size:
        total = 0
        for b in range(rows.shape[0]):
            total += rows[b, slot]
        counts[slot] = total
'''},
    },
    {
        "name": "golf-by-one-thread-in-eight",
        "kind": "some threads do the work of all",
        "fails": ["test-histogram-golf"],
        "reason": "one thread does the work of many",
        "cells": {"golf-kernels": '''@cuda.jit
def fill_rows(values, low, high, rows):
    mine = cuda.shared.array(2048, int32)
    t, slots = cuda.threadIdx.x, rows.shape[1]
    for k in range(t, 8 * slots, cuda.blockDim.x):
        mine[k] = 0
    cuda.syncthreads()
    if t % 8 == 0:
        for first in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            for i in range(first, min(first + 8, values.size)):
                slot = bin_index(values[i], low, high, slots - 2)
                cuda.atomic.add(mine, 8 * slot + t // 8 % 8, 1)
    cuda.syncthreads()
    for slot in range(t, slots, cuda.blockDim.x):
        total = 0
        for k in range(8 * slot, 8 * slot + 8):
            total += mine[k]
        rows[cuda.blockIdx.x, slot] = total


@cuda.jit
def add_rows(rows, counts):
    slot = cuda.grid(1)
    if slot < counts.size:
        total = 0
        for b in range(rows.shape[0]):
            total += rows[b, slot]
        counts[slot] = total
'''},
    },
    {
        "name": "golf-by-half-of-the-warps",
        "kind": "some threads do the work of all",
        "fails": ["test-histogram-golf"],
        "reason": "1.5 times as many accesses to memory",
        "cells": {"golf-kernels": '''@cuda.jit
def fill_rows(values, low, high, rows):
    mine = cuda.shared.array(2048, int32)
    t, slots = cuda.threadIdx.x, rows.shape[1]
    for k in range(t, 8 * slots, cuda.blockDim.x):
        mine[k] = 0
    cuda.syncthreads()
    if t // 32 % 2 == 0:
        for first in (cuda.grid(1), cuda.grid(1) + 32):
            for i in range(first, values.size, cuda.gridsize(1)):
                slot = bin_index(values[i], low, high, slots - 2)
                cuda.atomic.add(mine, 8 * slot + t % 8, 1)
    cuda.syncthreads()
    for slot in range(t, slots, cuda.blockDim.x):
        total = 0
        for k in range(8 * slot, 8 * slot + 8):
            total += mine[k]
        rows[cuda.blockIdx.x, slot] = total


@cuda.jit
def add_rows(rows, counts):
    slot = cuda.grid(1)
    if slot < counts.size:
        total = 0
        for b in range(rows.shape[0]):
            total += rows[b, slot]
        counts[slot] = total
'''},
    },
    {
        "name": "golf-by-numpy-where-it-is-counted",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram-golf"],
        "reason": "the counts are not those of the values that are on the device",
        # Fewer values, of which no passes and no sectors are counted, go to a kernel as they should.
        "cells": {"histogram-golf": COPY + READ + '''

def histogram_golf(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    if values.size > 50_000:
        read[16, 256](cuda.to_device(values), cuda.to_device(np.zeros(1, np.int32)))
        slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
        counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
        copy[math.ceil((bins + 2) / 128) + 1, 128](cuda.to_device(counted), counts)
    elif values.size:
        fill_shared[4, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "golf-copies-what-numpy-counted",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-histogram-golf"],
        "reason": "the counts are not those of the values that are on the device",
        # A launch of the size that is asked for reads the values, and nothing comes of it.
        "cells": {"histogram-golf": COPY + READ + '''

def histogram_golf(values, low, high, bins):
    read[16, 256](cuda.to_device(values), cuda.to_device(np.zeros(1, np.int32)))
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    counted = np.bincount(slots, minlength=bins + 2).astype(np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    copy[2, 128](cuda.to_device(counted), counts)
    return counts.copy_to_host()
'''},
    },
    # -- threads that only look busy ---------------------------------------------------------------
    {
        "name": "three-in-four-load-rows-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-merge-rows"],
        "reason": "when a thread is alone",
        "cells": {"merge-rows": '''@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t, T, slot = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    total = 0
    if t % 4 == 0:
        for r in range(t // 4, rows.shape[0], (T + 4 - 1) // 4):
            total += rows[r, slot]
    else:
        junk = 0
        for r in range(t // 4, rows.shape[0], (T + 4 - 1) // 4):
            junk += rows[r, slot]
        if junk < -1000000000:
            counts[slot] = junk
    partial[t] = total
    active = cuda.blockDim.x
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        counts[slot] = partial[0]
'''},
    },
    {
        "name": "one-in-two-loads-values-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-fill-atomic"],
        "reason": "when a thread is alone",
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    g, G = cuda.grid(1), cuda.gridsize(1)
    bins = counts.size - 2
    junk = 0.0
    for i in range(g // 2, values.size, (G + 2 - 1) // 2):
        if g % 2 == 0:
            cuda.atomic.add(counts, bin_index(values[i], low, high, bins), 1)
        else:
            junk += values[i]
    if junk == -1.25e300:
        counts[0] = 1
'''},
    },
    {
        "name": "one-in-two-adds-zeros",
        "kind": "threads that look busy",
        "fails": ["test-fill-shared"],
        "reason": "when a thread is alone",
        "cells": {"fill-shared": '''@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    g, G = cuda.grid(1), cuda.gridsize(1)
    bins = counts.size - 2
    junk = 0.0
    for i in range(g // 2, values.size, (G + 2 - 1) // 2):
        if g % 2 == 0:
            cuda.atomic.add(mine, bin_index(values[i], low, high, bins), 1)
        else:
            cuda.atomic.add(mine, 0, 0)
    if junk == -1.25e300:
        counts[0] = 1
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "one-in-two-counts-a-second-row",
        "kind": "threads that look busy",
        "fails": ["test-fill-private"],
        "reason": "when a thread is alone",
        # Counted in memory of the thread's own, a value is one access: two are no more than many
        # an honest answer makes.
        "cells": {"fill-private": '''@cuda.jit
def fill_private(values, low, high, rows):
    mine = cuda.local.array(MAX_SLOTS, int32)
    g, R, slots = cuda.grid(1), rows.shape[0], rows.shape[1]
    if g % 2 == 0:
        for r in range(g, min(g + 2, R)):
            for slot in range(slots):
                mine[slot] = 0
            for i in range(r, values.size, R):
                mine[bin_index(values[i], low, high, slots - 2)] += 1
            for slot in range(slots):
                rows[r, slot] = mine[slot]
    elif g < R:
        junk = 0.0
        for r in range(g - 1, g + 1):
            for i in range(r, values.size, R):
                junk += values[i]
            for slot in range(slots):
                if slot < values.size:
                    junk += values[slot]
        if junk == -1.25e300:
            rows[g, 0] = 1
'''},
    },
    {
        "name": "one-in-two-adds-weights-of-zero",
        "kind": "threads that look busy",
        "fails": ["test-fill-weighted"],
        "reason": "when a thread is alone",
        "cells": {"fill-weighted": '''@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    mine = cuda.shared.array((2, MAX_SLOTS), float64)
    slots = sums.shape[1]
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[0, slot] = 0.0
        mine[1, slot] = 0.0
    cuda.syncthreads()
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(g // 2, values.size, (G + 1) // 2):
        slot = bin_index(values[i], low, high, slots - 2)
        weight = weights[i]
        if g % 2 == 1:
            weight *= 0.0
        cuda.atomic.add(mine, (0, slot), weight)
        cuda.atomic.add(mine, (1, slot), weight * weight)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(sums, (0, slot), mine[0, slot])
        cuda.atomic.add(sums, (1, slot), mine[1, slot])
'''},
    },
    # -- lanes that hand their work to one ------------------------------------------------------
    {
        "name": "lane-0-bins-the-values-of-its-warp",
        "kind": "one lane does its warp's work",
        "fails": ["test-fill-atomic"],
        "reason": "the lanes of a warp pass on their numbers one after the other",
        # Every lane loads and counts; lane 0 computes the slots of all, in registers.
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    t = cuda.threadIdx.x
    lane = t % 32
    live = min(32, cuda.blockDim.x - t // 32 * 32)
    lanes = 0xFFFFFFFF if live == 32 else (1 << live) - 1
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        own = values[i] if i < values.size else math.nan
        slot = 0
        for turn in range(live):
            other = cuda.shfl_sync(lanes, own, turn)
            theirs = 0
            if lane == 0:
                theirs = bin_index(other, low, high, counts.size - 2)
            theirs = cuda.shfl_sync(lanes, theirs, 0)
            if lane == turn:
                slot = theirs
        if i < values.size:
            cuda.atomic.add(counts, slot, 1)
'''},
    },
    {
        "name": "lane-0-counts-for-its-warp-in-local-memory",
        "kind": "one lane does its warp's work",
        "fails": ["test-fill-atomic", "test-histogram"],
        "reason": "one thread does the work of many",
        "cells": {"fill-atomic": '''@cuda.jit
def fill_atomic(values, low, high, counts):
    mine = cuda.local.array(MAX_SLOTS, int32)
    t = cuda.threadIdx.x
    lane = t % 32
    live = min(32, cuda.blockDim.x - t // 32 * 32)
    lanes = 0xFFFFFFFF if live == 32 else (1 << live) - 1
    if lane == 0:
        for slot in range(counts.size):
            mine[slot] = 0
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        slot = int32(-1)
        if i < values.size:
            slot = int32(bin_index(values[i], low, high, counts.size - 2))
        for turn in range(live):
            theirs = cuda.shfl_sync(lanes, slot, turn)
            if lane == 0 and theirs >= 0:
                mine[theirs] += 1
    if lane == 0:
        for slot in range(counts.size):
            if mine[slot]:
                cuda.atomic.add(counts, slot, mine[slot])
'''},
    },
    {
        "name": "lane-0-bins-beside-lanes-that-look-busy",
        "kind": "one lane does its warp's work",
        "fails": ["test-fill-shared", "test-shared-traffic"],
        "reason": "shares its work unevenly",
        "cells": {"fill-shared": fill_shared('''    t = cuda.threadIdx.x
    lane = t % 32
    live = min(32, cuda.blockDim.x - t // 32 * 32)
    lanes = 0xFFFFFFFF if live == 32 else (1 << live) - 1
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        own = values[i] if i < values.size else math.nan
        slot = int32(0)
        for turn in range(live):
            other = cuda.shfl_sync(lanes, own, turn)
            theirs = int32(bin_index(other + lane, low, high, counts.size - 2))
            theirs = cuda.shfl_sync(lanes, theirs, 0)
            if lane == turn:
                slot = theirs
        if i < values.size:
            cuda.atomic.add(mine, slot, 1)
''')},
    },
    # -- decoys ----------------------------------------------------------------------------------
    {
        "name": "counts-in-small-launches-behind-a-decoy",
        "kind": "a decoy is launched beside what works",
        "fails": ["test-histogram"],
        "reason": "many values are left to single blocks",
        "cells": {"histogram": READ.strip() + '''


def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    there = cuda.to_device(values)
    if values.size:
        read[32, 256](there, cuda.to_device(np.zeros(1, np.int32)))
    for start in range(0, values.size, 15_000):
        fill_atomic[1, 8](there[start : start + 15_000], low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "one-thread-in-four-counts-beside-others-that-look-busy",
        "kind": "threads that look busy",
        "fails": ["test-histogram"],
        "reason": "one thread counts the values of many",
        "cells": {"histogram": '''@cuda.jit
def lazy(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size
    t = cuda.threadIdx.x
    for slot in range(t, slots, cuda.blockDim.x):
        mine[slot] = 0
    other = cuda.shared.array(32, float64)
    if t < 32:
        other[t] = 0.0
    cuda.syncthreads()
    if t % 4 == 0:
        for i in range(cuda.grid(1) // 4, values.size, cuda.gridsize(1) // 4):
            cuda.atomic.add(mine, bin_index(values[i], low, high, slots - 2), 1)
    else:
        waste = 0.0
        for k in range(cuda.grid(1), values.size * 4, cuda.gridsize(1)):
            waste += values[k % values.size]
            waste += other[k % 32] * 0.0
        if waste == 1.25e300:
            counts[0] = 1
    cuda.syncthreads()
    for slot in range(t, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])


def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    kernel = lazy if bins + 2 <= MAX_SLOTS else fill_atomic
    blocks = max(1, min(math.ceil(values.size / 256), 128))
    kernel[blocks, 256](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
'''},
    },
    {
        "name": "golf-by-one-block-behind-a-decoy",
        "kind": "a decoy is launched beside what works",
        "fails": ["test-histogram-golf"],
        "reason": "the values are not counted by launches of at least 16 blocks",
        "cells": {"histogram-golf": READ.strip() + '''


def histogram_golf(values, low, high, bins):
    rows = cuda.device_array((1, bins + 2), np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    there = cuda.to_device(values)
    if values.size:
        read[16, 128](there, cuda.to_device(np.zeros(1, np.int32)))
    fill_rows[1, 64](there, low, high, rows)
    add_rows[math.ceil((bins + 2) / 64), 64](rows, counts)
    return counts.copy_to_host()
'''},
    },
]

"""Right answers in other styles than ours, for the grader to give everything.

Cells that are not named are those of the solution.
"""

RIGHT = [
    {"name": "another", "cells": {
        "bin-index": """@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if math.isnan(value) or value >= high:
        return bins + 1
    elif value < low:
        return 0
    width = (high - low) / bins
    return int(math.floor((value - low) / width)) + 1


@cuda.jit
def find_slots(values, low, high, bins, slots):
    i = cuda.grid(1)
    if i < values.size:
        slots[i] = bin_index(values[i], low, high, bins)
""",
        "fill-private": """@cuda.jit
def fill_private(values, low, high, rows):
    me = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    R = rows.shape[0]
    if me >= R:
        return
    rows[me] = 0
    i = me
    while i < len(values):
        b = bin_index(values[i], low, high, rows.shape[1] - 2)
        rows[me, b] = rows[me, b] + 1
        i += R
""",
        "merge-rows": """@cuda.jit
def merge_rows(rows, counts):
    s = cuda.shared.array(1024, dtype=np.int32)
    t = cuda.threadIdx.x
    T = cuda.blockDim.x
    s[t] = 0
    for r in range(t, rows.shape[0], T):
        s[t] += rows[r, cuda.blockIdx.x]
    p = 1
    while p < T:
        p *= 2
    cuda.syncthreads()
    while p > 1:
        p //= 2
        if t < p and t + p < T:
            s[t] += s[t + p]
        cuda.syncthreads()
    if t == 0:
        counts[cuda.blockIdx.x] = s[0]
""",
        "fill-shared": """@cuda.jit
def fill_shared(values, low, high, counts):
    h = cuda.shared.array(MAX_SLOTS, np.int32)
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            h[k] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(h, bin_index(values[i], low, high, counts.size - 2), 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            cuda.atomic.add(counts, k, h[k])
""",
        # Without values nothing is launched: zeros are right.
        "histogram": """def histogram(values, low, high, bins):
    d = cuda.to_device(np.ascontiguousarray(values))
    out = cuda.to_device(np.zeros(bins + 2, dtype=np.int32))
    n = 128
    blocks = (len(values) + n - 1) // n
    if blocks == 0:
        pass
    elif bins + 2 > MAX_SLOTS:
        fill_atomic[blocks, n](d, low, high, out)
    else:
        fill_shared[blocks, n](d, low, high, out)
    cuda.synchronize()
    return out.copy_to_host()
""",
        "fill-weighted": """@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    w = cuda.shared.array(MAX_SLOTS, float64)
    w2 = cuda.shared.array(MAX_SLOTS, float64)
    if cuda.threadIdx.x == 0:
        for k in range(sums.shape[1]):
            w[k] = w2[k] = 0.0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < len(values):
        k = bin_index(values[i], low, high, sums.shape[1] - 2)
        cuda.atomic.add(w, k, weights[i])
        cuda.atomic.add(w2, k, weights[i] ** 2)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, sums.shape[1], cuda.blockDim.x):
        cuda.atomic.add(sums, (0, k), w[k])
        cuda.atomic.add(sums, (1, k), w2[k])
""",
        # A copy for each lane, and the last launch in one block.
        "golf-kernels": """@cuda.jit
def fill_lanes(values, low, high, slots, rows):
    mine = cuda.shared.array((32, 257), int32)
    for k in range(cuda.threadIdx.x, 32 * 257, cuda.blockDim.x):
        mine[k // 257, k % 257] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, (cuda.threadIdx.x % 32, slot), 1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        n = 0
        for lane in range(32):
            n += mine[lane, k]
        rows[cuda.blockIdx.x * slots + k] = n


@cuda.jit
def fold(rows, slots, counts):
    for k in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        n = 0
        for first in range(0, rows.size, slots):
            n += rows[first + k]
        counts[k] = n
""",
        "histogram-golf": """def histogram_golf(values, low, high, bins):
    slots = bins + 2
    rows = cuda.device_array(20 * slots, np.int32)
    counts = cuda.device_array(slots, np.int32)
    fill_lanes[20, 512](cuda.to_device(values), low, high, slots, rows)
    fold[1, 256](rows, slots, counts)
    return counts.copy_to_host()
""",
        "predict-turns": """def predict_turns(values, low, high, bins):
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    pad = np.full(-(-len(slots) // 32) * 32, -1)
    pad[: len(slots)] = slots
    total = 0
    for warp in pad.reshape(-1, 32):
        warp = warp[warp >= 0]
        total += max(np.count_nonzero(warp == s) for s in warp)
    return total
""",
    }},
    # What decorators may say, and what a notebook does besides.
    {"name": "decorated", "cells": {
        "bin-index": """@cuda.jit(device=True, inline=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    return min(int((value - low) / (high - low) * bins), bins - 1) + 1 if value < high else bins + 1


@cuda.jit(debug=True, opt=False)
def find_slots(values, low, high, bins, slots):
    i = cuda.grid(1)
    if i < values.size:
        slots[i] = bin_index(values[i], low, high, bins)
""",
        "fill-private": """@cuda.jit(debug=True, opt=False)
def fill_private(values, low, high, rows):
    r = cuda.grid(1)
    if r < rows.shape[0]:
        mine = rows[r]
        for slot in range(mine.size):
            mine[slot] = 0
        for value in values[r :: rows.shape[0]]:
            mine[bin_index(value, low, high, mine.size - 2)] += 1
""",
        "fill-atomic": """@cuda.jit("void(float64[:], float64, float64, int32[:])", cache=True)
def fill_atomic(values, low, high, counts):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    while i < values.shape[0]:
        cuda.atomic.add(counts, bin_index(values[i], low, high, counts.shape[0] - 2), 1)
        i += cuda.gridDim.x * cuda.blockDim.x
""",
        "fill-shared": """@cuda.jit(cache=True, fastmath=True)
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        if mine[slot]:
            cuda.atomic.add(counts, slot, mine[slot])
""",
        # Counted in int64 and converted on the host; looked at on the way.
        "histogram": """def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int64))
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_wide
    kernel[max(1, min(len(values) // 256, 200)), 256](cuda.to_device(values), low, high, counts)
    display(counts.copy_to_host()[:3])
    return counts.copy_to_host().astype(np.int32)


@cuda.jit(cache=True)
def fill_wide(values, low, high, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
""",
    }},
    # Half of the values in each of two streams; the result is joined on the host.
    {"name": "joined", "cells": {
        "histogram": """def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    fill = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    for half in (values[::2], values[1::2]):
        if half.size:
            stream = cuda.stream()
            there = cuda.to_device(np.ascontiguousarray(half), stream=stream)
            fill[-(-half.size // 1024), 128, stream](there, low, high, counts)
            stream.synchronize()
    under, inside, over = (part.copy_to_host() for part in (counts[:1], counts[1:-1], counts[-1:]))
    return np.concatenate([under, inside, over])
""",
    }},
]

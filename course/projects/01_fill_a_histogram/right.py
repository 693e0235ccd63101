"""Right answers in other styles than ours, for the grader to give everything.

Cells that are not named are those of the solution.
"""

# Of the first `lanes` lanes of a warp; lane 0 gets the sum.
WARP_SUM = """@cuda.jit(device=True)
def warp_sum(own, lanes):
    mask = (1 << lanes) - 1
    for distance in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync(mask, own, distance)
        if cuda.laneid + distance < lanes:
            own += other
    return own
"""


def merge_rows(last: str) -> str:
    """A `merge_rows` whose warps add up with shuffles, and in which `last` adds up the warps."""
    return WARP_SUM + f"""

@cuda.jit
def merge_rows(rows, counts):
    sums = cuda.shared.array(32, int32)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    own = int32(0)
    for r in range(t, rows.shape[0], T):
        own += rows[r, cuda.blockIdx.x]
    own = warp_sum(own, min(32, T - t // 32 * 32))
    if t % 32 == 0:
        sums[t // 32] = own
    cuda.syncthreads()
{last}    if t == 0:
        counts[cuda.blockIdx.x] = own
"""


def fill_shared(counting: str, options: str = "") -> str:
    """A `fill_shared` that counts its own way."""
    return f"""@cuda.jit({options})
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
{counting}    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        if mine[slot]:
            cuda.atomic.add(counts, slot, mine[slot])
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
        "predict-passes": """def predict_passes(values, low, high, bins):
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
    # -- one style each ------------------------------------------------------------------------
    {"name": "four-neighbours-each", "cells": {
        "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts):
    for first in range(4 * cuda.grid(1), values.size, 4 * cuda.gridsize(1)):
        for i in range(first, min(first + 4, values.size)):
            cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
""",
        "fill-shared": fill_shared("""    for first in range(4 * cuda.grid(1), values.size, 4 * cuda.gridsize(1)):
        for i in range(first, min(first + 4, values.size)):
            cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
"""),
        "merge-rows": """@cuda.jit
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t, n = cuda.threadIdx.x, rows.shape[0]
    each = (n + cuda.blockDim.x - 1) // cuda.blockDim.x
    partial[t] = 0
    for r in range(t * each, min((t + 1) * each, n)):
        partial[t] += rows[r, cuda.blockIdx.x]
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        if t % (2 * step) == 0 and t + step < cuda.blockDim.x:
            partial[t] += partial[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
""",
    }},
    {"name": "shuffles", "cells": {
        "merge-rows": merge_rows("""    if t < 32:
        own = warp_sum(sums[t] if t < (T + 31) // 32 else int32(0), min(32, T))
""")}},
    {"name": "warps-then-one-thread", "cells": {
        "merge-rows": merge_rows("""    if t == 0:
        for warp in range(1, (T + 31) // 32):
            own += sums[warp]
""")}},
    {"name": "an-atomic-for-each-warp", "cells": {
        "merge-rows": WARP_SUM + """

@cuda.jit
def merge_rows(rows, counts):
    total = cuda.shared.array(1, int32)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    own = int32(0)
    for r in range(t, rows.shape[0], T):
        own += rows[r, cuda.blockIdx.x]
    own = warp_sum(own, min(32, T - t // 32 * 32))
    if t % 32 == 0:
        cuda.atomic.add(total, 0, own)
    cuda.syncthreads()
    if t == 0:
        counts[cuda.blockIdx.x] = total[0]
""",
        # One addition for all lanes that want the same slot.
        "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = int32(bin_index(values[i], low, high, counts.size - 2))
        same = cuda.match_any_sync(cuda.activemask(), slot)
        if cuda.ffs(same) - 1 == cuda.laneid:
            cuda.atomic.add(counts, slot, cuda.popc(same))
""",
        "fill-shared": fill_shared("""    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = int32(bin_index(values[i], low, high, counts.size - 2))
        same = cuda.match_any_sync(cuda.activemask(), slot)
        if cuda.ffs(same) - 1 == cuda.laneid:
            cuda.atomic.add(mine, slot, int32(cuda.popc(same)))
"""),
    }},
    {"name": "unoptimised", "cells": {
        "fill-atomic": """@cuda.jit(debug=True, opt=False)
def fill_atomic(values, low, high, counts):
    bins = counts.size - 2
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, bin_index(values[i], low, high, bins), 1)
""",
        "merge-rows": """@cuda.jit(debug=True, opt=False)
def merge_rows(rows, counts):
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, cuda.blockIdx.x]
    partial[t] = total
    active = cuda.blockDim.x
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        counts[cuda.blockIdx.x] = partial[0]
""",
        "fill-shared": fill_shared("""    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
""", "debug=True, opt=False"),
    }},
    {"name": "device-functions", "cells": {
        "fill-shared": """@cuda.jit(device=True)
def set_to_zero(slots, n):
    for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        slots[k] = 0


@cuda.jit(device=True)
def count_in(slots, values, low, high, bins):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(slots, bin_index(values[i], low, high, bins), 1)


@cuda.jit(device=True)
def hand_in(slots, counts):
    for k in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        if slots[k] != 0:
            cuda.atomic.add(counts, k, slots[k])


@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    set_to_zero(mine, counts.size)
    cuda.syncthreads()
    count_in(mine, values, low, high, counts.size - 2)
    cuda.syncthreads()
    hand_in(mine, counts)
""",
    }},
    {"name": "copies-in-each-block", "cells": {
        "fill-shared": """@cuda.jit
def fill_shared(values, low, high, counts):
    mine = cuda.shared.array((4, MAX_SLOTS), int32)
    slots = counts.size
    for k in range(cuda.threadIdx.x, 4 * slots, cuda.blockDim.x):
        mine[k // slots, k % slots] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, (cuda.threadIdx.x % 4, slot), 1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, k, mine[0, k] + mine[1, k] + mine[2, k] + mine[3, k])
""",
        "fill-weighted": """@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    mine = cuda.shared.array((MAX_SLOTS, 2), float64)
    slots = sums.shape[1]
    for k in range(cuda.threadIdx.x, 2 * slots, cuda.blockDim.x):
        mine[k // 2, k % 2] = 0.0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        w, slot = weights[i], bin_index(values[i], low, high, slots - 2)
        for power in range(2):
            cuda.atomic.add(mine, (slot, power), w ** (power + 1))
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, 2 * slots, cuda.blockDim.x):
        cuda.atomic.add(sums, (k % 2, k // 2), mine[k // 2, k % 2])
""",
    }},
    # Shared memory of a size that the launch gives; counts are int64 until the host casts them.
    {"name": "dynamic-shared-memory", "cells": {
        "histogram": """@cuda.jit
def fill_dynamic(values, low, high, counts):
    mine = cuda.shared.array(0, int32)
    slots = counts.size
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, slots - 2), 1)
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])


def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int64))
    blocks = min(max(len(values) // 512, 1), 64)
    fill_dynamic[blocks, 256, 0, 4 * (bins + 2)](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host().astype("int32")
""",
    }},
    # A thread for each value, on a grid of two dimensions.
    {"name": "one-value-each", "cells": {
        "histogram": """@cuda.jit
def fill_plane(values, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    x, y = cuda.grid(2)
    t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    for slot in range(t, counts.size, 256):
        mine[slot] = 0
    cuda.syncthreads()
    i = y * cuda.blockDim.x * cuda.gridDim.x + x
    if i < values.size:
        cuda.atomic.add(mine, bin_index(values[i], low, high, counts.size - 2), 1)
    cuda.syncthreads()
    for slot in range(t, counts.size, 256):
        if mine[slot]:
            cuda.atomic.add(counts, slot, mine[slot])


def histogram(values, low, high, bins):
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    there = cuda.to_device(values)
    if bins + 2 <= MAX_SLOTS:
        fill_plane[(8, max(1, -(-values.size // 2048))), (32, 8)](there, low, high, counts)
    else:
        fill_atomic.forall(max(values.size, 1))(there, low, high, counts)
    return counts.copy_to_host()
""",
    }},
    {"name": "cooperative-groups", "cells": {
        "golf-kernels": """from numba.cuda import cg


@cuda.jit
def fill_and_add(values, low, high, rows, counts):
    mine = cuda.shared.array(2048, int32)
    slots, t = counts.size, cuda.threadIdx.x
    for k in range(t, 8 * slots, cuda.blockDim.x):
        mine[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, 8 * bin_index(values[i], low, high, slots - 2) + t % 8, 1)
    cuda.syncthreads()
    for slot in range(t, slots, cuda.blockDim.x):
        n = 0
        for k in range(8 * slot, 8 * slot + 8):
            n += mine[k]
        rows[cuda.blockIdx.x, slot] = n
    cg.this_grid().sync()
    if cuda.grid(1) < slots:
        n = 0
        for b in range(rows.shape[0]):
            n += rows[b, cuda.grid(1)]
        counts[cuda.grid(1)] = n
""",
        "histogram-golf": """def histogram_golf(values, low, high, bins):
    rows = cuda.device_array((16, bins + 2), np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    fill_and_add[16, 256](cuda.to_device(values), low, high, rows, counts)
    return counts.copy_to_host()
""",
    }},
    {"name": "cuda-c++", "cells": {
        "histogram": """import cupy as cp

FILL = cp.RawKernel(r'''
extern "C" __global__
void fill(const double* values, long long n, double low, double high, int slots, int* counts) {
    extern __shared__ int mine[];
    for (int k = threadIdx.x; k < slots; k += blockDim.x) mine[k] = 0;
    __syncthreads();
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double v = values[i];
        int slot = slots - 1;
        if (v < low) slot = 0;
        else if (v < high) slot = min(int((v - low) / (high - low) * (slots - 2)) + 1, slots - 2);
        atomicAdd(&mine[slot], 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < slots; k += blockDim.x) atomicAdd(&counts[k], mine[k]);
}''', "fill")


def histogram(values, low, high, bins):
    counts = cp.zeros(bins + 2, cp.int32)
    blocks = max(1, min(values.size // 512, 80))
    FILL((blocks,), (256,), (cp.asarray(values), np.int64(values.size), np.float64(low),
                             np.float64(high), np.int32(bins + 2), counts),
         shared_mem=4 * (bins + 2))
    return counts.get()
""",
    }},
    {"name": "elementwise-kernel", "cells": {
        "histogram": """import cupy as cp

COUNT = cp.ElementwiseKernel(
    "float64 v, float64 low, float64 high, int32 bins", "raw int32 counts",
    '''int slot = bins + 1;
    if (v < low) slot = 0;
    else if (v < high) slot = min(int((v - low) / (high - low) * bins) + 1, bins);
    atomicAdd(&counts[slot], 1);''', "count")


def histogram(values, low, high, bins):
    counts = cp.zeros(bins + 2, cp.int32)
    if bins + 2 <= MAX_SLOTS:
        fill_shared[max(1, min(values.size // 256, 100)), 256](
            cuda.to_device(values), low, high, counts)
    else:
        COUNT(cp.asarray(values), low, high, bins, counts)
    return cp.asnumpy(counts)
""",
    }},
    # Looks at what comes back before it goes on.
    {"name": "looked-at-on-the-way", "cells": {
        "histogram": """def histogram(values, low, high, bins):
    there = cuda.to_device(values)
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    fill = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    fill[max(1, values.size // 1024), 128](there, low, high, counts)
    display(there.copy_to_host()[:5])
    assert counts.copy_to_host().sum() == values.size
    again = cuda.to_device(np.zeros(bins + 2, np.int32))
    fill[max(1, values.size // 1024), 128](there, low, high, again)
    result = np.empty(bins + 2, np.int32)
    again.copy_to_host(result)
    return result
""",
    }},
    # Nothing to launch for no values; compares with NumPy, and returns numbers of Python.
    {"name": "checks-itself", "cells": {
        "histogram": """def histogram(values, low, high, bins):
    if values.size == 0:
        return np.zeros(bins + 2, np.int32)
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    fill = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    fill[min(1 + values.size // 1024, 64), 128](cuda.to_device(values), low, high, counts)
    result = counts.copy_to_host()
    np.testing.assert_array_equal(result, reference(values, low, high, bins))
    parts = [counts[first : first + 500].copy_to_host() for first in range(0, bins + 2, 500)]
    return [int(count) for part in parts for count in part]
""",
        "histogram-golf": """def histogram_golf(values, low, high, bins):
    if not len(values):
        return np.zeros(bins + 2, dtype=np.int32)
    rows = cuda.device_array((16, bins + 2), np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    fill_rows[16, 256](cuda.to_device(values), low, high, rows)
    add_rows[math.ceil((bins + 2) / 64), 64](rows, counts)
    return counts.copy_to_host()
""",
    }},
    # One addition for each different slot of a warp, found by shuffles and votes.
    {"name": "a-leader-for-each-slot", "cells": {
        "fill-shared": fill_shared("""    full = 0xFFFFFFFF
    live = min(32, cuda.blockDim.x - cuda.threadIdx.x // 32 * 32)
    if live < 32:
        full = (1 << live) - 1
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        slot = int32(-1)
        if i < values.size:
            slot = int32(bin_index(values[i], low, high, counts.size - 2))
        left = cuda.ballot_sync(full, slot >= 0)
        while left:
            leader = cuda.ffs(left) - 1
            wanted = cuda.shfl_sync(full, slot, leader)
            same = cuda.ballot_sync(full, slot == wanted)
            if cuda.laneid == leader:
                cuda.atomic.add(mine, wanted, int32(cuda.popc(same)))
            left &= ~same
"""),
        # A histogram in local memory, and one addition for each run of equal slots.
        "fill-private": """@cuda.jit
def fill_private(values, low, high, rows):
    own = cuda.local.array(MAX_SLOTS, int32)
    r, R = cuda.grid(1), rows.shape[0]
    if r < R:
        for slot in range(rows.shape[1]):
            own[slot] = 0
        for i in range(r, values.size, R):
            own[bin_index(values[i], low, high, rows.shape[1] - 2)] += 1
        for slot in range(rows.shape[1]):
            rows[r, slot] = own[slot]
""",
        "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts):
    last, run = int32(-1), int32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = int32(bin_index(values[i], low, high, counts.size - 2))
        if slot != last:
            if run:
                cuda.atomic.add(counts, last, run)
            last, run = slot, int32(0)
        run += 1
    if run:
        cuda.atomic.add(counts, last, run)
"""}},
]

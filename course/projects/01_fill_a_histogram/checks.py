"""Hints of "Filling a histogram in parallel"; its test cells are in the notebook."""

from gpucourse.exercises.checks import hints

BIN_INDEX = hints(
    "bin-index",
    "The idea: first use only comparisons to decide *where* a value is: below `low`, or at least "
    "`low` and below `high`, or neither. Only a value that is between the two is converted to "
    "an integer. Test for what you want to keep (`value < high`) and not for what you want to "
    "exclude (`value >= high`), because every comparison with NaN is false.",
    "The shape: two `if`s that `return`, and a last `return` for everything that is left:\n"
    "`if value < low: return …`\n"
    "`if value < high: return …`\n"
    "`return bins + 1`",
    "The formula: `(value - low) / (high - low)` runs from 0 to 1; times `bins` it is a position "
    "counted in bins; `int()` of it is 0 in the first bin, whose slot is 1.",
)

FILL_PRIVATE = hints(
    "fill-private",
    "The idea: `cuda.grid(1)` is the number of the thread in the whole grid, so it is the number "
    "of its row. Threads with a number of `rows.shape[0]` or more have nothing to do. The guard "
    "belongs to the row; the loop over values ends by itself.",
    "The shape: `if r < rows.shape[0]:` around two loops. The first sets `rows[r, slot] = 0` for "
    "every slot, the second is `for i in range(start, stop, step):` over this row's values.",
    "The second loop: it starts at `r`, stops at `values.size` and steps by the number of rows.",
)

MERGE_ROWS = hints(
    "merge-rows",
    "The idea: keep a variable `active`, the number of sums that are left, which is the same in all threads. Each "
    "round adds the upper ones onto the lower ones and makes `active` smaller, until it is 1. To "
    "be right for every number, round the half *up*: of 7 sums, 4, 5 and 6 go onto 0, 1 and 2, "
    "and 3 stays where it is.",
    "The shape:\n"
    "`partial[t] = …  # own sum over every T-th row; 0 without a row`\n"
    "`active = cuda.blockDim.x`\n"
    "`while active > 1:`\n"
    "`    cuda.syncthreads()`\n"
    "`    half = (active + 1) // 2`\n"
    "`    if …:  # does thread t have a partner at t + half?`\n"
    "`        …`\n"
    "`    active = half`",
    "The partner: thread t has one if `t + half < active`. Put the barrier in the loop but not in "
    "the `if`, so that threads without a partner also reach it.",
)

FILL_ATOMIC = hints(
    "fill-atomic",
    "The idea: write a grid-stride loop. Each thread starts at its own number and continues in steps of "
    "the number of threads in the grid, as long as there are values.",
    "The shape: `for i in range(cuda.grid(1), …, cuda.gridsize(1)):` and in it one "
    "`cuda.atomic.add(…, …, 1)`. The number of bins is two less than the number of slots.",
)

FILL_SHARED = hints(
    "fill-shared",
    "The idea: you need two barriers. Before counting, every slot must be zero, including those that another "
    "thread sets to zero. Before merging, every thread must have finished counting. "
    "Between blocks there is no barrier, so merging needs atomic additions.",
    "The shape: three loops with a `cuda.syncthreads()` after the first and after the second. The "
    "first and the third run over slots, `for slot in range(cuda.threadIdx.x, counts.size, "
    "cuda.blockDim.x):`, so that one thread can serve many slots. The second is the loop of "
    "`fill_atomic`.",
    "The third loop: `cuda.atomic.add(counts, slot, …)` adds the block's count of that slot.",
)

HISTOGRAM = hints(
    "histogram",
    "The idea: device memory holds garbage until a program writes to it, and `fill_shared` adds to "
    "what is there. So each call needs new counters that are zero: copy zeros to the device.",
    "The shape:\n"
    "`counts = cuda.to_device(np.zeros(…, np.int32))`\n"
    "`kernel = … if … <= MAX_SLOTS else …`\n"
    "`kernel[blocks, threads](cuda.to_device(values), low, high, counts)`\n"
    "`return counts.copy_to_host()`",
    "The number of blocks: enough for the values, `math.ceil(values.size / threads)`, but at least "
    "1 and not without limit, `max(1, min(…, 128))`: the grid-stride loop does the rest.",
)

PREDICT_TURNS = hints(
    "predict-passes",
    "The idea: cut the values into pieces of 32, one for each warp. The number of passes of a warp "
    "is the largest number of its lanes that need the same slot, which is the largest count in a histogram of "
    "these 32 values alone.",
    "The shape: `for start in range(0, values.size, 32):` and in it the largest entry of "
    "`reference(values[start : start + 32], …)`. A slice that reaches past the end is cut short "
    "by NumPy, so the last warp needs no special care.",
)

FILL_WEIGHTED = hints(
    "fill-weighted",
    "The idea: take `fill_shared`, with two histograms in shared memory. Do everything twice: "
    "setting to zero, adding `weights[i]` and adding its square, merging.",
    "The shape: `mine = cuda.shared.array((2, MAX_SLOTS), float64)`, "
    "`cuda.atomic.add(mine, (0, slot), weights[i])`, the number of slots is `sums.shape[1]`.",
    "When merging: `fill_shared` may skip a slot whose count is not above zero. A sum of weights "
    "can be negative, so that test would be wrong here.",
)

GOLF_KERNELS = hints(
    "golf-kernels",
    "The idea, for 2 points: take `fill_shared`, but instead of adding its histogram to `counts`, a "
    "block stores it in its own row of an array. A second kernel sums the rows. Neighbouring "
    "threads should take neighbouring slots, so that a warp reads whole sectors.",
    "The idea, for all 4: use several histograms in each block. Which of them a thread uses depends "
    "on its number, so that the lanes of a warp are spread over all of them.",
    "The shape: `mine = cuda.shared.array(COUNTERS, int32)`, "
    "`cuda.atomic.add(mine, slot * COPIES + cuda.threadIdx.x % COPIES, 1)`, and at the end "
    "`rows[cuda.blockIdx.x, slot] = …` with the sum of the copies.",
)

HISTOGRAM_GOLF = hints(
    "histogram-golf",
    "The idea: make two launches. The first has 16 blocks, each of which stores a row; the second has "
    "a thread for each slot. Nothing needs to begin at zero, because everything is written.",
    "The shape:\n"
    "`rows = cuda.device_array((16, bins + 2), np.int32)`\n"
    "`fill_rows[16, 256](cuda.to_device(values), low, high, rows)`\n"
    "`add_rows[…, 64](rows, counts)`",
)

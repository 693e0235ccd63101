"""Wrong answers to the exercises of "Thinking in warps", with what the check must say of each."""

from __future__ import annotations

import math

import pytest

from wrong_answers import collection, swap

WRONG, wrong = collection("12_thinking_in_warps")

from numba import cuda, float32, float64

THREADS = 128

# --- lane-turns ---------------------------------------------------------------------------------


def warps_of(work):
    return [work[start : start + 32] for start in range(0, len(work), 32)]


@wrong("lane-turns", "last warp has .* threads, but pays for 32 lanes")
def short_warps_pay_less(work):
    return int(work.sum()), sum(len(warp) * int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "iterations are paid for, but your answer is .*32 lanes")
def turns_of_warps(work):
    return int(work.sum()), sum(int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "iterations are paid for, but your answer is")
def one_big_warp(work):
    return int(work.sum()), -(-len(work) // 32) * 32 * int(work.max(initial=0))


@wrong("lane-turns", "useful is .*in which a thread works")
def useful_is_threads(work):
    return int((work > 0).sum()), sum(32 * int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "iterations are paid for, but your answer is")
def only_what_is_useful(work):
    return int(work.sum()), int(work.sum())


# --- turn ---------------------------------------------------------------------------------------


def turned_by(columns=33, crosswise=True, barrier=True, same_guard=False):
    """A kernel that turns a table, with one thing done wrongly."""

    @cuda.jit
    def kernel(table, turned):
        tile = cuda.shared.array((32, columns), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
        if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
            tile[y, x] = table[first_i + y, first_j + x]
        if barrier:
            cuda.syncthreads()
        if same_guard:
            if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
                if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
                    turned[first_j + y, first_i + x] = tile[x, y]
        elif first_j + y < table.shape[1] and first_i + x < table.shape[0]:
            turned[first_j + y, first_i + x] = tile[x, y] if crosswise else tile[y, x]

    return kernel


@cuda.jit
def scattered_writes(table, turned):
    j, i = cuda.grid(2)
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = table[i, j]


@cuda.jit
def scattered_reads(table, turned):
    i = 32 * cuda.blockIdx.y + cuda.threadIdx.x
    j = 32 * cuda.blockIdx.x + cuda.threadIdx.y
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = table[i, j]


@cuda.jit
def tile_without_guards(table, turned):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    tile[y, x] = table[first_i + y, first_j + x]
    cuda.syncthreads()
    turned[first_j + y, first_i + x] = tile[x, y]


@cuda.jit
def one_thread_turns_all(table, turned):
    if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:
        for i in range(32 * cuda.blockIdx.y, min(32 * cuda.blockIdx.y + 32, table.shape[0])):
            for j in range(32 * cuda.blockIdx.x, min(32 * cuda.blockIdx.x + 32, table.shape[1])):
                turned[j, i] = table[i, j]


wrong("turn", "enough|sectors|wavefronts", "one_thread_turns_all")(one_thread_turns_all)


@cuda.jit
def one_block_turns_all(table, turned):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    if cuda.blockIdx.x or cuda.blockIdx.y:
        return
    for first_i in range(0, table.shape[0], 32):
        for first_j in range(0, table.shape[1], 32):
            if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
                tile[y, x] = table[first_i + y, first_j + x]
            cuda.syncthreads()
            if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
                turned[first_j + y, first_i + x] = tile[x, y]
            cuda.syncthreads()


for name, answer, says in (
    ("one block", one_block_turns_all, "the work is not shared.*let each block transpose one tile"),
    ("the plain way", scattered_writes, "the writes move .* sectors.*changes with x"),
    ("the other plain way", scattered_reads, "the reads move .* sectors.*changes with x"),
    ("32 columns", turned_by(columns=32), r"shared memory takes [\d,]+ wavefronts more.*how far apart"),
    ("turned twice", turned_by(crosswise=False), r"uninitialised|turned\[0, 1\] is"),
    ("no barrier", turned_by(barrier=False), "race: .*shared memory"),
    ("one guard for both", turned_by(same_guard=True), "never written.*two accesses separately"),
    ("no guards", tile_without_guards, "illegal address|reads 4 bytes"),
):
    WRONG.append(pytest.param("turn", (answer,), says, id=f"turn:{name}"))


# --- warp-max -----------------------------------------------------------------------------------

ALL_LANES = 0xFFFFFFFF


@wrong("warp-max", r"a shuffle at line \d+ .* names \d+ lanes that ended.*guard the value")
@cuda.jit
def all_of_it_in_the_guard(values, maxima):
    i = cuda.grid(1)
    if i < values.size:
        mine = values[i]
        for k in (16, 8, 4, 2, 1):
            mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
        if i % 32 == 0:
            maxima[i // 32] = mine


wrong("warp-max", "was never written.*guard only the load of the value", "warps without values are silent")(
    swap("% 32 == 0:", "% 32 == 0 and i < values.size:"))


@wrong("warp-max", r"a shuffle at line \d+ .* names \d+ lanes that ended.*guard the value")
@cuda.jit
def shuffle_in_the_guard(values, maxima):
    i = cuda.grid(1)
    mine = -math.inf
    if i < values.size:
        mine = values[i]
        for k in (16, 8, 4, 2, 1):
            mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0:
        maxima[i // 32] = mine


wrong("warp-max", "is 0, which is none of .*beyond the end must contribute", "zeros beyond the end")(
    swap("-math.inf", "0.0"))
wrong("warp-max", r"element \d+ is .*every value take part", "one level short")(
    swap("4, 2, 1):", "4, 2):"))
wrong("warp-max", "race: |never written.*counted through the whole grid", "warps of the block")(
    swap("maxima[i /", "maxima[cuda.threadIdx.x /"))


@wrong("warp-max", "loaded .* times.*other values with shuffles")
@cuda.jit
def lane_0_reads_all(values, maxima):
    i = cuda.grid(1)
    if i % 32 == 0:
        mine = -math.inf
        for k in range(i, min(i + 32, values.size)):
            mine = max(mine, values[k])
        if i < values.size:
            mine = max(mine, values[i])
        maxima[i // 32] = mine


@wrong("warp-max", "your warps make .* shuffles or votes each.*five rounds")
@cuda.jit
def lanes_ask_each_other_in_turn(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < values.size else -math.inf
    largest = mine
    for lane in range(1, 32):
        largest = max(largest, cuda.shfl_sync(ALL_LANES, mine, lane))
    if i % 32 == 0:
        maxima[i // 32] = largest


@wrong("warp-max", "not found with shuffles only")
@cuda.jit
def by_shared_memory(values, maxima):
    place = cuda.shared.array(THREADS, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    if t % 32 == 0:
        mine = place[t]
        for k in range(1, 32):
            mine = max(mine, place[t + k])
        maxima[i // 32] = mine


# --- occupancy ----------------------------------------------------------------------------------


def warps_that_fit(threads, registers, shared, round_up=True, parts=4, reserved=1024, most=32):
    """The right answer, unless one of the limits is misunderstood."""
    warps = threads // 32
    of_a_warp = 32 * registers
    if round_up:
        of_a_warp = (of_a_warp + 255) // 256 * 256
    blocks = min(
        64 // warps,
        most,
        parts * (65_536 // parts // of_a_warp) // warps,
        233_472 // (shared + reserved) if shared + reserved else most,
    )
    return blocks * warps


@wrong("occupancy", "32 warps fit, but your answer is 64.*at most 32 blocks")
def only_the_first_limit(threads, registers, shared):
    return 64 // (threads // 32) * (threads // 32)


@wrong("occupancy", "60 warps fit, but your answer is 64.*fits completely")
def parts_of_blocks_fit(threads, registers, shared):
    return min(64, threads * 32 // 32, 65_536 // (32 * registers))


@wrong("occupancy", "with 33 registers.*48 warps fit, but your answer is 60.*rounded up")
def not_rounded_up(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, round_up=False)


@wrong("occupancy", "48 warps fit, but your answer is 50.*one of the four parts")
def one_big_register_file(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, parts=1)


@wrong("occupancy", "1,024 bytes of shared memory more")
def nothing_reserved(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, reserved=0)


@wrong("occupancy", "a part of a warp does not exist")
def fractions(threads, registers, shared):
    return 64 / 3


@wrong("occupancy", "a block that does not fit does not run at all|your answer is")
def at_least_one_block(threads, registers, shared):
    return max(warps_that_fit(threads, registers, shared), threads // 32)


@wrong("occupancy", "your answer is", "a table of known cases")
def known_cases(threads, registers, shared):
    known = {
        (1024, 32, 0): 64, (192, 32, 0): 60, (32, 32, 0): 32, (256, 64, 0): 32, (64, 33, 0): 48,
        (128, 40, 0): 48, (96, 40, 0): 48, (128, 255, 0): 8, (128, 32, 49_152): 16,
        (128, 32, 14_592): 56, (1024, 128, 0): 0, (512, 128, 102_400): 16,
    }
    return known.get((threads, registers, shared), 64)


wrong("warp-max", "of both signs.*which is none of the values", "of values that are negative")(
    swap("maxima[i // 32] = mine", "maxima[i // 32] = -abs(mine)"))


@wrong("warp-max", "busiest thread makes .* get the other values with shuffles")
@cuda.jit
def lane_0_reads_and_tells(values, maxima):
    i = cuda.grid(1)
    mine = -math.inf
    if i % 32 == 0:
        for k in range(i, min(i + 32, values.size)):
            mine = max(mine, values[k])
    mine = cuda.shfl_sync(ALL_LANES, mine, 0)
    if i % 32 == 0:
        maxima[i // 32] = mine


@wrong("turn", "the work is not shared.*let each block transpose one tile")
@cuda.jit
def tiles_for_64_rows_alone(table, turned):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    if table.shape[0] == 64 and table.shape[1] == 64:
        tile[y, x] = table[first_i + y, first_j + x]
        cuda.syncthreads()
        turned[first_j + y, first_i + x] = tile[x, y]
    elif x == 0 and y == 0:
        for i in range(first_i, min(table.shape[0], first_i + 32)):
            for j in range(first_j, min(table.shape[1], first_j + 32)):
                turned[j, i] = table[i, j]

# --- tiled-matmul -------------------------------------------------------------------------------



TILE = 16


def product(guard_a=True, guard_b=True, guard_store=True, first=True, second=True, leave=False):
    """A tiled product with one thing done wrongly."""

    @cuda.jit
    def kernel(a, b, out):
        tile_a = cuda.shared.array((TILE, TILE), float32)
        tile_b = cuda.shared.array((TILE, TILE), float32)
        column, row = cuda.grid(2)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        if leave and (row >= out.shape[0] or column >= out.shape[1]):
            return
        total = float32(0)
        for start in range(0, a.shape[1], TILE):
            if not guard_a or (row < a.shape[0] and start + x < a.shape[1]):
                tile_a[y, x] = a[row, start + x]
            else:
                tile_a[y, x] = 0
            if not guard_b or (start + y < b.shape[0] and column < b.shape[1]):
                tile_b[y, x] = b[start + y, column]
            else:
                tile_b[y, x] = 0
            if first:
                cuda.syncthreads()
            for k in range(TILE):
                total += tile_a[y, k] * tile_b[k, x]
            if second:
                cuda.syncthreads()
        if not guard_store or (row < out.shape[0] and column < out.shape[1]):
            out[row, column] = total

    return kernel


wrong("tiled-matmul", "illegal address", "a without guard")(product(guard_a=False))


wrong("tiled-matmul", "illegal address", "b without guard")(product(guard_b=False))


wrong("tiled-matmul", "illegal address|race: ", "store without guard")(product(guard_store=False))


wrong("tiled-matmul", "race: ", "no first barrier")(product(first=False))


wrong("tiled-matmul", "race: ", "no second barrier")(product(second=False))


wrong("tiled-matmul", "barrier|unwritten|wait", "leaves early")(product(leave=True))


@wrong("tiled-matmul", "the work is not shared.*let each thread load its number")
@cuda.jit
def one_thread_fills_the_tiles(a, b, out):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        if x == 0 and y == 0:
            for i in range(TILE):
                for j in range(TILE):
                    tile_a[i, j] = tile_b[i, j] = 0
                    if row + i < a.shape[0] and start + j < a.shape[1]:
                        tile_a[i, j] = a[row + i, start + j]
                    if start + i < b.shape[0] and column + j < b.shape[1]:
                        tile_b[i, j] = b[start + i, column + j]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@wrong("tiled-matmul", "numbers were loaded from global")
@cuda.jit
def naive(a, b, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        out[row, column] = total


@wrong("tiled-matmul", "never written.*|element .* is .*, not ")
@cuda.jit
def whole_tiles_only(a, b, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] // TILE * TILE and column < out.shape[1] // TILE * TILE:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        out[row, column] = total

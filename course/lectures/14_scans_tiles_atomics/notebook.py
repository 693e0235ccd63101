# %% [markdown] id="begin"
# In these puzzles, many threads add to one number, find the index for their result by counting, and work through tiles.
# The most difficult puzzle is a scan of any length in a single launch. The lecture [Scan](13_scan.ipynb) explains
# running sums.

# %% id="start"
# %load_ext gpucourse
import math

from gpucourse.puzzles.shelf import puzzles
from numba import cuda, float32, int32

check, hint, predict, picture, replay, board = puzzles("14_scans_tiles_atomics")
T, TILE = 64, 16

# %% puzzle="count-above"

# %% puzzle="histogram"

# %% puzzle="grid-sum"

# %% puzzle="rank-sort"

# %% puzzle="rim"

# %% puzzle="tile-product"

# %% puzzle="softmax"

# %% puzzle="one-pass-scan"

# %% [markdown] id="shelf"
# ## Two broken kernels
#
# The first kernel loses counts, and the second may never end.

# %% puzzle="broken-count"

# %% puzzle="broken-wait"

# %% [markdown] id="board-text"
# ## The board
#
# If the kernel that moves the fewest bytes is not the one that takes the shortest time, the board asks you why. Begin
# with the softmax.

# %% id="the-board"
board()

# %% [markdown] id="more" tags=["further"]
# ## More puzzles
#
# The puzzles above are the lesson, so you may go on with [Tables on the device](15_cudf.ipynb). These nine are for
# practice, in any order, now or later. The five from “Running sums” to “Keep some, in order” repeat the steps of
# [Scan](13_scan.ipynb), each in a few lines.

# %% puzzle="block-histogram"

# %% puzzle="largest"

# %% puzzle="scan"

# %% puzzle="before-mine"

# %% puzzle="block-scans"

# %% puzzle="add-offsets"

# %% puzzle="compact"

# %% puzzle="product"

# %% puzzle="broken-scan"

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - An atomic reads, adds and writes in one step. Atomics at one address run one after the other.
# - Combine results inside the block first, so that fewer atomics go to global memory.
# - A scan turns counts into indices, so that results keep their order and are the same in every run.
# - With a tile of 16 × 16, sixteen threads use each number that the block fetches.
# - A block may wait only for blocks that have begun, which a ticket guarantees.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The lecture [Scan: where does mine go?](13_scan.ipynb), and the project
#   [Filling a histogram in parallel](../projects/01_fill_a_histogram/01_fill_a_histogram.ipynb)
# - D. Merrill and M. Garland, [Single-pass Parallel Prefix Scan with Decoupled Look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back)
# - M. Milakov and N. Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), which computes the
#   largest number and the sum in one pass over the row

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 70 minutes
#
# | minutes | what |
# |---|---|
# | 0-20 | puzzles 1 to 3 |
# | 20-34 | 4 and 5 |
# | 34-50 | 6 and 7; whose softmax moves the fewest bytes? |
# | 50-60 | 8, together: who waits for whom? |
# | 60-70 | the two broken ones and the board |
#
# *Ten minutes late:* leave out “Sort by counting”. *Ten minutes early:* write the softmax with the row kept in shared
# memory, which moves 8 bytes for each number.
#
# *Where people get stuck.* In the scan they write `tile[t] += tile[t - distance]` in one line. In the one-pass scan
# they let all threads wait for `ready`, although one is enough.
#
# *Frequent questions.* "May blocks really wait for each other?" They may wait for blocks that are already running, and
# the ticket makes sure of that. A barrier across the whole grid needs a cooperative launch.

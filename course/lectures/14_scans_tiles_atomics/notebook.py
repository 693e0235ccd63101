# %% [markdown] id="begin"
# Many threads add to one place, find their places by running sums, and multiply through tiles. The last one is a scan of any
# length in a single launch.

# %% id="start"
# %load_ext gpucourse
import math

from gpucourse.puzzles.shelf import puzzles
from numba import cuda, float32, int32

check, hint, predict, picture, replay, board = puzzles("14_scans_tiles_atomics")
T, TILE = 64, 16

# %% puzzle="count-above"

# %% puzzle="histogram"

# %% puzzle="block-histogram"

# %% puzzle="largest"

# %% puzzle="grid-sum"

# %% puzzle="scan"

# %% puzzle="before-mine"

# %% puzzle="block-scans"

# %% puzzle="add-offsets"

# %% puzzle="compact"

# %% puzzle="rank-sort"

# %% puzzle="rim"

# %% puzzle="product"

# %% puzzle="tile-product"

# %% puzzle="softmax"

# %% puzzle="one-pass-scan"

# %% [markdown] id="shelf"
# ## The shelf of broken kernels
#
# The last three.

# %% puzzle="broken-count"

# %% puzzle="broken-scan"

# %% puzzle="broken-wait"

# %% [markdown] id="board-text"
# ## The board
#
# Where the fewest bytes and the shortest time are two different kernels of yours, the board asks why. The two histograms
# are a good pair to begin with, and the softmax.

# %% id="the-board"
board()

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - An atomic makes one step of reading, adding and writing. Those at one address queue.
# - Do in the block what can be done there: fewer atomics leave it.
# - A scan turns counts into places, in order, the same in every run.
# - A tile of 16 × 16 lets sixteen threads use each number that is fetched.
# - Blocks may wait for blocks that have begun, and for no others: that's what a ticket is for.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The lecture [Scan: where does mine go?](13_scan.ipynb), and the project
#   [Filling a histogram in parallel](../projects/01_fill_a_histogram/01_fill_a_histogram.ipynb).
# - D. Merrill and M. Garland, [Single-pass Parallel Prefix Scan with Decoupled Look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back).
# - M. Milakov and N. Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867): the largest
#   and the sum in one walk along the row.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 130 minutes
#
# | minutes | what |
# |---|---|
# | 0-34 | puzzles 1 to 5 |
# | 34-68 | 6 to 10; eight people with numbers do the scan, aloud |
# | 68-88 | 11 to 13 |
# | 88-102 | 14 and 15; whose softmax moves the fewest bytes? |
# | 102-110 | 16, together: who waits for whom? |
# | 110-130 | the shelf and the board |
#
# *Ten minutes late:* leave out “A scan for each block” and “Sort by counting”. *Ten minutes early:* softmax with the row kept in
# shared memory: 8 bytes for each number.
#
# *Where people get stuck.* In the scan: `tile[t] += tile[t - distance]` in one line. In the one-pass scan: all threads wait
# for `ready`, where one would do.
#
# *Frequent questions.* "May blocks really wait for each other?" They may wait for blocks that are already running,
# and the ticket makes sure of that. A barrier of the whole grid needs a cooperative launch.

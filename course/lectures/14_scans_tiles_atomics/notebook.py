# %% [markdown] id="begin"
# In these puzzles, many threads add to one number, find the index for their result by running sums, and multiply through tiles.
# The last puzzle is a scan of any length in a single launch.

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
# These are the last three.

# %% puzzle="broken-count"

# %% puzzle="broken-scan"

# %% puzzle="broken-wait"

# %% [markdown] id="board-text"
# ## The board
#
# If two different kernels of yours have the fewest bytes and the shortest time, the board asks you why. Begin with the two
# histograms and the softmax.

# %% id="the-board"
board()

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - An atomic reads, adds and writes in one step. Atomics at one address queue.
# - Do in the block what you can do there, so that fewer atomics leave it.
# - A scan turns counts into indices, in order, and the same in every run.
# - A tile of 16 × 16 lets sixteen threads use each number that is fetched.
# - A block may wait only for blocks that have begun. A ticket makes sure of that.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The lecture [Scan: where does mine go?](13_scan.ipynb), and the project
#   [Filling a histogram in parallel](../projects/01_fill_a_histogram/01_fill_a_histogram.ipynb)
# - D. Merrill and M. Garland, [Single-pass Parallel Prefix Scan with Decoupled Look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back)
# - M. Milakov and N. Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), which computes the
#   largest number and the sum in one pass over the row

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
# *Ten minutes late:* leave out “A scan for each block” and “Sort by counting”. *Ten minutes early:* write the softmax with the row
# kept in shared memory, which moves 8 bytes for each number.
#
# *Where people get stuck.* In the scan they write `tile[t] += tile[t - distance]` in one line. In the one-pass scan all threads
# wait for `ready`, where one is enough.
#
# *Frequent questions.* "May blocks really wait for each other?" They may wait for blocks that are already running,
# and the ticket makes sure of that. A barrier of the whole grid needs a cooperative launch.

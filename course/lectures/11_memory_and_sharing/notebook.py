# %% [markdown] id="begin"
# In these puzzles, the threads of a warp read side by side, and the threads of a block share what they have read. Blocks have
# `T` = 64 threads from here on (or 16 × 16), and tiles in shared memory have matching sizes, because a kernel has to know them
# when it's compiled.

# %% id="start"
# %load_ext gpucourse
import math

from gpucourse.puzzles.shelf import puzzles
from numba import cuda, float32

check, hint, predict, picture, replay, board = puzzles("11_memory_and_sharing")
T, TILE = 64, 16

# %% puzzle="row-sums"

# %% puzzle="column-sums"

# %% puzzle="block-reverse"

# %% puzzle="neighbours"

# %% puzzle="block-sums"

# %% puzzle="tiled-transpose"

# %% puzzle="no-conflicts"

# %% puzzle="warp-sums"

# %% [markdown] id="shelf"
# ## Two broken kernels
#
# These two kernels give the right answer most of the time, which makes their mistakes hard to find.

# %% puzzle="broken-barrier"

# %% puzzle="broken-again"

# %% [markdown] id="board-text"
# ## The board
#
# The board keeps the fewest bytes and the shortest time. If you have a GPU, try to beat “Banks”: two kernels that move the same
# bytes need not take the same time.

# %% id="the-board"
board()

# %% [markdown] id="more" tags=["further"]
# ## More puzzles
#
# You can share a tile now, so you may go on with [Thinking in warps](12_thinking_in_warps.ipynb). These seven are for practice, in
# any order, now or later. Two of them need a new idea: in “Four for each thread” one thread does more work, and in “Points in a
# plane” the layout of the data decides how much is moved.

# %% puzzle="block-largest"

# %% puzzle="dot"

# %% puzzle="convolution"

# %% puzzle="lookup"

# %% puzzle="four-each"

# %% puzzle="points"

# %% puzzle="broken-in-place"

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The same work costs eight times the bytes if neighbouring threads read far apart.
# - Shared memory belongs to a block: fetch once, wait at a barrier, use often. It holds garbage at the start.
# - A barrier waits for all threads of the block. A loop that uses a tile again needs two barriers.
# - A tree adds 64 numbers in six rounds. Within a warp, shuffles do the same without shared memory and without a
#   barrier.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The next puzzles, [Scans, tiles, atomics](14_scans_tiles_atomics.ipynb), and the lectures
#   [Trees and barriers](07_trees_and_barriers.ipynb) and [Thinking in warps](12_thinking_in_warps.ipynb)
# - M. Harris, [An Efficient Matrix Transpose in CUDA C/C++](https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/)
# - NVIDIA, [Using CUDA Warp-Level Primitives](https://developer.nvidia.com/blog/using-cuda-warp-level-primitives/)

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 70 minutes
#
# | minutes | what |
# |---|---|
# | 0-20 | puzzles 1 to 3; the sectors of the first two side by side on the board |
# | 20-34 | 4 and 5; walk through the tree by hand, eight people in a row |
# | 34-55 | 6 to 8, in pairs |
# | 55-70 | the two broken ones and the board |
#
# *Ten minutes late:* leave out “Three neighbours”. *Ten minutes early:* try 17 words in a row of the
# tile, and 18, and ask who finds the remaining conflicts.
#
# *Where people get stuck.* They put the barrier inside an `if`, or their guard stops threads that still have something to fetch.
#
# *Frequent questions.* "Doesn't the cache do all this by itself?" The cache often does a good part of it, but the
# counts here ignore the cache. If you have a GPU, measure the time.

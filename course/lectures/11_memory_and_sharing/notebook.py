# %% [markdown] id="begin"
# In these puzzles, the threads of a warp read neighbouring elements, and the threads of a block share the numbers that
# they have read. From here on, blocks have `T` = 64 threads (or 16 × 16). Tiles in shared memory have matching sizes,
# because these sizes must be known when a kernel is compiled.

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
# The board keeps the fewest bytes and the shortest time for each puzzle. If you have a GPU, try to beat your time for
# “Banks”, because two kernels that move the same number of bytes need not take the same time.

# %% id="the-board"
board()

# %% [markdown] id="more" tags=["further"]
# ## More puzzles
#
# You can share a tile now, so you may go on with [Thinking in warps](12_thinking_in_warps.ipynb). These seven puzzles
# are for practice, in any order, now or later. Two of them need a new idea. In “Four for each thread” each thread does
# more work, and in “Points in a plane” the layout of the data determines how many bytes are moved.

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
# - The same work moves eight times as many bytes if neighbouring threads read elements that are far apart.
# - Shared memory belongs to a block, and contains garbage at the start. Load each number once, wait at a barrier, and
#   use it often.
# - A barrier waits for all threads of the block. A loop that reuses a tile needs two barriers.
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
# | 0-20 | puzzles 1 to 3; compare the sectors of the first two on the board |
# | 20-34 | 4 and 5; act out the tree with eight people in a row |
# | 34-55 | 6 to 8, in pairs |
# | 55-70 | the two broken ones and the board |
#
# *Ten minutes late:* leave out “Three neighbours”. *Ten minutes early:* let them try tiles with 17 and 18 words in a
# row, and ask who finds the remaining conflicts.
#
# *Where people get stuck.* They put the barrier inside an `if`, or their guard stops threads that still have to load
# something.
#
# *Frequent questions.* "Doesn't the cache do all this by itself?" The cache often does a good part of it, but the
# counts here ignore the cache. If you have a GPU, measure the time.

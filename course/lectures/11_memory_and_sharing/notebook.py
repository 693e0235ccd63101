# %% [markdown] id="begin"
# Threads read side by side, and threads of a block share what they have read. Blocks have `T` = 64 threads from here on
# (or 16 × 16), and tiles in shared memory have sizes to match: a kernel has to know them when it's compiled.

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

# %% puzzle="block-largest"

# %% puzzle="dot"

# %% puzzle="convolution"

# %% puzzle="tiled-transpose"

# %% puzzle="no-conflicts"

# %% puzzle="warp-sums"

# %% puzzle="lookup"

# %% puzzle="four-each"

# %% puzzle="points"

# %% [markdown] id="shelf"
# ## The shelf of broken kernels
#
# Three kernels that are right most of the time.

# %% puzzle="broken-barrier"

# %% puzzle="broken-in-place"

# %% puzzle="broken-again"

# %% [markdown] id="board-text"
# ## The board
#
# Fewest bytes and shortest time. “Banks” and “Four for each thread” are good ones to beat, if you have a GPU: two kernels
# that move the same bytes need not take the same time.

# %% id="the-board"
board()

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The same work costs eight times the bytes if neighbouring threads read far apart.
# - Shared memory is a block's own: fetch once, wait at a barrier, use often. It holds anything at the start.
# - A barrier waits for all threads of the block. A loop that uses a tile again needs two.
# - A tree of 64 takes six rounds, in shared memory or, within a warp, by shuffles with no barrier at all.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The next puzzles, [Scans, tiles, atomics](14_scans_tiles_atomics.ipynb), and the lectures
#   [Trees and barriers](07_trees_and_barriers.ipynb) and [Thinking in warps](12_thinking_in_warps.ipynb).
# - M. Harris, [An Efficient Matrix Transpose in CUDA C/C++](https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/).
# - NVIDIA, [Using CUDA Warp-Level Primitives](https://developer.nvidia.com/blog/using-cuda-warp-level-primitives/).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 120 minutes
#
# | minutes | what |
# |---|---|
# | 0-21 | puzzles 1 to 3; the sectors of the first two side by side on the board |
# | 21-55 | 4 to 8; walk through the tree by hand, eight people in a row |
# | 55-82 | 9 to 12, in pairs |
# | 82-96 | 13 and 14 |
# | 96-120 | the shelf and the board |
#
# *Ten minutes late:* leave out “A window that slides” and “Points in a plane”. *Ten minutes early:* 17 words in a row of the
# tile, and 18: who finds the conflicts that are left?
#
# *Where people get stuck.* At the barrier inside an `if`. At the guard that sends threads away which still have something to fetch.
#
# *Frequent questions.* "Doesn't the cache do all this by itself?" It often does a good part of it, but the counts
# here ignore it. If you have a GPU, measure the time.

# %% [markdown] id="begin"
# Your first kernel takes two minutes, and you may stop after any puzzle. Run the next cell (Shift+Enter).

# %% id="start"
# %load_ext gpucourse
from gpucourse.puzzles.shelf import puzzles
from numba import cuda

check, hint, predict, picture, replay, board = puzzles("01_first_steps")

# %% puzzle="add-ten"

# %% [markdown] id="how-it-goes"
# That was a **kernel**, a function that every thread runs. All the other puzzles work in the same way. A line of NumPy says what
# the kernel should compute, and the picture shows an example: two results in colour, with the numbers that they come from. You
# predict, you write a few lines, and `check` tries your kernel in several sizes, with other numbers each time.
# If it's right, you see what it cost. If you are stuck, call `hint("add-ten")`, with the puzzle's name, and again for the next
# hint.

# %% puzzle="add-two"

# %% puzzle="guard"

# %% puzzle="blocks"

# %% puzzle="reverse"

# %% puzzle="gaps"

# %% puzzle="grid-stride"

# %% puzzle="matrix"

# %% [markdown] id="shelf"
# ## Two broken kernels
#
# You already know everything that these two need. `replay` launches the broken kernel and shows you, step by step,
# where two threads disturb each other.

# %% puzzle="broken-guard"

# %% puzzle="broken-owner"

# %% [markdown] id="board-text"
# ## The board
#
# For each puzzle, the board keeps your kernel that moves the fewest bytes and, if there is a GPU, your kernel that
# takes the shortest time, which may be another one. The board is a file on this machine, and nobody else sees it.

# %% id="the-board"
board()

# %% [markdown] id="more" tags=["further"]
# ## More puzzles
#
# You can write a kernel now, so you may go on with [Why GPUs](02_why_gpus.ipynb). These eight are for practice, in any
# order, now or later. Two of them contain a new idea. "Rows become columns" shows what a warp's reads cost, and in "A
# loop in each thread" one thread does more work.

# %% puzzle="count-up"

# %% puzzle="roll"

# %% puzzle="clamp"

# %% puzzle="gather"

# %% puzzle="every-other"

# %% puzzle="every-pair"

# %% puzzle="transpose"

# %% puzzle="polynomial"

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A kernel has no loop over the data. Every thread runs it, and its number says which element is its own.
# - A launch has whole blocks, so some threads have no element, and the bounds guard stops them.
# - Memory moves sectors of 32 bytes, so the cost is the number of sectors that a warp's 32 threads touch together.
# - Every element that is written has one owner. Two owners are a race, even if the result is right today.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The next puzzles, [Memory and sharing](11_memory_and_sharing.ipynb), or the lecture that explains what you have just
#   done, [Numba CUDA: kernels in Python](06_numba_cuda.ipynb)
# - [Numba for CUDA GPUs](https://nvidia.github.io/numba-cuda/), on the Python that a kernel may contain
# - S. Rush, [GPU Puzzles](https://github.com/srush/GPU-Puzzles), fourteen kernels in the same spirit

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 70 minutes
#
# | minutes | what |
# |---|---|
# | 0-20 | the first three puzzles, each alone; then compare the guesses of the third |
# | 20-40 | “Many blocks”, “The other way round” and “Gaps”; ask for the sectors before anybody checks |
# | 40-52 | “Fewer threads than elements” and “Two dimensions”, in pairs |
# | 52-70 | the two broken ones and the board: who can explain the replay? |
#
# *Ten minutes late:* leave out “Gaps”. *Ten minutes early:* do more puzzles, and ask for the grid-stride loop with
# a stretch for each thread, then look at the bytes together.
#
# *Where people get stuck.* At first they look for the loop. In “Two dimensions” they confuse row and column, because
# the column is the first number.
#
# *Frequent questions.* "Why is there no time?" Without a GPU, only the CPU's time could be measured, and it would say
# nothing about a GPU. Counts are the same on every machine.

# %% [markdown] id="begin"
# Your first kernel takes two minutes, and you may stop after any puzzle. Run the next cell with Shift+Enter.

# %% id="start"
# %load_ext gpucourse
from gpucourse.puzzles.shelf import puzzles
from numba import cuda

check, hint, predict, picture, replay, board = puzzles("01_first_steps")

# %% puzzle="add-ten"

# %% [markdown] id="how-it-goes"
# That was a **kernel**, a function that every thread runs. All the other puzzles work in the same way. A line of NumPy
# says what the kernel should compute. The picture shows an example, with two of the results in colour, together with
# the numbers from which they are computed. You make a prediction and write a few lines, and `check` tries your kernel
# on arrays of several sizes, with different numbers each time. If your kernel is right, you see how many bytes it
# moved. If you are stuck, call `hint("add-ten")`, with the name of the puzzle, and call it again for the next hint.

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
# You already know everything that you need for these two puzzles. `replay` launches the broken kernel and shows you,
# step by step, where two threads disturb each other.

# %% puzzle="broken-guard"

# %% puzzle="broken-owner"

# %% [markdown] id="board-text"
# ## The board
#
# For each puzzle, the board keeps your kernel that moves the fewest bytes. If there is a GPU, it also keeps your
# fastest kernel, which may be a different one. The board is a file on this machine, and nobody else sees it.

# %% id="the-board"
board()

# %% [markdown] id="more" tags=["further"]
# ## More puzzles
#
# You can write a kernel now, so you may go on with [Why GPUs](02_why_gpus.ipynb). These eight puzzles are for practice,
# in any order, now or later. Two of them contain a new idea. "Rows become columns" shows the cost of a warp's reads,
# and in "A loop in each thread" each thread does more work.

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
# - A kernel has no loop over the data. Every thread runs the kernel, and its number tells it which element to compute.
# - A launch has only whole blocks, so some threads have no element, and the bounds guard stops them.
# - Memory moves sectors of 32 bytes, so the cost is the number of sectors that the 32 threads of a warp access
#   together.
# - Every element that is written should have one owner. If two threads write to it, that is a race, even if the result
#   happens to be right.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The next puzzles, [Memory and sharing](11_memory_and_sharing.ipynb), or the lecture that explains these puzzles,
#   [Numba CUDA: kernels in Python](06_numba_cuda.ipynb)
# - [Numba for CUDA GPUs](https://nvidia.github.io/numba-cuda/), on the Python that a kernel may contain
# - S. Rush, [GPU Puzzles](https://github.com/srush/GPU-Puzzles), fourteen kernels in the same spirit

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 70 minutes
#
# | minutes | what |
# |---|---|
# | 0-20 | the first three puzzles, which everybody solves alone; then compare the predictions for the third |
# | 20-40 | “Many blocks”, “The other way round” and “Gaps”; ask for the number of sectors before anybody runs a check |
# | 40-52 | “Fewer threads than elements” and “Two dimensions”, in pairs |
# | 52-70 | the two broken ones and the board: who can explain the replay? |
#
# *Ten minutes late:* leave out “Gaps”. *Ten minutes early:* do more puzzles. Or ask for the version of “Fewer threads
# than elements” in which each thread takes a contiguous part of the array, and compare the bytes.
#
# *Where people get stuck.* At first they look for the loop. In “Two dimensions” they confuse row and column, because
# `cuda.grid(2)` returns the column first.
#
# *Frequent questions.* "Why does the check show no time?" Without a GPU, only the CPU's time could be measured, and it
# would say nothing about a GPU. Counts are the same on every machine.

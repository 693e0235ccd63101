# %% [markdown] id="the-question-asked"
# ## What does a GPU do while it copies?
#
# In [the lesson on PyCUDA](04_pycuda.ipynb#4-who-copies-and-when) a program copied its array to the GPU, launched its
# kernels and copied the result back, one after the other. But a GPU has separate engines for copying in, for computing
# and for copying out, and they can work at the same time. Run the cell below, which cuts the work into six chunks and
# queues them in three **streams**.

# %% id="streams"
# %load_ext gpucourse
import numpy as np
from gpucourse import lesson
from numba import cuda

check, hint, predict = lesson("20_streams")


@cuda.jit
def square_all(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = values[i] ** 2


chunks = cuda.pinned_array((6, 1000), np.float64)  # pinned: see below
chunks[:] = np.arange(6000).reshape(6, 1000)
squares = cuda.pinned_array((6, 1000), np.float64)
streams = [cuda.stream() for _ in range(3)]
for k in range(6):
    stream = streams[k % 3]
    d_chunk = cuda.to_device(chunks[k], stream=stream)
    square_all[8, 128, stream](d_chunk)
    d_chunk.copy_to_host(squares[k], stream=stream)
cuda.synchronize()  # the host waits for all streams; before this, squares may hold anything
print("right:", np.array_equal(squares, chunks**2))

# %% [markdown] id="the-question-stands"
# A stream is a queue of copies and launches, which run in order, one after the other. Tasks in two different streams
# run in *any* order, or at the same time. **Which task must wait for which, and how do you tell the GPU?** In CuPy you
# would write `with cupy.cuda.Stream():` around the work of a stream.

# %% [markdown] id="streams-why"
# ## 1. The host waits
#
# A launch in a stream returns at once, and so does a copy from pinned memory. `cuda.synchronize()` makes the host wait
# for all streams. The virtual GPU accepts streams and events and follows their rules, but it runs each task as soon as
# you queue it, so **its results are right even if you forget to wait**. On a GPU, the results may be right as well, but
# in one run of a thousand they are wrong. To find such a mistake, use the report of `check(streams=True)`. If
# `cuda.synchronize()` is missing, it names the copy and the line that did not wait for it.

# %% id="forgotten"
import virtualgpu

with virtualgpu.check(streams=True) as report:
    result = cuda.pinned_array(1000, np.float64)  # the report watches what is made in here
    d_chunk = cuda.to_device(chunks[0], stream=streams[0])
    square_all[8, 128, streams[0]](d_chunk)
    d_chunk.copy_to_host(result, stream=streams[0])
    print("right:", np.array_equal(result, chunks[0] ** 2))  # nothing waited for the copy
print(report)

# %% [markdown] id="wait-task"
# ### Exercise: wait for your own stream
#
# As it stands, `square_on` returns too early. Add what is missing, so that `result` holds the squares when the function
# returns. Wait for this stream only, because other streams may have hours of work left.

# %% id="wait-exercise" tags=["exercise"]
def square_on(stream, values, result):
    """Square `values` on the device, in a stream; `result` is pinned memory of the host."""
    d_values = cuda.to_device(values, stream=stream)
    square_all[8, 128, stream](d_values)
    d_values.copy_to_host(result, stream=stream)
    ### BEGIN SOLUTION
    stream.synchronize()
    ### END SOLUTION

# %% id="wait-check"
check("wait", square_on)

# %% [markdown] id="pinned-predict" tags=["predict"]
# ## 2. Pinned memory
#
# The operating system may move ordinary memory, or write it to the disk, at any time. `cuda.pinned_array` makes an
# array in **pinned memory**, which the system doesn't move, so the GPU's copy engine can read it without the
# processor's help. Copies from and to ordinary memory do not run in the background.
#
# On an H200 we copied 268 MB to the device, from ordinary and from pinned memory. *Predict:* how much faster was the
# copy from pinned memory?

# %% id="pinned-guess"
predict("pinned", "not faster: the same bytes cross", "about twice", "about six times")

# %% id="pinned"
from gpucourse.views.measured import recorded_times

recorded_times("link")

# %% [markdown] id="pinned-why" tags=["why"]
# It was about six times as fast, with 4.9 ms against 30 ms. The driver first copies an ordinary array, piece by piece,
# into its own pinned memory. Still, don't pin all memory, because no other program can use pinned memory until you free
# it, and it takes long to allocate. So make a few pinned arrays, and reuse them.
#
# *Recorded rows: `link/to-device`, `link/to-device-pinned`.*

# %% [markdown] id="paper-text"
# ## 3. Streams wait for each other
#
# To see *why* an order is wrong, we simulate the queues. `PaperGPU` records what you queue, and then runs it in one of
# the orders that CUDA's rules permit, chosen at random. Here is a pipeline with two streams, of which one copies in,
# and the other computes and copies out.

# %% id="paper"
from gpucourse.views.paper_streams import PaperGPU, draw


def square(values):
    values *= values


def hasty(gpu, chunks, results):
    copying, working = gpu.stream(), gpu.stream()
    buffer = gpu.buffer(chunks[0].size)
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        copying.copy_in(chunk, buffer, label=f"in {k}")
        working.launch(square, buffer, label=f"square {k}")
        working.copy_out(buffer, result, label=f"out {k}")


def try_orders(pipeline, orders=100, count=4):
    """In how many of so many orders, all of them allowed, a pipeline gives the right answer."""
    right = 0
    for seed in range(orders):
        gpu = PaperGPU()
        chunks = np.arange(2.0, 2 + 3 * count).reshape(count, 3)
        results = np.zeros_like(chunks)
        pipeline(gpu, chunks, results)
        gpu.run(seed)
        right += np.array_equal(results, chunks**2)
    return f"right in {right} of {orders} orders"

# %% [markdown] id="race-predict" tags=["predict"]
# An **event** orders two streams, because `event.record(a)` sets a mark in stream *a*, and work queued in *b* after
# `event.wait(b)` starts only when that mark is reached.
#
# *Predict:* in how many of a hundred allowed orders is `hasty` right? In `one_wait`, each launch waits for its copy,
# and is that enough?

# %% id="race-guess"
predict("race", "in half of them; enough", "in hardly any; enough", "in hardly any; not enough")

# %% id="race"
def one_wait(gpu, chunks, results):
    copying, working, copied = gpu.stream(), gpu.stream(), gpu.event()
    buffer = gpu.buffer(chunks[0].size)
    for chunk, result in zip(chunks, results, strict=True):
        copying.copy_in(chunk, buffer)
        copied.record(copying)
        copied.wait(working)  # the launch waits for the copy
        working.launch(square, buffer)
        working.copy_out(buffer, result)


for pipeline in (hasty, one_wait):
    print(f"{pipeline.__name__:10}", try_orders(pipeline))

# %% [markdown] id="race-why" tags=["why"]
# `hasty` is hardly ever right, and one wait is not enough. A buffer has *two* hazards: it may be read before it is
# filled, and it may be **filled again before it is read**, which people often forget.

# %% [markdown] id="both-waits-task"
# ### Exercise: the second wait
#
# As it stands, `two_waits` is only a copy of `one_wait`. Add what is missing, with a second event, so that it is right
# in every allowed order. Keep the two streams and the one buffer. If an event has not been recorded yet, a wait for it
# returns at once. If you are stuck, call `hint("both-waits")`.

# %% id="both-waits-exercise" tags=["exercise"]
def two_waits(gpu, chunks, results):
    copying, working, copied = gpu.stream(), gpu.stream(), gpu.event()
    buffer = gpu.buffer(chunks[0].size)
    for chunk, result in zip(chunks, results, strict=True):
        copying.copy_in(chunk, buffer)
        copied.record(copying)
        copied.wait(working)  # the launch waits for the copy
        working.launch(square, buffer)
        working.copy_out(buffer, result)


### BEGIN SOLUTION
def two_waits(gpu, chunks, results):
    copying, working = gpu.stream(), gpu.stream()
    copied, done = gpu.event(), gpu.event()
    buffer = gpu.buffer(chunks[0].size)
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        done.wait(copying)  # the next copy waits until the buffer was read
        copying.copy_in(chunk, buffer, label=f"in {k}")
        copied.record(copying)
        copied.wait(working)
        working.launch(square, buffer, label=f"square {k}")
        working.copy_out(buffer, result, label=f"out {k}")
        done.record(working)
### END SOLUTION
print(try_orders(two_waits))

# %% id="both-waits-check"
check("both-waits", two_waits)

# %% [markdown] id="no-overlap-text"
# The next picture shows whether anything still overlaps.

# %% id="no-overlap"
gpu = PaperGPU()
two_waits(gpu, np.zeros((4, 3)), np.zeros((4, 3)))
draw(gpu, "Two streams, two waits, one buffer")

# %% [markdown] id="no-overlap-why"
# With both waits nothing overlaps, because everything waits for the one buffer, so two streams are no better than one.
# To overlap, you need more memory: while one chunk is processed, the next one needs another buffer.

# %% [markdown] id="pipeline-task"
# ## 4. A pipeline
#
# ### Exercise: three engines at work
#
# Write `pipeline(gpu, chunks, results)` so that it is right in every allowed order and keeps all three engines busy. A
# copy or a launch takes one unit of time, and `n` chunks must be done after `n + 2` units. You have memory for
# **three** buffers, and if each buffer has its own stream, do you need events at all?

# %% id="pipeline-exercise" tags=["exercise"]
def pipeline(gpu, chunks, results):
    ### BEGIN SOLUTION
    streams = [gpu.stream() for _ in range(3)]
    buffers = [gpu.buffer(chunks[0].size) for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        stream, buffer = streams[k % 3], buffers[k % 3]
        stream.copy_in(chunk, buffer, label=f"in {k}")
        stream.launch(square, buffer, label=f"square {k}")
        stream.copy_out(buffer, result, label=f"out {k}")
    ### END SOLUTION


gpu = PaperGPU()
pipeline(gpu, np.zeros((6, 3)), np.zeros((6, 3)))
print(try_orders(pipeline))
draw(gpu, "Your pipeline")

# %% id="pipeline-check"
check("pipeline", pipeline)

# %% [markdown] id="pipeline-why"
# With three streams and three buffers you need no event, because the order within each stream keeps the copies and
# launches of a buffer apart. The Numba cell at the top has the same structure, except that Numba allocates a new buffer
# for each chunk. In a real program, allocate three buffers before the loop, because on a GPU an allocation may wait for
# everything else. On a real GPU copies and kernels take different times. If the copies take longer than the kernels,
# they determine the total time, and you have to copy less.
#
# There are two more rules about order. First, if you name no stream, you use the **default stream**. It waits for all
# other streams and makes them wait, except for `non_blocking` ones. JAX orders everything by data dependencies, so you
# can't forget a stream there.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Copies and kernels overlap only in different streams, and only copies from and to pinned memory run in the
#   background.
# - Work within a stream runs in order. Between streams, only an event or a wait sets an order.
# - A buffer must not be read before it is filled, and must not be filled again before it has been read.
# - The simplest pipeline has one stream and one buffer for each chunk that is in flight, and needs no event.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - NVIDIA's programming guide on [asynchronous
#   execution](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/asynchronous-execution.html), with streams,
#   events, and the default stream's rules.
# - [Numba-CUDA: streams and events](https://nvidia.github.io/numba-cuda/reference/host.html),
#   [CuPy: streams](https://docs.cupy.dev/en/stable/user_guide/basic.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 30 minutes
#
# | minutes | what |
# |---|---|
# | 0-10 | the question and section 1, with `wait`; three people play the three engines |
# | 10-12 | section 2 |
# | 12-22 | section 3; `both-waits` |
# | 22-30 | section 4; `pipeline` in threes, one for each engine |
#
# *Ten minutes late:* skip section 2.
#
# *Where people get stuck.* In `both-waits`, the second event is recorded after the launch and not after the copy out.
# In `pipeline`, they use one buffer for each chunk, which overlaps well but needs more memory than there is.
#
# *Frequent questions.* "Can I see that it is faster?" Not here, because the virtual GPU measures no times. On a GPU,
# look at the timeline of `nsys`. The lesson "Kernel detective" shows the command.

# %% [markdown] id="the-question-asked"
# ## Where were the hits?
#
# A particle crosses a silicon detector between two strips, and the strips share its charge according to its distance
# from each of them. The signal below comes from eight hits, and is simulated so that we know where they were. To find
# the hits, we start from a guess, and move the positions until the signal fits. Run the cell.

# %% id="the-question"
# %load_ext gpucourse
import gpucourse
import jax.numpy as jnp
import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, canvas
from numba import cuda

check, hint, predict = lesson("25_pytorch_as_a_neighbour")

STRIPS = 24
random = np.random.default_rng(24)
true = np.array([2.3, 4.7, 7.4, 9.6, 12.5, 15.3, 18.7, 21.4])  # positions, in strips
guess = true + random.uniform(-0.28, 0.28, true.size)
charge = random.uniform(0.5, 1.5, true.size)


@cuda.jit
def deposit_kernel(x, charge, strips):
    i = cuda.grid(1)
    if i < x.size:
        left = int(x[i] // 1)
        share = x[i] - left  # how far from the left strip
        if 0 <= left < strips.size:
            cuda.atomic.add(strips, left, charge[i] * (1 - share))
        if 0 <= left + 1 < strips.size:
            cuda.atomic.add(strips, left + 1, charge[i] * share)


def deposit_arrays(x, charge, n):
    """The signal in n strips: NumPy arrays in and out."""
    d_strips = cuda.to_device(np.zeros(n, x.dtype))
    deposit_kernel[x.size // 128 + 1, 128](cuda.to_device(x), cuda.to_device(charge), d_strips)
    return d_strips.copy_to_host()

# %% id="signal"
measured = deposit_arrays(true, charge, STRIPS)
figure, axes = canvas(8, 2.4)
axes.bar(range(STRIPS), measured, color=COLOURS[0], label="measured")
axes.step(range(STRIPS), deposit_arrays(guess, charge, STRIPS), where="mid", color=COLOURS[5], label="of the guess")
axes.set(xlabel="strip", ylabel="charge")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
Picture(figure, f"The charge in {STRIPS} strips: eight pairs of bars as measured, and a line for the guess, which is near but fits none of them.")

# %% [markdown] id="the-question-stands"
# PyTorch could move the positions, because it has optimisers that follow a gradient. But it cannot see into your
# kernel. **What does a kernel need to become part of PyTorch?**
#
# PyTorch isn't in the course's environment, because it is larger than everything else in it. `pip install torch`
# installs it, and [its own page](https://pytorch.org/get-started/locally/) tells you how to get the smaller version for
# CPUs. Cells that need it begin with `%%needs torch` and tell you if it is missing. You can do all exercises without
# it.

# %% [markdown] id="collect-task"
# ## 1. The backward pass is a kernel
#
# The misfit depends on the strips, and `g[k]` is the derivative of the misfit with respect to strip k, and all of these
# together are the **gradient** of the misfit. We need the derivatives with respect to the hits. Each hit changes two
# strips: it adds `charge * (1 - share)` to the left one and `charge * share` to the right one. When `x` grows a little,
# that fraction of the charge moves from left to right.
#
# ### Exercise: collect
#
# Write `collect_kernel`, which computes two derivatives for each hit. `by_charge[i]` is g_left·(1 - share) +
# g_right·share, and `by_x[i]` is charge·(g_right - g_left). If a strip doesn't exist, its `g` is 0.

# %% id="collect-exercise" tags=["exercise"]
@cuda.jit
def collect_kernel(x, charge, g, by_x, by_charge):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < x.size:
        left = int(x[i] // 1)
        share = x[i] - left
        g_left = g[left] if 0 <= left < g.size else 0.0
        g_right = g[left + 1] if 0 <= left + 1 < g.size else 0.0
        by_x[i] = charge[i] * (g_right - g_left)
        by_charge[i] = g_left * (1 - share) + g_right * share
    ### END SOLUTION


# %% id="collect-check"
check("collect", collect_kernel)

# %% id="by-hand"
def collect_arrays(x, charge, g):
    """The derivatives with respect to x and charge: NumPy arrays in and out."""
    d_slopes = [cuda.to_device(np.zeros_like(x)) for _ in range(2)]
    there = [cuda.to_device(np.ascontiguousarray(one)) for one in (x, charge, g)]
    collect_kernel[x.size // 128 + 1, 128](*there, *d_slopes)
    return tuple(slope.copy_to_host() for slope in d_slopes)


deposit, collect = deposit_arrays, collect_arrays  # with PyTorch, section 3 makes operators of them
x, way = guess.copy(), [guess.copy()]
for _ in range(60):
    off = deposit_arrays(x, charge, STRIPS) - measured
    x -= 0.1 * collect_arrays(x, charge, 2 * off)[0]  # misfit: the sum of off²
    way.append(x.copy())

figure, axes = canvas(8, 2.4)
axes.plot(np.array(way) - true, color=COLOURS[0])
axes.axhline(0, color="0.5", linestyle=":")
axes.set(xlabel="step", ylabel="distance to the true\nposition [strips]")
print(f"furthest off: {abs(guess - true).max():.2f} strips at first, {abs(x - true).max():.3f} in the end")
Picture(figure, f"How far each of the eight hits is from its true place, against steps of a descent: up to {abs(guess - true).max():.2f} strips "
                f"at first, up to {abs(x - true).max():.3f} after 60 steps.")

# %% [markdown] id="by-hand-why"
# Two kernels and a line of Python find the hits. If your hits stay where they are, look at `collect` again. If a guess
# is between the *wrong* strips, it may get stuck at a strip, because its gradient comes from only two strips. In the
# forward pass, several threads may add to the same strip, so they use atomics, which makes it a *scatter*. In the
# backward pass each thread reads its two strips and writes only its own results, so it needs no atomic, which makes it
# a *gather*. In general, the backward pass of a scatter is a gather, and that of a gather is a scatter.

# %% id="counts"
gpucourse.report(collect_kernel, 1, 32, true, charge, measured, np.zeros(8), np.zeros(8))

# %% [markdown] id="borrowed-predict" tags=["predict"]
# ## 2. Whose memory is it?
#
# Array libraries share memory through [DLPack](05_cupy.ipynb#7-one-array-many-libraries), where `from_dlpack(x)` calls
# `x.__dlpack__()` to get the address, the device, the shape, the strides and the type. NumPy can use a JAX array in
# this way, but JAX arrays must not change. *Predict:* what does `taken[0] = 7` do?

# %% id="borrowed-guess"
predict("borrowed", "JAX's array changes: it's one memory", "a copy changes, and JAX's array stays", "an error: NumPy was told that it's read-only")

# %% id="borrowed" raises="ValueError"
of_jax = jnp.arange(4.0)
taken = np.from_dlpack(of_jax)
print("one memory:", taken.ctypes.data == of_jax.unsafe_buffer_pointer())
taken[0] = 7

# %% [markdown] id="borrowed-why" tags=["why"]
# It raises an error, because the memory belongs to JAX, which declares it read-only through DLPack, and NumPy respects
# that. The view keeps the JAX array alive for as long as the view exists.

# %% [markdown] id="jax-changed-text"
# PyTorch can use the JAX array as well, but it has no read-only tensors.

# %% id="jax-changed"
# %%needs torch
import torch

torch.from_dlpack(of_jax)[0] = 7
print("JAX's array, which can't change, is now", of_jax)

# %% [markdown] id="reach-text"
# The JAX array has changed, so everything that JAX has compiled or saved with the old value is now wrong. To be safe,
# make a copy, with `torch.from_dlpack(x).clone()`. Between a tensor and a NumPy array, the rules are the same as within
# NumPy. A view uses the same memory with other strides, and a change of type or of order makes new memory. The next
# picture shows which addresses each array uses.

# %% id="reach"
table = np.arange(12.0).reshape(3, 4)


def reach(views):
    """Which of the twelve numbers of `table` each array or CPU tensor reaches."""
    reached = np.zeros((len(views), table.size))
    for row, view in enumerate(map(np.asarray, views.values())):
        for index in np.ndindex(view.shape):
            address = view.ctypes.data + np.dot(index, view.strides)
            place = (address - table.ctypes.data) / table.itemsize
            if 0 <= place < table.size:
                reached[row, int(place)] = 1
    figure, axes = canvas(8, 0.28 * len(views) + 0.7)
    axes.imshow(reached, aspect="auto", cmap="Blues", vmin=0, vmax=1.5)
    axes.set(yticks=range(len(views)), yticklabels=views, xticks=range(table.size), xlabel="number of `table`, in memory")
    words = [f"{name} {int(count)}" for name, count in zip(views, reached.sum(axis=1), strict=True)]
    return Picture(figure, f"Of the twelve numbers in one memory, so many are reached by: {', '.join(words)}.")


reach({"table[:, 1]": table[:, 1], "table.T": table.T, "np.from_dlpack(table)": np.from_dlpack(table), "table.ravel()": table.ravel(),
       "table.T.ravel()": table.T.ravel(), "table.astype(np.float32)": table.astype(np.float32)})

# %% id="reach-torch"
# %%needs torch
t = torch.from_numpy(table)
reach({"torch.from_numpy(table)": t, "torch.as_tensor(table)": torch.as_tensor(table), "torch.tensor(table)": torch.tensor(table), "t.T": t.T,
       "t.T.contiguous()": t.T.contiguous(), "t.T.reshape(12)": t.T.reshape(12), "t.to(torch.float64)": t.to(torch.float64), "t.float()": t.float()})

# %% [markdown] id="hidden-copies"
# | | no copy | a copy that you don't see in the code |
# |---|---|---|
# | NumPy → PyTorch | `torch.from_numpy(a)`, `torch.as_tensor(a)`, `torch.from_dlpack(a)` | `torch.tensor(a)`; `as_tensor` with a different `dtype` or device |
# | PyTorch → NumPy | `t.numpy()` of a CPU tensor | none: for a tensor on the GPU you write `t.cpu().numpy()` |
# | within PyTorch | `t.T`, `t[:, 1]`, `t.detach()`, and `.to()` and `.contiguous()` if nothing changes | `.reshape()` and `.contiguous()` of a transposed tensor, `.to()` with another type |
# | on a GPU | Numba's kernels, CuPy and PyTorch read each other's `__cuda_array_interface__` | a NumPy array passed to a Numba kernel: there *and back*, for each launch |
#
# A tensor on the CPU has no `__cuda_array_interface__`. Here the GPU is virtual and PyTorch has no device, so tensors stay on the CPU, and our functions copy them to the kernel and back.

# %% [markdown] id="plain-predict" tags=["predict"]
# ## 3. From a function to an operator
#
# Now PyTorch will move the hits. *Predict:* what do we get if we call our function with a tensor's memory and ask for
# the gradient?

# %% id="plain-guess"
predict("plain", "the right gradient: PyTorch follows the memory", "a gradient of 0: to PyTorch it's a constant", "an error: the result has no history")

# %% id="plain"
# %%needs torch
def plain(x, charge, n):
    return torch.from_numpy(deposit_arrays(x.detach().numpy(), charge.detach().numpy(), n))


position = torch.tensor(guess, requires_grad=True)
charges, goal = torch.from_numpy(charge), torch.from_numpy(measured)
try:
    ((plain(position, charges, STRIPS) - goal) ** 2).sum().backward()
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown] id="plain-why" tags=["why"]
# It is an error, `element 0 of tensors does not require grad and does not have a grad_fn`. PyTorch records what you do
# *with tensors*, but it can't record what a kernel writes into their memory. Also, `.numpy()` requires `.detach()`,
# which explicitly removes the tensor from the record.

# %% [markdown] id="operator-text"
# `torch.library.custom_op` turns a function into an **operator**. An operator has a name with a namespace, and PyTorch
# reads the types of its arguments and results from the annotations. It makes two promises: its results are new memory,
# not views of the arguments, and it changes none of its arguments except for those in `mutates_args`. `register_fake`
# adds a function for the shape and type that the result *would* have, for tensors that contain no numbers yet.

# %% id="operators"
# %%needs torch
@torch.library.custom_op("hits::deposit", mutates_args=(), device_types="cpu")
def deposit(x: torch.Tensor, charge: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(deposit_arrays(x.numpy(), charge.numpy(), n))


@deposit.register_fake
def _(x, charge, n):
    return x.new_empty(n)


@torch.library.custom_op("hits::collect", mutates_args=(), device_types="cpu")
def collect(x: torch.Tensor, charge: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    by_x, by_charge = collect_arrays(x.numpy(), charge.numpy(), g.numpy())
    return torch.from_numpy(by_x), torch.from_numpy(by_charge)


@collect.register_fake
def _(x, charge, g):
    return torch.empty_like(x), torch.empty_like(x)


print("deposit as before:", torch.equal(deposit(position, charges, STRIPS), plain(position, charges, STRIPS)))

# %% [markdown] id="rule-task"
# ### Exercise: a rule for the operator
#
# The derivative of an operator is defined by two functions. PyTorch calls `setup_context(ctx, inputs, output)` in the
# forward pass, where `ctx.save_for_backward(…)` stores arrays. `backward(ctx, g)` reads them from `ctx.saved_tensors`.
# It receives the derivative with respect to each strip, and returns the derivatives with respect to *each* input, with
# `None` for `n`, which is not an array. Complete both functions with `collect(x, charge, g)`, which computes both
# derivatives. Without PyTorch, the check calls your functions as PyTorch would, with NumPy arrays. With PyTorch, it
# also runs `opcheck` and `gradcheck`.

# %% id="rule-exercise" tags=["exercise"]
def setup_context(ctx, inputs, output):
    x, charge, _n = inputs
    ### BEGIN SOLUTION
    ctx.save_for_backward(x, charge)
    ### END SOLUTION


def backward(ctx, g):
    by_x = by_charge = None
    ### BEGIN SOLUTION
    x, charge = ctx.saved_tensors
    by_x, by_charge = collect(x, charge, g)
    ### END SOLUTION
    return by_x, by_charge, None


# %% id="rule-check"
check("rule", setup_context, backward)

# %% [markdown] id="opcheck-predict" tags=["predict"]
# `torch.library.opcheck` tests whether an operator does what its schema says, whether the fake function agrees with it,
# and whether it compiles. *Predict:* which test notices that the rule in the next cell has the wrong sign?

# %% id="opcheck-guess"
predict("opcheck", "opcheck", "register_autograd", "only gradcheck")

# %% id="opcheck"
# %%needs torch
deposit.register_autograd(lambda ctx, g: tuple(None if one is None else -one for one in backward(ctx, g)), setup_context=setup_context)
arguments = position, charges, STRIPS
print(torch.library.opcheck(deposit, arguments))
print("gradcheck:", torch.autograd.gradcheck(deposit, arguments, raise_exception=False))

deposit.register_autograd(backward, setup_context=setup_context)  # the right one again
print("gradcheck:", torch.autograd.gradcheck(deposit, arguments, raise_exception=False))

# %% [markdown] id="opcheck-why" tags=["why"]
# Only `gradcheck` notices it, because it compares the rule with differences of the operator's values, in `float64`.
# `opcheck` reports SUCCESS four times, because it doesn't test whether a rule is *right*.

# %% id="fit"
# %%needs torch
fitted = torch.tensor(guess, requires_grad=True)
size = torch.ones(true.size, dtype=torch.float64, requires_grad=True)  # the charges too are unknown now
optimiser, misfits = torch.optim.Adam([fitted, size], lr=0.03), []
for _ in range(300):
    optimiser.zero_grad()
    misfit = ((deposit(fitted, size, STRIPS) - goal) ** 2).sum()
    misfit.backward()
    optimiser.step()
    misfits.append(misfit.item())

figure, axes = canvas(8, 2.4)
axes.semilogy(misfits, color=COLOURS[0])
axes.set(xlabel="step", ylabel="misfit")
print(f"furthest off: position {abs(fitted.detach().numpy() - true).max():.3f}, charge {abs(size.detach().numpy() - charge).max():.3f}")
Picture(figure, f"The misfit against 300 steps of Adam, from {misfits[0]:.2g} to {misfits[-1]:.1g}.")

# %% [markdown] id="fit-why"
# So an optimiser from PyTorch and your two kernels can fit sixteen unknowns, although nothing in PyTorch knows what a
# strip is.
#
# On a GPU you would register a second kernel for tensors on the GPU, and nothing would be copied. We have not run this,
# because none of our machines with a GPU had PyTorch.
#
# ```python
# @deposit.register_kernel("cuda")
# def _(x, charge, n):
#     strips = x.new_zeros(n)
#     deposit_kernel[x.numel() // 128 + 1, 128](*map(cuda.as_cuda_array, (x, charge, strips)))
#     return strips
# ```

# %% [markdown] id="breaks-predict" tags=["predict"]
# ## 4. What `torch.compile` does with it
#
# `torch.compile` reads a function's bytecode and collects operations into **graphs**, which a *backend* makes fast. If
# it cannot read something, it ends the graph, lets Python run that part, and begins another graph, which is called a
# **graph break**. Below, our kernel is in the middle of a function, once as a plain function that PyTorch doesn't look
# into, and once as the operator. *Predict:* how many graphs does each version give?

# %% id="breaks-guess"
predict("breaks", "two, and one", "one, and one: it's the same kernel", "two each: a kernel is never read")

# %% id="breaks"
# %%needs torch
def signal_of(function):
    def misfit(x, charge):
        moved = x + 0.1 * torch.sin(x)  # some operations before, and some after
        return ((function(moved, charge, STRIPS) - goal) ** 2).sum()

    return misfit


graphs = []


def note(graph, inputs):
    """A backend: it notes the operations of a graph, and leaves them as they are."""
    graphs.append([getattr(node.target, "__name__", node.target) for node in graph.graph.nodes if node.op.startswith("call")])
    return graph.forward


for name, function in {"plain": torch.compiler.disable(plain), "operator": deposit}.items():
    torch.compiler.reset()
    graphs.clear()
    torch.compile(signal_of(function), backend=note)(position.detach(), charges)
    print(f"{name:9}{len(graphs)} graphs:", *graphs)

torch.compiler.reset()
try:
    torch.compile(signal_of(torch.compiler.disable(plain)), backend=note, fullgraph=True)(position.detach(), charges)
except RuntimeError as error:  # torch._dynamo.exc.Unsupported
    print("with fullgraph=True:", type(error).__name__, str(error).splitlines()[0])

# %% [markdown] id="breaks-why" tags=["why"]
# The plain function gives two graphs and the operator gives one, in which the operator is a single node. PyTorch cannot
# look inside it, but it knows the result's shape from the fake function. With `fullgraph=True` a break is an error,
# which helps you while you look for its cause.

# %% [markdown] id="fused-text"
# Graphs matter because, without fusion, each operation reads its arguments from memory and writes its result there.
# PyTorch's own backend, *inductor*, fuses neighbouring operations in a graph into one kernel. It cannot fuse across a
# break, or into an operator. The next cell counts the kernels that inductor makes. On a CPU it needs a C++ compiler,
# and the first run takes a minute.

# %% id="fused"
# %%needs torch
import shutil

from torch._inductor import metrics  # inductor's own names: they may change

if shutil.which("g++") or shutil.which("clang++"):
    torch.compiler.reset()
    metrics.reset()
    compiled = torch.compile(signal_of(deposit), fullgraph=True)(position.detach(), charges)
    print("besides ours:", len(graphs[-1]) - 1, "operations,", metrics.generated_kernel_count, "kernels of inductor's")
    print("as without:", torch.allclose(compiled, signal_of(deposit)(position, charges)))
else:
    print("There is no C++ compiler here (g++ or clang++), so inductor can't run")

# %% [markdown] id="fused-why"
# Apart from our operator, there are six operations and two kernels. The three operations before the operator become one
# kernel, and the three after it become the other. So an operator has a *cost*: one pass through memory before it and
# another after it.
#
# PyTorch compiles the backward pass as well, with tensors that contain no numbers. If `backward` calls `collect_arrays`
# instead of `collect`, it works and passes `gradcheck`, but fails under `torch.compile`, and `opcheck` finds that. For
# this reason the kernel of the backward pass is also an operator.

# %% [markdown] id="when-text"
# ## 5. When should you write your own kernel?
#
# | what you need | use | because |
# |---|---|---|
# | a formula for each element, in PyTorch | `torch.compile` | it fuses and differentiates, and the code looks like the formula |
# | sums, scans, sorts, selections with your own operator | [`cuda.compute`](https://nvidia.github.io/cccl/python/compute) | tuned device-wide algorithms, from Python functions; takes CuPy arrays and PyTorch tensors |
# | a reduction or a scan *inside* your kernel | [`cuda.coop`](https://nvidia.github.io/cccl/python/coop) | CUB's algorithms for a block and a warp; experimental, and moving to Numba's successor |
# | products, convolutions, attention | PyTorch | it calls cuBLAS and cuDNN |
# | tiles, fused with the operations around them | [Triton](https://triton-lang.org), by [`torch.library.triton_op`](https://docs.pytorch.org/docs/stable/library.html) | `torch.compile` sees into it, unlike `custom_op` |
# | elements that take different paths; scatters; trees; random walks | your kernel, as an operator | no library has it, and array operations would need many passes |
#
# So write a kernel only if nothing else works. It pays only if it saves passes through memory that nothing else would
# save, and you should count those first. In PyTorch you could also write our scatter with two `index_add_` calls and
# some operations, which is fine for eight hits.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The backward pass of a kernel is a kernel. A scatter becomes a gather, and a gather a scatter.
# - DLPack and `__cuda_array_interface__` share memory and don't copy it. NumPy respects read-only memory, but PyTorch
#   does not. A change of type or order makes a copy.
# - `custom_op` turns a function into an operator, `register_fake` defines the shape of its result, and
#   `register_autograd` defines its backward pass.
# - Run both `opcheck`, which tests whether an operator keeps its promises, and `gradcheck`, which tests whether the
#   gradient is right.
# - A plain function breaks a graph. An operator doesn't, but no other operation is fused with it.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - PyTorch: [custom Python
#   operators](https://docs.pytorch.org/tutorials/advanced/python_custom_ops_registrations.html),
#   [`torch.library`](https://docs.pytorch.org/docs/stable/library.html), and [custom operators under
#   `torch.compile`](https://docs.pytorch.org/docs/stable/compile/programming_model.custom_ops.html).
# - The CCCL libraries in Python, [`cuda.compute` and `cuda.coop`](https://nvidia.github.io/cccl/python).
# - [DLPack](https://dmlc.github.io/dlpack/latest/), and the [CUDA array interface](https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 35 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question |
# | 3-11 | section 1; `collect` |
# | 11-18 | section 2; collect guesses before the JAX array changes |
# | 18-29 | section 3; `rule` in pairs |
# | 29-33 | section 4 |
# | 33-35 | the table of section 5; does it make anybody's kernel unnecessary? |
#
# *Ten minutes late:* leave out the pictures of section 2, and `fused`. *Ten minutes early:* make `charge` a parameter
# that all hits share. Ask what its derivative is then, and where to compute the sum.
#
# *Before the lesson.* Install PyTorch where you want to show it, or run section 3 on a machine that has it. Without
# PyTorch, the cells that need it print one sentence.
#
# *Where people get stuck.* In `collect` they read `g[left]` with `left` equal to -1, which is the last strip in Python
# and Numba. In `rule` they forget the third `None`, or assume that `g` is 1.
#
# *Frequent questions.* "Why not `torch.autograd.Function`?" It works without `torch.compile`, but PyTorch's own
# documentation prefers `register_autograd`, because some compositions of `Function` with `torch.compile` have been
# silently wrong. "Do I also get second derivatives?" No, because `collect` would need its own rule. "Can I pass a CPU
# tensor to a Numba kernel?" Yes. Pass the array that its method `.numpy()` returns, and the data are copied to the
# device and back.

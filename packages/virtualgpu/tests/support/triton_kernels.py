"""Kernels in Triton: what its tutorials teach (adding, softmax, products, layer norm), and more."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def add_unmasked(x, y, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def softmax(x, out, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program takes rows a grid apart."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        here = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        powers = tl.exp(here - tl.max(here, axis=0))
        tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.autotune(
    [
        triton.Config({"M": 64, "N": 64, "K": 32, "GROUP": 2}, num_warps=4, num_stages=3),
        triton.Config({"M": 32, "N": 64, "K": 32, "GROUP": 4}, num_warps=2, num_stages=2),
    ],
    key=["rows", "columns", "inner"],
)
@triton.jit
def product(
    a,
    b,
    c,
    rows,
    columns,
    inner,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """C = A B in float16, sums in float32; tiles in an order that meets tiles of B again soon."""
    program = tl.program_id(0)
    down, across = tl.cdiv(rows, M), tl.cdiv(columns, N)
    first = program // (GROUP * across) * GROUP
    size = min(down - first, GROUP)
    i = (first + program % (GROUP * across) % size) * M + tl.arange(0, M)
    j = program % (GROUP * across) // size * N + tl.arange(0, N)
    k = tl.arange(0, K)
    from_a = a + (i % rows)[:, None] * inner + k[None, :]
    from_b = b + k[:, None] * columns + (j % columns)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for done in range(0, inner, K):
        left = tl.load(from_a, mask=k[None, :] < inner - done, other=0.0)
        right = tl.load(from_b, mask=k[:, None] < inner - done, other=0.0)
        total = tl.dot(left, right, total)
        from_a += K
        from_b += K * columns
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(c + i[:, None] * columns + j[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def product_of(a, b, c, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    """One tile, of whatever type the matrices have."""
    at = tl.arange(0, SIZE)
    here = at[:, None] * SIZE + at[None, :]
    total = tl.dot(
        tl.load(a + here),
        tl.load(b + here),
        input_precision=PRECISION,
        out_dtype=c.dtype.element_ty,
    )
    tl.store(c + here, total)


@triton.jit
def layer_norm(x, out, weight, bias, means, scales, columns, epsilon, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    here = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(here, axis=0) / columns
    apart = tl.where(inside, here - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / columns + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    w, b = tl.load(weight + at, mask=inside), tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, apart * scale * w + b, mask=inside)


@triton.jit
def layer_norm_backward(
    slope,
    x,
    weight,
    means,
    scales,
    to_x,
    to_weight,
    to_bias,
    locks,
    counts,
    columns,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rows of one group add into one partial sum of the weights' gradients, under its lock."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    here = tl.load(x + row * columns + at, mask=inside, other=0.0)
    dy = tl.load(slope + row * columns + at, mask=inside, other=0.0)
    w = tl.load(weight + at, mask=inside, other=0.0)
    scale = tl.load(scales + row)
    normal = tl.where(inside, (here - tl.load(means + row)) * scale, 0.0)
    wdy = w * dy
    along = tl.sum(normal * wdy, axis=0) / columns
    mean = tl.sum(wdy, axis=0) / columns
    tl.store(to_x + row * columns + at, (wdy - normal * along - mean) * scale, mask=inside)
    group = row % GROUPS
    sum_w, sum_b = dy * normal, dy
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    if tl.load(counts + group) == 0:
        tl.atomic_xchg(counts + group, 1)
    else:
        sum_w += tl.load(to_weight + group * columns + at, mask=inside)
        sum_b += tl.load(to_bias + group * columns + at, mask=inside)
    tl.store(to_weight + group * columns + at, sum_w, mask=inside)
    tl.store(to_bias + group * columns + at, sum_b, mask=inside)
    tl.debug_barrier()  # all threads have stored before the lock opens
    tl.atomic_xchg(locks + group, 0)


@triton.jit
def attention(q, k, v, out, length, scale, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    """Softmax(Q K^T) V without the matrix of scores in memory."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, DEPTH)
    query = tl.load(q + rows[:, None] * DEPTH + d[None, :])
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    below = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK, DEPTH), tl.float32)
    for start in range(0, length, BLOCK):
        others = start + tl.arange(0, BLOCK)
        scores = tl.dot(query, tl.load(k + others[None, :] * DEPTH + d[:, None])) * scale
        higher = tl.maximum(top, tl.max(scores, axis=1))
        powers = tl.exp(scores - higher[:, None])
        again = tl.exp(top - higher)
        below = below * again + tl.sum(powers, axis=1)
        values = tl.load(v + others[:, None] * DEPTH + d[None, :])
        total = tl.dot(powers.to(tl.float16), values, total * again[:, None])
        top = higher
    tl.store(out + rows[:, None] * DEPTH + d[None, :], total / below[:, None])


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def last_wins(x, out, BLOCK: tl.constexpr):
    """Wrong: every program stores to the same elements."""
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + tl.program_id(0) * BLOCK + at))


@triton.jit
def running_sum(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def in_order(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def turned(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    here = tl.load(x + i[:, None] * columns + j[None, :], mask=inside)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(here), mask=tl.trans(inside))


@triton.jit
def random_numbers(out, seed, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at), mask=at < n)


@triton.jit
def telling(x, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.device_print("value", value)


@triton.jit
def asserting(x, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(value > 0, "values are positive")


@triton.jit
def tile_sum(described, out, M: tl.constexpr, N: tl.constexpr):
    """Tiles by a descriptor, which knows shape and strides: no mask."""
    i, j = tl.program_id(0), tl.program_id(1)
    tile = described.load([i * M, j * N])
    tl.atomic_add(out, tl.sum(tile))

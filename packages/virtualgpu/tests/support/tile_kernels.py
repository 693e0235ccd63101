"""Kernels over tiles as one writes them with cuTile first."""

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO


@ct.kernel
def add(a, b, c, tile: ct.Constant[int]):
    at = ct.bid(0)
    x = ct.load(a, (at,), (tile,))
    y = ct.load(b, (at,), (tile,))
    ct.store(c, (at,), x + y)


@ct.kernel
def matmul(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    sums = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (row, column), sums.astype(c.dtype))


@ct.kernel
def batched_matmul(a, b, c, t: ct.Constant[int]):
    batch, row, column = ct.bid(0), ct.bid(1), ct.bid(2)
    sums = ct.zeros((1, t, t), ct.float32)
    for k in range(ct.num_tiles(a, axis=2, shape=(1, t, t))):
        left = ct.load(a, (batch, row, k), (1, t, t), padding_mode=ZERO)
        right = ct.load(b, (batch, k, column), (1, t, t), padding_mode=ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (batch, row, column), sums.astype(c.dtype))


@ct.kernel
def transpose(x, y, tm: ct.Constant[int], tn: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (row, column), (tm, tn))
    ct.store(y, (column, row), ct.transpose(tile))


@ct.kernel
def softmax(x, y, columns: ct.Constant[int]):
    row = ct.load(x, (ct.bid(0), 0), (1, columns), padding_mode=ct.PaddingMode.NEG_INF)
    powers = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(y, (ct.bid(0), 0), powers / ct.sum(powers, axis=1, keepdims=True))


@ct.kernel
def layer_norm(x, weight, bias, y, epsilon: float, tile: ct.Constant[int]):
    row, count = ct.bid(0), x.shape[1]
    tiles = ct.num_tiles(x, axis=1, shape=(1, tile))
    total = ct.zeros((1, tile), ct.float32)
    for j in range(tiles):
        total += ct.load(x, (row, j), (1, tile), padding_mode=ZERO)
    mean = ct.sum(total, axis=1) / count
    squares = ct.zeros((1, tile), ct.float32)
    for j in range(tiles):
        part = ct.load(x, (row, j), (1, tile), padding_mode=ZERO)
        inside = j * tile + ct.arange(tile, dtype=ct.int32) < count
        away = ct.where(inside, part - mean, 0.0)
        squares += away * away
    scale = 1 / ct.sqrt(ct.sum(squares, axis=1) / count + epsilon)
    for j in range(tiles):
        part = ct.load(x, (row, j), (1, tile), padding_mode=ZERO)
        w = ct.load(weight, (j,), (tile,), padding_mode=ZERO)
        b = ct.load(bias, (j,), (tile,), padding_mode=ZERO)
        ct.store(y, (row, j), (part - mean) * scale * w + b)


@ct.kernel
def attention(q, k, v, out, scale: float, t: ct.Constant[int], d: ct.Constant[int]):
    head, block = ct.bid(1), ct.bid(0)
    query = ct.load(q, (head, block, 0), (1, t, d)).reshape((t, d))
    most = ct.full((t, 1), -1e30, ct.float32)
    total = ct.zeros((t, 1), ct.float32)
    sums = ct.zeros((t, d), ct.float32)
    for j in range(ct.num_tiles(k, axis=1, shape=(1, t, d))):
        key = ct.load(k, (head, j, 0), (1, t, d)).reshape((t, d))
        value = ct.load(v, (head, j, 0), (1, t, d)).reshape((t, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((t, t), ct.float32)) * scale
        now = max(most, ct.max(scores, axis=1, keepdims=True))
        powers = ct.exp(scores - now)
        shrink = ct.exp(most - now)
        total = total * shrink + ct.sum(powers, axis=1, keepdims=True)
        sums = ct.mma(powers.astype(v.dtype), value, sums * shrink)
        most = now
    ct.store(out, (head, block, 0), (sums / total).astype(out.dtype).reshape((1, t, d)))


@ct.kernel
def histogram(x, bins, tile: ct.Constant[int]):
    values = ct.load(x, (ct.bid(0),), (tile,))
    ct.atomic_add(bins, values, 1)


@ct.kernel
def gathered(x, indices, y, tile: ct.Constant[int]):
    at = ct.load(indices, (ct.bid(0),), (tile,))
    ct.store(y, (ct.bid(0),), ct.gather(x, at, padding_value=-1))


@ct.kernel
def scattered(x, indices, y, tile: ct.Constant[int]):
    at = ct.load(indices, (ct.bid(0),), (tile,))
    ct.scatter(y, at, ct.load(x, (ct.bid(0),), (tile,)))


@ct.kernel
def running_sums(x, y, most, tile: ct.Constant[int]):
    values = ct.load(x, (ct.bid(0), 0), (1, tile))
    ct.store(y, (ct.bid(0), 0), ct.cumsum(values, axis=1))
    ct.store(most, (ct.bid(0),), ct.argmax(values, axis=1))


@ct.kernel
def collatz(x, steps):
    n = ct.load(x, (ct.bid(0),), (1,)).item()
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    ct.store(steps, (ct.bid(0),), ct.full((1,), count, ct.int32))


@ct.kernel
def doubled(arrays, tile: ct.Constant[int]):
    at = ct.bid(0)
    ct.store(arrays[1], (at,), ct.load(arrays[0], (at,), (tile,)) * 2)


@ct.kernel
def fft(x, y, roots, twiddles, n1: ct.Constant[int], n2: ct.Constant[int]):
    """Of each row, n1 * n2 numbers, by n1 transforms of n2 and n2 of n1; the last axis holds real
    and imaginary part. ``roots`` are the matrices of both, ``twiddles`` what lies between."""

    def product(a, b):
        zero = ct.zeros((a[0].shape[0], b[0].shape[1]), ct.float32)
        return (
            ct.mma(a[0], b[0], zero) - ct.mma(a[1], b[1], zero),
            ct.mma(a[0], b[1], zero) + ct.mma(a[1], b[0], zero),
        )

    def part(array, at, shape, index):
        return ct.load(array, (at, 0, 0, index), (1, *shape, 1)).reshape(shape)

    row = ct.bid(0)
    values = (part(x, row, (n1, n2), 0), part(x, row, (n1, n2), 1))
    first = (part(roots, 0, (n1, n1), 0), part(roots, 0, (n1, n1), 1))
    second = (part(roots, 1, (n2, n2), 0), part(roots, 1, (n2, n2), 1))
    w = (part(twiddles, 0, (n1, n2), 0), part(twiddles, 0, (n1, n2), 1))
    a = product(first, values)
    b = (a[0] * w[0] - a[1] * w[1], a[0] * w[1] + a[1] * w[0])
    c = product(b, second)
    ct.store(y, (row, 0, 0, 0), ct.transpose(c[0]).reshape((1, n2, n1, 1)))
    ct.store(y, (row, 0, 0, 1), ct.transpose(c[1]).reshape((1, n2, n1, 1)))


@ct.kernel
def experts(x, weights, rows, shares, y, tokens: ct.Constant[int], width: ct.Constant[int]):
    """Block (expert, part): some of the tokens that were sent to an expert. ``rows`` names them,
    -1 where there is none; ``shares`` is what the expert's answer counts for each of them."""
    expert, part = ct.bid(0), ct.bid(1)
    row = ct.load(rows, (expert, part), (1, tokens)).reshape((tokens, 1))
    share = ct.load(shares, (expert, part), (1, tokens)).reshape((tokens, 1))
    column = ct.arange(width, dtype=ct.int32)[None, :]
    values = ct.gather(x, (row, column), padding_value=0)
    weight = ct.load(weights, (expert, 0, 0), (1, width, width)).reshape((width, width))
    answer = ct.mma(values, weight, ct.zeros((tokens, width), ct.float32))
    ct.atomic_add(y, (row, column), ct.maximum(answer, 0) * share)


@ct.kernel
def sums_modulo(x, y, running, modulo: int, tile: ct.Constant[int]):
    """Sums that are kept below a number which the combining function finds around itself."""
    values = ct.load(x, (ct.bid(0), 0), (1, tile))
    ct.store(y, (ct.bid(0),), ct.reduce(values, 1, lambda a, b: (a + b) % modulo, 0))
    ct.store(running, (ct.bid(0), 0), ct.scan(values, 1, lambda a, b: (a + b) % modulo, 0))


@ct.kernel
def takes_where_zero(x, y, tile: ct.Constant[int]):
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    ct.scatter(y, at, ct.atomic_cas(x, at, 0, -at))


def converting(to, mode):
    """A kernel that brings numbers into another format and back."""

    @ct.kernel
    def converted(x, y, tile: ct.Constant[int]):
        part = ct.load(x, (ct.bid(0),), (tile,))
        ct.store(y, (ct.bid(0),), part.astype(to, rounding_mode=mode).astype(y.dtype))

    return converted


@ct.kernel
def rows_to_rows(x, rows, y, z, first: int, tile: ct.Constant[int]):
    at = ct.load(rows, (0,), (tile,))
    part = ct.load_advanced_indexing(x, (at, ct.Slice(first, tile)), padding_mode=ZERO)
    ct.store(y, (0, 0), part)
    ct.store_advanced_indexing(z, (at, ct.Slice(first, tile)), part)

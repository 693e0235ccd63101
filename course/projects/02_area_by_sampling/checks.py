"""Hints of "Area by random sampling"; its test cells are in the notebook."""

from gpucourse.exercises.checks import hints

NEIGHBOUR_Z = hints(
    "neighbour-z",
    "The idea: take two slices of the array, of the same shape, so that the numbers to compare are at "
    "the same index in both. The slice u leaves out the last thread and the first `lag` draws.",
    "The shape: `u = streams[:-1, lag:] - 0.5` and `v = streams[1:, : …] - 0.5`; then 12 times the "
    "sum of the products, divided by the square root of their number.",
    "The slice v leaves out the last `lag` draws. `streams[1:, :-lag]` would be empty for lag 0, "
    "so write the end as `streams.shape[1] - lag`.",
)

DIAGNOSE = hints(
    "diagnose",
    "The idea: test in this order. Are neighbours the same at lag 0? At any lag from 1 to 32? If "
    "not: do the first numbers of all threads have a mean of 1/2? Numbers that are the *same* give "
    "z ≈ √n, the largest possible z; by chance, z is less than 6.",
    "The shape: compute `z = [neighbour_z(streams, lag) for lag in range(33)]`, and compare it with half "
    "of √n, where n = (threads − 1)(draws − lag).",
    "The mean of T numbers has the variance 1/(12 T), so "
    "`(streams[:, 0].mean() - 0.5) * math.sqrt(12 * T)` is a z-score.",
)

SEED_STATES = hints(
    "seed-states",
    "The idea: `cuda.grid(1)` is t, and the guard compares it with `states.size`. Use no int64 in the "
    "arithmetic: int64 and uint64 together become int64, whose `>>` copies the sign bit.",
    "The shape:\n"
    "`if t < states.size:`\n"
    '`    states[t]["s0"] = splitmix64(uint64(seed) + …)`\n'
    '`    states[t]["s1"] = splitmix64(…)`',
    "For 2 t + 1 in 64 unsigned bits, write `uint64(2) * uint64(t) + uint64(1)`.",
)

COUNT_HITS = hints(
    "count-hits",
    "The idea: each thread has one stream. Inside the guard `t < states.size`, loop over `points`; "
    "each iteration draws an x and then a y, calls `inside(x, y)`, and counts in a variable.",
    "The shape:\n"
    "`count = 0`\n"
    "`for _ in range(points):`\n"
    "`    x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)`\n"
    "`    …`\n"
    "`hits[t] = count`",
    "The state: a call of the generator with `(states, t)` stores the new state. If you copy the "
    "state to a variable to be faster, copy it back at the end.",
)

ADD_HITS = hints(
    "add-hits",
    "The idea: proceed as in `merge_rows` of project 1, but the sums are those of the block's threads over "
    "a grid-stride loop, and the last step is an atomic addition, because every block adds to the total.",
    "The shape:\n"
    "`partial = cuda.shared.array(MAX_THREADS, int64)`\n"
    "`own = int64(0)`\n"
    "`for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)): …`\n"
    "`partial[t] = own`\n"
    "`while active > 1: …  # barrier, round the half up, add the upper half onto the lower`",
    "The last step: `if t == 0: cuda.atomic.add(total, 0, partial[0])`.",
)

SAMPLE_DISC = hints(
    "sample-disc",
    "The idea: you need three arrays on the device: states (`cuda.device_array(threads, "
    "xoroshiro128p_dtype)`), hits (int32) and a total (int64) that begins at zero. Make three launches "
    "and copy one number back.",
    "The shape:\n"
    "`grid = math.ceil(threads / block)`\n"
    "`seed_states[grid, block](seed, states)`\n"
    "`count_hits[grid, block](states, points, -1.0, 1.0, -1.0, 1.0, hits)`\n"
    "`add_hits[…, block](hits, total)`\n"
    "`return int(total.copy_to_host()[0])`",
)

ESTIMATE = hints(
    "estimate",
    "The idea: the area is the box's area times p. If you multiply a number by a factor, its "
    "standard deviation is multiplied by the same factor.",
    "The shape: hits have the standard deviation √(n p (1 − p)). Divide by n and multiply by the "
    "box's area.",
)

PHILOX = hints(
    "philox",
    "The idea: write a loop of ten rounds. Compute both products in `uint64`; the upper half is "
    "`uint32(p >> uint64(32))`, the lower `uint32(p)`. All new words come from the old ones, so "
    "assign all four in one statement.",
    "The shape:\n"
    "`for _ in range(10):`\n"
    "`    p0 = uint64(0xD2511F53) * uint64(c0)`\n"
    "`    p1 = …`\n"
    "`    c0, c1, c2, c3 = uint32(p1 >> uint64(32)) ^ c1 ^ k0, …`\n"
    "`    k0 = uint32(k0 + uint32(0x9E3779B9))`",
    "The order: `(hi(p1) ^ c1 ^ k0, lo(p1), hi(p0) ^ c3 ^ k1, lo(p0))`. When the compiler complains "
    "that a variable changes its type, wrap every operand in `uint32(…)`.",
)

COUNT_POINTS = hints(
    "count-points",
    "The idea: write a grid-stride loop over the numbers of the points, not over 0 to n, because the loop "
    "variable itself goes into the counter.",
    "The shape: `for i in range(first + cuda.grid(1), first + n, cuda.gridsize(1)):` and in it "
    "`words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0), uint32(seed), …)`",
    "The coordinates: `x0 + (x1 - x0) * (words[0] * 2.0**-32)`. After the loop, call once "
    "`cuda.atomic.add(total, 0, count)`.",
)

JAX_HITS = hints(
    "jax-hits",
    "The idea: split keys at two levels. `jax_hits` makes a key for each stream; `hits_of_stream` "
    "splits its key into one for x and one for y. No key is used twice.",
    "The shape: `keys = jax.random.split(jax.random.key(seed), streams)`, then "
    "`jax.vmap(lambda key: hits_of_stream(key, points))(keys)`.",
    "One stream: `jax.random.uniform(key_x, (points,), minval=-1.0, maxval=1.0)`, the same for y, "
    "and `jnp.sum(…)` of a comparison.",
)

IN_MANDELBROT = hints(
    "in-mandelbrot",
    "The idea: you need four floats, two for the tortoise and two for the hare. A step needs the old x for "
    "the new y, so assign both in one statement.",
    "The shape:\n"
    "`for _ in range(limit):`\n"
    "`    tx, ty = tx * tx - ty * ty + cx, 2.0 * tx * ty + cy`\n"
    "`    hx, hy = …  # twice`\n"
    "`    if …: return 0`\n"
    "`    if …: return 1`\n"
    "`return 2`",
)

MANDELBROT_HITS = hints(
    "mandelbrot-hits",
    "The idea: write `count_points` again, with a different box and a different test.",
    "The shape: `cx = -2.0 + 2.5 * (words[0] * 2.0**-32)`, `cy = 1.25 * …`, and count where "
    "`in_mandelbrot(cx, cy, limit)` is not 0.",
)

MANDELBROT_FAST = hints(
    "mandelbrot-fast",
    "The idea, for 2 points: keep `mandelbrot_hits` and try the two formulas first. Iterate only the "
    "points that they do not decide.",
    "The idea, for 4 points: give each thread a flag `busy`, which says that it has a point that is not decided "
    "yet. The outer loop runs while it is busy or points are left. It contains two loops: one "
    "fetches points until one needs iterating, and one makes at most 32 iterations.",
    "The shape:\n"
    "`while busy or i < first + n:`\n"
    "`    while not busy and i < first + n:`\n"
    "`        …  # make point i, go on to the next i; known to be inside? count it: else busy = "
    "True`\n"
    "`    together = 0`\n"
    "`    while busy and together < 32:`\n"
    "`        …  # one iteration; decided? busy = False`",
    "The state of a point (cx, cy, both runners, its iterations) has to survive the inner loop, so it "
    "is set to 0.0 before the outer loop, and when a thread fetches a point, it sets the runners to 0.0 again.",
)

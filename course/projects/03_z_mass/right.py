"""Right answers in other styles than ours, for the grader to give everything.

Cells that are not named are those of the solution.
"""

BIN_INDEX = """@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value < low:
        return 0
    return min(int((value - low) / (high - low) * bins) + 1, bins) if value < high else bins + 1


"""


def fill_masses(counting: str, options: str = "") -> str:
    """A `fill_masses` that counts its own way."""
    return BIN_INDEX + f"""@cuda.jit({options})
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
{counting}    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
"""


def expected_counts(averaging: str) -> str:
    """An `expected_counts` that averages over the nodes its own way, into `mean`."""
    return f"""def expected_counts(parameters, edges):
    mass, width, zs, others = parameters

    def cumulative(true):
        return jnp.arctan((true**2 - mass**2) / (mass * width)) / jnp.pi

{averaging}    falling = edges[:-1] ** -2.0 - edges[1:] ** -2.0
    return zs * (mean[1:] - mean[:-1]) + others * falling / falling.sum()
"""


RIGHT = [
    {"name": "another", "cells": {
        "count-muons": """@cuda.jit(extensions=[ak.numba.cuda])
def count_muons(events, counts):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while i < len(events):
        n = 0
        for _ in events[i].muons:
            n += 1
        counts[i] = n
        i += cuda.gridDim.x * cuda.blockDim.x
""",
        "sum-pt": """@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        muons, total = events["muons"][i], np.float32(0)
        for j in range(len(muons)):
            total += muons[j]["pt"]
        sums[i] = total
""",
        "pair-mass": """@cuda.jit(device=True)
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    opening = math.sinh((eta1 - eta2) / 2) ** 2 + math.sin((phi1 - phi2) / 2) ** 2
    return 2 * math.sqrt(pt1 * pt2 * opening)


@cuda.jit
def find_masses(pt1, eta1, phi1, pt2, eta2, phi2, masses):
    i = cuda.grid(1)
    if i < masses.size:
        masses[i] = pair_mass(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])
""",
        "first-pair": """@cuda.jit(extensions=[ak.numba.cuda])
def first_pair(events, masses):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        muons, mass, found = events[i].muons, math.nan, False
        for j in range(len(muons)):
            for k in range(j + 1, len(muons)):
                if not found and muons[j].charge * muons[k].charge < 0:
                    mass = pair_mass(muons[j].pt, muons[j].eta, muons[j].phi,
                                     muons[k].pt, muons[k].eta, muons[k].phi)
                    found = True
        masses[i] = mass
""",
        "best-mass": """@cuda.jit(device=True)
def best_mass(muons):
    best = math.nan
    for j in range(len(muons)):
        for k in range(j):
            a, b = muons[j], muons[k]
            if a.charge == b.charge:
                continue
            m = pair_mass(a.pt, a.eta, a.phi, b.pt, b.eta, b.phi)
            if not math.isnan(m) and (
                    math.isnan(best) or abs(m - Z_MASS) < abs(best - Z_MASS)):
                best = m
    return best


@cuda.jit(extensions=[ak.numba.cuda])
def nearest_z(events, masses):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        masses[i] = best_mass(events[i].muons)
""",
        "fill-masses": """@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if value >= high:
        return bins + 1
    if value < low:
        return 0
    return int(math.floor((value - low) / ((high - low) / bins))) + 1


@cuda.jit
def fill_masses(masses, low, high, counts):
    h = cuda.shared.array(1024, np.int32)
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            h[k] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < masses.size:
        if masses[i] == masses[i]:
            cuda.atomic.add(h, bin_index(masses[i], low, high, counts.size - 2), 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            cuda.atomic.add(counts, k, h[k])
""",
        "break-even": """def break_even(on_the_fly, store, refill):
    if refill >= on_the_fly:
        return None
    n = store // (on_the_fly - refill)
    while n * on_the_fly <= store + n * refill:
        n += 1
    return n
""",
        "nearest-on-cpu": """def nearest_on_cpu(events):
    pairs = ak.combinations(ak.values_astype(events.muons, "float64"), 2, fields=["a", "b"])
    pairs = pairs[pairs.a.charge * pairs.b.charge < 0]
    a, b = pairs.a, pairs.b
    masses = np.sqrt(2 * a.pt * b.pt * (np.cosh(a.eta - b.eta) - np.cos(a.phi - b.phi)))
    far = ak.nan_to_num(abs(masses - Z_MASS), nan=1e9)
    order = ak.argsort(far, axis=1)
    best = ak.fill_none(ak.firsts(masses[order]), np.nan)
    return best
""",
        "expected-counts": """def expected_counts(parameters, edges):
    M, G, S, B = parameters

    def cumulative(g):
        return jnp.arctan2((edges * jnp.exp(SIGMA * g)) ** 2 - M * M, M * G) / jnp.pi

    mean = jnp.einsum("j,jk->k", WEIGHTS, jax.vmap(cumulative)(jnp.asarray(NODES)))
    b = 1 / edges[:-1] ** 2 - 1 / edges[1:] ** 2
    return S * (mean[1:] - mean[:-1]) + B * b / b.sum()
""",
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    return jnp.sum(mu - counts * jnp.log(mu) + jax.scipy.special.gammaln(counts + 1.0))
""",
        "uncertainties": """hessian = jax.jit(jax.hessian(nll))


def uncertainties(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    slopes = jax.jacobian(expected_counts)(jnp.asarray(parameters), edges)
    return np.sqrt(np.linalg.inv(slopes.T / mu @ slopes).diagonal())
""",
        "fit": """def fit(edges, counts):
    from scipy.optimize import minimize

    f, g = jax.jit(nll), jax.jit(jax.grad(nll))
    best = minimize(f, start(edges, counts), args=(edges, counts), jac=g, hess=hessian,
                    method="trust-exact", options={"gtol": 1e-6})
    return best.x, uncertainties(best.x, edges, counts)
""",
    }},
    # With the terms that do not depend on the parameters, and by ready-made functions.
    {"name": "with-factorials", "cells": {
        "expected-counts": """from jax.scipy.special import gammaln


@jax.jit
def expected_counts(parameters, edges):
    mass, width, zs, others = jnp.asarray(parameters)

    def shape(shift):
        m2 = (edges * jnp.exp(-SIGMA * shift)) ** 2
        return jnp.diff(jnp.arctan2(m2 - mass**2, mass * width)) / jnp.pi

    background = 1 / edges[:-1] ** 2 - 1 / edges[1:] ** 2
    return zs * jnp.einsum("j,jk->k", WEIGHTS, jax.vmap(shape)(jnp.array(NODES))) + (
        others * background / (edges[0] ** -2 - edges[-1] ** -2))
""",
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    return jnp.sum(mu - counts * jnp.log(mu) + gammaln(counts + 1.0))
""",
    }},
    {"name": "ready-made", "cells": {
        "expected-counts": """from jax.scipy import special, stats


def expected_counts(parameters, edges):
    mass, width, zs, others = parameters

    def add(total, node):
        shift, weight = node
        cdf = stats.cauchy.cdf((edges * jnp.exp(-SIGMA * shift)) ** 2, mass**2, mass * width)
        return total + weight * (cdf[1:] - cdf[:-1]), None

    peak, _ = jax.lax.scan(add, jnp.zeros(len(edges) - 1), (NODES, WEIGHTS))
    return jnp.diff(zs * jnp.concatenate([jnp.zeros(1), jnp.cumsum(peak)])
                    + others * (edges[0] ** -2.0 - edges**-2.0)
                    / (edges[0] ** -2.0 - edges[-1] ** -2.0))
""",
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    return -(special.xlogy(counts, mu) - mu - special.gammaln(1 + counts)).sum()
""",
    }},
    # -- one style each ------------------------------------------------------------------------
    {"name": "fori-loop", "cells": {
        "expected-counts": expected_counts("""    nodes, weights = jnp.array(NODES), jnp.array(WEIGHTS)

    def add(j, total):
        return total + weights[j] * cumulative(edges * jnp.exp(-SIGMA * nodes[j]))

    mean = jax.lax.fori_loop(0, len(NODES), add, jnp.zeros(len(edges)))
""")}},
    {"name": "map-over-the-nodes", "cells": {
        "expected-counts": expected_counts("""    each = jax.lax.map(lambda g: cumulative(edges * jnp.exp(-SIGMA * g)), jnp.array(NODES))
    mean = jnp.tensordot(WEIGHTS, each, axes=1)
""")}},
    {"name": "vmap-of-vmap", "cells": {
        "expected-counts": expected_counts("""    at = jax.vmap(lambda edge: jax.vmap(lambda g: cumulative(edge * jnp.exp(-SIGMA * g)))(
        jnp.array(NODES)))
    mean = jnp.average(at(jnp.asarray(edges)), axis=1, weights=jnp.array(WEIGHTS))
"""),
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    return jnp.sum(jax.vmap(lambda m, n: m - n * jnp.log(m))(mu, jnp.asarray(counts)))
"""}},
    {"name": "vectorize", "cells": {
        "expected-counts": expected_counts("""    smeared = jnp.vectorize(
        lambda edge: jnp.dot(WEIGHTS, cumulative(edge * jnp.exp(-SIGMA * jnp.asarray(NODES)))))
    mean = smeared(edges)
""")}},
    # With the logarithm of n!, as the books have it.
    {"name": "log-gamma", "cells": {
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    return mu.sum() - jnp.vdot(counts, jnp.log(mu)) + jax.lax.lgamma(counts + 1.0).sum()
"""}},
    {"name": "segment-sum", "cells": {
        "nll": """def nll(parameters, edges, counts):
    mu = expected_counts(parameters, edges)
    bins = jnp.arange(len(mu)) % 4
    return jax.ops.segment_sum(mu - jax.scipy.special.xlogy(counts, mu), bins, 4).sum()
"""}},
    # Newton's method as one program of JAX.
    {"name": "while-loop", "cells": {
        "fit": """@jax.jit
def newton(parameters, edges, counts):
    def step(state):
        where, _, iterations = state
        slope = jax.grad(nll)(where, edges, counts)
        step = -jnp.linalg.solve(jax.hessian(nll)(where, edges, counts), slope)
        here = nll(where, edges, counts)
        # XLA may round `here` and the nll of the loop differently: no halving would ever do then.
        step = jax.lax.while_loop(
            lambda s: ~(nll(where + s, edges, counts) <= here) & (abs(s) > 1e-9 * abs(where)).any(),
            lambda s: s / 2, step)
        return where + step, -step @ slope / 2, iterations + 1

    return jax.lax.while_loop(lambda state: (state[1] > 1e-8) & (state[2] < 50), step,
                              (parameters, jnp.inf, 0))[0]


def fit(edges, counts):
    best = newton(jnp.asarray(start(edges, counts)), edges, counts)
    display(best)
    return np.asarray(best), uncertainties(best, edges, counts)
""",
        "uncertainties": """hessian = jax.jit(jax.hessian(nll))


def uncertainties(parameters, edges, counts):
    root = np.linalg.cholesky(hessian(parameters, edges, counts))
    return np.linalg.norm(np.linalg.inv(root), axis=0)
"""}},
    {"name": "several-each", "cells": {
        "sum-pt": """@cuda.jit(extensions=[ak.numba.cuda])
def sum_pt(events, sums):
    i = cuda.grid(1)
    while i < len(events):
        for k in (i, i + cuda.gridsize(1)):
            if k < len(events):
                total = 0.0
                for muon in events[k].muons:
                    total += muon.pt
                sums[k] = total
        i += 2 * cuda.gridsize(1)
""",
        "fill-masses": fill_masses("""    step = cuda.gridsize(1)
    for i in range(cuda.grid(1), masses.size, 2 * step):
        for k in range(i, min(i + 2 * step, masses.size), step):
            if not math.isnan(masses[k]):
                cuda.atomic.add(mine, bin_index(masses[k], low, high, counts.size - 2), 1)
""")}},
    {"name": "warp-aggregated", "cells": {
        "fill-masses": fill_masses("""    for i in range(cuda.grid(1), masses.size, cuda.gridsize(1)):
        slot = int32(-1)
        if not math.isnan(masses[i]):
            slot = int32(bin_index(masses[i], low, high, counts.size - 2))
        same = cuda.match_any_sync(cuda.activemask(), slot)
        if slot >= 0 and cuda.ffs(same) - 1 == cuda.laneid:
            cuda.atomic.add(mine, slot, int32(cuda.popc(same)))
""")}},
    {"name": "unoptimised", "cells": {
        "fill-masses": fill_masses("""    for i in range(cuda.grid(1), masses.size, cuda.gridsize(1)):
        if not math.isnan(masses[i]):
            cuda.atomic.add(mine, bin_index(masses[i], low, high, counts.size - 2), 1)
""", "debug=True, opt=False"),
        "count-muons": """@cuda.jit(debug=True, opt=False, extensions=[ak.numba.cuda])
def count_muons(events, counts):
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        counts[i] = len(events[i].muons)
"""}},
    {"name": "device-functions", "cells": {
        "fill-masses": BIN_INDEX + """@cuda.jit(device=True)
def set_to_zero(mine, slots):
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()


@cuda.jit(device=True)
def hand_in(mine, counts):
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])


@cuda.jit(device=True)
def count_one(mine, mass, low, high, bins):
    if mass == mass:
        cuda.atomic.add(mine, bin_index(mass, low, high, bins), 1)


@cuda.jit(cache=True)
def fill_masses(masses, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    set_to_zero(mine, counts.size)
    for i in range(cuda.grid(1), masses.size, cuda.gridsize(1)):
        count_one(mine, masses[i], low, high, counts.size - 2)
    hand_in(mine, counts)
""",
        "fill-events": """@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array(MAX_SLOTS, int32)
    set_to_zero(mine, counts.size)
    i = cuda.grid(1)
    while i < len(events):
        count_one(mine, best_mass(events[i].muons), low, high, counts.size - 2)
        i += cuda.gridsize(1)
    hand_in(mine, counts)
"""}},
    {"name": "copies-in-each-block", "cells": {
        "fill-events": """@cuda.jit(extensions=[ak.numba.cuda])
def fill_events(events, low, high, counts):
    mine = cuda.shared.array((2, MAX_SLOTS), int32)
    t = cuda.threadIdx.x
    for k in range(t, 2 * counts.size, cuda.blockDim.x):
        mine[k % 2, k // 2] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):
        mass = best_mass(events[i].muons)
        if not math.isnan(mass):
            cuda.atomic.add(mine, (t % 2, bin_index(mass, low, high, counts.size - 2)), 1)
    cuda.syncthreads()
    for slot in range(t, counts.size, cuda.blockDim.x):
        n = mine[0, slot] + mine[1, slot]
        if n:
            cuda.atomic.add(counts, slot, n)
"""}},
    # `nearest` is given; only `reference`, which puts it to use, is the course's own result.
    {"name": "given-functions", "cells": {
        "nearest-on-cpu": """def nearest_on_cpu(events):
    masses = pair_masses(events.muons, mass=0.0)
    several = masses[~np.isnan(masses)].to_list()
    return np.array([nearest(each) if each else math.nan for each in several])
"""}},
]

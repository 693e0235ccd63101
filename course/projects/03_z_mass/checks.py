"""Hints of "The Z mass from Awkward Arrays"; its test cells are in the notebook."""

from gpucourse.exercises.checks import hints

COUNT_MUONS = hints(
    "count-muons",
    "The idea: the count is `len` of an event's list of muons, also for an empty list. Use the loop of "
    "`leading_pt`: start at the thread's own number, stop at the number of events, and step by the "
    "number of threads.",
    "The shape:\n"
    "`for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):`\n"
    "`    counts[i] = …`",
)

SUM_PT = hints(
    "sum-pt",
    "The idea: add up in a local variable and store the sum once, after the loop over muons. For an "
    "event without muons, that loop makes no iteration. What do you store then?",
    "The shape: the same outer loop as in `count_muons`; in it `total = 0.0`, then\n"
    "`for muon in events[i].muons:`\n"
    "`    …`\n"
    "and `sums[i] = total` after the inner loop, not in it.",
)

PAIR_MASS = hints(
    "pair-mass",
    "The idea: write the formula above, term by term. Every symbol has a function in `math`: `sqrt`, "
    "`cosh`, `cos`. The angles are already in radians, and adding a full turn does not change "
    "the cosine.",
    "The shape: `return math.sqrt(2.0 * … * … * (math.cosh(…) - math.cos(…)))`.",
)

FIRST_PAIR = hints(
    "first-pair",
    "The idea: `first_mass` looks at pairs (j, k) with k > j. It returns from inside both loops as "
    "soon as the charges differ. After both loops no pair was found, so it returns `math.nan`. "
    "The kernel only calls it for each event.",
    "The shape of `first_mass`:\n"
    "`for j in range(len(muons)):`\n"
    "`    for k in range(j + 1, len(muons)):`\n"
    "`        if …:`\n"
    "`            return pair_mass(…)`\n"
    "`return math.nan`",
    "The kernel: write the loop of `count_muons` with `masses[i] = first_mass(events[i].muons)`.",
)

BEST_MASS = hints(
    "best-mass",
    "The idea: use the loops of `first_mass`, but do not return at the first pair. Keep two "
    "variables: the best mass so far, and its distance from `Z_MASS`. If they begin as `math.nan` and "
    "`math.inf`, the first good pair is nearer than that.",
    "The shape, inside both loops:\n"
    "`if one.charge != other.charge:`\n"
    "`    mass = pair_mass(…)`\n"
    "`    if … < least:`\n"
    "`        …  # two assignments`",
    "NaN: every comparison with it is false. Write the condition so that false means “skip this "
    "pair”. Then a mass of NaN needs no `if` of its own.",
)

FILL_MASSES = hints(
    "fill-masses",
    "The idea: paste both functions from Project 1. The only change is in the middle stage: test each "
    "mass with `math.isnan` before you count it. `bin_index` stays as it is.",
    "The shape of the middle stage:\n"
    "`for i in range(cuda.grid(1), masses.size, cuda.gridsize(1)):`\n"
    "`    if not math.isnan(masses[i]):`\n"
    "`        cuda.atomic.add(mine, …, 1)`\n"
    "The barriers before and after it stay outside the loop, where all threads reach them.",
)

FILL_EVENTS = hints(
    "fill-events",
    "The idea: write `fill_masses` with a different middle stage, which computes "
    "`best_mass(events[i].muons)` instead of reading an array.",
    "The shape of the middle stage:\n"
    "`for i in range(cuda.grid(1), len(events), cuda.gridsize(1)):`\n"
    "`    mass = …`\n"
    "`    if …:`\n"
    "`        cuda.atomic.add(mine, …, 1)`",
)

BREAK_EVEN = hints(
    "break-even",
    "The idea: each histogram that is filled from stored masses saves `on_the_fly - refill` sectors. "
    "Storing pays once the savings are more than `store`. If a histogram saves nothing, storing never "
    "pays.",
    "The shape: return `None` if nothing is saved, and otherwise the smallest integer above `store / saved`. "
    "`store // saved` is the largest integer that is not above it.",
)

NEAREST_ON_CPU = hints(
    "nearest-on-cpu",
    "The idea: make all pairs of every event at once, keep those of opposite charge, compute all their "
    "masses, and let `ak.argmin` find the one nearest the Z in each event. Remove masses that are NaN "
    "before that.",
    "The shape:\n"
    "`one, other = ak.unzip(ak.combinations(momenta, 2))`\n"
    "`keep = one.charge != other.charge`\n"
    "`masses = (one[keep] + other[keep]).mass`\n"
    "`masses = masses[~np.isnan(masses)]`\n"
    "`index = ak.argmin(…, axis=1, keepdims=True)`\n"
    "then `masses[index]`, `ak.firsts`, `ak.fill_none`, `ak.to_numpy`.",
    "The four-vectors: `muons = ak.values_astype(events.muons, np.float64)`, then `ak.zip` with the "
    "fields pt, eta, phi, mass (`0.0 * muons.pt`) and charge.",
)

EXPECTED_COUNTS = hints(
    "expected-counts",
    "The idea: make a table with a row for each edge and a column for each node. It holds the true mass that "
    "is measured at that edge. You can compute F of the whole table in one line. To average over the nodes, multiply "
    "by `WEIGHTS`. For differences between neighbouring edges use `jnp.diff`.",
    "The shape:\n"
    "`mass, width, zs, others = parameters`\n"
    "`true = edges[:, None] * jnp.exp(-SIGMA * NODES)`\n"
    "`cumulative = jnp.arctan(…) / jnp.pi`\n"
    "`from_z = jnp.diff(cumulative @ WEIGHTS)`",
    "The rest: `falling = -jnp.diff(edges**-2.0)` are the shares before scaling; divide them by their sum.",
)

NLL = hints(
    "nll",
    "The idea: call `expected_counts` once; the rest is one line on whole arrays.",
    "The shape: `return jnp.sum(… - … * jnp.log(…))`.",
)

UNCERTAINTIES = hints(
    "uncertainties",
    "The idea: `hessian`, defined above the function, has the same arguments as `nll`. It returns the "
    "4 × 4 matrix of second derivatives with respect to the first argument.",
    "The shape: invert (`jnp.linalg.inv`), take the diagonal (`jnp.diag`), then the square root, in "
    "this order.",
)

FIT = hints(
    "fit",
    "The idea: in each iteration solve H · step = −g for the step (`jnp.linalg.solve`). Stop if it gains "
    "too little, halve it while it leads uphill, then add it. `gradient` and `hessian` compute g and H.",
    "The shape:\n"
    "`parameters = start(edges, counts)`\n"
    "`for _ in range(50):`\n"
    "`    g = gradient(parameters, edges, counts)`\n"
    "`    step = …`\n"
    "`    if …:  # half of -step @ g is what it would gain`\n"
    "`        break`\n"
    "`    while not compiled_nll(parameters + step, …) <= compiled_nll(parameters, …):`\n"
    "`        step = step / 2`\n"
    "`    parameters = parameters + step`\n"
    "`return parameters, uncertainties(parameters, edges, counts)`",
)

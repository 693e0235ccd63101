# %% [markdown] id="the-question-asked"
# ## How much of your pandas would run on a GPU?
#
# The data are 50,000 simulated proton collisions, called *events*, and the muons in each of them. `pt` is a muon's
# momentum across the beam in GeV, `phi` is its angle around the beam, `eta` measures its angle to the beam, and
# `charge` is +1 or -1.
#
# The function below is ordinary pandas code that finds the events that have two or more muons of high momentum whose
# charges add up to 0. It runs with `pandas`, and also with `cudf`, whose tables are in the GPU's memory.

# %% id="the-question"
# %load_ext gpucourse
import awkward as ak
import cudf
import cupy as cp
import numpy as np
import pandas as pd
from gpucourse import lesson
from gpucourse.data import dimuons
from gpucourse.system.device import pick
from gpucourse.views.picture import Picture, canvas

check, hint, predict = lesson("15_cudf")

muons = dimuons().muons
columns = {"event": np.repeat(np.arange(len(muons)), ak.to_numpy(ak.num(muons.pt)))}
columns |= {name: ak.to_numpy(ak.flatten(muons[name])) for name in ("pt", "eta", "phi", "charge")}


def hardest_balanced(library):
    table = library.DataFrame(columns)
    table["p"] = table["pt"] * np.cosh(table["eta"])
    hard = table[table["p"] > 50].groupby("event").agg(
        muons=("p", "count"), charge=("charge", "sum"), leading=("p", "max"))
    balanced = hard[(hard["muons"] > 1) & (hard["charge"] == 0)]
    return balanced.sort_values("leading", ascending=False).head(3)


for library in (pd, cudf):
    print(library.__name__, hardest_balanced(library), sep="\n")

# %% [markdown] id="the-question-stands"
# The same lines give the same answer with both libraries. **Which parts of your pandas code would not run with cuDF,
# would give other results, or would be slower?** Without a GPU, this course replaces cuDF by a stand-in that does the
# table work with pandas. We wrote the stand-in from cuDF's documentation and have not compared it with cuDF itself.
# Because it is a stand-in, it shows no times.

# %% [markdown] id="the-table-text"
# ## 1. The same methods
#
# Here is the table of all 71,009 muons, on the device, with one row for each muon.

# %% id="the-table"
table = cudf.DataFrame(columns)
print(table.head(4), table.dtypes, sep="\n")

# %% [markdown] id="groups-predict" tags=["predict"]
# The table below has five muons from three events, in the order 7, 3, 7, 5, 3. *Predict:* which event's sum comes first
# with pandas, and which with cuDF?

# %% id="groups-guess"
predict("groups",
        "event 7 with both: it comes first in the table",
        "event 3 with both: groups are sorted",
        "event 3 with pandas; with cuDF whatever comes")

# %% id="groups"
few = cudf.DataFrame({"event": [7, 3, 7, 5, 3], "pt": [20.0, 5.0, 30.0, 8.0, 4.0]})
print("pandas:", few.to_pandas().groupby("event")["pt"].sum().to_dict())
print("cuDF:  ", few.groupby("event")["pt"].sum().to_pandas().to_dict())
print("sorted:", few.groupby("event", sort=True)["pt"].sum().to_pandas().to_dict())

# %% [markdown] id="groups-why" tags=["why"]
# pandas sorts the groups, but cuDF doesn't unless you ask it to. In cuDF, thousands of threads put rows into a hash
# table, and the groups come out in the order of that table. So don't rely on the order of groups. Pass `sort=True`, or
# sort afterwards.

# %% [markdown] id="groups-then"
# ### Exercise: one row for each event
#
# Write `events_of(table)`, which returns a DataFrame with one row for each event in the table. Its index is `event` in
# ascending order. The column `muons` holds the number of muons, `charge` the sum of their charges, and `leading` the
# highest `pt`. If you are stuck, call `hint("per-event")`.

# %% id="per-event-exercise" tags=["exercise"]
def events_of(table):
    events = table.groupby("event").sum()
    ### BEGIN SOLUTION
    events = table.groupby("event", sort=True).agg(
        muons=("pt", "count"), charge=("charge", "sum"), leading=("pt", "max"))
    ### END SOLUTION
    return events


print(events_of(table).head(3))

# %% id="per-event-check"
check("per-event", events_of)

# %% [markdown] id="order-text"
# Without a GPU the groups come in the order in which they first occur, but you shouldn't rely on that order either.
# Don't rely on the order of the rows of a join, or on the order in which the floats of a group are added, because it
# may change the last digit of a sum. The table is *columnar*, which means that each column is one array on the device,
# in [Arrow's](https://arrow.apache.org) layout.

# %% [markdown] id="joins-predict" tags=["predict"]
# ## 2. Joins
#
# To look at pairs of muons, we need a table in which each row describes two muons. If you join a table with *itself* by
# event, you get such rows, because `merge` makes one for each combination of a left and a right row with the same
# `event`.
#
# *Predict:* how many rows does an event with three muons give, and how many of these are pairs?

# %% id="joins-guess"
predict("joins", "3: one for each pair", "6: each muon with each other muon", "9, of which 3 are pairs")

# %% id="joins"
table["number"] = table.groupby("event").cumcount()  # 0, 1, 2, … within the event
first = table[table["event"] == 0]
print(first.merge(first, on="event", suffixes=("1", "2"))[["event", "number1", "number2", "charge1", "charge2"]])
both = table.merge(table, on="event", suffixes=("1", "2"))
print(f"{len(table):,} rows joined with themselves: {len(both):,} rows")

# %% [markdown] id="joins-why" tags=["why"]
# It gives nine rows, because each muon is combined with each muon, itself included. Each pair occurs twice, so there
# are three pairs among the nine rows. A join multiplies: if a key occurs *m* times on the left and *n* times on the
# right, the result has *m × n* rows for it. A GPU's memory is small, so a join that grows too large ends in a
# `MemoryError`. Always count the rows before you join.

# %% [markdown] id="joins-picture-text"
# The few events with many muons produce a large part of those rows.

# %% id="joins-picture"
muons_in_event = (table.groupby("event")["number"].max() + 1).to_numpy()
events = np.bincount(muons_in_event)
sizes = np.arange(events.size)
figure, axes = canvas(8, 2.6)
axes.bar(sizes - 0.2, events * sizes, 0.4, color="#56B4E9", label="rows of the table")
axes.bar(sizes + 0.2, events * sizes**2, 0.4, color="#D55E00", label="rows of the join")
axes.set(xlabel="muons in the event", ylabel="rows")
axes.legend()
Picture(figure, "By muons in the event: " + "; ".join(
    f"{m}: events {events[m]:,}, rows {events[m] * m:,}, joined {events[m] * m**2:,}" for m in sizes[1:]) + ".")

# %% [markdown] id="pairs-task"
# ### Exercise: every pair once
#
# Write `pairs_of(table)`, which returns one row for each pair of muons of *opposite charge* in the same event, with
# each pair once. `table` has the columns `event`, `number`, `pt`, `eta`, `phi` and `charge`. The result needs the
# column `event`, and two columns for each of the others, with `1` and `2` after its name. The cell then adds the mass
# of each pair, and draws a histogram.

# %% id="pairs-exercise" tags=["exercise"]
def pairs_of(table):
    pairs = table.merge(table, on="event", suffixes=("1", "2"))
    ### BEGIN SOLUTION
    pairs = pairs[(pairs["number1"] < pairs["number2"]) & (pairs["charge1"] != pairs["charge2"])]
    ### END SOLUTION
    return pairs


def with_mass(pairs):
    angles = np.cosh(pairs["eta1"] - pairs["eta2"]) - np.cos(pairs["phi1"] - pairs["phi2"])
    return pairs.assign(mass=np.sqrt(2 * pairs["pt1"] * pairs["pt2"] * angles))


pairs = with_mass(pairs_of(table))
counts, edges = (one.get() for one in cp.histogram(pairs["mass"].values, cp.linspace(1, 121, 121)))
figure, axes = canvas(9, 2.8)
axes.stairs(counts, edges, fill=True, color="#0072B2")
axes.set(xlabel="mass of the pair [GeV]", ylabel="pairs per GeV", xlim=(1, 121))
Picture(figure, f"Histogram of the masses of {len(pairs):,} muon pairs from 1 to 121 GeV: the highest bin "
                f"above 60 GeV is at {60 + int(np.argmax(counts[59:]))} GeV with {counts[59:].max()} pairs, the "
                f"highest of all at {1 + int(np.argmax(counts))} GeV with {counts.max()}.")

# %% id="pairs-check"
check("pairs", pairs_of)

# %% [markdown] id="left-join-predict" tags=["predict"]
# Each event belongs to a run, and a second table describes the runs. We made it up for this lecture. It is small, as
# tables of conditions usually are, and it has no row for run 3.
#
# A left join keeps all runs, and the column `tried` holds integers. *Predict:* what does `tried` hold for run 3 after
# the join, and which type does the column then have, with pandas and with cuDF?

# %% id="left-join-guess"
predict("left-join",
        "0 with both",
        "NaN and float64 with both",
        "pandas NaN and float64, cuDF null and int64")

# %% id="left-join"
conditions = cudf.DataFrame({
    "run": [0, 1, 2, 4],
    "tried": [1200, 800, 1000, 0],
    "passed": [1140, 640, 950, 0],
    "trigger": ["HLT_Mu8_v3", "HLT_DoubleMu3_v5", "HLT_DoubleMu7_v1", None],
})
runs = cudf.DataFrame({"run": [0, 1, 2, 3, 4]})
known = runs.merge(conditions, on="run", how="left").sort_values("run")
print(known)
in_pandas = runs.to_pandas().merge(conditions.to_pandas(), on="run", how="left")
print("cuDF:", known["tried"].dtype, "  pandas:", in_pandas["tried"].dtype)

# %% [markdown] id="left-join-why" tags=["why"]
# An integer column of pandas can't mark a value as missing, so the column becomes `float64`, and the missing value
# `NaN`. A cuDF column may have a **mask** beside its values, with one bit for each row, which says whether the row has
# a value. So columns of every type can have missing values, which are called **null** and printed as `<NA>`, and
# integers stay integers.

# %% [markdown] id="left-join-then"
# Columns of strings work on the device, too. All characters of a column are in one long array, and a second array says
# where each string begins. The methods of `.str` process all strings at once.

# %% id="strings"
known["double"] = known["trigger"].str.contains("Double")
known["version"] = known["trigger"].str.extract(r"_v(\d+)$")[0].astype("int32")
print(known[["run", "trigger", "double", "version"]])

# %% [markdown] id="missing-predict" tags=["predict"]
# ## 3. Null is not NaN
#
# The efficiency of a trigger is the number of events that passed divided by the number tried, and in run 4 none were
# tried.
#
# *Predict:* what is the efficiency of run 3, and what is that of run 4? How many of the five efficiencies does
# `null_count` count, how many does `isna` find, and how many go into the mean?

# %% id="missing-guess"
predict("missing",
        "both null: neither has a value",
        "null and NaN; one counted, two found, three in the mean",
        "null and NaN; two counted, two found, three in the mean")

# %% id="missing"
conditions["efficiency"] = conditions["passed"] / conditions["tried"]
known = runs.merge(conditions, on="run", how="left").sort_values("run")
efficiency = known["efficiency"]
print(efficiency.to_string())
print("null:", efficiency.null_count, "  isna:", int(efficiency.isna().sum()), "  mean:", efficiency.mean())

# %% [markdown] id="missing-why" tags=["why"]
# Run 3 has *null*, because its efficiency is unknown. Run 4 has `NaN`, because its efficiency was calculated as 0/0,
# which isn't a number. `null_count` counts only the null, `isna` finds both, and reductions leave both out.

# %% [markdown] id="missing-then"
# There are two more things to know.
#
# - A comparison with null gives null, and a selection takes only the rows for which its condition is true. So
#   `efficiency > 0.9` and `~(efficiency > 0.9)` together do not select all rows, because run 3 is in neither.
# - Conversions may confuse null with `NaN`. `cudf.Series` and `from_pandas` turn `NaN` into null, unless you pass
#   `nan_as_null=False`. `to_pandas()` turns null into `NaN`, and integers with nulls into floats, unless you pass
#   `nullable=True`.

# %% id="missing-border"
measured = np.array([0.95, np.nan, 0.8])
print("as it comes:      ", cudf.Series(measured).null_count, "null")
print("nan_as_null=False:", cudf.Series(measured, nan_as_null=False).null_count, "null")
sure, unsure = known[efficiency > 0.9], known[~(efficiency > 0.9)]
print("runs above 0.9:", sure["run"].to_numpy(), "  not above:", unsure["run"].to_numpy())
print(known["tried"].to_pandas().dtype, "or", known["tried"].to_pandas(nullable=True).dtype)

# %% [markdown] id="missing-task"
# ### Exercise: unknown, or undefined?
#
# Write `holes(series)`, which returns two ints, the number of rows that are null and the number that are `NaN`. It must
# also work for columns of integers and of strings, which cannot hold a `NaN`. Count on the device, so that only the two
# numbers are copied to the host.

# %% id="missing-exercise" tags=["exercise"]
def holes(series):
    unknown = undefined = int(series.isna().sum())
    ### BEGIN SOLUTION
    unknown = series.null_count
    undefined = int(series.isna().sum()) - unknown
    ### END SOLUTION
    return unknown, undefined


# %% id="missing-check"
check("missing", holes)

# %% [markdown] id="loop-predict" tags=["predict"]
# ## 4. What leaves the device
#
# *Predict:* does a `for` loop over a column work, take very long, or raise an error?

# %% id="loop-guess"
predict("loop", "it works", "it takes very long", "it raises an error")

# %% id="loop" raises="TypeError"
heaviest = 0
for mass in pairs["mass"]:
    heaviest = max(heaviest, mass)

# %% [markdown] id="loop-why" tags=["why"]
# It raises an error, because each iteration of the loop would fetch four bytes over the slowest link of the machine,
# and there are tens of thousands of pairs. `pairs["mass"].max()` fetches four bytes in total. If you want the whole
# column on the host, cuDF makes you copy it explicitly, with `.to_pandas()` or `.to_numpy()`, where a reader of the
# code can see it. `iterrows`, `itertuples` and `tolist` also raise an error, and so does a NumPy function that needs an
# array on the host, such as `np.histogram`.

# %% [markdown] id="sharing-predict" tags=["predict"]
# CuPy and Numba work on the device as well. *Predict:* which of the following objects share the column's memory?

# %% id="sharing-guess"
predict("sharing", "all of them", "the first three", "none: each library has its own arrays")

# %% id="sharing"
mass = pairs["mass"]
where = mass.values.data.ptr  # the address of the column's values on the device
print("mass.values, again:   ", mass.values.data.ptr == where)
print("cp.asarray(mass):     ", cp.asarray(mass).data.ptr == where)
print("cudf.Series(cp array):", cudf.Series(mass.values).values.data.ptr == where)
print("mass + 0:             ", (mass + 0).values.data.ptr == where)
print("two columns, a matrix:", pairs[["mass", "pt1"]].values.data.ptr == where)
print("and back from pandas: ", cudf.from_pandas(mass.to_pandas()).values.data.ptr == where)

# %% [markdown] id="sharing-why" tags=["why"]
# | conversion | function | copies |
# |---|---|---|
# | a column to CuPy, and CuPy to a column | `.values`, `cp.asarray`, `cudf.Series(array)` | nothing; if the column has nulls, `.values` makes a copy with `NaN` in their place (`float64` for integers), and `cp.asarray` raises an error |
# | a column to a Numba kernel | the column as an argument | nothing |
# | several columns to a matrix | `.values`, `.to_cupy()` | on the device, because the columns are separate arrays |
# | DLPack | `to_dlpack`, `cudf.from_dlpack` | on the device, [both ways](https://docs.rapids.ai/api/cudf/stable/user_guide/api_docs/api/cudf.from_dlpack/) |
# | Arrow | `to_arrow`, `from_arrow` | between device and host, without changing masks or types |
# | pandas, NumPy | `to_pandas`, `from_pandas`, `to_numpy` | between device and host; pandas changes some types |
#
# Because CuPy shares the column's memory, a write to `mass.values` also changes the table. Without a GPU, columns
# support neither DLPack nor Arrow, and the stand-in's error message names what to use instead.

# %% [markdown] id="sharing-then"
# ### Exercise: no detour
#
# Somebody wrote this function, and wonders why the GPU does not help:
#
# ```python
# def spectrum(pairs, edges):
#     return cp.asarray(np.histogram(pairs["mass"].to_numpy(), edges.get())[0])
# ```
#
# The masses are copied to the host, and the counts are copied back. Write `spectrum` so that nothing leaves the device.
# `edges` is a CuPy array, and so is the result, which contains only the counts. Some masses may be missing, and
# `spectrum` must not count them.

# %% id="detour-exercise" tags=["exercise"]
def spectrum(pairs, edges):
    counts = cp.zeros(edges.size - 1, int)
    ### BEGIN SOLUTION
    counts, _ = cp.histogram(pairs["mass"].dropna().values, edges)
    ### END SOLUTION
    return counts


# %% id="detour-check"
check("no-detour", spectrum)

# %% [markdown] id="own-predict" tags=["predict"]
# ## 5. Your own functions
#
# `apply` takes a function of one value, or with `axis=1` a function of one row, where `row["name"]` is a value. In
# pandas, `apply` is a loop in disguise. cuDF passes the function to Numba, which compiles it into a kernel with one
# thread for each row, as "Numba CUDA" shows.
#
# Here are two functions, both ordinary Python. *Predict:* which of the two can cuDF apply?

# %% id="own-guess"
predict("own",
        "both: it's Python",
        "only the one that computes numbers",
        "neither: a GPU can't run Python")

# %% id="own"
import math


def polar_angle(row):
    """The angle to the beam in degrees, or -1 for muons that nobody measures well."""
    if abs(row["eta"]) > 2.4 or row["pt"] < 3.5:
        return -1.0
    return math.degrees(2 * math.atan(math.exp(-row["eta"])))


angle = table.apply(polar_angle, axis=1)
print(angle.head(4).to_string(), angle.dtype)

# %% id="own-refused" raises="ValueError"
def label(pt):
    return f"{pt:.0f} GeV"


table["pt"].apply(label)

# %% [markdown] id="own-why" tags=["why"]
# It can apply only the one that computes numbers, because Numba must compile it. For the other one, the last line of
# the error is `user defined function compilation failed.`, below many lines from inside Numba. Numba cannot compile
# string concatenation, dicts, lists that grow, or most library calls, and the exception's `__cause__` names the reason.

# %% [markdown] id="own-then"
# Here is only the cause, for another function that Numba can't compile.

# %% id="own-cause"
try:
    table["pt"].apply(lambda pt: sorted([pt, 20.0])[0])
except ValueError as error:
    print(type(error.__cause__).__name__, str(error.__cause__)[:88])

# %% [markdown] id="own-cost"
# Before you write such a function, look for a method that works on whole columns, such as `where`, `clip`, `between`,
# arithmetic and `.str`. These are compiled already, whereas your function is compiled at its first use, and again for
# each new column type, which takes a good part of a second. On the other hand, one function can replace a chain of
# methods, each of which reads and writes whole columns. An argument may be null, which you can test with
# `x is cudf.NA`. A computation with null gives null, and a comparison with null counts as false, so `if` takes the
# other branch.
#
# ### Exercise: which part of the detector?
#
# Write `region(eta)`, which cuDF applies to the column `eta`. It returns 0 for the barrel (|eta| below 0.9), 1 for the
# overlap (from 0.9 to below 1.2), 2 for the endcap (from 1.2 up to and including 2.4), and -1 for larger |eta|.

# %% id="own-exercise" tags=["exercise"]
def region(eta):
    ### BEGIN SOLUTION
    eta = abs(eta)
    if eta < 0.9:
        return 0
    if eta < 1.2:
        return 1
    if eta <= 2.4:
        return 2
    ### END SOLUTION
    return -1


print(table["eta"].apply(region).value_counts().sort_index().to_string())

# %% id="own-check"
check("own-function", region)

# %% [markdown] id="fallback-what"
# ## 6. Without changing a line: `cudf.pandas`
#
# Suppose that you have pandas code and do not want to rewrite it. `%load_ext cudf.pandas` at the top of a notebook, or
# `python -m cudf.pandas script.py`, replaces `pandas` by a proxy before anything imports it. The proxy tries each
# operation on the GPU. If that fails, pandas runs the operation on a copy of the data, so the results stay the same and
# only the time changes.
#
# The next cell shows the idea on a small scale.

# %% id="fallback"
def gpu_first(operation, table):
    """What cudf.pandas does with every operation: where it ran, and the bytes copied for it."""
    try:
        operation(table)
        return "GPU", 0
    except Exception:  # whatever it is: pandas may be able to do it
        operation(table.to_pandas())
        return "CPU", int(table.memory_usage(index=False).sum())


small = table.head(2000)
operations = {
    'groupby("event").mean()': lambda t: t.groupby("event").mean(),
    'sort_values("pt")': lambda t: t.sort_values("pt"),
    'query("pt > 20")': lambda t: t.query("pt > 20"),
    "apply(polar_angle, axis=1)": lambda t: t.apply(polar_angle, axis=1),
    'pt.apply(label)': lambda t: t["pt"].apply(label),
    "apply(list, axis=1)": lambda t: t.apply(list, axis=1),
    "itertuples()": lambda t: [row.pt for row in t.itertuples()],
}

# %% [markdown] id="fallback-text" tags=["predict"]
# *Predict:* which of these seven operations fall back to pandas?

# %% id="fallback-run-guess"
predict("fallback-run",
        "none: cuDF does all that pandas does",
        "the last three",
        "all that use text")

# %% id="fallback-run"
for name, operation in operations.items():
    where, copied = gpu_first(operation, small)
    print(f"{name:28} {where} {copied:8,} bytes copied")

# %% [markdown] id="fallback-why" tags=["why"]
# The last three do: the first of them is a function that does not compile, the second calls Python's `list`, and the
# third loops over rows. Each fallback copies the table to the host, and the next operation on the GPU copies the result
# back. Code that goes back and forth at every step can be slower than pandas on its own, and nothing tells you so.

# %% [markdown] id="fallback-then"
# A profiler shows where each operation ran:
#
# ```python

# %%cudf.pandas.profile
# events = muons.groupby("event").agg(…)
# rows = muons.apply(list, axis=1)
# ```
#
# It prints how often each operation ran on the GPU and on the CPU, and how long it took. `%%cudf.pandas.line_profile`
# does so for each line, and `python -m cudf.pandas --profile script.py` for a script. Look for the operations in the
# CPU column, and rewrite them. (Without a GPU, everything runs on the CPU, and the stand-in says so.) In this mode cuDF
# keeps pandas' promises, such as sorted groups, which takes a little more time.

# %% [markdown] id="pays-predict" tags=["predict"]
# ## 7. When it pays
#
# You pay for moving the data, for a fixed cost of each operation, and for the work itself. There are published numbers
# for the transfer and for the work. NVIDIA's data sheet of the H200 (2024) says that the GPU reads its own memory at
# 4.8 TB/s, and that its PCIe 5 connection carries 128 GB/s, which is 64 GB/s each way.
#
# *Predict:* how many times could the GPU read a whole column in the time that it takes to copy the column to the GPU?

# %% id="pays-guess"
predict("pays", "once: it has to be read as well", "about ten times", "about 75 times")

# %% id="pays"
MEMORY, JOURNEY = 4.8e12, 64e9  # bytes per second, at best: NVIDIA's data sheet of the H200, 2024
column = 8 * 10_000_000  # bytes: ten million float64
print(f"the journey takes {column / JOURNEY * 1e6:,.0f} µs, one pass over it {column / MEMORY * 1e6:,.0f} µs:"
      f" {MEMORY / JOURNEY:.0f} passes")

passes = np.arange(1, 301)
figure, axes = canvas(7, 2.8)
axes.plot(passes, 1 / (1 + passes * JOURNEY / MEMORY), color="#0072B2", label="copied there")
axes.plot(passes, 2 / (2 + passes * JOURNEY / MEMORY), "--", color="#D55E00", label="copied there and back")
axes.axhline(0.5, color="#777777", linewidth=0.8)
axes.set(xlabel="passes over the data between copies", ylabel="share of time on the way", ylim=(0, 1))
axes.legend()
Picture(figure, "Share of the time that goes into copying, worked out from bandwidths: with one pass over the data "
                "nearly all, half at 75 passes if the data are copied there once, half at 150 if they also come "
                "back, and still a fifth at 300 passes one way.")

# %% [markdown] id="pays-why" tags=["why"]
# It could read the column 75 times. An analysis that loads a table, adds up one column and ends spends nearly all of
# its time on the transfer. A GPU pays for an analysis that loads the data once, then filters, joins, groups and fits,
# and copies back a histogram of 120 numbers. The 75 comes from the best case of both speeds. For another GPU, look up
# its two speeds and divide them. On an H200 we *measured* 4.25 TB/s for one pass over memory. The link reached 55 GB/s
# from pinned memory, but only 8.9 GB/s from ordinary arrays such as NumPy's, so there it is about 480 passes instead of
# 75. `cudf.read_parquet` copies a compressed file to the device and decompresses it there, so less data is transferred.

# %% [markdown] id="pays-then"
# For small tables the fixed cost decides. Every method runs some Python and then launches one or more kernels, whether
# the table has ten rows or ten million. A GPU gains nothing on the five rows of the table of conditions, or in a loop
# over 50,000 small groups. The fixed cost depends on the machine, so you have to measure it.

# %% id="measure"
from time import perf_counter


def seconds(library, rows, repeat=5):
    """The least time of a group-by over so many rows; for cuDF until the device is done."""
    random = np.random.default_rng(9)
    table = library.DataFrame({"event": random.integers(0, rows // 2, rows), "pt": random.random(rows)})
    best = float("inf")
    for _ in range(repeat + 1):
        start = perf_counter()
        table.groupby("event")["pt"].sum()
        cp.cuda.Device().synchronize()
        best = min(best, perf_counter() - start)
    return best


sizes = pick(gpu=(1_000, 10_000, 100_000, 1_000_000, 10_000_000), virtual=())
for rows in sizes:
    print(f"{rows:12,} rows: pandas {seconds(pd, rows) * 1e3:9.2f} ms, cuDF {seconds(cudf, rows) * 1e3:9.2f} ms")
if not sizes:
    print("no GPU here, so there is no crossover to measure: run this cell on a machine that has one")

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - cuDF has the methods of pandas, for columns in the device's memory. It promises no order of groups or of joined
#   rows, so sort when the order matters.
# - Every type can have nulls, kept in a mask. Null means unknown, NaN means undefined, and conversions to pandas turn
#   one into the other unless you say otherwise.
# - Columns, CuPy arrays and Numba kernels share memory. Copies to the host must be explicit, and a loop over rows
#   raises an error.
# - `apply` compiles your function with Numba, so the function can only use what a kernel can use.
# - `cudf.pandas` runs pandas code unchanged and doesn't tell you when it falls back to the CPU, so profile it. A GPU
#   pays for large tables that stay on it.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - cuDF: [how it differs from pandas](https://docs.rapids.ai/api/cudf/stable/user_guide/pandas-comparison/), [missing
#   data](https://docs.rapids.ai/api/cudf/stable/user_guide/missing-data/), [user-defined
#   functions](https://docs.rapids.ai/api/cudf/stable/user_guide/guide-to-udfs/), [cuDF and
#   CuPy](https://docs.rapids.ai/api/cudf/stable/user_guide/cupy-interop/).
# - `cudf.pandas`: [how it works](https://docs.rapids.ai/api/cudf/stable/cudf_pandas/how-it-works/),
#   [use and profiling](https://docs.rapids.ai/api/cudf/stable/cudf_pandas/usage/),
#   [questions and limits](https://docs.rapids.ai/api/cudf/stable/cudf_pandas/faq/).
# - [Arrow's columnar format](https://arrow.apache.org/docs/format/Columnar.html), including masks and strings.
# - Beyond pandas, [cudf-polars](https://docs.rapids.ai/api/cudf/stable/cudf_polars/), a GPU engine for Polars, and
#   [dask-cudf](https://docs.rapids.ai/api/dask-cudf/stable/) for tables larger than one GPU.
#
# Tables need flat rows, so we had to number the muons to pair them. "Jagged data: Awkward Arrays and the Z" keeps
# events whole.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 60 minutes
#
# | minutes | what |
# |---|---|
# | 0-5 | the question; collect lines of the room's own pandas, and keep them for section 6 |
# | 5-14 | section 1; `per-event` |
# | 14-26 | section 2; `pairs` in pairs |
# | 26-36 | section 3; everyone does `missing` alone |
# | 36-45 | section 4; `no-detour` |
# | 45-52 | section 5; `own-function` is good homework |
# | 52-60 | sections 6 and 7; have the room guess each line of the table, and the 75 |
#
# *Ten minutes late:* leave out the strings in section 2, the table in section 4 and the exercise of section 5.
#
# *Where people get stuck.* In `per-event` they forget the order, which is right by luck on a sorted table, but the
# check's table is not sorted. In `pairs`, `number1 != number2` keeps each pair twice. In `missing` they trust `isna`,
# which doesn't distinguish null from `NaN`.
#
# *Frequent questions.* "How much faster is it?" The last cell measures it on your GPU. Large group-bys and joins of
# data that are already on the device gain most. A whole program gains less than its joins do, for the reasons in
# section 7. "Can I use it for everything?" No, because pandas is the better choice for small tables. "Does it work with
# Polars?" Yes, Polars can use cuDF as its GPU engine.
#
# *What goes wrong.* If `cudf.pandas` is loaded after `import pandas`, it doesn't work properly, so restart the kernel.
# On a GPU the first cell takes some seconds, because it creates the context and the memory pool. On a shared GPU, a
# join that grows too large takes memory from the other users.

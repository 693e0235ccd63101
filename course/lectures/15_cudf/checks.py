"""Checks and hints of "Tables on the device: cuDF"."""

from __future__ import annotations

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.host_side import leaving
from gpucourse.wording import a_or_an
from gpucourse.wording import many

#: Numbers of rows: next to nothing, both sides of a warp and of a block, a prime.
LENGTHS = (129, 1, 2, 31, 32, 33, 128, 1009)


@exercise(
    "per-event",
    hints=(
        "The idea: use one `groupby` that sorts, and one `agg` that says for each new column which "
        "column it comes from and which function computes it.",
        'The shape: `table.groupby("event", sort=True).agg(muons=("pt", "count"), …)`, with '
        '`"sum"` for the charge and `"max"` for the leading `pt`.',
    ),
)
def per_event(events_of):
    """There is one row for each event, in order."""
    import cudf

    for n in LENGTHS:
        table = _muons(n)
        given = cudf.DataFrame(table)
        with leaving() as left:
            events = events_of(given)
        case = f"with {many(n, 'muon')}"
        _is_frame(events, case)
        _as_it_came(given, table, case)
        left.demand_none(case, "`groupby` and `agg` of cuDF's table work on the device")
        expected = sorted(set(table["event"].tolist()))
        require(
            "event" not in events.columns,
            f"{case}, `event` is a column, not the index",
            look="`groupby` makes the column that it groups by the index: leave it there",
        )
        require(
            sorted(events.columns) == ["charge", "leading", "muons"],
            f"{case}, the columns are {', '.join(map(str, events.columns))}; they should be muons, "
            "charge, leading",
            look="use `agg(name=(column, how), …)`, which names the new columns",
        )
        index = events.index.to_numpy().tolist()
        require(
            sorted(index) == expected,
            f"{case}, the result has {many(len(index), 'row')} for {many(len(expected), 'event')}",
            look="group by `event`",
        )
        require(
            index == expected,
            f"{case}, the events come in the order {', '.join(map(str, index[:4]))}, …",
            look="sort the groups yourself, because cuDF sorts them only on request",
        )
        for name, how in (("muons", len), ("charge", np.sum), ("leading", np.max)):
            of = table["pt" if name == "leading" else "charge"]
            right = [how(of[table["event"] == event]) for event in expected]
            _same(events[name].to_numpy(), right, expected, f"{case}, `{name}` of event")


@exercise(
    "pairs",
    hints=(
        "The idea: of the rows that the join makes, keep those that are pairs. The charges must differ, "
        "and of (0, 2) and (2, 0), which are the same pair, keep one.",
        'The shape: `pairs[(pairs["number1"] < pairs["number2"]) & (…)]`, with parentheses around '
        "both conditions.",
    ),
)
def pairs(pairs_of):
    """Every pair of opposite charge occurs once."""
    import cudf

    for n in LENGTHS:
        table = _muons(n)
        given = cudf.DataFrame(table)
        with leaving() as left:
            found = pairs_of(given)
        case = f"with {many(n, 'muon')}"
        _is_frame(found, case)
        _as_it_came(given, table, case)
        left.demand_none(case, "`merge` and a mask of cuDF's columns work on the device")
        missing = {f"{name}{k}" for name in ("number", "pt", "eta", "phi", "charge")
                   for k in (1, 2)} - set(map(str, found.columns))
        require(
            not missing and "event" in found.columns,
            f"{case}, these columns are missing: {', '.join(sorted(missing)) or 'event'}",
            look='use `merge(…, on="event", suffixes=("1", "2"))`',
        )
        names = ("event", "number1", "number2", "charge1", "charge2")
        columns = [found[name].to_numpy().tolist() for name in names]
        rows = list(zip(*columns, strict=True))
        for event, one, other, charge, its in rows:
            require(
                one != other,
                f"{case}, muon {one} of event {event} is paired with itself",
                look="drop the rows in which `number1` equals `number2`",
            )
            require(
                charge != its,
                f"{case}, muons {one} and {other} of event {event} have the same charge",
                look="keep only the rows in which `charge1` and `charge2` differ",
            )
        once = {(event, *sorted((one, other))) for event, one, other, *_ in rows}
        require(
            len(once) == len(rows),
            f"{case}, some pairs occur twice: {many(len(rows), 'row')} for {many(len(once), 'pair')}",
            look=("muons 0 and 2 are the same pair as muons 2 and 0: which of the two rows do "
                "you keep?"),
        )
        require(
            once == _pairs(table),
            f"{case}, the result has {many(len(once), 'pair')} of opposite "
            f"charge, not {len(_pairs(table))}",
            look="which pairs does the selection drop, or which does the join never make?",
        )
        keys = zip(table["event"].tolist(), table["number"].tolist(), strict=True)
        row_of = {key: row for row, key in enumerate(keys)}
        for k, numbers in (("1", columns[1]), ("2", columns[2])):
            muons = [row_of[key] for key in zip(columns[0], numbers, strict=True)]
            for name in ("pt", "eta", "phi", "charge"):
                got = found[f"{name}{k}"].to_numpy()
                for row, one in zip(muons, got, strict=True):
                    require(
                        one == table[name][row],
                        f"{case}, `{name}{k}` of a pair of event {table['event'][row]} is {one:g}; "
                        f"its muon {table['number'][row]} has {table[name][row]:g}",
                        look=f"`{name}{k}` belongs to the muon `number{k}`: leave the columns as the join returns them",
                    )


@exercise(
    "missing",
    hints=(
        "The idea: one of the two can be counted directly, and `isna` finds both together.",
        "The shape: `unknown = series.null_count`, and `undefined` is the number that `isna` finds beyond "
        "those.",
    ),
)
def missing(holes):
    """Null and NaN are counted separately, in columns of every type."""
    import cudf

    cases = {
        "efficiencies with both": (cudf.Series([0.9, np.nan, None, 0.8, None], nan_as_null=False),
                                   2, 1),
        "0/0 without a null": (cudf.Series([0.0, 1.0, 0.0]) / cudf.Series([0.0, 2.0, 0.0]), 0, 2),
        "integers": (cudf.Series([1, None, 3, None, None]), 3, 0),
        "strings": (cudf.Series(["HLT_Mu8_v3", None, ""]), 1, 0),
        "truth values": (cudf.Series([True, None, False]), 1, 0),
        "numbers with no hole": (cudf.Series([1.5, float("inf")]), 0, 0),
        "nulls at both ends": (cudf.Series([None, 1.5, None]), 2, 0),
        "a thousand with both": (cudf.Series([[None, np.nan, 1.0, 2.0, None][k % 5]
                                              for k in range(1009)], nan_as_null=False), 403, 202),
    }
    for case, (series, unknown, undefined) in cases.items():
        with leaving() as left:
            answer = pair(holes(series), "two ints", "`return unknown, undefined`")
        left.demand_none(f"for {case}", "cuDF counts both on the device")
        require(
            answer[0] == unknown,
            f"for {case}, your function counts {answer[0]} null rows; the right number is {unknown}",
            look="`isna` also finds NaN: which method counts only nulls?",
        )
        require(
            answer[1] == undefined,
            f"for {case}, your function counts {answer[1]} NaN rows; the right number is {undefined}",
            look="which rows are missing a number, but are not null?",
        )
        require(
            (series.null_count, int(series.isna().sum())) == (unknown, unknown + undefined),
            f"for {case}, the answer is right, but your function has changed its input column",
            look="did you use `inplace=True` or `series[…] = …`? Both change the input",
        )


@exercise(
    "no-detour",
    hints=(
        "The idea: CuPy has its own `histogram`, and the column's values are already a CuPy array. Remove "
        "the missing ones first.",
        'The shape: `counts, _ = cp.histogram(pairs["mass"].….values, edges)`, with `.dropna()` '
        "in between.",
    ),
)
def no_detour(spectrum):
    """The counts are right, and no data left the device."""
    import cudf
    import cupy as cp

    random = np.random.default_rng(93)
    for n, bins in ((129, 24), (1, 24), (33, 24), (1009, int(random.integers(30, 60)))):
        low = random.uniform(-4, 1.5)
        edges = np.linspace(low, low + random.uniform(60, 120), bins + 1)
        if n > 33:  # narrow ones and wide ones, and masses that lie on an edge
            edges[1:-1] += random.uniform(-0.4, 0.4, bins - 1) * (edges[1] - edges[0])
        masses = random.uniform(-5, 130, n)
        masses[1:4] = edges[[0, 5, -1]][: len(masses[1:4])]
        with_holes = [None if k % 7 == 3 else float(mass) for k, mass in enumerate(masses)]
        for values in (masses, with_holes):
            table = cudf.DataFrame({"mass": values})
            device_edges = cp.asarray(edges)
            with leaving() as left:
                counts = spectrum(table, device_edges)
            known = [mass for mass in values if mass is not None]
            case = f"with {n} masses, {n - len(known)} of them missing"
            left.demand_none(case, "which CuPy function does the same as `np.histogram`?")
            require(
                isinstance(counts, cp.ndarray),
                f"{case}, the result is {a_or_an(type(counts).__name__)}, not a CuPy array",
                look=("`cp.histogram` returns two arrays, the counts and the edges: return only "
                "the counts"),
            )
            right = np.histogram(known, edges)[0]
            require(
                counts.shape == right.shape,
                f"{case}, there are {counts.size} counts for {bins} bins",
                look="there is one bin fewer than there are numbers in `edges`",
            )
            _same(counts.get(), right, range(bins), f"{case}, the count of bin")
            require(
                np.array_equal(device_edges.get(), edges)
                and table["mass"].null_count == n - len(known),
                f"{case}, the counts are right, but `pairs` or `edges` has changed",
                look="make a new column or a new array instead of changing the input",
            )


@exercise(
    "own-function",
    hints=(
        "The idea: the sign of eta does not matter, so remove it first. Then write a chain of "
        "`if`, from the innermost region outwards.",
        "The shape: `eta = abs(eta)`, `if eta < 0.9: return 0`, and so on. The value 2.4 itself is "
        "still endcap, so use `<=` there.",
    ),
)
def own_function(region):
    """The function compiles, and every muon is in the right region."""
    import cudf

    edge = [0.0, 0.9, 1.2, 2.4, 2.5, 0.5, 1.0, 2.0, 40.0]
    values = np.array([*edge, *(-one for one in edge)])
    random = np.random.default_rng(94).uniform(-3, 3, 257)
    for eta in (values, random, random.astype(np.float32)):
        got = cudf.Series(eta).apply(region).to_numpy()
        size = np.abs(eta)
        right = np.select([size < 0.9, size < 1.2, size <= 2.4], [0, 1, 2], -1)
        wrong = np.flatnonzero(got != right)
        if len(wrong):
            k = wrong[0]
            require(
                False,
                f"for eta = {eta[k]:g}, your function returns {got[k]:g}, not {right[k]}",
                look=("which signs can eta have, and to which region does a value on a limit "
                "belong?"),
            )


def _muons(n: int) -> dict[str, np.ndarray]:
    """Rows of muons in no order, numbered within their events."""
    random = np.random.default_rng(90 + n)
    event = random.permutation(np.repeat(np.arange(5, 5 + 3 * n, 3), random.integers(0, 6, n))[:n])
    if not len(event):
        event = np.array([5])
    number = np.array([np.sum(event[:k] == event[k]) for k in range(len(event))])
    k = len(event)
    return {
        "event": event,
        "number": number,
        "pt": random.uniform(3, 60, k).astype(np.float32),
        "eta": random.uniform(-2.4, 2.4, k).astype(np.float32),
        "phi": random.uniform(-3, 3, k).astype(np.float32),
        "charge": random.choice(np.array([-1, 1], np.int32), k),
    }


def _pairs(table: dict[str, np.ndarray]) -> set[tuple]:
    """(event, lower number, higher number) of every pair of opposite charge."""
    event, number, charge = table["event"], table["number"], table["charge"]
    left, right = np.triu_indices(len(event), 1)
    kept = (event[left] == event[right]) & (charge[left] != charge[right])
    return {(int(event[a]), *sorted((int(number[a]), int(number[b]))))
            for a, b in zip(left[kept], right[kept], strict=True)}


def _as_it_came(given, table: dict[str, np.ndarray], case: str) -> None:
    require(
        [*given.columns] == [*table]
        and all(np.array_equal(given[name].to_numpy(), table[name]) for name in table),
        f"{case}, your function has changed its input table",
        look="`table[…] = …` and `inplace=True` change the input: use `assign`, or work on a copy",
    )


def _is_frame(answer, case: str) -> None:
    import cudf

    kind = f"{type(answer).__module__.split('.')[0]}.{type(answer).__name__}"
    require(
        isinstance(answer, cudf.DataFrame),
        f"{case}, the result is {a_or_an(kind)}, not a cudf.DataFrame",
        look="what type does the last step return, and is it on the device?",
    )


def _same(got, right, labels, what: str) -> None:
    for label, one, other in zip(labels, got, right, strict=True):
        require(
            one == other,
            f"{what} {label} is {one:g}, not {other:g}",
            look="which column do you use, and with which function?" if "`" in what else ("which values belong in this element?"),
        )

"""Goals for the course's kernels on a GPU, compared with the recorded run."""

from __future__ import annotations

from dataclasses import dataclass

from gpucourse.views.results import NOT_YET, NotMeasured, Results

UNKNOWN = "unknown until run on a GPU"


@dataclass(frozen=True)
class Aim:
    """Goal of a kernel: ``value`` (None if there are no times) against ``wanted``, as a ratio."""

    name: str
    wanted: float
    value: float | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """The text ``met`` or ``missed``, or a text that says it is unknown."""
        return UNKNOWN if self.value is None else "met" if self.value >= self.wanted else "missed"


#: Numba kernels and their CUDA C++ twins: (group, contender, twin).
TWINS = (
    ("quadratic.float64", "numba", "cpp"),
    ("reduction", "tree", "cpp"),
    ("histogram.peaks", "shared", "cpp"),
    ("mandelbrot.picture", "numba", "cpp"),
    ("mandelbrot.picture", "narrow", "cpp"),
)
#: Kernels limited by memory bandwidth: (group, contender).
STREAMING = (
    ("quadratic.float64", "numba"),
    ("quadratic.float64", "cupy-elementwise"),
    ("quadratic.float64", "cupy-fuse"),
    ("quadratic.float64", "cupy-fuse-product"),
    ("copy", "numba"),
)
#: Sums, with the share of CUB's speed that each should reach; those for teaching may be slower.
SUMS = (("tree", 0.95), ("shuffle", 0.95), ("eight", 0.97), ("vectors", 0.97))
#: jaxpile's three programs, of 1,048,576 elements: they may take at most 1.5 times as long as JAX.
PROGRAMS = ("equation_of_state", "isoneutral_mixing", "turbulent_kinetic_energy")


def aims(results: Results | None) -> list[Aim]:
    """Return the goals of the course's kernels for a recorded run (None if nothing was run)."""

    def share(group: str, contender: str):
        row = results.row(group, contender)
        return row.bandwidth("device") / results.copy_bandwidth()

    def against(group: str, one: str, other: str):
        return results.times_as_fast(results.row(group, one), results.row(group, other))

    wanted: list[tuple] = [
        (f"{group}/{contender}: share of the copy bandwidth", 0.90, share, (group, contender))
        for group, contender in STREAMING
    ]
    wanted += [
        (
            f"reduction/{one}: times as fast as cupy.sum (CUB)",
            least,
            against,
            ("reduction", one, "cupy"),
        )
        for one, least in SUMS
    ]
    wanted += [
        (
            f"{group}/shared: times as fast as cupy.histogram",
            1.0,
            against,
            (group, "shared", "cupy"),
        )
        for group in ("histogram.peaks", "histogram.even")
    ]
    wanted.append(
        (
            "histogram.peaks/eight: times as fast as CUB's for even bins",
            0.8,
            against,
            ("histogram.peaks", "eight", "cub"),
        )
    )
    wanted += [
        (f"{group}/{one}: times as fast as its CUDA C++ twin", 0.95, against, (group, one, twin))
        for group, one, twin in TWINS
    ]
    wanted += [
        (f"{group}/jax: times as fast as CuPy's fuse", 1.0, against, (group, "jax", "cupy-fuse"))
        for group in ("quadratic.float64", "quadratic.float32")
    ]
    wanted += [
        (
            f"jaxpile.{name}/jaxpile: times as fast as jax.jit",
            0.67,
            against,
            (f"jaxpile.{name}", "jaxpile", "jax"),
        )
        for name in PROGRAMS
    ]
    found = []
    for name, least, how, arguments in wanted:
        try:
            value, why = (None, "") if results is None else (how(*arguments), "")
        except NotMeasured as missing:
            value, why = None, str(missing)
        found.append(Aim(name, least, value, why))
    return found


def aims_table(results: Results | None) -> str:
    """Return the goals as a Markdown table."""
    where = f"On {results.where}." if results else NOT_YET
    lines = [
        "# What the kernels should reach on a GPU",
        "",
        "Ratios of medians in one run, from `gpu_bench.json`; `make bench-gpu` writes both files.",
        "",
        where,
        "",
        "| row and aim | at least | measured | |",
        "|---|---|---|---|",
    ]
    for aim in aims(results):
        measured = "–" if aim.value is None else f"{aim.value:.3f}"
        lines.append(f"| {aim.name} | {aim.wanted:.2f} | {measured} | {aim.verdict} |")
    return "\n".join(lines) + "\n"

"""The card of a launch: its counts, its words, and what it makes of mistakes."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda

import kernels_to_see as kernels
import virtualgpu
from gpucourse import beside, report
from gpucourse.views import page as page_of_views
from gpucourse.views import words
from gpucourse.views.launch import card, listing, real_gpu
from gpucourse.views.launch.runs import Launch, copy_arguments, observe
from messages import assert_tells
from virtualgpu.watch.counters import Counters

pytestmark = pytest.mark.slow

X = np.arange(1024, dtype=np.float32)
TILE = np.zeros((32, 32), np.float32)
LAUNCHES = [
    (kernels.copy, 8, 128, X, np.zeros_like(X)),
    (kernels.strided, 8, 128, X, np.zeros_like(X)),
    (kernels.block_sum, 16, 64, X, np.zeros(1, np.float32)),
    (kernels.by_columns, 1, (32, 32), TILE, TILE),
    (kernels.odd_and_even, 3, 48, X[:100], np.zeros(100, np.float32)),
]


def profiled(kernel, grid, block, *arguments) -> Counters:
    with virtualgpu.profile() as profile:
        kernel[grid, block](*[cuda.to_device(a) for a in arguments])
    return profile.launches[0].counters


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch[0].py_func.__name__)
def test_counts_are_those_of_profile(launch):
    expected = profiled(*launch)
    observed = observe(Launch.of(*launch[:3], launch[3:]))
    assert observed.profile.counters == expected
    text = str(report(*launch))
    assert f"{expected.warp_instructions:,} instruction" in text
    column = re.findall(r"^ *\d* +(?:<?\d+ %) +([\d,]+)", text, re.MULTILINE)
    assert sum(int(n.replace(",", "")) for n in column) == expected.warp_instructions


def test_arguments_stay_as_they_are():
    x = np.ones(64, np.float32)
    there = cuda.to_device(np.ones(64, np.float32))
    report(kernels.unguarded, 2, 32, x)
    report(kernels.unguarded, 2, 32, there)
    assert (x == 1).all() and (there.copy_to_host() == 1).all()


def test_copies_keep_layouts_and_aliases():
    grid = np.arange(24.0).reshape(4, 6)
    view, turned, same, plain, again = copy_arguments((grid[:, ::2], grid.T, grid, 3, grid))
    assert view.strides == grid[:, ::2].strides and turned.strides == grid.T.strides
    assert (view.copy_to_host() == grid[:, ::2]).all()
    assert same is again and plain == 3
    observed = observe(Launch.of(kernels.copy, 1, 32, (np.arange(64.0)[::2], np.zeros(32))))
    assert observed.after[1].copy_to_host().tolist() == list(range(0, 64, 2))
    loads = observed.profile.counters
    assert loads.global_load_sectors == 2 * loads.global_store_sectors


def test_plain_words_say_what_would_do():
    def told(launch) -> str:
        return " ".join(str(report(*launch)).split())

    text = told(LAUNCHES[1])
    assert re.search(r"! global loads [^✓]*32 sectors of 32 bytes[^✓]* 4 would do", text)
    assert re.search(r"✓ global stores .* 4 sectors of 32 bytes", text)
    assert_tells(told(LAUNCHES[3]), "32 wavefronts", "1 would do", "992 extra")
    lanes = told(LAUNCHES[4])
    assert_tells(lanes, "blocks of 48 threads", "last warp", "diverged within a warp")


def test_hottest_line_is_shaded_most():
    markup = report(*LAUNCHES[1])._repr_html_()
    shades = {
        float(shade): code
        for shade, code in re.findall(
            r'rgba\(230,140,0,([\d.]+)\)"><td[^>]*>[^<]*</td><td class="code">([^<]*)', markup
        )
    }
    assert "x[i * 32 % x.size]" in shades[max(shades)]
    assert max(shades) == card.HOTTEST


def test_a_lines_cost_counts_instructions_and_the_further_turns_of_memory():
    counted = Counters(
        warp_instructions=10,
        global_load_requests=2,
        global_load_sectors=8,
        shared_store_requests=1,
        shared_store_wavefronts=4,
        shared_store_conflicts=3,
        global_atomics=64,
        global_atomic_requests=2,
        atomic_passes=7,
    )
    assert listing.cost(counted) == 10 + (8 - 2) + 3 + (7 - 2)
    (part,) = listing.parts(profiled(*LAUNCHES[1]), "strided")
    assert sum(line.cost for line in part.lines) == pytest.approx(1)


def test_findings_come_first_and_say_where():
    view = report(kernels.no_barrier, 1, 64, X[:64], np.zeros(64, np.float32))
    text = str(view)
    assert text.index("✗ race") < text.index("lanes") < text.index("cost")
    assert "s[t] = x[t]" in text and "out[t] = s[63 - t]" in text
    assert view.markup.index('class="found"') < view.markup.index("<table")
    assert 'class="clean"' not in view.markup


def test_a_kernel_that_faults_half_way_gives_its_card():
    view = report(kernels.unguarded, 4, 32, np.ones(100, np.float32))
    text = str(view)
    assert "✗ bad address" in text and "28 of them" not in text
    assert "x[i] *= 2" in text
    assert "The launch was stopped" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("grid", [0, (0, 1), (1, 0)])
def test_an_empty_grid_gives_a_card_that_says_so(grid):
    text = str(report(kernels.unguarded, grid, 32, np.ones(4, np.float32)))
    assert "every dimension must be at least 1" in text and "nothing was launched" in text


def test_a_block_that_is_too_large():
    text = str(report(kernels.unguarded, 1, 2048, np.ones(4, np.float32)))
    assert "at most 1024" in text


def test_a_kernel_without_source():
    text = str(report(kernels.sourceless, 1, 32, np.zeros(32, np.float32)))
    assert "✓ global loads" in text and "cost" in text
    no_lines = listing.parts(Counters(), "kernel")
    assert no_lines == []


def test_cuda_cpp_has_its_lines_too():
    import cupy

    twice = cupy.RawKernel(
        """extern "C" __global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        x[i] *= 2;
}""",
        "twice",
    )
    x = cupy.ones(96, cupy.float32)
    good = str(report(twice, 3, 32, x, np.int32(95)))
    assert "✓ global loads" in good and "    int i = blockIdx.x" in good
    bad = str(report(twice, 4, 32, x, np.int32(96)))
    assert "✗ bad address" in bad and "x[i] *= 2;" in bad
    assert float(x.sum()) == 96


def test_a_raw_kernel_is_given_cupys_arrays():
    """It refuses Numba's, which copies of NumPy's arrays are: for the counts and for the clock."""
    import cupy

    twice = cupy.RawKernel(
        'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }', "twice"
    )
    for x in (
        np.ones(32, np.float32),
        cuda.to_device(np.ones(32, np.float32)),
        cupy.ones(32, cupy.float32),
    ):
        text = str(report(twice, 1, 32, x))
        assert "✓ global loads" in text and "✗" not in text
        assert np.isnan(real_gpu.milliseconds(Launch.of(twice, 1, 32, (x,))))  # no GPU ran


@pytest.mark.rehearsal
def test_a_report_leaves_the_stand_ins_in_place_where_numba_was_never_imported():
    """As in a notebook that uses CuPy alone: later imports of it still find the stand-in."""
    program = """
import sys
from gpucourse.notebook.extension import prepare_virtual
prepare_virtual()
import cupy, gpucourse
twice = cupy.RawKernel('extern "C" __global__ void twice(double *x) { *x *= 2; }', "twice")
assert "numba.cuda" not in sys.modules
text = str(gpucourse.report(twice, 1, 1, cupy.ones(1)))
import cupyx.profiler
assert sys.modules["cupy"] is cupy
print(text)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert "✓ No race" in ran.stdout, ran.stderr


def test_lines_of_device_functions_stand_below():
    # Inlined code carries its caller's line, so what a larger function would give is made up.
    counters = Counters(
        warp_instructions=30,
        by_line={
            (function.__code__.co_filename, function.__code__.co_firstlineno + offset): Counters(
                warp_instructions=10
            )
            for function, offset in (
                (kernels.weight.py_func, 2),
                (kernels.weighted.py_func, 2),
                (kernels.weighted.py_func, 3),
            )
        },
    )
    parts = listing.parts(counters, "weighted")
    assert [part.title.split(" ")[0] for part in parts] == ["weighted", "weight"]
    assert any("return value * value + 1" in line.code for line in parts[1].lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((kernels.copy[1, 32], X, X), "already has its brackets"),
        ((None, 1, 32), "not kernel\\[grid, block\\]"),
        ((lambda x: x, 1, 32, X), "Write @cuda.jit above its def"),
        ((42, 1, 32, X), "an? int, not a kernel"),
        ((kernels.copy, X, X), "the grid must be .* not an array of shape \\(1024,\\)"),
        ((kernels.copy, 1000 / 32, 32, X, X), "Use // instead of /"),
        ((kernels.copy, 4, X, X), "the block must be .* not an array"),
        ((kernels.copy,), "the grid must be .* not None. The arguments are the kernel"),
        ((kernels.copy, (1, 2, 3, 4), 32, X, X), "one to three integers"),
    ],
)
def test_forgotten_brackets_and_other_slips_are_told(arguments, message):
    with pytest.raises(TypeError, match=message):
        report(*arguments)


def test_cards_are_small_and_need_no_network():
    for launch in LAUNCHES:
        markup = report(*launch)._repr_html_()
        assert len(markup) < 60_000
        assert "<script" not in markup and "http" not in markup and "@import" not in markup


def test_a_long_kernel_is_cut(monkeypatch):
    monkeypatch.setattr(listing, "MOST_LINES", 12)  # 120 take 4 s to compile
    body = "".join(f"    x[cuda.grid(1)] += {n}\n" for n in range(30))
    space = {"cuda": cuda}
    source = f"@cuda.jit\ndef long_kernel(x):\n{body}"
    import linecache

    linecache.cache["long_kernel.py"] = (
        len(source),
        None,
        source.splitlines(True),
        "long_kernel.py",
    )
    exec(compile(source, "long_kernel.py", "exec"), space)
    text = str(report(space["long_kernel"], 1, 32, np.zeros(32)))
    assert "are not shown" in text
    assert text.count("x[cuda.grid(1)] +=") <= listing.MOST_LINES


def test_everything_is_escaped():
    markup = report(kernels.copy, 1, 32, X, X)._repr_html_()
    assert "i &lt; out.size" in markup and "i < out.size" not in markup


def test_without_its_style_sheet_a_view_is_its_words():
    view = report(kernels.copy, 1, 32, X, X)
    markup = view._repr_html_()
    style, rest = markup.split("</style>", 1)
    assert rest.startswith('<pre class="gpuc-words">') and "Trust Notebook" in rest
    assert "touched 4 sectors" in rest
    words = rest[: rest.index("</pre>")].split("\n")
    assert max(map(len, words)) < 120 and html.escape(view.text).split("\n")[-1] in words
    assert '<div class="gpuc-picture" hidden="hidden">' in rest
    assert ".gpuc-words{display:none!important}" in style
    assert ".gpuc-picture[hidden]{display:block!important}" in style


def test_views_stand_beside_each_other():
    one = report(kernels.copy, 1, 32, X, X)
    both = beside(one, one)
    assert both.markup.count(one.markup) == 2 and both.text.count(one.text) == 2
    with pytest.raises(TypeError, match="takes views"):
        beside(one, "two")


def test_numbers_in_words():
    assert [words.number(v) for v in (32.0, 4.54, 12345.6, 0.011, float("nan"))] == [
        "32",
        "4.5",
        "12,346",
        "0.011",
        "–",
    ]
    assert [words.size(n) for n in (12, 400_000, 3_200_000, 2.5e9)] == [
        "12 B",
        "400 kB",
        "3.2 MB",
        "2.5 GB",
    ]
    assert words.share(0.004) == "<1 %" and words.share(0.256) == "26 %"
    assert words.many(1, "branch", "branches") == "1 branch"
    assert words.geometry((4,), (48,)).endswith(
        "192 threads in 8 warps, the last of each block with 16 of 32 lanes"
    )


def test_without_the_virtual_gpu_switched_on_it_serves_for_the_launch():
    """As beside a real GPU: switched on for the launch, and off again."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np\nfrom numba import cuda\n"
        "import gpucourse, virtualgpu\n"
        "@cuda.jit(fastmath=True)\n"
        "def scale(x):\n    x[cuda.grid(1)] *= 2\n"
        "x = np.ones(64, np.float32)\n"
        "for _ in range(2):\n    text = str(gpucourse.report(scale, 2, 32, x))\n"
        "    assert not virtualgpu.is_active()\n"
        "print(text)\nassert (x == 1).all()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "."],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 0, ran.stderr
    assert "scale[2, 32]" in ran.stdout and "✓ global loads" in ran.stdout


# --- read by everybody --------------------------------------------------------------------------

Colour = tuple[float, ...]
# Letters and paper: JupyterLab's themes, and the site's.
PAGES = {
    "lab dark": ((255, 255, 255), (17, 17, 17)),
    "site dark": ((207, 208, 208), (19, 20, 22)),
    "lab light": ((33, 33, 33), (255, 255, 255)),
    "site light": ((0, 0, 0), (255, 255, 255)),
}


def over(share: float, above: Colour, below: Colour) -> Colour:
    return tuple(share * a + (1 - share) * b for a, b in zip(above, below, strict=True))


def contrast(one: Colour, other: Colour) -> float:
    """As WCAG 2.2 defines it, between 1 and 21."""

    def luminance(colour: Colour) -> float:
        parts = [part / 255 for part in colour]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", PAGES)
def test_letters_of_a_card_can_be_read_on_every_page(page):
    """4.5 : 1 for plain letters, faint ones, signs, and on the costliest line."""
    letters, paper = PAGES[page]
    style = page_of_views.STYLE
    faint = int(re.search(r"--gpuc-faint:color-mix\(in srgb,currentColor (\d+)%", style)[1]) / 100
    assert contrast(over(faint, letters, paper), paper) >= 4.5
    for sign in ("good", "costly"):
        colour, share = re.search(
            rf"\.{sign}{{color:color-mix\(in srgb,#(\w{{6}}) (\d+)%,currentColor\)", style
        ).groups()
        rgb = tuple(int(colour[n : n + 2], 16) for n in (0, 2, 4))
        assert contrast(over(int(share) / 100, rgb, letters), paper) >= 4.5, sign
    assert contrast(letters, over(card.HOTTEST, (230, 140, 0), paper)) >= 4.5


def test_no_letters_of_a_shaded_line_are_faint_and_what_scrolls_is_reached_by_keyboard():
    markup = report(*LAUNCHES[1])._repr_html_()
    rows = re.findall(r'<tr style="background:rgba\(230.*?</tr>', markup)
    assert rows and not any("faint" in row for row in rows)
    assert '<td class="n faint">' in markup  # of lines that are not shaded
    for opening in re.findall(r'<div class="scroll"[^>]*>', markup):
        assert 'tabindex="0"' in opening and "aria-label=" in opening
    assert '<div class="scroll"' in markup

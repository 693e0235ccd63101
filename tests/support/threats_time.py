"""Row 71: text on which a careless pattern or loop takes minutes. Answers are right besides."""

from __future__ import annotations

from dataclasses import replace

from threats import FULL, LIMITS, SCALE, Attempt
from threats_files import on
from threats_kernels import HEAD, SIXTEEN, WAITS_FOR_ITSELF

BLANKS = 190_000
NOWHERE = "def double(\n" + BLANKS * " " + "x\n"
# Nobody knows what they would be: each is looked through for its end.
ENVIRONMENTS = "\\begin{align}\n" * 14_000
# Four megabytes of each would be too long a test; what is asked is that they end on the clock.
SHORT = replace(LIMITS, test_seconds=6.0)
PTX = {
    "comments": ("unclosed comments", "'/*' * 1_000_000"),
    "strings": ("unclosed strings", "'\"' * 999_999"),
    "digits": ("a number of a million digits", "'.global .b32 x = ' + '7' * 1_000_000 + ';'"),
    "a-name": ("a name of a million letters", "head + 'call ' + 'x' * 1_000_000 + '; ret; }'"),
    "straight": (
        "60,000 instructions in a row",
        "head + 'add.u32 %r1, %r1, 1;' * 60_000 + 'ret; }'",
    ),
    "labels": (
        "100,000 labels",
        "head + ''.join(f'L{n}: bra L{n + 1};' for n in range(100_000)) + 'L100000: ret; }'",
    ),
    "branches": (
        "30,000 conditions",
        "head + ''.join(f'@%p bra L{n}; add.u32 %r1, %r1, 1; L{n}:' "
        "for n in range(30_000)) + 'ret; }'",
    ),
}
# Where the clock runs out on a slow machine, and the answer is wrong on a fast one.
SLOW = ("straight", "labels", "branches")
START = f"{HEAD}.visible .entry k({SIXTEEN}) {{ .reg .b32 %r<9>; .reg .pred %p;"
BY_HAND = (
    f"""try:
    from virtualgpu.numba import kernel_ptx
    head = {START!r}
    text = TEXT
    kernel_ptx.compile_kernel = lambda *args: kernel_ptx.CompiledKernel([text], "k", False)
except ImportError:
    pass
"""
    + SCALE
)

ATTEMPTS = [
    Attempt(
        71,
        "blanks",
        "a syntax error beside 190,000 blanks",
        {"double": NOWHERE},
        says="syntax error",
    ),
    Attempt(
        71,
        "latex-environments",
        "a written answer of 14,000 LaTeX environments",
        change=on("why", lambda cell: cell.update(source=ENVIRONMENTS)),
        earns=FULL,
    ),
    *(
        Attempt(
            71,
            f"ptx-{name}",
            f"PTX made by hand: {what}",
            {"scale": BY_HAND.replace("TEXT", text)},
            assignment="kernels",
            limits=SHORT,
            says="" if name in SLOW else "the kernel 'scale'",
            stock=WAITS_FOR_ITSELF,
        )
        for name, (what, text) in PTX.items()
    ),
]

"""Table of primitives for the README, from the registry.

This command prints it::

    python -m jaxpile.table
"""

from __future__ import annotations

from jaxpile.primitives import default_registry

#: Missing primitives that programs use most often; each is refused by its name.
MISSING = (
    "approx_top_k",
    "bessel_i0e",
    "debug_callback",
    "eigh",
    "fft",
    "igamma",
    "io_callback",
    "pure_callback",
    "qr",
    "random_gamma",
    "reduce_window",
    "rng_bit_generator",
    "svd",
)


def table() -> str:
    """Return two rows of Markdown: primitives with a translator, and those without."""
    registry = default_registry()
    wrong = sorted(set(MISSING) & set(registry))
    if wrong:
        raise ValueError(f"{', '.join(wrong)} have translators now. Remove them from MISSING")

    def row(names) -> str:
        return ", ".join(f"`{name}`" for name in sorted(names))

    return (
        f"| | |\n|---|---|\n| translated ({len(registry)} names) | {row(registry)} |\n"
        f"| missing, among others | {row(MISSING)} |\n"
    )


if __name__ == "__main__":
    print(table(), end="")

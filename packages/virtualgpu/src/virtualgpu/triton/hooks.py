"""Hooks that direct Triton to the virtual GPU once it is imported."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from virtualgpu.after_import import after_import, forget
from virtualgpu.installing import pip_install

# Part of the keys of Triton's cache, because cached code for a GPU is machine code.
KEY = "-virtualgpu-ptx"

_before: list[tuple[Any, Any, Any, Any]] = []  # (driver, its choice, knobs, their hook)
_benches: list[tuple[Any, Any]] = []  # (triton.testing, its do_bench)


def install() -> None:
    """Make Triton find the virtual GPU, now or when it is imported."""
    after_import("triton", _adapt)


def remove() -> None:
    """Undo :func:`install`."""
    forget("triton")
    for driver, active, knobs, hook in _before:
        driver._active = active  # reset_active() would look for a GPU
        knobs.add_stages_inspection_hook = hook
    _before.clear()
    forget("triton.testing")
    while _benches:
        testing, theirs = _benches.pop()
        testing.do_bench = theirs


def _adapt(triton: ModuleType) -> None:
    if _before:
        return
    try:
        from triton import knobs
        from triton.runtime import driver

        from virtualgpu.triton.driver import VirtualDriver
    except ImportError as error:  # another version, or a file of that name
        warnings.warn(
            f"the virtual GPU cannot run kernels of this version of triton: {error}. To install "
            f"a version that it can run: {pip_install('virtualgpu[triton]')}",
            UserWarning,
            stacklevel=2,
        )
        return
    theirs = knobs.runtime.add_stages_inspection_hook
    _before.append((driver, driver._active, knobs.runtime, theirs))

    def end_at_ptx(backend=None, stages=None, options=None, language=None, capability=None):
        """Make PTX the result of the last stage, in place of machine code for a GPU.

        Called without arguments, it returns ``(key, hash)``, which identify these stages in
        Triton's cache.
        """
        if stages is None:
            key, digest = theirs() if theirs else ("", "")
            return key + KEY, digest + KEY
        if theirs:
            theirs(backend, stages, options, language, capability)
        stages["cubin"] = lambda ptx, metadata: ptx.encode()

    knobs.runtime.add_stages_inspection_hook = end_at_ptx
    driver.set_active(VirtualDriver())
    after_import("triton.testing", _without_times)


def _without_times(testing: Any) -> None:
    """Replace ``do_bench``: it runs its function once, and warns that nothing is timed."""
    from virtualgpu.triton.driver import untimed

    def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
        found = untimed(fn, quantiles=quantiles)
        return [found] if return_mode == "all" and quantiles is None else found

    _benches.append((testing, testing.do_bench))
    testing.do_bench = do_bench

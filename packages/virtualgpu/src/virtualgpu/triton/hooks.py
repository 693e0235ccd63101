"""Switching Triton over to a device of ours, once it is imported."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from virtualgpu.after_import import after_import, forget
from virtualgpu.installing import pip_install

# Part of the keys of Triton's cache: what lies there for a GPU is machine code.
KEY = "-virtualgpu-ptx"

_before: list[tuple[Any, Any, Any, Any]] = []  # (driver, its choice, knobs, their hook)
_benches: list[tuple[Any, Any]] = []  # (triton.testing, its do_bench)


def install() -> None:
    """Have Triton find a device of ours, now or when it is imported."""
    after_import("triton", _adapt)


def remove() -> None:
    """Undo :func:`install`."""
    forget("triton")
    for driver, active, knobs, hook in _before:
        driver._active = active  # reset_active() looks for a GPU
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
            f"the virtual GPU cannot run kernels of this triton: {error}; "
            f"{pip_install('virtualgpu[triton]')} gives one that it can",
            UserWarning,
            stacklevel=2,
        )
        return
    theirs = knobs.runtime.add_stages_inspection_hook
    _before.append((driver, driver._active, knobs.runtime, theirs))

    def end_at_ptx(backend=None, stages=None, options=None, language=None, capability=None):
        """Return the PTX, as the last stage, in place of the machine code of a GPU.

        Called with nothing: ``(key, hash)``, which tell what comes from these stages.
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
    """Have ``do_bench`` run its function once and say that there is no time here."""
    from virtualgpu.triton.driver import untimed

    def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
        found = untimed(fn, quantiles=quantiles)
        return [found] if return_mode == "all" and quantiles is None else found

    _benches.append((testing, testing.do_bench))
    testing.do_bench = do_bench

"""``pytest --virtual-gpu``: a project's CUDA tests on the virtual GPU, every launch checked.

Numba kernels run without a GPU, and a test fails if ``virtualgpu.check()`` finds a race, a barrier
that not all threads reach, or a read of unwritten memory, also where the result was right
by luck. Kernels that a test launches in its fixtures run unchecked.

``--virtual-gpu-seed N`` runs the threads in a random order as well (``virtualgpu.schedule``).

A test that launches a faulty kernel on purpose is left alone with
``@pytest.mark.virtualgpu_unchecked``. Errors that a kernel raises (bad addresses, deadlocks)
fail a test as any exception does, and ``pytest.raises`` may expect them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext

import pytest

RAISED = ("memory", "deadlock", "other")  # findings that come with an exception


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virtualgpu", "CUDA kernels without a GPU")
    group.addoption(
        "--virtual-gpu", action="store_true",
        help="run numba.cuda kernels on the virtual GPU, even beside a real one, and fail tests "
             "whose kernels have races, bad barriers or reads of unwritten memory")
    group.addoption(
        "--virtual-gpu-seed", type=int, metavar="N",
        help="with --virtual-gpu: run threads in the random order number N")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "virtualgpu_unchecked: launches a faulty kernel on purpose (--virtual-gpu "
                   "runs it unchecked)")
    if config.getoption("--virtual-gpu"):
        import virtualgpu

        # Before test modules are imported: numba asks for devices when a kernel is declared
        # with a signature.
        virtualgpu.activate(force=True)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--virtual-gpu"):
        return None
    seed = config.getoption("--virtual-gpu-seed")
    order = "" if seed is None else f", threads in random order {seed}"
    return f"virtual GPU: numba.cuda kernels run on the CPU, every launch checked{order}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if not item.config.getoption("--virtual-gpu"):
        return (yield)
    import virtualgpu

    seed = item.config.getoption("--virtual-gpu-seed")
    order = nullcontext() if seed is None else virtualgpu.schedule(seed)
    if item.get_closest_marker("virtualgpu_unchecked"):
        with order:
            return (yield)
    with virtualgpu.check() as report, order:
        try:
            result = yield
        except BaseException:
            if not report.ok:  # beside the failure: perhaps its reason
                item.add_report_section("call", "virtual GPU", str(report))
            raise
    if any(finding.kind not in RAISED for finding in report.findings):
        pytest.fail(f"virtual GPU, {report}", pytrace=False)
    return result

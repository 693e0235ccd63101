"""``pytest --virtual-gpu``: a project's CUDA tests on the virtual GPU, every launch checked.

Kernels run without a GPU from the first ``conftest.py`` on. A test fails if ``virtualgpu.check()``
finds a race, a barrier that not all threads reach, or a read of unwritten memory in the test or in
its fixtures, even if the result happened to be right. The last line of the output shows the number
of checked launches; ``--virtual-gpu-require`` fails a run without any.

Errors that a kernel raises (bad addresses, deadlocks) fail a test like any other exception, and
``pytest.raises(virtualgpu.MemoryAccessError)`` can expect them. Launches of a test with
``@pytest.mark.virtual_gpu_unchecked`` are not checked, for a test that launches a faulty kernel on
purpose.

There are more markers. ``virtual_gpu_seeds(1, 2, 3)`` runs a test once for each seed, with its
threads in that random order (``virtualgpu.schedule``). ``virtual_gpu_time_limit(60)`` gives its
launches 60 seconds of processor time. ``virtual_gpu_accept("file.py:LINE: reason")`` accepts
findings at a line or in a kernel. ``virtual_gpu_streams`` also finds missing synchronisation
between streams. All these settings, and ``unchecked``, can also be set for all tests by an option
or in the configuration file. A marker takes precedence over an option, and an option over the file.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from virtualgpu.pytest_plugin import options
from virtualgpu.pytest_plugin.options import pytest_addoption  # noqa: F401  (a hook)

_RUN = "virtualgpu-run"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Activate first, because a conftest.py may ask ``cuda.is_available()`` or launch kernels."""
    if not options.known_options(early_config).virtual_gpu:
        return (yield)
    with _start(early_config).around_conftests():
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    for marker in options.MARKERS:
        config.addinivalue_line("markers", marker)
    options.refuse_without_switch(config)
    # A plugin that a conftest.py names was not asked to load the initial conftest.py.
    if config.getoption("virtual_gpu") and not config.pluginmanager.has_plugin(_RUN):
        _start(config)


def _start(config: pytest.Config):
    """Switch the virtual GPU on, and register and return the plugin that watches the run."""
    chosen = options.of_run(config)

    import virtualgpu
    from virtualgpu.numba import simulator
    from virtualgpu.pytest_plugin.summary import Summary
    from virtualgpu.pytest_plugin.watching import Watching

    try:
        told = simulator.switch_off()  # said by the header: a warning may be an error here
    except simulator.SimulatorError as error:
        raise pytest.UsageError(str(error)) from None
    virtualgpu.activate(force=True, standins=chosen.standins)
    run = Watching(config, chosen)
    config.pluginmanager.register(run, _RUN)
    config.pluginmanager.register(Summary(config, chosen, told), f"{_RUN}-summary")
    return run

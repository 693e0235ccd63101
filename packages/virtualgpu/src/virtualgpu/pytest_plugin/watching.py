"""Observers of a run of ``pytest --virtual-gpu``: conftest files, collection, and each test."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from virtualgpu import devices, tracebacks
from virtualgpu.accepting import Acceptance, split
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.errors import BudgetExceeded, EndlessError, VirtualGPUError
from virtualgpu.findings import Finding, Report, from_error
from virtualgpu.lanes.events import Observer
from virtualgpu.launch.limits import Budget
from virtualgpu.launch.sampling import Sample
from virtualgpu.pytest_plugin import options
from virtualgpu.pytest_plugin.options import SEED, Settings
from virtualgpu.pytest_plugin.summary import heading, note
from virtualgpu.watch import instruments

RAISED = ("memory", "deadlock", "other")  # findings that are raised as an exception

_CHOSEN = pytest.StashKey[Settings]()
_FOUND = pytest.StashKey[Report]()
_STREAMS = pytest.StashKey[tuple[Observer, ...]]()
_NEEDED = pytest.StashKey[dict[Acceptance, int]]()

MORE_TIME = (
    "a launch may use more with --virtual-gpu-time-limit SECONDS, virtual_gpu_time_limit "
    "in the configuration or @pytest.mark.virtual_gpu_time_limit(seconds)"
)


class Watching:
    """The hooks of one process that runs tests."""

    def __init__(self, config: pytest.Config, chosen: Settings):
        self._config, self._run = config, chosen
        self._report = Report()
        stack = ExitStack()
        self._checkers = stack.enter_context(instruments.checkers(self._report))
        config.add_cleanup(stack.close)

    @contextmanager
    def around_conftests(self) -> Iterator[None]:
        """Raise pytest.UsageError for faults in the kernels of initial conftest files."""
        with self._watched(self._run, self._streams(self._run)):
            yield
        wrong, _ = _to_tell(self._report, self._run)
        if wrong.findings:
            raise pytest.UsageError(f"in a conftest.py, {self._told(wrong)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Observe kernels that a module launches when it is imported, as for a test."""
        with self._watched(self._run, self._streams(self._run)):
            report = yield
        found = self._take()
        wrong, needed = _to_tell(found, self._run)
        if wrong.findings and report.passed:
            report.outcome, report.longrepr = "failed", self._told(wrong)
        note(report, found, wrong, needed)
        return report

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        marker = metafunc.definition.get_closest_marker("virtual_gpu_seeds")
        seeds = self._run.seeds if marker is None else marker.args
        if len(seeds) > 1:
            metafunc.fixturenames.append(SEED)
            metafunc.parametrize(SEED, seeds, ids=[f"seed{one}" for one in seeds])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            chosen = options.of_test(item, self._run)
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            # Tests that take no parameters, such as those of unittest, run with the first seed.
            seeds = (options.seed(parameters[SEED]),) if SEED in parameters else chosen.seeds[:1]
            item.stash[_CHOSEN] = replace(chosen, seeds=seeds)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "teardown"))

    def _phase(self, item: pytest.Item, when: str) -> Generator[None, object, object]:
        __tracebackhide__ = True
        try:
            chosen = item.stash.get(_CHOSEN, self._run)
            if when == "setup":  # one for each test, so that a test sees only its own work
                item.stash[_STREAMS] = self._streams(chosen)
                item.stash[_NEEDED] = {}
            with self._watched(chosen, item.stash[_STREAMS]):
                result = yield
        except BaseException as error:
            found = item.stash[_FOUND] = self._told_of(item, self._take())
            if found.findings:  # reported with the failure, because it may be the reason
                item.add_report_section(when, "virtual GPU", str(found))
            if isinstance(error, VirtualGPUError):
                found.findings.append(_as_finding(error))
            if isinstance(error, BudgetExceeded) and not isinstance(error, EndlessError):
                item.add_report_section(when, "virtual GPU", MORE_TIME)
            raise
        item.stash[_FOUND] = wrong = self._told_of(item, self._take())
        if wrong.findings:
            pytest.fail(self._told(wrong), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, VirtualGPUError) and not self._config.getoption("fulltrace"):
            before = error.__context__
            if before is not None and tracebacks.own(before.__traceback__) is None:
                error.__suppress_context__ = True  # a launch that began again has no lines of these
            call.excinfo = pytest.ExceptionInfo.from_exception(
                error.with_traceback(tracebacks.own(error.__traceback__) or error.__traceback__)
            )
        report = yield
        found = item.stash.get(_FOUND, Report())
        if report.failed:
            self._begin_with_the_place(report, error, found)
        needed = item.stash.get(_NEEDED, {})
        chosen = item.stash.get(_CHOSEN, self._run)
        if report.when == "call" and report.passed and not chosen.unchecked:
            own = chosen.accepted[: len(chosen.accepted) - len(self._run.accepted)]
            found.notes += [
                f"{one} is accepted ({one.reason}) and was not found: remove this entry"
                for one in own
                if one not in needed
            ]
        last = report.when == "teardown"
        note(report, found, found if report.failed else Report(), needed if last else {})
        return report

    def _told_of(self, item: pytest.Item, found: Report) -> Report:
        """Return the findings to report for a phase, and record accepted ones for the test."""
        wrong, needed = _to_tell(found, item.stash.get(_CHOSEN, self._run))
        known = item.stash.setdefault(_NEEDED, {})
        for one, count in needed.items():
            known[one] = known.get(one, 0) + count
        return wrong

    def _begin_with_the_place(
        self, report: pytest.TestReport, error: BaseException | None, found: Report
    ) -> None:
        """Make the short summary begin with the kind and the line."""
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is None:
            return
        if isinstance(error, VirtualGPUError):
            crash.message = f"{heading([_as_finding(error)], self._config)}: {error.message}"
        elif found.findings:
            head = heading(found.findings, self._config)
            crash.message = (
                head
                if isinstance(error, pytest.fail.Exception) and str(error).startswith(head)
                else f"{head}; {crash.message}"
            )

    def _told(self, wrong: Report) -> str:
        return f"{heading(wrong.findings, self._config)}\nvirtual GPU, {wrong}"

    def _streams(self, chosen: Settings) -> tuple[Observer, ...]:
        """Return the observer of missing synchronisation, if selected.

        The observer keeps all queued work.
        """
        if not chosen.streams:
            return ()
        from virtualgpu.observed import streamcheck

        return (streamcheck(self._report, self._checkers[1]),)

    @contextmanager
    def _watched(self, chosen: Settings, streams: tuple[Observer, ...]) -> Iterator[None]:
        """Run launches inside the context with the test's settings."""
        with ExitStack() as stack:
            stack.enter_context(_time_limit(chosen.time_limit))
            if chosen.huge is not None:
                stack.enter_context(_huge_from(chosen.huge))
                stack.enter_context(instruments.sampled(Sample(huge_only=True)))
            for seed in chosen.seeds:
                stack.enter_context(instruments.schedule(seed))
            if not chosen.unchecked:
                stack.enter_context(instruments.watch(*streams, *self._checkers))
            yield

    def _take(self) -> Report:
        """Return the findings since the last call."""
        report = self._report
        taken = Report(list(report.findings), report.launches, list(report.notes))
        report.findings.clear()
        report.notes.clear()
        report.launches = 0
        return taken


def _to_tell(found: Report, chosen: Settings) -> tuple[Report, dict[Acceptance, int]]:
    """Return a report without known or accepted findings.

    An exception may already have reported a finding, and the test may have expected it. The second
    result is the number of times that each acceptance was needed.
    """
    left, needed = split((one for one in found.findings if one.kind not in RAISED), chosen.accepted)
    return replace(found, findings=left), needed


def _as_finding(error: VirtualGPUError) -> Finding:
    """Return an error that stopped a launch as a finding.

    If there is no kind of finding for it, or only a wider one, the finding keeps the name of the
    error.
    """
    finding = from_error(error, "", 0)
    named = finding.kind == "other" or isinstance(error, EndlessError)
    return replace(finding, kind=type(error).__name__) if named else finding


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Limit the processor time of launches on the current device."""
    device = devices.current()
    if not isinstance(device, VirtualDevice):  # a device in another process keeps its own limit
        yield
        return
    before = device.budget
    device.budget = replace(before or Budget(), seconds=seconds)
    try:
        yield
    finally:
        device.budget = before


@contextmanager
def _huge_from(nbytes: int) -> Iterator[None]:
    """Make allocations of at least ``nbytes`` use memory only for touched pages."""
    memories = [one.memory for one in devices.every() if isinstance(one, VirtualDevice)]
    before = [memory.huge_from for memory in memories]
    for memory in memories:
        memory.huge_from = nbytes
    try:
        yield
    finally:
        for memory, one in zip(memories, before, strict=True):
            memory.huge_from = one

"""Conversation of the oracle with a worker: requests, the worker's device, and time limits."""

from __future__ import annotations

import secrets

import numpy as np

from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.clocks import SubmissionClock, WorkerClock
from gpucourse.grading.oracle.device_service import DeviceService
from gpucourse.grading.sandbox.levels import ForkServer, WorkerProcess
from gpucourse.grading.sandbox.wire import Closed, OutOfTime, ProtocolError

TOO_LONG = "the submission as a whole exceeded its time limit"


class Conversation:
    """Connection to one worker at a time; a worker lives until it is closed or fails.

    Parameters
    ----------
    clock
        Clock to which the workers' time is charged.
    words
        Words of the submission, which messages may contain even if the worker knows hidden inputs.

    Attributes
    ----------
    worker : WorkerProcess or None
    service : DeviceService or None
        The device of the current worker.
    """

    def __init__(
        self,
        server: ForkServer,
        limits: Limits,
        clock: SubmissionClock,
        words: frozenset[str] = frozenset(),
    ) -> None:
        self.server = server
        self.limits = limits
        self.clock = clock
        self.words = words
        self.worker: WorkerProcess | None = None
        self.service: DeviceService | None = None
        self._worker_clock: WorkerClock | None = None

    def start(self) -> None:
        """Start a fresh worker."""
        self.worker = self.server.spawn()
        self._worker_clock = WorkerClock(self.clock, self.worker.pid)
        self.service = DeviceService(self.limits, self.words)

    def close(self) -> None:
        """End the worker, if there is one."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None
            self.service = None

    def request(self, header: dict, arrays: list[np.ndarray], what: str) -> tuple[dict, list]:
        """Send a request, serve the device until the answer arrives, and return the answer.

        If no answer arrives, the worker is closed and PropertyFailed is raised.
        """
        nonce = secrets.token_hex(16)
        worker, clock, service = self.worker, self._worker_clock, self.service
        assert worker is not None and clock is not None and service is not None
        wire = worker.wire
        try:
            with clock.request() as request:
                wire.send({"nonce": nonce, **header}, arrays, request.left)
                while True:
                    reply, received = wire.receive(request.left)
                    if reply.pop("nonce", None) != nonce:
                        raise ProtocolError("an answer to a question that was not asked")
                    if "device" not in reply:
                        return reply, received
                    # Stop the worker's clock while the oracle's device works.
                    clock.stop()
                    answer, sent = service.handle(reply, received)
                    clock.run()
                    wire.send(answer, sent, request.left)
        except OutOfTime:
            self.close()
            if self.clock.left <= 0:
                raise PropertyFailed(TOO_LONG) from None
            raise PropertyFailed(
                f"{what} took longer than {self.limits.request_seconds:g} s and was stopped: "
                "does a loop on the host never end?"
            ) from None
        except Closed:
            # The student's code chooses its exit code, which could be a hidden input.
            how = worker.how_it_ended(numbers=not service.secret)
            self.close()
            raise PropertyFailed(f"{what} {how}") from None
        except ProtocolError as error:
            self.close()
            raise PropertyFailed(f"{what} answered with {error}") from None
        except BaseException:
            # For example a timeout of the oracle, after which the conversation cannot continue.
            self.close()
            raise

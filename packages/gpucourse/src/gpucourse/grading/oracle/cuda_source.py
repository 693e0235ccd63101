"""Compilation of CUDA C++ that a student's host function returned, in a second worker.

The source is data. It is compiled in a worker that runs no student's code, so that neither an
included header nor an error message can reveal more than the sandbox contains, and a source that
crashes the compiler ends only that worker.
"""

from __future__ import annotations

from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.conversation import Conversation
from gpucourse.grading.testing.watching import COMPILES_NOT


def compile_source(
    conversation: Conversation, source: str, kernel: str, limits: Limits, *, told: bool
) -> str:
    """Return the PTX of CUDA C++.

    Raises PropertyFailed, with the compiler's message if `told`.
    """
    if len(source) > limits.ptx_bytes:
        raise PropertyFailed(f"the source of the kernel '{kernel}' is larger than any should be")
    if conversation.worker is None:
        conversation.start()
    reply, _ = conversation.request(
        {"do": "compile source", "source": source}, [], f"compiling the kernel '{kernel}'"
    )
    if isinstance(reply.get("done"), str):
        ptx: str = reply["done"]
        return ptx
    message = f": {reply['refused']}" if told and "refused" in reply else ""
    raise PropertyFailed(COMPILES_NOT.format(name=kernel) + message)

"""The student's process: runs solution cells, calls functions and compiles kernels.

It answers the oracle's requests one at a time. The student's code may change anything in this
process, but that only changes the *data* sent back, because tests, expected values and scores are
in the oracle.
"""

from __future__ import annotations

import builtins
import functools
import gc
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gpucourse.adapters import awkward_arguments as awkward
from gpucourse.grading.arguments import read_dtype
from gpucourse.grading.sandbox import cells, jax_programs
from gpucourse.grading.sandbox.wire import Closed, Wire, decode, encode
from gpucourse.grading.testing.jaxprs import (
    operations,
    traced,
    with_squeezed_numbers,
    without_jax,
)
from gpucourse.grading.testing.unsolved import unsolved
from virtualgpu.api import after_import, mend_iteration

# Number of characters of an exception's message that are sent.
MESSAGE_LENGTH = 600
# Number of reported lines of a cell that are not Python.
MAGICS = 20


def preload() -> None:
    """Import and use the packages of solution cells once, so that forked workers start fast.

    The first compilation in a process takes 1-2 s (registries, NVVM) and later ones 0.2 s. Numba
    reuses its type inference only under the same options, so this compilation asks for line
    information as the virtual GPU does.
    """
    from numba import cuda
    from numba.cuda import (
        dispatcher,  # noqa: F401
        types,
    )

    from virtualgpu.api import (
        compile_cuda,
        compile_kernel,  # noqa: F401
        numba_hooks,  # noqa: F401
    )

    # The compiler searches for its library in ways that a worker is not allowed to use.
    compile_cuda("")

    def touch(values: np.ndarray, low: float, counts: np.ndarray, rows: np.ndarray) -> None:
        own = cuda.shared.array(64, types.float64)
        t = cuda.threadIdx.x
        own[t] = 0.0
        for j in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            if values[j] < low or values[j] >= 2 * low:
                own[t] += (values[j] - low) / low
            else:
                cuda.atomic.add(counts, min(int(values[j]) + 1, counts.size - 1), 1)
        half = cuda.blockDim.x // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                own[t] += own[t + half]
            half //= 2
        if t == 0 and cuda.blockIdx.x < rows.shape[0]:
            rows[cuda.blockIdx.x, 0] += 1
            cuda.atomic.add(values, 0, own[0])

    signature = (
        types.Array(types.float64, 1, "C"),
        types.float64,
        types.Array(types.int32, 1, "C"),
        types.Array(types.int32, 2, "C"),
    )
    cuda.compile_ptx(touch, signature, cc=(9, 0), lineinfo=True)


def describe_error(error: BaseException) -> dict:
    """Describe an exception for the oracle: its type, message, cell and line."""
    kind = type(error)
    name = kind.__name__
    if getattr(builtins, name, None) is not kind and not f"{kind.__module__}.".startswith(
        ("numba.", "numpy", "jax.", "virtualgpu.")
    ):
        # The student may give a class any name, and the name could contain a hidden input.
        name = next(base.__name__ for base in kind.__mro__ if hasattr(builtins, base.__name__))
    try:
        message = str(error)[:MESSAGE_LENGTH]
    except Exception:
        message = ""
    place = cells.line_of(error)
    cell, line = place or (None, None)
    return {"type": name, "message": message, "cell": cell, "line": line}


def numba_type(described: dict) -> Any:
    """Return the Numba type of a description such as ``{"dtype": "float64", "ndim": 1}``.

    ``"ndim": 0`` describes a scalar and ``{"form": …}`` an Awkward Array.
    """
    if "form" in described:
        return awkward.numba_type(described["form"])
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    element = from_dtype(read_dtype(described["dtype"]))
    if described["ndim"] == 0:
        return element
    return types.Array(element, described["ndim"], "C")


class _Shell:
    """IPython shell of an answer, in which magics and shell commands do nothing.

    Magics that only wrap code run that code, because nbconvert writes ``%%time`` into a script as
    a call of ``run_cell_magic``.
    """

    def __init__(self, namespace: dict) -> None:
        self.user_ns = namespace

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        if cells.wraps(f"%%{name}"):
            cells.run(cell, f"in %%{name}", self.user_ns)

    def run_line_magic(self, name: str, line: str, *more: object) -> None:
        if name == "time":
            cells.run(line, "in %time", self.user_ns)

    def getoutput(self, command: str, *more: object, **options: object) -> list[str]:
        return []

    def __getattr__(self, name: str) -> _Nothing:
        return _Nothing()


class _Nothing:
    """Missing part of a shell: ``shell.events.register(…)`` does nothing."""

    def __call__(self, *arguments: object, **options: object) -> None:
        return None

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):  # Python looks these up to find out what an object supports
            raise AttributeError(name)
        return self


class Worker:
    """Server of one oracle's requests over one wire, until the wire is closed."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        # A module, so that pickle and typing can find the classes of a notebook (run_worker).
        self.notebook = ModuleType("__main__")
        self.namespace: dict = vars(self.notebook)
        # A notebook has these without an import. Here `display` shows nothing.
        self.namespace |= {
            "__builtins__": builtins,
            "display": lambda *objects, **options: None,
            "get_ipython": self.shell,
        }
        # Scripts of nbconvert import get_ipython, so they must get the same shell.
        after_import("IPython", self._be_its_shell)
        self._shell = _Shell(self.namespace)
        self.nonce = ""
        self.programs: dict[tuple, tuple] = {}

    def shell(self) -> _Shell:
        """Return the shell, as ``get_ipython()`` does in a notebook."""
        return self._shell

    def _be_its_shell(self, ipython: Any) -> None:
        ipython.get_ipython = ipython.core.getipython.get_ipython = self.shell

    def ask(self, fields: dict, arrays: Sequence[np.ndarray] = ()) -> tuple[dict, list[np.ndarray]]:
        """Send a request to the device while serving one of the oracle's requests."""
        self.wire.send({"nonce": self.nonce, **fields}, list(arrays))
        return self.wire.receive()

    def serve(self) -> None:
        verbs = {
            "hello": self.hello,
            "define": self.define,
            "call": self.call,
            "trace": self.trace,
            "run": self.run,
            "compile": self.compile,
            "compile source": self.compile_source,
        }
        while True:
            try:
                request, arrays = self.wire.receive()
            except Closed:
                return
            self.nonce = request["nonce"]
            try:
                reply, results = verbs[request["do"]](request, arrays)
            except BaseException as error:
                # Report sys.exit() and KeyboardInterrupt in an answer as errors of the answer.
                reply, results = {"error": describe_error(error)}, []
            self.wire.send({"nonce": self.nonce, **reply}, results)

    def hello(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Set up the device that the oracle described."""
        import virtualgpu
        from virtualgpu import sources
        from virtualgpu.api import MirroredDevice, set_current_device

        compile_for_grading()
        let_loops_wake()
        # Activate it after the fork, because numba-cuda ties a driver to the process that opened
        # it.
        virtualgpu.activate(force=True)
        allow_empty_arrays()
        sources.register_namer(cells.namer)
        mend_iteration()
        set_current_device(
            MirroredDevice(self.ask, request["name"], tuple(request["cc"]), request["memory"])
        )
        return {"done": {}}, []

    def define(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Run one cell; return its lines that are not Python, even after an error."""
        source = request["source"]
        magics = cells.magics(source)[:MAGICS]
        told: dict = {"magics": [line[:MESSAGE_LENGTH] for line in magics]}
        try:
            cells.run(source, request["cell"], self.namespace)
        except BaseException as error:
            return told | {"error": describe_error(error)}, []
        return told | {"done": {}}, []

    def lookup(self, name: str) -> Any:
        try:
            return self.namespace[name]
        except KeyError:
            raise NameError(f"name '{name}' is not defined") from None

    def call(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Call a function with the values sent, and send back its result."""
        function = self.lookup(request["name"])
        if stub := unsolved(function):
            raise NotImplementedError(stub)
        # Arrays arrive as read-only views of the message, so give the student copies that are
        # writable.
        arguments = decode(
            request["args"], [array.copy() for array in arrays], awkward_array=awkward.put_together
        )
        free_memory()
        given = function(*arguments)
        try:
            results: list[np.ndarray] = []
            value = awkward.without_awkward(without_jax(given))
            return {"done": encode(value, results, describe_device_array)}, results
        except Exception as error:
            # No line of a cell is running any more.
            return {"error": describe_error(error) | {"converting": True}}, []

    def trace(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Send back JAX's trace of a function, as data."""
        import jax

        function = self.lookup(request["name"])
        if stub := unsolved(function):
            raise NotImplementedError(stub)
        closed, result = traced(function, decode(request["args"], arrays), request["static"])
        leaves, tree = jax.tree.flatten(result)
        structure = jax.tree.unflatten(tree, range(len(leaves)))
        constants: list[np.ndarray] = []
        try:
            program = jax_programs.describe(closed, constants)
        except jax_programs.NotAProgram as unknown:
            return {"refused": str(unknown)[:MESSAGE_LENGTH]}, []
        return {
            "done": {
                "program": program,
                "structure": encode(structure, []),
                "wide": jax.dtypes.canonicalize_dtype(float) == np.float64,
            }
        }, constants

    def run(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Count a program's operations and, unless only the count is requested, run it.

        The oracle sends this request to a worker that runs no student's code.
        """
        import jax
        import jax.extend

        jax.config.update("jax_enable_x64", request["wide"])  # type: ignore[no-untyped-call]
        constants, inputs = arrays[: request["constants"]], arrays[request["constants"] :]
        squeezed = request["squeezed"]
        key = (
            request["wide"],
            json.dumps(request["program"]),
            squeezed,
            *(array.tobytes() for array in constants),
        )
        if key not in self.programs:
            closed = jax_programs.rebuild(request["program"], constants)
            if squeezed is not None:
                closed = with_squeezed_numbers(closed, squeezed)
            self.programs[key] = closed, jax.jit(jax.extend.core.jaxpr_as_fun(closed))
        closed, compiled = self.programs[key]
        done = {"done": dict(operations(closed, request["elements"]))}
        if request["count"]:
            return done, []
        results = compiled(
            *(value.astype(aval.dtype) for value, aval in zip(inputs, closed.in_avals, strict=True))
        )
        return done, [np.asarray(result) for result in results]

    def compile(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Compile a kernel for the types in the request; send back its PTX and entry name."""
        from virtualgpu.api import compile_kernel, is_kernel

        kernel = self.lookup(request["name"])
        if not is_kernel(kernel):
            what = type(kernel).__name__
            return {"refused": "not a kernel", "what": what[:60]}, []
        if stub := unsolved(kernel):
            raise NotImplementedError(stub)
        if any("form" in described for described in request["types"]) and not kernel.extensions:
            return {"lacks": "extensions"}, []
        types = tuple(numba_type(described) for described in request["types"])
        # Garbage collection would take a tenth of Numba's compile time.
        gc.disable()
        try:
            return {"done": compile_kernel(kernel, types)._asdict()}, []
        finally:
            gc.enable()

    def compile_source(self, request: dict, arrays: list[np.ndarray]) -> tuple[dict, list]:
        """Compile CUDA C++; send back PTX.

        The oracle sends this request to a worker in which no student's code has run; only the
        source comes from the student.
        """
        from virtualgpu.api import CompilationError, compile_cuda

        try:
            return {"done": compile_cuda(request["source"]).ptx}, []
        except CompilationError as error:
            return {"refused": str(error)[:MESSAGE_LENGTH]}, []


def compile_for_grading() -> None:
    """Ignore decorator options that do not change what a function computes.

    ``cache=True`` has no effect, because nothing is stored here and cells are not files.
    ``debug=True, opt=False`` has no effect, because code for a debugger keeps each variable in
    memory and takes 30 times as long to interpret, and the checkers check every access in any
    case.
    """
    from numba.core.dispatcher import Dispatcher
    from numba.cuda.dispatcher import CUDADispatcher

    for kind in (Dispatcher, CUDADispatcher):
        kind.enable_caching = lambda self: None
    begin = CUDADispatcher.__init__

    def optimised(self: Any, function: Any, targetoptions: dict, *more: Any, **named: Any) -> None:
        begin(self, function, targetoptions | {"debug": False, "opt": True}, *more, **named)

    CUDADispatcher.__init__ = optimised


def let_loops_wake() -> None:
    """Let asyncio loops wake up through a pipe, because a worker may not open socket pairs."""
    from asyncio import selector_events

    def make(loop: Any) -> None:
        loop._ssock, loop._csock = map(_End, os.pipe())
        loop._internal_fds += 1
        loop._add_reader(loop._ssock.fileno(), loop._read_from_self)

    selector_events.BaseSelectorEventLoop._make_self_pipe = make  # type: ignore[attr-defined]


class _End:
    """One end of a pipe, with the methods that asyncio needs from a socket."""

    def __init__(self, file: int) -> None:
        self._file = file
        os.set_blocking(file, False)

    def fileno(self) -> int:
        return self._file

    def recv(self, size: int) -> bytes:
        return os.read(self._file, size)

    def send(self, data: bytes) -> int:
        return os.write(self._file, data)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def allow_empty_arrays() -> None:
    """Allow empty managed, mapped and pinned arrays, as ``cuda.device_array`` does.

    CUDA refuses to allocate zero bytes, and hidden tests use empty arrays even if the visible
    tests of the notebook do not.
    """
    from numba import cuda

    def allowing(make: Any) -> Any:
        @functools.wraps(make)
        def array(shape: Any, dtype: Any = np.float64, *more: Any, **named: Any) -> Any:
            return make(shape, dtype, *more, **named) if np.prod(shape) else np.empty(shape, dtype)

        return array

    for name in ("managed_array", "mapped_array", "pinned_array"):
        setattr(cuda, name, allowing(getattr(cuda, name)))


def free_memory() -> None:
    """Free device memory whose arrays no longer exist.

    Numba frees memory later, many arrays at a time. Mapped and managed arrays are copied to the
    host after each launch as long as they have memory, so without this function a call would read
    more than the call before it.
    """
    if "numba.cuda" in sys.modules:
        from numba import cuda

        cuda.current_context().memory_manager.deallocations.clear()


def describe_device_array(value: Any) -> dict | None:
    """Return the address, shape, strides and type of a device array; None for other values."""
    interface = getattr(type(value), "__cuda_array_interface__", None)
    if interface is None:
        return None
    from virtualgpu.api import current_device

    described = value.__cuda_array_interface__
    current_device().synchronize()  # update the device from the host's copy
    shape = [int(length) for length in described["shape"]]
    strides = described.get("strides")
    return {
        "address": int(described["data"][0] or 0),
        "shape": shape,
        "strides": None if strides is None else [int(stride) for stride in strides],
        "dtype": str(described["typestr"]),
    }


def run_worker(wire: Wire) -> None:
    """Serve until the oracle closes the connection, then exit without exit handlers."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    sys.argv = ["worker"]
    worker = Worker(wire)
    sys.modules["__main__"] = worker.notebook
    try:
        worker.serve()
    finally:
        os._exit(0)

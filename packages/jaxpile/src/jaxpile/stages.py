"""Stages of a compilation, as in JAX: lowered (traced and translated), and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import numpy as np
from jax import dtypes
from jax.core import ShapedArray

from jaxpile.driver import translate
from jaxpile.errors import JaxpileError, UnsupportedProgram
from jaxpile.fusion import optimise
from jaxpile.program import Program
from jaxpile.registry import Registry

FORMS = ("jaxpr", "llvm", "cuda", "python")


def program_of(closed, registry: Registry, name: str, target: str = "cpu") -> Program:
    """Return the optimised program of a closed jaxpr."""
    if not closed.jaxpr.outvars:
        raise UnsupportedProgram(
            f"{name} returns no array, so there is nothing to compute. Return the arrays that "
            "it computes."
        )
    program = translate(closed, registry, name, target)
    optimise(program)
    return program


class Lowered:
    """A function traced for one kind of arguments; ``in_avals`` are its array arguments."""

    def __init__(self, closed, out_tree, in_tree, registry: Registry, name: str, backend: str):
        self.jaxpr, self.out_tree, self.in_tree = closed, out_tree, in_tree
        self.registry, self.name, self.backend = registry, name, backend

    @property
    def in_avals(self) -> list:
        return [v.aval for v in self.jaxpr.jaxpr.invars]

    def compile(self) -> Compiled:
        """Compile to machine code, or CUDA kernels, for the arguments' shapes and dtypes."""
        return Compiled(self)

    def as_text(self, form: str = "jaxpr") -> str:
        """Return the program as "jaxpr", "llvm" (before LLVM's passes), "cuda" or "python"."""
        if form == "jaxpr":
            return str(self.jaxpr)
        if form == "llvm":
            from jaxpile.llvm.codegen import generate

            program = program_of(self.jaxpr, self.registry, self.name)
            return generate(program, {b: k for k, b in enumerate(program.buffers)})
        if form == "cuda":
            from jaxpile.cuda.codegen import generate as cuda_text

            return cuda_text(program_of(self.jaxpr, self.registry, self.name, "gpu")).text
        if form == "python":
            from jaxpile.python_text import generate as python_text

            return python_text(program_of(self.jaxpr, self.registry, self.name))
        raise ValueError(f"as_text takes {', '.join(map(repr, FORMS))}, not {form!r}")


class Compiled:
    """An executable for one kind of arguments, called with such arguments."""

    def __init__(self, lowered: Lowered):
        self.lowered = lowered
        self.out_tree = lowered.out_tree
        self.kinds = [(tuple(aval.shape), aval.dtype) for aval in lowered.in_avals]
        self.keys = [dtypes.issubdtype(dtype, dtypes.prng_key) for _, dtype in self.kinds]
        self.out_avals = [
            None
            if dtypes.issubdtype(v.aval.dtype, dtypes.prng_key)
            else ShapedArray(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type)
            for v in lowered.jaxpr.jaxpr.outvars
        ]
        target = "gpu" if lowered.backend == "cuda" else "cpu"
        self.executable: Callable[[list], list]
        self.arriving: Callable = np.asarray
        self.fetched: Callable = np.asarray
        self.staying: Callable | None = None
        program = program_of(lowered.jaxpr, lowered.registry, lowered.name, target)
        if target == "gpu":
            from jaxpile.cuda.arrays import arriving, staying
            from jaxpile.cuda.launch import Launcher

            self.executable = launcher = Launcher(program)
            self.arriving, self.fetched = arriving, launcher.cupy.asnumpy
            self.staying = staying(launcher.cupy)
        else:
            from jaxpile.llvm.executable import Executable

            self.executable = Executable(program)

    def __call__(self, *args, **kwargs):
        """Return the results as jax.Arrays in the function's own tree.

        Static arguments are left out.
        """
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if tree != self.lowered.in_tree:
            raise JaxpileError(
                f"{self.lowered.name} was compiled for arguments of the form "
                f"{self.lowered.in_tree}, but is called with {tree}"
            )
        return self.run(leaves)

    def run(self, leaves: list):
        """Return the results for the flat list of array arguments."""
        arrays = [
            words_of(leaf) if key else self.arriving(leaf)
            for leaf, key in zip(leaves, self.keys, strict=True)
        ]
        for k, (array, (shape, dtype)) in enumerate(zip(arrays, self.kinds, strict=True)):
            if array.shape != shape:
                raise JaxpileError(
                    f"{self.lowered.name} was compiled for shape {shape} in argument {k}, but "
                    f"is called with {array.shape}. Lower and compile it again for that shape."
                )
            wanted = np.uint64 if self.keys[k] else dtype
            if isinstance(array, np.ndarray) and (
                array.dtype != wanted or not array.flags.c_contiguous
            ):
                arrays[k] = np.ascontiguousarray(array, wanted).reshape(shape)
        placed = [
            self.placed(result, aval)
            for result, aval in zip(self.executable(arrays), self.out_avals, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.out_tree, placed)

    def placed(self, result, aval) -> jax.Array:
        """Return a result as a jax.Array, on its device if JAX has it, else on the CPU."""
        if aval is None:
            return key_of(self.fetched(result))
        if self.staying is not None and not aval.weak_type:  # DLPack has no weak types
            return self.staying(result)
        return _placing()(self.fetched(result), aval)

    def as_text(self, form: str = "llvm") -> str:
        return self.lowered.as_text(form)


def words_of(keys) -> np.ndarray:
    """Return random keys as uint64."""
    words = np.asarray(jax.random.key_data(keys)).astype(np.uint64)
    return np.asarray((words[..., 0] << np.uint64(32)) | words[..., 1])


def key_of(packed: np.ndarray) -> jax.Array:
    words = np.stack([packed >> np.uint64(32), packed & np.uint64(0xFFFFFFFF)], axis=-1)
    return jax.random.wrap_key_data(jax.numpy.asarray(words, np.uint32), impl="threefry2x32")


@cache
def _placing() -> Callable:
    """Return the function of array and aval that turns NumPy arrays into jax.Arrays.

    JAX's internal function takes a third of the time of jax.device_put, but is not a public
    interface. It is tried once, and if it is missing, device_put is used.
    """
    device = jax.local_devices(backend="cpu")[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    try:
        from jaxlib.xla_client import batched_device_put

        def place(array: np.ndarray, aval) -> jax.Array:
            return batched_device_put(aval, sharding, [array], [device], False)

        if place(np.zeros(2, np.float32), ShapedArray((2,), np.dtype(np.float32))).shape == (2,):
            return place
    except (ImportError, AttributeError, TypeError):
        pass
    return lambda array, aval: jax.device_put(array, device)


def lower(traced, in_tree, registry: Registry, name: str, backend: str) -> Lowered:
    """Lower the result of ``jax.jit(f).trace(...)``."""
    return Lowered(
        traced.jaxpr,
        jax.tree_util.tree_structure(traced.out_info),
        in_tree,
        registry,
        name,
        backend,
    )

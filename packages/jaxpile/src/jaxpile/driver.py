"""Translation of a jaxpr: one translator call per equation, with variables in scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import jax
import numpy as np
from jax import dtypes
from jax.extend.core import ClosedJaxpr, Literal

from jaxpile import complexes  # noqa: F401  defines what they do
from jaxpile.builder import Builder
from jaxpile.errors import UnsupportedPrimitive, UnsupportedProgram, UnsupportedType
from jaxpile.expressions import cost
from jaxpile.program import Buffer, Program
from jaxpile.provenance import line_of
from jaxpile.registry import POINTWISE, Registry
from jaxpile.values import Value, buffer_of, full, whole

#: A value of at least this cost that is used in several places is computed once, into a buffer.
DEAR = 10
#: An expression of this depth becomes a buffer, which limits compile time and recursion depth.
DEEP = 200

SUPPORTED = {
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
}


def storage_dtype(aval) -> np.dtype:
    """Return the dtype in which an array is stored; a threefry key is one uint64.

    Raises UnsupportedType for other dtypes.
    """
    dtype = aval.dtype
    if dtypes.issubdtype(dtype, dtypes.prng_key):
        if "fry" in str(dtype):
            return np.dtype(np.uint64)
        raise UnsupportedType(
            f"jaxpile cannot translate random keys of type {dtype}. Use threefry keys, "
            "jax.random.key(seed, impl='threefry2x32')"
        )
    if dtype not in SUPPORTED:
        raise UnsupportedType(
            f"jaxpile cannot translate arrays of {dtype}, for example of half precision. "
            "Convert them to float32 or float64, or compile this function with jax.jit."
        )
    return np.dtype(dtype)


class Scope:
    """Variables of one jaxpr that are still needed, with the number of their uses left."""

    def __init__(self, jaxpr, registry: Registry):
        self.values: dict = {}
        self.uses: Counter = Counter()
        self.scattered: Counter = Counter()
        for equation in jaxpr.eqns:
            shares = is_pointwise(equation, registry)
            for atom in equation.invars:
                if not isinstance(atom, Literal):
                    self.uses[atom] += 1
                    self.scattered[atom] += not shares
        for atom in jaxpr.outvars:
            if not isinstance(atom, Literal):
                self.uses[atom] += 1
        self.total = dict(self.uses)

    def take(self, atom) -> None:
        """Count one use less; drop a variable that has none left."""
        if not isinstance(atom, Literal):
            self.uses[atom] -= 1
            if not self.uses[atom]:
                self.values.pop(atom, None)


def is_pointwise(equation, registry: Registry) -> bool:
    """Return True if an equation reads its operands only at the index that it writes."""
    name = equation.primitive.name
    inner = equation.params.get("jaxpr") if name in ("pjit", "jit", "closed_call") else None
    if inner is not None:
        return all(is_pointwise(e, registry) for e in inner.jaxpr.eqns)
    return name in registry and registry[name].kind == POINTWISE


class Driver:
    """State of one translation: registry, builder, stack of scopes, and target ("cpu" or "gpu")."""

    def __init__(self, registry: Registry, target: str = "cpu"):
        self.registry, self.target = registry, target
        self.builder = Builder()
        self.scopes: list[Scope] = []
        self.within: list = []

    # --- what translators ask ---

    def used(self, equation) -> str:
        """Return ", used in " and the learner's line of an equation or of the call around it.

        Return "" if there is no such line, because a JAX function was compiled directly.
        """
        for candidate in (equation, *reversed(self.within)):
            line = line_of(candidate)
            if line:
                return f", used in {line}"
        return ""

    def refuse(self, equation, reason: str) -> UnsupportedPrimitive:
        """Return the error to raise, with the primitive, its line and the reason."""
        return UnsupportedPrimitive(f"{equation.primitive.name!r}{self.used(equation)}: {reason}")

    def cheap(self, value: Value, several: bool = True) -> Value:
        """Return the value, in a buffer if computing it several times would be expensive."""
        if several and value.size > 1 and cost(value.expr, DEAR) >= DEAR:
            return self.builder.materialise(value)
        return value

    def wanted(self, buffer: Buffer) -> bool:
        """Return True if a variable that is still in scope reads the buffer."""
        return any(
            buffer in value.expr.reads for scope in self.scopes for value in scope.values.values()
        )

    def uses(self, variable) -> int:
        """Return the number of times that a variable of the present scope is read."""
        return self.scopes[-1].total.get(variable, 0)

    def owned(self, value: Value, beside: Sequence[Value] = ()) -> tuple[Buffer, list[Value]]:
        """Return a buffer that holds the value and may be overwritten.

        It is the value's own buffer if nothing else reads it. ``beside`` are values that are still
        needed; those that read the buffer are returned as copies.
        """
        buffer = buffer_of(value)
        beside = [
            whole(self.builder.copied(other))
            if buffer is not None and buffer in other.expr.reads
            else other
            for other in beside
        ]
        if (
            buffer is None
            or buffer.kind != "temp"
            or self.wanted(buffer)
            or buffer.level != self.builder.levels[-1]
        ):
            buffer = self.builder.copied(value)
        self.builder.forget(buffer)
        return buffer, beside

    def constant(self, array) -> Value:
        """Return the value of a closed-over array.

        An array of equal elements needs no memory.
        """
        if dtypes.issubdtype(getattr(array, "dtype", np.dtype(int)), dtypes.prng_key):
            words = np.asarray(jax.random.key_data(array)).astype(np.uint64)
            array = (words[..., 0] << np.uint64(32)) | words[..., 1]
        array = np.asarray(array)
        if array.dtype not in SUPPORTED:
            raise UnsupportedType(f"jaxpile cannot translate a constant of dtype {array.dtype}")
        if array.size == 0:
            return full(array.shape, 0, array.dtype)
        array = np.array(array, order="C")
        raw = array.reshape(-1).view(f"V{array.itemsize}")
        if array.size == 1 or (raw == raw[0]).all():
            return full(array.shape, array.reshape(-1)[0], array.dtype)
        array.flags.writeable = False
        return whole(self.builder.buffer(array.shape, array.dtype, "const", array))

    def traced(self, function, batch: int, *operands: Value) -> list[Value]:
        """Translate a JAX function in place, mapped over ``batch`` leading axes."""
        for _ in range(batch):
            function = jax.vmap(function)
        avals = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in operands]
        return self.inline(jax.make_jaxpr(function)(*avals), [], operands)

    # --- walking ---

    def inline(self, jaxpr, consts: Sequence[Value], operands: Sequence[Value]) -> list[Value]:
        """Translate a nested jaxpr here, in its own scope."""
        if isinstance(jaxpr, ClosedJaxpr):
            consts = [self.constant(array) for array in jaxpr.consts]
            jaxpr = jaxpr.jaxpr
        scope = Scope(jaxpr, self.registry)
        self.scopes.append(scope)
        try:
            for variables, values in ((jaxpr.constvars, consts), (jaxpr.invars, operands)):
                for variable, value in zip(variables, values, strict=True):
                    if scope.uses[variable]:
                        scope.values[variable] = value
            for equation in jaxpr.eqns:
                self.translate(scope, equation)
            return [self.read(scope, atom) for atom in jaxpr.outvars]
        finally:
            self.scopes.pop()

    def read(self, scope: Scope, atom) -> Value:
        if isinstance(atom, Literal):
            return full(np.shape(atom.val), np.asarray(atom.val), storage_dtype(atom.aval))
        return scope.values[atom]

    def translate(self, scope: Scope, equation) -> None:
        name = equation.primitive.name
        outputs = [v for v in equation.outvars if scope.uses[v]]
        if not outputs and not equation.effects:
            for atom in equation.invars:
                scope.take(atom)
            return
        if equation.effects:
            raise UnsupportedProgram(
                f"{name!r}{self.used(equation)} has side effects, which compiled loops cannot "
                "have. Remove prints and callbacks from the function, or use jax.jit."
            )
        translator = self.registry.get(name)
        if translator is None:
            raise UnsupportedPrimitive(
                f"there is no translator for the primitive {name!r}{self.used(equation)}. "
                f"Write one: @jaxpile.translates({name!r}), add it with "
                "jaxpile.default_registry().extended(it), and pass that as "
                "jaxpile.jit(f, translators=…)."
            )
        try:
            for variable in equation.outvars:
                storage_dtype(variable.aval)
            operands = [self.read(scope, atom) for atom in equation.invars]
            for atom in equation.invars:
                scope.take(atom)
            self.within.append(equation)
            results = translator.translate(self, equation, *operands)
            self.within.pop()
        except UnsupportedType as error:
            place = self.used(equation)
            if not place or ", used in " in str(error):  # the innermost one adds it
                raise
            raise UnsupportedType(f"{name!r}{place}: {error}") from None
        results = [results] if isinstance(results, Value) else list(results)
        for variable, value in zip(equation.outvars, results, strict=True):
            self.bind(scope, equation, variable, value)

    def bind(self, scope: Scope, equation, variable, value: Value) -> None:
        expected = tuple(variable.aval.shape), storage_dtype(variable.aval)
        if (value.shape, value.dtype) != expected:
            raise UnsupportedPrimitive(
                f"the translator of {equation.primitive.name!r} made an array of {value.shape} "
                f"{value.dtype}, but the equation{self.used(equation)}, needs {expected}"
            )
        if not scope.uses[variable]:
            return
        several = scope.total[variable] > 1 and scope.scattered[variable] > 0
        if value.expr.depth > DEEP:
            value = self.builder.materialise(value)
        scope.values[variable] = self.cheap(value, several)


def translate(closed, registry: Registry, name: str, target: str = "cpu") -> Program:
    """Translate a closed jaxpr, whose invars become inputs and whose outvars become outputs.

    Raises UnsupportedPrimitive, UnsupportedType or UnsupportedProgram.
    """
    driver = Driver(registry, target)
    builder = driver.builder
    inputs = [
        builder.buffer(v.aval.shape, storage_dtype(v.aval), "input") for v in closed.jaxpr.invars
    ]
    results = driver.inline(closed, [], [whole(buffer) for buffer in inputs])
    outputs: list[Buffer] = []
    for value in results:
        buffer = buffer_of(value)
        if buffer is None or buffer.kind != "temp":
            buffer = builder.copied(value)
        buffer.kind, buffer.shape = "output", value.shape
        outputs.append(buffer)
    return Program(name, inputs, outputs, builder.buffers, builder.blocks[0])

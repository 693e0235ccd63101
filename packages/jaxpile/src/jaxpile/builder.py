"""Construction of steps: buffers, the loop nests that fill them, and loops with carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from jaxpile.expressions import Expr, dims_of, index, local, row_major
from jaxpile.program import Buffer, Loop, Nest, Set, Store
from jaxpile.values import Value, buffer_of, is_identity, loads_of, whole


class Builder:
    """Collector of the buffers and the steps of one program."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.blocks: list[list] = [[]]
        # For each open block, the buffer that already holds the value of an expression.
        self.held: list[dict[tuple, Value]] = [{}]
        self.levels: list[int] = [0]
        self._names = 0

    # --- names and blocks ---

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def emit(self, step) -> None:
        self.blocks[-1].append(step)

    @contextmanager
    def block(self, own_level: bool = True) -> Iterator[list]:
        """Collect the steps emitted inside the context in a separate list.

        Buffers made earlier may not be overwritten in it, because the block may run again or not
        at all.
        """
        self.blocks.append([])
        self.held.append({})
        if own_level:
            self._names += 1
            self.levels.append(self._names)
        try:
            yield self.blocks[-1]
        finally:
            self.blocks.pop()
            self.held.pop()
            if own_level:
                self.levels.pop()

    # --- buffers ---

    def buffer(self, shape: Sequence[int], dtype, kind: str = "temp", data=None) -> Buffer:
        # JAX shapes sometimes contain NumPy integers
        made = Buffer(
            self.fresh({"input": "a", "const": "k"}.get(kind, "b")),
            tuple(map(int, shape)),
            np.dtype(dtype),
            kind,
            self.levels[-1],
            data,
        )
        self.buffers.append(made)
        return made

    def forget(self, buffer: Buffer) -> None:
        """Drop all cached values that are in, or were computed from, a buffer about to change."""
        for held in self.held:
            for key, value in list(held.items()):
                if buffer in value.expr.reads or buffer in key[0].reads:
                    del held[key]

    def nest(self, shape: Sequence[int], body: list) -> None:
        if all(shape):
            self.emit(Nest(tuple((0, int(size)) for size in shape), body))

    def store(self, buffer: Buffer, value: Value, position: Expr | None = None) -> None:
        """Write all elements of the value; ``position`` is a function of the value's dimensions."""
        if value.size > buffer.size or value.dtype != buffer.dtype:
            raise ValueError(
                f"{value.shape} {value.dtype} does not fit into a buffer of {buffer.shape} "
                f"{buffer.dtype}, so a translator is wrong"
            )
        if position is None:
            position = row_major(value.shape, dims_of(value.shape))
        self.nest(value.shape, [Store(buffer, position, value.expr)])

    def materialise(self, value: Value) -> Value:
        """Return the same array in a buffer."""
        if buffer_of(value) is not None:
            return value
        key = (value.expr, value.shape)
        for held in self.held:
            if key in held:
                return held[key]
        self.held[-1][key] = result = whole(self.copied(value))
        return result

    def copied(self, value: Value) -> Buffer:
        """Copy the array into a buffer that nothing else reads."""
        buffer = self.buffer(value.shape, value.dtype)
        self.store(buffer, value)
        return buffer

    # --- loops ---

    def loops(self, body: list, variables: Sequence[Expr], sizes: Sequence[int]) -> list:
        """Nest the body in loops over all variables, the last innermost; omit loops of size 1."""
        for variable, size in reversed(list(zip(variables, sizes, strict=True))):
            if size != 1:
                body = [Loop(variable, index(0), index(size), body)]
        return body

    def assign(self, targets: Sequence[Buffer], values: Sequence[Value]) -> None:
        """Assign all targets at once, as loop carries, because values may read any of them."""
        carries = set(targets)
        pairs = []
        for target, value in zip(targets, values, strict=True):
            if buffer_of(value) is not target:
                pairs.append((target, value))
        settled = []
        for target, value in pairs:
            loads = loads_of(value.expr, carries)
            if any(
                node.attr.shape != target.shape or not is_identity(node, target.shape)
                for node in loads
            ):
                value = whole(self.copied(value))
            settled.append((target, value))
        groups: dict[tuple, list[tuple[Buffer, Value]]] = {}
        for target, value in settled:
            groups.setdefault(target.shape, []).append((target, value))
        for shape, group in groups.items():
            body: list = []
            stores: list = []
            position = row_major(shape, dims_of(shape))
            for target, value in group:
                if len(group) == 1:
                    stores.append(Store(target, position, value.expr))
                else:
                    name = self.fresh("t")
                    body.append(Set(name, value.expr))
                    stores.append(Store(target, position, local(name, value.dtype)))
            self.nest(shape, body + stores)
        for target, _ in pairs:
            self.forget(target)

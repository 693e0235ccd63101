"""Table of operations by instruction name.

Each opcode has a small *factory*, registered with :func:`operation`. It reads the modifiers of an
instruction in the order of the PTX grammar (:class:`Form`) and returns an :class:`Operation`. A
modifier that the factory does not read is an error, so the table never computes something other
than the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, overload

import numpy as np

from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.operations.compiler import LazyUfunc
from virtualgpu.operations.expression import Results, select
from virtualgpu.operations.types import DTYPES, kind

_REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Operation:
    """One data operation, without memory access or control flow.

    ``source_types`` and ``destination_types`` are PTX types. ``function`` takes one NumPy array
    per source operand, with the dtypes of ``sources`` and shape ``(n,)`` or ``(1,)`` (one value
    for all lanes). It returns one array of the broadcast shape, or a tuple if there are several
    ``destinations``. With ``carry_in``, the condition code ``CC.CF`` is the last argument, and
    with ``carry_out`` it is the last result; both are bool. The caller extends a result narrower
    than its register: with the sign if the dtype is signed, otherwise with zeros. ``section`` is
    the section of the PTX ISA 9.0 that defines the instruction.

    Call functions inside ``np.errstate(all="ignore")``, because a division by zero is not an error
    on a GPU.
    """

    function: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    source_types: tuple[str, ...]
    destination_types: tuple[str, ...]
    carry_in: bool = False
    carry_out: bool = False
    section: str = ""
    body: Results | None = None  # the function as an expression

    @property
    def sources(self) -> tuple[np.dtype, ...]:
        return _dtypes(self.source_types)

    @property
    def destinations(self) -> tuple[np.dtype, ...]:
        return _dtypes(self.destination_types)


@cache
def _dtypes(types: tuple[str, ...]) -> tuple[np.dtype, ...]:
    return tuple(DTYPES[one] for one in types)


Factory = Callable[["Form"], Operation]


@dataclass(frozen=True, slots=True)
class _Entry:
    factory: Factory
    types: frozenset[str]
    needs: str | None
    section: str


_entries: dict[str, list[_Entry]] = {}

# Advice for families of instructions that are not supported, with the names that authors use.
_LATER_TENSOR_CORES = (
    "it supports the tensor core instructions that sm_80 to sm_90 share "
    "(mma.sync, wmma, ldmatrix, stmatrix). This one exists in one generation only "
    "(sm_90a, sm_100a). Compile for compute_90 without the letter, or for compute_80"
)
_TEXTURES = (
    "it supports textures of one, two and three dimensions and layered textures of two "
    "(tex1D, tex1Dfetch, tex2D, tex3D, tex2DLayered), and reads and writes of "
    "surfaces, but no mipmaps, cubes, gathers or queries"
)
_LACKING = {
    **dict.fromkeys(("wgmma", "tcgen05"), _LATER_TENSOR_CORES),
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq"), _TEXTURES),
}


def operation(
    opcode: str, *, types: Collection[str], section: str, needs: str | None = None
) -> Callable[[Factory], Factory]:
    """Register a factory for ``opcode``.

    It handles instructions whose last type is one of ``types`` and which have the modifier
    ``needs``, if it is given. ``section`` is the section of the PTX ISA.
    """

    def register(factory: Factory) -> Factory:
        entry = _Entry(factory, frozenset(types), needs, section)
        found = _entries.setdefault(opcode, [])
        # More specific entries come first: add.cc.u32 before add.u32.
        found.insert(0, entry) if needs else found.append(entry)
        return factory

    return register


@cache
def lookup(opcode: str, modifiers: tuple[str, ...], sources: int, destinations: int) -> Operation:
    """Return the operation of ``opcode`` with its ``modifiers`` in the order written.

    ``sources`` and ``destinations`` are the numbers of operands: ``setp.lt.s32 p|q, a, b`` has two
    of each. Most operations are compiled at their first call, in 5 to 8 ms. Raises
    :class:`~virtualgpu.errors.UnsupportedInstruction` for any instruction that is not completely
    supported.
    """
    form = Form(opcode, modifiers, sources, destinations)
    if opcode not in _entries:
        raise form.unsupported(
            _LACKING.get(opcode, f"there is no opcode '{opcode}' among the data operations")
        )
    for entry in _entries[opcode]:
        if form.type in entry.types and (not entry.needs or entry.needs in modifiers):
            return replace(entry.factory(form), section=entry.section)
    known = sorted(set().union(*(entry.types for entry in _entries[opcode])))
    raise form.unsupported(f"'{opcode}' is supported for the types {_listed(known)}")


def opcodes() -> frozenset[str]:
    """Return all opcodes of the table."""
    return frozenset(_entries)


class Form:
    """Modifiers of one instruction, read from left to right by a factory."""

    def __init__(self, opcode: str, modifiers: tuple[str, ...], sources: int, destinations: int):
        self.opcode, self.modifiers = opcode, modifiers
        self.sources, self.destinations = sources, destinations
        self._left = list(modifiers)

    @property
    def type(self) -> str | None:
        """Return the last modifier that is a type, by which the table chooses a factory."""
        return next((m for m in reversed(self.modifiers) if m in TYPE_NAMES), None)

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    def unsupported(self, reason: str) -> UnsupportedInstruction:
        return UnsupportedInstruction(f"the virtual GPU has no instruction '{self.name}': {reason}")

    @overload
    def choice(self, *options: str, default: str = ...) -> str: ...

    @overload
    def choice(self, *options: str, default: None) -> str | None: ...

    def choice(self, *options: str, default: str | None = _REQUIRED) -> str | None:
        """Read the next modifier, which must be one of ``options`` unless there is a default."""
        if self._left and self._left[0] in options:
            return self._left.pop(0)
        if default is not _REQUIRED:
            return default
        found = f"'.{self._left[0]}'" if self._left else "nothing"
        raise self.unsupported(f"expected {_listed(options)}, found {found}")

    def flag(self, name: str) -> bool:
        """Read the modifier ``name`` if it comes next."""
        return self.choice(name, default=None) is not None

    def end(self, sources: int, destinations: int = 1) -> None:
        """Raise an error for unread modifiers or a wrong number of operands."""
        if self._left:
            raise self.unsupported(f"the modifier '.{self._left[0]}' has no meaning here")
        if (self.sources, self.destinations) != (sources, destinations):
            raise self.unsupported(
                f"it takes {destinations} destination and {sources} source operands, "
                f"not {self.destinations} and {self.sources}"
            )

    def compiled(
        self,
        body: Results,
        sources: Sequence[str],
        destinations: Sequence[str],
        *,
        carry_in: bool = False,
        carry_out: bool = False,
    ) -> Operation:
        """Build an operation that compiles ``body`` (:mod:`.expression`); types are PTX types."""
        function = self.function(
            body, [*sources, *["pred"] * carry_in], [*destinations, *["pred"] * carry_out]
        )
        made = self.plain(function, sources, destinations, carry_in=carry_in, carry_out=carry_out)
        return replace(made, body=body)

    def function(
        self, body: Results, sources: Sequence[str], destinations: Sequence[str]
    ) -> LazyUfunc:
        """Return an expression as a ufunc; types are PTX types."""
        # A body gets f16 operands as their bits, but a ufunc takes arrays of the real dtype.
        dtypes = [DTYPES[t] for t in (*sources, *destinations)]
        return LazyUfunc(
            self.name,
            body,
            [kind_of(t) for t in sources],
            [kind_of(t) for t in destinations],
            dtypes,
        )

    def plain(
        self,
        function: Callable[..., Any],
        sources: Sequence[str],
        destinations: Sequence[str],
        *,
        carry_in: bool = False,
        carry_out: bool = False,
    ) -> Operation:
        """Return an operation that calls a function of arrays, such as a NumPy ufunc."""
        return Operation(
            function,
            tuple(sources),
            tuple(destinations),
            carry_in,
            carry_out,
            body=UFUNCS.get(function),
        )


# NumPy ufuncs that serve as operations in the table, as expressions.
UFUNCS: dict[Callable[..., Any], Results] = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.negative: lambda a: -a,
    np.absolute: lambda a: select(a < 0, -a, a),
    np.bitwise_and: lambda a, b: a & b,
    np.bitwise_or: lambda a, b: a | b,
    np.bitwise_xor: lambda a, b: a ^ b,
    np.invert: lambda a: ~a,
    np.equal: lambda a, b: a == b,
    np.not_equal: lambda a, b: a != b,
    np.less: lambda a, b: a < b,
    np.less_equal: lambda a, b: a <= b,
    np.greater: lambda a, b: a > b,
    np.greater_equal: lambda a, b: a >= b,
}


def kind_of(ptx_type: str) -> str:
    """Return the expression kind in which a PTX type is computed.

    Numbers are computed as themselves. Bits, packed values and half-precision values are computed
    as unsigned integers of their width.
    """
    return kind(DTYPES[ptx_type])


def _listed(names: Sequence[str]) -> str:
    dotted = [f".{name}" for name in names]
    return dotted[0] if len(dotted) == 1 else f"{', '.join(dotted[:-1])} or {dotted[-1]}"


# These include types that occur in names but are never the type of a register.
TYPE_NAMES = frozenset((*DTYPES, "s16x2", "u16x2", "e4m3x2", "e5m2x2", "tf32"))

SIGNED = ("s16", "s32", "s64")
UNSIGNED = ("u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
BITS = ("b16", "b32", "b64")

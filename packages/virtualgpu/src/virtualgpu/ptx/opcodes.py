"""Table of PTX opcodes: the decoder, profile class and possible effects of each.

The decoder, both back ends, the analyses of loops and of order, the counters and the trace use
this table to find out whether an instruction is a load, whether it ends a basic block, or which
class it is counted in. :mod:`virtualgpu.operations` defines what a data instruction *computes*.
The groups are the chapters of the PTX ISA, "Instruction Set".
"""

from __future__ import annotations

from dataclasses import dataclass

from virtualgpu.ptx.module import Instruction


@dataclass(frozen=True, slots=True)
class Opcode:
    """Properties of an opcode.

    Attributes
    ----------
    name : str
    section : str
        The chapter of the PTX ISA that defines it.
    family : str
        The decoder: data, move, address, memory, hint, control, barrier, fence, warp, matrix,
        copy, mbarrier, texture, cluster, stack or idle (no effect that a program can see).
    counted : str
        The class under which profiles count it (``watch.counters.Counters``); "arithmetic" becomes
        integer or float by the instruction's type.
    result : bool
        Whether its first operand is a register that it writes.
    loads, stores : bool
        Whether it loads from memory into a register (``cp`` and ``red`` do not); whether it may
        change memory.
    meets : bool
        Whether its ``.sync`` form waits for the lanes of a mask.
    ends : bool
        Whether a basic block ends after it.
    fails : bool
        Whether it can stop a kernel, by a bad address, a barrier that cannot complete, or
        ``trap``.
    carry : bool
        Whether it reads the carry flag.
    flops : int
        Floating point operations of one lane on one float.
    """

    name: str
    section: str
    family: str
    counted: str
    result: bool = True
    loads: bool = False
    stores: bool = False
    meets: bool = False
    ends: bool = False
    fails: bool = False
    carry: bool = False
    flops: int = 0

    @property
    def pure(self) -> bool:
        """Return True if the result depends only on the operands."""
        return self.family in ("data", "move", "address")


def _table() -> dict[str, Opcode]:
    made: dict[str, Opcode] = {}

    def group(section: str, family: str, counted: str, names: str, **traits: bool | int) -> None:
        for name in names.split():
            if name in made:
                raise ValueError(f"{name} stands twice in the table of opcodes")
            made[name] = Opcode(name, section, family, counted, **traits)  # type: ignore[arg-type]

    integers = "Integer Arithmetic Instructions", "data", "arithmetic"
    group(*integers, "rem sad dp4a dp2a mul24 mad24")
    group(
        "Extended-Precision Integer Arithmetic Instructions",
        "data",
        "arithmetic",
        "addc subc madc",
        carry=True,
    )
    both = "Integer Arithmetic Instructions, Floating Point Instructions", "data", "arithmetic"
    group(*both, "abs neg min max")
    group(*both, "add sub mul div", flops=1)
    group(*both, "mad", flops=2)
    floats = "Floating Point Instructions", "data"
    group(*floats, "arithmetic", "fma", flops=2)
    group(*floats, "arithmetic", "copysign")
    group(*floats, "special", "sin cos ex2 lg2 rsqrt sqrt rcp tanh", flops=1)
    group(*floats, "comparison", "testp")
    group("Comparison and Selection Instructions", "data", "comparison", "setp set selp slct")
    group(
        "Logic and Shift Instructions",
        "data",
        "logic",
        "and or xor not cnot shl shr shf lop3 bfe bfi prmt popc clz brev bfind fns bmsk szext",
    )
    group(
        "Video Instructions",
        "data",
        "arithmetic",
        "vadd vsub vabsdiff vmin vmax vadd2 vsub2 vabsdiff2 vmin2 vmax2 vadd4 vsub4 vabsdiff4 "
        "vmin4 vmax4",
    )
    group("Video Instructions", "data", "comparison", "vset vset2 vset4")

    moves = "Data Movement and Conversion Instructions"
    group(moves, "data", "conversion", "cvt")
    group(moves, "move", "move", "mov")
    group(moves, "address", "conversion", "cvta isspacep")
    group(moves, "cluster", "other", "mapa getctarank")
    group(moves, "memory", "memory", "ld ldu", loads=True, fails=True)
    group(moves, "memory", "memory", "st", result=False, stores=True, fails=True)
    group(moves, "hint", "memory", "prefetch prefetchu discard applypriority", result=False)
    group(moves, "copy", "memory", "cp", result=False, stores=True, fails=True)
    group(moves, "warp", "warp", "shfl", meets=True)
    group("Texture Instructions", "texture", "memory", "tex tld4", loads=True, fails=True)
    group("Surface Instructions", "texture", "memory", "suld", loads=True, fails=True)
    group(
        "Surface Instructions",
        "texture",
        "memory",
        "sust sured",
        result=False,
        stores=True,
        fails=True,
    )

    control = "Control Flow Instructions", "control", "control"
    group(*control, "bra brx ret exit", result=False, ends=True)
    group(*control, "call", result=False, ends=True, stores=True)

    together = "Parallel Synchronization and Communication Instructions"
    group(
        together, "barrier", "synchronisation", "bar barrier", result=False, ends=True, fails=True
    )
    group(together, "fence", "synchronisation", "membar fence", result=False)
    group(together, "memory", "atomic", "atom", loads=True, stores=True, fails=True)
    group(together, "memory", "atomic", "red", result=False, stores=True, fails=True)
    group(together, "warp", "warp", "vote match redux elect", meets=True)
    group(together, "warp", "warp", "activemask")
    group(together, "mbarrier", "synchronisation", "mbarrier", loads=True, stores=True, fails=True)
    group(together, "idle", "other", "griddepcontrol", result=False)

    matrices = "Warp Level Matrix Multiply-Accumulate Instructions", "matrix"
    group(*matrices, "tensor", "mma", meets=True)
    # wmma.load and wmma.store are separate opcodes in all but name.
    group(*matrices, "tensor", "wmma", meets=True, loads=True, stores=True, fails=True)
    group(*matrices, "memory", "ldmatrix", meets=True, loads=True, fails=True)
    group(*matrices, "memory", "stmatrix", result=False, meets=True, stores=True, fails=True)

    group("Stack Manipulation Instructions", "stack", "other", "stacksave alloca")
    group("Stack Manipulation Instructions", "stack", "other", "stackrestore", result=False)

    miscellaneous = "Miscellaneous Instructions"
    group(miscellaneous, "control", "control", "trap", result=False, ends=True, fails=True)
    group(miscellaneous, "control", "control", "brkpt", result=False)
    group(miscellaneous, "idle", "control", "nanosleep", result=False)
    group(miscellaneous, "idle", "other", "pmevent setmaxnreg", result=False)
    return made


#: Every opcode that the package knows, by its name.
OPCODES = _table()


def of_family(*families: str) -> frozenset[str]:
    """Return the names of all opcodes in some families."""
    return frozenset(name for name, opcode in OPCODES.items() if opcode.family in families)


BARRIERS = of_family("barrier")
#: Warp operations that wait for the lanes of a mask.
COLLECTIVES = frozenset(name for name in of_family("warp") if OPCODES[name].meets)
FENCES = of_family("fence")
TEXTURES = of_family("texture")
JUMPS = frozenset(["bra", "brx", "ret", "exit"])

_UNKNOWN = Opcode("", "", "", "other")
# The table with the virtual GPU's own instruction, which PTX does not have
# (virtualgpu.program.exact_indices).
_ALL = OPCODES | {"%exact": Opcode("%exact", "", "exact", "other", result=False)}


def traits(instruction: Instruction) -> Opcode:
    """Return the properties of an instruction's opcode.

    An unknown opcode counts as one that only writes its first operand.
    """
    return _ALL.get(instruction.opcode, _UNKNOWN)


def has_result(instruction: Instruction) -> bool:
    """Return True if the instruction writes its first operand.

    ``bar.red`` has a result, ``bar.sync`` has none.
    """
    opcode = traits(instruction)
    return opcode.result or (opcode.family == "barrier" and "red" in instruction.modifiers)


def waits_for_warp(instruction: Instruction) -> bool:
    """Return True if the instruction waits until all lanes of its mask have arrived.

    These are ``.sync`` forms of warp operations and of matrix instructions, and ``bar.warp.sync``.
    """
    opcode = traits(instruction)
    if opcode.family == "barrier":
        return "warp" in instruction.modifiers
    return opcode.meets and "sync" in instruction.modifiers

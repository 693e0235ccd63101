"""Forms of the instructions that are neither data nor plain memory, as the PTX ISA writes them.

A row of the table has an instruction's name and its operands, results before ``=``. In a name
``a/b`` is a choice and ``a?`` may be missing; what an instruction has there are the *words* of its
step. An operand is a PTX type, or

- ``T``, the type that ends the name; ``$n``, the type that is word n;
- ``[]`` an address; ``n`` a number written out, ``n:4/8`` one of these;
- ``a|b`` a result and a second one, which may be missing; ``_`` a result that nothing keeps;
- ``a/b`` one of several types; ``a?`` one that may be missing; ``b32*4`` as many registers;
- ``{a,b}`` a texture or surface and its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from virtualgpu import operations
from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.program import fragments
from virtualgpu.program.fragments import Fragment

_SPACES = "const/global/local/param/param:entry/param:func/shared/shared:cta/shared:cluster"
_SHARED = "shared/shared:cta"
_ARRIVES = f"release/relaxed?.cta/cluster?.{_SHARED}?.b64"
_REMOTE = "release/relaxed?.cta/cluster?.shared:cluster/.b64"
_WAITS = f"acquire/relaxed?.cta/cluster?.{_SHARED}?.b64"
_BULK = "async.bulk.shared:cta/shared:cluster.global.mbarrier:complete_tx:bytes"

_ROWS = f"""
cvta.to?.{_SPACES}.u32/u64                 T = T
isspacep.{_SPACES}                         pred = u64/u32
mapa.shared:cluster?.u32/u64               T = T u32
getctarank.shared:cluster?.u32/u64         u32 = T

bar.cta?.sync.aligned?                     = u32 u32?
bar.cta?.arrive.aligned?                   = u32 u32
bar.cta?.red.popc.aligned?.u32             u32 = u32 u32? pred
bar.cta?.red.and/or.aligned?.pred          pred = u32 u32? pred
bar.warp.sync                              = u32
bar.cluster.arrive/wait.acquire/release/relaxed?.aligned?    =

vote.sync.all/any/uni.pred                 pred = pred u32
vote.sync.ballot/.b32                      b32 = pred u32
shfl.sync.up/down/bfly/idx.b32             b32|pred = b32 b32 b32 u32
match.any/.sync.b32/b64                    u32 = T u32
match.all/.sync.b32/b64                    u32|pred = T u32
redux.sync.add/min/max.u32/s32             T = T u32
redux.sync.and/or/xor.b32                  u32 = u32 u32
elect.sync                                 u32|pred = u32
activemask.b32                             b32 =

cp.async.ca.{_SHARED}.global.L2:64B/L2:128B/L2:256B?                 = [] [] n:4/8/16 u32/pred?
cp.async.ca.{_SHARED}.global.L2:cache_hint.L2:64B/L2:128B/L2:256B?   = [] [] n:4/8/16 u32/pred? u64
cp.async.cg.{_SHARED}.global.L2:64B/L2:128B/L2:256B?                 = [] [] n:16 u32/pred?
cp.async.cg.{_SHARED}.global.L2:cache_hint.L2:64B/L2:128B/L2:256B?   = [] [] n:16 u32/pred? u64
cp.async.mbarrier.arrive.noinc?.{_SHARED}?.b64                       = []
cp.{_BULK}                                 = [] [] u32 []
cp.{_BULK}.L2:cache_hint                   = [] [] u32 [] u64
cp.async.commit_group                      =
cp.async.wait_group                        = n
cp.async.wait_all                          =

mbarrier.init.{_SHARED}?.b64               = [] u32
mbarrier.inval.{_SHARED}?.b64              = []
mbarrier.expect_tx.relaxed?.cta/cluster?.{_SHARED}/shared:cluster?.b64    = [] u32
mbarrier.complete_tx.relaxed?.cta/cluster?.{_SHARED}/shared:cluster?.b64  = [] u32
mbarrier.arrive/arrive_drop.{_ARRIVES}                        u64 = [] u32?
mbarrier.arrive/arrive_drop.{_REMOTE}                         _ = [] u32?
mbarrier.arrive/arrive_drop.noComplete/expect_tx.{_ARRIVES}   u64 = [] u32
mbarrier.arrive/arrive_drop.noComplete/expect_tx.{_REMOTE}    _ = [] u32
mbarrier.test_wait.{_WAITS}                pred = [] u64
mbarrier.test_wait.parity.{_WAITS}         pred = [] u32
mbarrier.try_wait.{_WAITS}                 pred = [] u64 u32?
mbarrier.try_wait.parity.{_WAITS}          pred = [] u32 u32?
mbarrier.pending_count.b64                 u32 = u64

tex.1d/.v4.f32/s32/u32.f32/s32             b32*4 = {{u64,$2}}
tex.2d/.v4.f32/s32/u32.f32/                b32*4 = {{u64,f32,f32}}
tex.3d/.v4.f32/s32/u32.f32/                b32*4 = {{u64,f32,f32,f32,f32}}
tex.a2d/.v4.f32/s32/u32.f32/               b32*4 = {{u64,u32,f32,f32,f32}}

alloca.u32/u64                             T = T n:{"/".join(str(1 << i) for i in range(24))}?
stacksave.u32/u64                          T =
stackrestore.u32/u64                       = T

nanosleep.u32                              = u32
pmevent                                    = n
pmevent.mask                               = n
setmaxnreg.inc/dec.sync.aligned.u32        = n:{"/".join(map(str, range(24, 257, 8)))}
griddepcontrol.launch_dependents/wait      =
"""


def _more(opcode: str) -> Iterator[tuple[str, tuple[Fragment, ...]]]:
    """Yield the forms of an opcode that a rule makes."""
    if opcode in ("mma", "wmma"):
        yield from fragments.forms(opcode)
    for number in (1, 2, 4):
        matrices = f"sync.aligned.m8n8.x{number}/.trans?.{_SHARED}?.b16"
        yield f"ldmatrix.{matrices} b32*{number} = []", ()
        yield f"stmatrix.{matrices} = [] b32*{number}", ()
        for geometry, place in (("1d", "s32"), ("2d", "s32,s32"), ("3d", "s32,s32,s32,s32")):
            vector = "" if number == 1 else f".v{number}"
            end = f"ca/cg/cs/cv/wb/wt?{vector}.b8/b16/b32/b64.trap/clamp/zero"
            for one in (geometry, "a2d") if geometry == "3d" else (geometry,):
                yield f"suld.b.{one}/.{end} $2*{number} = {{u64,{place}}}", ()
                yield f"sust.b.{one}/.{end} = {{u64,{place}}} $2*{number}", ()


# Told of what has no form here, by the first words of its name.
_LACKING = {
    "vote": "without .sync it is gone since sm_70",
    "shfl": "without .sync it is gone since sm_70",
    "mma.sp": "products with a sparse A (mma.sp) are not modelled; multiply the dense matrix: "
    "mma.sync without .sp",
    "mma.sync.aligned.m8n8k4": "this shape of f16 is of sm_70; compile for compute_80 or later and "
    "use m16n8k16",
    **dict.fromkeys(
        ("mma", "wmma"),
        "the machine multiplies matrices of f16, bf16, tf32, f64, s8 and u8, in the shapes of "
        "the PTX ISA for sm_80 to sm_90",
    ),
    **dict.fromkeys(
        ("ldmatrix", "stmatrix"),
        "matrices of 8 rows of eight 16-bit elements (.m8n8 … .b16) are what sm_75 to sm_90 have; "
        "compile for compute_90 without a letter",
    ),
    "cp": "the only bulk copy that the machine has is from global to shared memory, with an "
    "mbarrier. Compile for compute_80, where cuda::memcpy_async becomes cp.async, or "
    "copy with loads and stores",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a form: one of several PTX types, an address (no type) or a number.

    ``count`` registers are one operand; 0 stands for a plain one.
    """

    types: tuple[str, ...] = ()
    count: int = 0
    optional: bool = False
    numbers: frozenset[int] | None = None
    parts: tuple[str, ...] = ()  # of an object and its coordinates


@dataclass(frozen=True, slots=True)
class Form:
    """The operands of an instruction with all its modifiers."""

    words: tuple[str, ...]
    results: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    fragments: tuple[Fragment, ...]


@cache
def form_of(opcode: str, modifiers: tuple[str, ...]) -> Form:
    """Return the form of an instruction. Raises UnsupportedInstruction without one."""
    for name, operands, parts in _rows("bar" if opcode == "barrier" else opcode):
        words = _words(name, modifiers)
        if words is not None:
            types = {"T": modifiers[-1] if modifiers else ""}
            types |= {f"${number}": word for number, word in enumerate(words)}
            before, after = operands.split("=")
            results = tuple(
                _operand(one, types) for side in before.split() for one in side.split("|")
            )
            return Form(words, results, tuple(_operand(one, types) for one in after.split()), parts)
    name = ".".join((opcode, *modifiers))
    if opcode in ("tex", "suld", "sust", "tld4", "sured"):
        operations.lookup(opcode, modifiers, 1, 1)  # says which textures there are
    starts = sorted(_LACKING, key=len)
    why = [_LACKING[start] for start in starts if f"{name}.".startswith(f"{start}.")]
    raise UnsupportedInstruction(
        f"the virtual GPU has no instruction '{name}'" + (f": {why[-1]}" if why else "")
    )


@cache
def _rows(opcode: str) -> list[tuple[str, str, tuple[Fragment, ...]]]:
    known = [(row, ()) for row in _ROWS.splitlines() if row.startswith(f"{opcode}.")]
    known += [(row, ()) for row in _ROWS.splitlines() if row.startswith(f"{opcode} ")]
    made = [one for one in _more(opcode) if one[0].startswith(f"{opcode}.")]
    return [(*row.split(None, 1), parts) for row, parts in (*known, *made)]  # type: ignore[misc]


def _words(name: str, modifiers: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words that modifiers choose in a form's name; None where it is another form."""
    left, words = list(modifiers), []
    for token in name.split(".")[1:]:
        choices = token.removesuffix("?").split("/")
        found = left.pop(0) if left and left[0] and left[0] in choices else ""
        if not found and not token.endswith("?"):
            return None
        if len(choices) > 1 or token.endswith("?"):
            words.append(found)
    return None if left else tuple(words)


def _operand(text: str, types: dict[str, str]) -> Operand:
    optional = text.endswith("?")
    text = text.removesuffix("?")
    if text.startswith("{"):
        return Operand(parts=tuple(types.get(one, one) for one in text[1:-1].split(",")))
    if text[0] == "n":
        return Operand(
            optional=optional,
            numbers=frozenset(map(int, text[2:].split("/"))) if text[2:] else frozenset(),
        )
    if text == "[]":
        return Operand()
    text, _, count = text.partition("*")
    return Operand(tuple(types.get(one, one) for one in text.split("/")), int(count or 0), optional)

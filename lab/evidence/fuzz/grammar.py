"""Random kernels that mostly decode: typed instructions, any control flow, any address."""

from __future__ import annotations

from random import Random

import lab.benchmarks.support  # noqa: F401
from lab.evidence.fuzz.templates import CLUSTER, CONTROL, MEMORY, TENSOR
from ptx_instructions import DATA, LITERALS, chosen

# Register classes: letter → (type, number).
CLASSES = {
    "p": ("pred", 6),
    "h": ("b16", 6),
    "r": ("b32", 10),
    "d": ("b64", 8),
    "f": ("f32", 6),
    "x": ("f64", 5),
    "w": ("b128", 3),
}

SPECIAL = (
    "%tid.x",
    "%tid.y",
    "%ntid.x",
    "%ctaid.x",
    "%nctaid.x",
    "%laneid",
    "%warpid",
    "%lanemask_lt",
    "%dynamic_smem_size",
    "%cluster_ctarank",
    "%cluster_nctaid.x",
)
OFFSETS = (0, 0, 0, 4, 8, 16, -4, 60, 64, 1 << 20, -(1 << 31), 1 << 40, 1 << 63)
VARIABLES = ("buffer", "table4", "tile", "spill", "p1", "p2")
PLACES = {"global": "%ga", "const": "%ga", "param": "%ga", "shared": "%sa", "local": "%la"}
RARE = ("trap", "exit", "ret", "call g")


def _register(random: Random, letter: str) -> str:
    return f"%{letter}{random.randrange(CLASSES[letter][1])}"


def _source(random: Random, letter: str) -> str:
    lot = random.random()
    if letter == "r" and lot < 0.12:
        return random.choice(SPECIAL)
    if lot < 0.3 and letter != "p":
        return random.choice(LITERALS[letter])
    return _register(random, letter)


def _address(random: Random, template: str) -> str:
    lot = random.random()
    if lot < 0.93:  # an address that this thread may access
        base = next(
            (PLACES[w] for w in template.split()[0].split(".") if w in PLACES),
            random.choice(("%ga", "%gen")),
        )
        return f"[{base}+{random.choice((0, 0, 0, 16))}]"
    if lot < 0.96:
        base = random.choice(VARIABLES)
    elif lot < 0.99:
        base = _register(random, "d")
    else:
        return f"[{random.choice(LITERALS['d'])}]"
    offset = random.choice(OFFSETS)
    return f"[{base}{offset:+d}]" if offset else f"[{base}]"


def instruction(random: Random, labels: int) -> str:
    """Return one instruction with its semicolon."""
    kind = random.random()
    template = random.choice(
        DATA
        if kind < 0.5
        else MEMORY
        if kind < 0.74
        else TENSOR
        if kind < 0.76
        else CLUSTER
        if kind < 0.8
        else CONTROL
    )
    if template in RARE and random.random() < 0.8:
        template = "bra ~"
    text, out, at = chosen(random, template), [], 0
    while at < len(text):
        sign = text[at]
        if sign == "@":
            out.append(_register(random, text[at + 1]))
            at += 2
        elif sign == "$":
            out.append(_source(random, text[at + 1]))
            at += 2
        elif text.startswith("[]", at):
            out.append(_address(random, text))
            at += 2
        elif sign == "~":
            out.append(f"L{random.randrange(labels)}")
            at += 1
        else:
            out.append(sign)
            at += 1
    guard = ""
    if random.random() < 0.2:
        guard = f"@{random.choice(('', '!'))}{_register(random, 'p')} "
    return f"  {guard}{''.join(out)};"


def kernel(random: Random) -> str:
    """Return a module with the kernel ``k``, which takes two pointers and a number."""
    labels = random.randrange(1, 6)
    body = [instruction(random, labels) for _ in range(random.randrange(3, 40))]
    for label in range(labels):
        body.insert(random.randrange(len(body) + 1), f"L{label}:")
    registers = "".join(
        f"  .reg .{kind} %{letter}<{count}>;\n" for letter, (kind, count) in CLASSES.items()
    )
    inner = "\n".join(
        line for _ in range(random.randrange(4)) if "table" not in (line := instruction(random, 1))
    )
    cluster = (
        ""
        if random.random() < 0.8
        else random.choice(
            (" .reqnctapercluster 2", " .reqnctapercluster 2, 2, 2", " .explicitcluster")
        )
    )
    table = ", ".join(f"L{random.randrange(labels)}" for _ in range(random.randrange(1, 5)))
    return f""".version 8.4
.target sm_90
.address_size 64
.global .align 8 .b8 buffer[256];
.const .align 4 .u32 table4[4] = {{1, 2, 3, 4}};
.shared .align 16 .b8 tile[512];
.extern .shared .align 8 .b8 dynamic[];
.func (.param .b32 ret0) f(.param .b32 arg0)
{{
{registers}  .local .align 8 .b8 spill[32];
  .reg .b64 %ga, %sa, %la, %gen, %other;
  ld.param.u32 %r0, [arg0];
L0:
{inner}
  st.param.b32 [ret0], %r0;
  ret;
}}
.func g()
{{
  .reg .pred %again;
  .reg .b32 %now;
  mov.u32 %now, %clock;
  and.b32 %now, %now, 3;
  setp.eq.u32 %again, %now, 0;
  @%again call g;
}}
.func (.reg .b32 back) scaled(.reg .b32 given, .reg .f32 factor)
{{
  .reg .f32 %value;
  cvt.rn.f32.s32 %value, given;
  mul.f32 %value, %value, factor;
  cvt.rzi.s32.f32 back, %value;
  ret;
}}
.visible .entry k(.param .u64 p1, .param .u64 p2, .param .u32 n){cluster}
{{
{registers}  .local .align 8 .b8 spill[64];
  .param .b32 arg0;
  .param .b32 ret0;
  .reg .b64 %ga, %sa, %la, %gen, %part, %other;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %laneid;
  and.b32 %r2, %r0, 15;
  mul.wide.u32 %part, %r2, 16;
  ld.param.u64 %d0, [p1];
  ld.param.u64 %d1, [p2];
  add.u64 %ga, %d0, %part;
  mov.u64 %sa, tile;
  add.u64 %sa, %sa, %part;
  and.b64 %la, %part, 16;
  mov.u64 %gen, spill;
  add.u64 %la, %la, %gen;
  cvta.shared.u64 %gen, %sa;
  mov.u64 %other, %sa;
  setp.lt.u32 %p0, %r0, 7;
  setp.ne.u32 %p1, %r1, 0;
table: .branchtargets {table};
proto: .callprototype (.param .b32 _) _ (.param .b32 _);
{chr(10).join(body)}
  ret;
}}
"""

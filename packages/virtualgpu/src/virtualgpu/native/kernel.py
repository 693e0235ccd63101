"""From a program to a native function that runs blocks of threads.

The warp's function (:mod:`.lowering`) is called for each warp of each block by a short loop. A
kernel with barriers runs all warps of a block up to where each waits, then goes round again, as
PoCL does with work groups (Jääskeläinen et al., "pocl: A Performance-Portable OpenCL
Implementation", 2015).
"""

from __future__ import annotations

from dataclasses import astuple

from virtualgpu.compilers import llvm
from virtualgpu.compilers.building import declare
from virtualgpu.native import block_order, privatisation
from virtualgpu.native.block_scheduler import Resident
from virtualgpu.native.context import AT
from virtualgpu.native.divergence import barrier_of
from virtualgpu.native.lowering import Lowering
from virtualgpu.native.record import Record
from virtualgpu.native.state_layout import parked
from virtualgpu.native.values import I64, POINTER
from virtualgpu.program.program import Program

_BLOCKS = """
define i32 @{name}(ptr noalias %ctx, i64 %first, i64 %count) {{
entry:
{fields}
  %last = add i64 %first, %count
  br label %blocks
blocks:
  %b = phi i64 [%first, %entry], [%b2, %next]
  %more = icmp ult i64 %b, %last
  br i1 %more, label %block, label %done
done:
{merge}
  ret i32 0
block:
  %x = urem i64 %b, %nctaid_x
  %q = udiv i64 %b, %nctaid_x
  %y = urem i64 %q, %nctaid_y
  %z = udiv i64 %q, %nctaid_y
  store i64 %x, ptr %ctaid_x_p
  store i64 %y, ptr %ctaid_y_p
  store i64 %z, ptr %ctaid_z_p
  store i64 %b, ptr %block_p
  %shared_ptr = inttoptr i64 %shared to ptr
  call void @llvm.memset.p0.i64(ptr %shared_ptr, i8 -2, i64 %shared_bytes, i1 false)
  %local_ptr = inttoptr i64 %local to ptr
  call void @llvm.memset.p0.i64(ptr %local_ptr, i8 -2, i64 %local_bytes, i1 false)
{begun}
  br label %{start}
{body}
stopped:
{merge}
  ret i32 2
next:
{ended}
  %b2 = add i64 %b, 1
  br label %blocks
}}
define internal i32 @lanes(i64 %threads, i64 %w) alwaysinline {{
  %before = shl i64 %w, 5
  %left = sub i64 %threads, %before
  %whole = icmp uge i64 %left, 32
  %bit = shl i64 1, %left
  %some = sub i64 %bit, 1
  %bits = select i1 %whole, i64 4294967295, i64 %some
  %mask = trunc i64 %bits to i32
  ret i32 %mask
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
_PLAIN = """
warps:
  %w = phi i64 [0, %block], [%w2, %went]
  %any = icmp ult i64 %w, %warps_n
  br i1 %any, label %warp, label %next
warp:
  store i64 %w, ptr %warp_p
  %mask = call i32 @lanes(i64 %threads, i64 %w)
  %r = call i32 @{name}_warp(ptr %ctx, ptr null, i32 %mask)
  %w2 = add i64 %w, 1
  %bad = icmp eq i32 %r, 2
  br i1 %bad, label %stopped, label %went
went:
  br label %warps
"""
# A warp's state begins with the number of the barrier at which it stands: 0 at its start, -1 when
# it has ended.
_ROUNDS = """
reset:
  %i = phi i64 [0, %block], [%i2, %reset]
  %i_at = mul i64 %i, %state_size
  %i_sum = add i64 %states, %i_at
  %i_p = inttoptr i64 %i_sum to ptr
  store i32 0, ptr %i_p
  %i2 = add i64 %i, 1
  %i_more = icmp ult i64 %i2, %warps_n
  br i1 %i_more, label %reset, label %round
round:
  br label %warps
warps:
  %w = phi i64 [0, %round], [%w2, %went]
  %waits = phi i1 [false, %round], [%waits2, %went]
  %lowest = phi i32 [-1, %round], [%lowest2, %went]
  %any = icmp ult i64 %w, %warps_n
  br i1 %any, label %look, label %over
over:
  br i1 %waits, label %pass, label %next
pass:
{passed}
  br label %round
look:
  %s_at = mul i64 %w, %state_size
  %s_sum = add i64 %states, %s_at
  %s_p = inttoptr i64 %s_sum to ptr
  %phase = load i32, ptr %s_p
  %ended = icmp eq i32 %phase, -1
  %w2 = add i64 %w, 1
  br i1 %ended, label %went, label %warp
warp:
  store i64 %w, ptr %warp_p
  %mask = call i32 @lanes(i64 %threads, i64 %w)
  %r = call i32 @{name}_warp(ptr %ctx, ptr %s_p, i32 %mask)
  switch i32 %r, label %ends [i32 1, label %waiting i32 2, label %stopped]
ends:
  store i32 -1, ptr %s_p
  br label %went
waiting:
  %stands = load i32, ptr %s_p
  %below = icmp ult i32 %stands, %lowest
  %lower = select i1 %below, i32 %stands, i32 %lowest
  br label %went
went:
  %waits2 = phi i1 [%waits, %look], [%waits, %ends], [true, %waiting]
  %lowest2 = phi i32 [%lowest, %look], [%lowest, %ends], [%lower, %waiting]
  br label %warps
"""
# At how many barriers a block has passed, by the lowest of those at which its warps stand.
_PASSED = """
  %rounds_p = getelementptr i64, ptr %ctx, i64 {passes}
  %rounds_n = load i64, ptr %rounds_p
  %rounds_t = inttoptr i64 %rounds_n to ptr
  %number = zext i32 %lowest to i64
  %passed_p = getelementptr i64, ptr %rounds_t, i64 %number
  %passed_n = load i64, ptr %passed_p
  %passed_1 = add i64 %passed_n, 1
  store i64 %passed_1, ptr %passed_p
  call void @stretch(ptr %ctx, i64 0)
""".format(passes=AT["passes"])
_ENDED = "  call void @stretch(ptr %ctx, i64 1)"
_STRETCH = """
define internal void @stretch(ptr %ctx, i64 %ended) {{
{loads}
  %function = inttoptr i64 %end_stretch to ptr
  call i64 %function(i64 %warp_instructions, i64 %warp_accesses, i64 %span, i64 %warps, i64 %ended)
  ret void
}}
""".format(
    loads="\n".join(
        f"  %{word}_p = getelementptr i64, ptr %ctx, i64 {AT[word]}\n"
        f"  %{word} = load i64, ptr %{word}_p"
        for word in ("end_stretch", "warp_instructions", "warp_accesses", "span", "warps")
    )
)
_FIELDS = {
    "threads": "threads",
    "warps": "warps_n",
    "nctaid_x": "nctaid_x",
    "nctaid_y": "nctaid_y",
    "shared": "shared",
    "local": "local",
    "shared_bytes": "shared_bytes",
    "local_bytes": "local_bytes",
    "states": "states",
    "state_size": "state_size",
}
_CLOCK = f"""
  %clock_p = getelementptr i64, ptr %ctx, i64 {AT["clock"]}
  store i64 0, ptr %clock_p"""
_STORED = ("ctaid_x", "ctaid_y", "ctaid_z", "block", "warp")


def build(program: Program, name: str) -> Record:
    """Compile a kernel (``native``), or its variant that counts (``counting``) or is checked
    (``watching``), and load it. Raises Refused where native code cannot be the same as the
    machine."""
    counts, watches = name == "counting", name == "watching"
    lowering = Lowering(program, name, counts, watches)
    lines = []
    for word in (*_FIELDS, *_STORED):
        lines.append(f"  %{word}_p = getelementptr i64, ptr %ctx, i64 {AT[word]}")
        if word in _FIELDS:
            lines.append(f"  %{_FIELDS[word]} = load i64, ptr %{word}_p")
    rounds = bool(lowering.barriers)
    apart, watching, places = lowering.apart, lowering.watching, lowering.places
    begun, passed, more = (
        ("", _PASSED, _STRETCH)
        if counts
        else ("", "", "")
        if (watching is None)
        else watching.texts()
    )
    begun += _CLOCK * lowering.timed
    merge = ""
    if lowering.sums:
        merge = f'  call i64 @"{privatisation.merge()}"(ptr %ctx)'
        declare(lowering.module, privatisation.merge(), I64, [POINTER])
    if apart is not None:
        Resident(name, lowering.function, apart, len(lowering.accesses.sites))
        text = str(lowering.module)
    else:
        text = (
            str(lowering.module)
            + _BLOCKS.format(
                name=name,
                fields="\n".join(lines),
                start="reset" if rounds else "warps",
                begun=begun,
                merge=merge,
                ended=_ENDED if counts else "",
                body=(_ROUNDS if rounds else _PLAIN).format(name=name, passed=passed),
            )
            + more
        )
    steps = {id(step): number for some in lowering.steps for number, step in enumerate(some)}
    sites, used = lowering.accesses.sites, lowering.accesses.used
    return Record(
        code=llvm.needed(llvm.linkable(text, name, "few")),
        variables=lowering.registers.variables,
        sites=[(place.index, steps[id(step)]) for step, place in sites],
        limits=[place.frame + place.block.function.frame_size for _, place in sites],
        adds=[privatisation.width(step, used) for step, _ in sites],
        state_size=lowering.state.size,
        local_size=max(place.frame + place.block.function.frame_size for place in places),
        # Blocks that wait for each other share a core's time; one core alone adds to tables of
        # counts.
        ordered=(
            counts or watches or apart is not None or block_order.is_ordered(places, lowering.steps)
        ),
        atomics=any(
            step.site.kind == "atomic" and step.site.space != "shared" for step, _ in sites
        ),
        grid_barrier=any(barrier_of(lowering.steps[p.index]).grid for p in lowering.barriers),
        given=sorted(lowering.registers.given),
        row=lowering.row,
        shown=lowering.shown,
        heads=[
            (
                place,
                head.sees,
                sorted(head.slots),
                [(offset, dtype.str, own) for offset, dtype, own in head.registers],
            )
            for place, head in lowering.heads.items()
        ],
        parked=None if apart is None else parked(apart),
        grain=None if watching is None else list(astuple(watching.grain)),
    )

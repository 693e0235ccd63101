"""Memory accesses that are not plain, as native functions that all kernels share.

A kernel's own code has the plain cases: one address for all lanes, or neighbouring addresses in
the allocation that the instruction used last. Everything else comes here: lanes apart, lanes that
are not all there, several allocations, generic addresses, a thread's own memory, atomics.
Compiled once per process, in 10 to 30 ms each when first needed.

Every function checks all lanes before it touches memory, and answers 1 where one may not.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from virtualgpu.codegen.context import ADDRESSES, AT, COMPARES, VALUES
from virtualgpu.compilers.llvm import machine_code
from virtualgpu.machine.compiled import atomic_body
from virtualgpu.machine.memory import BASE
from virtualgpu.machine.wave import LOCAL_BASE, SHARED_BASE, WINDOW

SPACES = {"global": 0, "shared": 1, "local": 2, "generic": 3}

# `locate` answers the host address of `size` bytes at a device address, or 0: %site is where the
# bounds of the last global allocation are kept. The tables are sorted; each is searched by halves.
_LOCATE = """
define internal i64 @search(ptr %starts, ptr %ends, i64 %count, i64 %a, i64 %size) {{
entry:
  br label %loop
loop:
  %low = phi i64 [0, %entry], [%low2, %step]
  %high = phi i64 [%count, %entry], [%high2, %step]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step, label %done
step:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %sp = getelementptr i64, ptr %starts, i64 %mid
  %s = load i64, ptr %sp
  %right = icmp ule i64 %s, %a
  %mid1 = add i64 %mid, 1
  %low2 = select i1 %right, i64 %mid1, i64 %low
  %high2 = select i1 %right, i64 %high, i64 %mid
  br label %loop
done:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %bad, label %test
test:
  %i = sub i64 %low, 1
  %ep = getelementptr i64, ptr %ends, i64 %i
  %e = load i64, ptr %ep
  %before = icmp ult i64 %a, %e
  %room = sub i64 %e, %a
  %fits = icmp uge i64 %room, %size
  %good = and i1 %before, %fits
  br i1 %good, label %found, label %bad
found:
  ret i64 %i
bad:
  ret i64 -1
}}
define internal i64 @locate(ptr %ctx, ptr %site, i64 %space, i64 %lane, i64 %a, i64 %size) {{
entry:
  %mask = sub i64 %size, 1
  %odd = and i64 %a, %mask
  %crooked = icmp ne i64 %odd, 0
  br i1 %crooked, label %bad, label %straight
straight:
  switch i64 %space, label %generic [i64 0, label %global i64 1, label %shared_entry
                                     i64 2, label %local_entry]
generic:
  %ws = sub i64 %a, {shared_base}
  %in_shared = icmp ult i64 %ws, {window}
  br i1 %in_shared, label %shared, label %not_shared
not_shared:
  %wl = sub i64 %a, {local_base}
  %in_local = icmp ult i64 %wl, {window}
  br i1 %in_local, label %local, label %global
shared_entry:
  br label %shared
local_entry:
  br label %local
global:
  %low = load i64, ptr %site
  %span_p = getelementptr i64, ptr %site, i64 1
  %span = load i64, ptr %span_p
  %far = sub i64 %a, %low
  %near = icmp ult i64 %far, %span
  br i1 %near, label %global_good, label %look
look:
  %gs_p = getelementptr i64, ptr %ctx, i64 {global_starts}
  %gs = load ptr, ptr %gs_p
  %ge_p = getelementptr i64, ptr %ctx, i64 {global_ends}
  %ge = load ptr, ptr %ge_p
  %gn_p = getelementptr i64, ptr %ctx, i64 {global_count}
  %gn = load i64, ptr %gn_p
  %gi = call i64 @search(ptr %gs, ptr %ge, i64 %gn, i64 %a, i64 %size)
  %gbad = icmp slt i64 %gi, 0
  br i1 %gbad, label %bad, label %keep
keep:
  %ns_p = getelementptr i64, ptr %gs, i64 %gi
  %ns = load i64, ptr %ns_p
  %ne_p = getelementptr i64, ptr %ge, i64 %gi
  %ne = load i64, ptr %ne_p
  %nbytes = sub i64 %ne, %ns
  %nrest = sub i64 %nbytes, %size
  %nspan = add i64 %nrest, 1
  store i64 %ns, ptr %site
  store i64 %nspan, ptr %span_p
  br label %global_good
global_good:
  %delta_p = getelementptr i64, ptr %ctx, i64 {delta}
  %delta = load i64, ptr %delta_p
  %gp = add i64 %delta, %a
  ret i64 %gp
shared:
  %sa = phi i64 [%a, %shared_entry], [%ws, %generic]
  %ss_p = getelementptr i64, ptr %ctx, i64 {shared_starts}
  %ss = load ptr, ptr %ss_p
  %se_p = getelementptr i64, ptr %ctx, i64 {shared_ends}
  %se = load ptr, ptr %se_p
  %sn_p = getelementptr i64, ptr %ctx, i64 {shared_count}
  %sn = load i64, ptr %sn_p
  %si = call i64 @search(ptr %ss, ptr %se, i64 %sn, i64 %sa, i64 %size)
  %sbad = icmp slt i64 %si, 0
  br i1 %sbad, label %bad, label %shared_good
shared_good:
  %own = icmp eq i64 %space, 1
  br i1 %own, label %shared_keep, label %shared_at
shared_keep:
  %ts_p = getelementptr i64, ptr %ss, i64 %si
  %ts = load i64, ptr %ts_p
  %te_p = getelementptr i64, ptr %se, i64 %si
  %te = load i64, ptr %te_p
  %tbytes = sub i64 %te, %ts
  %trest = sub i64 %tbytes, %size
  %tspan = add i64 %trest, 1
  store i64 %ts, ptr %site
  %tspan_p = getelementptr i64, ptr %site, i64 1
  store i64 %tspan, ptr %tspan_p
  br label %shared_at
shared_at:
  %sh_p = getelementptr i64, ptr %ctx, i64 {shared}
  %sh = load i64, ptr %sh_p
  %sp = add i64 %sh, %sa
  ret i64 %sp
local:
  %la = phi i64 [%a, %local_entry], [%wl, %not_shared]
  %ll_p = getelementptr i64, ptr %ctx, i64 {local_limit}
  %ll = load i64, ptr %ll_p
  %inside = icmp ult i64 %la, %ll
  %lroom = sub i64 %ll, %la
  %lfits = icmp uge i64 %lroom, %size
  %lgood = and i1 %inside, %lfits
  br i1 %lgood, label %local_good, label %bad
local_good:
  %lo_p = getelementptr i64, ptr %ctx, i64 {local}
  %lo = load i64, ptr %lo_p
  %st_p = getelementptr i64, ptr %ctx, i64 {local_stride}
  %st = load i64, ptr %st_p
  %w_p = getelementptr i64, ptr %ctx, i64 {warp}
  %w = load i64, ptr %w_p
  %w32 = shl i64 %w, 5
  %thread = add i64 %w32, %lane
  %frame = mul i64 %thread, %st
  %l1 = add i64 %lo, %frame
  %lp = add i64 %l1, %la
  ret i64 %lp
bad:
  ret i64 0
}}
"""

# All lanes of %mask: addresses become host addresses in place, or 1 is answered and the device
# addresses stand as they were.
_PLACES = """
define internal i64 @places(ptr %ctx, ptr %site, i64 %space, i32 %mask, i64 %size, ptr %out) {{
entry:
  br label %loop
loop:
  %left = phi i32 [%mask, %entry], [%left2, %good]
  %any = icmp ne i32 %left, 0
  br i1 %any, label %lane, label %done
lane:
  %i32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %i = zext i32 %i32 to i64
  %less = sub i32 %left, 1
  %left2 = and i32 %left, %less
  %n = add i64 %i, {addresses}
  %ap = getelementptr i64, ptr %ctx, i64 %n
  %a = load i64, ptr %ap
  %p = call i64 @locate(ptr %ctx, ptr %site, i64 %space, i64 %i, i64 %a, i64 %size)
  %bad = icmp eq i64 %p, 0
  br i1 %bad, label %failed, label %good
good:
  %op = getelementptr i64, ptr %out, i64 %i
  store i64 %p, ptr %op
  br label %loop
done:
  ret i64 0
failed:
  ret i64 1
}}
declare i32 @llvm.cttz.i32(i32, i1)
"""

_MOVE = """
define i64 @{name}(ptr %ctx, ptr %site, i64 %space, i32 %mask, i64 %width) {{
entry:
  %places = alloca [32 x i64], align 64
  %size = mul i64 %width, {size}
  %one = icmp eq i64 %width, 1
  %far = icmp ne i64 %space, 2
  %simple = and i1 %one, %far
  br i1 %simple, label %quick, label %careful
quick:
  %at = getelementptr i64, ptr %ctx, i64 {addresses}
  %all = load <32 x i64>, ptr %at, align 8
  %low = load i64, ptr %site
  %low0 = insertelement <32 x i64> poison, i64 %low, i64 0
  %lows = shufflevector <32 x i64> %low0, <32 x i64> poison, <32 x i32> zeroinitializer
  %span_p = getelementptr i64, ptr %site, i64 1
  %span = load i64, ptr %span_p
  %span0 = insertelement <32 x i64> poison, i64 %span, i64 0
  %spans = shufflevector <32 x i64> %span0, <32 x i64> poison, <32 x i32> zeroinitializer
  %offsets = sub <32 x i64> %all, %lows
  %inside = icmp ult <32 x i64> %offsets, %spans
  %crooked = and <32 x i64> %all, splat (i64 {odd})
  %straight = icmp eq <32 x i64> %crooked, zeroinitializer
  %legal = and <32 x i1> %inside, %straight
  %lanes = bitcast i32 %mask to <32 x i1>
  %legal_bits = bitcast <32 x i1> %legal to i32
  %wrong0 = xor i32 %legal_bits, -1
  %wrong = and i32 %wrong0, %mask
  %known = icmp eq i32 %wrong, 0
  br i1 %known, label %fast, label %careful
fast:
  %is_shared = icmp eq i64 %space, 1
  %base_at = select i1 %is_shared, i64 {shared}, i64 {delta}
  %base_p = getelementptr i64, ptr %ctx, i64 %base_at
  %base = load i64, ptr %base_p
  %base0 = insertelement <32 x i64> poison, i64 %base, i64 0
  %bases = shufflevector <32 x i64> %base0, <32 x i64> poison, <32 x i32> zeroinitializer
  %hosts = add <32 x i64> %all, %bases
  %pointers = inttoptr <32 x i64> %hosts to <32 x ptr>
  %room = getelementptr i64, ptr %ctx, i64 {values}
  {move_all}
  ret i64 0
careful:
  %bad = call i64 @places(ptr %ctx, ptr %site, i64 %space, i32 %mask, i64 %size, ptr %places)
  %failed = icmp ne i64 %bad, 0
  br i1 %failed, label %stop, label %elements
stop:
  ret i64 1
elements:
  %e = phi i64 [0, %careful], [%e2, %next]
  %more = icmp ult i64 %e, %width
  br i1 %more, label %start, label %done
done:
  ret i64 0
start:
  %values0 = getelementptr i64, ptr %ctx, i64 {values}
  %row = shl i64 %e, 5
  %values = getelementptr {type}, ptr %values0, i64 %row
  %shift = mul i64 %e, {size}
  br label %loop
loop:
  %left = phi i32 [%mask, %start], [%left2, %lane]
  %any = icmp ne i32 %left, 0
  br i1 %any, label %lane, label %next
lane:
  %i32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %i = zext i32 %i32 to i64
  %less = sub i32 %left, 1
  %left2 = and i32 %left, %less
  %pp = getelementptr i64, ptr %places, i64 %i
  %p0 = load i64, ptr %pp
  %p1 = add i64 %p0, %shift
  %p = inttoptr i64 %p1 to ptr
  %vp = getelementptr {type}, ptr %values, i64 %i
  {move}
  br label %loop
next:
  %e2 = add i64 %e, 1
  br label %elements
}}
"""
_GATHER_ALL = """%v = call <32 x {type}> @llvm.masked.gather.v32{type}.v32p0(
      <32 x ptr> %pointers, i32 {size}, <32 x i1> %lanes, <32 x {type}> zeroinitializer)
  store <32 x {type}> %v, ptr %room, align 8"""
_SCATTER_ALL = """%v = load <32 x {type}>, ptr %room, align 8
  call void @llvm.masked.scatter.v32{type}.v32p0(
      <32 x {type}> %v, <32 x ptr> %pointers, i32 {size}, <32 x i1> %lanes)"""
_INTRINSICS = """
declare <32 x {type}> @llvm.masked.gather.v32{type}.v32p0(<32 x ptr>, i32, <32 x i1>,
                                                          <32 x {type}>)
declare void @llvm.masked.scatter.v32{type}.v32p0(<32 x {type}>, <32 x ptr>, i32, <32 x i1>)
"""
_GATHER = "%x = load {type}, ptr %p\n  store {type} %x, ptr %vp"
_SCATTER = "%x = load {type}, ptr %vp\n  store {type} %x, ptr %p"

# Lanes one after the other, lowest first, as `virtualgpu.machine.compiled` has them.
_ATOMIC = """
define i64 @{name}(ptr %ctx, ptr %site, i64 %space, i32 %mask) {{
entry:
  %places = alloca [32 x i64], align 64
  %bad = call i64 @places(ptr %ctx, ptr %site, i64 %space, i32 %mask, i64 {size}, ptr %places)
  %failed = icmp ne i64 %bad, 0
  br i1 %failed, label %stop, label %start
stop:
  ret i64 1
start:
  %values = getelementptr i64, ptr %ctx, i64 {values}
  %compares = getelementptr i64, ptr %ctx, i64 {compares}
  br label %loop
loop:
  %left = phi i32 [%mask, %start], [%left2, %after]
  %any = icmp ne i32 %left, 0
  br i1 %any, label %lane, label %done
done:
  ret i64 0
lane:
  %i32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %i = zext i32 %i32 to i64
  %less1 = sub i32 %left, 1
  %left2 = and i32 %left, %less1
  %pp = getelementptr i64, ptr %places, i64 %i
  %p0 = load i64, ptr %pp
  %place = inttoptr i64 %p0 to ptr
  %vp = getelementptr {type}, ptr %values, i64 %i
  %cp = getelementptr {type}, ptr %compares, i64 %i
  %ap0 = add i64 %i, {addresses}
  %ap = getelementptr i64, ptr %ctx, i64 %ap0
  %a = load i64, ptr %ap
  {step}
after:
  store {type} %old, ptr %vp
  br label %loop
}}
"""
_ONE = """
define internal {type} @{one}(ptr %place, {type} %value, {type} %compare) alwaysinline {{
  %old = load {type}, ptr %place
  {body}
  store {type} %new, ptr %place
  ret {type} %old
}}
"""


def _common() -> str:
    return _LOCATE.format(shared_base=SHARED_BASE, local_base=LOCAL_BASE, window=WINDOW, **AT) + (
        _PLACES.format(addresses=ADDRESSES))


@cache
def locate() -> int:
    """``locate`` itself: ``(context, site, space, lane, address, size)`` → host address or 0."""
    text = _common().replace("define internal i64 @locate", "define i64 @locate")
    return machine_code(text, "locate")


@cache
def mover(kind: str, size: int) -> int:
    """``load`` or ``store`` of elements of ``size`` bytes between memory and the context's room
    for values: ``(context, site, space, mask, width)`` → 0, or 1 for an illegal access."""
    name, type_ = f"native_{kind}_{size}", f"i{8 * size}"
    one, every = (_GATHER, _GATHER_ALL) if kind == "load" else (_SCATTER, _SCATTER_ALL)
    text = _common() + _INTRINSICS.format(type=type_) + _MOVE.format(
        name=name, size=size, odd=size - 1, type=type_, values=VALUES, addresses=ADDRESSES,
        shared=AT["shared"], delta=AT["delta"], move=one.format(type=type_),
        move_all=every.format(type=type_, size=size))
    return machine_code(text, name)


@cache
def atomic(operation: str, dtype: np.dtype, space: str) -> int:
    """An atomic: ``(context, site, space, mask)`` → 0, or 1 for an illegal access. Values and
    what is compared with lie in the context; the values become the old ones."""
    flushing = operation == "add" and dtype == np.float32
    # PTX ISA, "atom": float32 sums flush subnormal numbers in global memory, not in shared.
    type_, body = atomic_body(operation, dtype)
    text = _ONE.format(one="one", type=type_, body=body)
    call = "call {t} @{f}(ptr %place, {t} %value, {t} %compare)"
    plain = call.format(t=type_, f="one")
    step = (f"%value = load {type_}, ptr %vp\n  %compare = load {type_}, ptr %cp\n  ")
    if flushing:
        _, flushed = atomic_body("add_ftz", dtype)
        text += _ONE.format(one="flushed", type=type_, body=flushed)
        test = {"global": "true", "shared": "false"}.get(space, "%outside")
        step += (
            f"%outside = icmp uge i64 %a, {BASE}\n  br i1 {test}, label %flush, label %keep\n"
            f"flush:\n  %old1 = {call.format(t=type_, f='flushed')}\n  br label %after\n"
            f"keep:\n  %old2 = {plain}\n  br label %after")
        phi = f"after:\n  %old = phi {type_} [%old1, %flush], [%old2, %keep]\n"
    else:
        step += f"%old = {plain}\n  br label %after"
        phi = "after:\n"
    name = f"native_atomic_{operation}_{dtype.kind}{dtype.itemsize}_{space}"
    text += _common() + _ATOMIC.format(
        name=name, size=dtype.itemsize, type=type_, values=VALUES, compares=COMPARES,
        addresses=ADDRESSES, step=step).replace("after:\n", phi)
    return machine_code(text, name)

"""Instructions for random kernels, by purpose; ``ptx_instructions`` has arithmetic.

In a template, `@c` is a register of class c to write, `$c` a register, literal or special register
to read, `[]` an address, `~` a label, and `a/b/c` in braces is one of several words.
"""

MEMORY = """
ld.{global/shared/local/relaxed.gpu.global}.b128 @w, []
st.{global/shared/local}.b128 [], @w
atom.{global/shared}.exch.b128 @w, [], @w
atom.{global/shared}.cas.b128 @w, [], @w, @w
alloca.u64 @d, {16/40/4096}{/, 16/, 64}
alloca.u64 @d, $d
{stacksave.u64 @d/stackrestore.u64 @d}
ld.{global/shared/local/param/const}.{u32/s32/b32} @r, []
ld.{u32/volatile.u32} @r, []
ld.{global/shared}.{u8/s8/u16} @r, []
ld.{global/shared/local}.{u64/b64} @d, []
ld.{global/local}.v2.b32 {open}@r, @r{close}, []
ld.global.v4.f32 {open}@f, @f, @f, _{close}, []
ld.{global.nc/relaxed.gpu.global/acquire.cta.shared}.u32 @r, []
ld.{global/shared}.f64 @x, []
st.{global/shared/local/param}.{u32/b32} [], $r
st.{u32/volatile.u32} [], $r
st.{global/shared}.u8 [], $r
st.{global/shared/local}.u64 [], $d
st.{global/local}.v2.b32 [], {open}$r, $r{close}
st.shared.v4.f32 [], {open}$f, $f, $f, $f{close}
st.global.f16 [], @h
atom.{global/shared}.{add/min/max/exch}.u32 @r, [], $r
atom.{and/or/xor}.b32 @r, [], $r
atom.global.add.{u32/s32} @r, [], $r
atom.global.add.f32 @f, [], $f
atom.shared.add.f64 @x, [], $x
atom.{global/shared}.{inc/dec}.u32 @r, [], $r
atom.{global/shared}.cas.b32 @r, [], $r, $r
atom.global.cas.b16 @h, [], $h, $h
atom.global.cas.b64 @d, [], $d, $d
red.{global/shared}.add.u32 [], $r
red.global.add.noftz.f16x2 [], $r
{atom/atom.global}.add.v2.f32 {open}@f, _{close}, [], {open}$f, $f{close}
red.{global/relaxed.gpu.global}.add.v4.f32 [], {open}$f, $f, $f, $f{close}
red.global.add.noftz.v2.{f16x2/bf16x2} [], {open}$r, $r{close}
atom.global.add.noftz.v4.bf16 {open}@h, @h, @h, @h{close}, [], {open}@h, @h, @h, @h{close}
cp.async.ca.{shared/shared::cta}.global [], [%ga], {4/8/16}
cp.async.cg.shared.global.L2::128B [], [%ga], 16{/, 16/, 0/, %p1/, %r2}
cp.async.{commit_group/wait_all/wait_group 0/wait_group 1/mbarrier.arrive.shared.b64 []}
cp.async.mbarrier.arrive.noinc.shared.b64 []
mbarrier.init.{shared/shared::cta}.b64 [], {1/2/32/33}
mbarrier.init.shared.b64 [], $r
mbarrier.{inval.shared.b64/arrive.shared.b64 _,/arrive_drop.shared.b64 _,} []
mbarrier.{arrive.shared/arrive/arrive.release.cta.shared::cta}.b64 @d, []
mbarrier.{arrive.noComplete.shared/arrive.shared::cta/arrive_drop.shared::cta}.b64 @d, [], $r
mbarrier.arrive.expect_tx.shared::cta.b64 @d, [], {0/16/48}
mbarrier.{expect_tx/complete_tx}.relaxed.cta.shared::cta.b64 [], {0/16/48}
mbarrier.{test_wait/try_wait}.shared.b64 @p, [], $d
mbarrier.{test_wait/try_wait}.parity.shared.b64 @p, [], {0/1}
mbarrier.pending_count.b64 @r, $d
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [], [%ga], {16/32/8}, [%sa+64]
{prefetch.global.L1/membar.gl/fence.acq_rel.gpu} []
cvta.{global/shared/local/to.shared/to.local}.u64 @d, $d
isspacep.{global/shared/local} @p, $d
""".strip().splitlines()

# Rare, because the kernel ends if only part of a warp executes such an instruction, or if a number
# is not a texture.
TENSOR = """
tex.2d.v4.f32.f32 {open}@f, @f, _, @f{close}, [{%d1/$d}, {open}$f, $f{close}]
tex.{1d.v4.u32.s32/1d.v4.s32.s32} {open}@r, @r, @r, @r{close}, [{%d1/$d}, {open}$r{close}]
suld.b.2d{.b32./.v3.b32.}{trap/clamp/zero} {open}@r{close}, [{%d1/$d}, {open}$r, $r{close}]
sust.b.2d.v2.b32.{trap/clamp/zero} [{%d1/$d}, {open}$r, $r{close}], {open}$r, $r{close}
ldmatrix.sync.aligned.m8n8.{x1.shared/x1.trans.shared::cta/x1}.b16 {open}@r{close}, []
ldmatrix.sync.aligned.m8n8.x4{/.trans}.shared.b16 {open}@r, @r, @r, @r{close}, []
stmatrix.sync.aligned.m8n8.x2{.shared/.trans.shared/}.b16 [], {open}$r, $r{close}
wmma.load.{a/b}.sync.aligned.{row/col}.m8n8k4.{shared/global}.f64 {open}@x{close}, []{/, 4/, 3}
wmma.load.{a/b}.sync.aligned.{row/col}.m16n16k16{.shared/.global/}.{s8/u8} {open}@r, @r{close}, []
wmma.load.c.sync.aligned.{row/col}.m16n16k16.global.f16 {open}@r, @r, @r, @r{close}, [], $r
wmma.store.d.sync.aligned.{row/col}.m8n8k4{.shared/.global/}.f64 [], {open}$x, $x{close}
wmma.store.d.sync.aligned.row.m16n16k16.{shared/global}.f16 [], {open}$r, $r, $r, $r{close}, 16
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {open}@r, @r{close}, {open}$r, $r{close}, \
{open}$r{close}, {open}$r, $r{close}
mma.sync.aligned.m16n8k8.row.col.f32.{bf16.bf16/f16.f16}.f32 {open}@f, @f, _, @f{close}, \
{open}$r, $r{close}, {open}$r{close}, {open}$f, $f, $f, $f{close}
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {open}@f, @f, @f, @f{close}, {open}$r, \
$r{close}, {open}$r{close}, {open}$f, $f, $f, $f{close}
mma.sync.aligned.m8n8k4.row.col{/.rz}.f64.f64.f64.f64 {open}@x, @x{close}, {open}$x{close}, \
{open}$x{close}, {open}$x, $x{close}
mma.sync.aligned.m8n8k16.row.col{/.satfinite}.s32.{s8.u8/s8.s8}.s32 {open}@r, @r{close}, \
{open}$r{close}, {open}$r{close}, {open}$r, $r{close}
wmma.mma.sync.aligned.{row/col}.row.m8n8k4{/.rn}.f64.f64.f64.f64 {open}@x, @x{close}, \
{open}$x{close}, {open}$x{close}, {open}$x, $x{close}
""".strip().splitlines()

# For clusters: `%other` is this thread's address in the shared memory of a neighbouring block.
CLUSTER = """
{mapa.shared::cluster.u64 %other, %sa,/mapa.u64 %gen, %gen,} {0/1/2/%r2}
mapa.shared::cluster.u64 @d, $d, $r
getctarank{.shared::cluster/}.u64 @r, {%other/%gen/%d0}
ld.shared::cluster.{u32/b32} @r, {[%other]/[%other]/[]}
ld.volatile.shared::cluster.v2.b32 {open}@r, @r{close}, [%other]
st.shared::cluster.u32 {[%other]/[%other]/[%other+1024]}, $r
{st/red.relaxed.cluster}.shared::cluster{/.add}.u32 [%other], $r
atom.{relaxed/acq_rel}.cluster.shared::cluster.{add/max/exch}.u32 @r, [%other], $r
atom.shared::cluster.cas.b32 @r, [%other], $r, $r
barrier.cluster.arrive{/.release/.relaxed}{/.aligned}
barrier.cluster.wait{/.acquire}{/.aligned}
barrier.cluster.wait
isspacep.shared::cluster @p, {%gen/$d}
cvta.shared::cluster.u64 %gen, %other
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%other]
mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%other], 16
fence.{acq_rel/sc}.cluster
""".strip().splitlines()

CONTROL = """
bra ~
bra.uni ~
bar.sync 0
bar.sync $r
bar.sync 1, {32/64/33}
bar.arrive 1, 64
bar.red.popc.u32 @r, 0, $p
bar.red.and.pred @p, 0, $p
bar.warp.sync {0xffffffff/-1/7}
bar.warp.sync $r
shfl.sync.{idx/up/down/bfly}.b32 @r|@p, $r, $r, $r, {-1/255}
shfl.sync.bfly.b32 @r, $r, 1, 31, $r
vote.sync.{all/any/uni}.pred @p, $p, {-1/15}
vote.sync.ballot.b32 @r, $p, -1
match.any.sync.b32 @r, $r, -1
match.all.sync.b64 @r|@p, $d, -1
redux.sync.{add/min/xor}.{u32/b32} @r, $r, -1
elect.sync @r|@p, -1
{setmaxnreg.inc.sync.aligned.u32 64/griddepcontrol.wait/griddepcontrol.launch_dependents}
activemask.b32 @r
nanosleep.u32 $r
brx.idx $r, table
call (ret0), f, (arg0)
call g
call (@r), scaled, (@r, @f)
call (ret0), $d, (arg0), proto
ret
exit
trap
membar.cta
mov.u32 @r, %clock
mov.u64 @d, %globaltimer
""".strip().splitlines()

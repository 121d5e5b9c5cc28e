//! Shuffles, votes, reductions and barriers, with the semantics the PTX manual tabulates.

use crate::harness::run32;
use qcs_emulator::{Device, LaunchConfig, Params};

/// One warp whose lane `l` starts with `%ra = a(l)`.
fn warp(body: &str, a: impl Fn(u64) -> u64) -> Vec<u32> {
    run32(body, &std::array::from_fn::<_, 32, _>(|l| [a(l as u64), l as u64, 0]))
}

#[test]
fn shuffles_move_values_between_lanes() {
    let down = warp("shfl.sync.down.b32 %r, %ra, 1, 31, -1", |l| l * 10);
    assert_eq!(
        down,
        (0..32)
            .map(|l| if l < 31 { (l + 1) * 10 } else { 310 })
            .collect::<Vec<_>>()
    );
    let up = warp("shfl.sync.up.b32 %r, %ra, 2, 0, -1", |l| l);
    assert_eq!(
        up,
        (0..32u32).map(|l| if l < 2 { l } else { l - 2 }).collect::<Vec<_>>()
    );
    let butterfly = warp("shfl.sync.bfly.b32 %r, %ra, 16, 31, -1", |l| l);
    assert_eq!(butterfly, (0..32u32).map(|l| l ^ 16).collect::<Vec<_>>());
    let broadcast = warp("shfl.sync.idx.b32 %r, %ra, 5, 31, -1", |l| l + 100);
    assert_eq!(broadcast, [105; 32]);
}

#[test]
fn segments_confine_a_shuffle() {
    // Width 8: clamp 31 (of the segment) and segment mask 0x18 in bits 8 to 12.
    let body = "shfl.sync.down.b32 %r|%p, %ra, 3, 0x181f, -1; @!%p mov.u32 %r, 999";
    let expected = (0..32u32)
        .map(|l| if l % 8 + 3 < 8 { l + 3 } else { 999 })
        .collect::<Vec<_>>();
    assert_eq!(warp(body, |l| l), expected);
}

#[test]
fn votes() {
    let odd = "and.b32 %s, %ra, 1; setp.eq.u32 %p, %s, 1; ";
    let flag = "; selp.u32 %r, 1, 0, %p";
    assert_eq!(
        warp(&format!("{odd} vote.sync.ballot.b32 %r, %p, -1"), |l| l),
        [0xaaaa_aaaa; 32]
    );
    assert_eq!(
        warp(&format!("{odd} vote.sync.any.pred %p, %p, -1{flag}"), |l| l),
        [1; 32]
    );
    assert_eq!(
        warp(&format!("{odd} vote.sync.all.pred %p, %p, -1{flag}"), |l| l),
        [0; 32]
    );
    assert_eq!(
        warp(&format!("{odd} vote.sync.uni.pred %p, %p, -1{flag}"), |_| 3),
        [1; 32]
    );
    assert_eq!(
        warp(&format!("{odd} vote.sync.all.pred %p, !%p, -1{flag}"), |l| 2 * l),
        [1; 32]
    );
}

#[test]
fn matches_and_reductions() {
    let pairs = warp("match.any.sync.b32 %r, %ra, -1", |l| l / 2);
    assert_eq!(pairs, (0..32u32).map(|l| 3 << (l / 2 * 2)).collect::<Vec<_>>());
    assert_eq!(warp("match.all.sync.b32 %r|%p, %ra, -1", |_| 7), [u32::MAX; 32]);
    assert_eq!(warp("match.all.sync.b32 %r|%p, %ra, -1", |l| l), [0; 32]);
    assert_eq!(warp("redux.sync.add.u32 %r, %ra, -1", |l| l), [496; 32]);
    assert_eq!(
        warp("redux.sync.min.s32 %r, %ra, -1", |l| (l as u32).wrapping_sub(9) as u64),
        [-9i32 as u32; 32]
    );
    assert_eq!(warp("redux.sync.max.u32 %r, %ra, -1", |l| l), [31; 32]);
    assert_eq!(warp("redux.sync.or.b32 %r, %ra, -1", |l| 1 << l), [u32::MAX; 32]);
    assert_eq!(
        warp("redux.sync.xor.b32 %r, %ra, -1", |l| 1 << (l % 31)),
        [0x7fff_fffe; 32]
    );
}

#[test]
fn a_member_mask_limits_the_exchange() {
    let body = "mov.u32 %r, 0; setp.lt.u32 %p, %rb, 16; @%p redux.sync.add.u32 %r, %ra, 0xffff";
    let sums = warp(body, |l| l);
    assert_eq!(sums, (0..32).map(|l| if l < 16 { 120 } else { 0 }).collect::<Vec<_>>());
}

#[test]
fn special_registers() {
    assert_eq!(warp("mov.u32 %r, %laneid", |_| 0), (0..32).collect::<Vec<_>>());
    assert_eq!(warp("mov.u32 %r, %lanemask_lt", |_| 0)[5], 0b1_1111);
    assert_eq!(warp("mov.u32 %r, %lanemask_le", |_| 0)[31], u32::MAX);
    assert_eq!(warp("mov.u32 %r, %lanemask_gt", |_| 0)[30], 1 << 31);
    assert_eq!(warp("mov.u32 %r, %lanemask_ge", |_| 0)[31], 1 << 31);
    assert_eq!(warp("mov.u32 %r, %lanemask_eq", |_| 0)[7], 1 << 7);
    assert_eq!(warp("activemask.b32 %r", |_| 0), [u32::MAX; 32]);
    assert_eq!(warp("mov.u32 %r, %ntid.x", |_| 0), [32; 32]);
    assert_eq!(warp("mov.u32 %r, %nctaid.z", |_| 0), [1; 32]);
}

#[test]
fn threads_and_blocks_are_numbered_in_three_dimensions() {
    let ptx = ".version 7.0
.target sm_70
.address_size 64
.visible .entry number(.param .u64 out) {
    .reg .b32 %r<12>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z;
    mov.u32 %r7, %nctaid.x; mov.u32 %r8, %nctaid.y;
    mad.lo.u32 %r3, %r3, %r8, %r2;  // block = (z ny + y) nx + x
    mad.lo.u32 %r3, %r3, %r7, %r1;
    mov.u32 %r9, %ntid.x; mov.u32 %r10, %ntid.y; mov.u32 %r11, %ntid.z;
    mad.lo.u32 %r3, %r3, %r11, %r6;
    mad.lo.u32 %r3, %r3, %r10, %r5;
    mad.lo.u32 %r3, %r3, %r9, %r4;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
}";
    let device = Device::default();
    let module = device.load(ptx).unwrap();
    let out = device.poisoned::<u32>(2 * 3 * 4 * 5 * 2 * 3);
    let config = LaunchConfig {
        grid: [2, 3, 4],
        block: [5, 2, 3],
        dynamic_shared: 0,
    };
    device
        .launch(&module, "number", config, &Params::new().buffer(&out))
        .unwrap();
    assert_eq!(out.read(), (0..720).collect::<Vec<_>>());
}

/// Two blocks of 96 threads; each thread votes `tid % 3 == 0`.
fn block(body: &str) -> Vec<u32> {
    let ptx = format!(
        ".version 7.0
.target sm_70
.address_size 64
.visible .entry block(.param .u64 out) {{
    .shared .align 4 .b8 cell[384];
    .reg .pred %p, %q;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    rem.u32 %r2, %r1, 3;
    setp.eq.u32 %p, %r2, 0;
    mov.u32 %r0, 0;
    {body}
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r3, %r3, 96, %r1;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r0;
    ret;
}}"
    );
    let device = Device::default();
    let module = device.load(&ptx).unwrap();
    let out = device.poisoned::<u32>(192);
    device
        .launch(
            &module,
            "block",
            LaunchConfig::linear(2, 96),
            &Params::new().buffer(&out),
        )
        .unwrap();
    out.read()
}

#[test]
fn barriers_reduce_over_the_block() {
    assert_eq!(block("bar.red.popc.u32 %r0, 0, %p;"), [32; 192]);
    assert_eq!(block("bar.red.and.pred %q, 0, %p; selp.u32 %r0, 1, 0, %q;"), [0; 192]);
    assert_eq!(block("bar.red.or.pred %q, 0, %p; selp.u32 %r0, 1, 0, %q;"), [1; 192]);
}

/// Thread t reads what thread 95 - t wrote before the barrier.
#[test]
fn a_barrier_makes_shared_memory_visible() {
    let body = "mov.u32 %r4, cell; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5; st.shared.u32 [%r6], %r1;
        barrier.sync.aligned 0;
        sub.u32 %r7, 380, %r5; add.u32 %r7, %r7, %r4; ld.shared.u32 %r0, [%r7];";
    let expected: Vec<u32> = (0..192).map(|i| 95 - i % 96).collect();
    assert_eq!(block(body), expected);
}

/// Warp 0 only announces itself at barrier 1; warps 1 and 2 wait there for all 96 threads.
#[test]
fn a_producer_may_arrive_without_waiting() {
    let body = "setp.lt.u32 %q, %r1, 32; mov.u32 %r4, cell; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5;
        @%q st.shared.u32 [%r6], %r1;
        @%q bar.arrive 1, 96;
        @!%q bar.sync 1, 96;
        and.b32 %r5, %r5, 127; add.u32 %r6, %r4, %r5;
        @!%q ld.shared.u32 %r0, [%r6];";
    let expected: Vec<u32> = (0..192).map(|i| if i % 96 < 32 { 0 } else { i % 32 }).collect();
    assert_eq!(block(body), expected);
}

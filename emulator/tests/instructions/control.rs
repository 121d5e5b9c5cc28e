//! Branches, loops, calls and predication.

use crate::harness::run32;

fn lanes(body: &str) -> Vec<u32> {
    run32(body, &std::array::from_fn::<_, 32, _>(|l| [l as u64, 0, 0]))
}

/// Each lane loops as often as its number says: 0 + 1 + … + l.
#[test]
fn lanes_loop_for_different_times_and_meet_again() {
    let body = "mov.u32 %r, 0; mov.u32 %s, 0;
        LOOP: setp.ge.u32 %p, %s, %ra; @%p bra DONE;
        add.u32 %s, %s, 1; add.u32 %r, %r, %s; bra.uni LOOP;
        DONE: activemask.b32 %s; setp.eq.u32 %q, %s, -1; @!%q mov.u32 %r, 12345";
    assert_eq!(lanes(body), (0..32).map(|l| l * (l + 1) / 2).collect::<Vec<u32>>());
}

/// As compilers place it: the end of the loop's body, where both ways through it meet, stands before its begin.
#[test]
fn lanes_meet_where_the_sides_of_a_branch_do_though_that_stands_first() {
    let body = "mov.u32 %r, 0; mov.u32 %s, 0; bra.uni HEAD;
        TAIL: activemask.b32 %rc; popc.b32 %rc, %rc; add.u32 %r, %r, %rc;
        add.u32 %s, %s, 1; setp.lt.u32 %p, %s, 3; @%p bra HEAD; bra.uni END;
        HEAD: setp.lt.u32 %p, %ra, 5; @%p bra TAIL;
        add.u32 %r, %r, 1000; bra.uni TAIL;
        END: add.u32 %r, %r, 0";
    let expected: Vec<u32> = (0..32).map(|l| if l < 5 { 96 } else { 3096 }).collect();
    assert_eq!(lanes(body), expected);
}

#[test]
fn both_sides_of_a_branch_run() {
    let body = "and.b32 %s, %ra, 1; setp.eq.u32 %p, %s, 0; @%p bra EVEN;
        mul.lo.u32 %r, %ra, 100; bra.uni END;
        EVEN: mul.lo.u32 %r, %ra, 1000;
        END: add.u32 %r, %r, 1";
    let expected: Vec<u32> = (0..32)
        .map(|l| if l % 2 == 0 { l * 1000 + 1 } else { l * 100 + 1 })
        .collect();
    assert_eq!(lanes(body), expected);
}

/// A shuffle inside a divergent loop waits for its members only.
#[test]
fn half_a_warp_can_shuffle_while_the_other_half_is_elsewhere() {
    let body = "mov.u32 %r, 7; setp.lt.u32 %p, %ra, 16; @!%p bra SKIP;
        shfl.sync.bfly.b32 %r, %ra, 1, 31, 0xffff;
        SKIP: bar.warp.sync -1";
    let expected: Vec<u32> = (0..32u32).map(|l| if l < 16 { l ^ 1 } else { 7 }).collect();
    assert_eq!(lanes(body), expected);
}

#[test]
fn a_branch_table_jumps_by_index() {
    let body = "TABLE: .branchtargets A, B, C; rem.u32 %s, %ra, 3;
        brx.idx %s, TABLE;
        A: mov.u32 %r, 10; bra.uni END;
        B: mov.u32 %r, 20; bra.uni END;
        C: mov.u32 %r, 30;
        END: add.u32 %r, %r, %s";
    let expected: Vec<u32> = (0..32).map(|l| 10 * (l % 3 + 1) + l % 3).collect();
    assert_eq!(lanes(body), expected);
}

#[test]
fn inner_scopes_have_their_own_registers() {
    let body =
        "mov.u32 %r, 1; { .reg .b32 %r; mov.u32 %r, 2; { .reg .b32 %t<3>; mov.u32 %t2, %r; } } add.u32 %r, %r, 4";
    assert_eq!(lanes(body), [5; 32]);
}

#[test]
fn functions_are_called_with_parameters_and_results() {
    let ptx = ".version 7.0
.target sm_70
.address_size 64
.func (.param .b32 result) square_plus(.param .b32 x, .param .align 8 .b8 pair[16]) {
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    .reg .pred %p;
    ld.param.u32 %r1, [x];
    setp.gt.u32 %p, %r1, 100;
    @%p bra BIG;
    mul.lo.u32 %r2, %r1, %r1;
    ld.param.u64 %rd1, [pair+8];
    cvt.u32.u64 %r3, %rd1;
    add.u32 %r2, %r2, %r3;
    st.param.u32 [result], %r2;
    ret;
BIG:
    st.param.u32 [result], 0;
    ret;
}
.visible .entry caller(.param .u64 out) {
    .reg .b32 %r<5>;
    .reg .b64 %rd<5>;
    .reg .pred %p;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, 77;
    setp.ne.u32 %p, %r1, 3;
    mov.u64 %rd2, 5;
    {
        .param .b32 p0;
        .param .align 8 .b8 p1[16];
        .param .b32 r0;
        st.param.u32 [p0], %r1;
        st.param.u64 [p1+8], %rd2;
        @%p call.uni (r0), square_plus, (p0, p1);
        @%p ld.param.u32 %r3, [r0];
    }
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    st.global.u32 [%rd4], %r3;
    ret;
}";
    let device = qcs_emulator::Device::default();
    let module = device.load(ptx).unwrap();
    let out = device.poisoned::<u32>(128);
    let config = qcs_emulator::LaunchConfig::linear(1, 128);
    device
        .launch(&module, "caller", config, &qcs_emulator::Params::new().buffer(&out))
        .unwrap();
    for (i, value) in out.read().into_iter().enumerate() {
        let i = i as u32;
        let expected = if i == 3 { 77 } else { i * i + 5 };
        assert_eq!(value, if i > 100 { 0 } else { expected }, "thread {i}");
    }
}

#[test]
fn early_exit_of_some_lanes_does_not_hold_up_the_rest() {
    let ptx = ".version 7.0
.target sm_70
.address_size 64
.visible .entry leave(.param .u64 out) {
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, 40;
    @%p exit;
    bar.sync 0;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}";
    let device = qcs_emulator::Device::default();
    let module = device.load(ptx).unwrap();
    let out = device.poisoned::<u32>(40);
    let config = qcs_emulator::LaunchConfig::linear(1, 128);
    device
        .launch(&module, "leave", config, &qcs_emulator::Params::new().buffer(&out))
        .unwrap();
    assert_eq!(out.read(), (0..40).collect::<Vec<_>>());
}

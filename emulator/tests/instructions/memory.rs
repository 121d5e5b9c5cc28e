//! Loads, stores, atomics, asynchronous copies and the spaces they work on.

use crate::harness::{expect64, run};
use qcs_emulator::{Buffer, Device, LaunchConfig, Options, Params};

const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// Runs a kernel with one pointer parameter `data` in `%rd0` and the thread number in `%r0`.
fn on_data<T: qcs_emulator::device::Plain>(
    declarations: &str,
    body: &str,
    data: &[T],
    blocks: u32,
    threads: u32,
    dynamic_shared: usize,
) -> Vec<T> {
    let ptx = format!(
        "{HEADER}{declarations}
.visible .entry test(.param .u64 data) {{
    .reg .pred %p<4>;
    .reg .b16 %h<8>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd0, [data];
    mov.u32 %r0, %tid.x;
    {body}
    ret;
}}"
    );
    let device = Device::default();
    let module = device.load(&ptx).unwrap_or_else(|e| panic!("{e}"));
    let buffer = device.buffer(data);
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        dynamic_shared,
    };
    let params = Params::new().buffer(&buffer);
    device
        .launch(&module, "test", config, &params)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(buffer.guards_intact());
    buffer.read()
}

#[test]
fn narrow_loads_extend_and_narrow_stores_truncate() {
    let data = [0xf0u8, 0x80, 0x34, 0x92, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let result = on_data(
        "",
        "ld.global.s8 %r1, [%rd0]; st.global.u32 [%rd0+4], %r1;
         ld.global.u8 %r2, [%rd0+1]; st.global.u16 [%rd0+8], %r2;
         ld.global.s16 %rd1, [%rd0+2]; shr.s64 %rd1, %rd1, 32; st.global.u8 [%rd0+12], %rd1;",
        &data,
        1,
        1,
        0,
    );
    assert_eq!(result[4..8], (-16i32).to_le_bytes());
    assert_eq!(result[8..10], [0x80, 0]);
    assert_eq!(result[12], 0xff, "s16 sign-extends through 64 bits");
}

#[test]
fn vectors_keep_their_order() {
    let data: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let body = "ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%rd0+16]; st.global.v4.f32 [%rd0], {%r4, %r3, %r2, %r1};
        ld.global.nc.L1::no_allocate.v2.b64 {%rd1, %rd2}, [%rd0+32]; st.global.v2.u64 [%rd0+48], {%rd2, %rd1};";
    let result = on_data("", body, &data, 1, 1, 0);
    assert_eq!(result[..4], [7.0, 6.0, 5.0, 4.0]);
    assert_eq!(result[12..], [10.0, 11.0, 8.0, 9.0]);
}

#[test]
fn generic_addresses_reach_every_space() {
    let body = "mov.u64 %rd1, slot; cvta.shared.u64 %rd1, %rd1; isspacep.shared %p1, %rd1; selp.u32 %r1, 5, 0, %p1;
        st.u32 [%rd1], %r1; ld.shared.u32 %r2, [slot]; st.global.u32 [%rd0], %r2;
        cvta.global.u64 %rd2, %rd0; ld.u32 %r3, [%rd2]; st.u32 [%rd2+4], %r3;
        isspacep.global %p2, %rd2; selp.u32 %r4, 1, 0, %p2; st.global.u32 [%rd0+8], %r4;
        cvta.to.shared.u64 %rd3, %rd1; ld.shared.u32 %r5, [%rd3]; st.global.u32 [%rd0+12], %r5;";
    let result = on_data(".shared .align 4 .b8 slot[4];", body, &[0u32; 4], 1, 1, 0);
    assert_eq!(result, [5, 5, 1, 5]);
}

#[test]
fn local_memory_is_private_to_each_lane() {
    let body = ".local .align 8 .b8 stack[64]; mov.u64 %rd1, stack; cvta.local.u64 %rd1, %rd1;
        st.u32 [%rd1+60], %r0; st.local.u32 [stack], 1000; ld.local.u32 %r1, [stack+60]; ld.u32 %r2, [%rd1];
        add.u32 %r1, %r1, %r2; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd2, %rd0; st.global.u32 [%rd2], %r1;";
    let result = on_data("", body, &[0u32; 64], 1, 64, 0);
    assert_eq!(result, (1000..1064).collect::<Vec<_>>());
}

#[test]
fn static_and_dynamic_shared_memory_lie_behind_each_other() {
    let declarations = ".shared .align 4 .b8 first[4];\n.extern .shared .align 16 .b8 rest[];\n\
                        .shared .align 4 .b8 unused[1000];";
    let body = "mov.u32 %r1, rest; mov.u32 %r2, first; sub.u32 %r3, %r1, %r2; st.global.u32 [%rd0], %r3;
        mov.u32 %r4, %dynamic_smem_size; st.global.u32 [%rd0+4], %r4;
        st.shared.u32 [rest+60], 9; ld.shared.u32 %r5, [%r1+60]; st.global.u32 [%rd0+8], %r5;
        mov.u32 %r6, %total_smem_size; st.global.u32 [%rd0+12], %r6;";
    assert_eq!(
        on_data(declarations, body, &[0u32; 4], 1, 1, 64),
        [16, 64, 9, 80],
        "unused variables take no room"
    );
}

#[test]
fn module_variables_hold_their_initial_values_and_addresses() {
    let declarations = ".global .align 4 .u32 table[4] = {10, 20, 30, 40};
.const .align 4 .f32 half = 0f3F000000;
.global .align 8 .u64 pointer = generic(table)+8;
.global .align 1 .b8 text[3] = {104, 105};";
    let body = "ld.global.u32 %r1, [table+4]; st.global.u32 [%rd0], %r1;
        ld.const.f32 %r2, [half]; st.global.f32 [%rd0+4], %r2;
        ld.global.u64 %rd1, [pointer]; ld.u32 %r3, [%rd1]; st.global.u32 [%rd0+8], %r3;
        mov.u64 %rd2, text; ld.global.u8 %r4, [%rd2+1]; st.global.u32 [%rd0+12], %r4;
        st.global.u32 [table], 99; ld.global.u32 %r5, [table]; st.global.u32 [%rd0+16], %r5;";
    assert_eq!(
        on_data(declarations, body, &[0u32; 5], 1, 1, 0),
        [20, 0x3f00_0000, 30, 105, 99]
    );
}

#[test]
fn a_struct_is_passed_by_value() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Arguments {
        out: u64,
        scale: f32,
        count: u32,
    }
    let ptx = format!(
        "{HEADER}.visible .entry test(.param .align 8 .b8 args[16]) {{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [args];
    mov.b64 %rd2, args;
    ld.param.f32 %r1, [%rd2+8];
    ld.param.v2.u32 {{%r2, %r3}}, [args+8];
    st.global.f32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r3;
    ret;
}}"
    );
    let device = Device::default();
    let module = device.load(&ptx).unwrap();
    let out: Buffer<u32> = device.poisoned(2);
    let arguments = Arguments {
        out: out.address(),
        scale: 2.5,
        count: 42,
    };
    // SAFETY: the struct is repr(C) and has no padding.
    let params = unsafe { Params::new().structure(&arguments) };
    device
        .launch(&module, "test", LaunchConfig::linear(1, 1), &params)
        .unwrap();
    assert_eq!(out.read(), [2.5f32.to_bits(), 42]);
    let wrong = Params::new().value(1u32);
    let error = device
        .launch(&module, "test", LaunchConfig::linear(1, 1), &wrong)
        .unwrap_err();
    assert!(
        error.to_string().contains("parameter 0 has 4 bytes, 16 expected"),
        "{error}"
    );
}

/// 4 blocks of 64 threads on 8 words.
fn atomics(instruction: &str, initial: u32) -> u32 {
    on_data("", instruction, &[initial, 0], 4, 64, 0)[0]
}

#[test]
fn atomics_of_many_threads_lose_nothing() {
    assert_eq!(atomics("red.global.add.u32 [%rd0], 1;", 5), 261);
    assert_eq!(atomics("red.global.max.u32 [%rd0], %r0;", 5), 63);
    assert_eq!(atomics("atom.global.min.s32 %r1, [%rd0], %r0;", 5), 0);
    assert_eq!(
        atomics("shl.b32 %r1, 1, %r0; red.global.or.b32 [%rd0], %r1;", 0),
        u32::MAX
    );
    assert_eq!(atomics("red.global.inc.u32 [%rd0], 9;", 0), 256 % 10);
    assert_eq!(atomics("red.global.dec.u32 [%rd0], 9;", 0), 10 - 256 % 10);
    let float = atomics("red.global.add.f32 [%rd0], 0f3F000000;", 0);
    assert_eq!(f32::from_bits(float), 128.0);
}

#[test]
fn compare_and_swap_and_exchange_return_the_old_value() {
    let body = "atom.global.cas.b32 %r1, [%rd0], 7, 8; st.global.u32 [%rd0+4], %r1;
        atom.global.cas.b32 %r1, [%rd0], 7, 9; st.global.u32 [%rd0+8], %r1;
        atom.global.exch.b32 %r1, [%rd0], 100; st.global.u32 [%rd0+12], %r1;";
    assert_eq!(on_data("", body, &[7u32, 0, 0, 0], 1, 1, 0), [100, 7, 8, 8]);
    let body = "atom.global.add.u64 %rd1, [%rd0], -1; st.global.u64 [%rd0+8], %rd1;";
    assert_eq!(on_data("", body, &[5u64, 0], 1, 1, 0), [4, 5]);
    let body = "red.global.add.f64 [%rd0], 0d3FF0000000000000;";
    assert_eq!(on_data("", body, &[0.5f64], 1, 33, 0), [33.5]);
    let body = "red.global.add.noftz.f16x2 [%rd0], 0x3C004000;";
    assert_eq!(on_data("", body, &[0x3c00_3c00u32], 1, 1, 0), [0x4000_4200]);
    let body = "mov.b16 %h1, 0x3F80; red.global.add.noftz.bf16 [%rd0], %h1;
        mov.b16 %h2, 0x3C00; red.global.add.noftz.f16 [%rd0+2], %h2; red.global.and.b32 [%rd0+4], 0xff;
        red.global.xor.b32 [%rd0+4], 1; red.global.add.noftz.bf16x2 [%rd0+8], 0x3F804000;";
    assert_eq!(
        on_data("", body, &[0u16, 0, 0x1234, 1, 0, 0], 1, 2, 0),
        [0x4000, 0x4000, 0x34, 0, 0x4080, 0x4000]
    );
}

#[test]
fn shared_atomics_build_a_histogram() {
    let body = "shl.b32 %r1, %r0, 2; setp.lt.u32 %p1, %r0, 4; @%p1 st.shared.u32 [%r1], 0; bar.sync 0;
        and.b32 %r2, %r0, 3; shl.b32 %r2, %r2, 2; atom.shared.add.u32 %r3, [%r2], %r0; bar.sync 0;
        mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd1, %rd0; @%p1 ld.shared.u32 %r4, [%r1];
        @%p1 st.global.u32 [%rd1], %r4;";
    let declarations = ".extern .shared .align 4 .b8 bins[];";
    let result = on_data(declarations, body, &[0u32; 4], 1, 128, 16);
    let expected: Vec<u32> = (0..4).map(|bin| (0..128).filter(|t| t % 4 == bin).sum()).collect();
    assert_eq!(result, expected);
}

#[test]
fn asynchronous_copies_arrive_with_the_wait_and_fill_with_zeros() {
    let body = "mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2; cvt.u64.u32 %rd1, %r2;
        add.s64 %rd1, %rd1, %rd0; sub.u32 %r3, 16, %r0; min.u32 %r3, %r3, 16;
        cp.async.cg.shared.global [%r1], [%rd1], 16, %r3;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];
        st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};";
    let data: Vec<u8> = (0..64).map(|i| i + 1).collect();
    let result = on_data(".shared .align 16 .b8 tile[64];", body, &data, 1, 4, 0);
    for lane in 0..4 {
        for byte in 0..16 {
            // Lane l copies 16 - l bytes.
            let expected = if byte < 16 - lane { data[16 * lane + byte] } else { 0 };
            assert_eq!(result[16 * lane + byte], expected, "lane {lane}, byte {byte}");
        }
    }
}

#[test]
fn a_wait_leaves_the_newest_groups_pending() {
    // Two groups; wait_group 1 completes the first only. Without the detector the second is still poison.
    let ptx = format!(
        "{HEADER}.shared .align 16 .b8 tile[32];
.visible .entry test(.param .u64 data) {{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [data];
    mov.u32 %r1, tile;
    cp.async.ca.shared.global [%r1], [%rd0], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r1+16], [%rd0+4], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u32 %r2, [%r1];
    ld.shared.u32 %r3, [%r1+16];
    st.global.u32 [%rd0+8], %r2;
    st.global.u32 [%rd0+12], %r3;
    cp.async.wait_all;
    ld.shared.u32 %r3, [%r1+16];
    st.global.u32 [%rd0+16], %r3;
    ret;
}}"
    );
    let device = Device::new(Options {
        check_races: false,
        ..Options::default()
    });
    let module = device.load(&ptx).unwrap();
    let data = device.buffer(&[1u32, 2, 0, 0, 0]);
    device
        .launch(
            &module,
            "test",
            LaunchConfig::linear(1, 1),
            &Params::new().buffer(&data),
        )
        .unwrap();
    assert_eq!(data.read(), [1, 2, 1, u32::MAX, 2]);
}

#[test]
fn unset_memory_and_registers_are_poison() {
    let body = "ld.shared.u32 %r1, [slot]; st.global.u32 [%rd0], %r1; st.global.u32 [%rd0+4], %r15;
        .local .b8 stack[4]; ld.local.u32 %r2, [stack]; st.global.u32 [%rd0+8], %r2;";
    let result = on_data(".shared .align 4 .b8 slot[4];", body, &[0u32; 3], 1, 1, 0);
    assert!(result.iter().all(|bits| f32::from_bits(*bits).is_nan()));
    assert!(Device::default().poisoned::<f32>(3).read().iter().all(|x| x.is_nan()));
}

#[test]
fn clocks_go_forward() {
    let body = "mov.u64 %da, %clock64; mov.u64 %db, %clock64; sub.u64 %d, %db, %da;";
    assert!(run(body, &[[0; 3]])[0] > 0);
    expect64(
        "membar.gl; fence.acq_rel.gpu; prefetch.global.L2 [%in]; mov.u64 %d, 1;",
        [0; 3],
        1,
    );
}

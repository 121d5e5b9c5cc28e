//! What a kernel can do wrong, each reported with kernel, line, block and lane.

use qcs_emulator::{Device, Fault, FaultKind, LaunchConfig, LaunchError, Options, Params};

const HEADER: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry faulty(.param .u64 data)
{
.shared .align 16 .b8 tile[1024];
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
ld.param.u64 %rd0, [data];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 2;
add.u32 %r3, %r1, %r2;
cvt.u64.u32 %rd1, %r2;
add.s64 %rd2, %rd0, %rd1;
";
/// Line of the first line of a body.
const FIRST: u32 = 15;

fn launch_with(options: Options, body: &str, blocks: u32, threads: u32) -> Result<Vec<u32>, LaunchError> {
    let device = Device::new(options);
    let module = device
        .load(&format!("{HEADER}{body}\nret;\n}}"))
        .unwrap_or_else(|e| panic!("{e}"));
    let data = device.buffer(&vec![0u32; 64]);
    device.launch(
        &module,
        "faulty",
        LaunchConfig::linear(blocks, threads),
        &Params::new().buffer(&data),
    )?;
    Ok(data.read())
}

fn launch(body: &str, blocks: u32, threads: u32) -> Result<Vec<u32>, LaunchError> {
    // One worker: which block faults first is then certain.
    launch_with(
        Options {
            workers: 1,
            ..Options::default()
        },
        body,
        blocks,
        threads,
    )
}

#[track_caller]
fn fault(body: &str, blocks: u32, threads: u32) -> Fault {
    match launch(body, blocks, threads) {
        Err(LaunchError::Fault(fault)) => {
            assert_eq!(fault.kernel, "faulty");
            *fault
        }
        other => panic!("no fault but {other:?}"),
    }
}

#[test]
fn an_out_of_bounds_read_names_kernel_line_block_and_lane() {
    // 64 words; thread 64 is lane 0 of warp 2.
    let f = fault("// a comment\nld.global.f32 %r4, [%rd2];", 2, 96);
    assert_eq!((f.line, f.block, f.warp, f.lane), (FIRST + 1, [0, 0, 0], 2, Some(0)));
    assert!(matches!(
        f.kind,
        FaultKind::OutOfBounds {
            bytes: 4,
            write: false,
            ..
        }
    ));
    let text = f.to_string();
    for part in [
        "kernel faulty",
        "out-of-bounds global read of 4 bytes",
        "256 bytes into an allocation of 256 bytes",
        "ld.global.f32 at PTX line 16",
        "block (0, 0, 0)",
        "warp 2",
        "lane 0",
    ] {
        assert!(text.contains(part), "'{part}' in: {text}");
    }
}

#[test]
fn an_out_of_bounds_write_just_before_a_buffer_is_caught() {
    let f = fault(
        "mov.u32 %r5, %ctaid.x;\nsetp.eq.u32 %p1, %r5, 1;\n@%p1 st.global.u32 [%rd2+-20], %r4;",
        2,
        32,
    );
    assert_eq!((f.line, f.block, f.lane), (FIRST + 2, [1, 0, 0], Some(0)));
    assert!(matches!(f.kind, FaultKind::OutOfBounds { write: true, .. }));
}

#[test]
fn shared_local_and_parameter_accesses_are_bounded() {
    assert_eq!(fault("ld.shared.u32 %r4, [%r3+1000];", 1, 32).lane, Some(6));
    let f = fault(".local .align 4 .b8 stack[16];\nst.local.u32 [stack+16], %r0;", 1, 1);
    assert_eq!(f.line, FIRST + 1);
    assert!(f.to_string().contains("local write of 4 bytes at 0x10 of 16"), "{f}");
    assert!(
        fault("ld.param.u64 %rd3, [data+8];", 1, 1)
            .to_string()
            .contains("param read")
    );
}

#[test]
fn freed_memory_is_out_of_bounds() {
    let device = Device::default();
    let ptx = format!("{HEADER}ld.global.u32 %r4, [%rd2];\nret;\n}}");
    let module = device.load(&ptx).unwrap();
    let data = device.buffer(&[0u32; 64]);
    let params = Params::new().buffer(&data);
    drop(data);
    assert!(
        device
            .launch(&module, "faulty", LaunchConfig::linear(1, 1), &params)
            .is_err()
    );
}

#[test]
fn a_misaligned_load_names_line_and_lane() {
    let f = fault(
        "add.s64 %rd2, %rd2, 4;\nld.global.v4.f32 {%r4, %r5, %r6, %r7}, [%rd2];",
        1,
        32,
    );
    assert_eq!((f.line, f.warp, f.lane), (FIRST + 1, 0, Some(0)));
    assert!(matches!(f.kind, FaultKind::Misaligned { bytes: 16, .. }));
    let f = fault("ld.shared.v2.u32 {%r4, %r5}, [%r3];", 1, 32);
    assert_eq!(f.lane, Some(1), "lane 0 is aligned, lane 1 is at 4");
    assert!(
        f.to_string().contains("misaligned shared access of 8 bytes at 0x4"),
        "{f}"
    );
}

/// Thread t writes word t, then reads the word of a thread in the next warp.
const NEIGHBOUR: &str = "st.shared.u32 [%r3], %r0;
BARRIER
xor.b32 %r4, %r2, 128;
add.u32 %r4, %r4, %r1;
ld.shared.u32 %r5, [%r4];";

#[test]
fn a_missing_barrier_is_a_race() {
    let f = fault(&NEIGHBOUR.replace("BARRIER", ""), 1, 64);
    // Warp 0 reads word 32 before warp 1 writes it: the write is what meets the earlier read.
    assert_eq!((f.line, f.warp, f.lane), (FIRST, 1, Some(0)));
    let FaultKind::SharedRace { address, this, other } = &f.kind else {
        panic!("{f}")
    };
    assert_eq!((*address, this.write, other.write), (128, true, false));
    assert_eq!((other.warp, other.line), (0, FIRST + 4));
    assert!(
        f.to_string()
            .contains("no barrier between; st.shared.u32 at PTX line 15"),
        "{f}"
    );
    assert!(launch(&NEIGHBOUR.replace("BARRIER", "bar.sync 0;"), 1, 64).is_ok());
}

#[test]
fn a_warp_barrier_does_not_order_warps() {
    let f = fault(&NEIGHBOUR.replace("BARRIER", "bar.warp.sync -1;"), 1, 64);
    assert!(matches!(f.kind, FaultKind::SharedRace { .. }));
}

#[test]
fn two_warps_that_write_one_word_race() {
    let f = fault("st.shared.u32 [tile+8], %r0;", 1, 64);
    assert!(matches!(f.kind, FaultKind::SharedRace { address: 8, .. }), "{f}");
    assert!(
        launch("st.shared.u32 [tile+8], %r0;", 4, 32).is_ok(),
        "one warp per block"
    );
}

#[test]
fn reuse_of_a_tile_needs_a_second_barrier() {
    let body = "mov.u32 %r9, 0;
AGAIN: st.shared.u32 [%r3], %r0;
bar.sync 0;
xor.b32 %r4, %r2, 128;
add.u32 %r4, %r4, %r1;
ld.shared.u32 %r5, [%r4];
SECOND
add.u32 %r9, %r9, 1;
setp.lt.u32 %p1, %r9, 3;
@%p1 bra AGAIN;";
    let f = fault(&body.replace("SECOND", ""), 1, 64);
    // Warp 0 is already in the next round when warp 1 reads.
    let FaultKind::SharedRace { other, .. } = &f.kind else {
        panic!("{f}")
    };
    assert_eq!((f.line, f.warp, other.line, other.warp), (FIRST + 5, 1, FIRST + 1, 0));
    assert!(launch(&body.replace("SECOND", "bar.sync 0;"), 1, 64).is_ok());
}

#[test]
fn generic_accesses_to_shared_memory_race_as_well() {
    let body = "cvt.u64.u32 %rd3, %r3;\ncvta.shared.u64 %rd3, %rd3;\nst.u32 [%rd3], %r0;\nld.shared.u32 %r5, [tile+4];";
    assert!(matches!(
        fault(body, 1, 64).kind,
        FaultKind::SharedRace { address: 4, .. }
    ));
}

#[test]
fn the_race_detector_can_be_turned_off() {
    let options = Options {
        check_races: false,
        ..Options::default()
    };
    assert!(launch_with(options, "st.shared.u32 [tile+8], %r0;", 1, 64).is_ok());
}

const ASYNC: &str = "shl.b32 %r4, %r0, 4;
add.u32 %r5, %r1, %r4;
cvt.u64.u32 %rd3, %r4;
add.s64 %rd3, %rd0, %rd3;
cp.async.cg.shared.global [%r5], [%rd3], 16;
cp.async.commit_group;
WAIT
BARRIER
xor.b32 %r6, %r4, 16;
add.u32 %r6, %r6, %r1;
ld.shared.u32 %r7, [%r6];";

#[test]
fn a_missing_wait_for_cp_async_is_reported() {
    let body = ASYNC.replace("WAIT", "").replace("BARRIER", "bar.sync 0;");
    let f = fault(&body, 1, 16);
    assert_eq!((f.line, f.lane), (FIRST + 10, Some(0)));
    let FaultKind::CopyInFlight { address: 16, issued } = f.kind else {
        panic!("{f}")
    };
    assert_eq!(issued.line, FIRST + 4);
    let complete = ASYNC
        .replace("WAIT", "cp.async.wait_group 0;")
        .replace("BARRIER", "bar.sync 0;");
    assert!(launch(&complete, 1, 16).is_ok());
    let one_too_many = ASYNC
        .replace("WAIT", "cp.async.wait_group 1;")
        .replace("BARRIER", "bar.sync 0;");
    assert!(matches!(
        fault(&one_too_many, 1, 16).kind,
        FaultKind::CopyInFlight { .. }
    ));
}

#[test]
fn a_copy_needs_a_barrier_before_other_warps_read_it() {
    // 64 words of data: blocks of 64 threads copy 4 bytes each, and read what the other warp copied.
    let body = "cp.async.ca.shared.global [%r3], [%rd2], 4;
cp.async.wait_all;
BARRIER
xor.b32 %r6, %r2, 128;
add.u32 %r6, %r6, %r1;
ld.shared.u32 %r7, [%r6];";
    assert!(matches!(
        fault(&body.replace("BARRIER", ""), 1, 64).kind,
        FaultKind::SharedRace { .. }
    ));
    assert!(launch(&body.replace("BARRIER", "bar.sync 0;"), 1, 64).is_ok());
}

#[test]
fn a_copy_from_outside_names_the_line_of_the_copy() {
    let f = fault(
        "cp.async.ca.shared.global [%r3], [%rd2+128], 4;\ncp.async.wait_all;",
        1,
        64,
    );
    assert_eq!((f.line, f.warp, f.lane), (FIRST, 1, Some(0)));
}

#[test]
fn a_shuffle_from_an_inactive_lane_is_reported() {
    let body = "setp.lt.u32 %p1, %r0, 4;\n@%p1 shfl.sync.idx.b32 %r4, %r0, 9, 31, 0xf;";
    let f = fault(body, 1, 32);
    assert_eq!((f.line, f.lane), (FIRST + 1, Some(0)));
    assert_eq!(f.kind, FaultKind::InactiveLane { source: 9 });
}

#[test]
fn lanes_that_never_come_are_reported() {
    let body = "setp.lt.u32 %p1, %r0, 4;\n@%p1 vote.sync.ballot.b32 %r4, 1, -1;";
    assert_eq!(
        fault(body, 1, 32).kind,
        FaultKind::MissingLanes {
            needed: u32::MAX,
            arrived: 0xf
        }
    );
    let body = "setp.lt.u32 %p1, %r0, 4;\n@!%p1 bra OUT;\nbar.warp.sync 0xff;\nOUT: bar.warp.sync -1;";
    assert!(matches!(
        fault(body, 1, 32).kind,
        FaultKind::MissingLanes {
            needed: 0xff,
            arrived: 0xf
        }
    ));
}

#[test]
fn a_lane_outside_its_own_member_mask_is_reported() {
    let f = fault("bar.warp.sync 0x3;", 1, 32);
    assert_eq!((f.lane, f.kind), (Some(2), FaultKind::NotAMember { members: 3 }));
}

#[test]
fn a_barrier_that_some_threads_skip_forever_is_a_deadlock() {
    let body = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra OTHER;\nbar.sync 1;\nbra.uni END;\nOTHER: bar.sync 2;\nEND:";
    let f = fault(body, 1, 64);
    assert!(
        matches!(&f.kind, FaultKind::Deadlock(detail) if detail.contains("line 19")),
        "{f}"
    );
}

#[test]
fn traps_and_endless_loops_end() {
    assert_eq!(fault("setp.eq.u32 %p1, %r0, 5;\n@%p1 trap;", 1, 32).lane, Some(5));
    let options = Options {
        workers: 1,
        max_instructions: 1000,
        ..Options::default()
    };
    let error = launch_with(options, "FOREVER: bra.uni FOREVER;", 1, 32).unwrap_err();
    assert!(
        error.to_string().contains("more than 1000 warp instructions"),
        "{error}"
    );
    assert_eq!(fault("bar.sync 16;", 1, 32).kind, FaultKind::BarrierId(16));
    let table = "T: .branchtargets A, B;\nbrx.idx %r0, T;\nA: mov.u32 %r4, 1;\nB: mov.u32 %r4, 2;";
    let f = fault(table, 1, 32);
    assert_eq!(
        (f.line, f.lane, f.kind),
        (FIRST + 1, Some(2), FaultKind::BranchIndex(2))
    );
}

#[test]
fn impossible_launches_are_refused() {
    for (blocks, threads) in [(0, 32), (1, 0), (1, 1025)] {
        assert!(
            matches!(launch("", blocks, threads), Err(LaunchError::Invalid(_))),
            "{blocks} {threads}"
        );
    }
}

#[test]
fn a_fault_in_one_block_stops_the_others() {
    let body = "mov.u32 %r5, %ctaid.x;\nsetp.eq.u32 %p1, %r5, 7;\n@%p1 trap;\nFOREVER: @!%p1 bra FOREVER;";
    let options = Options {
        workers: 2,
        max_instructions: 50_000_000,
        ..Options::default()
    };
    match launch_with(options, &body.replace("7", "1"), 2, 32) {
        Err(LaunchError::Fault(f)) => assert_eq!((f.kind.clone(), f.block), (FaultKind::Trap, [1, 0, 0])),
        other => panic!("{other:?}"),
    }
}

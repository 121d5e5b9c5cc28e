//! PTX that rustc made from Rust kernels, for both architectures, against plain Rust; and mutants
//! of it, which must not survive.

use qcs_emulator::number::half::{f16_to_f32, f32_to_f16};
use qcs_emulator::{Device, FaultKind, LaunchConfig, LaunchError, Options, Params, Report};

const SM_70: &str = include_str!("ptx/kernels_sm_70.ptx");
const SM_80: &str = include_str!("ptx/kernels_sm_80.ptx");

/// Values with few bits, so that sums in any order are exact.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 28) as f32 - 7.0
    };
    (0..count).map(|_| next()).collect()
}

fn launch(
    device: &Device,
    ptx: &str,
    kernel: &str,
    config: LaunchConfig,
    params: &Params,
) -> Result<Report, LaunchError> {
    let module = device.load(ptx).unwrap_or_else(|e| panic!("{e}"));
    device.launch(&module, kernel, config, params)
}

fn profiling() -> Device {
    Device::new(Options {
        profile: true,
        ..Options::default()
    })
}

#[test]
fn block_sum_uses_shuffles_shared_memory_and_barriers() {
    for ptx in [SM_70, SM_80] {
        let device = Device::default();
        let x = values(5000, 1);
        let (input, out) = (device.buffer(&x), device.poisoned::<f32>(3));
        let params = Params::new().value(5000u32).buffer(&input).buffer(&out);
        launch(&device, ptx, "block_sum", LaunchConfig::linear(3, 256), &params).unwrap();
        let mut expected = [0.0; 3];
        x.iter().enumerate().for_each(|(i, v)| expected[i / 256 % 3] += v);
        assert_eq!(out.read(), expected);
    }
}

/// C = A·B for 128×128 tiles. Returns the result and the report.
fn sgemm(ptx: &str, kernel: &str, n: usize, k: usize) -> Result<(Vec<f32>, Report), LaunchError> {
    let device = profiling();
    let (a, b) = (device.buffer(&values(n * k, 2)), device.buffer(&values(k * n, 3)));
    let c = device.poisoned::<f32>(n * n);
    let size = n as u32;
    let params = Params::new()
        .value(size)
        .value(size)
        .value(k as u32)
        .buffer(&a)
        .buffer(&b)
        .buffer(&c);
    let config = LaunchConfig {
        grid: [size / 128, size / 128, 1],
        block: [256, 1, 1],
        dynamic_shared: 0,
    };
    let report = launch(&device, ptx, kernel, config, &params)?;
    assert!(c.guards_intact());
    Ok((c.read(), report))
}

fn expected_product(n: usize, k: usize) -> Vec<f32> {
    let (a, b) = (values(n * k, 2), values(k * n, 3));
    let mut c = vec![0.0; n * n];
    for i in 0..n {
        for p in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
    }
    c
}

#[test]
fn sgemm_equals_the_triple_loop() {
    for (ptx, kernel) in [
        (SM_70, "sgemm128"),
        (SM_80, "sgemm128"),
        (SM_70, "sgemm128_sh"),
        (SM_80, "sgemm128_sh"),
    ] {
        let (c, report) = sgemm(ptx, kernel, 256, 24).unwrap();
        assert_eq!(c, expected_product(256, 24), "{kernel}");
        // 2 n² k flops in fused multiply-adds of 32 lanes.
        let fma = report.mix.get("fma.rn.f32").copied().unwrap_or(0);
        assert_eq!(fma * 32, 256 * 256 * 24);
    }
}

#[test]
fn the_profile_finds_full_sectors_and_bank_conflicts() {
    let (_, report) = sgemm(SM_80, "sgemm128_sh", 128, 16).unwrap();
    for line in report.lines.iter().filter(|l| l.counters.global_requests > 0) {
        // Loads take whole sectors; each store leaves out the half that the next one writes.
        let share = line.counters.global_bytes as f64 / (32 * line.counters.global_sectors) as f64;
        assert_eq!(
            share,
            if line.mnemonic.starts_with("ld.") { 1.0 } else { 0.5 },
            "{line:?}"
        );
    }
    // B fragments are read 32 bytes apart: every second vector of a quarter warp shares its banks.
    assert!(report.memory.shared_conflicts > 0);
    assert!(
        report
            .lines
            .iter()
            .any(|l| l.mnemonic == "ld.shared.v4.f32" && l.counters.shared_conflicts > 0)
    );
    let json = report.to_json();
    for key in [
        "instruction_mix",
        "sectors_per_request",
        "bank_conflicts",
        "occupancy",
        "blocks_per_sm",
        "live_registers",
    ] {
        assert!(json.contains(&format!("\"{key}\"")), "{key} in {json}");
    }
    assert!(
        report.live_registers > 64 && report.live_registers < 200,
        "{}",
        report.live_registers
    );
}

#[test]
fn transpose_in_padded_dynamic_shared_memory_has_no_conflicts() {
    for ptx in [SM_70, SM_80] {
        let device = profiling();
        let n = 64;
        let x: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
        let (input, out) = (device.buffer(&x), device.poisoned::<f32>(n * n));
        let params = Params::new().value(n as u32).buffer(&input).buffer(&out);
        let config = LaunchConfig {
            grid: [2, 2, 1],
            block: [32, 32, 1],
            dynamic_shared: 32 * 33 * 4,
        };
        let report = launch(&device, ptx, "transpose_dyn", config, &params).unwrap();
        let result = out.read();
        assert!((0..n * n).all(|i| result[i] == x[i % n * n + i / n]));
        assert_eq!(report.memory.shared_conflicts, 0);
        assert_eq!(report.sectors_per_request(), 4.0);
    }
}

#[test]
fn elementwise_kernels() {
    let device = Device::default();
    let (x, y) = (values(1000, 4), values(1000, 5));
    let (input, inout) = (device.buffer(&x), device.buffer(&y));
    let params = Params::new().value(250u32).value(0.5f32).buffer(&input).buffer(&inout);
    launch(&device, SM_70, "saxpy4", LaunchConfig::linear(2, 128), &params).unwrap();
    assert!(
        inout
            .read()
            .iter()
            .zip(x.iter().zip(&y))
            .all(|(r, (a, b))| *r == 0.5 * a + b)
    );
    let out = device.poisoned::<f32>(1000);
    let params = Params::new().value(1000u32).buffer(&input).buffer(&out);
    launch(&device, SM_80, "relu_slice", LaunchConfig::linear(4, 256), &params).unwrap();
    assert!(out.read().iter().zip(&x).all(|(r, a)| *r == a.max(0.0)));
    launch(&device, SM_80, "mathk", LaunchConfig::linear(4, 256), &params).unwrap();
    for (r, a) in out.read().iter().zip(&x) {
        let e = (*a as f64).exp();
        let expected = (1.0 + e).ln().sqrt() / (1.0 + e);
        // 1 + e is rounded to f32, which the logarithm of a small e feels in full.
        let bound = 2f64.powi(-24) / e.min(1.0) + 1e-6;
        assert!((*r as f64 - expected).abs() <= bound * expected, "{a}: {r} {expected}");
    }
}

#[test]
fn f64_math() {
    let device = Device::default();
    let x: Vec<f32> = (0..100).map(|i| i as f32 * 0.37).collect();
    let (input, out) = (device.buffer(&x), device.poisoned::<f64>(100));
    let params = Params::new().value(100u32).buffer(&input).buffer(&out);
    launch(&device, SM_70, "math_intrin", LaunchConfig::linear(1, 128), &params).unwrap();
    for (r, v) in out.read().iter().zip(&x) {
        assert_eq!(
            *r,
            (*v as f64).sqrt() + v.sqrt() as f64 + v.abs() as f64 + v.floor() as f64
        );
    }
}

#[test]
fn tensor_core_kernels_multiply() {
    let k = 64;
    let (a, b) = (values(16 * k, 6), values(8 * k, 7)); // B is stored by columns
    let expected: Vec<f32> = (0..128)
        .map(|i| (0..k).map(|p| a[i / 8 * k + p] * b[i % 8 * k + p]).sum())
        .collect();
    let device = Device::default();
    let out = device.poisoned::<f32>(128);
    let config = LaunchConfig::linear(1, 32);
    let half = |v: &[f32]| v.iter().map(|x| f32_to_f16(*x)).collect::<Vec<u16>>();
    let (ha, hb) = (device.buffer(&half(&a)), device.buffer(&half(&b)));
    let params = Params::new().value(k as u32).buffer(&ha).buffer(&hb).buffer(&out);
    launch(&device, SM_80, "mma_f16_k", config, &params).unwrap();
    assert_eq!(out.read(), expected);
    let (fa, fb) = (device.buffer(&a), device.buffer(&b));
    let params = Params::new().value(k as u32).buffer(&fa).buffer(&fb).buffer(&out);
    launch(&device, SM_80, "mma_tf32_k", config, &params).unwrap();
    assert_eq!(out.read(), expected);
    assert_eq!(f16_to_f32(half(&[1.0])[0]), 1.0);
}

/// Removes the n-th occurrence of `pattern`, keeping the line numbers.
fn without(ptx: &str, after: &str, pattern: &str, n: usize) -> String {
    let start = ptx.find(after).expect("the kernel is there");
    let at = ptx[start..]
        .match_indices(pattern)
        .nth(n)
        .expect("the instruction is there")
        .0
        + start;
    format!(
        "{}{}{}",
        &ptx[..at],
        " ".repeat(pattern.len()),
        &ptx[at + pattern.len()..]
    )
}

#[test]
fn a_kernel_without_its_barrier_is_caught() {
    for (ptx, n) in [(SM_70, 0), (SM_70, 1), (SM_80, 0), (SM_80, 1)] {
        let mutant = without(ptx, ".entry sgemm128_sh(", "bar.sync \t0;", n);
        let Err(LaunchError::Fault(fault)) = sgemm(&mutant, "sgemm128_sh", 128, 16) else {
            panic!("the mutant without barrier {n} survives");
        };
        assert!(matches!(fault.kind, FaultKind::SharedRace { .. }), "{fault}");
        assert!(
            fault.line > 0 && fault.lane.is_some() && fault.instruction.contains(".shared"),
            "{fault}"
        );
    }
}

#[test]
fn a_kernel_without_its_wait_is_caught() {
    let mutant = without(SM_80, ".entry mma_f16_k(", "cp.async.wait_group 0;", 0);
    let device = Device::default();
    let (a, b, out) = (
        device.buffer(&[0u16; 256]),
        device.buffer(&[0u16; 128]),
        device.poisoned::<f32>(128),
    );
    let params = Params::new().value(16u32).buffer(&a).buffer(&b).buffer(&out);
    let Err(LaunchError::Fault(fault)) = launch(&device, &mutant, "mma_f16_k", LaunchConfig::linear(1, 32), &params)
    else {
        panic!("the mutant survives");
    };
    assert!(matches!(fault.kind, FaultKind::CopyInFlight { .. }), "{fault}");
    assert!(fault.instruction.starts_with("ldmatrix"), "{fault}");
}

#[test]
fn a_kernel_with_a_wrong_index_is_caught() {
    let mutant = SM_80.replacen("mul.wide.u32 \t%rd14, %r3, %r4;", "mul.wide.u32 \t%rd14, %r4, %r4;", 1);
    assert_ne!(mutant, SM_80);
    let device = Device::default();
    let (x, out) = (device.buffer(&values(300, 8)), device.poisoned::<f32>(2));
    let params = Params::new().value(300_000u32).buffer(&x).buffer(&out);
    let error = launch(&device, &mutant, "block_sum", LaunchConfig::linear(2, 256), &params).unwrap_err();
    assert!(error.to_string().contains("out-of-bounds global read"), "{error}");
}

//! All cases on the emulator, with the PTX of each architecture; and proof that they would notice a broken kernel.

mod gpu;
mod mutants;

use gpu::Emulated;
use qcs_conformance::cases;
use qcs_kernels::{PTX_SM_70, PTX_SM_80};

fn every_case_is_correct(architecture: u32, ptx: &str) {
    let gpu = Emulated::new(ptx, false);
    let mut failures = Vec::new();
    for case in cases().into_iter().filter(|case| case.architecture <= architecture) {
        let verdict = match case.run(&gpu) {
            Ok(error) if error <= case.bound => format!("ok, error {error:.1e} of {:.1e}", case.bound),
            Ok(error) => format!("WRONG, error {error:.3e} of {:.1e}", case.bound),
            Err(reason) => format!("FAILED: {reason}"),
        };
        println!("sm_{architecture} {:45} {verdict}", case.name);
        if !verdict.starts_with("ok") {
            failures.push(format!("{}: {verdict}", case.name));
        }
    }
    assert!(failures.is_empty(), "sm_{architecture}:\n{}", failures.join("\n"));
}

#[test]
fn every_case_is_correct_on_sm_70() {
    every_case_is_correct(70, PTX_SM_70);
}

#[test]
fn every_case_is_correct_on_sm_80() {
    every_case_is_correct(80, PTX_SM_80);
}

#[test]
fn convolutions_move_full_sectors_without_bank_conflicts() {
    for (architecture, ptx) in [(70, PTX_SM_70), (80, PTX_SM_80)] {
        let gpu = Emulated::new(ptx, true);
        // One layer for each tile and activation.
        let layers = [
            "5×8→72×64×65",
            "1×16→16×28×28",
            "3×16→16×16×16",
            "1×16→32×14×14 1 taps",
            "1×16→8×9×9",
            "5×16→32×14×14 9 taps",
            "1×128→128×16×16",
            "5×16→72×64×65",
            "fused norm F32 5×8→72×65×63 1 taps, Elu + 0",
            "fused norm F16 5×16→72×65×63 1 taps, None + 0",
        ];
        let named = |name: &str| layers.iter().any(|layer| name.contains(layer));
        for case in cases()
            .into_iter()
            .filter(|case| case.architecture <= architecture && named(&case.name))
        {
            case.run(&gpu).expect("the case runs");
        }
        for report in gpu.reports.borrow().iter() {
            let kernel = &report.kernel;
            assert_eq!(report.memory.shared_conflicts, 0, "{kernel}");
            // A pixel of eight halves is half a sector, and a shifted row may begin in the middle of one.
            let least = if kernel.starts_with("conv_f16") { 0.9 } else { 1.0 };
            let full = report.sector_efficiency();
            assert!(full >= least, "{kernel}: {full}");
        }
        assert!(gpu.reports.borrow().len() >= layers.len());
    }
}

/// The figures of kernels/README.md: 1.75 MiB instead of 8.
#[test]
fn statistics_spare_the_norm_its_passes_over_the_map() {
    for ptx in [PTX_SM_70, PTX_SM_80] {
        let gpu = Emulated::new(ptx, true);
        let chosen = [
            "norm_coefficients 8×128×32×32 + 0",
            "fused norm F32 8×8→128×32×32 1 taps, None + 0",
        ];
        for case in cases().iter().filter(|case| chosen.contains(&case.name.as_str())) {
            case.run(&gpu).expect("the case runs");
        }
        let reports = gpu.reports.borrow();
        let bytes = |kernel: &str| {
            let launches = reports.iter().filter(|report| report.kernel.starts_with(kernel));
            let bytes: Vec<u64> = launches.map(|report| 32 * report.memory.global_sectors).collect();
            bytes
        };
        let (map, coefficients) = (8 * 128 * 32 * 32 * 4, 8 * 2 * 128 * 4);
        let [with, without] = bytes("conv")[..] else {
            panic!("one layer with and without statistics");
        };
        assert_eq!(with - without, map / 8);
        assert_eq!(bytes("norm_merge")[0], 5 * map / 16 + coefficients);
        assert_eq!(bytes("norm_moments")[0], 2 * map + coefficients);
    }
}

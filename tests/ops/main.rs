//! Every case of every op on every engine, against the op's twin; and proof that the cases would notice a broken kernel.
//!
//! Each case is a test: `cargo test --release --test ops -- "sm_70 conv+norm"` runs some on one engine.

#[path = "../engines/mod.rs"]
mod engines;
mod mutants;

use std::cell::RefCell;
use std::collections::HashMap;

use engines::{Closed, Emulated};
use libtest_mimic::{Arguments, Failed, Trial};
use qcs::engine::cases::{Case, cases};
use qcs::engine::cuda::laid_out::target;
use qcs::engine::{Engine, Precision};
use qcs_kernels::{PTX_SM_70, PTX_SM_80};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = every_case();
    trials.extend(mutants::every_mutant());
    trials.extend([
        whole(
            "convolutions_move_full_sectors_without_bank_conflicts",
            convolutions_move_full_sectors_without_bank_conflicts,
        ),
        whole(
            "statistics_spare_the_norm_its_passes_over_the_map",
            statistics_spare_the_norm_its_passes_over_the_map,
        ),
        whole(
            "a_batch_in_parts_gives_what_the_whole_gives",
            a_batch_in_parts_gives_what_the_whole_gives,
        ),
        whole("no_two_cases_have_one_name", no_two_cases_have_one_name),
    ]);
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test that panics where it fails.
fn whole(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// One test for each case on each engine of its precision.
fn every_case() -> Vec<Trial> {
    let mut trials = Vec::new();
    for precision in Precision::ALL {
        for engine in Closed::all(precision) {
            let all = cases().into_iter().enumerate();
            for (index, case) in all.filter(|(_, case)| case.precision == precision) {
                let name = format!("{} {}", engine.name(), case.name);
                trials.push(Trial::test(name, move || is_correct(index, engine)));
            }
        }
    }
    trials
}

thread_local! {
    static CASES: Vec<Case> = cases();
    /// Loading PTX takes longer than most cases: every thread opens an engine once.
    static ENGINES: RefCell<HashMap<(Closed, Precision), Box<dyn Engine>>> = RefCell::default();
}

fn is_correct(index: usize, engine: Closed) -> Result<(), Failed> {
    let verdict = CASES.with(|cases| {
        let case = &cases[index];
        ENGINES.with_borrow_mut(|engines| {
            let engine = engines
                .entry((engine, case.precision))
                .or_insert_with(|| engine.open(case.precision));
            case.verdict(engine.as_mut())
        })
    });
    match &verdict.error {
        _ if verdict.is_correct() => Ok(()),
        Ok(error) => Err(format!("error {error:.1e}, bound {:.1e}", verdict.bound).into()),
        Err(reason) => Err(reason.into()),
    }
}

fn no_two_cases_have_one_name() {
    let mut names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// Runs the chosen cases of every precision with profiling kernels.
fn profiled(ptx: &str, architecture: u32, chosen: impl Fn(&Case) -> bool) -> Vec<qcs_emulator::Report> {
    let mut reports = Vec::new();
    for precision in Precision::ALL {
        if !precision.on_gpu(architecture) {
            continue;
        }
        let mut gpu = Emulated::new(ptx, architecture, precision, true);
        for case in cases()
            .iter()
            .filter(|case| case.precision == precision && chosen(case))
        {
            case.run(&mut gpu).expect("the case runs");
        }
        reports.append(&mut gpu.reports.borrow_mut());
    }
    reports
}

fn convolutions_move_full_sectors_without_bank_conflicts() {
    // One layer for each tile and activation.
    let layers = [
        "conv fp32 5×8→72×64×65",
        "conv fp32 1×16→16×28×28",
        "conv fp32 3×16→16×16×16",
        "conv fp32 1×16→32×14×14 1 taps",
        "conv fp32 1×16→8×9×9",
        "conv fp32 5×16→32×14×14 9 taps",
        "16 1×128→128×16×16",
        "16 5×16→120×64×65",
        "16 6×8→136×45×44",
        "32 1×128→128×16×16",
        "32 5×16→120×64×65",
        "32 6×8→136×45×44",
        "conv fp32 5×100→96×7×7",
        "conv fp32 1×72→72×16×16",
        "conv+norm fp32 5×8→72×65×63 1 taps, dilation 1, Elu + 0",
        "conv+norm fp16 5×16→72×65×63 1 taps, dilation 1, None + 0",
    ];
    for (architecture, ptx) in [(70, PTX_SM_70), (80, PTX_SM_80)] {
        let chosen = |case: &Case| layers.iter().any(|layer| case.name.contains(layer));
        let reports = profiled(ptx, architecture, chosen);
        let of_conv = |kernel: &str| kernel.starts_with("conv") || kernel.starts_with("winograd");
        for report in reports.iter().filter(|report| of_conv(&report.kernel)) {
            let kernel = &report.kernel;
            // Volta's sums lie so that four lanes meet in a bank when the warps store them to be added up, once in the end.
            let most = if architecture == 70 && kernel.starts_with("conv_f16") {
                3 * report.memory.shared_requests
            } else {
                0
            };
            assert!(report.memory.shared_conflicts <= most, "{kernel}");
            // A pixel of eight halves is half a sector, and a shifted row may begin in the middle of one.
            let least = if kernel.starts_with("conv_f16") { 0.9 } else { 1.0 };
            let full = report.sector_efficiency();
            assert!(full >= least, "{kernel}: {full}");
        }
        assert!(reports.len() >= layers.len());
    }
}

/// The figures of kernels/README.md: 1.75 MiB instead of 8.
fn statistics_spare_the_norm_its_passes_over_the_map() {
    for (architecture, ptx) in [(70, PTX_SM_70), (80, PTX_SM_80)] {
        let chosen = [
            "norm_coefficients 8×128×32×32 + 0",
            "conv+norm fp32 8×8→128×32×32 1 taps, dilation 1, None + 0",
        ];
        let reports = profiled(ptx, architecture, |case| chosen.contains(&case.name.as_str()));
        let bytes = |kernel: &str| {
            let launches = reports.iter().filter(|report| report.kernel.starts_with(kernel));
            let bytes: Vec<u64> = launches.map(|report| 32 * report.memory.global_sectors).collect();
            bytes
        };
        let (map, coefficients) = (8 * 128 * 32 * 32 * 4, 8 * 2 * 128 * 4);
        // The whole batch, then half of it.
        let [with, without, ..] = bytes("conv")[..] else {
            panic!("one layer with and without statistics");
        };
        assert_eq!(with - without, map / 8);
        assert_eq!(bytes("norm_merge")[0], 5 * map / 16 + coefficients);
        assert_eq!(bytes("norm_moments")[0], 2 * map + coefficients);
    }
}

/// Layers that Winograd's algorithm computes, once as one part and once in parts of one and of two images.
fn a_batch_in_parts_gives_what_the_whole_gives() {
    let chosen = [
        "conv fp32 3×104→100×14×14 9 taps, dilation 1, Elu",
        "conv fp32 5×100→96×7×7 9 taps, dilation 1, NormElu",
        "conv+norm fp32 2×72→72×16×16 9 taps, dilation 1, NormElu + 1000",
        "conv+norm fp32 2×88→88×20×32 9 taps, dilation 2, Elu + 0",
    ];
    let all = cases();
    for name in chosen {
        let case = all
            .iter()
            .find(|case| case.name == name)
            .unwrap_or_else(|| panic!("no case {name}"));
        let run = |bytes: usize| {
            let mut gpu = Emulated::new(PTX_SM_70, 70, Precision::Fp32, false).with_transforms(bytes);
            let error = case.run(&mut gpu).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let transforms = gpu
                .reports
                .borrow()
                .iter()
                .filter(|r| r.kernel == "winograd_output")
                .count();
            (error, transforms)
        };
        let scratch = case
            .setup(&*target(Precision::Fp32))
            .plan
            .instructions()
            .map(|i| i.scratch.len())
            .max();
        let (whole, parts) = run(usize::MAX);
        let images: usize = case.name.split(['×', ' ']).find_map(|word| word.parse().ok()).unwrap();
        let per_image = scratch.unwrap() / images;
        for at_a_time in [1, 2] {
            let (error, in_parts) = run(at_a_time * per_image);
            assert_eq!(error, whole, "{}", case.name);
            assert!(
                in_parts > parts || images <= at_a_time,
                "{}: {in_parts} parts",
                case.name
            );
        }
        assert!(whole <= case.bound, "{}", case.name);
    }
}

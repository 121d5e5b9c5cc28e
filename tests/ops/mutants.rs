//! Kernels broken on purpose: a missing barrier, a wait that is too short, a wrong lane, index, constant or bound. Each must
//! make a case fail.

use libtest_mimic::Trial;

use crate::engines::Emulated;
use qcs::engine::Engine;
use qcs::engine::cases::cases;
use qcs_kernels::{PTX_SM_70, PTX_SM_80};

/// One edit of one kernel.
struct Mutant {
    kernel: &'static str,
    /// Cases whose names begin so are run, until one fails.
    cases: &'static str,
    from: &'static str,
    to: &'static str,
    /// Which occurrence of `from` in the kernel is replaced.
    which: Which,
}

enum Which {
    First,
    Last,
}

impl Mutant {
    const fn new(
        kernel: &'static str,
        cases: &'static str,
        from: &'static str,
        to: &'static str,
        which: Which,
    ) -> Self {
        Self {
            kernel,
            cases,
            from,
            to,
            which,
        }
    }

    /// The PTX with the edit.
    fn apply(&self, ptx: &str) -> String {
        let start = ptx
            .find(&format!(".entry {}(", self.kernel))
            .expect("the kernel is in the PTX");
        let end = ptx[start + 1..]
            .find(".entry ")
            .map_or(ptx.len(), |end| start + 1 + end);
        let body = &ptx[start..end];
        let at = match self.which {
            Which::First => body.find(self.from),
            Which::Last => body.rfind(self.from),
        };
        let at = at.unwrap_or_else(|| panic!("{} has no \"{}\" any more: choose another edit", self.kernel, self.from));
        let (before, after) = (&ptx[..start + at], &ptx[start + at + self.from.len()..]);
        format!("{before}{}{after}", self.to)
    }

    /// What the cases say, if they notice.
    fn noticed(&self, ptx: &str, architecture: u32) -> Option<String> {
        let ptx = self.apply(ptx);
        let chosen = cases().into_iter().filter(|case| case.name.starts_with(self.cases));
        let mut gpu: Option<Emulated> = None;
        for case in chosen.filter(|case| case.precision.on_gpu(architecture)) {
            let gpu = match &mut gpu {
                Some(gpu) if gpu.precision() == case.precision => gpu,
                gpu => gpu.insert(Emulated::new(&ptx, architecture, case.precision, false)),
            };
            let verdict = case.verdict(gpu);
            if !verdict.is_correct() {
                return Some(format!("{}: {:?}", case.name, verdict.error));
            }
        }
        None
    }
}

const BARRIER: &str = "bar.sync \t0;";

/// Edits that both architectures' PTX allows.
static MUTANTS: [Mutant; 26] = [
    Mutant::new("advance_step", "set_level", ", 1;", ", 0;", Which::First),
    Mutant::new("conv_f32_64x64_none", "conv fp32 1×1→16", BARRIER, "", Which::First),
    Mutant::new("conv_f32_64x64_none", "conv fp32 1×16→32", BARRIER, "", Which::Last),
    Mutant::new("conv_f16_64x16", "conv fp16 2×24", BARRIER, "", Which::Last),
    Mutant::new("conv_f16_64x32", "conv fp16 1×24→64", BARRIER, "", Which::Last),
    Mutant::new("conv_f16_64x64", "conv fp16 5×16→120", BARRIER, "", Which::First),
    // What a convolution leaves for the next one
    Mutant::new(
        "conv_f16_64x16",
        "conv fp16 3×24→32×7×8",
        "ex2.approx",
        "lg2.approx",
        Which::First,
    ),
    Mutant::new(
        "conv_f32_64x64_none",
        "conv+norm fp32 5×16→16",
        ", 8, 31, -1;",
        ", 4, 31, -1;",
        Which::First,
    ),
    Mutant::new(
        "conv_f16_64x16",
        "conv+norm fp16 2×24",
        ", 16, 31, -1;",
        ", 2, 31, -1;",
        Which::Last,
    ),
    Mutant::new(
        "norm_merge",
        "conv+norm fp32 5×16→32",
        "min.u32",
        "max.u32",
        Which::Last,
    ),
    Mutant::new(
        "winograd_input_norm_elu",
        "conv fp32 5×100→96×7×7",
        "setp.ne.b32",
        "setp.eq.b32",
        Which::First,
    ),
    Mutant::new(
        "winograd_output",
        "conv fp32 5×100→96×7×7",
        "setp.ge.u32",
        "setp.gt.u32",
        Which::Last,
    ),
    Mutant::new(
        "winograd_output",
        "conv+norm fp32 2×72→72×16",
        ", 8, 31, -1;",
        ", 4, 31, -1;",
        Which::First,
    ),
    Mutant::new("transposed_times_f64_f64", "rotate_in", BARRIER, "", Which::Last),
    Mutant::new("gamma", "gamma adaptive", ", 8, 31, -1;", ", 4, 31, -1;", Which::First),
    Mutant::new("max_pool", "max_pool", ", -2;", ", -1;", Which::First),
    Mutant::new("elu", "elu", "setp.gt.f32", "setp.lt.f32", Which::First),
    Mutant::new("load_image", "load_image", "setp.ge.u32", "setp.gt.u32", Which::First),
    Mutant::new("attention", "attention", ", 16, 31, -1;", ", 4, 31, -1;", Which::Last),
    // Either word of a sum in f64, and what a norm and an embedding are made of
    Mutant::new("dense", "dense", ", 16, 31, -1;", ", 4, 31, -1;", Which::First),
    Mutant::new("dense", "dense", ", 16, 31, -1;", ", 4, 31, -1;", Which::Last),
    Mutant::new("group_finish", "group_norm", "sqrt.rn.f64", "abs.f64", Which::First),
    // The floor of a variance
    Mutant::new(
        "group_finish",
        "group_norm",
        "add.rn.f64 \t%rd84, %rd10, %rd18;",
        "mov.b64 \t%rd84, %rd10;",
        Which::First,
    ),
    Mutant::new(
        "embed",
        "embed",
        "0d3FE62E42FEE00000",
        "0d3FE62E43FEE00000",
        Which::First,
    ),
    Mutant::new("resample", "resample", "0f3E800000", "0f3F000000", Which::First),
    Mutant::new("langevin_propose", "langevin", "-845247145", "-845247147", Which::First),
];

/// Edits of what only the newer architecture has.
static MUTANTS_SM_80: [Mutant; 2] = [
    // Which part of a pixel's unit is a lane's
    Mutant::new("conv_tf32_64x16", "conv tf32 2×24", ", 2, 3;", ", 1, 3;", Which::First),
    Mutant::new("conv_tf32_64x16", "conv tf32 2×24", BARRIER, "", Which::First),
];

/// One test for each edit of each architecture's PTX.
pub fn every_mutant() -> Vec<Trial> {
    let both = [(70, PTX_SM_70), (80, PTX_SM_80)].into_iter();
    let both = both.flat_map(|(architecture, ptx)| MUTANTS.iter().map(move |mutant| (mutant, ptx, architecture)));
    let newer = MUTANTS_SM_80.iter().map(|mutant| (mutant, PTX_SM_80, 80));
    let trial = |(at, (mutant, ptx, architecture)): (usize, (&'static Mutant, &'static str, u32))| {
        let name = format!(
            "mutant {at} of sm_{architecture}: {} by {}",
            mutant.kernel, mutant.cases
        );
        Trial::test(name, move || match mutant.noticed(ptx, architecture) {
            Some(_) => Ok(()),
            None => Err(format!("no case notices {:?} for {:?}", mutant.to, mutant.from).into()),
        })
    };
    both.chain(newer).enumerate().map(trial).collect()
}

//! Turbo's steps between EP and the denoiser.

use qcs_kernels::turbo::turbo_denoise::TurboDenoiseArgs;
use qcs_kernels::turbo::turbo_draw::{TurboDrawArgs, TurboDrawStartArgs};
use qcs_kernels::turbo::turbo_filter::TurboFilterArgs;
use qcs_kernels::turbo::turbo_scale::TurboScaleArgs;
use qcs_kernels::turbo::turbo_start::TurboStartArgs;
use qcs_kernels::turbo::turbo_step::TurboStepArgs;

use super::{Call, Caller};
use crate::plan::{TurboDenoise, TurboDraw, TurboDrawStart, TurboFilter, TurboOp, TurboScale, TurboStart, TurboStep};

impl Caller<'_> {
    pub(super) fn turbo(&self, op: &TurboOp) -> Call {
        match *op {
            TurboOp::Start(op) => self.turbo_start(op),
            TurboOp::Filter(op) => self.turbo_filter(op),
            TurboOp::Scale(op) => self.turbo_scale(op),
            TurboOp::Step(op) => self.turbo_step(op),
            TurboOp::Denoise(op) => self.turbo_denoise(op),
            TurboOp::DrawStart(op) => self.turbo_draw_start(op),
            TurboOp::Draw(op) => self.turbo_draw(op),
        }
    }

    fn turbo_start(&self, op: TurboStart) -> Call {
        Call::of(&TurboStartArgs {
            steps: self.tensor(op.steps),
            mean: self.vector(op.mean),
            mu: self.tensor(op.mu),
            level: self.tensor(op.level),
            site_z: self.tensor(op.sites.z),
            h_g: self.tensor(op.sites.h_g),
            tau_g: self.tensor(op.sites.tau_g),
            scalars: self.tensor(op.scalars),
            done: self.tensor(op.done),
            count: self.tensor(op.sites.count),
            deviation: op.deviation,
            states: self.batch(),
            len: self.len(op.mu),
            measurements: self.measurements(),
            unused: 0,
        })
    }

    fn turbo_filter(&self, op: TurboFilter) -> Call {
        Call::of(&TurboFilterArgs {
            eigenvalues: self.at(self.layout.eigenvalues),
            level: self.tensor(op.level),
            input: self.tensor(op.input),
            tau_g: self.tensor(op.tau_g),
            output: self.tensor(op.output),
            filter: self.tensor(op.filter),
            sigma2: self.problem().sigma2_floored(),
            states: self.batch(),
            measurements: self.measurements(),
            len: op.pixels as u32,
            unused: 0,
        })
    }

    fn turbo_scale(&self, op: TurboScale) -> Call {
        let (mean, spread) = op.peak;
        Call::of(&TurboScaleArgs {
            steps: self.tensor(op.steps),
            done: self.tensor(op.done),
            lower: self.at(self.layout.lower),
            upper: self.at(self.layout.upper),
            level: self.tensor(op.level),
            d: self.tensor(op.d),
            z: self.tensor(op.z),
            mu: self.tensor(op.mu),
            r: self.tensor(op.r),
            scalars: self.tensor(op.scalars),
            mean,
            spread,
            sigma2: self.problem().sigma2_floored(),
            row2: self.problem().mean_diag(),
            states: self.batch(),
            len: self.len(op.r),
            measurements: self.measurements(),
            unused: 0,
        })
    }

    fn turbo_step(&self, op: TurboStep) -> Call {
        let (least, largest) = op.bounds;
        Call::of(&TurboStepArgs {
            steps: self.tensor(op.steps),
            done: self.tensor(op.done),
            mu: self.tensor(op.mu),
            score: self.tensor(op.score),
            filter: self.tensor(op.filter),
            r: self.tensor(op.r),
            s: self.tensor(op.s),
            velocity: self.tensor(op.velocity),
            f: self.tensor(op.f),
            scalars: self.tensor(op.scalars),
            least,
            largest,
            states: self.batch(),
            len: self.len(op.r),
        })
    }

    fn turbo_denoise(&self, op: TurboDenoise) -> Call {
        Call::of(&TurboDenoiseArgs {
            levels: self.vector(op.log_levels),
            errors: self.vector(op.log_ratios),
            r: self.tensor(op.r),
            s: self.tensor(op.s),
            prior: self.tensor(op.prior),
            d: self.tensor(op.d),
            mu: self.tensor(op.mu),
            level: self.tensor(op.level),
            scalars: self.tensor(op.scalars),
            steps: self.tensor(op.steps),
            done: self.tensor(op.done),
            tolerance: op.tolerance,
            entries: op.entries as u32,
            most: op.most,
            states: self.batch(),
            len: self.len(op.r),
        })
    }

    fn turbo_draw_start(&self, op: TurboDrawStart) -> Call {
        Call::of(&TurboDrawStartArgs {
            keys: self.at(self.layout.keys),
            r: self.tensor(op.r),
            s: self.tensor(op.s),
            x: self.tensor(op.x),
            level: self.tensor(op.level),
            ratio: self.tensor(op.ratio),
            done: self.tensor(op.done),
            seed: self.constants.seed,
            spread: op.spread,
            end: op.end,
            count: op.count,
            states: self.batch(),
            len: self.len(op.x),
            unused: 0,
        })
    }

    fn turbo_draw(&self, op: TurboDraw) -> Call {
        Call::of(&TurboDrawArgs {
            steps: self.steps(),
            keys: self.at(self.layout.keys),
            prior: self.tensor(op.prior),
            ratio: self.tensor(op.ratio),
            x: self.tensor(op.x),
            level: self.tensor(op.level),
            seed: self.constants.seed,
            count: op.count,
            states: self.batch(),
            len: self.len(op.x),
            unused: 0,
        })
    }
}

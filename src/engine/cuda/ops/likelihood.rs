//! Expectation propagation and its diagonal forerunner.

use qcs_kernels::likelihood::diag_gradient::DiagGradientArgs;
use qcs_kernels::likelihood::ep_carry::EpCarryArgs;
use qcs_kernels::likelihood::ep_damp::EpDampArgs;
use qcs_kernels::likelihood::ep_gradient::EpGradientArgs;
use qcs_kernels::likelihood::ep_moments::{EpMessagesArgs, EpMomentsArgs};
use qcs_kernels::likelihood::ep_reset::EpResetArgs;
use qcs_kernels::likelihood::ep_separate::EpSeparateArgs;
use qcs_kernels::likelihood::ep_settle::EpSettleArgs;
use qcs_kernels::likelihood::ep_start::EpStartArgs;

use super::{Call, Caller};
use crate::plan::{EpStart, LikelihoodOp};

impl Caller<'_> {
    pub(super) fn likelihood(&self, op: &LikelihoodOp, scratch: usize) -> Vec<Call> {
        let (states, measurements) = (self.batch(), self.measurements());
        let (lower, upper) = (self.at(self.layout.lower), self.at(self.layout.upper));
        let sigma2 = self.problem().sigma2_floored();
        match *op {
            LikelihoodOp::EpStart {
                level,
                h_f,
                tau_f,
                start,
            } => vec![Call::of(&EpStartArgs {
                level: self.tensor(level),
                h_f: self.tensor(h_f),
                tau_f: self.tensor(tau_f),
                sigma2,
                mean_diag: self.problem().mean_diag(),
                states,
                measurements,
                matched: u32::from(start == EpStart::Matched),
                unused: 0,
            })],
            LikelihoodOp::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live,
            } => {
                let live = self.tensor_or_none(live);
                let moments = EpMomentsArgs {
                    live,
                    lower,
                    upper,
                    z: self.tensor(z),
                    h_f: self.tensor(h_f),
                    tau_f: self.tensor(tau_f),
                    m_a: self.tensor(h_g),
                    variances: self.at(scratch),
                    states,
                    measurements,
                };
                let messages = EpMessagesArgs {
                    live,
                    h_f: self.tensor(h_f),
                    tau_f: self.tensor(tau_f),
                    variances: self.at(scratch),
                    h_g: self.tensor(h_g),
                    tau_g: self.tensor(tau_g),
                    states,
                    measurements,
                };
                vec![Call::of(&moments), Call::of(&messages)]
            }
            LikelihoodOp::EpReset { sites } => vec![Call::of(&EpResetArgs {
                site_z: self.tensor(sites.z),
                h_g: self.tensor(sites.h_g),
                tau_g: self.tensor(sites.tau_g),
                count: self.tensor(sites.count),
                states,
                measurements,
            })],
            LikelihoodOp::EpCarry {
                resting,
                z,
                sites,
                live,
                pace,
            } => vec![Call::of(&EpCarryArgs {
                resting: self.tensor(resting),
                z: self.tensor(z),
                site_z: self.tensor(sites.z),
                h_g: self.tensor(sites.h_g),
                tau_g: self.tensor(sites.tau_g),
                live: self.tensor(live),
                pace: self.tensor(pace),
                states,
                measurements,
            })],
            LikelihoodOp::EpDamp {
                live,
                pace,
                new_h_g,
                new_tau_g,
                sites,
            } => vec![Call::of(&EpDampArgs {
                live: self.tensor(live),
                pace: self.tensor(pace),
                new_h_g: self.tensor(new_h_g),
                new_tau_g: self.tensor(new_tau_g),
                h_g: self.tensor(sites.h_g),
                tau_g: self.tensor(sites.tau_g),
                states,
                measurements,
            })],
            LikelihoodOp::EpSettle {
                new_h_f,
                new_tau_f,
                sites,
                h_f,
                tau_f,
                pace,
                live,
                tolerance,
            } => vec![Call::of(&EpSettleArgs {
                new_h_f: self.tensor(new_h_f),
                new_tau_f: self.tensor(new_tau_f),
                h_g: self.tensor(sites.h_g),
                h_f: self.tensor(h_f),
                tau_f: self.tensor(tau_f),
                pace: self.tensor(pace),
                live: self.tensor(live),
                count: self.tensor(sites.count),
                tolerance,
                states,
                measurements,
            })],
            LikelihoodOp::EpSeparate {
                level,
                input,
                tau_g,
                output,
                tau_f,
            } => vec![Call::of(&EpSeparateArgs {
                level: self.tensor(level),
                eigenvalues: self.at(self.layout.eigenvalues),
                input: self.tensor(input),
                tau_g: self.tensor(tau_g),
                output: self.tensor(output),
                tau_f: self.tensor(tau_f),
                sigma2,
                states,
                measurements,
            })],
            LikelihoodOp::EpGradient { z, h_f, tau_f, g } => vec![Call::of(&EpGradientArgs {
                lower,
                upper,
                z: self.tensor(z),
                h_f: self.tensor(h_f),
                tau_f: self.tensor(tau_f),
                g: self.tensor(g),
                states,
                measurements,
            })],
            LikelihoodOp::DiagGradient { level, z, g } => vec![Call::of(&DiagGradientArgs {
                level: self.tensor(level),
                diag: self.at(self.layout.diag),
                lower,
                upper,
                z: self.tensor(z),
                g: self.tensor(g),
                sigma2,
                states,
                measurements,
            })],
        }
    }
}

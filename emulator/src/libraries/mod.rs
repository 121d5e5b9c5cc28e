//! Stand-ins for the functions of cuBLAS, cuSOLVER and NVTX that the engine calls, on top of the emulated driver.
//!
//! They refuse what the libraries refuse, and what the libraries would let pass to fail later: matrices outside of
//! device memory, operands that overlap, a workspace that is too small or in use. Every refusal says why.
//!
//! cuSOLVER's decompositions are written out here (`eigen`, `svd`) and not taken from faer, on purpose. The engine factorises
//! by faer where there is no cuSOLVER, and its tests hold one way against the other: with faer on both sides, a mistake in
//! it, or in what we take its order and its transposes to be, would agree with itself. And the emulator keeps having no
//! dependencies.

#![allow(non_snake_case)] // the names of the libraries

mod blas;
mod eigen;
mod gemm;
mod handles;
mod matrix;
pub(crate) mod nvtx;
mod solver;
mod svd;

pub use blas::*;
pub use gemm::Gemm;
pub use nvtx::*;
pub use solver::*;

use crate::driver::state::State;

/// How often one library function was used.
#[derive(Clone, Copy, Default, Debug)]
pub struct Uses {
    /// Calls of the program that were accepted.
    pub calls: u64,
    /// Times its work ran: at once, or with every launch of the graph it was captured into.
    pub runs: u64,
}

impl State {
    fn count_call(&mut self, function: &'static str) {
        self.counters.libraries.entry(function).or_default().calls += 1;
    }

    fn count_run(&mut self, function: &'static str) {
        self.counters.libraries.entry(function).or_default().runs += 1;
    }
}

/// Says why a call is refused. The libraries return the status only.
fn refuse<S>(function: &str, status: S, reason: impl std::fmt::Display) -> S {
    eprintln!("qcs-emulator: {function}: {reason}");
    status
}

//! What several runs have in common: the A of the last problem, drawn and factorised once.

use crate::problem::{Ensemble, Matrix, Problem, Sensing, Spectrum};

/// The matrix of an earlier run, for one that measures with the same.
#[derive(Default)]
pub struct Shared {
    kept: Option<Kept>,
}

struct Kept {
    ensemble: Ensemble,
    seed: u64,
    a: Matrix,
    spectrum: Option<Spectrum>,
}

impl Shared {
    /// Keeps a problem's matrix, and its spectrum if that is known by now.
    pub fn keep(&mut self, problem: Problem) {
        let drawn = problem
            .origin()
            .and_then(|origin| Some((origin.ensemble?, origin.seed)));
        self.kept = drawn.map(|(ensemble, seed)| {
            let (a, spectrum) = problem.into_matrix();
            Kept {
                ensemble,
                seed,
                a,
                spectrum,
            }
        });
    }

    /// The kept matrix if it is the one of this law and seed, which is then gone; else the order to draw it.
    pub(super) fn take(&mut self, ensemble: Ensemble, m: usize, n: usize, seed: u64) -> Sensing {
        let same = |kept: &mut Kept| {
            kept.ensemble == ensemble && kept.seed == seed && (kept.a.rows(), kept.a.cols()) == (m, n)
        };
        match self.kept.take_if(same) {
            Some(Kept {
                ensemble, a, spectrum, ..
            }) => Sensing::Kept { ensemble, a, spectrum },
            None => Sensing::Drawn { ensemble, m },
        }
    }
}

//! What several runs have in common: the prior, and the A of the last problem, drawn and factorised once.

use std::sync::Arc;

use super::load_prior;
use crate::prior::Prior;
use crate::problem::{Ensemble, Matrix, Problem, Sensing, Spectrum};
use crate::{ImageShape, Result};

/// What an earlier run has left for one that uses the same.
#[derive(Default)]
pub struct Shared {
    kept: Option<Kept>,
    /// By the name and the shape that it was asked for with
    prior: Option<(String, Option<ImageShape>, Arc<Prior>)>,
}

struct Kept {
    /// The law and the seed that the matrix was drawn with
    drawn: Option<(Ensemble, u64)>,
    a: Matrix,
    spectrum: Option<Spectrum>,
}

impl Shared {
    /// The prior of a configuration, loaded once.
    pub(super) fn prior(&mut self, model: &str, shape: Option<ImageShape>) -> Result<Arc<Prior>> {
        match &self.prior {
            Some((name, of, prior)) if name == model && *of == shape => Ok(Arc::clone(prior)),
            _ => {
                let prior = Arc::new(load_prior(model, shape)?);
                self.prior = Some((model.to_owned(), shape, Arc::clone(&prior)));
                Ok(prior)
            }
        }
    }

    /// Keeps a problem's matrix, and its spectrum if that is known by now.
    pub fn keep(&mut self, problem: Problem) {
        let drawn = problem
            .origin()
            .and_then(|origin| Some((origin.ensemble?, origin.seed)));
        let (a, spectrum) = problem.into_matrix();
        self.kept = Some(Kept { drawn, a, spectrum });
    }

    /// A problem that was read, with the kept spectrum if that is its own. The kept matrix is gone then.
    pub(super) fn know(&mut self, problem: Problem) -> Result<Problem> {
        let same = self.kept.take().filter(|kept| kept.a == *problem.a());
        match same.and_then(|kept| kept.spectrum) {
            Some(spectrum) if problem.known_spectrum().is_none() => problem.with_spectrum(spectrum),
            _ => Ok(problem),
        }
    }

    /// The kept matrix if it is the one of this law and seed, which is then gone; else the order to draw it.
    pub(super) fn take(&mut self, ensemble: Ensemble, m: usize, n: usize, seed: u64) -> Sensing {
        let same = |kept: &mut Kept| kept.drawn == Some((ensemble, seed)) && (kept.a.rows(), kept.a.cols()) == (m, n);
        match self.kept.take_if(same) {
            Some(Kept { a, spectrum, .. }) => Sensing::Kept { ensemble, a, spectrum },
            None => Sensing::Drawn { ensemble, m },
        }
    }
}

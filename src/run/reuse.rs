//! What several runs have in common: the prior, and the A of the last problem, drawn and factorised once.

use std::sync::Arc;

use super::load_prior;
use crate::prior::Prior;
use crate::problem::{Ensemble, Operator, Problem, Sensing, Spectrum};
use crate::{ImageShape, Result};

/// What an earlier run has left for one that uses the same.
#[derive(Default)]
pub struct Reuse {
    kept: Option<LastMatrix>,
    /// By the name and the shape that it was asked for with
    prior: Option<(String, Option<ImageShape>, Arc<Prior>)>,
}

struct LastMatrix {
    /// The law and the seed that the matrix was drawn with
    drawn: Option<(Ensemble, u64)>,
    a: Operator,
    spectrum: Option<Spectrum>,
}

impl Reuse {
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
        let (a, spectrum) = problem.into_operator();
        self.kept = Some(LastMatrix { drawn, a, spectrum });
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
        let same =
            |kept: &mut LastMatrix| kept.drawn == Some((ensemble, seed)) && (kept.a.rows(), kept.a.cols()) == (m, n);
        match self.kept.take_if(same) {
            Some(LastMatrix { a, spectrum, .. }) => Sensing::Reused { ensemble, a, spectrum },
            None => Sensing::Drawn { ensemble, m },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Cells, Matrix};

    /// One image, two measurements of three pixels.
    fn problem(scale: f64) -> Problem {
        let a = Matrix::from_f64(2, 3, vec![scale, 0.0, 0.0, 0.5, 2.0, 0.0]).unwrap();
        let cells = Cells::new(2, vec![0.0; 2], vec![1.0; 2]).unwrap();
        Problem::new(a, cells, 0.1).unwrap()
    }

    #[test]
    fn a_matrix_that_is_read_again_is_not_factorised_again_and_another_is_not_mistaken_for_it() {
        let factorised = |scale: f64| {
            let problem = problem(scale);
            problem.spectrum().unwrap();
            problem
        };
        let mut shared = Reuse::default();
        shared.keep(factorised(1.0));
        let again = shared.know(problem(1.0)).unwrap();
        assert_eq!(again.known_spectrum(), factorised(1.0).known_spectrum());
        shared.keep(again);
        assert!(shared.know(problem(3.0)).unwrap().known_spectrum().is_none());
        assert!(Reuse::default().know(problem(1.0)).unwrap().known_spectrum().is_none());
    }

    #[test]
    fn runs_with_one_model_have_one_prior_and_its_weights_are_packed_once() {
        let mut shared = Reuse::default();
        let [one, other] = [(); 2].map(|()| shared.prior(Prior::SHIPPED, None).unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        let mut made = 0;
        for _ in 0..2 {
            let packed = other.packed("a layer".to_owned(), || {
                made += 1;
                made
            });
            assert_eq!(*packed, 1);
        }
        assert_eq!(*one.packed("another".to_owned(), || 7), 7);
    }
}

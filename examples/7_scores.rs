//! Look at the two scores alone, to compare them with your own code: `qcs score` and `qcs likelihood` do the same.
//!
//! `cargo run --release --example 7_scores`

use qcs::bundled;
use qcs::engine::cpu::CpuEngine;
use qcs::likelihood::{Diag, Ep, Likelihood};
use qcs::methods::{likelihood_score, prior_score};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};

fn main() -> qcs::Result<()> {
    let images = bundled::digits(0, Some(2))?;
    let mut engine = CpuEngine::new(0);

    // The prior score points from a noisy image to what the network believes in.
    let prior = qcs::Prior::shipped()?;
    for beta in [10.0, 1.0, 0.1] {
        let score = prior_score(&mut engine, &prior, &images, beta)?;
        println!("beta = {beta:5}: prior score of norm {:.1}", norm(score.image(0)));
    }

    // The likelihood score points to where the measurements are met. With orthogonal rows the diagonal is exact, and
    // both methods agree; with an ill-conditioned A they do not.
    for ensemble in [Ensemble::RowOrthogonal, Ensemble::IllConditioned { kappa: 1000.0 }] {
        let sensing = Sensing::Drawn { ensemble, m: 100 };
        let problem = Problem::simulate(images.clone(), sensing, &Simulation::default())?;
        let x = vec![0.5; images.data.len()];
        let mut score = |likelihood| likelihood_score(&mut engine, &likelihood, &problem, &x, 1, 1.0, &mut |_| {});
        let (ep, diag) = (score(Likelihood::Ep(Ep::default()))?, score(Likelihood::Diag(Diag))?);
        let difference: Vec<f32> = ep.iter().zip(&diag).map(|(a, b)| a - b).collect();
        let share = norm(&difference) / norm(&ep);
        println!("{ensemble:?}: EP and diagonal differ by {share:.1e} of the norm");
    }
    Ok(())
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}

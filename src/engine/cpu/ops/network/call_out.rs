//! The score by a function from outside, which denoises: Tweedie's formula, (E[x₀ | x] − x)/level².

use crate::engine::cpu::threads::Threads;
use crate::prior::Function;
use crate::{Error, Result};

pub fn call_out(
    threads: &mut Threads,
    function: &dyn Function,
    x: &[f32],
    level: &[f64],
    score: &mut [f32],
) -> Result<()> {
    function.denoise(x, level, score)?;
    let n = x.len() / level.len();
    if let Some(at) = score.iter().position(|d| !d.is_finite()) {
        return Err(Error::Failed(format!(
            "the denoiser gave NaN or infinity at noise level {}, pixel {}",
            level[at / n],
            at % n
        )));
    }
    threads.for_each(score, n, &|state, score| {
        let (x, level) = (&x[state * n..][..n], level[state]);
        for (score, &x) in score.iter_mut().zip(x) {
            *score = ((f64::from(*score) - f64::from(x)) / (level * level)) as f32;
        }
    });
    Ok(())
}

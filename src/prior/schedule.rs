//! The noise levels beta_1 > … > beta_T of annealed Langevin dynamics.

use crate::{Error, Result};

/// Noise levels, falling.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    levels: Vec<f32>,
}

impl Schedule {
    /// Geometric from `begin` down to `end`, as NCSNv2 is trained.
    pub fn geometric(begin: f64, end: f64, count: usize) -> Result<Self> {
        if !(begin > end && end > 0.0 && begin.is_finite() && count >= 2) {
            return Err(Error::usage(format!(
                "a schedule needs sigma-begin > sigma-end > 0 and at least 2 levels, not {begin} → {end} in {count}"
            )));
        }
        let ratio = (end / begin).ln() / (count - 1) as f64;
        let level = |t: usize| (begin * (ratio * t as f64).exp()) as f32;
        Self::new((0..count).map(level).collect())
    }

    /// Any falling list of positive levels.
    pub fn new(levels: Vec<f32>) -> Result<Self> {
        let falling = levels.windows(2).all(|pair| pair[0] > pair[1]);
        let positive = levels.iter().all(|&l| l > 0.0 && l.is_finite());
        if levels.is_empty() || !falling || !positive {
            return Err(Error::usage(
                "noise levels must be positive, finite and strictly falling",
            ));
        }
        Ok(Self { levels })
    }

    pub fn levels(&self) -> &[f32] {
        &self.levels
    }

    pub fn len(&self) -> usize {
        self.levels.len()
    }

    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn begin(&self) -> f32 {
        self.levels[0]
    }

    pub fn end(&self) -> f32 {
        self.levels[self.levels.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_levels_reach_both_ends_with_one_ratio() {
        let s = Schedule::geometric(50.0, 0.01, 232).unwrap();
        assert_eq!((s.len(), s.begin()), (232, 50.0));
        assert!((s.end() - 0.01).abs() < 1e-8);
        let ratio = s.levels()[1] / s.levels()[0];
        for pair in s.levels().windows(2) {
            assert!((pair[1] / pair[0] - ratio).abs() < 1e-6);
        }
    }

    #[test]
    fn rising_empty_and_negative_schedules_are_refused() {
        assert!(Schedule::geometric(0.01, 50.0, 10).is_err());
        assert!(Schedule::geometric(1.0, 0.0, 10).is_err());
        assert!(Schedule::geometric(1.0, 0.1, 1).is_err());
        assert!(Schedule::new(vec![]).is_err());
        assert!(Schedule::new(vec![1.0, 1.0]).is_err());
        assert!(Schedule::new(vec![1.0, f32::NAN]).is_err());
    }
}

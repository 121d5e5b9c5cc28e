//! Linear least squares, for comparison: what the measurements say without a prior. Each cell counts as its middle, every pixel as
//! grey with a variance: x = 1/2 + v·Aᵀ(v·A·Aᵀ + w)⁻¹(y − A·1/2). It computes on the host, whatever the device.

use std::ops::Range;

use super::options::{Setting, options, positive};
use super::{Algorithm, HostMethod, Inputs, Kind, MethodOptions, Options, Outputs, Pass, Preset, Samples};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::{Error, Result};

options! {
    /// Linear least squares of the cells' middles: a baseline without a prior.
    ///
    /// ```
    /// let method = qcs::Method::Linear(qcs::Linear { pixel_variance: Some(0.05), ..Default::default() });
    /// assert!(method.kind().is_baseline());
    /// ```
    pub struct Linear {
        /// The variance about grey that least squares gives a pixel [default: 0.1]
        pub pixel_variance: f64 = "VARIANCE",
    }
}

impl Options for Linear {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn over(self, below: Self) -> Self {
        self.or(below)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }
}

impl MethodOptions for Linear {
    fn advised_for(key: &str, prior: &Prior, _: Option<&Preset>, signs: bool) -> Result<Self> {
        let default = Self {
            pixel_variance: Some(0.1),
        };
        Ok(Self::advised(prior, key, signs)?.over(default))
    }

    fn resolved(self, _: &Kind) -> Result<Self> {
        self.variance()?;
        Ok(self)
    }

    fn algorithm(&self, _: &Kind) -> Result<Box<dyn Algorithm>> {
        let variance = self.variance()?;
        Ok(Box::new(LeastSquares { variance }))
    }
}

impl Linear {
    fn variance(&self) -> Result<f64> {
        let open = || Error::usage("pixel_variance is missing");
        positive("pixel_variance", self.pixel_variance.ok_or_else(open)?)
    }
}

/// The grey that a pixel is before anything is known of it.
const GREY: f64 = 0.5;

struct LeastSquares {
    variance: f64,
}

impl Algorithm for LeastSquares {
    fn check(&self, given: Inputs<'_>) -> Result<()> {
        let missing = || Error::usage("least squares reconstructs measured images: there is no problem");
        given.problem.ok_or_else(missing).map(|_| ())
    }

    fn passes<'a>(&'a self, _: Inputs<'a>) -> Vec<Box<dyn Pass + 'a>> {
        Vec::new()
    }

    fn on_host<'a>(&'a self, given: Inputs<'a>) -> Option<Box<dyn HostMethod + 'a>> {
        Some(Box::new(Solution {
            variance: self.variance,
            problem: given.problem.expect("checked before anything is computed"),
            chains: given.chains,
        }))
    }

    fn outcome(&self, given: Inputs<'_>, left: &Outputs) -> Samples {
        left.computed(given)
    }
}

struct Solution<'a> {
    variance: f64,
    problem: &'a Problem,
    chains: usize,
}

impl HostMethod for Solution<'_> {
    fn steps(&self) -> usize {
        1
    }

    fn stage(&self) -> &'static str {
        "solution"
    }

    fn needs_spectrum(&self) -> bool {
        true
    }

    /// Every chain of an image is the same: nothing is drawn.
    fn states(&self, states: Range<usize>, _: u64, step: &mut dyn FnMut(usize) -> bool) -> Option<Vec<f32>> {
        let mut x = Vec::new();
        for state in states {
            let image = state / self.chains;
            match x.len().checked_sub(self.problem.a().cols()) {
                Some(last) if state % self.chains > 0 => x.extend_from_within(last..),
                _ => x.extend(self.image(image)),
            }
        }
        step(1).then_some(x)
    }
}

impl Solution<'_> {
    fn image(&self, image: usize) -> Vec<f32> {
        let a = self.problem.a();
        // Of a measurement, before it is known.
        let expected = self.problem.mean_diag() * (GREY * GREY + self.variance);
        let (lower, upper) = self.problem.cells().image(image);
        let middles = Middles::of(lower, upper, expected);
        let w = self.problem.sigma().powi(2) + middles.variance;
        let grey = a.times(&vec![GREY; a.cols()]);
        let residual: Vec<f64> = middles.y.iter().zip(&grey).map(|(y, grey)| y - grey).collect();
        let shrink = |lambda: f64| self.variance / (self.variance * lambda + w);
        let solved = self
            .problem
            .filtered(&residual, shrink)
            .expect("the driver has it factorised");
        a.transpose_times(&solved).iter().map(|x| (GREY + x) as f32).collect()
    }
}

/// One number for each cell, and its variance, their mean over the cells.
struct Middles {
    y: Vec<f64>,
    variance: f64,
}

impl Middles {
    /// A half-line counts as a cell of the others' median width; where all are half-lines, as the mean of a Gaussian's half beside 0
    /// with the `expected` square. A lost measurement is 0.
    fn of(lower: &[f64], upper: &[f64], expected: f64) -> Self {
        let cells = || lower.iter().zip(upper);
        let widths = cells()
            .map(|(lower, upper)| upper - lower)
            .filter(|width| width.is_finite());
        let mut widths: Vec<f64> = widths.collect();
        let (beyond, spread) = if widths.is_empty() {
            let half = 2.0 / std::f64::consts::PI;
            ((half * expected).sqrt(), (1.0 - half) * expected)
        } else {
            let squares = widths.iter().map(|width| width * width).sum::<f64>();
            let variance = squares / 12.0 / widths.len() as f64;
            let median = widths.len() / 2;
            (*widths.select_nth_unstable_by(median, f64::total_cmp).1 / 2.0, variance)
        };
        let y = cells().map(|(&lower, &upper)| match (lower.is_finite(), upper.is_finite()) {
            (true, true) => f64::midpoint(lower, upper),
            (true, false) => lower + beyond,
            (false, true) => upper - beyond,
            (false, false) => 0.0,
        });
        Self {
            y: y.collect(),
            variance: spread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lines_take_the_width_of_the_others() {
        let (lower, upper) = ([f64::NEG_INFINITY, -1.0, 1.0, 0.0], [-1.0, 1.0, f64::INFINITY, 4.0]);
        let middles = Middles::of(&lower, &upper, 9.0);
        assert_eq!(middles.y, [-3.0, 0.0, 3.0, 2.0]);
        assert!((middles.variance - (4.0 + 16.0) / 24.0).abs() < 1e-15);
        let signs = Middles::of(&[0.0, f64::NEG_INFINITY], &[f64::INFINITY, 0.0], 1.0);
        assert!((signs.y[0] - 0.797_884_560_802_865_4).abs() < 1e-15 && signs.y[1] == -signs.y[0]);
    }
}

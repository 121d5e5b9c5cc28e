//! Whether several draws of an image are spread as the truth is: the share of truths in central intervals of the draws, the
//! ranks of the truth among them, and the spread against the error of their mean.

use serde::{Deserialize, Serialize};

use crate::Images;

/// Over all pixels whose draws differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Draws of each image
    pub draws: usize,
    /// Pixels that count: those whose draws have a standard deviation above 0.02
    pub pixels: usize,
    /// The share of all pixels that these are
    pub share: f64,
    /// Central intervals, and the share of truths in them: the two are equal for draws of the posterior
    pub coverage: Vec<Coverage>,
    /// Root mean square of the draws' standard deviation
    pub spread: f64,
    /// Root mean squared error of the draws' mean. Of draws of the posterior it is sqrt(1 + 1/draws) times the spread
    pub error: f64,
    /// How often the truth has each rank among the draws, from below all to above all: flat for draws of the posterior
    pub ranks: Vec<f64>,
    /// Spread and error of pixels that are about equally sure, from the surest on
    #[serde(default)]
    pub by_spread: Vec<Bin>,
}

/// Pixels whose draws have about the same standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    pub pixels: usize,
    /// As those of [`Calibration`]
    pub spread: f64,
    pub error: f64,
}

/// A central interval of the draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Probability that it should hold the truth
    pub interval: f64,
    /// Share of pixels whose truth it holds
    pub held: f64,
}

/// The intervals that are reported.
pub const INTERVALS: [f64; 3] = [0.5, 0.8, 0.95];

/// Pixels that all draws agree on, as on an empty background, say nothing of the spread.
pub const LEAST_SPREAD: f64 = 0.02;

/// Each bin reaches over a factor of sqrt(2); the last one is open.
const BINS: usize = 10;

impl Bin {
    fn add(&mut self, variance: f64, squared_error: f64) {
        self.pixels += 1;
        self.spread += variance;
        self.error += squared_error;
    }

    /// Means' roots of the sums.
    fn finish(self) -> Self {
        let root = |sum: f64| (sum / self.pixels as f64).sqrt();
        Self {
            spread: root(self.spread),
            error: root(self.error),
            ..self
        }
    }
}

/// The bin of a standard deviation above [`LEAST_SPREAD`].
fn bin(deviation: f64) -> usize {
    ((2.0 * (deviation / LEAST_SPREAD).log2()) as usize).min(BINS - 1)
}

impl Calibration {
    /// Of `draws`, the `chains` of each image one after the other; `None` with one chain, or where no pixel counts.
    ///
    /// # Panics
    /// If there are not as many truths as images.
    pub fn of(draws: &Images, chains: usize, truth: &Images) -> Option<Self> {
        let mut tally = Tally::new(chains);
        tally.add(draws, truth);
        tally.finish()
    }

    /// The spread over what it should be, given the error of the mean: 1 for draws of the posterior.
    pub fn spread_over_error(&self) -> f64 {
        self.expected_error(self.spread) / self.error
    }

    /// The error that the mean of draws of the posterior with this spread has.
    pub fn expected_error(&self, spread: f64) -> f64 {
        spread * (1.0 + 1.0 / self.draws as f64).sqrt()
    }
}

/// What is counted of draws that come one after the other.
#[derive(Clone, Debug)]
pub struct Tally {
    chains: usize,
    /// Pixels that were looked at
    seen: usize,
    /// Sums of squares, as those of `bins`
    all: Bin,
    bins: [Bin; BINS],
    /// Counts
    ranks: Vec<f64>,
}

impl Tally {
    pub fn new(chains: usize) -> Self {
        Self {
            chains,
            seen: 0,
            all: Bin::default(),
            bins: [Bin::default(); BINS],
            ranks: vec![0.0; chains + 1],
        }
    }

    /// Counts draws of more images, the chains of each one after the other.
    ///
    /// # Panics
    /// If there are not as many truths as images.
    pub fn add(&mut self, draws: &Images, truth: &Images) {
        let (chains, n) = (self.chains, draws.shape.len());
        let images = draws.count() / chains.max(1);
        assert!(
            truth.shape == draws.shape && truth.count() >= images,
            "every image has a truth"
        );
        if chains < 2 {
            return;
        }
        self.seen += images * n;
        let mut values = vec![0.0; chains];
        for image in 0..images {
            for pixel in 0..n {
                let of = |chain: usize| f64::from(draws.image(image * chains + chain)[pixel]);
                (0..chains).for_each(|chain| values[chain] = of(chain));
                self.add_pixel(&values, f64::from(truth.image(image)[pixel]));
            }
        }
    }

    fn add_pixel(&mut self, values: &[f64], truth: f64) {
        let chains = self.chains as f64;
        let mean = values.iter().sum::<f64>() / chains;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (chains - 1.0);
        if variance.sqrt() <= LEAST_SPREAD || !variance.is_finite() {
            return;
        }
        for bin in [&mut self.all, &mut self.bins[bin(variance.sqrt())]] {
            bin.add(variance, (mean - truth).powi(2));
        }
        // Among equal values the truth may stand anywhere.
        let below = values.iter().filter(|&&v| v < truth).count();
        let equal = values.iter().filter(|&&v| v == truth).count();
        for rank in &mut self.ranks[below..=below + equal] {
            *rank += 1.0 / (equal + 1) as f64;
        }
    }

    /// `None` with one chain, or where no pixel counts.
    pub fn finish(self) -> Option<Calibration> {
        if self.all.pixels == 0 {
            return None;
        }
        let all = self.all.finish();
        let count = all.pixels as f64;
        let ranks: Vec<f64> = self.ranks.iter().map(|rank| rank / count).collect();
        let held = |interval: f64| Coverage {
            interval,
            held: held(&ranks, interval),
        };
        let bins = self.bins.into_iter().filter(|bin| bin.pixels > 0);
        Some(Calibration {
            draws: self.chains,
            pixels: all.pixels,
            share: count / self.seen as f64,
            coverage: INTERVALS.map(held).to_vec(),
            spread: all.spread,
            error: all.error,
            by_spread: bins.map(Bin::finish).collect(),
            ranks,
        })
    }
}

/// The share of truths in the central interval. A rank r of K draws stands for the probabilities from r/(K + 1) to
/// (r + 1)/(K + 1), which the interval may hold in part: so the expected share is the interval itself, for any K.
fn held(ranks: &[f64], interval: f64) -> f64 {
    let width = 1.0 / ranks.len() as f64;
    let (low, high) = (0.5 - interval / 2.0, 0.5 + interval / 2.0);
    let part = |(rank, share): (usize, &f64)| {
        let (from, to) = (rank as f64 * width, (rank + 1) as f64 * width);
        share * ((to.min(high) - from.max(low)).max(0.0) / width)
    };
    ranks.iter().enumerate().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageShape;
    use qcs_kernels::philox::{Domain, Stream};

    fn normals(seed: u64, count: usize) -> Vec<f32> {
        let stream = Stream {
            seed,
            domain: Domain::Start,
            image: 0,
            chain: 0,
            step: 0,
        };
        let mut values = vec![0.0; count];
        stream.fill_normals(0, &mut values);
        values
    }

    /// x ~ N(0, 1) is measured as y = x + n, n ~ N(0, sigma²), without a quantiser: x given y is N(y/(1 + sigma²),
    /// sigma²/(1 + sigma²)). Draws of it, wider or narrower by a factor.
    fn of_gaussians(chains: usize, factor: f64) -> Calibration {
        let (pixels, sigma) = (40_000, 0.5f64);
        let shape = ImageShape::new(1, 200, 200);
        let (x, noise) = (normals(1, pixels), normals(2, pixels));
        let gain = 1.0 / (1.0 + sigma * sigma);
        let deviation = sigma * gain.sqrt() * factor;
        let mut draws = Vec::new();
        for chain in 0..chains {
            let fresh = normals(3 + chain as u64, pixels);
            draws.extend((0..pixels).map(|i| {
                let y = f64::from(x[i]) + sigma * f64::from(noise[i]);
                (gain * y + deviation * f64::from(fresh[i])) as f32
            }));
        }
        Calibration::of(&Images::new(shape, draws), chains, &Images::new(shape, x)).unwrap()
    }

    #[test]
    fn draws_of_the_posterior_cover_what_they_should_however_many_there_are() {
        for chains in [5, 8, 39] {
            let calibration = of_gaussians(chains, 1.0);
            assert!(calibration.share > 0.999, "{}", calibration.share);
            for Coverage { interval, held } in calibration.coverage.iter().copied() {
                // Three standard errors of 40,000 pixels.
                assert!((held - interval).abs() < 0.008, "{chains}: {interval} holds {held}");
            }
            let even = 1.0 / (chains + 1) as f64;
            assert!(
                calibration.ranks.iter().all(|share| (share - even).abs() < 0.008),
                "{:?}",
                calibration.ranks
            );
            assert!((calibration.spread_over_error() - 1.0).abs() < 0.02);
            assert!(
                (calibration.spread - (0.2f64).sqrt()).abs() < 0.01,
                "{}",
                calibration.spread
            );
        }
    }

    #[test]
    fn draws_that_are_too_narrow_hold_fewer_truths_and_too_wide_ones_more() {
        // With many draws an interval of factor f holds 2·Phi(f·z) − 1, with z = 0.6745 for 50 %: 0.264 and 0.823. 39 draws do
        // not know their own quantiles quite.
        let narrow = of_gaussians(39, 0.5);
        assert!((narrow.coverage[0].held - 0.264).abs() < 0.02, "{:?}", narrow.coverage);
        assert!((narrow.spread_over_error() - 0.5).abs() < 0.02);
        let wide = of_gaussians(39, 2.0);
        assert!((0.77..0.823).contains(&wide.coverage[0].held), "{:?}", wide.coverage);
    }

    /// x ~ N(0, 1) once more, but pixels have noise of different strength: each bin's error is what its spread says.
    #[test]
    fn pixels_that_are_surer_have_smaller_errors_bin_by_bin() {
        let (pixels, chains) = (40_000, 60);
        let shape = ImageShape::new(1, 200, 200);
        let (x, noise) = (normals(1, pixels), normals(2, pixels));
        let sigma = |i: usize| [0.05, 0.1, 0.3, 1.0][i % 4];
        let mut draws = Vec::new();
        for chain in 0..chains {
            let fresh = normals(3 + chain as u64, pixels);
            draws.extend((0..pixels).map(|i| {
                let gain = 1.0 / (1.0 + sigma(i) * sigma(i));
                let y = f64::from(x[i]) + sigma(i) * f64::from(noise[i]);
                (gain * y + sigma(i) * gain.sqrt() * f64::from(fresh[i])) as f32
            }));
        }
        let calibration = Calibration::of(&Images::new(shape, draws), chains, &Images::new(shape, x)).unwrap();
        let bins = &calibration.by_spread;
        assert_eq!(bins.iter().map(|bin| bin.pixels).sum::<usize>(), pixels);
        assert!(bins.is_sorted_by(|a, b| a.spread < b.spread));
        for bin in bins.iter().filter(|bin| bin.pixels > 2000) {
            let ratio = calibration.expected_error(bin.spread) / bin.error;
            // Of 60 draws the spread is known to 9 %, so that a bin's edge holds some of its neighbours.
            assert!((ratio - 1.0).abs() < 0.1, "{bin:?}: {ratio}");
        }
        assert!(bins.last().unwrap().spread > 10.0 * bins[0].spread);
    }

    #[test]
    fn pixels_that_all_draws_agree_on_and_single_draws_say_nothing() {
        let shape = ImageShape::new(1, 1, 2);
        let truth = Images::new(shape, vec![0.0, 0.5]);
        let draws = Images::new(shape, vec![0.0, 0.2, 0.001, 0.5, 0.0, 0.9]);
        let calibration = Calibration::of(&draws, 3, &truth).unwrap();
        assert_eq!((calibration.pixels, calibration.share), (1, 0.5));
        // Below 0.5 lies one draw, and one is equal: the truth has rank 1 or 2.
        assert_eq!(calibration.ranks, [0.0, 0.5, 0.5, 0.0]);
        assert_eq!(Calibration::of(&truth, 1, &truth), None);
        let same = Images::new(shape, vec![0.1; 4]);
        assert_eq!(Calibration::of(&same, 2, &truth), None);
    }
}

//! P_G: the image G(z) that is nearest to a target, by Adam on z from a few random beginnings.

use qcs_kernels::philox::{Domain, Stream};
use rayon::prelude::*;

use crate::prior::{Generator, LANES, Lane};

/// Adam's, on z.
const RATE: f32 = 0.1;
const DECAYS: (f32, f32) = (0.9, 0.999);
const FLOOR: f32 = 1e-8;
/// The weight of ‖z‖² beside the mean squared distance of the pixels.
const WEIGHT: f32 = 0.001;

pub(super) struct Projector<'a> {
    pub generator: &'a Generator,
    pub steps: usize,
    pub restarts: usize,
    pub seed: u64,
}

/// A target and where its z begins: a lane of the work.
#[derive(Clone, Copy)]
struct Try {
    state: usize,
    restart: usize,
}

impl Projector<'_> {
    /// The projections of the targets; `keys` are image and chain of each, and `round` tells the projections of a state apart.
    /// No state's result depends on the others.
    pub fn project(&self, targets: &[Vec<f32>], keys: &[(u32, u32)], round: u32) -> Vec<Vec<f32>> {
        let tries: Vec<Try> = (0..targets.len())
            .flat_map(|state| (0..self.restarts).map(move |restart| Try { state, restart }))
            .collect();
        let start = |one: &Try| self.start(keys[one.state], round, one.restart as u32);
        let descend = |lanes: &[Try]| {
            let of = |one: &Try| (targets[one.state].as_slice(), start(one));
            self.descend(lanes.iter().map(of).collect())
        };
        let found: Vec<(f32, Vec<f32>)> =
            crate::pool::install(|| tries.par_chunks(LANES).flat_map_iter(descend).collect());
        let best = |of_state: &[(f32, Vec<f32>)]| {
            let least = of_state.iter().min_by(|a, b| a.0.total_cmp(&b.0));
            least.expect("a projection has a beginning").1.clone()
        };
        found.chunks(self.restarts).map(best).collect()
    }

    fn start(&self, (image, chain): (u32, u32), round: u32, restart: u32) -> Vec<f32> {
        let stream = Stream {
            seed: self.seed,
            domain: Domain::Start,
            image,
            chain,
            step: round * self.restarts as u32 + restart,
        };
        let mut z = vec![0.0; self.generator.latent()];
        stream.fill_normals(0, &mut z);
        z
    }

    /// Adam from each beginning: the objective at the end, and the image.
    fn descend(&self, lanes: Vec<(&[f32], Vec<f32>)>) -> Vec<(f32, Vec<f32>)> {
        let generator = self.generator;
        let (latent, pixels) = (generator.latent(), generator.image().len());
        // Lanes that nobody has repeat the last one.
        let lane = |index: usize| &lanes[index.min(lanes.len() - 1)];
        let target: Vec<Lane> = (0..pixels)
            .map(|pixel| std::array::from_fn(|l| lane(l).0[pixel]))
            .collect();
        let mut z: Vec<Lane> = (0..latent).map(|i| std::array::from_fn(|l| lane(l).1[i])).collect();
        let (mut first, mut second) = (vec![0.0f32; latent * LANES], vec![0.0f32; latent * LANES]);
        let mut values = generator.activations();
        let (mut of_images, mut of_latent) = (Vec::new(), Vec::new());
        for step in 1..=self.steps as i32 {
            generator.decode(&z, &mut values);
            of_images.clear();
            of_images.extend(values.images.iter().zip(&target).map(|(image, target)| {
                let slope: Lane = std::array::from_fn(|l| 2.0 / pixels as f32 * (image[l] - target[l]));
                slope
            }));
            generator.gradient(&values, &mut of_images, &mut of_latent);
            let (of_first, of_second) = (1.0 - DECAYS.0.powi(step), 1.0 - DECAYS.1.powi(step));
            let moments = first.iter_mut().zip(&mut second);
            let gradients = of_latent.as_flattened();
            for ((z, gradient), (first, second)) in z.as_flattened_mut().iter_mut().zip(gradients).zip(moments) {
                let gradient = gradient + 2.0 * WEIGHT * *z;
                *first = DECAYS.0 * *first + (1.0 - DECAYS.0) * gradient;
                *second = DECAYS.1 * *second + (1.0 - DECAYS.1) * gradient * gradient;
                *z -= RATE * (*first / of_first) / ((*second / of_second).sqrt() + FLOOR);
            }
        }
        generator.decode(&z, &mut values);
        let end = |l: usize| {
            let image: Vec<f32> = values.images.iter().map(|pixel| pixel[l]).collect();
            let squares: f32 = image
                .iter()
                .zip(&target)
                .map(|(image, target)| (image - target[l]).powi(2))
                .sum();
            let norm: f32 = z.iter().map(|z| z[l] * z[l]).sum();
            (squares / pixels as f32 + WEIGHT * norm, image)
        };
        (0..lanes.len()).map(end).collect()
    }
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;

    fn projector(generator: &Generator) -> Projector<'_> {
        Projector {
            generator,
            steps: 200,
            restarts: 2,
            seed: 7,
        }
    }

    /// The images of two latent vectors of modest length.
    fn drawn(generator: &Generator) -> Vec<Vec<f32>> {
        let z: Vec<Lane> = (0..generator.latent())
            .map(|i| std::array::from_fn(|l| ((i * 7 + l * 3) % 11) as f32 / 11.0 - 0.45))
            .collect();
        let mut values = generator.activations();
        generator.decode(&z, &mut values);
        (0..2)
            .map(|l| values.images.iter().map(|pixel| pixel[l]).collect())
            .collect()
    }

    #[test]
    fn an_image_of_the_generator_is_recovered() {
        let generator = Generator::find(Generator::SHIPPED).unwrap();
        let targets = drawn(&generator);
        let projected = projector(&generator).project(&targets, &[(0, 0), (1, 0)], 0);
        for (target, image) in targets.iter().zip(&projected) {
            let mean = |f: fn(f32, f32) -> f32| target.iter().zip(image).map(|(&t, &i)| f(t, i)).sum::<f32>() / 784.0;
            let (error, power) = (mean(|t, i| (t - i).powi(2)), mean(|t, _| t * t));
            assert!(error < 0.02 * power, "{error} of {power}");
        }
    }

    #[test]
    fn a_projection_depends_on_its_own_key_alone() {
        let generator = Generator::find(Generator::SHIPPED).unwrap();
        let projector = Projector {
            steps: 20,
            restarts: 3,
            ..projector(&generator)
        };
        let targets = drawn(&generator);
        let both = projector.project(&targets, &[(4, 0), (5, 1)], 2);
        assert_eq!(projector.project(&targets[1..], &[(5, 1)], 2), both[1..]);
        assert_ne!(projector.project(&targets[1..], &[(5, 2)], 2), both[1..]);
        assert_ne!(projector.project(&targets[1..], &[(5, 1)], 1), both[1..]);
    }
}

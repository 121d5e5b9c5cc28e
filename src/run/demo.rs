//! The demonstrations: ten digits from 400 one-bit measurements each, by every method, and a photograph.

use super::{Batch, MeasureConfig, RunConfig};
use crate::bundled;
use crate::methods::{self, LINEAR, TURBO};
use crate::problem::Measurements;

/// The demo: every method with the shipped prior and its own settings.
pub fn config() -> RunConfig {
    RunConfig {
        methods: methods::own().iter().map(|kind| kind.key().to_owned()).collect(),
        batch: Batch::Of(10),
        measure: Some(MeasureConfig {
            images: Some(bundled::DIGITS.to_owned()),
            matrix: Some("ill-conditioned".to_owned()),
            kappa: Some(1000.0),
            measurements: Some(Measurements::Count(400)),
            ..MeasureConfig::default()
        }),
        ..RunConfig::default()
    }
}

/// The other demo: a photograph from 2-bit measurements of half as many as it has values, by turbo with the prior for photographs, with
/// four draws; beside it what least squares makes of them. `images` is a file, or [`bundled::PHOTOGRAPH`].
pub fn photo(images: &str) -> RunConfig {
    RunConfig {
        model: bundled::PHOTO_PRIOR.to_owned(),
        methods: [LINEAR, TURBO].map(|kind| kind.key().to_owned()).to_vec(),
        chains: 4,
        batch: Batch::Of(4),
        measure: Some(MeasureConfig {
            images: Some(images.to_owned()),
            matrix: Some("hadamard".to_owned()),
            measurements: Some(Measurements::Share(0.5)),
            bits: Some(2),
            sigma: Some(0.02),
            ..MeasureConfig::default()
        }),
        ..RunConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_survives_toml() {
        for config in [config(), photo(bundled::PHOTOGRAPH)] {
            let text = config.to_toml().unwrap();
            assert_eq!(toml::from_str::<RunConfig>(&text).unwrap(), config, "{text}");
        }
    }
}

//! The demonstration: ten digits from 400 one-bit measurements each, by every method.

use super::{Batch, MeasureConfig, RunConfig};
use crate::bundled;
use crate::methods;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_survives_toml() {
        let text = config().to_toml().unwrap();
        assert_eq!(toml::from_str::<RunConfig>(&text).unwrap(), config(), "{text}");
    }
}

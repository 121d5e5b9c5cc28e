//! The prior that comes with the program: a U-Net trained on the MNIST training images.

use super::Prior;
use crate::{Result, bundled};

impl Prior {
    /// What names the shipped prior where a path could stand.
    pub const SHIPPED: &str = bundled::PRIOR;

    /// The shipped prior.
    ///
    /// # Errors
    /// If the build has none.
    pub fn shipped() -> Result<Self> {
        Self::from_bytes(Self::SHIPPED, bundled::file(Self::SHIPPED)?, None)
    }
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use crate::ImageShape;

    #[test]
    fn the_shipped_prior_loads_and_names_its_levels() {
        let prior = Prior::shipped().unwrap();
        assert_eq!(prior.image(), ImageShape::new(1, 28, 28));
        let schedule = prior.schedule.unwrap();
        assert_eq!((schedule.begin(), schedule.len()), (3.0, 60));
    }
}

//! The prior that comes with the program: a U-Net trained on the MNIST training images.

use super::Prior;
use crate::{ImageShape, Result, bundled};

impl Prior {
    /// What names the shipped prior where a path could stand.
    pub const SHIPPED: &str = bundled::PRIOR;

    /// The shipped prior.
    ///
    /// # Errors
    /// If the build has none.
    pub fn shipped() -> Result<Self> {
        Self::shipped_at(None)
    }

    /// The shipped prior for images of another size, if one is named.
    ///
    /// # Errors
    /// As [`Prior::shipped`], and as [`Prior::open`].
    pub fn shipped_at(image: Option<ImageShape>) -> Result<Self> {
        Self::from_bytes(Self::SHIPPED, bundled::file(Self::SHIPPED)?, image)
    }
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_prior_loads_and_names_its_levels() {
        let prior = Prior::shipped().unwrap();
        assert_eq!(prior.image(), ImageShape::new(1, 28, 28));
        let schedule = prior.schedule.unwrap();
        assert_eq!((schedule.begin(), schedule.len()), (3.0, 60));
    }
}

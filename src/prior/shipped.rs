//! The priors that come with the program: a U-Net trained on the MNIST training images, and one for photographs.

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
        Self::bundled(Self::SHIPPED, None)
    }

    /// A prior that comes with the program, by its name; `image` as for [`Prior::open`].
    ///
    /// ```
    /// # #[cfg(feature = "bundled")] {
    /// let photo = qcs::ImageShape::new(3, 240, 320);
    /// let prior = qcs::Prior::bundled(qcs::bundled::PHOTO_PRIOR, Some(photo))?;
    /// assert_eq!(prior.image(), photo);
    /// # }
    /// # Ok::<(), qcs::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the build has none of that name, and as [`Prior::open`].
    pub fn bundled(name: &str, image: Option<ImageShape>) -> Result<Self> {
        Self::from_bytes(name, bundled::file(name)?, image)
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

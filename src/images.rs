//! A batch of images as the whole program sees it: `[B, C, H, W]`, row-major, values in [0, 1].

/// Channels, height and width of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ImageShape {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl ImageShape {
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self {
            channels,
            height,
            width,
        }
    }

    /// N, the length of a flattened image.
    pub const fn len(&self) -> usize {
        self.channels * self.height * self.width
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Display for ImageShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.channels, self.height, self.width)
    }
}

impl std::str::FromStr for ImageShape {
    type Err = String;

    /// Reads what `Display` writes: "C,H,W".
    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Option<Vec<usize>> = text.split(',').map(|size| size.trim().parse().ok()).collect();
        match sizes.as_deref() {
            Some(&[channels @ 1..=4096, height @ 1..=65536, width @ 1..=65536]) => {
                Ok(Self::new(channels, height, width))
            }
            _ => Err(format!("{text:?} is not a shape: write C,H,W, for example 3,64,64")),
        }
    }
}

/// `count` images of one shape, flattened C, H, W row-major, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    pub shape: ImageShape,
    pub data: Vec<f32>,
}

impl Images {
    /// Panics if `data` does not hold whole images.
    pub fn new(shape: ImageShape, data: Vec<f32>) -> Self {
        assert!(
            !shape.is_empty() && data.len().is_multiple_of(shape.len()),
            "data must hold whole images"
        );
        Self { shape, data }
    }

    pub fn count(&self) -> usize {
        self.data.len() / self.shape.len()
    }

    pub fn image(&self, index: usize) -> &[f32] {
        let n = self.shape.len();
        &self.data[index * n..(index + 1) * n]
    }

    /// `count` of the images from `first` on.
    ///
    /// Panics if there are not so many.
    pub fn part(&self, first: usize, count: usize) -> Self {
        let n = self.shape.len();
        Self::new(self.shape, self.data[first * n..(first + count) * n].to_vec())
    }

    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact(self.shape.len())
    }
}

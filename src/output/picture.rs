//! A picture in memory: RGB, 8 bits each.

/// Red, green and blue.
pub type Colour = [u8; 3];

/// Pixels row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    pixels: Vec<Colour>,
}

impl Picture {
    /// Every pixel in one colour.
    pub fn filled(width: u32, height: u32, colour: Colour) -> Self {
        Self::from_fn(width, height, |_, _| colour)
    }

    /// Each pixel as `colour` gives it for its column and row.
    pub fn from_fn(width: u32, height: u32, colour: impl Fn(u32, u32) -> Colour) -> Self {
        let row = |y| (0..width).map(move |x| (x, y));
        Self {
            width,
            height,
            pixels: (0..height).flat_map(row).map(|(x, y)| colour(x, y)).collect(),
        }
    }

    pub fn width(&self) -> u32 {
        self.width
    }

    pub fn height(&self) -> u32 {
        self.height
    }

    /// All pixels, row by row.
    pub fn pixels(&self) -> &[Colour] {
        &self.pixels
    }

    /// The pixel at column `x` and row `y`, if there is one.
    pub fn pixel_mut(&mut self, x: u32, y: u32) -> Option<&mut Colour> {
        let inside = x < self.width && y < self.height;
        inside.then(|| &mut self.pixels[y as usize * self.width as usize + x as usize])
    }
}

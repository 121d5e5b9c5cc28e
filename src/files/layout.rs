//! Which axis of an array counts images, channels, rows and columns.

use super::npy_header::shape_text;
use crate::ImageShape;

/// How an array is to be read as `count` images of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub count: usize,
    pub shape: ImageShape,
    /// Values of a pixel lie side by side (`[.., H, W, C]`) instead of plane by plane.
    pub channels_last: bool,
}

/// A side shorter than this is taken for a channel axis rather than for an image's side.
const SHORTEST_SIDE: usize = 4;

impl Layout {
    /// Reads the axes off an array's shape; `expected` decides where the shape alone does not.
    pub fn of(array: &[usize], expected: Option<ImageShape>) -> Result<Self, String> {
        let mut readings = Self::readings(array);
        if let Some(expected) = expected {
            readings.extend(Self::flat(array, expected));
            readings.retain(|reading| reading.shape == expected);
        } else if readings.len() > 1 {
            readings.retain(|reading| reading.shape.height.min(reading.shape.width) >= SHORTEST_SIDE);
        }
        let text = shape_text(array);
        match (readings.as_slice(), expected) {
            (&[reading], _) => Ok(reading),
            (_, Some(expected)) => Err(format!(
                "has shape {text}, which is no batch of images of shape {expected} (C,H,W)"
            )),
            ([], None) => Err(format!(
                "has shape {text}, which is no batch of grey or RGB images: save it as [B,C,H,W] with C = 1 or 3"
            )),
            (_, None) => Err(format!(
                "has the ambiguous shape {text}: save it as [B,C,H,W] with C = 1 or 3"
            )),
        }
    }

    /// Every reading of the shape as grey or RGB images that are not empty.
    fn readings(array: &[usize]) -> Vec<Self> {
        let reading = |count, channels, height, width, channels_last| Self {
            count,
            shape: ImageShape::new(channels, height, width),
            channels_last,
        };
        let candidates = match *array {
            [b, h, w] if b != 3 => vec![reading(b, 1, h, w, false), reading(1, w, b, h, true)],
            [b, h, w] => vec![
                reading(b, 1, h, w, false),
                reading(1, 3, h, w, false),
                reading(1, w, b, h, true),
            ],
            [b, p, q, r] => vec![reading(b, p, q, r, false), reading(b, r, p, q, true)],
            _ => vec![],
        };
        candidates
            .into_iter()
            .filter(|reading| matches!(reading.shape.channels, 1 | 3) && !reading.shape.is_empty())
            .collect()
    }

    /// Flattened images `[B, N]`, or one grey image `[H, W]`: only readable with the shape in hand.
    fn flat(array: &[usize], expected: ImageShape) -> Option<Self> {
        let count = match *array {
            [b, n] if n == expected.len() => b,
            [h, w] if expected == ImageShape::new(1, h, w) => 1,
            _ => return None,
        };
        Some(Self {
            count,
            shape: expected,
            channels_last: false,
        })
    }

    /// Appends image `index` of `values` to `planes` as `[C, H, W]`, each value converted.
    pub fn append<T: Copy>(&self, index: usize, values: &[T], convert: impl Fn(T) -> f32, planes: &mut Vec<f32>) {
        let n = self.shape.len();
        let image = &values[index * n..(index + 1) * n];
        if self.channels_last {
            let channels = self.shape.channels;
            for channel in 0..channels {
                planes.extend(image[channel..].iter().step_by(channels).map(|&v| convert(v)));
            }
        } else {
            planes.extend(image.iter().map(|&v| convert(v)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(array: &[usize]) -> (usize, ImageShape, bool) {
        let layout = Layout::of(array, None).unwrap();
        (layout.count, layout.shape, layout.channels_last)
    }

    #[test]
    fn the_channel_axis_is_found_on_either_side() {
        let (grey, rgb) = (ImageShape::new(1, 28, 28), ImageShape::new(3, 32, 30));
        assert_eq!(read(&[10, 28, 28]), (10, grey, false));
        assert_eq!(read(&[10, 1, 28, 28]), (10, grey, false));
        assert_eq!(read(&[10, 28, 28, 1]), (10, grey, true));
        assert_eq!(read(&[10, 3, 32, 30]), (10, rgb, false));
        assert_eq!(read(&[10, 32, 30, 3]), (10, rgb, true));
        assert_eq!(read(&[1, 28, 28]), (1, grey, false));
        assert_eq!(read(&[32, 30, 3]), (1, rgb, true));
    }

    #[test]
    fn an_ambiguous_shape_is_refused_until_the_expected_shape_decides() {
        let array = [3, 28, 28];
        assert!(Layout::of(&array, None).unwrap_err().contains("ambiguous"));
        let one = Layout::of(&array, Some(ImageShape::new(3, 28, 28))).unwrap();
        let three = Layout::of(&array, Some(ImageShape::new(1, 28, 28))).unwrap();
        assert_eq!((one.count, three.count), (1, 3));
    }

    #[test]
    fn flattened_images_need_the_expected_shape() {
        let grey = ImageShape::new(1, 28, 28);
        assert!(Layout::of(&[5, 784], None).is_err());
        assert_eq!(Layout::of(&[5, 784], Some(grey)).unwrap().count, 5);
        assert_eq!(Layout::of(&[28, 28], Some(grey)).unwrap().count, 1);
    }

    #[test]
    fn shapes_that_are_no_images_are_refused() {
        for array in [&[][..], &[7], &[10, 4, 32, 32], &[2, 3, 4, 5, 6], &[10, 0, 28]] {
            assert!(Layout::of(array, None).is_err(), "{array:?}");
        }
    }

    #[test]
    fn pixels_side_by_side_become_planes() {
        let layout = Layout::of(&[2, 4, 4, 3], None).unwrap();
        let values: Vec<u8> = (0..96).collect();
        let mut planes = Vec::new();
        layout.append(1, &values, f32::from, &mut planes);
        assert_eq!(planes[..3], [48.0, 51.0, 54.0]);
        assert_eq!(planes[16], 49.0);
        assert_eq!(planes[47], 95.0);
    }
}
